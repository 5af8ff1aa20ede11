use uraid_device::{Fault, Faulty, MemoryDevice, Operation, ReadOnly};
use uraid_format::{CreateError as PlanError, Role, SUPER_MAGIC};
use uraid_types::Raid10Layout;

use super::*;
use crate::testing::memory;
use crate::{RefusedReason, scan};

fn slots(devices: &[Arc<dyn Device>]) -> Vec<Option<Arc<dyn Device>>> {
    devices.iter().cloned().map(Some).collect()
}

/// All bytes of a member.
fn contents(device: &Arc<dyn Device>) -> Vec<u8> {
    crate::probe::bytes_at(&**device, 0, device.info().size_bytes).unwrap()
}

#[test]
fn what_is_created_scans_back() {
    for version in [MetadataVersion::V1_0, MetadataVersion::V1_1, MetadataVersion::V1_2] {
        let devices = memory(5);
        let request = CreateRequest {
            version,
            name: "here:x".to_owned(),
            bitmap: Some(BitmapSpec::default()),
            write_mostly: vec![false, true],
            ..CreateRequest::new(Level::Raid5)
        };
        let created = create(&slots(&devices[..4]), &devices[4..], &request).unwrap();
        assert_eq!((created.max_failures, created.members.len(), created.written), (1, 5, true));
        assert_eq!(created.capacity.0, 3 * created.plan.used_size.0, "three data members");
        for (index, device) in devices.iter().enumerate() {
            let found = scan(Arc::clone(device)).unwrap();
            let superblock = found.superblock();
            let role = if index < 4 { Role::Active(Slot(index as u16)) } else { Role::Spare };
            assert_eq!((superblock.version, superblock.own_role(), superblock.array_id), (version, role, created.array_id));
            assert_eq!((superblock.flags.write_mostly, superblock.name.as_slice()), (index == 1, &b"here:x"[..]));
            assert_eq!(superblock.data_offset, created.members[index].data_offset);
            let bitmap = found.bitmap.expect("every member has a bitmap");
            assert_eq!(bitmap.bits.count(), bitmap.bits.len(), "all dirty before the first resync");
            assert!(found.bitmap_problem.is_none() && found.bad_blocks.is_empty());
        }
    }
}

#[test]
fn no_ghost_of_an_older_array_remains() {
    let devices = memory(2);
    let mut request = CreateRequest::new(Level::Raid1);
    for (version, force) in [(MetadataVersion::V1_0, false), (MetadataVersion::V1_2, true), (MetadataVersion::V1_1, true)] {
        (request.version, request.force) = (version, force);
        let created = create(&slots(&devices), &[], &request).unwrap();
        assert_eq!(created.overwritten.len(), if force { 2 } else { 0 });
        let magics = contents(&devices[0]).chunks(512).filter(|sector| sector.starts_with(&SUPER_MAGIC.to_le_bytes())).count();
        assert_eq!(magics, 1);
        assert_eq!(scan(Arc::clone(&devices[1])).unwrap().superblock().version, version);
    }
}

#[test]
fn nothing_is_written_before_all_checks_have_passed() {
    let error_of = |devices: &[Option<Arc<dyn Device>>], request: &CreateRequest| {
        let before: Vec<_> = devices.iter().flatten().map(contents).collect();
        let error = create(devices, &[], request).unwrap_err();
        let after: Vec<_> = devices.iter().flatten().map(contents).collect();
        assert!(before == after, "written to in spite of {error}");
        error
    };
    let request = CreateRequest::new(Level::Raid1);
    let devices = memory(3);

    let mut ext4 = vec![0; 1536];
    ext4[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xef]);
    ext4[1024 + 96] = 0x40;
    devices[1].write_at(0, &Pool::new(0).copy(&ext4)).unwrap();
    let error = error_of(&slots(&devices[..2]), &request);
    assert_eq!(error.to_string(), "b carries ext4 (magic at byte 1080); --force overwrites it, or wipe it first");

    let error = error_of(&[Some(Arc::clone(&devices[0])), Some(Arc::clone(&devices[0]))], &request);
    assert!(matches!(error, CreateError::SameMedium { .. }), "{error}");

    let read_only: Arc<dyn Device> = Arc::new(ReadOnly::new(Arc::clone(&devices[2])));
    assert_eq!(error_of(&[Some(Arc::clone(&devices[0])), Some(read_only)], &request).to_string(), "c is open for reading only");

    let small: Arc<dyn Device> = Arc::new(MemoryDevice::new("small", 8192, 512));
    let error = error_of(&[Some(Arc::clone(&devices[0])), Some(small)], &request);
    assert!(error.to_string().ends_with("(member 1 is small)"), "{error}");

    let error = error_of(&[Some(Arc::clone(&devices[0])), None], &CreateRequest { level: Level::Raid0, ..request.clone() });
    assert!(matches!(error, CreateError::Plan { error: PlanError::TooManyMissing { .. }, .. }), "{error}");
}

#[test]
fn a_dry_run_plans_and_writes_nothing() {
    let devices = memory(4);
    let layout = Some(Layout::Raid10(Raid10Layout::far(2)));
    let request = CreateRequest { dry_run: true, layout, ..CreateRequest::new(Level::Raid10) };
    let created = create(&slots(&devices), &[], &request).unwrap();
    assert_eq!((created.written, created.max_failures, created.chunk), (false, 1, SectorCount(1024)));
    assert!(devices.iter().all(|device| contents(device).iter().all(|&byte| byte == 0)));
    let read_only: Vec<_> =
        devices.iter().map(|device| Some(Arc::new(ReadOnly::new(Arc::clone(device))) as Arc<dyn Device>)).collect();
    assert!(create(&read_only, &[], &request).is_ok(), "a plan needs no write access");
}

#[test]
fn a_failure_half_way_names_the_member_and_leaves_no_array() {
    let devices = memory(2);
    let broken = Faulty::new(Arc::clone(&devices[1]));
    broken.control().add(Fault::new(&[Operation::Write], 5));
    let members = [Some(Arc::clone(&devices[0])), Some(Arc::new(broken) as Arc<dyn Device>)];
    let error = create(&members, &[], &CreateRequest::new(Level::Raid1)).unwrap_err();
    let CreateError::Write { error: cause, begun } = &error else { panic!("{error}") };
    assert_eq!((cause.name.as_str(), &begun[..]), ("b", &["a".to_owned(), "b".to_owned()][..]));
    assert!(error.to_string().contains("a, b carry parts of its metadata"), "{error}");
    let reason = scan(Arc::clone(&devices[0])).unwrap_err().reason;
    assert!(matches!(reason, RefusedReason::NoSuperblock { found: None }), "{reason}");
}
