//! Version-1 superblocks changed by hand, by the offsets of `linux/raid/md_p.h`.

use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where version 1.2 has it.
const AT: u64 = 4096;
/// Up to the table of roles.
const HEAD: usize = 256;

pub const MAGIC: usize = 0;
pub const MAJOR_VERSION: usize = 4;
pub const FEATURE_MAP: usize = 8;
pub const LAYOUT: usize = 76;
pub const DATA_OFFSET: usize = 128;
pub const DEVICE_UUID: usize = 168;
pub const EVENTS: usize = 200;
pub const RESYNC_OFFSET: usize = 208;
pub const CHECKSUM: usize = 216;
pub const MAX_DEV: usize = 220;
pub const DEV_ROLES: usize = 256;

/// Changes the bytes at `field`, and makes the checksum right again.
pub fn set(member: &Path, field: usize, value: &[u8]) {
    edit(member, |block| block[field..field + value.len()].copy_from_slice(value));
}

/// A field of 64 bits.
pub fn get_u64(member: &Path, field: usize) -> u64 {
    u64::from_le_bytes(read(member)[field..field + 8].try_into().unwrap())
}

/// Changes the bytes at `field` without telling the checksum.
pub fn spoil(member: &Path, field: usize, value: &[u8]) {
    open(member).write_all_at(value, AT + field as u64).unwrap();
}

fn open(member: &Path) -> std::fs::File {
    std::fs::File::options().read(true).write(true).open(member).unwrap()
}

fn read(member: &Path) -> Vec<u8> {
    let mut block = vec![0; 4096];
    open(member).read_exact_at(&mut block, AT).unwrap();
    block
}

fn edit(member: &Path, change: impl FnOnce(&mut [u8])) {
    let mut block = read(member);
    change(&mut block);
    let max_dev = u32::from_le_bytes(block[MAX_DEV..MAX_DEV + 4].try_into().unwrap()) as usize;
    let len = (HEAD + 2 * max_dev).min(block.len());
    block[CHECKSUM..CHECKSUM + 4].fill(0);
    // Words of 32 bits added up, the last half word by itself, then folded once.
    let sum: u64 = block[..len].chunks(4).map(|word| word.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))).sum();
    let folded = (sum & 0xffff_ffff) + (sum >> 32);
    block[CHECKSUM..CHECKSUM + 4].copy_from_slice(&(folded as u32).to_le_bytes());
    open(member).write_all_at(&block, AT).unwrap();
}
