//! Where superblocks lie.

use uraid_types::{SECTOR_BYTES, Sector, SectorCount};

use crate::MinorVersion;
use crate::raw::{SUPER_BYTES, SUPER_MAGIC};

/// Sectors that a superblock may take: [`SUPER_BYTES`].
pub(crate) const SUPER_SECTORS: u64 = SUPER_BYTES as u64 / SECTOR_BYTES;

/// Where version 0.90 keeps its superblock: 64 KiB aligned, 64 to 128 KiB before the end (`MD_NEW_SIZE_SECTORS`).
const RESERVED_090_BYTES: u64 = 64 * 1024;

/// The sector where `minor` puts its superblock on a member of `member` sectors; `None` when the member is too small.
#[must_use]
pub fn super_sector(minor: MinorVersion, member: SectorCount) -> Option<Sector> {
    let start = match minor {
        MinorVersion::V1_0 => member.0.checked_sub(16)? & !7,
        MinorVersion::V1_1 => 0,
        MinorVersion::V1_2 => 8,
    };
    (member.0 >= start.checked_add(SUPER_SECTORS)?).then_some(Sector(start))
}

/// Where version-1 superblocks may lie on a member of `size_bytes`: the minor version and the byte offset of each place.
///
/// A member has at most one valid superblock, but may carry the remains of another: the newer creation time wins.
pub fn super_offsets(size_bytes: u64) -> impl Iterator<Item = (MinorVersion, u64)> {
    let member = SectorCount::floor_bytes(size_bytes);
    [MinorVersion::V1_2, MinorVersion::V1_1, MinorVersion::V1_0]
        .into_iter()
        .filter_map(move |minor| super_sector(minor, member).map(|at| (minor, at.byte_offset())))
}

/// Where a version 0.90 superblock would lie on a member of `size_bytes`; `None` when the member is too small.
#[must_use]
pub fn v090_offset(size_bytes: u64) -> Option<u64> {
    (size_bytes & !(RESERVED_090_BYTES - 1)).checked_sub(RESERVED_090_BYTES)
}

/// Do these bytes begin as md's superblocks do, of whatever version? (0.90 is in the byte order of its machine.)
#[must_use]
pub fn looks_like_md(bytes: &[u8]) -> bool {
    matches!(bytes.first_chunk::<4>(), Some(magic) if *magic == SUPER_MAGIC.to_le_bytes() || *magic == SUPER_MAGIC.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_where_mdadm_put_them() {
        // 16 MiB, 1 GiB, 200 GiB: "Super Offset" of mdadm --create -e 1.0
        for (mib, sector) in [(16, 32752), (1024, 2097136), (200 * 1024, 419430384)] {
            assert_eq!(super_sector(MinorVersion::V1_0, SectorCount(mib * 2048)), Some(Sector(sector)));
        }
        let all: Vec<_> = super_offsets(16 << 20).collect();
        assert_eq!(all, [(MinorVersion::V1_2, 4096), (MinorVersion::V1_1, 0), (MinorVersion::V1_0, 32752 * 512)]);
    }

    #[test]
    fn tiny_members_have_no_place() {
        assert_eq!(super_offsets(0).count(), 0);
        assert_eq!(super_offsets(4095).count(), 0);
        assert_eq!(super_offsets(4096).collect::<Vec<_>>(), [(MinorVersion::V1_1, 0)]);
        assert_eq!(v090_offset(65535), None);
    }

    #[test]
    fn both_byte_orders_are_recognised() {
        assert!(looks_like_md(&[0xfc, 0x4e, 0x2b, 0xa9]));
        assert!(looks_like_md(&[0xa9, 0x2b, 0x4e, 0xfc]));
        assert!(!looks_like_md(&[0xfc, 0x4e, 0x2b]));
    }
}
