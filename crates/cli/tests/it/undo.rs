//! What a command overwrote is put back by `undo`, from whatever point it or the undoing was cut short at.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::lab::{Ended, Lab, pattern, refs};
use crate::superblock::{self, EVENTS};

const MIB: u64 = 1 << 20;

/// The undo file that a command named on standard error.
fn named(ended: &Ended) -> String {
    let line = ended.stderr.lines().find_map(|line| line.split_once("to put it back: uraid undo "));
    line.unwrap_or_else(|| panic!("no undo file: {}", ended.stderr)).1.to_owned()
}

fn files(lab: &Lab, dir: &str) -> Vec<PathBuf> {
    std::fs::read_dir(lab.path(dir)).map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}

/// An array with contents.
fn filled(lab: &Lab, options: &[&str]) -> Vec<String> {
    let members = lab.array(3, 8 * MIB, &[&["-l", "5", "-c", "64", "--assume-clean"], options].concat());
    std::fs::write(lab.path("in"), pattern(3 << 20, 1)).unwrap();
    lab.ok(&[&["import", "-i", "in"], &refs(&members)[..]].concat());
    members
}

#[test]
fn create_over_an_array_is_undone() {
    let lab = Lab::new();
    let members = filled(&lab, &[]);
    assert!(files(&lab, "run/undo").is_empty(), "nothing is saved of blank members");
    let before = lab.bytes(&members);
    let over =
        lab.ok(&[&["create", "-l", "1", "--force", "--json", "--bitmap=internal", "-e", "1.0"], &refs(&members)[..]].concat());
    let after = lab.bytes(&members);
    let file = named(&over);
    assert_eq!(over.json()["undo_file"], file.as_str());
    let listed = lab.ok(&["undo", "--list", "--json"]).json();
    assert_eq!((&listed["files"][0]["command"], &listed["files"][0]["file"]), (&"create".into(), &file.as_str().into()));
    lab.ok(&["undo", "--dry-run", &file]);
    assert!(lab.bytes(&members) == after, "a dry run wrote");
    lab.ok(&["undo", &file]);
    assert!(lab.bytes(&members) == before);
    let again = lab.ok(&["undo", "--json", &file]).json();
    assert_eq!((&again["done"], &again["files"][0]["members"][0]["to_restore_bytes"]), (&"undone".into(), &0.into()));
}

#[test]
fn what_has_changed_since_is_named_and_kept_unless_forced() {
    let lab = Lab::new();
    let members = filled(&lab, &[]);
    let before = lab.bytes(&members);
    let over = lab.ok(&[&["create", "-l", "5", "-c", "64", "--force", "--undo-dir=saved"], &refs(&members)[..]].concat());
    let file = named(&over);
    assert!(file.contains("/saved/create-") && files(&lab, "saved").len() == 1, "{file}");
    superblock::set(&lab.path("d1"), EVENTS, &99_u64.to_le_bytes());
    let after = lab.bytes(&members);
    let refused = lab.run(&["undo", &file]).expect(1);
    assert!(
        refused.stderr.contains("d1: byte 4096 holds neither") && refused.stderr.contains("nothing was written"),
        "{}",
        refused.stderr
    );
    assert!(lab.bytes(&members) == after);
    // Another member in its place.
    std::fs::rename(lab.path("d2"), lab.path("away")).unwrap();
    lab.file("d2", 4 * MIB);
    let other = lab.run(&["undo", "--force", &file]).expect(1);
    assert!(other.stderr.contains("this is another member") && other.stderr.contains("nothing was written"), "{}", other.stderr);
    std::fs::rename(lab.path("away"), lab.path("d2")).unwrap();
    lab.ok(&["undo", "--force", &file]);
    assert!(lab.bytes(&members) == before);
}

#[test]
fn without_an_undo_file_nothing_is_written() {
    let lab = Lab::new();
    let members = filled(&lab, &[]);
    let before = lab.bytes(&members);
    std::fs::write(lab.path("no-dir"), "").unwrap();
    for command in [&["create", "-l", "1", "--force"][..], &["convert", "-e", "1.1"]] {
        let refused = lab.run(&[command, &["--undo-dir=no-dir"], &refs(&members)].concat()).expect(1);
        assert!(refused.stderr.contains("nothing was written") && refused.stderr.contains("--undo-dir"), "{}", refused.stderr);
        assert!(lab.bytes(&members) == before);
    }
    let without = lab.ok(&[&["create", "-l", "1", "--force", "--undo-dir=none"], &refs(&members)[..]].concat());
    assert!(!without.stderr.contains("uraid undo") && files(&lab, "run/undo").is_empty());
}

#[test]
fn an_overlay_commit_is_undone_with_its_data() {
    let lab = Lab::new();
    let members = filled(&lab, &[]);
    let before = lab.bytes(&members);
    std::fs::write(lab.path("in"), pattern(1 << 20, 2)).unwrap();
    lab.ok(&[&["import", "-i", "in", "--overlay=over"], &refs(&members)[..]].concat());
    let committed = lab.ok(&["overlay", "commit", "over"]);
    assert!(lab.bytes(&members) != before);
    lab.ok(&["undo", &named(&committed)]);
    assert!(lab.bytes(&members) == before);
}

#[test]
fn a_forced_start_is_undone_only_when_forced() {
    let lab = Lab::new();
    let members = filled(&lab, &[]);
    superblock::set(&lab.path("d0"), EVENTS, &1_u64.to_le_bytes());
    superblock::set(&lab.path("d1"), EVENTS, &1_u64.to_le_bytes());
    let before = lab.bytes(&members);
    let forced = lab.run(&[&["resync", "--force"], &refs(&members)[..]].concat());
    assert!(lab.bytes(&members) != before, "{}", forced.stderr);
    let file = named(&forced);
    let refused = lab.run(&["undo", &file]).expect(1);
    assert!(refused.stderr.contains("the array ran with it"), "{}", refused.stderr);
    lab.ok(&["undo", "--force", &file]);
    assert!(lab.bytes(&members) == before, "an assume-clean array has the right parity already");
    // Superblocks that are changed before the start, and nothing else of the members.
    let bitmap = ["create", "-l", "5", "--force", "--undo-dir=none", "--assume-clean", "--bitmap=internal"];
    lab.ok(&[&bitmap[..], &refs(&members)].concat());
    let super_of = |member: &str| lab.bytes(&[member.to_owned()])[0][4096..8192].to_vec();
    let had: Vec<_> = members.iter().map(|member| super_of(member)).collect();
    let dropped = lab.ok(&[&["resync", "--update=no-bitmap"], &refs(&members)[..]].concat());
    assert!(members.iter().zip(&had).all(|(member, had)| super_of(member) != *had));
    lab.ok(&["undo", "--force", &named(&dropped)]);
    assert!(members.iter().zip(&had).all(|(member, had)| super_of(member) == *had));
    // Without force nothing is saved.
    lab.ok(&[&["create", "-l", "5", "--force", "--undo-dir=none", "--assume-clean"], &refs(&members)[..]].concat());
    let plain = lab.ok(&[&["resync"], &refs(&members)[..]].concat());
    assert!(!plain.stderr.contains("uraid undo"), "{}", plain.stderr);
}

#[test]
fn conversions_go_there_and_back_and_are_undone() {
    let lab = Lab::new();
    let members = filled(&lab, &["--data-offset=1M", "--size=4M"]);
    let before = lab.bytes(&members);
    let contents = |version: &str| {
        let detail = lab.ok(&[&["detail", "--json"], &refs(&members)[..]].concat()).json();
        assert_eq!(detail["arrays"][0]["metadata"], version);
        lab.ok(&[&["export", "-o", "out"], &refs(&members)[..]].concat());
        assert!(std::fs::read(lab.path("out")).unwrap()[..3 << 20] == pattern(3 << 20, 1), "metadata {version}");
    };
    contents("1.2");
    let first = lab.ok(&[&["convert", "-e", "1.0"], &refs(&members)[..]].concat());
    contents("1.0");
    for version in ["1.1", "1.2", "1.1", "1.0", "1.2"] {
        let done = lab.ok(&[&["convert", "--json", "-e", version], &refs(&members)[..]].concat()).json();
        assert_eq!((&done["written"], &done["members"][2]["was_done"]), (&true.into(), &false.into()), "{done}");
        contents(version);
    }
    // The first undo file speaks of a state that is long gone.
    lab.run(&["undo", &named(&first)]).expect(1);
    lab.ok(&["undo", "--force", &named(&first)]);
    let restored = lab.bytes(&members);
    let super_bytes = |all: &[Vec<u8>]| all.iter().map(|member| member[4096..8192].to_vec()).collect::<Vec<_>>();
    assert!(super_bytes(&restored) == super_bytes(&before));
    // Whole, when nothing was between.
    let clean = lab.bytes(&members);
    let once = lab.ok(&[&["convert", "-e", "1.0"], &refs(&members)[..]].concat());
    lab.ok(&["undo", &named(&once)]);
    assert!(lab.bytes(&members) == clean);
}

#[test]
fn a_conversion_that_was_cut_short_goes_on_or_is_undone() {
    let lab = Lab::new();
    let members = filled(&lab, &["--data-offset=1M", "--size=4M"]);
    let before = lab.bytes(&members);
    let done = lab.ok(&[&["convert", "-e", "1.0"], &refs(&members)[..]].concat());
    let after = lab.bytes(&members);
    let end = 8 * MIB - 8192;
    let put = |member: &str, at: u64, from: &[Vec<u8>], index: usize| {
        let file = std::fs::File::options().write(true).open(lab.path(member)).unwrap();
        file.write_all_at(&from[index][at as usize..at as usize + 4096], at).unwrap();
    };
    // d0 has the new superblock and no old one, d1 both, d2 the old one alone.
    put("d1", 4096, &before, 1);
    put("d2", 4096, &before, 2);
    put("d2", end, &before, 2);
    let half = lab.bytes(&members);
    lab.ok(&["undo", &named(&done)]);
    assert!(lab.bytes(&members) == before);
    for (name, bytes) in members.iter().zip(&half) {
        std::fs::write(lab.path(name), bytes).unwrap();
    }
    lab.ok(&[&["detail"], &refs(&members)[..]].concat());
    lab.ok(&[&["convert", "-e", "1.0"], &refs(&members)[..]].concat());
    assert!(lab.bytes(&members) == after);
}

#[test]
fn what_does_not_convert_is_refused_with_the_reason() {
    let lab = Lab::new();
    let members = lab.array(2, 8 * MIB, &["-l", "1", "-e", "1.0", "--assume-clean"]);
    let before = lab.bytes(&members);
    let refuse = |options: &[&str], members: &[&str], words: &str| {
        let refused = lab.run(&[&["convert"], options, members].concat()).expect(1);
        assert!(refused.stderr.contains(words) && refused.stderr.contains("nothing was written"), "{}", refused.stderr);
    };
    refuse(&["-e", "1.2"], &["d0", "d1"], "its data lies at 0 to");
    refuse(&["-e", "0.90"], &["d0", "d1"], "0.90 becomes 1.0");
    refuse(&["-e", "1.0"], &["d0"], "must be whole");
    assert!(lab.bytes(&members) == before);
    let server = lab.assemble(&members, &["--nbd", "unix:socket"]);
    let busy = lab.run(&["convert", "-e", "1.1", "d0", "d1"]).expect(1);
    assert!(busy.stderr.contains("in use"), "{}", busy.stderr);
    server.stop();
    lab.ok(&["create", "-l", "1", "-b", "internal", "--force", "--assume-clean", "--size=4M", "d0", "d1"]);
    refuse(&["-e", "1.0"], &["d0", "d1"], "--bitmap=none");
    lab.ok(&["convert", "-e", "1.0", "--bitmap=none", "d0", "d1"]);
    assert!(lab.ok(&["examine", "--json", "d0"]).json()["members"][0]["bitmap"].is_null());
}
