//! The layout of `/proc/mdstat` against what Linux 6.1 printed.
//!
//! The captures were taken in user-mode Linux from arrays that mdadm 4.2 made on `/dev/ubda` and its neighbours; work in
//! progress was held with `sync_max`.
#![allow(clippy::unwrap_used, reason = "in a test, what cannot be had ends the test")]

use uraid_report::{
    ArrayStatus, BitmapStatus, MemberState, MemberStatus, RunState, SyncKind, SyncPhase, SyncStatus, json_envelope, mdstat,
};

const CAPTURES: &str = include_str!("../mdstat-linux-6.1.txt");
/// In the order in which that kernel's modules were loaded.
const LEVELS: [&str; 7] = ["linear", "raid0", "raid1", "raid10", "raid6", "raid5", "raid4"];

fn capture(name: &str) -> &'static str {
    let section = CAPTURES.split("#== ").find_map(|s| s.strip_prefix(name)?.strip_prefix('\n'));
    section.unwrap_or_else(|| panic!("no capture {name}"))
}

/// Members written as mdstat does, but with the slot behind the number: `"ubda[0]0"`.
fn members(text: &str) -> Vec<MemberStatus> {
    let one = |word: &str| {
        let (name, rest) = word.split_once('[').unwrap();
        let (number, rest) = rest.split_once(']').unwrap();
        let flag = |f: &str| rest.contains(f);
        let state = match () {
            () if flag("F") => MemberState::Faulty,
            () if flag("S") => MemberState::Spare,
            () if flag("B") => MemberState::Rebuilding,
            () => MemberState::InSync,
        };
        let (write_mostly, replacement, journal) = (flag("W"), flag("R"), flag("J"));
        let slot = rest.chars().next().and_then(|c| c.to_digit(10));
        MemberStatus { name: name.into(), number: number.parse().unwrap(), slot, state, write_mostly, replacement, journal }
    };
    text.split_whitespace().map(one).collect()
}

fn array(level: &str, member_text: &str, blocks_kib: u64, chunk_kib: u64, layout: u32, up: &str) -> ArrayStatus {
    ArrayStatus {
        name: "md0".into(),
        state: RunState::Active,
        level: level.into(),
        members: members(member_text),
        blocks_kib,
        metadata: "1.2".into(),
        chunk_kib,
        layout,
        slots_up: up.chars().map(|c| c == 'U').collect(),
        sync: None,
        bitmap: None,
    }
}

fn running(kind: SyncKind, done_kib: u64, total_kib: u64, finish_s: u64, speed_kib_s: u64) -> Option<SyncStatus> {
    let (done_sectors, total_sectors) = (done_kib * 2, total_kib * 2);
    Some(SyncStatus { kind, phase: SyncPhase::Running, done_sectors, total_sectors, speed_kib_s, finish_s })
}

#[track_caller]
fn agrees(name: &str, arrays: &[ArrayStatus]) {
    assert_eq!(mdstat(&LEVELS, arrays), capture(name), "{name}");
}

const THREE: &str = "ubdc[2]2 ubdb[1]1 ubda[0]0";
const FOUR: &str = "ubdd[3]3 ubdc[2]2 ubdb[1]1 ubda[0]0";
const FIVE: &str = "ubde[4]4 ubdd[3]3 ubdc[2]2 ubdb[1]1 ubda[0]0";

#[test]
fn each_level_and_layout() {
    agrees("none", &[]);
    agrees("raid0", &[array("raid0", FOUR, 159_744, 64, 0, "UUUU")]);
    agrees("linear", &[array("linear", THREE, 119_808, 64, 0, "UUU")]);
    agrees("raid4", &[array("raid4", FOUR, 119_808, 64, 0, "UUUU")]);
    agrees("raid5-right-asymmetric", &[array("raid5", THREE, 79_872, 128, 1, "UUU")]);
    agrees("raid10-n2", &[array("raid10", FIVE, 99_840, 64, 0x102, "UUUUU")]);
    agrees("raid10-o2", &[array("raid10", FIVE, 99_840, 64, 0x10201, "UUUUU")]);
    agrees("raid10-f3", &[array("raid10", FIVE, 66_560, 64, 0x301, "UUUUU")]);
    let seven = "loop0[0]0 loop6[6]6 loop5[5]5 loop4[4]4 loop3[3]3 loop2[2]2 loop1[1]1";
    agrees("raid10-old-far-sets", &[array("raid10", seven, 10_752, 4, 0x2_0201, "UUUUUUU")]);
    agrees("raid10-far-sets", &[array("raid10", seven, 10_752, 4, 0x4_0201, "UUUUUUU")]);
    let old = ArrayStatus { metadata: "0.90".into(), ..array("raid10", FOUR, 81_792, 64, 0x102, "UUUU") };
    agrees("raid10-0.90", &[old]);
    let at_end = ArrayStatus { metadata: "1.0".into(), ..array("raid5", THREE, 81_792, 64, 2, "UUU") };
    agrees("raid5-1.0", &[at_end]);
}

#[test]
fn each_state_of_a_member() {
    agrees("raid1-write-mostly", &[array("raid1", "ubdc[2]WF ubdb[1]1W ubda[0]0", 39_936, 0, 0, "UU")]);
    agrees("raid1-degraded", &[array("raid1", "ubdc[2]WF ubdb[1]WF ubda[0]0", 39_936, 0, 0, "U_")]);
    let faulty = "ubdf[5]5 ubde[4]F ubdd[3]3 ubdc[2]2 ubdb[1]F ubda[0]0";
    agrees("raid6-two-faulty", &[array("raid6", faulty, 155_648, 512, 2, "U_UU_U")]);
    let taken_over = "ubdg[6]1 ubdf[5]5 ubde[4]F ubdd[3]3 ubdc[2]2 ubdb[1]F ubda[0]0";
    agrees("raid6-recovered", &[array("raid6", taken_over, 155_648, 512, 2, "UUUU_U")]);
    let spares = "ubdf[5]S ubde[4]S ubdd[3]3 ubdc[2]2 ubdb[1]1 ubda[0]0";
    agrees("raid6-two-spares", &[array("raid6", spares, 79_872, 64, 2, "UUUU")]);
    agrees("raid10-degraded", &[array("raid10", "ubdd[3]3 ubdc[2]F ubdb[1]1 ubda[0]0", 79_872, 64, 0x102, "UU_U")]);
    agrees("raid5-journal", &[array("raid5", "ubdb[4]2 ubdc[3]1 ubda[1]0 ubde[0]J", 79_872, 64, 2, "UUU")]);
    agrees("raid5-assembled-order", &[array("raid5", "ubda[0]0 ubdc[2]2 ubdb[1]1", 119_808, 64, 2, "UUU_")]);
}

#[test]
fn each_kind_of_work() {
    let rebuilding = "ubdg[6]1B ubdf[5]5 ubde[4]F ubdd[3]3 ubdc[2]2 ubdb[1]F ubda[0]0";
    let sync = running(SyncKind::Recovery, 10_240, 38_912, 2, 10_240);
    agrees("raid6-recovery", &[ArrayStatus { sync, ..array("raid6", rebuilding, 155_648, 512, 2, "U_UU_U") }]);
    let sync = running(SyncKind::Resync, 1152, 39_936, 33, 1152);
    agrees("raid5-resync", &[ArrayStatus { sync, ..array("raid5", THREE, 79_872, 64, 2, "UUU") }]);
    let sync = running(SyncKind::Check, 20_480, 39_936, 0, 20_480);
    agrees("raid6-check", &[ArrayStatus { sync, ..array("raid6", FOUR, 79_872, 64, 2, "UUUU") }]);
    let sync = running(SyncKind::Repair, 25_600, 39_936, 0, 25_600);
    agrees("raid6-repair", &[ArrayStatus { sync, ..array("raid6", FOUR, 79_872, 64, 2, "UUUU") }]);
    let sync = running(SyncKind::Reshape, 2048, 39_936, 18, 2048);
    agrees("raid5-reshape", &[ArrayStatus { sync, ..array("raid5", FOUR, 79_872, 64, 2, "UUUU") }]);
    let replaced = "ubde[4]1BR ubdd[3]3 ubdc[2]2 ubdb[1]1 ubda[0]0";
    let sync = running(SyncKind::Recovery, 8192, 39_936, 3, 8192);
    agrees("raid10-replacement", &[ArrayStatus { sync, ..array("raid10", replaced, 79_872, 64, 0x102, "UUUU") }]);
    let work = |name: &str, member_text| {
        let sync = running(SyncKind::Check, 4096, 19_456, 3, 4096);
        ArrayStatus { name: name.into(), sync, ..array("raid1", member_text, 19_456, 0, 0, "UU") }
    };
    agrees("two-checks", &[work("md2", "loop1[1]1 ubdb[0]0"), work("md1", "loop0[1]1 ubda[0]0")]);
}

#[test]
fn each_state_of_an_array() {
    let read_only = ArrayStatus { state: RunState::ReadOnly, ..array("raid6", FOUR, 79_872, 64, 2, "UUUU") };
    agrees("raid6-readonly", &[read_only]);
    let pending = running(SyncKind::Resync, 0, 39_936, 0, 0).map(|s| SyncStatus { phase: SyncPhase::Pending, ..s });
    let members = "ubda[0]0 ubdc[2]2 ubdb[1]1";
    let waiting = ArrayStatus { state: RunState::AutoReadOnly, sync: pending, ..array("raid5", members, 79_872, 64, 2, "UUU") };
    agrees("raid5-auto-read-only-pending", &[waiting]);
    let parts = ArrayStatus { state: RunState::Inactive, ..array("raid5", "ubdb[1]S ubda[0]S", 79_872, 64, 2, "") };
    agrees("inactive-two", &[parts]);
    let two = [
        ArrayStatus { name: "md5".into(), ..array("raid0", "ubdd[1]1 ubdc[0]0", 77_824, 512, 0, "UU") },
        ArrayStatus { name: "md127".into(), ..array("raid1", "ubdb[1]1 ubda[0]0", 39_936, 0, 0, "UU") },
    ];
    agrees("two", &two);
}

#[test]
fn bitmaps() {
    let bitmap = Some(BitmapStatus { pages_used: 5, pages: 5, chunk_bytes: 4096 });
    let small = ArrayStatus { bitmap, metadata: "1.1".into(), ..array("raid5", THREE, 79_872, 64, 2, "UUU") };
    agrees("raid5-bitmap-clean", &[small]);
    let bitmap = Some(BitmapStatus { pages_used: 1, pages: 1, chunk_bytes: 64 << 20 });
    agrees("bitmap-64M", &[ArrayStatus { bitmap, ..array("raid1", "loop3[1]1 loop2[0]0", 306_176, 0, 0, "UU") }]);
}

#[test]
fn every_capture_is_used() {
    let here = include_str!("main.rs");
    for name in CAPTURES.lines().filter_map(|line| line.strip_prefix("#== ")) {
        assert!(here.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn a_status_survives_json() {
    let sync = running(SyncKind::Recovery, 10, 20, 30, 40);
    let bitmap = Some(BitmapStatus { pages_used: 1, pages: 2, chunk_bytes: 4096 });
    let status = ArrayStatus { sync, bitmap, ..array("raid6", "ubdb[1]1B ubdc[3]S ubda[0]0", 64, 64, 2, "U_UU") };
    let text = json_envelope("status", &status).unwrap();
    assert_eq!(serde_json::from_str::<ArrayStatus>(&text).unwrap(), status);
    assert!(text.contains("\"state\": \"in-sync\"") && text.contains("\"report\": \"status\""), "{text}");
    assert!(status.is_degraded() && status.in_sync() == 3 && status.raid_disks() == 4);
}
