//! From which Linux on the fixtures assemble. The releases are those of md(4) and the release notes, written down here a second time.

use uraid_format::{Compat, KernelVersion, RawFields, RawFields090};

use crate::fixtures::read;

fn compat(name: &str, bitmap: Option<u32>) -> Compat {
    let bytes = read(&format!("{name}.super"));
    match RawFields090::read(&bytes) {
        Some(fields) => Compat::of_090(&fields, bitmap),
        None => Compat::of(&RawFields::read(&bytes).expect("a superblock"), bitmap),
    }
}

fn since(name: &str, bitmap: Option<u32>) -> String {
    compat(name, bitmap).since().expect("a kernel takes it").to_string()
}

#[test]
fn each_fixture_asks_for_the_kernel_that_its_newest_part_came_with() {
    for (name, bitmap, expected) in [
        ("raid1-0.90-write-mostly-missing", None, "2.4.0"),
        ("raid4-0.90", None, "2.4.0"),
        ("raid10-0.90", None, "2.6.9"),
        ("raid5-0.90-running", Some(4), "2.6.15"),
        ("raid5-0.90-reshaping", None, "2.6.17"),
        ("raid4-1.2", None, "2.6.10"),
        ("raid6-1.1", None, "2.6.10"),
        ("raid1-1.0-failed-write-mostly", Some(4), "2.6.14"),
        ("raid5-1.2-bitmap", Some(4), "2.6.15"),
        ("raid5-1.2-bitmap", Some(5), "4.1"),
        ("raid5-1.2-bitmap", Some(6), "6.18"),
        ("raid5-1.2-recovering", None, "2.6.18"),
        ("raid1-1.2-bad-blocks", None, "3.1"),
        ("raid5-1.2-journal-device", None, "4.4"),
        ("raid5-1.2-ppl", None, "4.12"),
        ("raid0-1.2", None, "2.6.10"),
        ("linear-1.2", None, "2.6.10"),
    ] {
        assert_eq!(since(name, bitmap), expected, "{name}");
    }
}

#[test]
fn a_recorded_raid0_layout_needs_5_4() {
    let mut fields = RawFields::read(&read("raid0-1.2.super")).expect("a superblock");
    fields.feature_map |= 4096; // MD_FEATURE_RAID0_LAYOUT
    fields.layout = 2;
    assert_eq!(Compat::of(&fields, None).since(), Some(KernelVersion(5, 4, 0)));
}

#[test]
fn a_logical_block_size_needs_6_19_and_says_why() {
    let mut fields = RawFields::read(&read("raid4-1.2.super")).expect("a superblock");
    fields.logical_block_size = 4096;
    let compat = Compat::of(&fields, None);
    assert_eq!(compat.since(), Some(KernelVersion(6, 19, 0)));
    let old: Vec<_> = compat.obstacles(KernelVersion(6, 18, 0)).collect();
    assert!(old.len() == 1 && old[0].what.contains("byte 224"), "{old:?}");
    assert_eq!(compat.obstacles(KernelVersion(6, 19, 0)).count(), 0);
}

#[test]
fn what_nobody_takes_has_no_first_kernel() {
    let sound = RawFields::read(&read("raid4-1.2.super")).expect("a superblock");
    let spoilt = |change: fn(&mut RawFields)| {
        let mut fields = sound.clone();
        change(&mut fields);
        Compat::of(&fields, None)
    };
    for compat in [
        spoilt(|fields| fields.feature_map |= 1 << 20),
        spoilt(|fields| fields.checksum_found ^= 1),
        spoilt(|fields| fields.level = 77),
        spoilt(|fields| (fields.level, fields.layout) = (5, 200)),
    ] {
        assert_eq!(compat.since(), None, "{compat:?}");
        assert!(compat.obstacles(KernelVersion(99, 0, 0)).count() == 1, "{compat:?}");
    }
}

#[test]
fn linear_was_away_for_a_while() {
    let compat = compat("linear-1.2", None);
    let takes = |major, minor| compat.obstacles(KernelVersion(major, minor, 0)).count() == 0;
    assert_eq!([(6, 7), (6, 8), (6, 13), (6, 14)].map(|(major, minor)| takes(major, minor)), [true, false, false, true]);
}
