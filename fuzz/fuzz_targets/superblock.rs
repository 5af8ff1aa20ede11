//! A 1.x superblock: what is taken goes round, what is not taken says why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_format::{RawFields, RawSuper, SUPER_BYTES};
use uraid_fuzz::{bounded, mend_superblock};
use uraid_types::{Sector, SectorCount};

fuzz_target!(|input: &[u8]| {
    // The choices come last, so that what md wrote is an input as it stands.
    let Some((rest, &[place, size])) = input.split_last_chunk::<2>() else { return };
    let mut bytes = vec![0; SUPER_BYTES];
    let len = rest.len().min(SUPER_BYTES);
    bytes[..len].copy_from_slice(&rest[..len]);
    mend_superblock(&mut bytes);
    let at = Sector([0, 8, 1 << 20, u64::MAX >> 10][usize::from(place % 4)]);
    let member = SectorCount([64, 1 << 12, 1 << 21, 1 << 45][usize::from(size % 4)]);
    bounded(SUPER_BYTES, || {
        let _ = RawFields::read(&bytes);
        match RawSuper::parse(&bytes, at, member) {
            Ok(raw) => {
                let again = RawSuper::parse(&raw.to_bytes(), at, member).expect("what was taken is taken again");
                assert_eq!(again.superblock(), raw.superblock());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
});
