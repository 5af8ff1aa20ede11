//! IMSM and DDF containers that mdadm makes and the kernel fills: every volume reads the same, whole, with a member missing, and
//! while it is being rebuilt; nothing is ever written to a disk.

use std::fmt::Write as _;

use serde_json::Value;
use uraid_referee::{Output, Referee, require};

use super::guest;
use super::host::{Bench, assert_same, without};
use crate::lab::{Ended, refs};

/// A volume: its name, the options that it is made with, and whether each of its members may be missing.
struct Volume {
    name: &'static str,
    options: &'static str,
    redundant: bool,
}

const fn volume(name: &'static str, options: &'static str) -> Volume {
    Volume { name, options, redundant: true }
}

const fn plain(name: &'static str, options: &'static str) -> Volume {
    Volume { name, options, redundant: false }
}

const DDF: &[Volume] = &[
    volume("r5", "-l 5 -n 4 -c 64 -z 3M"),
    volume("r6", "-l 6 -n 5 -c 64 -z 3M"),
    plain("r0", "-l 0 -n 3 -c 64 -z 3M"),
    volume("r1", "-l 1 -n 3 -z 3M"),
    volume("r10", "-l 10 -n 4 -c 32 -z 3M"),
    volume("r1e", "-l 10 -n 3 -c 32 -z 3M"),
    volume("r5ra", "-l 5 -n 3 -c 32 -p ra -z 3M"),
    volume("r5la", "-l 5 -n 3 -c 32 -p la -z 3M"),
    volume("r4", "-l 4 -n 3 -c 32 -z 3M"),
    volume("r6z", "-l 6 -n 4 -c 32 -p ddf-zero-restart -z 3M"),
    volume("r6n", "-l 6 -n 4 -c 32 -p ddf-N-restart -z 3M"),
];

/// Makes a container and its volumes, fills them, and says what they hold and are.
fn script(kind: &str, files: &[String], volumes: &[Volume]) -> String {
    let mut script = format!(
        "export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1\nattach {}\n\
         # A volume is read-only until mdmon has taken it over.\n\
         writable() {{ for try in $(seq 100); do grep -q readonly $1 || return 0; sleep 0.1; done; return 1; }}\n\
         mdadm --create /dev/md/box --run --quiet -e {kind} -n {} $DEVS\n",
        files.join(" "),
        files.len()
    );
    for Volume { name, options, .. } in volumes {
        writeln!(
            script,
            "mdadm --create /dev/md/{name} --run --quiet {options} /dev/md/box\nsleep 0.3\nmdwait /dev/md/{name}\n\
             writable $(md_sys /dev/md/{name})/array_state\n\
             head -c $(blockdev --getsize64 /dev/md/{name}) /tmp/pattern | \
             dd of=/dev/md/{name} bs=1M iflag=fullblock oflag=direct status=none\n\
             echo size.{name}=$(blockdev --getsize64 /dev/md/{name})"
        )
        .unwrap();
    }
    script + "mdadm --stop --scan --quiet\nsleep 0.5\n"
}

fn make(referee: &Referee, bench: &Bench, kind: &str, files: &[String], member_bytes: u64, volumes: &[Volume]) -> Output {
    files.iter().for_each(|file| drop(bench.lab.file(file, member_bytes)));
    guest::run(referee, bench, &script(kind, files, volumes))
}

fn export(bench: &Bench, members: &[String], name: &str, more: &[&str]) -> Ended {
    let volume = format!("--volume={name}");
    bench.lab.run(&[&["export", "--output=exported", &volume], more, &refs(members)[..]].concat())
}

#[track_caller]
fn assert_exports(bench: &Bench, output: &Output, members: &[String], name: &str, more: &[&str], status: i32) {
    export(bench, members, name, more).expect(status);
    let expected = bench.expected(guest::value(output, "size", name).parse().unwrap());
    assert_same(&std::fs::read(bench.lab.path("exported")).unwrap(), expected, &format!("{name} of {members:?}"));
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("disk{index}")).collect()
}

/// The container as `examine --json` shows it on one of its disks.
fn container(bench: &Bench, file: &String) -> Value {
    bench.examine(std::slice::from_ref(file))[0]["container"].clone()
}

#[test]
fn every_volume_of_a_ddf_container_is_read() {
    let Some(referee) = require() else { return };
    let (bench, files) = (Bench::new(), names(5));
    let output = make(referee, &bench, "ddf", &files, 96 << 20, DDF);
    let before = bench.lab.bytes(&files);
    let found = container(&bench, &files[0]);
    let labels: Vec<&str> = found["disks"].as_array().unwrap().iter().map(|disk| disk["label"].as_str().unwrap()).collect();
    assert_eq!((found["format"].as_str(), labels.len()), (Some("ddf"), 5));
    let reversed: Vec<String> = files.iter().rev().cloned().collect();
    for (volume, shown) in DDF.iter().zip(found["volumes"].as_array().unwrap()) {
        assert_eq!(shown["name"], volume.name);
        assert_exports(&bench, &output, &reversed, volume.name, &[], 0);
        for lost in 0..files.len() {
            let rest = without(&files, &[lost]);
            let ended = export(&bench, &rest, volume.name, &[]);
            // Not every volume is on every disk.
            if ended.code == 1 {
                assert!(!volume.redundant && ended.stderr.contains("not enough members: 1 of 3"), "{}", ended.stderr);
            } else {
                assert_exports(&bench, &output, &rest, volume.name, &[], ended.code);
            }
        }
        // The first disk has no record of the other half of the stripe of mirrors.
        let known = shown["slots"].as_array().unwrap().iter().filter(|slot| !slot["disk"].is_null());
        let known: Vec<&str> = known.map(|slot| slot["disk"].as_str().unwrap()).collect();
        let expected = if volume.name == "r10" { 2 } else { shown["slots"].as_array().unwrap().len() };
        assert!(known.len() == expected && known.iter().all(|disk| labels.contains(disk)), "{shown}");
    }
    // Two lost of a RAID6.
    assert_exports(&bench, &output, &files[2..], "r6", &[], 3);
    let ended = export(&bench, &files[3..], "r6", &[]).expect(1);
    assert!(ended.stderr.contains("not enough members: 3 of 5"), "{}", ended.stderr);
    let ended = bench.export(&files).expect(1);
    assert!(
        ended.stderr.contains("has the volumes r5, r6, r0, r1, r10, r1e, r5ra, r5la, r4, r6z, r6n; choose one"),
        "{}",
        ended.stderr
    );
    let server = bench.lab.assemble(&files, &["--volume=r5", "--nbd=unix:nbd"]);
    assert_eq!((&server.report["array"]["read_only"], &server.report["array"]["metadata"]), (&true.into(), &"ddf".into()));
    drop(server);
    let ended = bench.lab.run(&[&["import", "--input=exported", "--volume=r5"], &refs(&files)[..]].concat()).expect(1);
    assert!(ended.stderr.contains("which uraid only reads"), "{}", ended.stderr);
    for (file, (before, after)) in files.iter().zip(before.iter().zip(bench.lab.bytes(&files))) {
        assert!(*before == after, "{file}: written to while only read");
    }
}

/// The disks in the order of the container's own list: mdadm took their device names for serial numbers, which end in the
/// number of the loop device.
fn in_listed_order(bench: &Bench, files: &[String]) -> Vec<String> {
    let found = container(bench, &files[0]);
    let numbers: Vec<u32> =
        found["disks"].as_array().unwrap().iter().map(|disk| number(disk["label"].as_str().unwrap())).collect();
    let first = *numbers.iter().min().unwrap();
    numbers.iter().map(|number| files[(number - first) as usize].clone()).collect()
}

fn number(label: &str) -> u32 {
    label.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

fn with_missing(files: &[String], lost: usize) -> Vec<String> {
    (0..files.len()).map(|index| if index == lost { "missing".to_owned() } else { files[index].clone() }).collect()
}

#[test]
fn every_volume_of_an_imsm_container_is_read() {
    let Some(referee) = require() else { return };
    let containers: [(usize, &[Volume]); 3] = [
        (4, &[volume("v5", "-l 5 -n 4 -c 64 -z 3M"), volume("v10", "-l 10 -n 4 -c 64 -z 5M")]),
        (2, &[volume("v1", "-l 1 -n 2 -z 3M"), plain("v0", "-l 0 -n 2 -c 16 -z 3M")]),
        (3, &[volume("x5", "-l 5 -n 3 -c 128 -z 7M")]),
    ];
    for (count, volumes) in containers {
        let (bench, files) = (Bench::new(), names(count));
        let output = make(referee, &bench, "imsm", &files, 32 << 20, volumes);
        let before = bench.lab.bytes(&files);
        let files = in_listed_order(&bench, &files);
        for volume in volumes {
            let ended = export(&bench, &files, volume.name, &[]).expect(1);
            assert!(ended.stderr.contains("--in-order"), "{}", ended.stderr);
            assert_exports(&bench, &output, &files, volume.name, &["--in-order"], 0);
            for lost in 0..files.len() {
                let rest = with_missing(&files, lost);
                if volume.redundant {
                    assert_exports(&bench, &output, &rest, volume.name, &["--in-order"], 3);
                } else {
                    export(&bench, &rest, volume.name, &["--in-order"]).expect(1);
                }
            }
        }
        export(&bench, &files[1..], volumes[0].name, &["--in-order"]).expect(2);
        let mut sorted = files.clone();
        sorted.sort();
        for (before, after) in before.iter().zip(bench.lab.bytes(&sorted)) {
            assert!(*before == after, "written to while only read");
        }
    }
}

/// A disk that failed, and one that is being rebuilt: what the container says of them is believed, not the disks.
#[test]
fn volumes_that_are_being_rebuilt_are_read_without_the_new_disk() {
    let Some(referee) = require() else { return };
    for kind in ["imsm", "ddf"] {
        let (bench, files) = (Bench::new(), names(5));
        files.iter().for_each(|file| drop(bench.lab.file(file, 96 << 20)));
        let volumes = [volume("v", "-l 5 -n 4 -c 64 -z 8M")];
        let script = script(kind, &files, &volumes).replace(
            "mdadm --stop --scan",
            "vol=$(readlink -f /dev/md/v); s=/sys/block/$(basename $vol)/md\necho 4096 > $s/sync_max\n\
             mdadm --quiet $vol --fail $(echo $DEVS | cut -d' ' -f2)\nsleep 2\n\
             echo state.v=$(cat $s/sync_action)\nmdadm --stop --scan",
        );
        let output = guest::run(referee, &bench, &script);
        let ordered = if kind == "imsm" { in_listed_order(&bench, &files) } else { files.clone() };
        let more: &[&str] = if kind == "imsm" { &["--in-order"] } else { &[] };
        assert_eq!(guest::value(&output, "state", "v"), "recover");
        let report = bench.lab.ok(&[&["detail", "--json"], more, &refs(&ordered)[..]].concat()).json();
        let slots = report["volumes"][0]["slots"].as_array().unwrap();
        assert_eq!(slots.iter().filter(|slot| slot["in_sync"] == false).count(), 1, "{report}");
        assert_exports(&bench, &output, &ordered, "v", more, 3);
    }
}
