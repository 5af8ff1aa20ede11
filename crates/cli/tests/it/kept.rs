//! Arrays that the real Linux md left, whole or in the middle of something, kept in `tests/kept`: read without a kernel to ask.
//!
//! How they came about stands in `referee/matrix/kept.rs`; `cargo xtask keep` makes them again.

pub mod pack;

use std::path::{Path, PathBuf};

use crate::lab::{Lab, refs};
use pack::{Kept, numbered};

/// What is kept may not grow beyond this.
const MOST_BYTES: usize = 512 << 10;

/// The folder of the packed arrays.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept")
}

/// Asserts that uraid reads the array to the last byte and leaves its members alone, also without as many more as it bears.
#[track_caller]
pub fn assert_reads(what: &str, kept: &Kept) {
    let lab = Lab::new();
    let names: Vec<String> = (0..kept.members.len()).map(|index| format!("m{index}")).collect();
    for (name, bytes) in names.iter().zip(&kept.members) {
        std::fs::write(lab.path(name), bytes).unwrap();
    }
    let expected = numbered(usize::try_from(kept.size_bytes).unwrap());
    let read = |members: &[String], exit: i32| {
        lab.run(&[&["export", "--output=exported"], &refs(members)[..]].concat()).expect(exit);
        let exported = std::fs::read(lab.path("exported")).unwrap();
        assert_eq!(exported.len(), expected.len(), "{what}: bytes");
        let differs = exported.chunks(512).zip(expected.chunks(512)).position(|(found, wanted)| found != wanted);
        assert_eq!(differs, None, "{what}: the first sector that differs");
    };
    read(&names, i32::from(kept.exit));
    for lost in 0..if kept.may_lose > 0 { names.len() } else { 0 } {
        let is_lost = |index: usize| (index + names.len() - lost) % names.len() < usize::from(kept.may_lose);
        let left = names.iter().enumerate().filter(|(index, _)| !is_lost(*index)).map(|(_, name)| name.clone());
        read(&left.collect::<Vec<_>>(), 3);
    }
    for (name, bytes) in names.iter().zip(&kept.members) {
        assert!(std::fs::read(lab.path(name)).unwrap() == *bytes, "{what}: {name} was written to while only read");
    }
}

#[test]
fn every_kept_array_is_read() {
    let (mut arrays, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let packed = std::fs::read(&path).unwrap();
        assert_reads(&path.display().to_string(), &Kept::unpack(&packed));
        (arrays, bytes) = (arrays + 1, bytes + packed.len());
    }
    assert!(arrays >= 41, "{arrays} arrays");
    assert!(bytes <= MOST_BYTES, "{bytes} bytes");
}

#[test]
fn canary_a_misplaced_sector_is_seen() {
    let path = folder().join("raid0-3x64k-clean-1.2.packed");
    let mut kept = Kept::unpack(&std::fs::read(path).unwrap());
    // Two sectors in the middle of a member's data change places.
    let member = &mut kept.members[0];
    let (one, other) = (member.len() / 2, member.len() / 2 + 512);
    let moved = member[one..other].to_vec();
    member.copy_within(other..other + 512, one);
    member[other..other + 512].copy_from_slice(&moved);
    let caught = std::panic::catch_unwind(|| assert_reads("canary", &kept)).unwrap_err();
    let said = caught.downcast_ref::<String>().unwrap();
    assert!(said.contains("the first sector that differs"), "{said}");
}
