//! A superblock as the rest of the program sees it: checked, in md's words, in sectors.

use uraid_types::{Layout, Level, Sector, SectorCount, Slot};
use uuid::Uuid;

use crate::Reshape;

/// The array's UUID (`set_uuid`).
pub type ArrayId = Uuid;

/// The version of the metadata: what its superblock looks like, and where it lies on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetadataVersion {
    /// 0.90: at the last multiple of 64 KiB that is at least 64 KiB before the end. See [`MAX_DEVICES_090`].
    V0_90,
    /// 1.0: at least 8 KiB and less than 12 KiB before the end, 4 KiB aligned.
    V1_0,
    /// 1.1: at the start.
    V1_1,
    /// 1.2: 4 KiB from the start.
    V1_2,
}

/// What a member does in the array, from `dev_roles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Holds slot N.
    Active(Slot),
    /// 0xffff.
    Spare,
    /// 0xfffe.
    Faulty,
    /// 0xfffd.
    Journal,
}

/// Bits of `feature_map`, by the header's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Feature {
    /// `MD_FEATURE_BITMAP_OFFSET`
    Bitmap = 1,
    /// `MD_FEATURE_RECOVERY_OFFSET`
    RecoveryOffset = 2,
    /// `MD_FEATURE_RESHAPE_ACTIVE`
    ReshapeActive = 4,
    /// `MD_FEATURE_BAD_BLOCKS`
    BadBlocks = 8,
    /// `MD_FEATURE_REPLACEMENT`
    Replacement = 16,
    /// `MD_FEATURE_RESHAPE_BACKWARDS`
    ReshapeBackwards = 32,
    /// `MD_FEATURE_NEW_OFFSET`
    NewOffset = 64,
    /// `MD_FEATURE_RECOVERY_BITMAP`
    RecoveryBitmap = 128,
    /// `MD_FEATURE_CLUSTERED`
    Clustered = 256,
    /// `MD_FEATURE_JOURNAL`
    Journal = 512,
    /// `MD_FEATURE_PPL`
    Ppl = 1024,
    /// `MD_FEATURE_MULTIPLE_PPLS`
    MultiplePpls = 2048,
    /// `MD_FEATURE_RAID0_LAYOUT`
    Raid0Layout = 4096,
}

impl Feature {
    /// All features of the header.
    pub const ALL: [Feature; 13] = [
        Feature::Bitmap,
        Feature::RecoveryOffset,
        Feature::ReshapeActive,
        Feature::BadBlocks,
        Feature::Replacement,
        Feature::ReshapeBackwards,
        Feature::NewOffset,
        Feature::RecoveryBitmap,
        Feature::Clustered,
        Feature::Journal,
        Feature::Ppl,
        Feature::MultiplePpls,
        Feature::Raid0Layout,
    ];

    /// `MD_FEATURE_ALL`: every bit that has a name.
    #[must_use]
    pub const fn all_bits() -> u32 {
        (Feature::Raid0Layout as u32) * 2 - 1
    }

    /// The header's name without `MD_FEATURE_`, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Feature::Bitmap => "bitmap_offset",
            Feature::RecoveryOffset => "recovery_offset",
            Feature::ReshapeActive => "reshape_active",
            Feature::BadBlocks => "bad_blocks",
            Feature::Replacement => "replacement",
            Feature::ReshapeBackwards => "reshape_backwards",
            Feature::NewOffset => "new_offset",
            Feature::RecoveryBitmap => "recovery_bitmap",
            Feature::Clustered => "clustered",
            Feature::Journal => "journal",
            Feature::Ppl => "ppl",
            Feature::MultiplePpls => "multiple_ppls",
            Feature::Raid0Layout => "raid0_layout",
        }
    }
}

/// `devflags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceFlags {
    /// Bit 0: read from it only when nothing else can answer.
    pub write_mostly: bool,
    /// Bit 1.
    pub fail_fast: bool,
    /// Whatever other bits were set.
    pub unknown: u8,
}

impl DeviceFlags {
    /// From the byte of the superblock.
    #[must_use]
    pub const fn from_byte(byte: u8) -> DeviceFlags {
        DeviceFlags { write_mostly: byte & 1 != 0, fail_fast: byte & 2 != 0, unknown: byte & !3 }
    }

    /// The byte of the superblock.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        self.write_mostly as u8 | (self.fail_fast as u8) << 1 | (self.unknown & !3)
    }
}

/// Devices that a superblock of version 0.90 can name, spares included (`MD_SB_DISKS`).
pub const MAX_DEVICES_090: usize = 27;

impl MetadataVersion {
    /// All of them, in the order in which a member is looked through.
    pub const ALL: [MetadataVersion; 4] =
        [MetadataVersion::V1_2, MetadataVersion::V1_1, MetadataVersion::V1_0, MetadataVersion::V0_90];

    /// As mdadm writes it: `1.2`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MetadataVersion::V0_90 => "0.90",
            MetadataVersion::V1_0 => "1.0",
            MetadataVersion::V1_1 => "1.1",
            MetadataVersion::V1_2 => "1.2",
        }
    }

    /// The version of that [name](MetadataVersion::name); `0` and `1` stand for 0.90 and 1.2 as to mdadm.
    #[must_use]
    pub fn from_name(name: &str) -> Option<MetadataVersion> {
        let name = match name {
            "0" => "0.90",
            "1" | "default" => "1.2",
            name => name,
        };
        MetadataVersion::ALL.into_iter().find(|version| version.name() == name)
    }

    /// Devices that a superblock can name, spares included.
    #[must_use]
    pub const fn max_devices(self) -> usize {
        match self {
            MetadataVersion::V0_90 => MAX_DEVICES_090,
            MetadataVersion::V1_0 | MetadataVersion::V1_1 | MetadataVersion::V1_2 => crate::MAX_ROLES,
        }
    }

    /// Does a superblock say how far the rebuild of a member has come? In 0.90 such a member counts as a spare.
    #[must_use]
    pub const fn records_recovery(self) -> bool {
        !matches!(self, MetadataVersion::V0_90)
    }
}

/// Where the partial parity log of a member lies (`ppl.offset`, `ppl.size`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PplArea {
    /// First sector, from the superblock.
    pub offset: i16,
    /// How many.
    pub sectors: u16,
}

impl PplArea {
    /// From the four bytes that it shares with `bitmap_offset`.
    #[must_use]
    pub const fn from_word(word: i32) -> PplArea {
        let [offset_low, offset_high, sectors_low, sectors_high] = word.to_le_bytes();
        PplArea {
            offset: i16::from_le_bytes([offset_low, offset_high]),
            sectors: u16::from_le_bytes([sectors_low, sectors_high]),
        }
    }

    /// The four bytes that it shares with `bitmap_offset`.
    #[must_use]
    pub const fn to_word(self) -> i32 {
        let ([offset_low, offset_high], [sectors_low, sectors_high]) = (self.offset.to_le_bytes(), self.sectors.to_le_bytes());
        i32::from_le_bytes([offset_low, offset_high, sectors_low, sectors_high])
    }
}

/// The byte order of a superblock's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Version 1 always, 0.90 from most machines.
    #[default]
    Little,
    /// Version 0.90 from a big-endian machine.
    Big,
}

/// A superblock, checked: checksum right, numbers within the member and within each other's limits.
///
/// One type for all versions. What version 0.90 does not record reads as empty: name, device UUID, bad-block log, feature bits
/// other than the bitmap's, recovery offset. Its numbers of devices follow the slots and change when a spare takes one over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// 0.90, 1.0, 1.1 or 1.2.
    pub version: MetadataVersion,
    /// Little except for version 0.90 from a big-endian machine.
    pub byte_order: ByteOrder,
    /// `md_minor` of version 0.90: the array was /dev/mdN. 0 in version 1.
    pub preferred_minor: u32,
    /// Raw `feature_map`; see [`Feature`].
    pub features: u32,
    /// `set_uuid`.
    pub array_id: ArrayId,
    /// `set_name` up to its first NUL: bytes as found.
    pub name: Vec<u8>,
    /// Creation, seconds since 1970 (low 40 bits of `ctime`).
    pub created_seconds: u64,
    /// Microseconds (high 24 bits of `ctime`).
    pub created_micros: u32,
    /// The level.
    pub level: Level,
    /// The layout.
    pub layout: Layout,
    /// `size`: data sectors used on each member; 0 for linear and RAID0.
    pub used_size: SectorCount,
    /// `chunksize`.
    pub chunk: SectorCount,
    /// `raid_disks`; of the shape after a reshape, see [`Reshape`].
    pub raid_disks: u16,
    /// The reshape under way; present with [`Feature::ReshapeActive`].
    pub reshape: Option<Reshape>,
    /// `bitmap_offset` in sectors from the superblock; present with [`Feature::Bitmap`].
    pub bitmap_offset: Option<i32>,
    /// `ppl`, in the same bytes; present with [`Feature::Ppl`] or [`Feature::MultiplePpls`].
    pub ppl: Option<PplArea>,
    /// `data_offset` from the member's start.
    pub data_offset: Sector,
    /// `data_size`: data sectors that fit on this member.
    pub data_size: SectorCount,
    /// `super_offset` from the member's start.
    pub super_offset: Sector,
    /// `recovery_offset` from `data_offset`; present with [`Feature::RecoveryOffset`].
    pub recovery_offset: Option<Sector>,
    /// `journal_tail` from `data_offset`, in the bytes of `recovery_offset`: where the journal starts; present on a journal device.
    pub journal_tail: Option<Sector>,
    /// `dev_number`: index of this member into `roles`.
    pub dev_number: u32,
    /// `cnt_corrected_read`.
    pub corrected_reads: u32,
    /// `device_uuid`.
    pub device_id: Uuid,
    /// `devflags`.
    pub flags: DeviceFlags,
    /// `bblog_shift`.
    pub bad_block_shift: u8,
    /// `bblog_size` in sectors; 0 for none.
    pub bad_block_sectors: u16,
    /// `bblog_offset` in sectors from the superblock.
    pub bad_block_offset: i32,
    /// Last update, seconds since 1970.
    pub updated_seconds: u64,
    /// Microseconds.
    pub updated_micros: u32,
    /// `events`.
    pub events: u64,
    /// `resync_offset`: data before it is in sync; `None` when all of it is (`~0`, a clean array).
    pub resync_offset: Option<Sector>,
    /// `max_dev` entries of `dev_roles`.
    pub roles: Vec<Role>,
    /// Logical block size at byte 224 (kernels from 6.19), as found; 0 when absent.
    pub logical_block_bytes: u32,
}

impl Superblock {
    /// Is this feature bit set?
    #[must_use]
    pub const fn has(&self, feature: Feature) -> bool {
        self.features & feature as u32 != 0
    }

    /// Sets or clears a feature bit.
    pub const fn set_feature(&mut self, feature: Feature, on: bool) {
        if on {
            self.features |= feature as u32;
        } else {
            self.features &= !(feature as u32);
        }
    }

    /// What this member does.
    #[must_use]
    pub fn own_role(&self) -> Role {
        self.roles.get(self.dev_number as usize).copied().unwrap_or(Role::Spare)
    }

    /// The sector at `offset` from the superblock; `None` outside 64 bits.
    fn sector_at(&self, offset: i32) -> Option<Sector> {
        self.super_offset.0.checked_add_signed(i64::from(offset)).map(Sector)
    }

    /// The array's UUID as its bitmap has it: version 0.90 puts the bytes of each of its four words in the machine's order.
    #[must_use]
    pub fn bitmap_id(&self) -> Uuid {
        match (self.version, self.byte_order) {
            (MetadataVersion::V0_90, ByteOrder::Little) => {
                let mut bytes = self.array_id.into_bytes();
                bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
                Uuid::from_bytes(bytes)
            }
            _ => self.array_id,
        }
    }

    /// The member sector where the internal bitmap starts; `None` without one.
    #[must_use]
    pub fn bitmap_start(&self) -> Option<Sector> {
        self.sector_at(self.bitmap_offset?)
    }

    /// The member sectors of the partial parity log; `None` without one.
    #[must_use]
    pub fn ppl_area(&self) -> Option<(Sector, SectorCount)> {
        let area = self.ppl?;
        Some((self.sector_at(i32::from(area.offset))?, SectorCount(u64::from(area.sectors))))
    }

    /// The member sectors of the bad-block log; `None` without one.
    #[must_use]
    pub fn bad_block_log(&self) -> Option<(Sector, SectorCount)> {
        let present = self.bad_block_sectors != 0 && self.bad_block_offset != 0;
        let start = self.sector_at(self.bad_block_offset)?;
        present.then_some((start, SectorCount(u64::from(self.bad_block_sectors))))
    }
}

/// Seconds in the low 40 bits of a time, microseconds in the others (`MD_SUPERBLOCK_1_TIME_SEC_MASK`).
const SECONDS_BITS: u32 = 40;

/// A time of the superblock as seconds since 1970 and microseconds.
pub(crate) const fn split_time(time: u64) -> (u64, u32) {
    (time & ((1 << SECONDS_BITS) - 1), (time >> SECONDS_BITS) as u32)
}

/// Seconds since 1970 and microseconds as the superblock holds them; what does not fit is cut off.
pub(crate) const fn join_time(seconds: u64, micros: u32) -> u64 {
    seconds & ((1 << SECONDS_BITS) - 1) | (micros as u64) << SECONDS_BITS
}
