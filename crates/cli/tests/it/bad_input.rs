//! Bad input: a clear error that names the member, exit status 1 or 2, and nothing written.

use std::os::unix::fs::symlink;

use uraid_referee::require_programs;

use crate::lab::{Ended, Lab, may_mount, pattern, program, refs};
use crate::superblock::{
    self, CHECKSUM, DATA_OFFSET, DEV_ROLES, DEVICE_UUID, EVENTS, FEATURE_MAP, MAGIC, MAJOR_VERSION, MAX_DEV,
};

const MEMBER: u64 = 8 << 20;

/// Runs the command, which has to fail with `code`, say all of `words`, and leave every file of the folder as it was.
#[track_caller]
fn refused(lab: &Lab, args: &[&str], code: i32, words: &[&str]) -> Ended {
    let before = everything(lab);
    let ended = lab.run(args).expect(code);
    for word in words {
        assert!(ended.stderr.contains(word), "{args:?} does not say '{word}': {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    assert!(everything(lab) == before, "{args:?} has written something");
    ended
}

/// Every regular file of the folder with its bytes, its run directory aside.
fn everything(lab: &Lab) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(lab.path("")).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut all: Vec<_> =
        files.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect();
    all.sort();
    all
}

/// A RAID5 of `d0`, `d1` and `d2` in sync, `extra` beside it.
fn raid5() -> (Lab, Vec<String>) {
    let lab = Lab::new();
    let members = lab.array(3, MEMBER, &["--level=5", "--chunk=64K", "--assume-clean"]);
    (lab, members)
}

/// Assembling `members` fails.
#[track_caller]
fn not_assembled(lab: &Lab, members: &[&str], code: i32, words: &[&str]) -> Ended {
    refused(lab, &[&["assemble"], members].concat(), code, words)
}

#[test]
fn too_few_or_too_many_members() {
    let lab = Lab::new();
    let all = lab.files(5, MEMBER);
    refused(&lab, &["create", "--level=5", "d0"], 2, &["raid5"]);
    refused(&lab, &["create", "--level=6", "d0", "d1", "d2"], 2, &["raid6", "4"]);
    refused(&lab, &["create", "--level=5", "--raid-devices=4", "d0", "d1", "d2"], 2, &["4", "3"]);
    refused(&lab, &[&["create", "--level=5", "--raid-devices=3"], &refs(&all)[..]].concat(), 2, &["3", "5"]);
    refused(&lab, &["create", "--level=5"], 2, &["MEMBER"]);
    refused(&lab, &["assemble"], 2, &["MEMBER"]);
}

#[test]
fn too_few_members_of_an_array() {
    let (lab, _) = raid5();
    not_assembled(&lab, &["d0"], 1, &["not enough", "slot 1", "slot 2"]);
    not_assembled(&lab, &["d0", "--run", "--force"], 1, &["not enough"]);
    not_assembled(&lab, &["d0", "d2"], 1, &["2 of 3", "--run"]);
}

#[test]
fn a_member_that_is_too_small() {
    let lab = Lab::new();
    lab.files(3, MEMBER);
    lab.file("small", 64 << 10);
    refused(&lab, &["create", "--level=5", "d0", "small", "d2"], 2, &["small"]);
    let (lab, _) = raid5();
    // Cut off behind the superblock: its data does not lie within it any more.
    std::fs::File::options().write(true).open(lab.path("d1")).unwrap().set_len(4 << 20).unwrap();
    not_assembled(&lab, &["d0", "d1", "d2"], 1, &["d1"]);
}

#[test]
fn a_member_of_another_array() {
    let (lab, _) = raid5();
    lab.file("e0", MEMBER);
    lab.file("e1", MEMBER);
    lab.ok(&["create", "--level=1", "--assume-clean", "e0", "e1"]);
    not_assembled(&lab, &["d0", "d1", "d2", "e0"], 1, &["more than one array", "e0", "--uuid"]);
    refused(&lab, &["create", "--level=1", "e0", "d0"], 1, &["e0", "d0", "--force"]);
}

#[test]
fn a_file_that_is_no_member() {
    let (lab, _) = raid5();
    std::fs::write(lab.path("photo"), pattern(1 << 20, 1)).unwrap();
    not_assembled(&lab, &["d0", "d1", "d2", "photo"], 1, &["photo", "no md superblock"]);
    not_assembled(&lab, &["photo"], 1, &["photo"]);
    not_assembled(&lab, &["d0", "d1", "absent"], 1, &["absent", "No such file"]);
    not_assembled(&lab, &["d0", "d1", "/dev/null"], 1, &["/dev/null", "character device"]);
}

#[test]
fn a_member_given_twice() {
    let (lab, _) = raid5();
    symlink(lab.path("d0"), lab.path("link")).unwrap();
    std::fs::hard_link(lab.path("d1"), lab.path("hard")).unwrap();
    not_assembled(&lab, &["d0", "d1", "d0"], 2, &["d0", "twice"]);
    not_assembled(&lab, &["d0", "d1", "link"], 2, &["d0", "link"]);
    not_assembled(&lab, &["d0", "d1", "hard"], 2, &["d1", "hard"]);
    let lab = Lab::new();
    lab.files(2, MEMBER);
    symlink(lab.path("d0"), lab.path("link")).unwrap();
    refused(&lab, &["create", "--level=5", "d0", "d1", "d0"], 2, &["d0", "twice"]);
    refused(&lab, &["create", "--level=5", "d0", "d1", "link"], 2, &["d0", "link"]);
}

#[test]
fn a_directory() {
    let (lab, _) = raid5();
    std::fs::create_dir(lab.path("folder")).unwrap();
    not_assembled(&lab, &["d0", "d1", "folder"], 1, &["folder", "directory"]);
    refused(&lab, &["create", "--level=1", "--force", "d0", "folder"], 1, &["folder", "directory"]);
    refused(&lab, &["check", "folder"], 1, &["folder", "directory"]);
    for report in ["examine", "detail"] {
        let ended = refused(&lab, &[report, "folder"], 1, &[]);
        assert!((ended.stdout + &ended.stderr).contains("folder: cannot open"), "{report} says it");
    }
}

#[test]
fn a_member_in_use_by_uraid() {
    let (lab, members) = raid5();
    let server = lab.assemble(&members, &["--read-only", "--name=first"]);
    not_assembled(&lab, &["d0", "d1", "d2"], 1, &["d0", "d1", "d2", "in use", "running array first"]);
    refused(&lab, &["create", "--level=1", "--force", "d0", "d1"], 1, &["d0", "in use"]);
    refused(&lab, &["repair", "d0", "d1", "d2"], 1, &["d0", "in use"]);
    // Looking is always allowed.
    lab.ok(&["examine", "d0"]);
    server.stop();
}

#[test]
fn a_member_in_use_by_the_kernel() {
    if !require_programs(&["losetup", "mkfs.ext4", "mount", "umount"]) || !may_mount() {
        return;
    }
    let lab = Lab::new();
    lab.files(2, MEMBER);
    let device = program("losetup", &["--find", "--show", &lab.text("d0")]).expect(0).stdout.trim().to_owned();
    program("mkfs.ext4", &["-q", &device]).expect(0);
    std::fs::create_dir(lab.path("fs")).unwrap();
    program("mount", &[&device, &lab.text("fs")]).expect(0);
    let ended = [lab.run(&["create", "--level=1", "--force", &device, "d1"]), lab.run(&["assemble", &device, "d1"])];
    program("umount", &[&lab.text("fs")]).expect(0);
    program("losetup", &["--detach", &device]).expect(0);
    for ended in ended {
        let ended = ended.expect(1);
        assert!(ended.stderr.contains(&device) && ended.stderr.contains("in use by the kernel"), "{}", ended.stderr);
    }
}

/// What it is; which field, its new value, with a right checksum or not; the words that name it.
type Damage<'a> = (&'a str, usize, &'a [u8], bool, &'a [&'a str]);

#[test]
fn superblocks_that_cannot_be() {
    let cases: [Damage; 8] = [
        ("a bad checksum", CHECKSUM, &[1, 2, 3, 4], false, &["sb_csum"]),
        ("a bad magic", MAGIC, &[0; 4], true, &["no md superblock"]),
        ("a bad version", MAJOR_VERSION, &7u32.to_le_bytes(), true, &["version", "7"]),
        ("an unknown feature", FEATURE_MAP, &(1u32 << 29).to_le_bytes(), true, &["feature"]),
        ("an offset past the end", DATA_OFFSET, &(1u64 << 40).to_le_bytes(), true, &["data_offset"]),
        ("an offset that wraps", DATA_OFFSET, &u64::MAX.to_le_bytes(), true, &["data_offset"]),
        ("a role out of range", DEV_ROLES + 2, &77u16.to_le_bytes(), true, &["dev_roles", "0x4d"]),
        ("more roles than there can be", MAX_DEV, &u32::MAX.to_le_bytes(), true, &["max_dev"]),
    ];
    for (what, field, value, right_checksum, words) in cases {
        let (lab, _) = raid5();
        let change = if right_checksum { superblock::set } else { superblock::spoil };
        change(&lab.path("d1"), field, value);
        not_assembled(&lab, &["d0", "d1", "d2"], 1, &[&["d1"], words].concat());
        let examined = lab.run(&["examine", "d1"]);
        assert!(matches!(examined.code, 0 | 1) && !examined.stderr.contains("panicked"), "{what}: {}", examined.stderr);
    }
}

#[test]
fn two_members_claim_one_role() {
    let (lab, _) = raid5();
    std::fs::copy(lab.path("d1"), lab.path("twin")).unwrap();
    superblock::set(&lab.path("twin"), DEVICE_UUID, &[7; 16]);
    not_assembled(&lab, &["d0", "d1", "twin"], 1, &["d1", "twin", "slot 1"]);
}

#[test]
fn events_too_far_apart() {
    let (lab, _) = raid5();
    let events = superblock::get_u64(&lab.path("d0"), EVENTS);
    for member in ["d0", "d2"] {
        superblock::set(&lab.path(member), EVENTS, &(events + 10).to_le_bytes());
    }
    not_assembled(&lab, &["d0", "d1", "d2"], 1, &["d1", &format!("{events} events"), "--run"]);
}

#[test]
fn level_layout_and_chunk_that_do_not_fit() {
    let lab = Lab::new();
    let all = lab.files(4, MEMBER);
    let create = |options: &[&str], words: &[&str]| {
        refused(&lab, &[&["create"], options, &refs(&all)[..]].concat(), 2, words);
    };
    create(&["--level=7"], &["7"]);
    create(&["--level=5", "--layout=n2"], &["n2", "left-symmetric"]);
    create(&["--level=1", "--layout=ls"], &["ls"]);
    create(&["--level=10", "--layout=n5"], &["5"]);
    create(&["--level=5", "--chunk=3K"], &["chunk"]);
    create(&["--level=5", "--chunk=100X"], &["100X"]);
    create(&["--level=0", "--bitmap=internal"], &["bitmap"]);
    create(&["--level=5", "--metadata=3.0"], &["3.0"]);
}

#[test]
fn a_size_that_is_too_big() {
    let lab = Lab::new();
    let all = lab.files(3, MEMBER);
    refused(&lab, &[&["create", "--level=5", "--size=1G"], &refs(&all)[..]].concat(), 2, &["d0"]);
}

#[test]
fn dirty_and_degraded() {
    let lab = Lab::new();
    // Never resynced, as after a crash.
    let members = lab.array(3, MEMBER, &["--level=5", "--chunk=64K"]);
    not_assembled(&lab, &["d0", "d2", "--run"], 1, &["write hole", "--force"]);
    let server = lab.assemble(&[members[0].clone(), members[2].clone()], &["--run", "--force"]);
    assert_eq!(server.report["array"]["up"], "U_U");
    assert_eq!(server.stop().0, 3);
}

#[test]
fn front_ends_that_cannot_be() {
    let (lab, _) = raid5();
    let members = ["d0", "d1", "d2"];
    not_assembled(&lab, &[&members[..], &["--nbd=0.0.0.0:0"]].concat(), 2, &["0.0.0.0", "--nbd-allow-remote"]);
    not_assembled(&lab, &[&members[..], &["--nbd=/tmp/x"]].concat(), 2, &["/tmp/x", "unix:PATH"]);
    not_assembled(&lab, &[&members[..], &["--cache-size=1"]].concat(), 2, &["cache"]);
    std::fs::create_dir(lab.path("folder")).unwrap();
    // What only shows once the array runs ends it again, cleanly.
    let ended = lab.run(&[&["assemble"], &members[..], &["--nbd=unix:nbd", "--fuse=folder"]].concat()).expect(1);
    assert!(ended.stderr.contains("folder"), "{}", ended.stderr);
    assert!(!lab.path("nbd").exists() && !lab.path("run/md0.sock").exists());
    let ended = lab.run(&[&["assemble"], &members[..], &["--nbd=unix:d3/nbd"]].concat()).expect(1);
    assert!(ended.stderr.contains("d3: cannot"), "{}", ended.stderr);
    let server = lab.assemble(&members.map(String::from), &["--nbd=0.0.0.0:0", "--nbd-allow-remote"]);
    assert_eq!(server.report["array"]["resync_pending"], false);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_disk_that_fills_up_in_mid_write() {
    if !require_programs(&["mount", "umount", "qemu-io"]) || !may_mount() {
        return;
    }
    let lab = Lab::new();
    std::fs::create_dir(lab.path("tmp")).unwrap();
    program("mount", &["-t", "tmpfs", "-o", "size=12m", "tmpfs", &lab.text("tmp")]).expect(0);
    let members: Vec<String> = (0..3).map(|index| lab.file(&format!("tmp/d{index}"), MEMBER)).collect();
    lab.ok(&[&["create", "--level=5", "--chunk=64K", "--assume-clean"], &refs(&members)[..]].concat());
    let server = lab.assemble(&members, &["--nbd=unix:nbd"]);
    let uri = server.uri("nbd");
    let small = program("qemu-io", &["-f", "raw", "-c", "write -P 1 0 1M", "-c", "flush", &uri]);
    let full = program("qemu-io", &["-f", "raw", "-c", "write -P 2 1M 13M", "-c", "flush", &uri]);
    let after = program("qemu-io", &["-f", "raw", "-c", "read -P 1 0 1M", &uri]);
    let status = lab.status(server.name());
    let (_, log) = server.stop();
    program("umount", &["-l", &lab.text("tmp")]).expect(0);
    small.expect(0);
    assert!(full.code != 0 || full.stdout.contains("failed"), "{}", full.stdout);
    assert!((full.stdout + &full.stderr).contains("No space left"), "the cause comes through; {log}");
    assert!(after.code == 0 && !after.stdout.contains("failed"), "what was written before is there: {status} {log}");
    assert_eq!(status["up"], "UUU", "a full disk is no failed member: {log}");
}
