//! IMSM and DDF at the end of a disk: looked at, put together as a container of one disk, every volume assembled.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use uraid_array::foreign::{Container, ForeignDisk, VolumeOptions, look};
use uraid_device::{Device, MemoryDevice};
use uraid_fuzz::bounded;

const DISK_BYTES: u64 = 4 << 20;
const MOST_BYTES: usize = 64 << 10;

fuzz_target!(|input: &[u8]| {
    let len = input.len().min(MOST_BYTES);
    let mut image = vec![0; len.next_multiple_of(512)];
    let start = image.len() - len;
    image[start..].copy_from_slice(&input[..len]);
    let device = MemoryDevice::new("fuzz", DISK_BYTES, 512);
    device.write_at(DISK_BYTES - image.len() as u64, &image).expect("memory takes it");
    let device: Arc<dyn Device> = Arc::new(device);
    bounded(MOST_BYTES, || {
        let Ok(Some(metadata)) = look(&*device) else { return };
        let Ok(container) = Container::of(vec![ForeignDisk { device, metadata, place: Some(0) }]) else { return };
        let _ = container.assemble(&VolumeOptions { force: true, run: true, ..VolumeOptions::default() });
    });
});
