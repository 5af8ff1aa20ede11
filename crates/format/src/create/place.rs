//! Where bitmap, bad-block log and data go on a member.
//!
//! The rule gives what mdadm 4.2 was seen to choose for members of 16 MiB to 200 GiB (the table in the tests): metadata in the
//! order superblock, bitmap, bad-block log, each of whole 4 KiB; then headroom, so that a later reshape has where to move; the
//! data on a multiple of 1 MiB. Version 1.0 has the same, backwards from the superblock at the end, and no headroom.

use uraid_types::{Sector, SectorCount};

use super::{BitmapSpec, CreateError, CreateSpec};
use crate::MetadataVersion;
use crate::bitmap::{BITMAP_SUPER_BYTES, bits_for};
use crate::locate::{SUPER_SECTORS, super_sector};

/// 4 KiB: every area begins on a multiple of it.
const BLOCK: u64 = 8;

/// Sectors of a bad-block log: 512 entries.
pub(super) const BAD_BLOCK_SECTORS: u16 = 8;

/// What version 0.90 leaves for a bitmap after its superblock: 60 KiB.
const BITMAP_SECTORS_090: u64 = 120;

/// What a data offset is a multiple of, on members that are not tiny: 1 MiB.
const DATA_ALIGN: u64 = 2048;

/// The same on tiny members: 64 KiB.
const TINY_ALIGN: u64 = 128;

/// The most headroom: 128 MiB.
const MAX_HEADROOM: u64 = 262_144;

/// Headroom takes no more than this part of a member.
const HEADROOM_SHARE: u64 = 1024;

/// From these sizes on, room is kept for a bitmap of 64 KiB and 128 KiB.
const MEDIUM_MEMBER: u64 = 8 << 21;
const LARGE_MEMBER: u64 = 200 << 21;

/// A bitmap's default chunk: 64 MiB.
const BITMAP_CHUNK_BYTES: u32 = 64 << 20;

/// The most room a bitmap may take: 1 MiB.
const MAX_BITMAP_SECTORS: u64 = 2048;

/// Offsets that all members of a new array share; those of metadata count from the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// Where the bitmap begins, and its room; `None` without one.
    pub bitmap: Option<(i32, SectorCount)>,
    /// Bytes for each of its bits.
    pub bitmap_chunk_bytes: u32,
    /// `None` for version 0.90, which has no such log.
    pub bad_block_offset: Option<i32>,
    pub data_offset: Sector,
    /// Version 1.0: sectors before the superblock that metadata takes. Others: 0.
    pub before_super: u64,
}

impl Placement {
    /// Places the areas of an array whose smallest member, `index`, has `member` sectors.
    pub(super) fn choose(spec: &CreateSpec, index: usize, member: SectorCount) -> Result<Placement, CreateError> {
        let (bitmap_room, bitmap_chunk_bytes) = bitmap_room(spec, member)?;
        if spec.version == MetadataVersion::V0_90 {
            let placement = Placement {
                bitmap: spec.bitmap.map(|_| (SUPER_SECTORS as i32, SectorCount(bitmap_room))),
                bitmap_chunk_bytes,
                bad_block_offset: None,
                data_offset: Sector(0),
                before_super: 0,
            };
            return placement.data_size(spec, index, member).map(|_| placement);
        }
        let metadata = bitmap_room + u64::from(BAD_BLOCK_SECTORS);
        let at_end = spec.version == MetadataVersion::V1_0;
        let least = match spec.version {
            MetadataVersion::V0_90 | MetadataVersion::V1_0 => Sector(0),
            MetadataVersion::V1_1 => Sector(SUPER_SECTORS + metadata),
            MetadataVersion::V1_2 => Sector(BLOCK + SUPER_SECTORS + metadata),
        };
        let data_offset = match spec.data_offset {
            Some(asked) if asked < least || !asked.0.is_multiple_of(BLOCK) => {
                return Err(CreateError::DataOffset { asked, least });
            }
            Some(asked) => asked,
            None if at_end => least,
            None => with_headroom(spec, least, member),
        };
        let first_bitmap = if at_end { -((bitmap_room + u64::from(BAD_BLOCK_SECTORS)) as i32) } else { SUPER_SECTORS as i32 };
        let placement = Placement {
            bitmap: spec.bitmap.map(|_| (first_bitmap, SectorCount(bitmap_room))),
            bitmap_chunk_bytes,
            bad_block_offset: Some(if at_end { -i32::from(BAD_BLOCK_SECTORS) } else { (SUPER_SECTORS + bitmap_room) as i32 }),
            data_offset,
            before_super: if at_end { metadata } else { 0 },
        };
        placement.data_size(spec, index, member).map(|_| placement)
    }

    /// Data sectors on a member of `member` sectors: at least one chunk, or 64 KiB.
    pub(super) fn data_size(&self, spec: &CreateSpec, index: usize, member: SectorCount) -> Result<SectorCount, CreateError> {
        let end = match spec.version {
            MetadataVersion::V0_90 | MetadataVersion::V1_0 => {
                super_sector(spec.version, member).map_or(0, |at| at.0.saturating_sub(self.before_super))
            }
            MetadataVersion::V1_1 | MetadataVersion::V1_2 => member.0,
        };
        let least = spec.size_unit().0;
        let room = end.saturating_sub(self.data_offset.0);
        if room < least {
            let short = self.data_offset.0.saturating_add(least) - end;
            return Err(CreateError::MemberTooSmall { index, sectors: member.0, needed: member.0.saturating_add(short), short });
        }
        Ok(SectorCount(room).round_down(SectorCount(u64::from(spec.logical_block_bytes / 512).max(1))))
    }

    /// The superblock's sector on a member of `member` sectors that [`Placement::data_size`] accepted.
    pub(super) fn super_offset(spec: &CreateSpec, member: SectorCount) -> Sector {
        super_sector(spec.version, member).expect("a member with room for data has room for its superblock")
    }
}

/// The data offset that leaves headroom after the metadata, which ends at `least`.
fn with_headroom(spec: &CreateSpec, least: Sector, member: SectorCount) -> Sector {
    let mut headroom = MAX_HEADROOM;
    while headroom * HEADROOM_SHARE > member.0 && headroom > 0 {
        headroom /= 2;
    }
    if spec.level.has_chunks() {
        headroom = headroom.max(2 * spec.chunk.0);
    }
    let usual = least.0.saturating_add(headroom).next_multiple_of(DATA_ALIGN);
    if usual <= member.0 / 2 { Sector(usual) } else { Sector(least.0.next_multiple_of(TINY_ALIGN)) }
}

/// Sectors for the bitmap (or for one to be added later), and the bytes for each bit.
fn bitmap_room(spec: &CreateSpec, member: SectorCount) -> Result<(u64, u32), CreateError> {
    let kept = match member.0 {
        _ if !spec.level.is_redundant() => 0,
        sectors if sectors >= LARGE_MEMBER + TINY_ALIGN => 256,
        sectors if sectors > MEDIUM_MEMBER + BLOCK => 128,
        _ => BLOCK,
    };
    let Some(BitmapSpec { chunk_bytes }) = spec.bitmap else { return Ok((kept, 0)) };
    if !spec.level.is_redundant() {
        return Err(CreateError::BitmapLevel { level: spec.level });
    }
    let most = spec.sync_size(spec.size.map_or(member, |size| size.min(member)));
    let room = |chunk: u32| {
        let bytes = BITMAP_SUPER_BYTES as u64 + bits_for(most, chunk).div_ceil(8);
        bytes.div_ceil(512).next_multiple_of(BLOCK)
    };
    let fits = |chunk: u32, limit: u64| room(chunk) <= limit;
    let of_090 = spec.version == MetadataVersion::V0_90;
    let most_room = if of_090 { BITMAP_SECTORS_090 } else { MAX_BITMAP_SECTORS };
    let kept = if of_090 { BITMAP_SECTORS_090 } else { kept };
    let chunk = match chunk_bytes {
        Some(chunk) if chunk.is_power_of_two() && chunk >= 4096 && fits(chunk, most_room) => chunk,
        Some(chunk_bytes) => {
            let least = (12..32).map(|bit| 1u32 << bit).find(|&chunk| fits(chunk, most_room));
            return Err(CreateError::BitmapChunk { chunk_bytes, least: least.map_or(1 << 32, u64::from) });
        }
        None => {
            let wider = (BITMAP_CHUNK_BYTES.trailing_zeros()..32).map(|bit| 1u32 << bit);
            let too_big = CreateError::BitmapChunk { chunk_bytes: 1 << 31, least: 1 << 32 };
            wider.into_iter().find(|&chunk| fits(chunk, kept)).ok_or(too_big)?
        }
    };
    Ok((room(chunk), chunk))
}

#[cfg(test)]
mod tests {
    use uraid_types::{Layout, Level};
    use uuid::Uuid;

    use super::*;

    fn spec(level: Level, version: MetadataVersion, bitmap: bool) -> CreateSpec {
        CreateSpec {
            level,
            layout: Layout::default_for(level),
            raid_disks: 3,
            spare_disks: 0,
            chunk: SectorCount(1024),
            size: None,
            version,
            data_offset: None,
            bitmap: bitmap.then(BitmapSpec::default),
            name: Vec::new(),
            preferred_minor: 0,
            array_id: Uuid::nil(),
            created_seconds: 0,
            created_micros: 0,
            assume_clean: true,
            logical_block_bytes: 0,
            members: Vec::new(),
        }
    }

    /// What `mdadm --create` (4.2) chose on a kernel 6.1: MiB of a member, level, version, with a bitmap; data offset, data size,
    /// bitmap offset, bad-block offset.
    type Seen = (u64, Level, MetadataVersion, bool, u64, u64, Option<i32>, i32);
    const SEEN: [Seen; 22] = {
        use Level::{Raid0, Raid1, Raid5};
        use MetadataVersion::{V1_0, V1_1, V1_2};
        [
            (16, Raid5, V1_0, false, 0, 32736, None, -8),
            (16, Raid5, V1_0, true, 0, 32736, Some(-16), -8),
            (16, Raid5, V1_1, true, 4096, 28672, Some(8), 16),
            (16, Raid5, V1_2, false, 4096, 28672, None, 16),
            (16, Raid0, V1_2, false, 4096, 28672, None, 8),
            (16, Raid1, V1_2, true, 2048, 30720, Some(8), 16),
            (100, Raid1, V1_0, true, 0, 204768, Some(-16), -8),
            (256, Raid5, V1_2, true, 4096, 520192, Some(8), 16),
            (256, Raid1, V1_2, true, 2048, 522240, Some(8), 16),
            (1 << 10, Raid1, V1_2, true, 4096, 2093056, Some(8), 16),
            (5 << 10, Raid5, V1_1, false, 10240, 10475520, None, 16),
            (10 << 10, Raid5, V1_0, false, 0, 20971368, None, -8),
            (10 << 10, Raid5, V1_0, true, 0, 20971488, Some(-16), -8),
            (10 << 10, Raid5, V1_1, false, 18432, 20953088, None, 136),
            (10 << 10, Raid5, V1_2, true, 18432, 20953088, Some(8), 16),
            (10 << 10, Raid0, V1_2, false, 18432, 20953088, None, 8),
            (40 << 10, Raid5, V1_2, false, 67584, 83818496, None, 136),
            (64 << 10, Raid5, V1_2, true, 133120, 134084608, Some(8), 16),
            (150 << 10, Raid5, V1_1, false, 264192, 314308608, None, 136),
            (200 << 10, Raid5, V1_2, false, 264192, 419166208, None, 136),
            (200 << 10, Raid5, V1_2, true, 264192, 419166208, Some(8), 16),
            (200 << 10, Raid0, V1_2, false, 264192, 419166208, None, 8),
        ]
    };

    #[test]
    fn areas_lie_where_mdadm_puts_them() {
        for seen in SEEN {
            let (mib, level, version, bitmap, data_offset, data_size, bitmap_offset, bad_block_offset) = seen;
            let (spec, member) = (spec(level, version, bitmap), SectorCount(mib * 2048));
            let placement = Placement::choose(&spec, 0, member).unwrap();
            assert_eq!(placement.data_offset, Sector(data_offset), "{seen:?}");
            assert_eq!(placement.data_size(&spec, 0, member).unwrap(), SectorCount(data_size), "{seen:?}");
            assert_eq!(placement.bitmap.map(|(offset, _)| offset), bitmap_offset, "{seen:?}");
            assert_eq!(placement.bad_block_offset, Some(bad_block_offset), "{seen:?}");
        }
    }

    #[test]
    fn tiny_members_still_have_room() {
        let mut spec = spec(Level::Raid5, MetadataVersion::V1_2, true);
        spec.chunk = SectorCount(128);
        let placement = Placement::choose(&spec, 0, SectorCount(2048)).unwrap();
        assert_eq!(placement.data_offset, Sector(128));
        let error = Placement::choose(&spec, 7, SectorCount(200)).unwrap_err();
        assert_eq!(error, CreateError::MemberTooSmall { index: 7, sectors: 200, needed: 256, short: 56 });
    }

    #[test]
    fn a_bitmap_with_too_many_bits_names_the_least_chunk() {
        let mut spec = spec(Level::Raid1, MetadataVersion::V1_2, true);
        spec.bitmap = Some(BitmapSpec { chunk_bytes: Some(4096) });
        // 200 GiB in 4 KiB: 52,428,800 bits; 1 MiB less 256 bytes holds 8,386,560
        let error = Placement::choose(&spec, 0, SectorCount(200 << 21)).unwrap_err();
        assert_eq!(error, CreateError::BitmapChunk { chunk_bytes: 4096, least: 32768 });
    }
}
