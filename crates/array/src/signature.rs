//! What a disk carries besides what one looks for: file systems, partition tables, RAID metadata.
//!
//! The magic numbers and their offsets are those of each format's public description. A signature is a reason not to overwrite
//! something, so a magic that is long or well placed is enough; short ones need a second sign.

mod firmware;
mod table;

use std::fmt;

use uraid_device::{Device, DeviceError};
use uraid_format::{MetadataVersion, looks_like_md, super_offsets};

use crate::probe::bytes_at;

/// What was recognised, and by which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// A word for it: `ext4`, `xfs`, `GPT partition table`, ...
    pub kind: &'static str,
    /// Where its magic lies, in bytes from the start of the device.
    pub offset: u64,
}

impl Signature {
    /// Is it of an array that uraid looks into?
    pub(crate) fn is_array(&self) -> bool {
        matches!(self.kind, "md superblock" | "md superblock 0.90" | "Intel Matrix (IMSM) RAID" | "DDF RAID")
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (magic at byte {})", self.kind, self.offset)
    }
}

/// Bytes at the start that hold all magics but those of ZFS.
const HEAD_BYTES: u64 = 68 << 10;

/// A ZFS label's ring of uberblocks: where it begins, in the first two labels, and how long it is.
const ZFS_RINGS: [u64; 2] = [128 << 10, 384 << 10];
const ZFS_RING_BYTES: u64 = 128 << 10;

/// ZFS's uberblock magic, in either byte order.
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// The first signature found, if any: md's own, then other RAID, volume managers and file systems, partition tables last.
/// Reads only.
///
/// # Errors
/// A read that failed.
pub fn signature(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    if let Some(found) = md(device)? {
        return Ok(Some(found));
    }
    if let Some(found) = at_the_end(device)? {
        return Ok(Some(found));
    }
    if let Some(found) = firmware::find(device)? {
        return Ok(Some(found));
    }
    if let Some(found) = vmfs(device)? {
        return Ok(Some(found));
    }
    let head = bytes_at(device, 0, HEAD_BYTES)?;
    if let Some(found) = table::in_head(&head) {
        return Ok(Some(found));
    }
    if let Some(found) = zfs(device)? {
        return Ok(Some(found));
    }
    if let Some(found) = backup_gpt(device)? {
        return Ok(Some(found));
    }
    Ok(table::mbr(&head))
}

/// Superblocks of md, valid or not.
fn md(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let size_bytes = device.info().size_bytes;
    for (version, offset) in super_offsets(size_bytes) {
        let kind = if version == MetadataVersion::V0_90 { "md superblock 0.90" } else { "md superblock" };
        if looks_like_md(&bytes_at(device, offset, 4)?) {
            return Ok(Some(Signature { kind, offset }));
        }
    }
    Ok(None)
}

/// Firmware RAID keeps its anchor in the last blocks.
fn at_the_end(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let size_bytes = device.info().size_bytes;
    let block = u64::from(device.info().logical_block_bytes);
    let anchors: [(u64, &[u8], &'static str); 2] =
        [(2 * block, b"Intel Raid ISM Cfg Sig. ", "Intel Matrix (IMSM) RAID"), (block, &[0xde, 0x11, 0xde, 0x11], "DDF RAID")];
    for (from_end, magic, kind) in anchors {
        let Some(offset) = size_bytes.checked_sub(from_end) else { continue };
        if bytes_at(device, offset, magic.len() as u64)? == magic {
            return Ok(Some(Signature { kind, offset }));
        }
    }
    Ok(None)
}

/// VMware's volumes and the file system in them: each has a magic number of 32 bits, far from the start.
fn vmfs(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let places: [(u64, u32, &'static str); 2] =
        [(1 << 20, 0xc001_d00d, "VMware VMFS volume"), (2 << 20, 0x2fab_f15e, "VMware VMFS")];
    for (offset, magic, kind) in places {
        if bytes_at(device, offset, 4)? == magic.to_le_bytes() {
            return Ok(Some(Signature { kind, offset }));
        }
    }
    Ok(None)
}

/// An uberblock at any of the slots, which are at least 1 KiB apart.
fn zfs(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    for ring in ZFS_RINGS {
        let bytes = bytes_at(device, ring, ZFS_RING_BYTES)?;
        let is_magic = |slot: &[u8]| {
            slot.first_chunk().is_some_and(|magic| *magic == ZFS_MAGIC.to_le_bytes() || *magic == ZFS_MAGIC.to_be_bytes())
        };
        if let Some(slot) = bytes.chunks(1024).position(is_magic) {
            return Ok(Some(Signature { kind: "ZFS", offset: ring + 1024 * slot as u64 }));
        }
    }
    Ok(None)
}

/// The copy of a GPT in the last block, where the first was overwritten.
fn backup_gpt(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let Some(offset) = device.info().size_bytes.checked_sub(u64::from(device.info().logical_block_bytes)) else {
        return Ok(None);
    };
    let found = bytes_at(device, offset, 8)? == b"EFI PART";
    Ok(found.then_some(Signature { kind: "GPT partition table (backup)", offset }))
}

#[cfg(test)]
mod tests;
