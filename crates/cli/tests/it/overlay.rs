//! `--overlay`: whatever is tried leaves the members as they are until it is committed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::lab::{Lab, eventually, pattern, refs};
use crate::nbd::Nbd;
use crate::superblock;

const MIB: u64 = 1 << 20;
/// Where the members' parity and data are spoilt, from the start of their data.
const SPOILT: u64 = MIB + 4096;

/// A RAID5 of four members that holds a pattern, with a block of the last member spoilt.
fn spoilt(lab: &Lab, member_bytes: u64) -> Vec<String> {
    let members = lab.array(4, member_bytes, &["--level=5", "--chunk=64", "--assume-clean"]);
    let report = lab.ok(&[&["detail", "--json"], &refs(&members)[..]].concat()).json();
    let size_bytes = report["arrays"][0]["size_bytes"].as_u64().unwrap();
    fs::write(lab.path("input"), pattern(size_bytes as usize, 7)).unwrap();
    lab.ok(&[&["import", "--input=input"], &refs(&members)[..]].concat());
    let data = superblock::get_u64(&lab.path(&members[3]), superblock::DATA_OFFSET) * 512;
    let last = fs::File::options().write(true).open(lab.path(&members[3])).unwrap();
    last.write_all_at(&pattern(4096, 8), data + SPOILT).unwrap();
    members
}

/// Where data starts, the same on all members.
fn data_byte(lab: &Lab, members: &[String]) -> usize {
    superblock::get_u64(&lab.path(&members[0]), superblock::DATA_OFFSET) as usize * 512
}

fn with<'a>(args: &[&'a str], members: &'a [String]) -> Vec<&'a str> {
    [args, &refs(members)].concat()
}

fn exported(lab: &Lab, options: &[&str], members: &[String]) -> Vec<u8> {
    lab.ok(&with(&[&["export", "--output=exported"], options].concat(), members));
    fs::read(lab.path("exported")).unwrap()
}

#[test]
fn a_repair_is_tried_then_committed_as_if_it_had_been_done_directly() {
    let lab = Lab::new();
    let members = spoilt(&lab, 16 * MIB);
    let before = lab.bytes(&members);
    let direct: Vec<String> = members.iter().map(|name| format!("direct.{name}")).collect();
    for (from, to) in members.iter().zip(&direct) {
        fs::copy(lab.path(from), lab.path(to)).unwrap();
    }
    assert_eq!(lab.run(&with(&["check", "--json"], &members)).expect(3).json()["mismatch_sectors"], 8);

    let tried = lab.run(&with(&["repair", "--overlay=tried", "--json"], &members)).expect(3);
    assert_eq!(tried.json()["mismatch_sectors"], 8, "a page was repaired");
    assert!(lab.bytes(&members) == before, "the repair has reached a member");
    assert_eq!(lab.ok(&with(&["check", "--overlay=tried", "--json"], &members)).json()["mismatch_sectors"], 0);
    lab.run(&with(&["check"], &members)).expect(3);

    let plan = lab.ok(&["overlay", "commit", "tried", "--dry-run", "--json"]).json();
    assert_eq!((&plan["done"], plan["overlays"].as_array().unwrap().len()), (&"planned".into(), 4));
    assert!(lab.bytes(&members) == before);
    let list = lab.ok(&["overlay", "list", "tried", "--json"]).json();
    assert_eq!(list["overlays"], plan["overlays"]);
    let of_last = list["overlays"].as_array().unwrap().iter().find(|entry| entry["member"] == lab.text(&members[3])).unwrap();
    assert_eq!(of_last["state"], "open");
    // A block was spoilt; its parity or itself was written, and superblocks.
    assert!(of_last["bytes"].as_u64().unwrap() >= 4096, "{of_last}");

    let committed = lab.ok(&["overlay", "commit", "tried"]);
    assert!(committed.stderr.contains(&lab.text(&members[0])), "what is written is said first: {}", committed.stderr);
    assert_eq!(lab.ok(&with(&["check", "--json"], &members)).json()["mismatch_sectors"], 0);
    lab.run(&with(&["repair"], &direct)).expect(3);
    let data = data_byte(&lab, &members);
    for (committed, direct) in lab.bytes(&members).iter().zip(lab.bytes(&direct)) {
        assert!(committed[data..] == direct[data..], "a commit and a repair have left different data");
    }
    assert_eq!(fs::read_dir(lab.path("tried")).unwrap().count(), 0);
    lab.run(&["overlay", "commit", "tried"]).expect(1);
}

#[test]
fn an_overlay_is_gone_on_with_and_discarded() {
    let lab = Lab::new();
    let members = spoilt(&lab, 16 * MIB);
    let before = lab.bytes(&members);
    fs::write(lab.path("news"), pattern(300_000, 9)).unwrap();
    // What only looks makes no overlay.
    exported(&lab, &["--overlay=o"], &members);
    assert!(!lab.path("o").exists());
    lab.ok(&with(&["import", "--overlay=o", "--input=news", "--offset=5000"], &members));
    lab.ok(&with(&["import", "--overlay=o", "--input=news", "--offset=1M"], &members));
    let mut expected = exported(&lab, &[], &members);
    for at in [5000, MIB as usize] {
        expected[at..at + 300_000].copy_from_slice(&pattern(300_000, 9));
    }
    assert!(exported(&lab, &["--overlay=o"], &members) == expected);
    assert!(lab.bytes(&members) == before);
    let discarded = lab.ok(&["overlay", "discard", "o", "--json"]).json();
    assert_eq!((&discarded["done"], discarded["overlays"].as_array().unwrap().len()), (&"discarded".into(), 4));
    assert!(lab.bytes(&members) == before && exported(&lab, &["--overlay=o"], &members) != expected);
}

#[test]
fn a_running_array_writes_to_its_overlay_only() {
    let lab = Lab::new();
    let members = spoilt(&lab, 16 * MIB);
    let spare = lab.file("spare", 16 * MIB);
    let all: Vec<String> = members.iter().cloned().chain([spare]).collect();
    let before = lab.bytes(&all);
    let server = lab.assemble(&members, &["--name=tried", "--overlay=o", &format!("--nbd=unix:{}", lab.text("socket"))]);
    let mut client = Nbd::connect(&lab.path("socket")).unwrap();
    client.send_write(1, MIB, &pattern(100 << 10, 3)).unwrap();
    assert_eq!(client.reply().unwrap(), 1);
    // Its files are in use.
    let busy = lab.run(&["overlay", "discard", "o"]).expect(1);
    assert!(busy.stderr.contains("uses this overlay"), "{}", busy.stderr);
    lab.ok(&["fail", "tried", &members[1]]);
    lab.ok(&["remove", "tried", &members[1]]);
    lab.ok(&["add", "tried", "spare"]);
    let status = lab.wait_idle("tried");
    assert_eq!(status["degraded"], 0, "{status}");
    assert_eq!(server.stop().0, 0);
    assert!(lab.bytes(&all) == before, "a member was written");
    let now: Vec<String> = [&all[..1], &all[2..]].concat();
    let contents = exported(&lab, &["--overlay=o"], &now);
    assert!(contents[MIB as usize..][..100 << 10] == pattern(100 << 10, 3));
    lab.ok(&["overlay", "commit", "o"]);
    assert!(exported(&lab, &[], &now) == contents);
}

#[test]
fn members_that_have_changed_since_are_not_written() {
    let lab = Lab::new();
    let members = spoilt(&lab, 16 * MIB);
    fs::write(lab.path("news"), pattern(4096, 9)).unwrap();
    lab.ok(&with(&["import", "--overlay=o", "--input=news"], &members));
    lab.ok(&with(&["import", "--input=news", "--offset=2M"], &members));
    let now = lab.bytes(&members);
    let refused = lab.run(&["overlay", "commit", "o"]).expect(1);
    assert!(refused.stderr.contains("its superblock at byte 4096 has changed"), "{}", refused.stderr);
    let refused = lab.run(&with(&["import", "--overlay=o", "--input=news"], &members)).expect(1);
    assert!(refused.stderr.contains("overlay discard"), "{}", refused.stderr);
    assert!(lab.bytes(&members) == now);
    // One that is torn is said to be, and can go.
    let file = overlays(&lab).remove(0);
    fs::File::options().write(true).open(&file).unwrap().write_all_at(&[0x55; 100], 4200).unwrap();
    let list = lab.run(&["overlay", "list", "o"]).expect(1);
    assert!(list.stdout.contains("map is torn"), "{}", list.stdout);
    lab.run(&["overlay", "commit", "o", "--force"]).expect(1);
    lab.ok(&["overlay", "discard", "o"]);
    assert!(lab.bytes(&members) == now);
}

fn overlays(lab: &Lab) -> Vec<PathBuf> {
    let Ok(list) = fs::read_dir(lab.path("o")) else { return Vec::new() };
    list.map(|entry| entry.unwrap().path()).collect()
}

/// Does any file say that its member is being written?
fn is_committing(lab: &Lab) -> bool {
    let state = |path: PathBuf| {
        let mut word = [0; 4];
        fs::File::open(path).and_then(|file| file.read_exact_at(&mut word, 20)).is_ok() && word[0] == 1
    };
    overlays(lab).into_iter().any(state)
}

#[test]
fn a_commit_that_is_killed_is_gone_on_with() {
    const TRIES: usize = 20;
    let lab = Lab::new();
    let members = spoilt(&lab, 64 * MIB);
    let mut caught = 0;
    for round in 0..TRIES {
        let contents = pattern(150 << 20, 100 + round as u64);
        fs::write(lab.path("news"), &contents).unwrap();
        lab.ok(&with(&["import", "--overlay=o", "--input=news"], &members));
        let mut commit = lab.command(&["overlay", "commit", "o"]).spawn().unwrap();
        eventually("the commit has begun, or is done", || is_committing(&lab) || overlays(&lab).is_empty());
        commit.kill().unwrap();
        commit.wait().unwrap();
        if is_committing(&lab) {
            caught += 1;
            // Neither forgotten nor built upon.
            let refused = lab.run(&["overlay", "discard", "o"]).expect(1);
            assert!(refused.stderr.contains("commit it to the end"), "{}", refused.stderr);
            let refused = lab.run(&with(&["import", "--overlay=o", "--input=news"], &members)).expect(1);
            assert!(refused.stderr.contains("half committed"), "{}", refused.stderr);
        }
        if !overlays(&lab).is_empty() {
            lab.ok(&["overlay", "commit", "o"]);
        }
        assert!(exported(&lab, &[], &members)[..contents.len()] == contents);
        if caught == 2 {
            return;
        }
    }
    panic!("of {TRIES} commits {caught} were caught at work");
}
