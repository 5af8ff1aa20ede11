//! Linux md metadata: superblocks of versions 0.90 and 1, the write-intent bitmap, the bad-block log, PPL and journal;
//! bytes → checked → domain → bytes.
//!
//! Pure: no I/O, no unsafe, no clock, no randomness. Every offset of the superblock comes from `linux/raid/md_p.h` and is asserted
//! when this compiles. Whatever is not understood survives a rewrite or is refused by name, and nothing is allocated by a count
//! that was not checked.
//!
//! - [`super_offsets`] says where to look, [`RawSuper::parse`] reads and checks, [`RawFields`] and [`RawFields090`] show what fails
//!   the checks. Whoever uses a [`Superblock`] need not know the version.
//! - [`RawSuper::update`] and [`RawSuper::to_bytes`] write it again.
//! - [`Compat`] tells which Linux takes a member.
//! - [`BitmapSuper`] and [`Bitmap`] are the bitmap, [`parse_bad_blocks`] and [`bad_blocks_to_bytes`] the bad-block log.
//! - [`read_partitions`] finds what lies where inside an image of a whole disk.
//! - [`PplHeader`] and [`JournalMeta`] are the logs of writes that were under way.
//! - [`foreign`] reads the containers of other makers' RAID.
//! - [`convert()`] gives a superblock another version.
//! - [`CreateSpec::plan`] decides what a new array has where.
//!
//! ```
//! use uraid_format::{CreateSpec, DeviceFlags, MetadataVersion, NewMember, RawSuper};
//! use uraid_types::{Layout, Level, Sector, SectorCount};
//! use uuid::Uuid;
//!
//! let size = SectorCount(256 << 11); // 256 MiB
//! let member = |id| Some(NewMember { sectors: size, device_id: Uuid::from_u128(id), flags: DeviceFlags::default(), logical_block_bytes: 512 });
//! let spec = CreateSpec {
//!     level: Level::Raid5,
//!     layout: Layout::default_for(Level::Raid5),
//!     raid_disks: 3,
//!     spare_disks: 0,
//!     chunk: SectorCount(1024),
//!     size: None,
//!     version: MetadataVersion::V1_2,
//!     data_offset: None,
//!     bitmap: None,
//!     name: b"here:md0".to_vec(),
//!     array_id: Uuid::from_u128(1),
//!     created_seconds: 1_700_000_000,
//!     created_micros: 0,
//!     preferred_minor: 0,
//!     assume_clean: false,
//!     logical_block_bytes: 0,
//!     members: vec![member(2), member(3), member(4)],
//! };
//! let plan = spec.plan()?;
//! let first = plan.members[0].as_ref().expect("no member is missing");
//! let bytes = first.superblock.to_bytes();
//!
//! let mut read = RawSuper::parse(&bytes, Sector(first.super_byte / 512), size)?;
//! assert_eq!(read.superblock().data_offset, Sector(4096));
//! assert_eq!(read.superblock().resync_offset, Some(Sector(0)));
//! read.update(|superblock| superblock.resync_offset = None);
//! assert_ne!(read.to_bytes(), bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backup;
mod bad_blocks;
mod bitmap;
mod check;
mod compat;
mod convert;
mod crc32;
mod create;
mod domain;
mod error;
mod fields;
pub mod foreign;
mod journal;
mod locate;
mod partition;
mod ppl;
mod raw;
mod reshape;
mod superblock;
mod v090;

pub use backup::{BACKUP_HEAD_BYTES, BackupError, BackupHead, BackupSection};
pub use bad_blocks::{BadBlocksError, bad_blocks_to_bytes, parse_bad_blocks};
pub use bitmap::{BITMAP_MAGIC, BITMAP_SUPER_BYTES, Bitmap, BitmapError, BitmapFields, BitmapSuper, BitmapVersion, bits_for};
pub use compat::{Compat, KernelVersion, Need};
pub use convert::{ConvertError, Converted, convert};
pub use create::{BitmapSpec, CreateError, CreatePlan, CreateSpec, MemberArea, MemberPlan, NewMember};
pub use domain::{ArrayId, ByteOrder, DeviceFlags, Feature, MAX_DEVICES_090, MetadataVersion, PplArea, Role, Superblock};
pub use error::{SuperError, SuperErrorKind};
pub use fields::RawFields;
pub use journal::{JOURNAL_BLOCK_BYTES, JOURNAL_BLOCK_SECTORS, JournalError, JournalMeta, JournalPayload, journal_seed};
pub use locate::{looks_like_md, super_offsets, super_sector};
pub use partition::{
    MAX_ENTRY_BYTES, MAX_LOGICAL, Partition, PartitionError, PartitionTable, PartitionType, ReadBytes, TableKind, read_partitions,
};
pub use ppl::{PPL_HEADER_BYTES, PplEntry, PplError, PplHeader};
pub use raw::{MAX_ROLES, SUPER_BYTES, SUPER_MAGIC};
pub use reshape::Reshape;
pub use superblock::{MAX_NAME_BYTES, RawSuper};
pub use v090::{Descriptor, RawFields090};
