//! The bitmaps of all members as one.

use uraid_engine::BitmapConfig;
use uraid_format::{Bitmap, BitmapSuper, bits_for};
use uraid_types::SectorCount;

use crate::Candidate;

/// What the members' bitmaps say together.
pub(super) struct Merged {
    /// The newest bitmap's superblock, its size set to the array's.
    pub superblock: BitmapSuper,
    /// Every bit that is set on any member.
    pub bits: Bitmap,
    /// May it be believed?
    pub current: bool,
}

impl Merged {
    /// Puts together the bitmaps of `members`, which are the active ones, for an array of `resync_sectors` at `events`; `None`
    /// when none of them has a usable one.
    ///
    /// md's rule: a bitmap that is older than the superblocks has missed writes, and counts as all set. So does one that a failed
    /// write marked as stale.
    pub fn of(members: &[&Candidate], resync_sectors: SectorCount, events: u64) -> Option<Merged> {
        let found = || members.iter().filter_map(|member| member.bitmap.as_ref());
        let newest = found().max_by_key(|bitmap| bitmap.superblock.events)?;
        let is_current = newest.superblock.events >= events && !newest.superblock.is_stale();
        let chunk_bytes = newest.superblock.chunk_bytes;
        let count = bits_for(resync_sectors, chunk_bytes);
        let mut bits = if is_current { Bitmap::new_clean(count) } else { Bitmap::new_dirty(count) };
        // An active member may be one update behind: what its bits say too much costs a little resync, no more.
        for bitmap in found().filter(|_| is_current) {
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
