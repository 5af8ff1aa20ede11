//! Every number of a superblock as found, whether or not it makes sense: for `examine`.

use uuid::Uuid;
use zerocopy::FromBytes;

use crate::raw::{HEAD_BYTES, Head, MAX_ROLES, SUPER_MAGIC, checksum};

/// The fields of a version-1 superblock, unchecked, by the names of `linux/raid/md_p.h`.
///
/// Offsets and sizes are in 512-byte sectors as the header says, except `reshape_position` (array sectors).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFields {
    /// 1.
    pub major_version: u32,
    /// Bits of [`crate::Feature`].
    pub feature_map: u32,
    /// `set_uuid`.
    pub set_uuid: Uuid,
    /// `set_name` up to its first NUL.
    pub set_name: Vec<u8>,
    /// 40 bits seconds, 24 bits microseconds.
    pub ctime: u64,
    /// Level.
    pub level: i32,
    /// Layout.
    pub layout: u32,
    /// Data sectors used on each member.
    pub size: u64,
    /// Chunk.
    pub chunksize: u32,
    /// Slots.
    pub raid_disks: u32,
    /// From the superblock; meaningful with `MD_FEATURE_BITMAP_OFFSET`.
    pub bitmap_offset: i32,
    /// From the superblock; meaningful with `MD_FEATURE_PPL`. Shares its bytes with `bitmap_offset`.
    pub ppl_offset: i16,
    /// Meaningful with `MD_FEATURE_PPL`.
    pub ppl_size: u16,
    /// Meaningful, as the next five, with `MD_FEATURE_RESHAPE_ACTIVE`.
    pub new_level: i32,
    /// Array sector that the reshape has reached.
    pub reshape_position: u64,
    /// Members gained, or lost.
    pub delta_disks: i32,
    /// Layout after the reshape.
    pub new_layout: u32,
    /// Chunk after the reshape.
    pub new_chunk: u32,
    /// Added to `data_offset` by the reshape; meaningful with `MD_FEATURE_NEW_OFFSET`.
    pub new_offset: i32,
    /// First data sector.
    pub data_offset: u64,
    /// Sectors for data.
    pub data_size: u64,
    /// This superblock's sector.
    pub super_offset: u64,
    /// From `data_offset`; on a journal device the journal's tail.
    pub recovery_offset: u64,
    /// Index into `roles`.
    pub dev_number: u32,
    /// Read errors repaired.
    pub cnt_corrected_read: u32,
    /// `device_uuid`.
    pub device_uuid: Uuid,
    /// Bit 0 write-mostly, bit 1 failfast.
    pub devflags: u8,
    /// Sectors in the bad-block log are counted in units of `1 << bblog_shift`.
    pub bblog_shift: u8,
    /// Sectors of the bad-block log.
    pub bblog_size: u16,
    /// From the superblock.
    pub bblog_offset: i32,
    /// As `ctime`.
    pub utime: u64,
    /// Event count.
    pub events: u64,
    /// All ones: clean.
    pub resync_offset: u64,
    /// `sb_csum` as found.
    pub checksum_found: u32,
    /// What it should be; `None` when `max_dev` is more than the bytes given hold.
    pub checksum_expected: Option<u32>,
    /// Entries of `dev_roles` by the superblock's own account.
    pub max_dev: u32,
    /// Byte 224, kernels from 6.19.
    pub logical_block_size: u32,
    /// `dev_roles` as far as the bytes reach.
    pub roles: Vec<u16>,
}

impl RawFields {
    /// Reads the fields of `bytes`, the start of a superblock ([`crate::SUPER_BYTES`] of it when there are that many).
    ///
    /// `None` only when the magic is missing, the major version is 0 (0.90 has other fields) or there are fewer than 256 bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<RawFields> {
        let (head, table) = Head::read_from_prefix(bytes).ok()?;
        if head.magic.get() != SUPER_MAGIC || head.major_version.get() == 0 {
            return None;
        }
        let max_dev = head.max_dev.get();
        let in_table = usize::try_from(max_dev).unwrap_or(usize::MAX).min(MAX_ROLES);
        let roles: Vec<u16> = table.chunks_exact(2).take(in_table).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let whole = roles.len() as u64 == u64::from(max_dev);
        let [offset_low, offset_high, size_low, size_high] = head.bitmap_offset.get().to_le_bytes();
        Some(RawFields {
            major_version: head.major_version.get(),
            feature_map: head.feature_map.get(),
            set_uuid: Uuid::from_bytes(head.set_uuid),
            set_name: until_nul(&head.set_name),
            ctime: head.ctime.get(),
            level: head.level.get(),
            layout: head.layout.get(),
            size: head.size.get(),
            chunksize: head.chunksize.get(),
            raid_disks: head.raid_disks.get(),
            bitmap_offset: head.bitmap_offset.get(),
            ppl_offset: i16::from_le_bytes([offset_low, offset_high]),
            ppl_size: u16::from_le_bytes([size_low, size_high]),
            new_level: head.new_level.get(),
            reshape_position: head.reshape_position.get(),
            delta_disks: head.delta_disks.get(),
            new_layout: head.new_layout.get(),
            new_chunk: head.new_chunk.get(),
            new_offset: head.new_offset.get(),
            data_offset: head.data_offset.get(),
            data_size: head.data_size.get(),
            super_offset: head.super_offset.get(),
            recovery_offset: head.recovery_offset.get(),
            dev_number: head.dev_number.get(),
            cnt_corrected_read: head.cnt_corrected_read.get(),
            device_uuid: Uuid::from_bytes(head.device_uuid),
            devflags: head.devflags,
            bblog_shift: head.bblog_shift,
            bblog_size: head.bblog_size.get(),
            bblog_offset: head.bblog_offset.get(),
            utime: head.utime.get(),
            events: head.events.get(),
            resync_offset: head.resync_offset.get(),
            checksum_found: head.sb_csum.get(),
            checksum_expected: whole.then(|| checksum(&bytes[..HEAD_BYTES + 2 * roles.len()])),
            max_dev,
            logical_block_size: head.logical_block_size.get(),
            roles,
        })
    }
}

/// A name field up to its first NUL.
pub(crate) fn until_nul(field: &[u8]) -> Vec<u8> {
    field.iter().copied().take_while(|&byte| byte != 0).collect()
}
