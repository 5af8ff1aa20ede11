//! What people use, against a served array: also while members fail and recovery runs.

use std::process::{Command, Stdio};

use uraid_referee::require_programs;

use crate::lab::{Lab, Server, eventually, may_mount, pattern, program, skip};

const MEMBER: u64 = 24 << 20;
const RAID6: &[&str] = &["--level=6", "--chunk=64K"];

/// Writes a pattern through NBD, and gives the file that holds it.
fn fill(lab: &Lab, server: &Server<'_>, seed: u64) -> String {
    let size = server.report["array"]["size_bytes"].as_u64().unwrap();
    std::fs::write(lab.path("image"), pattern(size as usize, seed)).unwrap();
    let image = lab.text("image");
    program("nbdcopy", &["--flush", &image, &server.uri("nbd")]).expect(0);
    image
}

fn compare(image: &str, server: &Server<'_>) {
    program("qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &server.uri("nbd")]).expect(0);
}

#[test]
fn nbdinfo_sees_the_array() {
    if !require_programs(&["nbdinfo"]) {
        return;
    }
    let lab = Lab::new();
    let members = lab.array(5, MEMBER, &["--level=5", "--chunk=64K", "--size=16M", "--name=store"]);
    let server = lab.assemble(&members, &["--nbd=unix:nbd"]);
    let info = program("nbdinfo", &["--json", &server.uri("nbd")]).expect(0).json();
    let export = &info["exports"][0];
    assert_eq!(export["export-name"], "store");
    assert_eq!(export["export-size"], 4 * (16 << 20), "four members' worth of data");
    assert_eq!(export["is_read_only"], false);
    assert_eq!(export["block_size_preferred"], 4 * (64 << 10), "a stripe");
    assert_eq!(server.stop().0, 0);
}

#[test]
fn every_level_holds_what_it_was_given() {
    if !require_programs(&["nbdcopy", "qemu-img"]) {
        return;
    }
    for level in ["linear", "0", "1", "4", "5", "6", "10"] {
        let lab = Lab::new();
        let mut members = lab.array(4, MEMBER, &["--level", level, "--metadata=1.0"]);
        let server = lab.assemble(&members, &["--nbd=127.0.0.1:0", "--nbd=unix:nbd"]);
        let size = server.report["array"]["size_bytes"].as_u64().unwrap();
        std::fs::write(lab.path("image"), pattern(size as usize, 3)).unwrap();
        let uri = format!("nbd://{}/{}", server.report["nbd"][0].as_str().unwrap(), server.name());
        program("nbdcopy", &["--flush", &lab.text("image"), &uri]).expect(0);
        if matches!(level, "linear" | "0") {
            let said = lab.run(&["fail", "md0", "d1"]).expect(1).stderr;
            assert!(said.contains("no redundancy"), "{said}");
        } else {
            assert_eq!(lab.check("md0"), 0, "level {level}");
        }
        assert_eq!(server.stop().0, 0);
        members.reverse();
        let server = lab.assemble(&members, &["--nbd=unix:nbd", "--read-only"]);
        compare(&lab.text("image"), &server);
        assert_eq!(server.stop().0, 0);
    }
}

#[test]
fn contents_outlive_two_members_and_their_recovery() {
    if !require_programs(&["nbdcopy", "qemu-img"]) {
        return;
    }
    let lab = Lab::new();
    let members = lab.array(6, MEMBER, RAID6);
    let server = lab.assemble(&members, &["--nbd=unix:nbd"]);
    let image = fill(&lab, &server, 1);
    for lost in ["d1", "d4"] {
        lab.ok(&["fail", "md0", lost]);
        compare(&image, &server);
    }
    let image = fill(&lab, &server, 2);
    for (lost, spare) in [("d1", "s1"), ("d4", "s4")] {
        lab.ok(&["remove", "md0", lost]);
        lab.file(spare, MEMBER);
        lab.ok(&["add", "md0", spare]);
    }
    // The recovery is under way, or has ended already; the contents are the same either way.
    compare(&image, &server);
    let recovered = lab.wait_idle("md0");
    assert_eq!((&recovered["up"], &recovered["degraded"]), (&"UUUUUU".into(), &0.into()));
    compare(&image, &server);
    assert_eq!(lab.check("md0"), 0);
    assert_eq!(server.stop().0, 0);

    // The same after a restart, in another order, with the new members and without two of the old ones.
    let rest = ["s4", "d5", "s1", "d2"].map(String::from);
    let server = lab.assemble(&rest, &["--nbd=unix:nbd", "--run"]);
    compare(&image, &server);
    assert_eq!(server.stop().0, 3, "it ends degraded");
}

#[test]
fn fio_verifies_while_members_fail_and_recover() {
    if !require_programs(&["fio"]) {
        return;
    }
    if program("fio", &["--enghelp=nbd"]).code != 0 {
        return skip("fio has no nbd engine");
    }
    for (options, count) in [(RAID6, 6), (&["--level=10", "--chunk=64K", "--bitmap=internal"], 4), (&["--level=1"], 3)] {
        let lab = Lab::new();
        let members = lab.array(count, MEMBER, options);
        let spare = lab.file("spare", MEMBER);
        let server = lab.assemble(&members, &["--nbd=unix:nbd"]);
        let job = [
            "--name=verify",
            "--ioengine=nbd",
            &format!("--uri={}", server.uri("nbd")),
            "--rw=randrw",
            "--bsrange=512-128k",
            "--bs_unaligned=0",
            "--iodepth=16",
            "--size=20m",
            "--io_size=60m",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--verify_backlog=200",
            "--fsync=50",
        ];
        let fio = Command::new("fio").args(job).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        lab.ok(&["fail", "md0", "d1"]);
        lab.ok(&["remove", "md0", "d1"]);
        lab.ok(&["add", "md0", &spare]);
        eventually("the spare is full", || lab.status("md0")["degraded"] == 0);
        lab.ok(&["fail", "md0", "d0"]);
        let ended = fio.wait_with_output().unwrap();
        assert!(ended.status.success(), "{options:?}: {}", String::from_utf8_lossy(&ended.stderr));
        lab.ok(&["remove", "md0", "d0"]);
        lab.ok(&["re-add", "md0", "d0"]);
        eventually("the old member is back", || lab.status("md0")["degraded"] == 0);
        assert_eq!(lab.check("md0"), 0, "{options:?}");
        assert_eq!(server.stop().0, 0);
    }
}

#[test]
fn qemu_io_writes_zeroes_discards_and_flushes() {
    if !require_programs(&["qemu-io"]) {
        return;
    }
    let lab = Lab::new();
    let members = lab.array(4, MEMBER, RAID6);
    let server = lab.assemble(&members, &["--nbd=unix:nbd"]);
    let steps = [
        "write -P 0x5a 1000 3000",
        "read -P 0x5a 1000 3000",
        "write -f -P 0x11 64k 1M",
        "write -z 100k 20k",
        "write -z -u 300k 700k",
        "read -P 0 100k 20k",
        "read -P 0 300k 700k",
        "write -P 0x22 8M 32M",
        "write -z 9M 30M",
        "read -P 0x22 8M 1M",
        "read -P 0 9M 30M",
        "read -P 0x22 39M 1M",
        "discard 4M 4M",
        "flush",
        "read -P 0x11 64k 36k",
        "read -P 0x11 120k 180k",
    ];
    let uri = server.uri("nbd");
    let mut arguments = vec!["-f", "raw"];
    steps.iter().for_each(|step| arguments.extend(["-c", step]));
    arguments.push(&uri);
    let said = program("qemu-io", &arguments).expect(0);
    assert!(!said.stdout.contains("failed") && !said.stdout.contains("rror"), "{}", said.stdout);
    assert_eq!(lab.check("md0"), 0);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn ext4_lives_on_the_fuse_file_while_members_fail() {
    if !require_programs(&["losetup", "mkfs.ext4", "mount", "umount", "e2fsck"]) || !may_mount() {
        return;
    }
    let lab = Lab::new();
    let members = lab.array(5, MEMBER, &["--level=6", "--chunk=64K", "--bitmap=internal"]);
    let spare = lab.file("spare", MEMBER);
    let server = lab.assemble(&members, &["--fuse=array"]);
    let device = program("losetup", &["--find", "--show", &lab.text("array")]).expect(0).stdout.trim().to_owned();
    program("mkfs.ext4", &["-q", &device]).expect(0);
    std::fs::create_dir(lab.path("fs")).unwrap();
    program("mount", &[&device, &lab.text("fs")]).expect(0);
    let write = |names: std::ops::Range<u64>| {
        for name in names {
            std::fs::write(lab.path("fs").join(name.to_string()), pattern(300_000, name)).unwrap();
        }
    };
    write(0..30);
    lab.ok(&["fail", "md0", "d0"]);
    write(30..60);
    lab.ok(&["add", "md0", &spare]);
    write(60..90);
    let busy = lab.run(&["stop", "md0"]).expect(1);
    assert!(busy.stderr.contains("in use") && busy.stderr.contains("array"), "{}", busy.stderr);
    program("umount", &[&lab.text("fs")]).expect(0);
    program("e2fsck", &["-fn", &device]).expect(0);
    program("mount", &["-o", "ro", &device, &lab.text("fs")]).expect(0);
    for name in 0..90 {
        assert!(std::fs::read(lab.path("fs").join(name.to_string())).unwrap() == pattern(300_000, name), "file {name}");
    }
    program("umount", &[&lab.text("fs")]).expect(0);
    program("losetup", &["--detach", &device]).expect(0);
    assert_eq!(lab.wait_idle("md0")["up"], "UUUUU");
    assert_eq!(lab.check("md0"), 0);
    // The kernel lets go of the file a moment after it has detached the device.
    eventually("it can be stopped", || lab.run(&["stop", "md0"]).code == 0);
    assert!(!lab.path("array").exists());
    drop(server);
}
