//! A bitmap in a file of its own: looked at, and taken for an array's.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use uraid_array::{
    AssembleOptions, BitmapFile, Candidate, CreateRequest, FoundBitmap, assemble, create, look_at_bitmap, scan, survey,
};
use uraid_device::{Device, MemoryDevice};
use uraid_fuzz::bounded;
use uraid_types::{Level, Sector};

const MEMBER_BYTES: u64 = 4 << 20;
const MOST_BYTES: usize = 64 << 10;

/// Where a bitmap's head has the array's UUID and what it covers.
const UUID_AT: usize = 8;
const SYNC_SIZE_AT: usize = 40;

/// A mirror without a bitmap.
static MIRROR: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
    let member = |name: &str| -> Arc<dyn Device> { Arc::new(MemoryDevice::new(name, MEMBER_BYTES, 512)) };
    let devices = [member("a"), member("b")];
    let request = CreateRequest { assume_clean: true, bitmap: None, ..CreateRequest::new(Level::Raid1) };
    create(&devices.clone().map(Some), &[], &request).expect("a mirror is made");
    devices.map(|device| scan(device).expect("a new member")).to_vec()
});

fuzz_target!(|input: &[u8]| {
    let Some((&mend, bytes)) = input.split_last() else { return };
    let len = bytes.len().min(MOST_BYTES);
    let mut image = vec![0; len.next_multiple_of(512)];
    image[..len].copy_from_slice(&bytes[..len]);
    let own = MIRROR[0].superblock();
    if let (true, Some(head)) = (mend & 1 == 1, image.first_chunk_mut::<256>()) {
        head[..4].copy_from_slice(b"bitm");
        head[UUID_AT..UUID_AT + 16].copy_from_slice(own.array_id.as_bytes());
        head[SYNC_SIZE_AT..SYNC_SIZE_AT + 8].copy_from_slice(&own.used_size.0.to_le_bytes());
    }
    let device = MemoryDevice::new("fuzz", image.len() as u64, 512);
    device.write_at(0, &image).expect("memory takes it");
    bounded(MOST_BYTES, || {
        let seen = look_at_bitmap(&device, Sector(0), len as u64).expect("memory can be read");
        let _ = seen.fields.as_ref().map(|fields| (fields.bits(), fields.known_version()));
        let (Ok(superblock), Some(bits)) = (seen.superblock, seen.bits) else { return };
        assert!(bits.count() <= superblock.bits());
        let file = BitmapFile { device: Arc::new(device), found: FoundBitmap { superblock, bits } };
        let options = AssembleOptions { bitmap_file: Some(file), read_only: true, ..AssembleOptions::default() };
        let _ = survey(&MIRROR, &options, None);
        match assemble(MIRROR.to_vec(), &options, None) {
            Ok(assembly) => {
                let taken = assembly.bitmap.expect("the file's");
                assert!(taken.set.iter().all(|bit| *bit < taken.bits));
            }
            Err(error) => assert!(error.to_string().contains("--bitmap")),
        }
    });
});
