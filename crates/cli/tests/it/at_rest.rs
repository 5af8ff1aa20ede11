//! Commands on members at rest: create, examine, detail, export, import, resync, check, repair.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Stdio;

use serde_json::Value;
use uraid_referee::require_programs;

use crate::lab::{Lab, eventually, pattern, program, refs};
use crate::superblock::{self, EVENTS};

const MIB: u64 = 1 << 20;

#[test]
fn a_dry_run_plans_and_makes_nothing() {
    let lab = Lab::new();
    let members: Vec<String> = (0..6).map(|index| format!("d{index}")).collect();
    let args = [&["create", "--level=10", "--member-size=1G", "--chunk=64", "--dry-run", "--json"], &refs(&members)[..]].concat();
    let plan = lab.ok(&args).json();
    assert_eq!(std::fs::read_dir(lab.path("")).unwrap().count(), 0);
    assert_eq!((&plan["written"], &plan["level"], &plan["layout"]), (&false.into(), &"raid10".into(), &"near=2".into()));
    assert_eq!(plan["chunk_bytes"], 64 << 10);
    let used = plan["used_bytes_per_member"].as_u64().unwrap();
    assert_eq!(plan["size_bytes"], used * 6 / 2);
    for member in plan["members"].as_array().unwrap() {
        let (at, len) = (member["data_offset_bytes"].as_u64().unwrap(), member["data_bytes"].as_u64().unwrap());
        assert!(at >= MIB && at + len <= 1 << 30 && len >= used, "{member}");
    }
    // Three pairs of copies: any one, both of no pair (C(6,2) - 3), one of each (2^3).
    let losses: Vec<Vec<u64>> = plan["survives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lost| ["lost", "surviving", "combinations"].iter().map(|field| lost[*field].as_u64().unwrap()).collect())
        .collect();
    assert_eq!(losses, [[1, 6, 6], [2, 12, 15], [3, 8, 20]]);
}

#[test]
fn members_are_made_as_sparse_files_and_go_again_when_nothing_comes_of_it() {
    let lab = Lab::new();
    lab.ok(&["create", "-l", "1", "-n", "2", "--member-size", "10G", "a", "b"]);
    let a = lab.path("a").metadata().unwrap();
    assert_eq!(a.len(), 10 << 30);
    assert!(a.blocks() * 512 < 4 * MIB, "{} blocks are taken", a.blocks());
    lab.run(&["create", "-l", "5", "--member-size", "10G", "c", "d", "e", "--size", "20G"]).expect(2);
    assert!(!lab.path("c").exists());
    let hint = lab.run(&["create", "-l", "1", "x", "y"]).expect(1);
    assert!(hint.stderr.contains("--member-size"), "{}", hint.stderr);
}

/// Labels and values of an examination.
fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(" : "));
    pairs.map(|(label, value)| (label.trim().to_owned(), value.trim().to_owned())).collect()
}

#[test]
fn examine_agrees_with_mdadm() {
    if !require_programs(&["mdadm"]) {
        return;
    }
    let arrays: [&[&str]; 7] = [
        &["-l", "6", "-e", "1.2", "-b", "internal", "-x", "1"],
        &["-l", "5", "-e", "1.0", "-c", "64", "-p", "ra"],
        &["-l", "10", "-e", "1.1", "-p", "f2", "--size", "6M"],
        &["-l", "1", "-e", "1.0", "-b", "internal", "--assume-clean"],
        &["-l", "4", "-c", "1M"],
        &["-l", "0", "--name", "here:7"],
        &["-l", "linear", "--data-offset", "4M"],
    ];
    for options in arrays {
        let lab = Lab::new();
        let members = lab.array(5, 16 * MIB, options);
        for member in [&members[0], &members[4]] {
            let (mdadm, ours) = (program("mdadm", &["--examine", &lab.text(member)]).expect(0), lab.ok(&["examine", member]));
            let (mdadm, ours) = (fields(&mdadm.stdout), fields(&ours.stdout));
            assert!(mdadm.len() > 15, "{mdadm:?}");
            for (label, value) in mdadm.iter().filter(|(label, _)| !label.ends_with("Time")) {
                assert_eq!(ours.get(label), Some(value), "{label} of {member}, {options:?}");
            }
            let exported = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
            let theirs = program("mdadm", &["--examine", "--export", &lab.text(member)]).expect(0).stdout;
            assert_eq!(exported(&lab.ok(&["examine", "--export", member]).stdout), exported(&theirs), "{options:?}");
        }
    }
}

#[test]
fn what_fails_its_checks_is_shown_all_the_same() {
    let lab = Lab::new();
    let members = lab.array(3, 8 * MIB, &["-l", "5", "--assume-clean"]);
    superblock::spoil(&lab.path(&members[1]), EVENTS, &77_u64.to_le_bytes());
    let shown = lab.run(&["examine", &members[1]]).expect(1).stdout;
    let found = fields(&shown);
    assert_eq!(found["Events"], "77");
    assert!(found["Checksum"].contains("expected") && found["Problem"].contains("sb_csum"), "{shown}");
    let json = lab.run(&["examine", "--json", &members[0], &members[1]]).expect(1).json();
    assert_eq!((&json["members"][0]["usable"], &json["members"][1]["usable"]), (&true.into(), &false.into()));
    assert_eq!(json["members"][1]["superblocks"][0]["events"], 77);
    assert_eq!(json["members"][0]["superblocks"][0]["features"], serde_json::json!([]));
}

#[test]
fn detail_tells_the_story_of_each_slot() {
    let lab = Lab::new();
    let members = lab.array(4, 8 * MIB, &["-l", "6", "--assume-clean"]);
    let whole = lab.ok(&[&["detail", "--json"], &refs(&members)[..]].concat()).json();
    assert_eq!((&whole["arrays"][0]["startable"], &whole["arrays"][0]["survives"]), (&true.into(), &2.into()));
    let some = lab.run(&["detail", "--json", "d3", "d1"]).expect(3).json();
    let array = &some["arrays"][0];
    let states: Vec<&Value> = array["slots"].as_array().unwrap().iter().map(|slot| &slot["state"]).collect();
    assert_eq!(states, ["missing", "in_sync", "missing", "in_sync"]);
    assert_eq!(array["startable"], false, "members that were active last time are missing: {array}");
    assert!(array["next_step"].as_str().unwrap().contains("--run"), "{array}");
    let text = lab.run(&["detail", "d3", "d1"]).expect(3).stdout;
    assert_eq!(
        fields(&text)["Array Size"].split(' ').next(),
        fields(&lab.ok(&["examine", "d1"]).stdout)["Array Size"].split(' ').next()
    );
}

#[test]
fn any_two_of_sixteen_may_go_and_a_third_is_refused() {
    let lab = Lab::new();
    let members = lab.array(16, 4 * MIB, &["-l", "6", "-c", "64", "--assume-clean"]);
    // Members all zero are consistent; what is written then makes parity.
    let data = pattern(20 << 20, 3);
    std::fs::write(lab.path("in"), &data).unwrap();
    lab.ok(&[&["import", "-i", "in"], &refs(&members)[..]].concat());
    let before = lab.bytes(&members);
    let whole = [&["export", "-o", "whole", "--length", "20M"], &refs(&members)[..]].concat();
    lab.ok(&whole);
    assert!(std::fs::read(lab.path("whole")).unwrap() == data);
    for (first, second) in [(0, 1), (0, 15), (7, 8), (3, 12), (14, 15)] {
        let rest: Vec<&str> =
            (0..16).filter(|index| ![first, second].contains(index)).map(|index| members[index].as_str()).collect();
        lab.run(&[&["export", "-o", "out", "--length", "20M"], &rest[..]].concat()).expect(3);
        assert!(std::fs::read(lab.path("out")).unwrap() == data, "without {first} and {second}");
    }
    std::fs::remove_file(lab.path("out")).unwrap();
    let refused = lab.run(&[&["export", "-o", "out"], &refs(&members[..13])[..]].concat()).expect(1);
    assert!(refused.stderr.contains("13 of 16 slots") && !lab.path("out").exists(), "{}", refused.stderr);
    assert!(lab.bytes(&members) == before, "a member was written by export");
}

#[test]
fn parts_are_copied_byte_by_byte() {
    let lab = Lab::new();
    let members = lab.array(4, 4 * MIB, &["-l", "5", "-c", "4", "--assume-clean"]);
    let all = refs(&members);
    let mut model = vec![0; 3 << 20];
    for (seed, (offset, len)) in [(0, 3 << 20), (1, 1), (777, 1_300_001), (512, 512), (4095, 2)].into_iter().enumerate() {
        let piece = pattern(len, seed as u64);
        model[offset..offset + len].copy_from_slice(&piece);
        std::fs::write(lab.path("in"), &piece).unwrap();
        lab.ok(&[&["import", "-i", "in", "--offset", &offset.to_string()], &all[..]].concat());
    }
    lab.ok(&[&["export", "-o", "out", "--length", "3M"], &all[..]].concat());
    assert!(std::fs::read(lab.path("out")).unwrap() == model);
    let part = [&["export", "-o", "-", "--offset", "4097", "--length", "100001"], &all[1..]].concat();
    let piped = lab.command(&part).output().unwrap();
    assert_eq!((piped.status.code(), piped.stdout.len()), (Some(3), 100_001));
    assert!(piped.stdout == model[4097..4097 + 100_001]);
    let checked = lab.ok(&[&["check", "--json"], &all[..]].concat()).json();
    assert_eq!((&checked["mismatch_sectors"], &checked["complete"]), (&0.into(), &true.into()));
}

#[test]
fn an_input_that_is_too_large_is_refused() {
    let lab = Lab::new();
    let members = lab.array(2, 4 * MIB, &["-l", "1", "--assume-clean"]);
    let before = lab.bytes(&members);
    lab.file("large", 5 * MIB);
    let refused = lab.run(&["import", "-i", "large", "d0", "d1"]).expect(2);
    assert!(refused.stderr.contains("nothing was written") && lab.bytes(&members) == before, "{}", refused.stderr);
    // A pipe does not say how long it is.
    let mut child = lab.command(&["import", "-i", "-", "d0", "d1"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let fed = std::thread::spawn(move || input.write_all(&pattern(5 << 20, 9)));
    let ended = child.wait_with_output().unwrap();
    let _cut = fed.join().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("larger than the array"));
    lab.ok(&["check", "d0", "d1"]);
}

#[test]
fn a_signal_ends_an_import_from_a_silent_pipe_cleanly() {
    let lab = Lab::new();
    let members = lab.array(3, 8 * MIB, &["-l", "5", "--assume-clean"]);
    let args = [&["import", "-i", "-"], &refs(&members)[..]].concat();
    let mut child = lab.command(&args).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Two whole stripes of two chunks of 512 KiB, then nothing.
    input.write_all(&pattern(2 << 20, 5)).unwrap();
    eventually("the array is written", || {
        let state = lab.run(&[&["detail", "--json"], &refs(&members)[..]].concat());
        state.json()["arrays"][0]["resync_from_sector"] == 0
    });
    assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("stopped by a signal") && said.contains("only the first"), "{said}");
    let after = lab.ok(&[&["detail", "--json"], &refs(&members)[..]].concat()).json();
    assert_eq!(after["arrays"][0]["resync_from_sector"], Value::Null, "it was not stopped cleanly");
}

#[test]
fn a_running_array_is_described_and_checked_by_name() {
    let lab = Lab::new();
    let members = lab.array(4, 8 * MIB, &["-l", "6"]);
    let server = lab.assemble(&members, &["--nbd", "unix:s.nbd"]);
    lab.wait_idle(server.name());
    let name = server.name().to_owned();
    let running = lab.ok(&["detail", "--json", &name]).json();
    assert_eq!((&running["running"], &running["up"], &running["degraded"]), (&name.clone().into(), &"UUUU".into(), &0.into()));
    let text = fields(&lab.ok(&["detail", &name]).stdout);
    assert_eq!((text["Raid Level"].as_str(), text["Active Devices"].as_str()), ("raid6", "4"));
    let check = lab.ok(&["check", "--json", &name]).json();
    assert_eq!((&check["ran"], &check["complete"], &check["mismatch_sectors"]), (&"check".into(), &true.into(), &0.into()));
    // At rest it can only be looked at meanwhile.
    lab.ok(&[&["examine"], &refs(&members)[..]].concat());
    for command in [vec!["check"], vec!["resync"], vec!["export", "-o", "out"]] {
        let busy = lab.run(&[&command[..], &refs(&members)[..]].concat()).expect(1);
        assert!(busy.stderr.contains("in use"), "{}", busy.stderr);
    }
    lab.run(&["check", "no-such-array"]).expect(1);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn members_are_neither_input_nor_output() {
    let lab = Lab::new();
    let members = lab.array(2, 4 * MIB, &["-l", "1", "--assume-clean"]);
    let before = lab.bytes(&members);
    std::fs::hard_link(lab.path("d1"), lab.path("other-name")).unwrap();
    for args in
        [["export", "-o", "other-name", "d0", "d1"], ["import", "-i", "d0", "d0", "d1"], ["export", "-o", "d0", "d0", "d1"]]
    {
        let refused = lab.run(&args).expect(2);
        assert!(refused.stderr.contains("is the member"), "{}", refused.stderr);
    }
    assert!(lab.bytes(&members) == before);
}

#[test]
fn zeros_become_holes() {
    let lab = Lab::new();
    let members = lab.array(3, 64 * MIB, &["-l", "5", "--assume-clean"]);
    std::fs::write(lab.path("in"), pattern(65536, 1)).unwrap();
    lab.ok(&[&["import", "-i", "in", "--offset", "32M"], &refs(&members)[..]].concat());
    let report = lab.ok(&[&["export", "--json", "-o", "out"], &refs(&members)[..]].concat()).json();
    let out = lab.path("out").metadata().unwrap();
    assert_eq!((out.len(), report["length_bytes"].as_u64()), (report["hole_bytes"].as_u64().unwrap() + 65536, Some(out.len())));
    assert!(out.blocks() * 512 <= 128 << 10, "{} blocks", out.blocks());
}

#[test]
fn mismatches_are_counted_as_md_does_and_repaired() {
    let lab = Lab::new();
    let members = lab.array(4, 4 * MIB, &["-l", "6", "-c", "64", "--assume-clean"]);
    let all = refs(&members);
    let offset =
        lab.ok(&["examine", "--json", "d2"]).json()["members"][0]["superblocks"][0]["data_offset"].as_u64().unwrap() * 512;
    // Two places of a page and one that lies across two: md counts 8 sectors for each page of a stripe that differs.
    let member = std::fs::File::options().write(true).open(lab.path("d2")).unwrap();
    for (at, len) in [(0, 10), (65536 + 512, 512), (MIB - 3, 6)] {
        member.write_all_at(&vec![0xa5; len], offset + at).unwrap();
    }
    let check = lab.run(&[&["check", "--json"], &all[..]].concat()).expect(3).json();
    assert_eq!(check["mismatch_sectors"], 8 * 4);
    let text = lab.run(&[&["repair"], &all[..]].concat()).expect(3).stdout;
    assert!(text.contains("mismatch_cnt 32"), "{text}");
    let again = lab.ok(&[&["check", "--json"], &all[..]].concat()).json();
    assert_eq!((&again["mismatch_sectors"], &again["ran"]), (&0.into(), &"check".into()));
}

#[test]
fn resync_does_what_is_due() {
    let lab = Lab::new();
    let mut members = lab.files(3, 8 * MIB);
    for (index, member) in members.iter().enumerate() {
        std::fs::write(lab.path(member), pattern(8 << 20, index as u64 + 1)).unwrap();
    }
    lab.ok(&[&["create", "-l", "5", "--force"], &refs(&members)[..]].concat());
    lab.run(&[&["check"], &refs(&members)[..]].concat()).expect(3);
    let resync = lab.ok(&[&["resync", "--json"], &refs(&members)[..]].concat()).json();
    assert_eq!((&resync["ran"], &resync["complete"], &resync["resync_pending"]), (&"resync".into(), &true.into(), &false.into()));
    lab.ok(&[&["check"], &refs(&members)[..]].concat());
    assert!(lab.ok(&[&["resync"], &refs(&members)[..]].concat()).stdout.contains("nothing to resync"));

    lab.file("spare", 8 * MIB);
    let create = ["create", "-l", "5", "-n", "3", "-x", "1", "--force", "missing"];
    lab.run(&[&create, &refs(&members)[1..], &["spare"]].concat()).expect(3);
    members[0] = "spare".to_owned();
    let recovered = lab.ok(&[&["resync", "--json"], &refs(&members)[..]].concat()).json();
    assert_eq!((&recovered["ran"], &recovered["degraded"]), (&"recovery".into(), &0.into()));
    lab.ok(&[&["check"], &refs(&members)[..]].concat());
}

#[test]
fn blocks_of_4096_bytes_are_carried_through() {
    let lab = Lab::new();
    let create = ["create", "-l", "5", "--member-block-size", "4096", "--member-size", "8M", "--assume-clean", "a", "b", "c"];
    lab.ok(&create);
    std::fs::write(lab.path("in"), pattern(100_001, 4)).unwrap();
    let blocks = ["--member-block-size", "4096", "a", "b", "c"];
    lab.ok(&[&["import", "-i", "in", "--offset", "513"], &blocks[..]].concat());
    lab.ok(&[&["export", "-o", "out", "--offset", "513", "--length", "100001"], &blocks[..]].concat());
    assert!(std::fs::read(lab.path("out")).unwrap() == pattern(100_001, 4));
    lab.ok(&[&["check"], &blocks[..]].concat());
}

#[test]
fn write_mostly_is_for_those_that_come_after_it() {
    let lab = Lab::new();
    lab.files(3, 4 * MIB);
    lab.ok(&["create", "-l", "1", "d0", "--write-mostly", "d1", "d2"]);
    let flags = |member: &str| lab.ok(&["examine", "--json", member]).json()["members"][0]["superblocks"][0]["devflags"].clone();
    assert_eq!([flags("d0"), flags("d1"), flags("d2")], [0, 1, 1]);
    lab.run(&["create", "-l", "1", "--force", "d0", "d1", "d2", "--write-mostly"]).expect(2);
}
