//! PPL headers and journal blocks. Checksums are all 0 here, so that they keep nothing out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_format::{JournalMeta, PplHeader};
use uraid_fuzz::bounded;

fn no_checksum(_: u32, _: &[u8]) -> u32 {
    0
}

fuzz_target!(|input: &[u8]| {
    // Most of a block may stay 0.
    let mut block = input.to_vec();
    block.resize(4096, 0);
    bounded(block.len(), || {
        if let Ok(header) = PplHeader::parse(&block, Default::default(), no_checksum) {
            let again = PplHeader::parse(&header.to_bytes(no_checksum), Default::default(), no_checksum);
            assert_eq!(again.as_ref(), Ok(&header));
            assert!(header.partial_parities().all(|(entry, at)| at + u64::from(entry.partial_bytes) <= header.log_bytes()));
        }
        if let Ok(meta) = JournalMeta::parse(&block, 0, no_checksum) {
            assert!(meta.blocks() <= 1024);
        }
    });
});
