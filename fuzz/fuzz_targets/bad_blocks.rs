//! A bad-block log.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_format::{bad_blocks_to_bytes, parse_bad_blocks};
use uraid_fuzz::bounded;
use uraid_types::{Sector, SectorCount};

fuzz_target!(|input: &[u8]| {
    let Some((&shift, log)) = input.split_last() else { return };
    bounded(log.len(), || {
        let Ok(ranges) = parse_bad_blocks(log, shift) else { return };
        if let Ok(bytes) = bad_blocks_to_bytes(&ranges, shift, log.len().max(512).next_multiple_of(512)) {
            let again = parse_bad_blocks(&bytes, shift).expect("what was written is read");
            assert_eq!(joined(&again), joined(&ranges));
        }
    });
});

/// Long ranges are written in pieces.
fn joined(ranges: &[(Sector, SectorCount)]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (start, len) in ranges {
        match all.last_mut() {
            Some((last, end)) if *last + *end == start.0 => *end += len.0,
            _ => all.push((start.0, len.0)),
        }
    }
    all
}
