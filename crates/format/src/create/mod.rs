//! Planning a new array: which bytes go where on each member. Nothing is written here; the plan can be printed and tested.

mod error;
mod place;
mod plan;

pub use error::CreateError;
pub use plan::{CreatePlan, MemberArea, MemberPlan};

use uraid_types::{Layout, Level, Sector, SectorCount};
use uuid::Uuid;

use crate::{ArrayId, DeviceFlags, MetadataVersion};

/// What array to make; [`CreateSpec::plan`] says how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSpec {
    /// The level.
    pub level: Level,
    /// The layout; [`Layout::default_for`] the level when there is no wish.
    pub layout: Layout,
    /// Slots.
    pub raid_disks: u16,
    /// Spares.
    pub spare_disks: u16,
    /// Chunk; linear and RAID1 take 0.
    pub chunk: SectorCount,
    /// Sectors used of each member; `None` for as many as fit the smallest. Not for linear and RAID0.
    pub size: Option<SectorCount>,
    /// Where the superblock goes.
    pub version: MetadataVersion,
    /// Where the data begins; `None` for a place that grows with the members, up to 129 MiB.
    pub data_offset: Option<Sector>,
    /// An internal bitmap, if wanted.
    pub bitmap: Option<BitmapSpec>,
    /// The array's name, at most 32 bytes, with the home host before a colon as mdadm has it.
    pub name: Vec<u8>,
    /// Version 0.90 records this instead of a name: N of /dev/mdN.
    pub preferred_minor: u32,
    /// The array's UUID.
    pub array_id: ArrayId,
    /// Now, in seconds since 1970.
    pub created_seconds: u64,
    /// Microseconds.
    pub created_micros: u32,
    /// Take what lies on the members for consistent: no resync.
    pub assume_clean: bool,
    /// Logical block of the array to record, 512 or 4096 bytes; 0 for none. Linux takes such a superblock from 6.19 on only.
    pub logical_block_bytes: u32,
    /// The members by slot, `None` for a missing one, then the spares.
    pub members: Vec<Option<NewMember>>,
}

/// A bitmap for a new array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitmapSpec {
    /// Bytes for each bit: a power of two of at least 4096; `None` for 64 MiB, or more where the bits would take too much room.
    pub chunk_bytes: Option<u32>,
}

/// A member to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// Its size.
    pub sectors: SectorCount,
    /// Its own UUID.
    pub device_id: Uuid,
    /// Write-mostly, failfast.
    pub flags: DeviceFlags,
    /// 512 or 4096. All areas of a plan are multiples of 4096 anyway; larger blocks are refused.
    pub logical_block_bytes: u32,
}
