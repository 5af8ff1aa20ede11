//! Partition tables of a disk whose first 32 KiB, or last, are the input.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use uraid_format::{MAX_ENTRY_BYTES, read_partitions};
use uraid_fuzz::{bounded, mend_gpt};

const DISK_BYTES: usize = 1 << 20;
const MOST_BYTES: usize = 32 << 10;

fuzz_target!(|input: &[u8]| {
    let Some((&place, bytes)) = input.split_last() else { return };
    let bytes = &bytes[..bytes.len().min(MOST_BYTES)];
    let mut disk = vec![0; DISK_BYTES];
    let at = if place & 1 == 0 { 0 } else { DISK_BYTES - bytes.len() };
    disk[at..at + bytes.len()].copy_from_slice(bytes);
    let block = if place & 2 == 0 { 512 } else { 4096 };
    if place & 4 != 0 {
        mend_gpt(&mut disk, block);
    }
    if place & 8 != 0 {
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    }
    bounded(MAX_ENTRY_BYTES as usize, || {
        let mut reads = 0;
        let mut read = |byte: u64, len: usize| {
            reads += 1;
            assert!(reads < 1024, "it reads without end");
            let from = usize::try_from(byte).unwrap_or(usize::MAX).min(DISK_BYTES);
            Ok::<_, Infallible>(disk[from..from.saturating_add(len).min(DISK_BYTES)].to_vec())
        };
        match read_partitions(DISK_BYTES as u64, block as u32, &mut read) {
            Ok(Some(table)) => assert!(table.partitions.iter().all(|found| found.number > 0 && found.len_bytes > 0)),
            Ok(None) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
});
