//! A whole member: looked at, judged as an array, and surveyed. Its first or last 64 KiB are the input.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use uraid_array::{AssembleOptions, assemble, scan, survey};
use uraid_device::{Device, MemoryDevice};
use uraid_fuzz::{bounded, mend_superblock};

const MEMBER_BYTES: u64 = 4 << 20;
const MOST_BYTES: usize = 64 << 10;

fuzz_target!(|input: &[u8]| {
    let Some((&place, bytes)) = input.split_last() else { return };
    let len = bytes.len().min(MOST_BYTES);
    let mut image = vec![0; len.next_multiple_of(512)];
    image[..len].copy_from_slice(&bytes[..len]);
    let (at, superblock) = match place % 4 {
        0 => (0, Some(0)),
        1 => (0, Some(4096)),
        2 => (MEMBER_BYTES - image.len() as u64, None),
        _ => (0, None),
    };
    if let Some(superblock) = superblock.and_then(|from| image.get_mut(from..)) {
        mend_superblock(superblock);
    }
    let device = MemoryDevice::new("fuzz", MEMBER_BYTES, 512);
    device.write_at(at, &image).expect("memory takes it");
    bounded(MOST_BYTES, || match scan(Arc::new(device)) {
        Ok(candidate) => {
            let _ = survey(std::slice::from_ref(&candidate), &AssembleOptions::default(), None);
            for force in [false, true] {
                let options =
                    AssembleOptions { force, run: force, invalid_backup: force, read_only: true, ..AssembleOptions::default() };
                let _ = assemble(vec![candidate.clone()], &options, None).map_err(|error| assert!(!error.to_string().is_empty()));
            }
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    });
});
