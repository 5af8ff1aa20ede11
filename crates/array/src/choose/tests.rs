use std::sync::Arc;

use proptest::prelude::*;
use uraid_device::{Device, MemoryDevice, Pool, ReadOnly};
use uraid_format::{Feature, Role};
use uraid_types::{Layout, Level, Raid0Layout, Raid10Layout, Slot};

use super::*;
use crate::testing::{array, candidates, edit, memory};
use crate::{CreateRequest, create};

type Devices = Vec<Arc<dyn Device>>;

const PLAIN: AssembleOptions = AssembleOptions {
    force: false,
    run: false,
    read_only: false,
    drop_ppl: false,
    drop_bitmap: false,
    bitmap_file: None,
    uuid: None,
    raid0_layout: None,
    invalid_backup: false,
};
const RUN: AssembleOptions = AssembleOptions { run: true, bitmap_file: None, ..PLAIN };
const FORCE: AssembleOptions = AssembleOptions { force: true, bitmap_file: None, ..PLAIN };

fn choose(candidates: Vec<Candidate>, options: &AssembleOptions) -> Result<Assembly, AssembleError> {
    super::choose(candidates, options, None)
}

fn survey(candidates: &[Candidate]) -> Vec<ArraySurvey> {
    super::survey(candidates, &AssembleOptions::default(), None)
}

/// Names by slot: `-` for a missing member, in brackets when it is being rebuilt.
fn line_up(assembly: &Assembly) -> String {
    let word = |slot: &SlotPlan| match (slot.member.map(|index| assembly.members[index].name()), slot.state) {
        (Some(name), MemberState::InSync) => name.to_owned(),
        (Some(name), MemberState::Rebuilding { recovered }) => format!("({name}@{})", recovered.0),
        (None, MemberState::Missing) => "-".to_owned(),
        other => panic!("member and state disagree: {other:?}"),
    };
    assembly.slots.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn start(devices: &[Arc<dyn Device>], options: &AssembleOptions) -> Assembly {
    choose(candidates(devices), options).unwrap_or_else(|error| panic!("{error}"))
}

fn refuse(devices: &[Arc<dyn Device>], options: &AssembleOptions) -> AssembleError {
    choose(candidates(devices), options).map(|assembly| line_up(&assembly)).unwrap_err()
}

fn refused(assembly: &Assembly) -> Vec<String> {
    assembly.refused.iter().map(ToString::to_string).collect()
}

/// Sets the events of all members, bitmaps included, and in all tables the roles of the members `gone` to faulty.
fn age(devices: &[Arc<dyn Device>], events: u64, gone: &[usize]) {
    for (index, device) in devices.iter().enumerate() {
        if !gone.contains(&index) {
            edit(device, |superblock| {
                superblock.events = events;
                gone.iter().for_each(|&gone| superblock.roles[gone] = Role::Faulty);
            });
            edit_bitmap(device, |bitmap| bitmap.superblock.events = events);
        }
    }
}

fn edit_bitmap(device: &Arc<dyn Device>, change: impl FnOnce(&mut crate::FoundBitmap)) {
    let found = crate::scan(Arc::clone(device)).unwrap();
    let (Some(start), Some(mut bitmap)) = (found.superblock().bitmap_start(), found.bitmap) else { return };
    change(&mut bitmap);
    let mut bytes = bitmap.superblock.to_bytes().to_vec();
    bytes.extend(bitmap.bits.bytes(0..4096 - bytes.len()));
    device.write_at(start.byte_offset(), &Pool::new(0).copy(&bytes)).unwrap();
}

fn pick(devices: &[Arc<dyn Device>], names: &str) -> Devices {
    names.chars().map(|name| Arc::clone(&devices[name as usize - 'a' as usize])).collect()
}

#[test]
fn a_whole_array_starts_in_any_order_at_every_level() {
    for (level, slots) in [
        (Level::Linear, 3),
        (Level::Raid0, 3),
        (Level::Raid1, 3),
        (Level::Raid4, 3),
        (Level::Raid5, 3),
        (Level::Raid6, 4),
        (Level::Raid10, 4),
    ] {
        let spares = if level.is_redundant() { 1 } else { 0 };
        let mut devices = array(level, slots, spares);
        devices.rotate_left(2);
        devices.reverse();
        let assembly = start(&devices, &PLAIN);
        assert_eq!(line_up(&assembly), "a b c d e"[..2 * slots - 1]);
        assert_eq!((assembly.degraded, assembly.dirty, assembly.resync_from), (0, false, None));
        assert_eq!((assembly.spares.len(), assembly.refused.len(), assembly.warnings.len()), (spares, 0, 0), "{level}");
        assert_eq!((assembly.read_only_because, assembly.name.as_str()), (None, "host:t"));
        assert_eq!(assembly.bitmap.is_some_and(|bitmap| bitmap.current && bitmap.set.is_empty()), level.is_redundant());
        let data = match level {
            Level::Raid1 => 1,
            Level::Raid10 => 2,
            level => (slots - level.parity_members()) as u64,
        };
        let used = assembly.members[0].superblock();
        let each =
            if level.is_redundant() { used.used_size } else { used.data_size.round_down(SectorCount(used.chunk.0.max(1))) };
        assert_eq!(assembly.geometry.capacity().0, data * each.0, "{level}");
    }
}

#[test]
fn no_members_no_array() {
    assert_eq!(choose(Vec::new(), &PLAIN).unwrap_err().problem, AssembleProblem::NoMembers);
    let other = uuid::Uuid::from_u128(5);
    let error = refuse(&array(Level::Raid1, 2, 0), &AssembleOptions { uuid: Some(other), ..PLAIN });
    assert_eq!((error.problem, error.refused.len()), (AssembleProblem::NoneOfArray(other), 2));
    let spare = pick(&array(Level::Raid1, 2, 1), "c");
    assert_eq!(refuse(&spare, &FORCE).problem, AssembleProblem::OnlySpares(vec!["c".to_owned()]));
}

#[test]
fn members_of_two_arrays_are_sorted_by_uuid_only_when_asked() {
    let (one, two) = (array(Level::Raid1, 2, 0), array(Level::Raid5, 3, 0));
    let mixed: Devices = one.iter().chain(&two).cloned().collect();
    let id = candidates(&two)[0].superblock().array_id;
    let AssembleProblem::SeveralArrays(arrays) = refuse(&mixed, &PLAIN).problem else { panic!() };
    assert!(arrays[0].starts_with("a, b of array ") && arrays[1].starts_with(&format!("a, b, c of array {id}")), "{arrays:?}");
    let assembly = start(&mixed, &AssembleOptions { uuid: Some(id), ..PLAIN });
    assert_eq!((line_up(&assembly).as_str(), assembly.refused.len()), ("a b c", 2));
}

#[test]
fn a_member_given_twice_counts_once() {
    let devices = array(Level::Raid1, 2, 0);
    let assembly = start(&pick(&devices, "abaa"), &PLAIN);
    assert_eq!(line_up(&assembly), "a b");
    assert_eq!(refused(&assembly), ["a: it is the same medium as a"; 2]);
}

/// A copy of a whole member on another medium.
fn copy(device: &Arc<dyn Device>, name: &str) -> Arc<dyn Device> {
    let copy: Arc<dyn Device> = Arc::new(MemoryDevice::new(name, device.info().size_bytes, 512));
    let bytes = crate::probe::bytes_at(&**device, 0, device.info().size_bytes).unwrap();
    copy.write_at(0, &Pool::new(0).copy(&bytes)).unwrap();
    copy
}

#[test]
fn a_copy_of_a_member_is_refused_when_older_and_stops_everything_when_not() {
    let mut devices = array(Level::Raid5, 3, 0);
    devices.push(copy(&devices[1], "copy"));
    let error = refuse(&devices, &FORCE);
    assert_eq!(
        error.problem.to_string(),
        "b and copy both claim slot 1, at 1 and 1 events; leave one of them out",
        "even force does not choose"
    );
    age(&devices[..3], 5, &[]);
    let assembly = start(&devices, &PLAIN);
    assert_eq!(line_up(&assembly), "a b c");
    assert_eq!(refused(&assembly), ["copy: it has the device UUID of b, at 1 events against 5: an old copy of it"]);
}

#[test]
fn two_members_for_one_slot_stop_everything_unless_one_is_stale() {
    let mut devices = array(Level::Raid5, 3, 0);
    devices.push(copy(&devices[1], "other"));
    edit(&devices[3], |superblock| {
        superblock.device_id = uuid::Uuid::from_u128(9);
        superblock.dev_number = 3;
        superblock.roles[3] = Role::Active(Slot(1));
    });
    for device in &devices[..3] {
        edit(device, |superblock| superblock.roles[3] = Role::Active(Slot(1)));
    }
    let AssembleProblem::TwoForSlot { slot, first, second, .. } = refuse(&devices, &PLAIN).problem else { panic!() };
    assert_eq!((slot, first.as_str(), second.as_str()), (Slot(1), "b", "other"));
    age(&devices[..3], 3, &[]);
    let assembly = start(&devices, &PLAIN);
    assert_eq!(line_up(&assembly), "a b c");
    assert_eq!(refused(&assembly), ["other: slot 1 is held by b at 3 events; this one, at 1, is older"]);
}

#[test]
fn one_event_behind_is_a_crash_two_are_stale() {
    for (behind, whole) in [(1, true), (2, false)] {
        let devices = array(Level::Raid5, 3, 0);
        age(&devices[..2], 1 + behind, &[]);
        let error = choose(candidates(&devices), &PLAIN).err();
        if whole {
            assert_eq!(line_up(&start(&devices, &PLAIN)), "a b c");
            continue;
        }
        let text = error.unwrap().to_string();
        assert!(text.contains("2 of 3 members that were active last time are here: slot 2: c is left out (it is stale: it stands at 1 events, a at 3"), "{text}");
        assert!(text.contains("--run starts the array degraded"), "{text}");
        let assembly = start(&devices, &RUN);
        assert_eq!((line_up(&assembly).as_str(), assembly.degraded), ("a b -", 1));
    }
}

#[test]
fn the_freshest_members_table_says_who_has_failed() {
    let devices = array(Level::Raid5, 3, 1);
    for device in &devices[..2] {
        edit(device, |superblock| {
            superblock.events = 2;
            superblock.roles[2] = Role::Faulty;
        });
    }
    let assembly = start(&devices, &PLAIN);
    assert_eq!((line_up(&assembly).as_str(), assembly.spares.len()), ("a b -", 1), "degraded already: no --run is needed");
    assert_eq!(assembly.members[assembly.spares[0]].name(), "d");
    assert!(refused(&assembly)[0].starts_with("c: it claims slot 2, but a recorded it as faulty;"), "{:?}", refused(&assembly));
    assert!(assembly.warnings[0].contains("slot 2: c is left out"), "{:?}", assembly.warnings);
}

#[test]
fn absent_members_need_run_and_are_listed() {
    let devices = array(Level::Raid6, 5, 0);
    let error = refuse(&pick(&devices, "ace"), &PLAIN);
    let expected = "3 of 5 members that were active last time are here: slot 1: no member was given; slot 3: no member was given; \
                    --run starts the array degraded";
    assert_eq!(error.to_string(), expected);
    let assembly = start(&pick(&devices, "ace"), &RUN);
    assert_eq!((line_up(&assembly).as_str(), assembly.degraded, assembly.resync_from), ("a - c - e", 2, None));
    let error = refuse(&pick(&devices, "ac"), &RUN).to_string();
    assert!(
        error.starts_with("not enough members hold the data (2 of 5 slots are in sync): slot 0: a; slot 1: no member"),
        "{error}"
    );
    assert!(!error.contains("--force"), "force has nobody to take: {error}");
}

#[test]
fn raid0_and_linear_need_everyone_and_use_what_each_has() {
    for level in [Level::Raid0, Level::Linear] {
        let devices = array(level, 3, 0);
        assert!(matches!(refuse(&pick(&devices, "ab"), &FORCE).problem, AssembleProblem::NotEnough { in_sync: 2, .. }));
    }
    let mut devices = memory(1);
    devices.extend(["b", "c"].map(|name| Arc::new(MemoryDevice::new(name, 8 << 20, 512)) as Arc<dyn Device>));
    let members: Vec<_> = devices.iter().cloned().map(Some).collect();
    let mut request = CreateRequest::new(Level::Raid0);
    request.chunk = Some(SectorCount(2048));
    let created = create(&members, &[], &request).unwrap();
    let assembly = start(&devices, &PLAIN);
    assert_eq!(assembly.geometry.capacity(), created.capacity);
    assert_eq!(created.capacity.bytes(), (3 + 7 + 7) << 20, "each member is used whole, but for the first MiB");
    for device in &devices {
        edit(device, |superblock| {
            superblock.set_feature(Feature::Raid0Layout, false);
            superblock.layout = Layout::Raid0(Raid0Layout::Unspecified);
        });
    }
    let error = refuse(&devices, &FORCE).to_string();
    assert!(error.contains("'original'") && error.contains("'alternate'"), "{error}");
}

#[test]
fn force_takes_the_least_stale_members_and_no_more() {
    let devices = array(Level::Raid5, 4, 0);
    age(&devices[..1], 20, &[1, 2, 3]);
    age(&devices[1..2], 15, &[]);
    age(&devices[2..3], 12, &[]);
    age(&devices[3..], 9, &[]);
    let error = refuse(&devices, &RUN).to_string();
    assert!(error.contains("--force would take b (5 events behind), c (8 events behind)"), "{error}");
    let assembly = start(&devices, &FORCE);
    assert_eq!((line_up(&assembly).as_str(), assembly.degraded, assembly.events), ("a b c -", 1, 20));
    assert!(assembly.warnings[0].contains("b (5 events behind), c (8 events behind)"), "{:?}", assembly.warnings);
    assert!(assembly.warnings[0].contains("may be lost"));
    assert!(assembly.bitmap.as_ref().is_some_and(|bitmap| !bitmap.current));
    assert_eq!(assembly.resync_from, None, "a degraded array has nothing to compare with");
    assert!(assembly.readdable.is_empty());
}

#[test]
fn force_takes_only_the_mirror_that_is_needed() {
    // Near layout: slots 0 and 1 are copies of each other, as are 2 and 3. The fresher stale member is of no use.
    let devices = array(Level::Raid10, 4, 0);
    age(&devices[..1], 20, &[1, 2, 3]);
    age(&devices[1..2], 15, &[]);
    age(&devices[2..3], 12, &[]);
    assert_eq!(line_up(&start(&devices, &FORCE)), "a - c -");
    let all = array(Level::Raid10, 4, 0);
    age(&all, 20, &[]);
    assert!(start(&all, &FORCE).warnings.is_empty(), "force without need takes nobody");
}

#[test]
fn dirty_and_degraded_parity_is_the_write_hole_mirrors_are_not() {
    let dirty = |level, slots| {
        let devices = array(level, slots, 0);
        devices.iter().for_each(|device| edit(device, |superblock| superblock.resync_offset = Some(Sector(0))));
        devices
    };
    for (level, slots, given) in [(Level::Raid4, 3, "ac"), (Level::Raid5, 3, "ab"), (Level::Raid6, 4, "abd")] {
        let devices = dirty(level, slots);
        assert_eq!(start(&devices, &PLAIN).resync_from, Some(Sector(0)), "whole: a resync");
        let error = refuse(&pick(&devices, given), &RUN);
        assert_eq!(error.problem, AssembleProblem::DirtyDegraded { level, missing: 1 });
        assert!(error.to_string().contains("write hole"));
        let assembly = start(&pick(&devices, given), &FORCE);
        // P and Q of a RAID6 can still be made to agree.
        let resync_from = (level == Level::Raid6).then_some(Sector(0));
        assert_eq!((assembly.resync_from, assembly.dirty, assembly.degraded), (resync_from, true, 1));
        assert!(assembly.warnings.iter().any(|warning| warning.contains("not stopped cleanly")));
    }
    for (level, slots, given) in [(Level::Raid1, 3, "ac"), (Level::Raid10, 4, "abd")] {
        let assembly = start(&pick(&dirty(level, slots), given), &RUN);
        assert_eq!((assembly.resync_from, assembly.degraded), (Some(Sector(0)), 1));
    }
}

#[test]
fn a_member_being_filled_is_rebuilt_further_and_holds_no_data() {
    let devices = array(Level::Raid5, 3, 0);
    edit(&devices[1], |superblock| superblock.recovery_offset = Some(Sector(640)));
    let assembly = start(&devices, &PLAIN);
    assert_eq!((line_up(&assembly).as_str(), assembly.degraded), ("a (b@640) c", 1));
    let error = refuse(&pick(&devices, "ab"), &RUN).to_string();
    assert!(error.contains("slot 1: b, rebuilt up to sector 640 only"), "{error}");
}

#[test]
fn a_spare_made_active_just_before_a_crash_is_still_a_spare() {
    let devices = array(Level::Raid1, 2, 1);
    let fresh = |superblock: &mut Superblock| {
        superblock.events = 2;
        superblock.roles[1] = Role::Faulty;
        superblock.roles[2] = Role::Active(Slot(1));
    };
    edit(&devices[0], fresh);
    let assembly = start(&pick(&devices, "ac"), &PLAIN);
    assert_eq!((line_up(&assembly).as_str(), assembly.spares.len()), ("a -", 1));
}

/// Superblocks as a kernel 6.1 left them: RAID5 with a spare, the member in slot 1 failed, recovery stopped at sector 2048.
#[test]
fn a_recovery_that_the_kernel_left_half_way_goes_on() {
    let devices = array(Level::Raid5, 3, 1);
    for (index, device) in devices.iter().enumerate() {
        edit(device, |superblock| {
            if index == 1 {
                superblock.events = 0;
                return;
            }
            superblock.events = 13;
            superblock.roles[..4].copy_from_slice(&[
                Role::Active(Slot(0)),
                Role::Faulty,
                Role::Active(Slot(2)),
                Role::Active(Slot(1)),
            ]);
            superblock.recovery_offset = (index == 3).then_some(Sector(2048));
        });
    }
    let assembly = start(&devices, &PLAIN);
    assert_eq!((line_up(&assembly).as_str(), assembly.degraded, assembly.spares.len()), ("a (d@2048) c", 1, 0));
    assert_eq!(refused(&assembly), ["b: slot 1 is held by d at 13 events; this one, at 0, is older"]);
    assert!(survey(&candidates(&devices))[0].next_step.contains("recovery goes on by itself"));
}

/// A crash between the superblock writes of one update, as a copy of a running RAID6 showed it: half of the members are one
/// event ahead and dirty.
#[test]
fn a_crash_between_superblock_writes_is_dirty_and_whole() {
    let devices = array(Level::Raid6, 4, 0);
    age(&devices, 17, &[]);
    age(&devices[..2], 18, &[]);
    devices[..2].iter().for_each(|device| edit(device, |superblock| superblock.resync_offset = Some(Sector(0))));
    edit_bitmap(&devices[0], |bitmap| assert!(bitmap.bits.set(1)));
    edit_bitmap(&devices[3], |bitmap| assert!(bitmap.bits.set(2)));
    let assembly = start(&devices, &PLAIN);
    assert_eq!((line_up(&assembly).as_str(), assembly.dirty, assembly.resync_from), ("a b c d", true, Some(Sector(0))));
    assert_eq!(assembly.bitmap.map(|bitmap| (bitmap.current, bitmap.set)), Some((true, vec![1, 2])));
    assert!(matches!(refuse(&devices[..3], &PLAIN).problem, AssembleProblem::DirtyDegraded { missing: 1, .. }));
}

#[test]
fn bitmaps_are_merged_and_believed_only_when_current() {
    let devices = array(Level::Raid1, 2, 0);
    edit_bitmap(&devices[0], |bitmap| assert!(bitmap.bits.set(3)));
    edit_bitmap(&devices[1], |bitmap| assert!(bitmap.bits.set(5)));
    let assembly = start(&devices, &PLAIN);
    let bitmap = assembly.bitmap.unwrap();
    assert_eq!((bitmap.set, bitmap.current, bitmap.sectors_per_bit), (vec![3, 5], true, 128));
    assert_eq!(assembly.bitmap_bits.unwrap().count(), 2);
    assert_eq!(bitmap.bits, assembly.geometry.resync_sectors().0.div_ceil(128));

    for device in &devices {
        edit(device, |superblock| superblock.events = 2);
    }
    let assembly = start(&devices, &PLAIN);
    let bitmap = assembly.bitmap.unwrap();
    assert!(!bitmap.current && bitmap.set.len() as u64 == bitmap.bits, "older than the superblocks: all set");
    assert!(assembly.warnings.iter().any(|warning| warning.contains("bitmap is out of date")));
}

#[test]
fn who_left_comes_back_by_the_bitmap_only_when_it_covers_the_gap() {
    for (cleared, covered) in [(1, true), (2, false)] {
        let devices = array(Level::Raid1, 3, 0);
        age(&devices, 9, &[2]);
        devices[..2].iter().for_each(|device| edit_bitmap(device, |bitmap| bitmap.superblock.events_cleared = cleared));
        let assembly = start(&devices, &PLAIN);
        assert_eq!(line_up(&assembly), "a b -");
        let names: Vec<&str> = assembly.readdable.iter().map(|&index| assembly.members[index].name()).collect();
        assert_eq!(names, if covered { vec!["c"] } else { vec![] });
        assert!(refused(&assembly)[0].ends_with(if covered {
            "re-add it once the array runs"
        } else {
            "add it as a spare once the array runs"
        }));
    }
}

#[test]
fn a_bitmap_of_a_later_version_makes_the_array_read_only() {
    let devices = array(Level::Raid5, 3, 0);
    devices
        .iter()
        .for_each(|device| edit_bitmap(device, |bitmap| bitmap.superblock.version = uraid_format::BitmapVersion::Lockless));
    let because = start(&devices, &PLAIN).read_only_because.unwrap();
    assert!(because.starts_with("a: bitmap version 6"), "{because}");
    let devices = array(Level::Raid5, 3, 0);
    let given = AssembleOptions { read_only: true, ..PLAIN };
    assert_eq!(start(&devices, &given).read_only_because.unwrap(), "--read-only was given");
    let devices: Devices = devices.iter().map(|device| Arc::new(ReadOnly::new(Arc::clone(device))) as Arc<dyn Device>).collect();
    assert_eq!(start(&devices, &PLAIN).read_only_because.unwrap(), "a is open for reading only");
}

#[test]
fn halves_that_ran_alone_are_never_joined() {
    let devices = array(Level::Raid1, 2, 0);
    edit(&devices[0], |superblock| (superblock.events, superblock.roles[1]) = (9, Role::Spare));
    edit(&devices[1], |superblock| (superblock.events, superblock.roles[0]) = (9, Role::Spare));
    for options in [RUN, FORCE] {
        let problem = refuse(&devices, &options).problem;
        assert_eq!(problem, AssembleProblem::SplitBrain { first: "a".to_owned(), second: "b".to_owned() });
    }
    edit(&devices[1], |superblock| superblock.events = 14);
    let assembly = start(&devices, &PLAIN);
    assert_eq!((line_up(&assembly).as_str(), assembly.readdable.len()), ("- b", 0));
    assert!(refused(&assembly)[0].starts_with("a: it was run without b"), "{:?}", refused(&assembly));
}

#[test]
fn what_does_not_fit_is_left_out_with_the_field() {
    let devices = array(Level::Raid5, 3, 1);
    edit(&devices[2], |superblock| superblock.chunk = SectorCount(64));
    let assembly = start(&devices, &RUN);
    assert_eq!((line_up(&assembly).as_str(), assembly.spares.len()), ("a b -", 1));
    assert_eq!(refused(&assembly), ["c: its chunk is 64 sectors, but a, at the same events, says 128 sectors"]);

    let devices = array(Level::Raid5, 3, 1);
    edit(&devices[3], |superblock| (superblock.data_size, superblock.used_size) = (SectorCount(1280), SectorCount(1280)));
    let assembly = start(&devices, &PLAIN);
    assert!(assembly.spares.is_empty() && refused(&assembly)[0].starts_with("d: it has room for 1280 sectors of data"));
}

#[test]
fn a_replacement_waits_for_its_original() {
    let devices = array(Level::Raid1, 2, 1);
    for device in &devices {
        edit(device, |superblock| superblock.roles[2] = Role::Active(Slot(1)));
    }
    edit(&devices[2], |superblock| {
        superblock.set_feature(Feature::Replacement, true);
        superblock.recovery_offset = Some(Sector(0));
    });
    let assembly = start(&devices, &PLAIN);
    assert_eq!(line_up(&assembly), "a b");
    assert!(refused(&assembly)[0].starts_with("c: it is a replacement for slot 1, which b still holds"));
    edit(&devices[2], |superblock| superblock.recovery_offset = None);
    assert_eq!(line_up(&start(&pick(&devices, "ac"), &PLAIN)), "a c", "whole, and the original gone");
}

#[test]
fn the_largest_logical_block_rules_and_everything_must_fit_it() {
    let large = |name| Arc::new(MemoryDevice::new(name, 4 << 20, 4096)) as Arc<dyn Device>;
    let devices = vec![large("a"), Arc::new(MemoryDevice::new("b", 4 << 20, 512)) as Arc<dyn Device>];
    let members: Vec<_> = devices.iter().cloned().map(Some).collect();
    create(&members, &[], &CreateRequest::new(Level::Raid1)).unwrap();
    assert_eq!(start(&devices, &PLAIN).block, SectorCount(8));
    for device in &devices {
        edit(device, |superblock| superblock.used_size.0 -= 4);
    }
    let error = refuse(&devices, &FORCE).to_string();
    assert!(error.starts_with("the used size of ") && error.contains("logical block of 4096 bytes"), "{error}");
    let devices = array(Level::Raid1, 2, 0);
    devices.iter().for_each(|device| edit(device, |superblock| superblock.logical_block_bytes = 4096));
    assert_eq!(start(&devices, &PLAIN).block, SectorCount(8));
    devices.iter().for_each(|device| edit(device, |superblock| superblock.logical_block_bytes = 8192));
    assert!(matches!(refuse(&devices, &FORCE).problem, AssembleProblem::Block { .. }));
}

#[test]
fn the_survey_tells_every_slots_story() {
    let devices = array(Level::Raid6, 5, 1);
    age(&devices[..4], 8, &[]);
    let all = survey(&candidates(&devices));
    let [one] = &all[..] else { panic!("one array") };
    let standings: Vec<SlotStanding> = one.slots.iter().map(|slot| slot.standing).collect();
    assert_eq!(standings[..4], [SlotStanding::InSync; 4]);
    assert_eq!((standings[4], one.slots[4].events, one.slots[4].recorded_active), (SlotStanding::LeftOut, Some(1), true));
    assert!(one.obstacle.as_ref().unwrap().contains("--run") && one.next_step.contains("--run"));
    assert_eq!((one.degraded, one.survives, &one.spares[..]), (1, Some(1), &["f".to_owned()][..]));
    let others: Vec<_> = one.others.iter().map(|other| (other.member.as_str(), other.standing, other.events)).collect();
    assert_eq!((others, one.consistency_policy), (vec![("f", OtherStanding::Spare, 1)], "bitmap"));
    let whole = &survey(&candidates(&pick(&array(Level::Raid6, 5, 0), "abcde")))[0];
    assert_eq!((whole.obstacle.clone(), whole.survives, whole.next_step.as_str()), (None, Some(2), "assemble it"));
}

#[test]
fn the_survey_counts_what_raid10_can_still_lose() {
    let counts = |layout, slots: usize, lost: &[u16]| {
        let devices = memory(slots);
        let members: Vec<_> = devices.iter().cloned().map(Some).collect();
        let request = CreateRequest {
            layout: Some(Layout::Raid10(layout)),
            chunk: Some(SectorCount(128)),
            ..CreateRequest::new(Level::Raid10)
        };
        create(&members, &[], &request).unwrap();
        for device in &devices {
            edit(device, |superblock| lost.iter().for_each(|&lost| superblock.roles[usize::from(lost)] = Role::Faulty));
        }
        let present: Devices =
            (0..slots).filter(|slot| !lost.contains(&(*slot as u16))).map(|slot| Arc::clone(&devices[slot])).collect();
        survey(&candidates(&present))[0].survives
    };
    assert_eq!(counts(Raid10Layout::near(2), 4, &[]), Some(1));
    assert_eq!(counts(Raid10Layout::near(3), 6, &[]), Some(2));
    assert_eq!(counts(Raid10Layout::near(3), 6, &[4]), Some(1));
    assert_eq!(counts(Raid10Layout::near(2), 4, &[1]), Some(0));
    assert_eq!(counts(Raid10Layout::near(2), 4, &[0, 1]), None);
}

/// What happened to one member.
#[derive(Clone, Debug)]
struct Fate {
    given: u8,
    behind: u64,
    role: u8,
    recovery: Option<u64>,
    faulty: Vec<u16>,
    dirty: bool,
    bitmap_behind: u64,
}

fn fate() -> impl Strategy<Value = Fate> {
    let numbers =
        (0..3_u8, prop_oneof![4 => Just(0_u64), 2 => Just(1), 1 => 2..6_u64], prop_oneof![8 => Just(0_u8), 1 => 1..4_u8]);
    let recovery = prop_oneof![6 => Just(None), 1 => (0..1000_u64).prop_map(Some)];
    let faulty = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(0..6_u16, 0..3)];
    (numbers, recovery, faulty, any::<bool>(), 0..3_u64).prop_map(
        |((given, behind, role), recovery, faulty, dirty, bitmap_behind)| Fate {
            given,
            behind,
            role,
            recovery,
            faulty,
            dirty,
            bitmap_behind,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happened to the members: no panic, no slot with a member that missed updates (unless forced), nobody in two
    /// places, all data there, and the survey agrees with the choice.
    #[test]
    fn no_slot_starts_with_a_stale_member(
        level in prop::sample::select(vec![Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10]),
        fates in prop::collection::vec(fate(), 5),
        force: bool,
        run: bool,
    ) {
        let devices = array(level, 4, if level.is_redundant() { 1 } else { 0 });
        let mut given = Devices::new();
        for (index, (device, fate)) in devices.iter().zip(&fates).enumerate() {
            edit(device, |superblock| {
                superblock.events = 100 - fate.behind;
                superblock.resync_offset = fate.dirty.then_some(Sector(0));
                superblock.recovery_offset = fate.recovery.map(Sector);
                for &gone in &fate.faulty {
                    superblock.roles[usize::from(gone)] = Role::Faulty;
                }
                superblock.roles[index] = match fate.role {
                    0 => superblock.roles[index],
                    1 => Role::Spare,
                    2 => Role::Active(Slot(3)),
                    _ => Role::Faulty,
                };
            });
            edit_bitmap(device, |bitmap| bitmap.superblock.events = 100 - fate.bitmap_behind);
            given.extend((fate.given > 0).then(|| Arc::clone(device)));
            given.extend((fate.given > 1 && index == 2).then(|| copy(device, "copy")));
        }
        let options = AssembleOptions { force, run, ..PLAIN };
        let found = candidates(&given);
        let surveyed = survey(&found);
        prop_assert_eq!(surveyed.len(), usize::from(!found.is_empty()));
        let result = choose(found.clone(), &options);
        if !force && !run && let Some(survey) = surveyed.first() {
            prop_assert_eq!(result.as_ref().err().map(|error| error.problem.to_string()), survey.obstacle.clone());
        }
        let Ok(assembly) = result else { return Ok(()) };
        let decider = assembly.members[assembly.freshest].superblock();
        let freshest = decider.events;
        let active = found.iter().filter(|member| matches!(member.superblock().own_role(), Role::Active(_)));
        prop_assert_eq!(freshest, active.map(|member| member.superblock().events).max().unwrap_or(0));
        let mut seen = std::collections::HashSet::new();
        let mut missing = Vec::new();
        for (slot, plan) in assembly.slots.iter().enumerate() {
            prop_assert_eq!(plan.member.is_none(), plan.state == MemberState::Missing);
            if plan.state != MemberState::InSync {
                missing.push(Slot::from_index(slot));
            }
            let Some(index) = plan.member else { continue };
            prop_assert!(seen.insert(index));
            let superblock = assembly.members[index].superblock();
            prop_assert_eq!(superblock.own_role(), Role::Active(Slot::from_index(slot)));
            prop_assert_eq!(plan.state == MemberState::InSync, superblock.recovery_offset.is_none());
            if superblock.events + 1 < freshest {
                prop_assert!(force && assembly.warnings.iter().any(|warning| warning.starts_with("--force took")));
            } else if !force {
                let recorded = decider.roles[superblock.dev_number as usize];
                prop_assert_eq!(recorded, Role::Active(Slot::from_index(slot)), "the freshest counts it as active");
            }
        }
        prop_assert!(assembly.geometry.survives(&missing) && missing.len() == assembly.degraded);
        prop_assert!(level.is_redundant() || missing.is_empty());
        let places = assembly.spares.iter().chain(&assembly.readdable);
        for &index in places {
            prop_assert!(seen.insert(index), "nobody is in two places");
        }
        prop_assert_eq!(seen.len(), assembly.members.len());
        let dirty_degraded = assembly.dirty && level.has_parity() && assembly.degraded > 0;
        let has_nothing = |plan: &&SlotPlan| matches!(plan.state, MemberState::Missing | MemberState::Rebuilding { recovered: Sector(0) });
        let comparable = assembly.slots.iter().filter(has_nothing).count() < level.parity_members();
        prop_assert!(!dirty_degraded || force && (comparable || assembly.resync_from.is_none()));
    }
}
