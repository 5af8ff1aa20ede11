use uraid_device::{Fault, Faulty, MemoryDevice, Operation, Pool};
use uraid_format::{BitmapVersion, SuperErrorKind, bad_blocks_to_bytes};
use uraid_types::Level;

use super::*;
use crate::testing::{array, edit, memory};
use crate::{CreateRequest, create};

/// Changes the byte at `offset` of a member by `change`.
fn patch(device: &Arc<dyn Device>, offset: u64, change: impl FnOnce(u8) -> u8) {
    let start = offset - offset % 512;
    let mut sector = Pool::new(0).take(512);
    device.read_at(start, &mut sector).unwrap();
    let byte = &mut sector[(offset - start) as usize];
    *byte = change(*byte);
    device.write_at(start, &sector).unwrap();
}

fn reason(device: &Arc<dyn Device>) -> RefusedReason {
    scan(Arc::clone(device)).unwrap_err().reason
}

#[test]
fn members_without_a_superblock_say_what_they_carry() {
    let device = &memory(1)[0];
    assert_eq!(
        scan(Arc::clone(device)).unwrap_err().to_string(),
        "a: no md superblock is on it; nothing else was recognised either"
    );
    device.write_at(0, &Pool::new(0).copy(&[&b"XFSB"[..], &[0; 508]].concat())).unwrap();
    assert_eq!(reason(device).to_string(), "no md superblock is on it; it carries XFS (magic at byte 0)");
    let tiny: Arc<dyn Device> = Arc::new(MemoryDevice::new("tiny", 0, 512));
    assert!(matches!(reason(&tiny), RefusedReason::NoSuperblock { found: None }));
}

#[test]
fn a_damaged_superblock_of_version_090_is_named() {
    let device = &memory(1)[0];
    let at = (4 << 20) - 65536;
    device.write_at(at, &Pool::new(0).copy(&[&[0xfc, 0x4e, 0x2b, 0xa9][..], &[0; 508]].concat())).unwrap();
    let found = reason(device);
    assert!(matches!(found, RefusedReason::Superblock(_)), "{found}");
}

#[test]
fn damaged_superblocks_are_refused_by_field() {
    // Offset in the superblock at byte 4096, and what is wrong with it once its lowest bit is turned over.
    for (offset, kind, words) in [
        (216, SuperErrorKind::Checksum, "sb_csum at byte 4312"),
        (72, SuperErrorKind::Checksum, "sb_csum"),
        (4, SuperErrorKind::MajorVersion, "minor_version"),
    ] {
        let devices = array(Level::Raid1, 2, 0);
        patch(&devices[0], 4096 + offset, |byte| byte ^ 1);
        let found = reason(&devices[0]);
        assert!(matches!(&found, RefusedReason::Superblock(error) if error.kind == kind), "{found}");
        assert!(found.to_string().starts_with(words), "{found}");
    }
    let devices = array(Level::Raid1, 2, 0);
    edit(&devices[0], |superblock| superblock.features |= 0x8000);
    assert!(matches!(reason(&devices[0]), RefusedReason::Superblock(error) if error.kind == SuperErrorKind::UnknownFeature));
    let devices = array(Level::Raid1, 2, 0);
    edit(&devices[0], |superblock| superblock.data_size = SectorCount(1 << 40));
    assert!(matches!(reason(&devices[0]), RefusedReason::Superblock(error) if error.kind == SuperErrorKind::DataArea));
}

#[test]
fn of_two_superblocks_of_one_array_the_newest_counts_and_of_two_arrays_neither() {
    // The superblock of a 1.0 array, of which only the end of the member survives, under a 1.2 array made later.
    let devices = memory(2);
    let members: Vec<_> = devices.iter().cloned().map(Some).collect();
    let mut request = CreateRequest { version: uraid_format::MetadataVersion::V1_0, ..CreateRequest::new(Level::Raid1) };
    let first = create(&members, &[], &request).unwrap();
    let end = (4 << 20) - 8192;
    let mut old = Pool::new(0).take(4096);
    devices[0].read_at(end, &mut old).unwrap();

    (request.version, request.force) = (uraid_format::MetadataVersion::V1_2, true);
    let second = create(&members, &[], &request).unwrap();
    devices[0].write_at(end, &old).unwrap();
    let found = reason(&devices[0]);
    let RefusedReason::TwoSuperblocks { first: one, first_byte, second: other, second_byte } = found else { panic!("{found}") };
    assert_eq!((one, first_byte, other, second_byte), (second.array_id, 4096, first.array_id, end));

    request.array_id = Some(first.array_id);
    create(&members, &[], &request).unwrap();
    edit(&devices[0], |superblock| superblock.events = 7);
    devices[0].write_at(end, &old).unwrap();
    let found = scan(Arc::clone(&devices[0])).unwrap();
    assert_eq!((found.superblock().events, found.superblock().super_offset), (7, Sector(8)));
}

#[test]
fn bitmaps_of_other_versions_and_damaged_ones_are_told_apart() {
    let devices = array(Level::Raid5, 3, 0);
    let found = scan(Arc::clone(&devices[0])).unwrap();
    let start = found.superblock().bitmap_start().unwrap().byte_offset();
    let bitmap = found.bitmap.unwrap();
    assert_eq!((bitmap.superblock.version, bitmap.bits.count()), (BitmapVersion::LittleEndian, 0));
    // Bit 9 is bit 1 of the second byte after the superblock.
    patch(&devices[0], start + 257, |byte| byte | 2);
    assert_eq!(scan(Arc::clone(&devices[0])).unwrap().bitmap.unwrap().bits.next_set(0), Some(9));

    for (offset, value, words) in [(4, 6, "version 6"), (4, 5, "version 5"), (0, b'x', "magic"), (8, 0xee, "belongs to array")] {
        let devices = array(Level::Raid5, 3, 0);
        patch(&devices[0], start + offset, |_| value);
        let found = scan(Arc::clone(&devices[0])).unwrap();
        let problem = found.bitmap_problem.unwrap().to_string();
        assert!(found.bitmap.is_none() && problem.contains(words), "{problem}");
    }
}

#[test]
fn bad_blocks_are_read_only_where_they_were_recorded() {
    let devices = array(Level::Raid1, 2, 0);
    let log = scan(Arc::clone(&devices[0])).unwrap().superblock().bad_block_log().unwrap();
    let ranges = vec![(Sector(5000), SectorCount(8)), (Sector(4000), SectorCount(1))];
    let bytes = bad_blocks_to_bytes(&ranges, 0, log.1.len_bytes()).unwrap();
    devices[0].write_at(log.0.byte_offset(), &Pool::new(0).copy(&bytes)).unwrap();
    assert!(scan(Arc::clone(&devices[0])).unwrap().bad_blocks.is_empty());
    edit(&devices[0], |superblock| superblock.set_feature(Feature::BadBlocks, true));
    assert_eq!(scan(Arc::clone(&devices[0])).unwrap().bad_blocks, ranges);
}

#[test]
fn what_cannot_be_read_is_refused_with_the_cause() {
    let devices = array(Level::Raid1, 2, 0);
    let broken = Faulty::new(Arc::clone(&devices[0]));
    broken.control().add(Fault::new(&[Operation::Read], 5).within(4096..8192));
    let refused = scan(Arc::new(broken)).unwrap_err();
    assert_eq!(refused.to_string(), "a: cannot read 4096 bytes at byte 4096: Input/output error (os error 5)");
}
