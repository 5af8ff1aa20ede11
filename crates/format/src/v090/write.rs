//! From a [`Superblock`] to the words of version 0.90.

use uraid_types::{Layout, SECTOR_BYTES, Sector};

use super::table;
use super::words::{Words, at, state};
use crate::raw::SUPER_MAGIC;
use crate::{Role, Superblock};

/// Resync positions go up to this: they have 32 bits. Rounded down, a resync does a little twice.
const MAX_RESYNC: u64 = u32::MAX as u64 & !7;

/// The words of a superblock that was on no member before.
pub(crate) fn new(superblock: &Superblock) -> Words {
    let mut words = Words::new(superblock.byte_order);
    words.set(at::MAGIC, SUPER_MAGIC);
    words.set(at::MINOR_VERSION, 90);
    write(&mut words, None, superblock);
    words
}

/// Puts into the words what differs between `old` and `new`, or all of `new`.
///
/// # Panics
/// When the used size or the chunk is beyond what version 0.90 counts: a broken invariant of the caller's.
pub(crate) fn write(words: &mut Words, old: Option<&Superblock>, new: &Superblock) {
    write_array_fields(words, old, new);
    words.set(at::UTIME, new.updated_seconds as u32);
    words.set_u64(at::EVENTS, new.events);
    let mut bits = words.get(at::STATE) & !(state::CLEAN | state::BITMAP_PRESENT);
    if new.bitmap_offset.is_some() {
        bits |= state::BITMAP_PRESENT;
    }
    if new.resync_offset.is_none() {
        bits |= state::CLEAN;
    }
    words.set(at::STATE, bits);
    if differs(old, new, |sb| (sb.resync_offset, sb.events)) {
        // A position counts at the events at which it was recorded; an array that is being written has none.
        let position = match new.resync_offset {
            None => Some(u32::MAX),
            Some(Sector(0)) => None,
            Some(at) => Some(at.0.min(MAX_RESYNC) as u32),
        };
        if position.is_some() {
            words.set_u64(at::CP_EVENTS, new.events);
        }
        words.set(at::RECOVERY_CP, position.unwrap_or(0));
    }
    let table = |sb: &Superblock| {
        let roles: Vec<Role> = sb.roles.clone();
        (roles, sb.dev_number, sb.raid_disks, sb.flags, sb.recovery_offset.is_some())
    };
    if differs(old, new, table) {
        table::write(words, new);
    }
}

fn write_array_fields(words: &mut Words, old: Option<&Superblock>, new: &Superblock) {
    if differs(old, new, |sb| sb.array_id) {
        let id = new.array_id.as_u128();
        words.set(at::SET_UUID0, (id >> 96) as u32);
        for index in 0..3 {
            words.set(at::SET_UUID1 + index, (id >> (64 - 32 * index)) as u32);
        }
    }
    words.set(at::CTIME, new.created_seconds as u32);
    words.set(at::LEVEL, new.level.md_number().cast_unsigned());
    if differs(old, new, |sb| sb.used_size) {
        words.set(at::SIZE, u32::try_from(new.used_size.0 / 2).expect("version 0.90 counts the used size in 32 bits of KiB"));
    }
    words.set(at::RAID_DISKS, u32::from(new.raid_disks));
    words.set(at::MD_MINOR, new.preferred_minor);
    if differs(old, new, |sb| sb.reshape) {
        words.set(at::MINOR_VERSION, if new.reshape.is_some() { 91 } else { 90 });
    }
    if let Some(reshape) = new.reshape {
        words.set_u64(at::RESHAPE_POSITION, reshape.position.0);
        words.set(at::NEW_LEVEL, new.level.md_number().cast_unsigned());
        words.set(at::DELTA_DISKS, reshape.delta_disks.cast_unsigned());
        words.set(at::NEW_LAYOUT, reshape.new_layout.md_number(new.level));
        words.set(at::NEW_CHUNK, (reshape.new_chunk.0 * SECTOR_BYTES) as u32);
    }
    if differs(old, new, |sb| (sb.level, sb.layout)) {
        let number = if matches!(new.layout, Layout::Raid0(_)) { 0 } else { new.layout.md_number(new.level) };
        words.set(at::LAYOUT, number);
    }
    let chunk_bytes = new.chunk.0 * SECTOR_BYTES;
    words.set(at::CHUNK_SIZE, u32::try_from(chunk_bytes).expect("version 0.90 counts a chunk in 32 bits of bytes"));
}

/// Is what `part` sees new?
fn differs<T: PartialEq>(old: Option<&Superblock>, new: &Superblock, part: impl Fn(&Superblock) -> T) -> bool {
    old.is_none_or(|old| part(old) != part(new))
}
