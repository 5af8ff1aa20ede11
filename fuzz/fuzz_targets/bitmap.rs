//! A bitmap's superblock and its bits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_format::{BITMAP_SUPER_BYTES, Bitmap, BitmapFields, BitmapSuper};
use uraid_fuzz::bounded;
use uraid_types::Sector;

fuzz_target!(|input: &[u8]| {
    bounded(input.len(), || {
        let Some((head, bits)) = input.split_at_checked(BITMAP_SUPER_BYTES) else { return };
        let mut head = head.to_vec();
        head[..4].copy_from_slice(b"bitm");
        let fields = BitmapFields::read(&head).expect("it has the magic number");
        if let Ok(found) = BitmapSuper::parse(&head, Sector(16)) {
            assert_eq!((fields.known_version(), fields.bits()), (Some(found.version), Some(found.bits())));
            let again = BitmapSuper::parse(&found.to_bytes(), Sector(16)).expect("what was taken is taken again");
            assert_eq!(again, found);
            if let Ok(bitmap) = Bitmap::from_bytes(found.bits(), bits) {
                let dirty: u64 = bitmap.dirty_ranges().map(|range| range.end - range.start).sum();
                assert_eq!(dirty, bitmap.count());
                assert!(dirty <= found.bits());
            }
        }
    });
});
