//! A running array: its name, its status, its members, its end.

use std::io::{Read, Seek, SeekFrom, Write};

use serde_json::json;
use uraid_referee::require_programs;

use crate::lab::{Lab, eventually, may_mount, pattern, program};
use crate::nbd::Nbd;

const MEMBER: u64 = 16 << 20;

/// mdadm's word for the state in a member's superblock.
fn state_by_mdadm(lab: &Lab, member: &str) -> String {
    let said = program("mdadm", &["--examine", &lab.text(member)]).expect(0).stdout;
    let line = said.lines().find(|line| line.trim_start().starts_with("State :")).unwrap();
    line.split(':').nth(1).unwrap().trim().to_owned()
}

#[test]
fn status_is_laid_out_as_proc_mdstat() {
    let lab = Lab::new();
    let members = lab.array(4, MEMBER, &["--level=6", "--chunk=64K", "--size=8M", "--assume-clean", "--name=home"]);
    let none = lab.ok(&["status"]).stdout;
    assert_eq!(none.lines().last(), Some("unused devices: <none>"));
    let server = lab.assemble(&members, &[]);
    let expected = "home : active raid6 d0[0] d1[1] d2[2] d3[3]\n      \
                    16384 blocks super 1.2 level 6, 64k chunk, algorithm 2 [4/4] [UUUU]\n      \n";
    let said = lab.ok(&["status"]).stdout;
    assert!(said.contains(expected), "{said}");
    lab.ok(&["fail", "home", "d2"]);
    let said = lab.run(&["status", "home"]).expect(3).stdout;
    assert!(said.contains("home : active raid6 d0[0] d1[1] d2[2](F) d3[3]\n"), "{said}");
    assert!(said.contains(" [4/3] [UU_U]\n"), "{said}");
    let report = lab.run(&["status", "--json"]).expect(3).json();
    assert_eq!((&report["report"], &report["schema"]), (&"status".into(), &1.into()));
    let array = &report["arrays"][0];
    assert_eq!(array["slots_up"], json!([true, true, false, true]));
    assert_eq!((&array["blocks_kib"], &array["pid"]), (&16384.into(), &server.pid().into()));
    assert_eq!(server.stop().0, 3);
    let gone = lab.run(&["status", "home"]).expect(1).stderr;
    assert!(gone.contains("home: no such array is running"), "{gone}");
}

#[test]
fn watching_ends_with_the_last_array() {
    let lab = Lab::new();
    let members = lab.array(2, MEMBER, &["--level=1", "--assume-clean"]);
    let server = lab.assemble(&members, &[]);
    let watch = lab.command(&["status", "--watch"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    assert_eq!(server.stop().0, 0);
    let said = watch.wait_with_output().unwrap();
    assert!(said.status.success());
    assert!(!String::from_utf8_lossy(&said.stdout).contains('\x1b'), "no control characters but on a terminal");
}

#[test]
fn members_are_named_by_any_path_that_leads_to_them() {
    let lab = Lab::new();
    let members = lab.array(4, MEMBER, &["--level=6", "--assume-clean"]);
    let other = lab.file("other", MEMBER);
    std::os::unix::fs::symlink(lab.path("d1"), lab.path("link")).unwrap();
    let server = lab.assemble(&members, &[]);
    let refused = |args: &[&str], words: &[&str]| {
        let said = lab.run(args).expect(1).stderr;
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
    };
    refused(&["fail", "md0", &other], &["other", "not a member"]);
    refused(&["fail", "md9", "d1"], &["md9", "no such array", "md0"]);
    refused(&["remove", "md0", "d1"], &["d1", "still in use"]);
    refused(&["add", "md0", "./d1"], &["d1", "already a member"]);
    lab.ok(&["fail", "md0", "./d0"]);
    lab.ok(&["fail", "md0", "link"]);
    refused(&["fail", "md0", &lab.text("d2")], &["d2", "cannot do without"]);
    refused(&["add", "md0", "d1"], &["d1", "already a member", "'remove' it first"]);
    lab.ok(&["remove", "md0", &lab.text("d0"), "d1"]);
    assert_eq!(lab.status("md0")["members"].as_array().unwrap().len(), 2);
    refused(&["add", "md0", "missing-file"], &["missing-file", "No such file"]);
    refused(&["add", "md0", lab.path("").to_str().unwrap()], &["directory"]);
    assert_eq!(server.stop().0, 3);
}

#[test]
fn a_member_that_carries_something_is_added_only_by_force() {
    let lab = Lab::new();
    let members = lab.array(3, MEMBER, &["--level=5", "--assume-clean"]);
    std::fs::create_dir(lab.path("there")).unwrap();
    lab.file("there/x0", MEMBER);
    lab.file("there/x1", MEMBER);
    lab.ok(&["create", "--level=1", "--name=other", "there/x0", "there/x1"]);
    let small = lab.file("small", 4 << 20);
    let before = lab.bytes(&["there/x0".into(), small.clone()]);
    let server = lab.assemble(&members, &[]);
    lab.ok(&["fail", "md0", "d0"]);
    let said = lab.run(&["add", "md0", "there/x0"]).expect(1).stderr;
    assert!(said.contains("x0") && said.contains("array") && said.contains("--force"), "{said}");
    let said = lab.run(&["add", "md0", &small]).expect(1).stderr;
    assert!(said.contains("small") && said.contains("KiB"), "{said}");
    assert!(lab.bytes(&["there/x0".into(), small]) == before, "nothing was written");
    lab.ok(&["add", "--force", "md0", "there/x0"]);
    assert_eq!(lab.wait_idle("md0")["up"], "UUU");
    assert_eq!(lab.check("md0"), 0);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_spare_takes_over_by_itself() {
    let lab = Lab::new();
    let members = lab.array(4, MEMBER, &["--level=5", "--raid-devices=3", "--spare-devices=1", "--assume-clean"]);
    let server = lab.assemble(&members, &[]);
    assert_eq!(lab.status("md0")["members"][3]["state"], "spare");
    lab.ok(&["fail", "md0", "d1"]);
    eventually("the spare is in sync", || lab.status("md0")["up"] == "UUU");
    assert_eq!(lab.status("md0")["members"].as_array().unwrap().iter().find(|m| m["slot"] == 1).unwrap()["name"], "d3");
    let (code, log) = server.stop();
    assert_eq!(code, 0);
    assert!(log.contains("d1") && log.contains("takes over"), "{log}");
}

#[test]
fn a_member_that_comes_back_gets_what_it_missed() {
    if !may_mount() {
        return;
    }
    let lab = Lab::new();
    let members = lab.array(4, MEMBER, &["--level=6", "--chunk=64K", "--bitmap=internal", "--assume-clean"]);
    let server = lab.assemble(&members, &["--nbd=unix:nbd", "--fuse=array"]);
    let size = server.report["array"]["size_bytes"].as_u64().unwrap();
    let mut content = pattern(size as usize, 5);
    let write = |at: u64, bytes: &[u8]| {
        let mut file = std::fs::OpenOptions::new().write(true).open(lab.path("array")).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
        file.sync_all().unwrap();
    };
    write(0, &content);
    lab.ok(&["fail", "md0", "d2"]);
    lab.ok(&["remove", "md0", "d2"]);
    content[3 << 20..][..100_000].fill(0x77);
    write(3 << 20, &content[3 << 20..][..100_000]);
    lab.ok(&["re-add", "md0", "d2"]);
    assert_eq!(lab.wait_idle("md0")["up"], "UUUU");
    assert_eq!(lab.check("md0"), 0);
    // What it holds counts: the two others that hold data of its stripes are lost now.
    lab.ok(&["fail", "md0", "d0"]);
    lab.ok(&["fail", "md0", "d1"]);
    let mut back = Vec::new();
    std::fs::File::open(lab.path("array")).unwrap().read_to_end(&mut back).unwrap();
    assert!(back == content);
    assert_eq!(server.stop().0, 3);
}

#[test]
fn signals_stop_it_cleanly() {
    if !require_programs(&["mdadm"]) || !may_mount() {
        return;
    }
    for signal in ["-TERM", "-INT"] {
        let lab = Lab::new();
        let members = lab.array(3, MEMBER, &["--level=5", "--assume-clean"]);
        let mut server = lab.assemble(&members, &["--nbd=unix:nbd", "--fuse=array"]);
        let mut file = std::fs::OpenOptions::new().write(true).open(lab.path("array")).unwrap();
        file.write_all(&pattern(1 << 20, 1)).unwrap();
        drop(file);
        assert_eq!(state_by_mdadm(&lab, "d0"), "active", "a write marks it");
        server.signal(signal);
        assert_eq!(server.wait().0, 0);
        for name in ["nbd", "array", "run/md0.sock"] {
            assert!(!lab.path(name).exists(), "{name} is left");
        }
        assert_eq!(state_by_mdadm(&lab, "d0"), "clean");
        let server = lab.assemble(&members, &["--fuse=array"]);
        assert_eq!(server.report["array"]["resync_pending"], false, "nothing is left to do");
        let mut back = vec![0; 1 << 20];
        std::fs::File::open(lab.path("array")).unwrap().read_exact(&mut back).unwrap();
        assert!(back == pattern(1 << 20, 1));
        server.stop();
    }
}

#[test]
fn what_a_killed_server_leaves_is_cleared_away() {
    let lab = Lab::new();
    let members = lab.array(3, MEMBER, &["--level=5", "--name=vm"]);
    lab.assemble(&members, &["--nbd=unix:nbd"]).kill();
    assert!(lab.path("run/vm.sock").exists() && lab.path("nbd").exists());
    let said = lab.run(&["stop", "vm"]).expect(1).stderr;
    assert!(said.contains("vm: no such array is running"), "{said}");
    let server = lab.assemble(&members, &["--nbd=unix:nbd"]);
    assert_eq!(server.name(), "vm", "its own name is free again");
    assert_eq!(lab.check("vm"), 0);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn it_goes_into_the_background() {
    let lab = Lab::new();
    let members = lab.array(3, MEMBER, &["--level=5", "--assume-clean"]);
    let all: Vec<&str> = members.iter().map(String::as_str).collect();
    let said = lab.ok(&[&["assemble", "--daemon", "--nbd=unix:nbd", "--nbd=127.0.0.1:0"], &all[..]].concat()).stdout;
    assert!(said.contains("md0: nbd unix:nbd") && said.contains("md0: nbd 127.0.0.1:"), "{said}");
    assert!(lab.path("run/md0.log").exists());
    lab.ok(&["stop", "md0"]);
    assert!(!lab.path("nbd").exists());
    lab.run(&["assemble", "--daemon", "--run", "d0", "d2"]).expect(3);
    lab.ok(&["stop", "md0"]);
    let said = lab.run(&["assemble", "--daemon", "d0"]).expect(1).stderr;
    assert!(said.contains("d0") || said.contains("slot"), "it says why: {said}");
}

#[test]
fn names_are_taken_once() {
    let lab = Lab::new();
    let first = lab.array(2, MEMBER, &["--level=1", "--assume-clean"]);
    let second = vec![lab.file("e0", MEMBER), lab.file("e1", MEMBER)];
    lab.ok(&["create", "--level=1", "--assume-clean", "e0", "e1"]);
    let server = lab.assemble(&first, &[]);
    assert_eq!(server.name(), "md0");
    let said = lab.run(&["assemble", "--name=md0", "e0", "e1"]).expect(1).stderr;
    assert!(said.contains("md0") && said.contains("--name"), "{said}");
    lab.run(&["assemble", "--name=a/b", "e0", "e1"]).expect(2);
    let other = lab.assemble(&second, &[]);
    assert_eq!(other.name(), "md1", "the first that is free");
    assert_eq!(lab.ok(&["status", "--json"]).json()["arrays"].as_array().unwrap().len(), 2);
    lab.ok(&["stop", "md0", "md1"]);
    drop((server, other));
}

#[test]
fn a_read_only_array_writes_nothing() {
    if !may_mount() {
        return;
    }
    let lab = Lab::new();
    let members = lab.array(4, MEMBER, &["--level=6"]);
    let before = lab.bytes(&members);
    let server = lab.assemble(&members[1..], &["--read-only", "--run", "--force", "--nbd=unix:nbd", "--fuse=array"]);
    assert_eq!(server.report["array"]["read_only"], true);
    assert!(std::fs::OpenOptions::new().write(true).open(lab.path("array")).is_err());
    let size = server.report["array"]["size_bytes"].as_u64().unwrap();
    assert_eq!(std::fs::read(lab.path("array")).unwrap().len() as u64, size);
    let said = lab.run(&["fail", "md0", "d1"]).expect(1).stderr;
    assert!(said.contains("read-only"), "{said}");
    assert!(lab.run(&["status"]).stdout.contains("active (read-only) raid6"));
    server.stop();
    assert!(lab.bytes(&members) == before);
}

#[test]
fn an_idle_array_of_16_members_is_small() {
    if !may_mount() {
        return;
    }
    let lab = Lab::new();
    let members = lab.array(16, MEMBER, &["--level=6", "--bitmap=internal"]);
    let server = lab.assemble(&members, &["--nbd=unix:nbd", "--nbd=127.0.0.1:0", "--fuse=array"]);
    // The resync has filled the caches.
    lab.wait_idle("md0");
    std::io::copy(&mut std::fs::File::open(lab.path("array")).unwrap(), &mut std::io::sink()).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 150 << 10, "{kib} KiB resident");
    assert_eq!(server.stop().0, 0);
}

#[test]
fn completions_and_manual_name_every_command() {
    let lab = Lab::new();
    let script = lab.ok(&["completions", "bash"]).stdout;
    lab.ok(&["manual", "man"]);
    for command in ["create", "assemble", "re-add", "quickstart"] {
        assert!(script.contains(command), "{command}");
        assert!(lab.path("man").join(format!("uraid-{command}.1")).exists(), "{command}");
    }
}

/// A lone 4 KiB write to a RAID6 of six members: 3 reads for read-modify-write, 3 of the other data blocks without; 10 members 3 and 7.
#[test]
fn member_ios_are_those_of_the_arithmetic() {
    for (members, rmw, reads, by_difference) in [(10, "auto", 3, 1), (10, "never", 7, 0), (6, "auto", 3, 0), (6, "prefer", 3, 1)]
    {
        let lab = Lab::new();
        let members = lab.array(members, MEMBER, &["--level=6", "--chunk=64K", "--size=8M", "--assume-clean"]);
        let server = lab.assemble(&members, &["--nbd=unix:nbd", "--rmw", rmw]);
        let mut nbd = Nbd::connect(&lab.path("nbd")).unwrap();
        nbd.send_write(1, 64 << 10, &[7; 4096]).unwrap();
        nbd.reply().unwrap();
        let report = lab.ok(&["status", "--json"]).json();
        let ios = &report["arrays"][0]["ios"];
        let counts =
            ["write_reads", "request_writes", "read_modify_writes", "request_reads"].map(|name| ios[name].as_u64().unwrap());
        assert_eq!(counts, [reads, 3, by_difference, 0], "{} members, --rmw {rmw}", members.len());
        drop(nbd);
        assert_eq!(server.stop().0, 0);
    }
}

#[test]
fn runs_keep_to_their_speed_until_it_is_set_anew() {
    let lab = Lab::new();
    let members = lab.array(2, MEMBER, &["--level=1", "--name=slow"]);
    let server = lab.assemble(&members, &["--sync-speed-max=1", "--sync-speed-min=1"]);
    eventually("a window has passed", || lab.status("slow")["sync"]["done_sectors"].as_u64() > Some(0));
    let status = lab.status("slow");
    assert_eq!((&status["sync_speed_min_kib"], &status["sync_speed_max_kib"]), (&1.into(), &1.into()));
    // At a KiB a second the 16 MiB take hours; what is told to a run under way counts at once.
    let done = lab.ok(&["resync", "slow", "--sync-speed-max=1000000000"]).stdout;
    assert!(done.contains("resync done"), "{done}");
    let status = lab.status("slow");
    assert_eq!((&status["sync_speed_min_kib"], &status["sync_speed_max_kib"]), (&json!(null), &1_000_000_000.into()));
    assert_eq!(server.stop().0, 0);
    let refused = lab.run(&["check", "slow", "--sync-speed-max=0"]).expect(2).stderr;
    assert!(refused.contains("--sync-speed-max"), "{refused}");
}
