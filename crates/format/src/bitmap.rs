//! The write-intent bitmap, on the members or in a file of its own: its superblock and its bits.
//!
//! Source of the format: the layout that Linux 6.1 writes and `mdadm --examine-bitmap` prints (see the fixtures). All numbers are
//! little-endian. The superblock takes 256 bytes; the bits follow, one for each bitmap chunk, lowest bit of each byte first.

mod bits;
mod fields;

use uraid_types::{Layout, SECTOR_BYTES, Sector, SectorCount};
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{ByteOrder, Superblock};

pub use bits::Bitmap;
pub use fields::BitmapFields;

/// `bitm`.
pub const BITMAP_MAGIC: u32 = 0x6d74_6962;

/// Bytes of the bitmap's superblock: the bits start here.
pub const BITMAP_SUPER_BYTES: usize = 256;

/// Largest bitmap that uraid reads: 128 MiB of bits would cover 64 PiB of a member in chunks of 64 MiB.
const MAX_BITS: u64 = 1 << 30;

/// The largest `write_behind` that the kernel takes (14 bits).
const MAX_WRITE_BEHIND: u32 = (1 << 14) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct BitmapHead {
    magic: U32,
    version: U32,
    uuid: [u8; 16],
    events: U64,
    events_cleared: U64,
    sync_size: U64,
    state: U32,
    chunksize: U32,
    daemon_sleep: U32,
    write_behind: U32,
    sectors_reserved: U32,
    nodes: U32,
    cluster_name: [u8; 64],
    pad: [u8; 120],
}

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(BitmapHead, version) == 4 && offset_of!(BitmapHead, uuid) == 8);
    assert!(offset_of!(BitmapHead, events) == 24 && offset_of!(BitmapHead, events_cleared) == 32);
    assert!(offset_of!(BitmapHead, sync_size) == 40 && offset_of!(BitmapHead, state) == 48);
    assert!(offset_of!(BitmapHead, chunksize) == 52 && offset_of!(BitmapHead, daemon_sleep) == 56);
    assert!(offset_of!(BitmapHead, write_behind) == 60 && offset_of!(BitmapHead, sectors_reserved) == 64);
    assert!(offset_of!(BitmapHead, nodes) == 68 && offset_of!(BitmapHead, cluster_name) == 72);
    assert!(offset_of!(BitmapHead, pad) == 136 && size_of::<BitmapHead>() == BITMAP_SUPER_BYTES);
};

/// The version of a bitmap's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitmapVersion {
    /// 3: in the byte order of the machine that wrote it; uraid takes it as little-endian.
    HostEndian,
    /// 4: little-endian, the usual one.
    LittleEndian,
    /// 5: of a cluster; one bitmap for each node.
    Clustered,
    /// 6: lockless, from kernel 6.18; a byte, not a bit, for each chunk.
    Lockless,
}

impl BitmapVersion {
    const ALL: [(u32, BitmapVersion); 4] = [
        (3, BitmapVersion::HostEndian),
        (4, BitmapVersion::LittleEndian),
        (5, BitmapVersion::Clustered),
        (6, BitmapVersion::Lockless),
    ];

    /// The version with this number.
    #[must_use]
    pub fn of(number: u32) -> Option<BitmapVersion> {
        BitmapVersion::ALL.into_iter().find(|(known, _)| *known == number).map(|(_, version)| version)
    }

    /// What kind of bitmap it is, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            BitmapVersion::HostEndian => "in its machine's byte order",
            BitmapVersion::LittleEndian => "little-endian",
            BitmapVersion::Clustered => "of a cluster",
            BitmapVersion::Lockless => "lockless",
        }
    }

    /// The number in the superblock.
    #[must_use]
    pub fn number(self) -> u32 {
        3 + self as u32
    }

    /// May uraid read and write bits of this version?
    #[must_use]
    pub const fn is_usable(self) -> bool {
        matches!(self, BitmapVersion::HostEndian | BitmapVersion::LittleEndian)
    }
}

/// What is wrong with a bitmap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BitmapError {
    /// Fewer than 256 bytes, or fewer bytes of bits than the superblock speaks of.
    #[error("the bitmap needs {needed} bytes, but {found} are there")]
    TooShort {
        /// Bytes given.
        found: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// A field that cannot be so.
    #[error("bitmap {field} at byte {byte} is {found}, expected {expected}; {hint}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// Where it lies on the member, or in the file.
        byte: u64,
        /// What was found.
        found: u64,
        /// What should have been there.
        expected: &'static str,
        /// What to do next.
        hint: &'static str,
    },
    /// A version whose bits uraid does not understand.
    #[error("bitmap version {number} at byte {byte} is not one that uraid can use (3 or 4); {}", BitmapError::VERSION_HINT)]
    Version {
        /// The version found.
        number: u32,
        /// Where, on the member or in the file.
        byte: u64,
    },
    /// A bitmap of another array.
    #[error("the bitmap belongs to array {found}, not to {expected}; {}", BitmapError::STALE_HINT)]
    OtherArray {
        /// The bitmap's UUID.
        found: Uuid,
        /// The array's.
        expected: Uuid,
    },
    /// The bits reach into something else, or beyond the member.
    #[error("the bitmap's {bytes} bytes from {start} do not fit before {limit}; {}", BitmapError::STALE_HINT)]
    Place {
        /// First sector.
        start: Sector,
        /// Bytes of superblock and bits.
        bytes: u64,
        /// Where the data, the superblock, the bad-block log or the member's end begins.
        limit: Sector,
    },
}

impl BitmapError {
    const VERSION_HINT: &'static str = "start the array with --read-only, or drop the bitmap with --update=no-bitmap";
    const STALE_HINT: &'static str = "start the array with --read-only, or without this bitmap (--update=no-bitmap where it is on the members): a resync then covers all of it";
}

/// The superblock of a bitmap, checked; bytes that are not understood are kept for the rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitmapSuper {
    /// The format's version.
    pub version: BitmapVersion,
    /// The array's UUID.
    pub id: Uuid,
    /// The array's events when the bitmap was last written.
    pub events: u64,
    /// The events at which bits were last cleared: a member that is not older may be brought up to date by the bits.
    pub events_cleared: u64,
    /// What the bits cover: member data sectors; array sectors for RAID10.
    pub sync_size: SectorCount,
    /// State bits; see [`BitmapSuper::is_stale`].
    pub state: u32,
    /// Bytes for each bit: a power of two of at least 512.
    pub chunk_bytes: u32,
    /// Seconds between the rounds that clear bits, at least 1.
    pub daemon_sleep_seconds: u32,
    /// Writes that may be behind on write-mostly members; 0 for none.
    pub write_behind: u32,
    /// Sectors kept for the bitmap; 0 when not recorded.
    pub sectors_reserved: SectorCount,
    /// Nodes of a cluster; 0 for none.
    pub nodes: u32,
    raw: BitmapHead,
}

impl BitmapSuper {
    /// A new bitmap of version 4, with the kernel's 5 seconds between rounds of clearing.
    #[must_use]
    pub fn new(id: Uuid, sync_size: SectorCount, chunk_bytes: u32) -> BitmapSuper {
        BitmapSuper {
            version: BitmapVersion::LittleEndian,
            id,
            events: 0,
            events_cleared: 0,
            sync_size,
            state: 0,
            chunk_bytes,
            daemon_sleep_seconds: 5,
            write_behind: 0,
            sectors_reserved: SectorCount(0),
            nodes: 0,
            raw: BitmapHead::new_zeroed(),
        }
    }

    /// Reads the superblock that `bytes` begin with, found at `start` of the member.
    ///
    /// Versions 5 and 6 are read too; [`BitmapSuper::check_usable`] refuses them.
    ///
    /// # Errors
    /// [`BitmapError`] names the field that is wrong.
    pub fn parse(bytes: &[u8], start: Sector) -> Result<BitmapSuper, BitmapError> {
        let too_short = BitmapError::TooShort { found: bytes.len() as u64, needed: BITMAP_SUPER_BYTES as u64 };
        let (raw, _) = BitmapHead::read_from_prefix(bytes).map_err(|_| too_short)?;
        let first_byte = start.0.saturating_mul(SECTOR_BYTES);
        let wrong = |field, offset: u64, found: u64, expected| BitmapError::Field {
            field,
            byte: first_byte.saturating_add(offset),
            found,
            expected,
            hint: BitmapError::STALE_HINT,
        };
        if raw.magic.get() != BITMAP_MAGIC {
            return Err(wrong("magic", 0, u64::from(raw.magic.get()), "0x6d746962 ('bitm')"));
        }
        let number = raw.version.get();
        let version = BitmapVersion::of(number).ok_or(BitmapError::Version { number, byte: first_byte.saturating_add(4) })?;
        let chunk_bytes = raw.chunksize.get();
        if !chunk_bytes.is_power_of_two() || chunk_bytes < 512 {
            return Err(wrong("chunksize", 52, u64::from(chunk_bytes), "a power of two of at least 512"));
        }
        let sync_size = SectorCount(raw.sync_size.get());
        if sync_size.0 > u64::MAX / SECTOR_BYTES || bits_for(sync_size, chunk_bytes) > MAX_BITS {
            return Err(wrong("sync_size", 40, sync_size.0, "at most 2^30 chunks"));
        }
        if raw.daemon_sleep.get() == 0 {
            return Err(wrong("daemon_sleep", 56, 0, "at least 1 second"));
        }
        if raw.write_behind.get() > MAX_WRITE_BEHIND {
            return Err(wrong("write_behind", 60, u64::from(raw.write_behind.get()), "at most 16383"));
        }
        Ok(BitmapSuper {
            version,
            id: Uuid::from_bytes(raw.uuid),
            events: raw.events.get(),
            events_cleared: raw.events_cleared.get(),
            sync_size,
            state: raw.state.get(),
            chunk_bytes,
            daemon_sleep_seconds: raw.daemon_sleep.get(),
            write_behind: raw.write_behind.get(),
            sectors_reserved: SectorCount(u64::from(raw.sectors_reserved.get())),
            nodes: raw.nodes.get(),
            raw,
        })
    }

    /// The 256 bytes to write; bytes that are not understood are as they were read.
    ///
    /// # Panics
    /// When `sectors_reserved` does not fit 32 bits.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BITMAP_SUPER_BYTES] {
        let mut raw = self.raw;
        raw.magic.set(BITMAP_MAGIC);
        raw.version.set(self.version.number());
        raw.uuid = self.id.into_bytes();
        raw.events.set(self.events);
        raw.events_cleared.set(self.events_cleared);
        raw.sync_size.set(self.sync_size.0);
        raw.state.set(self.state);
        raw.chunksize.set(self.chunk_bytes);
        raw.daemon_sleep.set(self.daemon_sleep_seconds);
        raw.write_behind.set(self.write_behind);
        raw.sectors_reserved.set(u32::try_from(self.sectors_reserved.0).expect("a bitmap's area fits 32 bits of sectors"));
        raw.nodes.set(self.nodes);
        zerocopy::transmute!(raw)
    }

    /// Are the bits out of date (bit 1 of `state`): a write failed to reach them?
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        self.state & 2 != 0
    }

    /// Number of bits.
    #[must_use]
    pub const fn bits(&self) -> u64 {
        bits_for(self.sync_size, self.chunk_bytes)
    }

    /// Sectors for each bit.
    #[must_use]
    pub const fn chunk(&self) -> SectorCount {
        SectorCount(self.chunk_bytes as u64 / SECTOR_BYTES)
    }

    /// Bytes of superblock and bits, rounded up to whole blocks of `block_bytes` (512 or 4096).
    #[must_use]
    pub const fn area_bytes(&self, block_bytes: u64) -> u64 {
        (BITMAP_SUPER_BYTES as u64 + self.bits().div_ceil(8)).next_multiple_of(block_bytes)
    }

    /// May this bitmap be used for `superblock`'s array, on a member of `member` sectors?
    ///
    /// # Errors
    /// Another array's, a version that uraid does not understand, a size that is not the array's, or bits that reach too far.
    pub fn check_usable(&self, superblock: &Superblock, member: SectorCount) -> Result<(), BitmapError> {
        let start = superblock.bitmap_start().unwrap_or(superblock.super_offset);
        self.check_array(superblock, start)?;
        let log = superblock.bad_block_log().map(|(at, _)| at);
        let others = [Some(superblock.super_offset), Some(superblock.data_offset), log, Some(Sector(member.0))];
        let limit = others.into_iter().flatten().filter(|&at| at > start).min().unwrap_or(start);
        let bytes = self.area_bytes(SECTOR_BYTES);
        if bytes / SECTOR_BYTES > limit.0 - start.0 {
            return Err(BitmapError::Place { start, bytes, limit });
        }
        Ok(())
    }

    /// May this bitmap, found at `start` of a member or of a file of its own, be used for `superblock`'s array?
    ///
    /// # Errors
    /// Another array's, a version that uraid does not understand, or a size that is not the array's.
    pub fn check_array(&self, superblock: &Superblock, start: Sector) -> Result<(), BitmapError> {
        let byte_of = |offset: u64| start.0.saturating_mul(SECTOR_BYTES).saturating_add(offset);
        let foreign_order = superblock.byte_order == ByteOrder::Big && self.version == BitmapVersion::HostEndian;
        if !self.version.is_usable() || foreign_order {
            return Err(BitmapError::Version { number: self.version.number(), byte: byte_of(4) });
        }
        if self.id != superblock.bitmap_id() {
            return Err(BitmapError::OtherArray { found: self.id, expected: superblock.bitmap_id() });
        }
        let chunk = if superblock.level.has_parity() { superblock.chunk } else { SectorCount(1) };
        let whole = sync_size(superblock.layout, superblock.chunk, superblock.raid_disks, superblock.used_size);
        if !(whole.round_down(chunk)..=whole).contains(&self.sync_size) {
            return Err(BitmapError::Field {
                field: "sync_size",
                byte: byte_of(40),
                found: self.sync_size.0,
                expected: "the array's size (RAID10) or its size on each member (other levels)",
                hint: BitmapError::STALE_HINT,
            });
        }
        Ok(())
    }
}

/// Bits of a bitmap that covers `sync_size` in chunks of `chunk_bytes` (at least 512).
#[must_use]
pub const fn bits_for(sync_size: SectorCount, chunk_bytes: u32) -> u64 {
    sync_size.0.div_ceil(chunk_bytes as u64 / SECTOR_BYTES)
}

/// What a resync of an array counts, and so a bitmap covers: member sectors, but array sectors for RAID10.
pub(crate) fn sync_size(layout: Layout, chunk: SectorCount, raid_disks: u16, used: SectorCount) -> SectorCount {
    let Layout::Raid10(layout) = layout else { return used };
    let chunks = used.0 / chunk.0 / u64::from(layout.far_copies);
    let array_chunks = chunks.saturating_mul(u64::from(raid_disks)) / u64::from(layout.near_copies);
    SectorCount(array_chunks.saturating_mul(chunk.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), start in any::<u64>()) {
            let mut bytes = bytes;
            if let Some(magic) = bytes.first_chunk_mut::<8>() {
                *magic = [b'b', b'i', b't', b'm', 3 + (start % 5) as u8, 0, 0, 0];
            }
            if let Ok(bitmap) = BitmapSuper::parse(&bytes, Sector(start)) {
                prop_assert!(bitmap.bits() <= MAX_BITS);
                prop_assert_eq!(&bitmap.to_bytes()[..], &bytes[..256]);
            }
        }
    }

    #[test]
    fn versions_beyond_4_are_recognised_and_refused() {
        let mut bitmap = BitmapSuper::new(Uuid::nil(), SectorCount(1 << 20), 1 << 20);
        for (number, version) in [(5, BitmapVersion::Clustered), (6, BitmapVersion::Lockless)] {
            bitmap.version = version;
            let again = BitmapSuper::parse(&bitmap.to_bytes(), Sector(16)).unwrap();
            assert_eq!(again.version, version);
            assert_eq!(again.to_bytes()[4], number);
            assert!(!again.version.is_usable());
        }
        let mut bytes = bitmap.to_bytes();
        bytes[4] = 7;
        assert_eq!(BitmapSuper::parse(&bytes, Sector(16)), Err(BitmapError::Version { number: 7, byte: 8196 }));
    }

    #[test]
    fn the_whole_length_is_in_blocks() {
        let bitmap = BitmapSuper::new(Uuid::nil(), SectorCount(8 * 256 * 2048 + 1), 1 << 20);
        assert_eq!(bitmap.bits(), 2049);
        assert_eq!(bitmap.area_bytes(512), 1024);
        assert_eq!(bitmap.area_bytes(4096), 4096);
    }
}
