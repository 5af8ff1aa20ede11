//! A superblock in another version of the metadata. The data does not move.

use core::ops::Range;

use uraid_types::{Level, SECTOR_BYTES, Sector, SectorCount};
use uuid::Uuid;

use crate::create::MemberArea;
use crate::locate::{SUPER_SECTORS, super_sector};
use crate::{ByteOrder, Feature, MetadataVersion, RawSuper, Role, SuperError, Superblock};

/// Sectors of a bad-block log that is made anew.
const LOG_SECTORS: u64 = 8;

/// A superblock converted, and what goes with it.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The new superblock; [`RawSuper::to_bytes`] goes to [`Superblock::super_offset`].
    pub superblock: RawSuper,
    /// An empty bad-block log in a new place; `None` where the old one stays, or there is room for none.
    pub bad_block_log: Option<MemberArea>,
    /// The bytes of the old superblock, to be filled with zeros once the new one is durable.
    pub old_superblock: Range<u64>,
}

/// Why a superblock cannot be had in another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// There is no way.
    #[error("metadata {} cannot become {}: 0.90 becomes 1.0, and 1.0, 1.1 and 1.2 each other", .from.name(), .to.name())]
    Versions {
        /// What it is.
        from: MetadataVersion,
        /// What it was to be.
        to: MetadataVersion,
    },
    /// The array is in the middle of something, or has something that does not convert.
    #[error("{field} at byte {member_byte} says that {what}; {next}")]
    State {
        /// The field, by the name in `linux/raid/md_p.h`.
        field: &'static str,
        /// Where it lies on the member.
        member_byte: u64,
        /// What it says.
        what: &'static str,
        /// What to do about it.
        next: &'static str,
    },
    /// No room for the superblock, since the data stays where it is.
    #[error(
        "the superblock of metadata {} takes sectors {} to {} of the member, but its data lies at {} to {} and does not move; \
         choose another version", .to.name(), place.start, place.end, data.start, data.end
    )]
    NoRoom {
        /// The version.
        to: MetadataVersion,
        /// Sectors that the superblock needs.
        place: Range<u64>,
        /// Sectors of data in use.
        data: Range<u64>,
    },
    /// The member is too small for a superblock there.
    #[error("the member has {sectors} sectors, too few for metadata {}", .to.name())]
    TooSmall {
        /// The version.
        to: MetadataVersion,
        /// Its size.
        sectors: u64,
    },
    /// What came out would not be taken.
    #[error("the converted superblock would be wrong: {0}")]
    Wrong(SuperError),
}

/// The superblock of a member of `member` sectors in version `to`. Events, times and the array's UUID stay; a member from 0.90
/// gets `device_id` for a UUID, and its array the number of its md device for a name.
///
/// With `drop_bitmap` the bitmap is left behind; it is kept only where it can stay in its place.
///
/// # Errors
/// [`ConvertError`]; an array that is not at rest, clean and whole is refused.
pub fn convert(
    raw: &RawSuper,
    to: MetadataVersion,
    member: SectorCount,
    device_id: Uuid,
    drop_bitmap: bool,
) -> Result<Converted, ConvertError> {
    let old = raw.superblock();
    let at_end = |version| matches!(version, MetadataVersion::V1_0);
    match (old.version, to) {
        (from, to) if from == to => return Err(ConvertError::Versions { from, to }),
        (_, MetadataVersion::V0_90) => return Err(ConvertError::Versions { from: old.version, to }),
        (MetadataVersion::V0_90, to) if !at_end(to) => return Err(ConvertError::Versions { from: old.version, to }),
        _ => {}
    }
    check_state(old)?;
    let at = super_sector(to, member).ok_or(ConvertError::TooSmall { to, sectors: member.0 })?;
    let place = at.0..at.0 + SUPER_SECTORS;
    let used = used_data(old);
    if !clear(&place, &used) {
        return Err(ConvertError::NoRoom { to, place, data: used });
    }
    let bitmap = old.bitmap_start().filter(|_| !drop_bitmap);
    if let Some(start) = bitmap
        && (old.version == MetadataVersion::V0_90 || at_end(to) || at_end(old.version) || place.contains(&start.0))
    {
        return Err(state(old, "bitmap_offset", 96, "there is a bitmap where it cannot stay", DROP_BITMAP));
    }
    let mut new = old.clone();
    (new.version, new.super_offset, new.byte_order) = (to, at, ByteOrder::Little);
    new.bitmap_offset = bitmap.map(|start| (start.0 as i64 - at.0 as i64) as i32);
    let bad_block_log = place_log(&mut new, old, &used, bitmap.is_some())?;
    // What the data area loses is not in use.
    let log = new.bad_block_log().map_or(u64::MAX, |(start, _)| start.0);
    let ends = [at.0, log].into_iter().filter(|&start| start >= used.end);
    let end = ends.fold(old.data_offset.0 + old.data_size.0, u64::min);
    new.data_size = SectorCount(end - old.data_offset.0);
    let superblock = if old.version == MetadataVersion::V0_90 {
        new.device_id = device_id;
        new.name = old.preferred_minor.to_string().into_bytes();
        new.preferred_minor = 0;
        RawSuper::from_new(new)
    } else {
        let mut raw = raw.clone();
        raw.update(|superblock| *superblock = new);
        raw
    };
    RawSuper::parse(&superblock.to_bytes(), at, member).map_err(ConvertError::Wrong)?;
    let old_start = old.super_offset.byte_offset();
    Ok(Converted { superblock, bad_block_log, old_superblock: old_start..old_start + raw.to_bytes().len() as u64 })
}

const DROP_BITMAP: &str = "convert with --bitmap=none, and add a bitmap again afterwards";

fn state(old: &Superblock, field: &'static str, offset: u64, what: &'static str, next: &'static str) -> ConvertError {
    // Version 0.90 has its own places, of which the superblock's start has to do.
    let offset = if old.version == MetadataVersion::V0_90 { 0 } else { offset };
    ConvertError::State { field, member_byte: old.super_offset.byte_offset() + offset, what, next }
}

/// Only members of an array at rest convert.
fn check_state(old: &Superblock) -> Result<(), ConvertError> {
    let fail = |field, offset, what, next| Err(state(old, field, offset, what, next));
    if old.reshape.is_some() {
        return fail("feature_map", 8, "the array is being reshaped", "let the kernel's md finish that first");
    }
    if old.ppl.is_some() {
        return fail("feature_map", 8, "there is a partial parity log", "drop it first: resync --consistency-policy=resync");
    }
    if old.has(Feature::Journal) || old.journal_tail.is_some() {
        return fail("feature_map", 8, "there is a journal", "let the kernel's md remove it first");
    }
    if old.recovery_offset.is_some() || old.has(Feature::Replacement) || old.has(Feature::RecoveryBitmap) {
        return fail("recovery_offset", 152, "the member is being recovered", "let the recovery end first: resync");
    }
    if old.resync_offset.is_some() && old.level.is_redundant() {
        return fail("resync_offset", 208, "the array was not stopped cleanly", "resync it first");
    }
    if old.own_role() == Role::Faulty {
        return fail("dev_roles", 256, "the member is no part of the array", "leave it out");
    }
    Ok(())
}

/// Sectors of the member that hold data: of all its room what the level uses.
fn used_data(old: &Superblock) -> Range<u64> {
    let len = match old.level {
        level if level.is_redundant() => old.used_size,
        Level::Raid0 if old.chunk.0 > 0 => old.data_size.round_down(old.chunk),
        _ => old.data_size,
    };
    old.data_offset.0..old.data_offset.0 + len.0
}

fn clear(area: &Range<u64>, other: &Range<u64>) -> bool {
    area.end <= other.start || area.start >= other.end
}

/// Keeps the bad-block log where it is, or makes an empty one beside the new superblock, or does without.
fn place_log(
    new: &mut Superblock,
    old: &Superblock,
    used: &Range<u64>,
    has_bitmap: bool,
) -> Result<Option<MemberArea>, ConvertError> {
    let at = new.super_offset.0;
    let place = at..at + SUPER_SECTORS;
    let same_end = (old.version == MetadataVersion::V1_0) == (new.version == MetadataVersion::V1_0);
    if let Some((start, len)) = old.bad_block_log()
        && same_end
        && clear(&(start.0..start.0 + len.0), &place)
    {
        new.bad_block_offset = (start.0 as i64 - at as i64) as i32;
        return Ok(None);
    }
    if old.has(Feature::BadBlocks) {
        let what = "bad blocks are recorded in a log that cannot stay where it is";
        return Err(state(
            old,
            "bblog_offset",
            188,
            what,
            "repair the array, so that none is recorded, or choose another version",
        ));
    }
    let wanted = if new.version == MetadataVersion::V1_0 { at.checked_sub(LOG_SECTORS) } else { Some(place.end) };
    let room = |start: &u64| {
        let area = *start..*start + LOG_SECTORS;
        let within = if new.version == MetadataVersion::V1_0 { area.start >= used.end } else { area.end <= used.start };
        within && !has_bitmap
    };
    let Some(start) = wanted.filter(room) else {
        (new.bad_block_sectors, new.bad_block_offset, new.bad_block_shift) = (0, 0, 0);
        return Ok(None);
    };
    new.bad_block_shift = 0;
    new.bad_block_sectors = LOG_SECTORS as u16;
    new.bad_block_offset = (start as i64 - at as i64) as i32;
    let bytes = vec![0xff; (LOG_SECTORS * SECTOR_BYTES) as usize];
    Ok(Some(MemberArea { start_byte: Sector(start).byte_offset(), bytes }))
}
