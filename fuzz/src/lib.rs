//! What the fuzz targets share: a bound on memory, and checksums put right, without which no input would get past the first check.

use std::alloc::System;
use std::panic;
use std::sync::Once;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes that any parser may take, whatever its input.
const BASE_BYTES: usize = 1 << 20;

/// Bytes that it may take for each byte of its input.
const FACTOR: usize = 64;

/// Runs `parse`; if it takes more memory than fits the input, the process ends and the input is a finding.
pub fn bounded<T>(input_bytes: usize, parse: impl FnOnce() -> T) -> T {
    let room = BASE_BYTES + FACTOR * input_bytes;
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // A panic's message needs memory too.
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            set_limit(usize::MAX);
            before(panicked);
        }));
    });
    set_limit(ALLOCATOR.allocated() + room);
    let result = parse();
    set_limit(usize::MAX);
    result
}

fn set_limit(bytes: usize) {
    ALLOCATOR.set_limit(bytes).expect("the limit is above what is taken");
}

/// The magic number of md's superblocks and bitmaps' own.
const SUPER_MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();

/// Gives a superblock of version 0.90 its magic number, its version and the checksum that fits the rest, in its own byte order.
pub fn mend_superblock_090(bytes: &mut [u8; 4096], big_endian: bool) {
    const CHECKSUM_WORD: usize = 38;
    let to_bytes = if big_endian { u32::to_be_bytes } else { u32::to_le_bytes };
    let of_bytes = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    let mut put = |word: usize, value: u32| bytes[4 * word..4 * word + 4].copy_from_slice(&to_bytes(value));
    let head = [0xa92b_4efc, 0, 90];
    head.into_iter().enumerate().for_each(|(word, value)| put(word, value));
    put(CHECKSUM_WORD, 0);
    let words = bytes.chunks_exact(4).map(|word| of_bytes([word[0], word[1], word[2], word[3]]));
    let sum: u64 = words.map(u64::from).sum();
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[4 * CHECKSUM_WORD..4 * CHECKSUM_WORD + 4].copy_from_slice(&to_bytes(folded));
}

/// Gives a 1.x superblock its magic number and the checksum that fits the rest.
pub fn mend_superblock(bytes: &mut [u8]) {
    const CHECKSUM_AT: usize = 216;
    const HEAD_BYTES: usize = 256;
    if bytes.len() < HEAD_BYTES {
        return;
    }
    bytes[..4].copy_from_slice(&SUPER_MAGIC);
    bytes[4..8].copy_from_slice(&1_u32.to_le_bytes());
    let roles = u32::from_le_bytes([bytes[220], bytes[221], bytes[222], bytes[223]]) as usize;
    let end = HEAD_BYTES.saturating_add(roles.saturating_mul(2)).min(bytes.len());
    bytes[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0);
    let sum: u64 =
        bytes[..end].chunks(4).map(|word| word.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))).sum();
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&folded.to_le_bytes());
}

/// CRC-32 as GPT and DDF have it.
fn crc32<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u32 {
    !bytes.into_iter().fold(u32::MAX, |rest, byte| {
        (0..8).fold(rest ^ u32::from(*byte), |rest, _| if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 })
    })
}

/// Gives the GPT header in the second block the checksums that fit it and its entries.
pub fn mend_gpt(disk: &mut [u8], block: usize) {
    let number = |disk: &[u8], at: usize| u32::from_le_bytes([disk[at], disk[at + 1], disk[at + 2], disk[at + 3]]) as usize;
    disk[block..block + 8].copy_from_slice(b"EFI PART");
    disk[block + 24..block + 32].copy_from_slice(&1_u64.to_le_bytes());
    let first = number(disk, block + 72).saturating_mul(block);
    let len = number(disk, block + 80).saturating_mul(number(disk, block + 84));
    let entries = disk.get(first..).and_then(|rest| rest.get(..len)).unwrap_or_default();
    let sum = crc32(entries);
    disk[block + 88..block + 92].copy_from_slice(&sum.to_le_bytes());
    let header = number(disk, block + 12).clamp(92, block);
    disk[block + 16..block + 20].fill(0);
    let sum = crc32(&disk[block..block + header]);
    disk[block + 16..block + 20].copy_from_slice(&sum.to_le_bytes());
}

/// Gives IMSM's metadata the checksum that fits it: the sum of all its words but that one.
pub fn mend_imsm(bytes: &mut [u8]) {
    let len = u32::from_le_bytes([bytes[36], bytes[37], bytes[38], bytes[39]]) as usize;
    let end = len.min(bytes.len());
    bytes[32..36].fill(0);
    let words = bytes[..end].chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let sum = words.fold(0_u32, u32::wrapping_add);
    bytes[32..36].copy_from_slice(&sum.to_le_bytes());
}

/// Gives a structure of DDF the checksum that fits it: over all of it, its own four bytes as ones.
pub fn mend_ddf(bytes: &mut [u8]) {
    bytes[4..8].fill(0xff);
    let sum = crc32(&*bytes);
    bytes[4..8].copy_from_slice(&sum.to_be_bytes());
}
