//! GPT and MBR, the chain of logical partitions among them. The disk is larger than the input, which lies at its start.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use uraid_format::read_partitions;
use uraid_fuzz::bounded;

const DISK_BYTES: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let mut disk = input.to_vec();
    if disk.len() > 512 {
        // The mark of an MBR.
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    }
    let mut reads = 0;
    bounded(DISK_BYTES as usize, || {
        let mut read = |byte: u64, len: usize| -> Result<Vec<u8>, Infallible> {
            reads += 1;
            assert!(reads < 4096, "it reads without end");
            let len = (len as u64).min(DISK_BYTES.saturating_sub(byte)) as usize;
            let mut bytes = vec![0; len];
            for (place, value) in bytes.iter_mut().enumerate() {
                *value = usize::try_from(byte).ok().and_then(|byte| disk.get(byte + place)).copied().unwrap_or(0);
            }
            Ok(bytes)
        };
        if let Ok(Some(table)) = read_partitions(DISK_BYTES, 512, &mut read) {
            for partition in &table.partitions {
                // It may reach beyond a disk that was cut short.
                assert!(partition.end_bytes() > partition.start_bytes, "a partition of nothing");
            }
        }
    });
});
