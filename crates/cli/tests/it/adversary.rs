//! What a hostile or unlucky user does, found by trying: each test stands for a kind of mishap.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::lab::{Lab, eventually, pattern, program, refs, skip};
use crate::nbd::Nbd;

const MIB: u64 = 1 << 20;

/// What was cut off would come back as zeros, without any error, as soon as a write made the file long again.
#[test]
fn a_member_cut_short_while_it_is_served_is_lost_and_hides_nothing() {
    for level in ["5", "6", "1", "10"] {
        let lab = Lab::new();
        let members = lab.array(4, 24 * MIB, &["--level", level]);
        let server = lab.assemble(&members, &["--nbd", &format!("unix:{}", lab.text("s"))]);
        lab.wait_idle(server.name());
        let bytes = pattern(16 << 20, 5);
        let mut client = Nbd::connect(&lab.path("s")).unwrap();
        client.send_write(1, 0, &bytes).unwrap();
        client.reply().unwrap();
        client.send_flush(2).unwrap();
        client.reply().unwrap();
        drop(client);
        File::options().write(true).open(lab.path(&members[1])).unwrap().set_len(4 * MIB).unwrap();
        // From the end to the start: whatever is written back first must not make the file long again.
        let mut client = Nbd::connect(&lab.path("s")).unwrap();
        for at in (0..16).rev().map(|back| back * MIB) {
            let mut read = vec![0; MIB as usize];
            client.read(at, &mut read).unwrap();
            assert!(read == bytes[at as usize..][..read.len()], "raid{level}: other bytes at {at}");
        }
        // Where no read came by, the next flush does.
        client.send_write(1, 0, &bytes[..4096]).unwrap();
        client.reply().unwrap();
        client.send_flush(2).unwrap();
        client.reply().unwrap();
        drop(client);
        assert_eq!(lab.status(server.name())["members"][1]["state"], "faulty", "raid{level}");
        server.stop();
        assert_eq!(std::fs::metadata(lab.path(&members[1])).unwrap().len(), 4 * MIB, "raid{level}: nothing makes it long again");
    }
}

/// A front end that cannot be is found before the array is started.
#[test]
fn a_front_end_that_cannot_be_leaves_the_members_alone() {
    let lab = Lab::new();
    let members = lab.array(3, 16 * MIB, &["--level", "5"]);
    let before = lab.bytes(&members);
    lab.file("file", 4096);
    std::fs::create_dir(lab.path("folder")).unwrap();
    let long = format!("unix:{}", "x".repeat(200));
    let member = members[1].clone();
    let wrong: &[(&[&str], i32)] = &[
        (&["--nbd", "unix:/nowhere/at/all"], 1),
        (&["--nbd", "unix:file"], 1),
        (&["--nbd", &long], 1),
        (&["--nbd", "unix:s", "--nbd", "unix:s"], 1),
        (&["--nbd", "0.0.0.0:0"], 2),
        (&["--fuse", "folder"], 1),
        (&["--fuse", "nowhere/f"], 1),
        (&["--fuse", "made", "--nbd", "unix:file"], 1),
        (&["--fuse", &member], 2),
        (&["--fuse", &lab.text(&member)], 2),
    ];
    for (options, code) in wrong {
        lab.run(&[&["assemble"], *options, &refs(&members)].concat()).expect(*code);
        assert!(lab.bytes(&members) == before, "{options:?} was refused and yet something was written");
        assert!(!lab.path("made").exists() && !lab.path("s").exists(), "{options:?} left something behind");
    }
    lab.ok(&[&["assemble", "--daemon", "--nbd", "unix:s"], &refs(&members)[..]].concat());
    lab.ok(&["stop", "md0"]);
}

#[test]
fn a_member_that_is_too_large_to_be_made_is_not_left_behind() {
    let lab = Lab::new();
    lab.run(&["create", "--level", "5", "--member-size", "9000P", "a", "b", "c"]).expect(1);
    assert!(["a", "b", "c"].iter().all(|name| !lab.path(name).exists()));
}

/// Parity is made for 255 members; of more it could be neither computed nor, for a RAID6, used to rebuild any two.
#[test]
fn parity_of_too_many_members_is_refused_and_nothing_is_made() {
    let lab = Lab::new();
    let members: Vec<String> = (0..256).map(|index| format!("d{index}")).collect();
    for level in ["4", "5", "6"] {
        let wide = [&["create", "--member-size", "1M", "--chunk", "4", "--level", level], &refs(&members)[..]].concat();
        let said = lab.run(&wide).expect(2).stderr;
        assert!(said.contains("at most 255"), "{said}");
        assert!(members.iter().all(|name| !lab.path(name).exists()), "raid{level} left members behind");
    }
}

/// Names come from disks of others; a terminal obeys control characters, and a line break begins a line that looks like ours.
#[test]
fn names_of_others_control_no_terminal_and_forge_no_lines() {
    let lab = Lab::new();
    let members = lab.files(2, 8 * MIB);
    lab.ok(&["create", "--level", "1", "--name", "x\n          State : clean\u{1b}[2J", "d0", "d1"]);
    for args in [&["examine", "d0"][..], &["examine", "--brief", "d0"], &["examine", "--export", "d0"], &["detail", "d0", "d1"]] {
        let said = lab.run(args).stdout;
        assert!(said.contains("\\u{1b}[2J"), "{args:?}: {said}");
        assert!(!said.contains('\u{1b}') && !said.lines().any(|line| line == "          State : clean"), "{args:?}: {said}");
    }
    let odd = lab.file("\u{1b}[31mred", 8 * MIB);
    assert!(!lab.run(&["examine", &odd]).stdout.contains('\u{1b}'));
    assert!(!lab.run(&[&["assemble"], &refs(&members)[..], &[&odd]].concat()).stderr.contains('\u{1b}'));
}

/// JSON holds no other bytes: such a member could be started but not managed.
#[test]
fn a_name_that_is_not_utf8_is_refused_before_anything_is_written() {
    let lab = Lab::new();
    let members = lab.array(3, 8 * MIB, &["--level", "5"]);
    let odd = OsStr::from_bytes(b"d\xff");
    std::fs::rename(lab.path(&members[2]), lab.path("").join(odd)).unwrap();
    for command in ["assemble", "create", "check"] {
        let args: &[&str] = if command == "create" { &["--force", "--level", "5"] } else { &[] };
        let output = lab.command(&[&[command], args, &["d0", "d1"]].concat()).arg(odd).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("not UTF-8"), "{command}: {said}");
    }
}

/// A member is known by where it is, not by what it is called from somewhere else.
#[test]
fn a_member_of_the_same_name_elsewhere_is_not_taken_for_one_that_runs() {
    let lab = Lab::new();
    let members = lab.array(2, 8 * MIB, &["--level", "1"]);
    let server = lab.assemble(&members, &["--name", "here"]);
    let elsewhere = Lab::new();
    let others = elsewhere.array(2, 8 * MIB, &["--level", "1"]);
    let held = File::open(elsewhere.path(&others[0])).unwrap();
    held.lock().unwrap();
    let mut assemble = elsewhere.command(&[&["assemble"], &refs(&others)[..]].concat());
    let said = assemble.env("URAID_RUN_DIR", lab.path("run")).output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("holds its lock") && !said.contains("member of the running array"), "{said}");
    let mut own = lab.command(&[&["assemble"], &[lab.text(&members[0]).as_str()][..]].concat());
    let said = own.current_dir("/").output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("member of the running array here"));
    assert_eq!(server.stop().0, 0);
}

/// A lost terminal is no reason to lose the progress, unless the caller has said that it is none to stop at all.
#[test]
fn a_hang_up_ends_a_run_cleanly_and_is_ignored_under_nohup() {
    let lab = Lab::new();
    let members = lab.array(2, 4096 * MIB, &["--level", "1"]);
    let mut resync = lab.command(&[&["resync"], &refs(&members)[..]].concat());
    let mut child = resync.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap();
    eventually("the resync writes its superblocks", || {
        child.try_wait().unwrap().is_some() || lab.run(&["examine", "--export", "d0"]).stdout.contains("MD_EVENTS=2")
    });
    program("kill", &["-HUP", &child.id().to_string()]);
    // 1: it was stopped, by its own decision; 0: it was done before.
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 1)));
    let mut served = Command::new("nohup");
    served.arg(env!("CARGO_BIN_EXE_uraid")).args(["assemble", "--read-only"]).args(&members).current_dir(lab.path(""));
    served.env("URAID_RUN_DIR", lab.path("run")).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = served.spawn().unwrap();
    eventually("it runs", || lab.run(&["status", "md0"]).code != 1);
    program("kill", &["-HUP", &child.id().to_string()]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none(), "nohup was not obeyed");
    lab.ok(&["stop", "md0"]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Somebody else's arrays are not said not to run.
#[test]
fn an_array_of_another_user_is_not_called_missing() {
    let lab = Lab::new();
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    if !is_root {
        return skip("taking another user's part needs root");
    }
    let members = lab.array(2, 8 * MIB, &["--level", "1"]);
    let server = lab.assemble(&members, &[]);
    for open in ["", "run"] {
        std::fs::set_permissions(lab.path(open), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let other = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", env!("CARGO_BIN_EXE_uraid")]).args(args);
        let output = command.env("URAID_RUN_DIR", lab.path("run")).current_dir("/").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    if !other(&["--version"]).1.is_empty() {
        return skip("another user cannot start this binary");
    }
    for args in [&["stop", "md0"][..], &["status", "md0"]] {
        let (code, said) = other(args);
        assert!(code == Some(1) && said.contains("permission denied"), "{args:?}: {code:?} {said}");
    }
    let (code, said) = other(&["status"]);
    assert!(code == Some(0) && said.contains("permission denied"), "{code:?} {said}");
    assert_eq!(server.stop().0, 0);
}
