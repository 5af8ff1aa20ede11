//! A partial parity log's header. Sums are all 0, or nothing behind the checksum would ever be looked at.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_format::{PPL_HEADER_BYTES, PplHeader};
use uraid_fuzz::bounded;

/// Where the signature and the checksum lie (`struct ppl_header`).
const SUMS: [usize; 2] = [512, 532];

fn sum(_: u32, _: &[u8]) -> u32 {
    0
}

fuzz_target!(|input: &[u8]| {
    let mut bytes = vec![0; PPL_HEADER_BYTES];
    let len = input.len().min(PPL_HEADER_BYTES);
    bytes[..len].copy_from_slice(&input[..len]);
    for at in SUMS {
        bytes[at..at + 4].fill(0);
    }
    bounded(PPL_HEADER_BYTES, || {
        let Ok(header) = PplHeader::parse(&bytes, Default::default(), sum) else { return };
        for (entry, at) in header.partial_parities() {
            assert!(at + u64::from(entry.partial_bytes) <= header.log_bytes(), "partial parity beyond the log");
        }
        assert_eq!(PplHeader::parse(&header.to_bytes(sum), Default::default(), sum), Ok(header));
    });
});
