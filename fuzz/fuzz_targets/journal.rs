//! A meta block of a journal. Sums are all 0, or nothing behind the checksum would ever be looked at.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_format::{JOURNAL_BLOCK_BYTES, JournalMeta};
use uraid_fuzz::bounded;

fn sum(_: u32, _: &[u8]) -> u32 {
    0
}

fuzz_target!(|input: &[u8]| {
    let mut block = vec![0; JOURNAL_BLOCK_BYTES];
    let len = input.len().min(JOURNAL_BLOCK_BYTES);
    block[..len].copy_from_slice(&input[..len]);
    // Magic, checksum and version (`struct r5l_meta_block`).
    block[..4].copy_from_slice(&0x6433_c509_u32.to_le_bytes());
    block[4..8].fill(0);
    block[8] = 1;
    bounded(JOURNAL_BLOCK_BYTES, || {
        if let Ok(meta) = JournalMeta::parse(&block, 0, sum) {
            assert!(meta.blocks() as usize <= JOURNAL_BLOCK_BYTES / 4, "more checksums than the block holds");
        }
    });
});
