//! The bitmaps of all members as one.

use uraid_engine::BitmapConfig;
use uraid_format::{Bitmap, BitmapSuper, Superblock, bits_for};
use uraid_types::{Sector, SectorCount};

use super::start::redundant_geometry;
use crate::{Candidate, FoundBitmap};

/// Where an array's bitmap is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bitmaps<'a> {
    /// On its members, where their superblocks name one.
    OfMembers,
    /// In a file of its own.
    File(&'a FoundBitmap),
    /// Nowhere: what the members have is dropped.
    None,
}

impl Bitmaps<'_> {
    /// What the bitmap says of the array of `newest`, whose members `whole` are; `None` without one that is the array's.
    pub fn merged(self, newest: &Superblock, whole: &[&Candidate]) -> Option<Merged> {
        let of_members: Vec<&FoundBitmap>;
        let found: &[&FoundBitmap] = match &self {
            Bitmaps::File(found) => match found.superblock.check_array(newest, Sector(0)) {
                Ok(()) => &[*found],
                Err(_) => return None,
            },
            Bitmaps::OfMembers if newest.bitmap_offset.is_some() => {
                of_members = whole.iter().filter_map(|member| member.bitmap.as_ref()).collect();
                &of_members
            }
            Bitmaps::OfMembers | Bitmaps::None => return None,
        };
        if !newest.level.is_redundant() {
            return None;
        }
        Merged::of(found, redundant_geometry(newest).ok()?.resync_sectors(), newest.events)
    }
}

/// What the bitmaps say together.
pub(super) struct Merged {
    /// The newest bitmap's superblock, its size set to the array's.
    pub superblock: BitmapSuper,
    /// Every bit that is set on any member.
    pub bits: Bitmap,
    /// May it be believed?
    pub current: bool,
}

impl Merged {
    /// Puts together the bitmaps `found`, those of the active members or a file's, for an array of `resync_sectors` at `events`;
    /// `None` when there are none.
    ///
    /// md's rule: a bitmap that is older than the superblocks has missed writes, and counts as all set. So does one that a failed
    /// write marked as stale.
    fn of(found: &[&FoundBitmap], resync_sectors: SectorCount, events: u64) -> Option<Merged> {
        let newest = found.iter().max_by_key(|bitmap| bitmap.superblock.events)?;
        let is_current = newest.superblock.events >= events && !newest.superblock.is_stale();
        let chunk_bytes = newest.superblock.chunk_bytes;
        let count = bits_for(resync_sectors, chunk_bytes);
        let mut bits = if is_current { Bitmap::new_clean(count) } else { Bitmap::new_dirty(count) };
        // An active member may be one update behind: what its bits say too much costs a little resync, no more.
        for bitmap in found.iter().filter(|_| is_current) {
            if bitmap.superblock.chunk_bytes != chunk_bytes || bitmap.superblock.is_stale() {
                bits.set_range(0..count);
            }
            for range in bitmap.bits.dirty_ranges() {
                bits.set_range(range.start.min(count)..range.end.min(count));
            }
            // An array that has grown since: what the bits do not reach is not known to be clean.
            bits.set_range(bitmap.bits.len().min(count)..count);
        }
        let mut superblock = newest.superblock.clone();
        superblock.sync_size = resync_sectors;
        Some(Merged { superblock, bits, current: is_current })
    }

    /// For the engine.
    pub fn config(&self) -> BitmapConfig {
        BitmapConfig {
            sectors_per_bit: self.superblock.chunk().0,
            bits: self.bits.len(),
            set: self.bits.dirty_ranges().flatten().collect(),
            current: self.current,
        }
    }

    /// Does it know all that a member missed which left at `events`?
    pub fn covers(&self, events: u64) -> bool {
        self.current && events >= self.superblock.events_cleared
    }
}
