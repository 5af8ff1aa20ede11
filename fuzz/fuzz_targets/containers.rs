//! Metadata of IMSM and DDF as `foreign` reads it, but made of any bytes, with its checksums put right.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use uraid_array::foreign::{Container, ForeignDisk, VolumeOptions, look};
use uraid_device::{Device, MemoryDevice};
use uraid_format::foreign::ddf::{DDF_BLOCK, DDF_MAGIC};
use uraid_format::foreign::imsm::IMSM_MAGIC;
use uraid_fuzz::{bounded, mend_ddf, mend_imsm};

const DISK_BYTES: usize = 1 << 20;
/// Blocks of the header and of its sections, in the order in which the input gives them.
const HEADER: usize = 1024;
const SECTIONS: [(usize, usize, u32); 4] = [(1, 2, 0x2222_2222), (3, 2, 0xdddd_dddd), (5, 6, 0xeeee_eeee), (11, 1, 0x3333_3333)];

fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_last() else { return };
    let mut disk = vec![0; DISK_BYTES];
    if kind & 1 == 0 {
        imsm(&mut disk, bytes)
    } else {
        ddf(&mut disk, bytes)
    }
    let device = Arc::new(MemoryDevice::new("fuzz", DISK_BYTES as u64, 512));
    device.write_at(0, &disk).expect("memory takes it");
    bounded(DISK_BYTES, || match look(&*device) {
        Ok(Some(metadata)) => {
            let place = Some(0);
            let Ok(container) = Container::of(vec![ForeignDisk { device, metadata, place }]) else { return };
            for volume in container.volumes.iter().flatten() {
                let wanted = VolumeOptions { name: Some(volume.name.clone()), force: true, run: true };
                let _ = container.assemble(&wanted).map_err(|problem| assert!(!problem.to_string().is_empty()));
            }
        }
        Ok(None) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    });
});

/// The last block but one, and the one before it.
fn imsm(disk: &mut [u8], bytes: &[u8]) {
    let anchor = DISK_BYTES - 1024;
    let mut metadata = [0; 1024];
    let len = bytes.len().min(1024);
    metadata[..len].copy_from_slice(&bytes[..len]);
    metadata[..IMSM_MAGIC.len()].copy_from_slice(IMSM_MAGIC);
    mend_imsm(&mut metadata);
    disk[anchor..anchor + 512].copy_from_slice(&metadata[..512]);
    disk[anchor - 512..anchor].copy_from_slice(&metadata[512..]);
}

/// A header, and its four sections.
fn ddf(disk: &mut [u8], bytes: &[u8]) {
    let blocks = 12 * DDF_BLOCK;
    let start = HEADER * DDF_BLOCK;
    let len = bytes.len().min(blocks);
    disk[start..start + len].copy_from_slice(&bytes[..len]);
    let header = &mut disk[start..start + DDF_BLOCK];
    header[..4].copy_from_slice(&DDF_MAGIC);
    header[96..104].copy_from_slice(&(HEADER as u64).to_be_bytes());
    for ((at, len, _), place) in SECTIONS.iter().zip([200, 208, 216, 224]) {
        header[place..place + 4].copy_from_slice(&(*at as u32).to_be_bytes());
        header[place + 4..place + 8].copy_from_slice(&(*len as u32).to_be_bytes());
    }
    header[134..138].copy_from_slice(&[0, 2, 0, 16]);
    mend_ddf(header);
    let anchor = header.to_vec();
    for (at, len, magic) in SECTIONS {
        // Configuration records are of two blocks each.
        let step = if magic == 0xeeee_eeee { 2 } else { len };
        for structure in (at..at + len).step_by(step) {
            let bytes = &mut disk[start + structure * DDF_BLOCK..][..step * DDF_BLOCK];
            bytes[..4].copy_from_slice(&magic.to_be_bytes());
            mend_ddf(bytes);
        }
    }
    disk[DISK_BYTES - DDF_BLOCK..].copy_from_slice(&anchor);
}
