//! A superblock of version 0.90 in either byte order: what is taken goes round, what is not taken says why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_format::{RawFields090, RawSuper, SUPER_BYTES};
use uraid_fuzz::{bounded, mend_superblock_090};
use uraid_types::{Sector, SectorCount};

fuzz_target!(|input: &[u8]| {
    // The choices come last, so that what md wrote is an input as it stands.
    let Some((rest, &[order, size])) = input.split_last_chunk::<2>() else { return };
    let mut bytes = [0; SUPER_BYTES];
    let len = rest.len().min(SUPER_BYTES);
    bytes[..len].copy_from_slice(&rest[..len]);
    mend_superblock_090(&mut bytes, order & 1 != 0);
    let member = SectorCount([256, 1 << 12, 1 << 21, 1 << 33][usize::from(size % 4)]);
    // The last 64 KiB that begin at a multiple of 64 KiB.
    let at = Sector(member.0 / 128 * 128 - 128);
    bounded(SUPER_BYTES, || {
        let _ = RawFields090::read(&bytes);
        match RawSuper::parse(&bytes, at, member) {
            Ok(raw) => {
                let again = RawSuper::parse(&raw.to_bytes(), at, member).expect("what was taken is taken again");
                assert_eq!(again.superblock(), raw.superblock());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
});
