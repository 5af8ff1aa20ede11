//! The referee at work: real guests.
#![allow(clippy::unwrap_used, reason = "in a test, what cannot be had ends the test")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use uraid_referee::{Guest, RefereeError, guest_path, parse_detail, parse_examine, pattern, require};

/// Sparse image files in a directory that goes away with the value.
struct Disks {
    dir: TempDir,
    paths: Vec<PathBuf>,
}

impl Disks {
    fn new(count: usize, mib: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..count).map(|i| dir.path().join(format!("disk,{i}:img"))).collect();
        for path in &paths {
            File::create(path).unwrap().set_len(mib << 20).unwrap();
        }
        Self { dir, paths }
    }

    fn refs(&self) -> Vec<&Path> {
        self.paths.iter().map(PathBuf::as_path).collect()
    }
}

#[test]
fn raid5_made_written_stopped_and_described() {
    let Some(referee) = require() else { return };
    let disks = Disks::new(3, 20);
    let content = disks.dir.path().join("content");
    fs::write(&content, pattern(1, 1 << 20)).unwrap();
    let script = r#"
        mdadm --create /dev/md0 --run --quiet --level=5 --raid-devices=3 --chunk=64 --homehost=any --name=r5 $DISKS
        mdwait /dev/md0
        dd if=$CONTENT of=/dev/md0 bs=64k oflag=direct status=none
        cat /proc/mdstat
        mdadm --detail /dev/md0 | sed 's/^/detail/'
        echo mismatch=$(mismatch /dev/md0)
        echo same=$(head -c 1048576 /dev/md0 | cmp - $CONTENT && echo yes)
        mdadm --stop --quiet /dev/md0
        mdadm --examine $DISKS
    "#;
    let env = [("CONTENT", guest_path(&content).unwrap().to_string_lossy().into_owned())];
    let env: Vec<_> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let output = referee.run(&Guest { env: &env, ..Guest::with_disks(script, &disks.refs()) }).unwrap();
    assert_eq!(output.value("mismatch"), Some("0"), "{}", output.stdout);
    assert_eq!(output.value("same"), Some("yes"));
    let text = output.success();
    assert!(text.contains("md0 : active raid5") && text.contains("[3/3] [UUU]"), "{text}");

    let detail: String = text.lines().filter_map(|l| l.strip_prefix("detail")).map(|l| format!("{l}\n")).collect();
    let detail = parse_detail(&detail);
    assert_eq!((detail.device.as_str(), detail.word("Raid Level")), ("/dev/md0", "raid5"));
    assert_eq!((detail.number("Raid Devices"), detail.number("Chunk Size")), (3, 64));
    assert_eq!(detail.table.len(), 3);
    assert_eq!(detail.table[2].last().unwrap(), "/dev/ubdc");

    let members = parse_examine(&text);
    let devices: Vec<_> = members.iter().map(|m| m.device.as_str()).collect();
    assert_eq!(devices, ["/dev/ubda", "/dev/ubdb", "/dev/ubdc"]);
    assert_eq!(members[0].field("Version"), "1.2");
    assert_eq!(members[0].field("Array UUID"), members[2].field("Array UUID"));
    // What the kernel wrote is in the files now: the superblock's magic, 4 KiB from the start.
    let image = fs::read(&disks.paths[1]).unwrap();
    assert_eq!(image[4096..4100], 0xa92b_4efc_u32.to_le_bytes());
}

#[test]
fn disks_beyond_the_sixteenth_and_named_modules_are_there() {
    let Some(referee) = require() else { return };
    let disks = Disks::new(18, 1);
    let mark = |index: usize| fs::write(&disks.paths[index], pattern(index as u64, 1 << 20)).unwrap();
    (0..18).for_each(mark);
    let script = r#"
        set -- $DISKS
        echo count=$#
        for d in "$@"; do head -c 512 $d >> /tmp/heads; done
        echo digest=$(digest /tmp/heads)
        echo flakey=$(test -d /sys/module/dm_flakey && echo yes)
        echo memory=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
        echo "last=$D17"
    "#;
    let paths = disks.refs();
    let guest = Guest { modules: &["dm-flakey"], memory_mib: 256, ..Guest::with_disks(script, &paths) };
    let output = referee.run(&guest).unwrap();
    assert_eq!(output.value("count"), Some("18"), "{}", output.stdout);
    assert_eq!(output.value("flakey"), Some("yes"));
    assert!(output.value("last").unwrap().starts_with("/dev/loop"));
    assert!((128..=256).contains(&output.value("memory").unwrap().parse::<u32>().unwrap()));
    let heads: Vec<u8> = (0..18).flat_map(|i| pattern(i, 512)).collect();
    assert_eq!(output.value("digest").unwrap(), sha256_of(&disks.dir, &heads));
}

fn sha256_of(dir: &TempDir, bytes: &[u8]) -> String {
    let path = dir.path().join("heads");
    fs::write(&path, bytes).unwrap();
    let out = std::process::Command::new("sha256sum").arg(&path).output().unwrap();
    String::from_utf8(out.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn the_first_failing_command_is_the_status() {
    let Some(referee) = require() else { return };
    let output = referee.run(&Guest::new("echo before; sh -c 'exit 42'; echo after")).unwrap();
    assert_eq!((output.stdout.trim_end(), output.status), ("before", 42));
}

#[test]
fn a_slow_guest_is_stopped() {
    let Some(referee) = require() else { return };
    let guest = Guest { limit: Duration::from_secs(6), ..Guest::new("echo waiting; sleep 1000") };
    match referee.run(&guest) {
        Err(RefereeError::TimedOut { limit, .. }) => assert_eq!(limit, guest.limit),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dying_guest_is_recognised() {
    let Some(referee) = require() else { return };
    match referee.run(&Guest::new("echo last words; echo c > /proc/sysrq-trigger; sleep 100")) {
        Err(RefereeError::Died { console }) => assert!(console.contains("last words"), "{console}"),
        other => panic!("{other:?}"),
    }
    let absent = Path::new("/no/such/disk");
    assert!(matches!(referee.run(&Guest::with_disks("true", &[absent])), Err(RefereeError::Host { .. })));
}
