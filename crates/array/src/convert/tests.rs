use std::cell::RefCell;

use uraid_device::{Fault, Faulty, Operation};

use super::*;
use crate::testing::{array, edit, memory};
use crate::undo::After;
use crate::{CreateRequest, create};

/// An array without bitmap in `version`, its data 1 MiB from the start and its size such that a superblock fits anywhere.
fn made(version: MetadataVersion, level: Level, slots: usize) -> Vec<Arc<dyn Device>> {
    let devices = memory(slots);
    let mut request = CreateRequest { version, assume_clean: true, name: "host:t".to_owned(), ..CreateRequest::new(level) };
    request.chunk = level.has_chunks().then_some(SectorCount(128));
    request.size = level.is_redundant().then_some(SectorCount(4096));
    if version != MetadataVersion::V0_90 {
        request.data_offset = Some(uraid_types::Sector(2048));
    }
    create(&devices.iter().cloned().map(Some).collect::<Vec<_>>(), &[], &request).unwrap();
    devices
}

fn to(version: MetadataVersion) -> ConvertRequest {
    ConvertRequest { to: version, drop_bitmap: false, dry_run: false }
}

fn run(devices: &[Arc<dyn Device>], version: MetadataVersion) -> Result<ConvertReport, ConvertError> {
    convert(devices, &to(version), &mut |_| Ok(()))
}

fn contents(device: &Arc<dyn Device>) -> Vec<u8> {
    crate::probe::bytes_at(&**device, 0, device.info().size_bytes).unwrap()
}

/// The versions of all superblocks on a member.
fn versions(device: &Arc<dyn Device>) -> Vec<MetadataVersion> {
    superblocks(&**device).unwrap().iter().map(|raw| raw.superblock().version).collect()
}

use MetadataVersion::{V0_90, V1_0, V1_1, V1_2};

#[test]
fn every_way_leaves_one_superblock_of_the_new_version_and_the_same_array() {
    for (from, target) in [(V1_0, V1_1), (V1_0, V1_2), (V1_1, V1_0), (V1_1, V1_2), (V1_2, V1_0), (V1_2, V1_1), (V0_90, V1_0)] {
        for level in [Level::Raid1, Level::Raid5, Level::Raid10] {
            let devices = made(from, level, 4);
            let before: Vec<_> = devices.iter().map(|device| scan(Arc::clone(device)).unwrap().raw).collect();
            let report = run(&devices, target).unwrap();
            assert_eq!((report.level, report.members.len()), (level, 4));
            for (device, before) in devices.iter().zip(&before) {
                assert_eq!(versions(device), [target], "{from:?}");
                let (now, old) = (scan(Arc::clone(device)).unwrap(), before.superblock());
                let now = now.superblock();
                assert_eq!((now.array_id, now.events, now.own_role()), (old.array_id, old.events, old.own_role()));
                assert_eq!((now.data_offset, now.used_size), (old.data_offset, old.used_size));
            }
            assert!(choose(crate::testing::candidates(&devices), &AssembleOptions::default(), None).unwrap().degraded == 0);
        }
    }
}

/// At every write of a conversion the power goes; then it is done again.
#[test]
fn cut_short_anywhere_it_goes_on() {
    for (from, target) in [(V1_2, V1_0), (V1_0, V1_2), (V1_1, V1_2), (V0_90, V1_0)] {
        for member in 0..3 {
            for after in 0..4 {
                let devices = made(from, Level::Raid5, 3);
                let broken = Faulty::new(Arc::clone(&devices[member]));
                let changes = [Operation::Write, Operation::Zero, Operation::Flush];
                broken.control().add(Fault::new(&changes, 5).after(after));
                let mut some = devices.clone();
                some[member] = Arc::new(broken);
                let first = run(&some, target);
                assert!(first.is_ok() || matches!(first, Err(ConvertError::Write(_))), "{first:?}");
                // Whatever is there is one array, whole.
                let assembly = choose(crate::testing::candidates(&devices), &AssembleOptions::default(), None).unwrap();
                assert_eq!(assembly.degraded, 0, "{from:?} to {target:?}, member {member}, after {after}");
                run(&devices, target).unwrap();
                devices.iter().for_each(|device| assert_eq!(versions(device), [target]));
                let again = run(&devices, target).unwrap();
                assert!(again.members.iter().all(|member| member.was_done));
            }
        }
    }
}

#[test]
fn what_is_saved_is_what_is_written() {
    let devices = made(V1_2, Level::Raid5, 3);
    let before: Vec<_> = devices.iter().map(contents).collect();
    let told = RefCell::new(Vec::new());
    convert(&devices, &to(V1_0), &mut |changed| {
        for member in changed {
            let after = |change: &Change| match change.after {
                After::Bytes(bytes) => bytes.to_vec(),
                _ => vec![0; change.len_bytes as usize],
            };
            told.borrow_mut().push(member.changes.iter().map(|change| (change.start_byte, after(change))).collect::<Vec<_>>());
        }
        Ok(())
    })
    .unwrap();
    for ((device, mut expected), told) in devices.iter().zip(before).zip(told.into_inner()) {
        for (start, bytes) in told {
            expected[start as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        assert!(contents(device) == expected, "{}", device.info().name);
    }
}

#[test]
fn nothing_is_written_when_it_is_refused() {
    let refused = |devices: &[Arc<dyn Device>], version: MetadataVersion, words: &str| {
        let before: Vec<_> = devices.iter().map(contents).collect();
        let error = run(devices, version).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("nothing was written"), "{error}");
        assert!(devices.iter().map(contents).collect::<Vec<_>>() == before);
    };
    let full = array(Level::Raid5, 3, 0);
    refused(&full, V1_0, "does not move");
    let bitmap = memory(2);
    let request = CreateRequest {
        bitmap: Some(uraid_format::BitmapSpec::default()),
        size: Some(SectorCount(4096)),
        assume_clean: true,
        ..CreateRequest::new(Level::Raid1)
    };
    create(&bitmap.iter().cloned().map(Some).collect::<Vec<_>>(), &[], &request).unwrap();
    refused(&bitmap, V1_0, "bitmap_offset at byte 4192");
    let whole = made(V1_2, Level::Raid5, 4);
    refused(&whole[..3], V1_0, "3 of 4 members");
    refused(&whole[..2], V1_0, "must be whole");
    edit(&whole[3], |superblock| superblock.recovery_offset = Some(uraid_types::Sector(8)));
    refused(&whole, V1_0, "in sync");
    let dirty = made(V1_2, Level::Raid5, 3);
    dirty.iter().for_each(|device| edit(device, |superblock| superblock.resync_offset = Some(uraid_types::Sector(0))));
    refused(&dirty, V1_0, "not stopped cleanly");
    let blank = memory(1);
    refused(&blank, V1_0, "no md superblock");
    let devices = made(V1_2, Level::Raid5, 3);
    let before: Vec<_> = devices.iter().map(contents).collect();
    let unsaved = convert(&devices, &to(V1_0), &mut |_| Err("no room".to_owned()));
    assert!(matches!(unsaved, Err(ConvertError::Undo(why)) if why == "no room"));
    convert(&devices, &ConvertRequest { dry_run: true, ..to(V1_0) }, &mut |_| panic!("a dry run saves nothing")).unwrap();
    assert!(devices.iter().map(contents).collect::<Vec<_>>() == before);
}
