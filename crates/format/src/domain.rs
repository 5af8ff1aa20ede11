//! A superblock as the rest of the program sees it: checked, in md's words, in sectors.

use uraid_types::{Layout, Level, Sector, SectorCount, Slot};
use uuid::Uuid;

/// The array's UUID (`set_uuid`).
pub type ArrayId = Uuid;

/// Where a version-1 superblock lies on its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MinorVersion {
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

impl MinorVersion {
    /// The digit after the point.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
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

/// A version-1 superblock, checked: checksum right, numbers within the member and within each other's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// 1.0, 1.1 or 1.2.
    pub minor: MinorVersion,
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
    /// `raid_disks`.
    pub raid_disks: u16,
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
