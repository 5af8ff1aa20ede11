//! Where superblocks lie.

use uraid_types::{SECTOR_BYTES, Sector, SectorCount};

use crate::MetadataVersion;
use crate::raw::{SUPER_BYTES, SUPER_MAGIC};

/// Sectors that a superblock may take: [`SUPER_BYTES`].
pub(crate) const SUPER_SECTORS: u64 = SUPER_BYTES as u64 / SECTOR_BYTES;

/// Where version 0.90 keeps its superblock: 64 KiB aligned, 64 to 128 KiB before the end (`MD_NEW_SIZE_SECTORS`).
const RESERVED_090_SECTORS: u64 = 64 * 1024 / SECTOR_BYTES;

/// The sector where `version` puts its superblock on a member of `member` sectors; `None` when the member is too small.
#[must_use]
pub fn super_sector(version: MetadataVersion, member: SectorCount) -> Option<Sector> {
    let start = match version {
        MetadataVersion::V0_90 => (member.0 & !(RESERVED_090_SECTORS - 1)).checked_sub(RESERVED_090_SECTORS)?,
        MetadataVersion::V1_0 => member.0.checked_sub(16)? & !7,
        MetadataVersion::V1_1 => 0,
        MetadataVersion::V1_2 => 8,
    };
    (member.0 >= start.checked_add(SUPER_SECTORS)?).then_some(Sector(start))
}

/// Where superblocks may lie on a member of `size_bytes`: the version and the byte offset of each place.
///
/// A member has at most one valid superblock, but may carry the remains of another: the newer creation time wins.
pub fn super_offsets(size_bytes: u64) -> impl Iterator<Item = (MetadataVersion, u64)> {
    let member = SectorCount::floor_bytes(size_bytes);
    MetadataVersion::ALL
        .into_iter()
        .filter_map(move |version| super_sector(version, member).map(|at| (version, at.byte_offset())))
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
            assert_eq!(super_sector(MetadataVersion::V1_0, SectorCount(mib * 2048)), Some(Sector(sector)));
        }
        // 64 MiB and 4 KiB less: "Used Dev Size" of mdadm --create -e 0.90 without rounding to chunks
        for (kib, sector) in [(65536, 65472 * 2), (65532, 65408 * 2)] {
            assert_eq!(super_sector(MetadataVersion::V0_90, SectorCount(kib * 2)), Some(Sector(sector)));
        }
        let all: Vec<_> = super_offsets(16 << 20).map(|(version, at)| (version.name(), at)).collect();
        assert_eq!(all, [("1.2", 4096), ("1.1", 0), ("1.0", 32752 * 512), ("0.90", 32640 * 512)]);
    }

    #[test]
    fn tiny_members_have_no_place() {
        assert_eq!(super_offsets(0).count(), 0);
        assert_eq!(super_offsets(4095).count(), 0);
        assert_eq!(super_offsets(4096).collect::<Vec<_>>(), [(MetadataVersion::V1_1, 0)]);
        assert_eq!(super_sector(MetadataVersion::V0_90, SectorCount(127)), None);
        assert_eq!(super_sector(MetadataVersion::V0_90, SectorCount(255)), Some(Sector(0)));
    }

    #[test]
    fn both_byte_orders_are_recognised() {
        assert!(looks_like_md(&[0xfc, 0x4e, 0x2b, 0xa9]));
        assert!(looks_like_md(&[0xa9, 0x2b, 0x4e, 0xfc]));
        assert!(!looks_like_md(&[0xfc, 0x4e, 0x2b]));
    }
}
