//! The version-1 superblock as bytes, and its checksum.

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `MD_SB_MAGIC`.
pub const SUPER_MAGIC: u32 = 0xa92b_4efc;

/// Bytes before the table of roles.
pub const HEAD_BYTES: usize = 256;

/// Bytes that a superblock may take, roles included; read this much at each place of [`crate::super_offsets`].
pub const SUPER_BYTES: usize = 4096;

/// Roles that fit [`SUPER_BYTES`]: the kernel takes no more either.
pub const MAX_ROLES: usize = (SUPER_BYTES - HEAD_BYTES) / 2;

/// `struct mdp_superblock_1` of `linux/raid/md_p.h` up to `dev_roles`, field by field.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    pub magic: U32,
    pub major_version: U32,
    pub feature_map: U32,
    pub pad0: U32,
    pub set_uuid: [u8; 16],
    pub set_name: [u8; 32],
    pub ctime: U64,
    pub level: I32,
    pub layout: U32,
    pub size: U64,
    pub chunksize: U32,
    pub raid_disks: U32,
    /// With `MD_FEATURE_PPL` two 16-bit numbers: offset (signed) and size.
    pub bitmap_offset: I32,
    pub new_level: I32,
    pub reshape_position: U64,
    pub delta_disks: I32,
    pub new_layout: U32,
    pub new_chunk: U32,
    pub new_offset: I32,
    pub data_offset: U64,
    pub data_size: U64,
    pub super_offset: U64,
    /// On a journal device: `journal_tail`.
    pub recovery_offset: U64,
    pub dev_number: U32,
    pub cnt_corrected_read: U32,
    pub device_uuid: [u8; 16],
    pub devflags: u8,
    pub bblog_shift: u8,
    pub bblog_size: U16,
    pub bblog_offset: I32,
    pub utime: U64,
    pub events: U64,
    pub resync_offset: U64,
    pub sb_csum: U32,
    pub max_dev: U32,
    /// Padding until kernel 6.19, which writes the logical block size here.
    pub logical_block_size: U32,
    pub pad3: [u8; 28],
}

/// The offsets that `linux/raid/md_p.h` gives; a wrong one does not compile.
macro_rules! assert_offsets {
    ($($field:ident = $offset:literal),* $(,)?) => {
        $(const _: () = assert!(core::mem::offset_of!(Head, $field) == $offset);)*
    };
}

assert_offsets! {
    magic = 0, major_version = 4, feature_map = 8, pad0 = 12, set_uuid = 16, set_name = 32,
    ctime = 64, level = 72, layout = 76, size = 80, chunksize = 88, raid_disks = 92,
    bitmap_offset = 96, new_level = 100, reshape_position = 104, delta_disks = 112,
    new_layout = 116, new_chunk = 120, new_offset = 124,
    data_offset = 128, data_size = 136, super_offset = 144, recovery_offset = 152,
    dev_number = 160, cnt_corrected_read = 164, device_uuid = 168, devflags = 184,
    bblog_shift = 185, bblog_size = 186, bblog_offset = 188,
    utime = 192, events = 200, resync_offset = 208, sb_csum = 216, max_dev = 220,
    logical_block_size = 224, pad3 = 228,
}
const _: () = assert!(core::mem::size_of::<Head>() == HEAD_BYTES);

/// Where in [`Head`] the checksum lies: it counts as 0 in the sum.
const CHECKSUM_AT: usize = 216;

/// The superblock's checksum over its head and `max_dev` roles: the sum of its little-endian 32-bit words, a last
/// 16-bit half added when there is one, the upper half of the sum folded onto the lower.
///
/// `bytes` is the superblock cut to `256 + 2 * max_dev` bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut sum: u64 = 0;
    for (index, word) in bytes.chunks(4).enumerate() {
        if index == CHECKSUM_AT / 4 {
            continue;
        }
        sum += match *word {
            [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
            [a, b] => u64::from(u16::from_le_bytes([a, b])),
            _ => unreachable!("a superblock is a whole number of 16-bit halves"),
        };
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_number_of_roles_adds_its_last_half() {
        let mut bytes = vec![0; HEAD_BYTES + 2];
        bytes[0] = 5;
        bytes[HEAD_BYTES] = 7;
        bytes[HEAD_BYTES + 1] = 1;
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0xff);
        assert_eq!(checksum(&bytes), 5 + 7 + 256);
    }

    #[test]
    fn the_upper_half_of_the_sum_is_folded_in() {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[0..12].fill(0xff);
        // 3 * 0xffff_ffff = 0x2_ffff_fffd
        assert_eq!(checksum(&bytes), 0xffff_fffd_u32.wrapping_add(2));
    }
}
