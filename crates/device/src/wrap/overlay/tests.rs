use std::fs;

use proptest::prelude::*;

use super::*;
use crate::MemoryDevice;

/// A size that is no whole number of blocks.
const SIZE: u64 = (3 << 20) + 1536;

fn member() -> Arc<MemoryDevice> {
    let member = Arc::new(MemoryDevice::new("m", SIZE, 512));
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at / 512 % 251) as u8 + 1).collect();
    member.write_at(0, &bytes).unwrap();
    member
}

fn origin() -> OverlayOrigin {
    OverlayOrigin {
        path: "/dev/m".into(),
        size_bytes: SIZE,
        array_id: [1; 16],
        device_id: [2; 16],
        events: 77,
        super_byte: 4096,
        super_crc: 5,
    }
}

fn whole(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// An overlay reads as a plain member would, in memory, in a file, and in a file that was opened again.
    #[test]
    fn reads_see_all_writes_and_the_member_none(
        changes in prop::collection::vec((0..SIZE / 512, 1..40_u64, any::<u8>(), any::<bool>()), 1..20)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o");
        let (below, plain) = (member(), member());
        let in_memory = Overlay::in_memory(below.clone());
        let in_file = Overlay::in_file(below.clone(), OverlayFile::create(&path, origin()).unwrap()).unwrap();
        for (start, len, value, zero) in changes {
            let (at, len) = (start * 512, len.min(SIZE / 512 - start) * 512);
            let devices: [&dyn Device; 3] = [&*plain, &in_memory, &in_file];
            for device in devices {
                if zero {
                    device.zero(at, len, true).unwrap();
                } else {
                    device.write_at(at, &vec![value; len as usize]).unwrap();
                }
            }
        }
        let expected = whole(&*plain);
        prop_assert!(whole(&in_memory) == expected && whole(&in_file) == expected);
        prop_assert!(whole(&*below) == whole(&*member()));
        in_file.flush().unwrap();
        drop(in_file);
        let again = OverlayFile::open(&path).unwrap();
        // What it has is where they differ, at least.
        let untouched = whole(&*below);
        let mut patched = untouched.clone();
        for range in again.ranges() {
            let place = range.start as usize..range.end as usize;
            again.read(range.start, &mut patched[place]).unwrap();
        }
        prop_assert!(patched == expected);
        prop_assert!(whole(&Overlay::in_file(below, again).unwrap()) == expected);
    }
}

#[test]
fn what_was_not_flushed_is_not_in_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o");
    let overlay = Overlay::in_file(member(), OverlayFile::create(&path, origin()).unwrap()).unwrap();
    overlay.write_at(0, &[9; 4096]).unwrap();
    overlay.flush().unwrap();
    overlay.write_at(8192, &[9; 4096]).unwrap();
    drop(overlay);
    let again = OverlayFile::open(&path).unwrap();
    assert_eq!(again.ranges().map(|range| (range.start, range.end)).collect::<Vec<_>>(), [(0, 4096)]);
    assert_eq!((again.origin(), again.state()), (&origin(), OverlayState::Open));
}

#[test]
fn one_that_is_in_use_is_not_opened_twice_but_may_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o");
    let mut first = OverlayFile::create(&path, origin()).unwrap();
    assert_eq!(OverlayFile::open(&path).err().unwrap().source.kind(), std::io::ErrorKind::ResourceBusy);
    first.begin_commit().unwrap();
    assert_eq!(OverlayFile::look(&path).unwrap().state(), OverlayState::Committing);
    assert!(OverlayFile::create(&path, origin()).is_err(), "it is there already");
    drop(first);
    let other = Arc::new(MemoryDevice::new("n", SIZE - 512, 512));
    assert!(Overlay::in_file(other, OverlayFile::open(&path).unwrap()).is_err(), "another size");
}

#[test]
fn torn_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("o");
    let overlay = Overlay::in_file(member(), OverlayFile::create(&path, origin()).unwrap()).unwrap();
    overlay.write_at(0, &[9; 4096]).unwrap();
    overlay.flush().unwrap();
    drop(overlay);
    let good = fs::read(&path).unwrap();
    for (what, at) in [("magic", 3), ("header", 24), ("path", 90), ("map", 4096 + 40), ("map number", 4096 + 8)] {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        let error = OverlayFile::look(&path).err().unwrap_or_else(|| panic!("damage to the {what} was not noticed"));
        assert!(error.to_string().contains("overlay discard"), "{error}");
    }
    for len in [0, 4095, 4096, good.len() - 1] {
        fs::write(&path, &good[..len]).unwrap();
        assert!(OverlayFile::look(&path).is_err(), "{len} bytes");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o");
        fs::write(&path, &bytes).unwrap();
        prop_assert!(OverlayFile::look(&path).is_err());
    }

    /// The size decides how much is read: with a right checksum too nothing beyond the file is believed.
    #[test]
    fn sizes_are_checked_before_use(size_bytes in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o");
        let page = OverlayOrigin { size_bytes, ..origin() }.to_page(OverlayState::Open).unwrap();
        fs::write(&path, [&page[..], &[0; 4096]].concat()).unwrap();
        prop_assert!(size_bytes == 0 || OverlayFile::look(&path).is_err());
    }
}
