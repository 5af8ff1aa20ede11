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
    /// `data_offset` from the member's start.
    pub data_offset: Sector,
    /// `data_size`: data sectors that fit on this member.
    pub data_size: SectorCount,
    /// `super_offset` from the member's start.
    pub super_offset: Sector,
    /// `recovery_offset` from `data_offset`; present with [`Feature::RecoveryOffset`].
    pub recovery_offset: Option<Sector>,
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
