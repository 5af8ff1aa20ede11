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
