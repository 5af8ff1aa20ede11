//! IMSM and DDF at the end of a disk: looked at, put together as a container of one disk, assembled.
//!
//! The input is a list of sectors: how many sectors from the disk's end (4 bytes), how often over (2 bytes, little-endian both), the sector.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use uraid_array::foreign::{Container, ForeignDisk, VolumeOptions, look};
use uraid_device::{Device, MemoryDevice};
use uraid_fuzz::bounded;

/// Disks on which mdadm made the containers that are the seeds: sizes in bytes.
const DISKS: [u64; 2] = [32 << 20, 128 << 20];
/// As long as the metadata may be, whatever the input.
const MOST_METADATA_BYTES: usize = 1 << 20;
const SECTOR: usize = 512;
/// What a sector of the input stands for may be repeated so often.
const MOST_REPEATS: u64 = 1024;

fuzz_target!(|input: &[u8]| {
    // The wider of the two where a sector asks for it.
    let sectors = || {
        input.chunks_exact(6 + SECTOR).map(|record| {
            let from_end = u64::from(u32::from_le_bytes([record[0], record[1], record[2], record[3]]));
            (from_end, u64::from(u16::from_le_bytes([record[4], record[5]])), &record[6..])
        })
    };
    let is_wide = sectors().any(|(from_end, ..)| from_end > 1 << 14);
    let disk_bytes = DISKS[usize::from(is_wide)];
    let disk_sectors = disk_bytes / SECTOR as u64;
    let device = MemoryDevice::new("fuzz", disk_bytes, 512);
    for (from_end, repeats, bytes) in sectors().take(256) {
        let first = disk_sectors - from_end.clamp(1, disk_sectors);
        let many = repeats.clamp(1, MOST_REPEATS).min(disk_sectors - first);
        device.write_at(first * SECTOR as u64, &bytes.repeat(many as usize)).expect("memory takes it");
    }
    let device: Arc<dyn Device> = Arc::new(device);
    bounded(MOST_METADATA_BYTES, || {
        let Ok(Some(metadata)) = look(&*device) else { return };
        let Ok(container) = Container::of(vec![ForeignDisk { device, metadata, place: Some(0) }]) else { return };
        let _ = container.assemble(&VolumeOptions { force: true, run: true, ..VolumeOptions::default() });
    });
});
