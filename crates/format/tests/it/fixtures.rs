//! The superblocks under `tests/fixtures`, and what they must go through.

use std::fs;
use std::path::PathBuf;

use uraid_format::{RawFields, RawSuper, SuperError, SuperErrorKind};
use uraid_types::{Sector, SectorCount};

/// Every fixture's member has 64 MiB.
pub const MEMBER: SectorCount = SectorCount(64 << 11);

/// Fixtures that `RawSuper::parse` takes.
pub const GOOD: [&str; 16] = [
    "raid5-1.2-bitmap",
    "raid5-1.2-running-dirty",
    "raid5-1.2-spare",
    "raid1-1.0-failed-write-mostly",
    "raid6-1.1",
    "raid6-1.2-missing",
    "raid0-1.2",
    "linear-1.2",
    "raid10-1.2-f2",
    "raid4-1.2",
    "raid6-1.2-resync-stopped",
    "raid5-1.2-recovering",
    "raid5-1.2-reshaping",
    "raid1-1.2-bad-blocks",
    "raid5-1.2-ppl",
    "raid5-1.2-journal-device",
];

pub fn read(file: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(file);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn text(file: &str) -> String {
    String::from_utf8(read(file)).expect("fixtures that are text are UTF-8")
}

/// Where the fixture's superblock lay.
pub fn place(name: &str) -> Sector {
    match name {
        _ if name.contains("-0.90") => Sector(MEMBER.0 - 128),
        _ if name.contains("-1.0") => Sector(MEMBER.0 - 16),
        _ if name.contains("-1.1") => Sector(0),
        _ => Sector(8),
    }
}

pub fn parse(name: &str) -> Result<RawSuper, SuperError> {
    RawSuper::parse(&read(&format!("{name}.super")), place(name), MEMBER)
}

#[test]
fn superblocks_go_round_byte_for_byte() {
    for name in GOOD {
        let raw = parse(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(raw.to_bytes() == read(&format!("{name}.super")), "{name} changed");
    }
}

#[test]
fn an_update_that_changes_nothing_changes_no_byte() {
    for name in GOOD {
        let mut raw = parse(name).unwrap();
        raw.update(|_| ());
        assert!(raw.to_bytes() == read(&format!("{name}.super")), "{name} changed");
    }
}

#[test]
fn a_superblock_built_from_its_domain_says_the_same() {
    for name in GOOD {
        let raw = parse(name).unwrap();
        let again = RawSuper::from_new(raw.superblock().clone());
        let read_again = RawSuper::parse(&again.to_bytes(), place(name), MEMBER).unwrap();
        assert_eq!(read_again.superblock(), raw.superblock(), "{name}");
    }
}

#[test]
fn fields_of_a_reshape_and_of_a_ppl_are_shown() {
    let fields = |name: &str| RawFields::read(&read(&format!("{name}.super"))).unwrap();
    // mdadm --examine: "Reshape pos'n : 30720" KiB, "Delta Devices : 1 (3->4)", "New Offset : 1024 sectors"
    let reshape = fields("raid5-1.2-reshaping");
    assert_eq!((reshape.reshape_position, reshape.delta_disks), (2 * 30720, 1));
    assert_eq!(reshape.data_offset.checked_add_signed(i64::from(reshape.new_offset)), Some(1024));
    assert_eq!((reshape.new_level, reshape.new_layout, reshape.new_chunk), (5, 2, 1024));
    let superblock = parse("raid5-1.2-reshaping").unwrap().superblock().clone();
    let (before, after) = (superblock.before_reshape(), superblock.after_reshape());
    assert_eq!((before.raid_disks, after.raid_disks, superblock.slots()), (3, 4, 4));
    assert_eq!((after.data_offset, before.reshape, after.reshape), (Sector(1024), None, None));
    assert_eq!(superblock.reshape.map(|reshape| (reshape.position, reshape.backwards)), Some((Sector(2 * 30720), false)));
    // "PPL : 2048 sectors at offset 8 sectors from superblock"
    let ppl = fields("raid5-1.2-ppl");
    assert_eq!((ppl.ppl_size, ppl.ppl_offset), (2048, 8));
}

#[test]
fn nothing_of_mds_is_absence() {
    let error = RawSuper::parse(&[0; 4096], Sector(8), MEMBER).unwrap_err();
    assert!(error.is_absent() && error.kind == SuperErrorKind::NoMagic);
    let error = RawSuper::parse(&[0; 100], Sector(8), MEMBER).unwrap_err();
    assert!(error.is_absent() && error.kind == SuperErrorKind::TooShort);
}
