//! Looking at a member: its superblock, bitmap, bad-block log and partial parity log. Never writes.

mod ppl;

use std::fmt;
use std::sync::Arc;

use uraid_device::{Device, DeviceError};
use uraid_format::{
    BITMAP_SUPER_BYTES, Bitmap, BitmapError, BitmapSuper, Feature, MetadataVersion, PartitionError, PplError, RawSuper,
    SUPER_BYTES, SuperError, Superblock, parse_bad_blocks, super_offsets,
};
use uraid_types::{SECTOR_BYTES, Sector, SectorCount};

use crate::probe::bytes_at;
use crate::{Refused, RefusedReason, Signature, partition_members, partitions, signature};

use ppl::read_ppl;

pub use ppl::FoundPpl;

/// A member with a valid superblock.
#[derive(Clone)]
pub struct Candidate {
    /// The member.
    pub device: Arc<dyn Device>,
    /// Its superblock.
    pub raw: RawSuper,
    /// Its bitmap, where the superblock names one and it can be used.
    pub bitmap: Option<FoundBitmap>,
    /// Why the bitmap that the superblock names cannot be used.
    pub bitmap_problem: Option<BitmapError>,
    /// Member sectors (from the member's start, not its data) whose data is lost.
    pub bad_blocks: Vec<(Sector, SectorCount)>,
    /// Its partial parity log, where the superblock names one: the newest, or what is wrong with it.
    pub ppl: Option<Result<FoundPpl, PplError>>,
}

/// A bitmap of a version that uraid reads and writes.
#[derive(Clone, Debug)]
pub struct FoundBitmap {
    /// Its superblock.
    pub superblock: BitmapSuper,
    /// Its bits.
    pub bits: Bitmap,
}

impl Candidate {
    /// The member's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.info().name
    }

    /// What its superblock says.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.raw.superblock()
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let superblock = self.superblock();
        write!(f, "Candidate({}, {:?}, {} events)", self.name(), superblock.own_role(), superblock.events)
    }
}

/// Reads the metadata of one member: the superblock wherever it may lie, then the bitmap and the logs that it names.
///
/// Where several superblocks are valid and of one array (the remains of another version), the newest by events and update time
/// counts.
///
/// # Errors
/// [`Refused`] says why this is no member that can be used.
pub fn scan(device: Arc<dyn Device>) -> Result<Candidate, Refused> {
    let read = || {
        let raw = find_superblock(&*device)?;
        let (bitmap, bitmap_problem) = match read_bitmap(&*device, raw.superblock())? {
            None => (None, None),
            Some(Ok(found)) => (Some(found), None),
            Some(Err(problem)) => (None, Some(problem)),
        };
        let bad_blocks = read_bad_blocks(&*device, raw.superblock())?;
        let ppl = read_ppl(&*device, raw.superblock()).map_err(RefusedReason::Unreadable)?;
        Ok((raw, bitmap, bitmap_problem, bad_blocks, ppl))
    };
    match read() {
        Ok((raw, bitmap, bitmap_problem, bad_blocks, ppl)) => {
            Ok(Candidate { device, raw, bitmap, bitmap_problem, bad_blocks, ppl })
        }
        Err(reason) => {
            let reason = in_partitions(&device, &reason).unwrap_or(reason);
            Err(Refused { name: device.info().name.clone(), reason })
        }
    }
}

/// Where a disk has no metadata of its own: is it in its partitions? The last one's may look like the disk's, misplaced.
fn in_partitions(device: &Arc<dyn Device>, reason: &RefusedReason) -> Option<RefusedReason> {
    let is_table = |found: &Signature| found.kind.contains("partition table");
    let on_top = match reason {
        RefusedReason::NoSuperblock { found } => found.as_ref().is_none_or(is_table),
        RefusedReason::Superblock(_) => true,
        _ => false,
    };
    if !on_top {
        return None;
    }
    let has_superblock = matches!(reason, RefusedReason::Superblock(_));
    match partitions(&**device) {
        Ok(Some(table)) => {
            let carries =
                |member: &Arc<dyn Device>| signature(&**member).is_ok_and(|found| found.is_some_and(|found| found.is_array()));
            let members = partition_members(device, &table).into_iter().filter(carries);
            let members: Vec<String> = members.map(|member| member.info().name.clone()).collect();
            let table = table.kind.name();
            (!members.is_empty() || !has_superblock).then_some(RefusedReason::InPartitions { table, members })
        }
        Ok(None) => None,
        Err(PartitionError::Read(error)) => Some(RefusedReason::Unreadable(error)),
        Err(error) if !has_superblock => Some(RefusedReason::PartitionTable(error.to_string())),
        Err(_) => None,
    }
}

fn member_sectors(device: &dyn Device) -> SectorCount {
    SectorCount::floor_bytes(device.info().size_bytes)
}

/// All valid superblocks, in the order in which a member is looked through.
pub(crate) fn superblocks(device: &dyn Device) -> Result<Vec<RawSuper>, DeviceError> {
    look_for_superblocks(device).map(|(valid, _)| valid)
}

/// All valid superblocks, and what is wrong with the first that is not.
fn look_for_superblocks(device: &dyn Device) -> Result<(Vec<RawSuper>, Option<SuperError>), DeviceError> {
    let member = member_sectors(device);
    let mut valid: Vec<RawSuper> = Vec::new();
    let mut broken = None;
    for (_, at) in super_offsets(device.info().size_bytes) {
        let bytes = bytes_at(device, at, SUPER_BYTES as u64)?;
        match RawSuper::parse(&bytes, Sector(at / SECTOR_BYTES), member) {
            Ok(raw) => valid.push(raw),
            Err(error) if error.is_absent() => {}
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    Ok((valid, broken))
}

/// The superblock, wherever it is.
fn find_superblock(device: &dyn Device) -> Result<RawSuper, RefusedReason> {
    let (mut valid, broken) = look_for_superblocks(device).map_err(RefusedReason::Unreadable)?;
    drop_replaced(&mut valid);
    if let [first, rest @ ..] = &valid[..]
        && let Some(other) = rest.iter().find(|other| other.superblock().array_id != first.superblock().array_id)
    {
        let (first, second) = (first.superblock(), other.superblock());
        return Err(RefusedReason::TwoSuperblocks {
            first: first.array_id,
            first_byte: first.super_offset.byte_offset(),
            second: second.array_id,
            second_byte: second.super_offset.byte_offset(),
        });
    }
    let age = |raw: &RawSuper| {
        let superblock = raw.superblock();
        (superblock.events, superblock.updated_seconds, superblock.updated_micros)
    };
    match (valid.into_iter().max_by_key(age), broken) {
        (Some(newest), _) => Ok(newest),
        (None, Some(error)) => Err(RefusedReason::Superblock(error)),
        (None, None) => Err(nothing_found(device)),
    }
}

/// A 0.90 superblock beside one of version 1 that is no older is what a conversion or a new array left behind: mdadm goes by the
/// creation time too.
fn drop_replaced(valid: &mut Vec<RawSuper>) {
    let is_old = |raw: &RawSuper| raw.superblock().version == MetadataVersion::V0_90;
    let newest = valid.iter().filter(|raw| !is_old(raw)).map(|raw| raw.superblock().created_seconds).max();
    valid.retain(|raw| !is_old(raw) || newest.is_none_or(|newest| newest < raw.superblock().created_seconds));
}

/// What is there instead of a superblock.
fn nothing_found(device: &dyn Device) -> RefusedReason {
    signature(device).map_or_else(RefusedReason::Unreadable, |found| RefusedReason::NoSuperblock { found })
}

/// The bitmap that the superblock names: a usable one, or why it is not.
fn read_bitmap(device: &dyn Device, superblock: &Superblock) -> Result<Option<Result<FoundBitmap, BitmapError>>, RefusedReason> {
    let Some(start) = superblock.bitmap_start() else { return Ok(None) };
    let start_byte = start.0.saturating_mul(SECTOR_BYTES);
    let head = bytes_at(device, start_byte, BITMAP_SUPER_BYTES as u64).map_err(RefusedReason::Unreadable)?;
    let usable =
        BitmapSuper::parse(&head, start).and_then(|found| found.check_usable(superblock, member_sectors(device)).map(|()| found));
    let found = match usable {
        Ok(found) => found,
        Err(problem) => return Ok(Some(Err(problem))),
    };
    let bytes = bytes_at(device, start_byte + BITMAP_SUPER_BYTES as u64, found.bits().div_ceil(8));
    let bits = Bitmap::from_bytes(found.bits(), &bytes.map_err(RefusedReason::Unreadable)?);
    Ok(Some(bits.map(|bits| FoundBitmap { superblock: found, bits })))
}

fn read_bad_blocks(device: &dyn Device, superblock: &Superblock) -> Result<Vec<(Sector, SectorCount)>, RefusedReason> {
    // Without the feature bit nothing was ever recorded, and md does not look at the log's place either.
    if !superblock.has(Feature::BadBlocks) {
        return Ok(Vec::new());
    }
    let Some((start, len)) = superblock.bad_block_log() else { return Ok(Vec::new()) };
    let log = bytes_at(device, start.byte_offset(), len.bytes()).map_err(RefusedReason::Unreadable)?;
    parse_bad_blocks(&log, superblock.bad_block_shift).map_err(RefusedReason::BadBlockLog)
}

#[cfg(test)]
mod tests;
