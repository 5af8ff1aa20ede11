//! Bad-block logs: what the kernel records uraid does not read, and takes out once it is written again; what it leaves the kernel
//! does not read either.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;
use uraid_referee::require;

use super::guest;
use super::host::{Bench, without};
use crate::lab::refs;
use crate::nbd::Nbd;

const MEMBER_BYTES: u64 = 6 << 20;
/// The member that has bad blocks.
const BAD: usize = 1;
/// Bad ranges, in bytes from the start of its data: one in the first rows of 64 KiB, one in the second.
const FIRST: u64 = 0;
const SECOND: u64 = 64 << 10;

/// A level, how many bytes its first rows of 64 KiB hold, and whom the bad member cannot do without.
struct Case {
    level: &'static str,
    stripe_bytes: u64,
    lost: &'static [usize],
}

const CASES: [Case; 4] = [
    Case { level: "5", stripe_bytes: 192 << 10, lost: &[2] },
    Case { level: "6", stripe_bytes: 128 << 10, lost: &[0, 3] },
    Case { level: "1", stripe_bytes: 64 << 10, lost: &[0, 2, 3] },
    Case { level: "10", stripe_bytes: 128 << 10, lost: &[0] },
];

impl Case {
    fn name(&self) -> String {
        format!("r{}", self.level)
    }

    fn members(&self) -> Vec<String> {
        (0..4).map(|index| format!("{}.{index}", self.name())).collect()
    }
}

/// The script that fills all arrays and has the kernel record bad blocks on one member of each: on disk with the next write.
fn make(bench: &Bench) -> String {
    CASES.iter().fold(String::new(), |mut script, case| {
        case.members().iter().for_each(|name| drop(bench.lab.file(name, MEMBER_BYTES)));
        let chunk = if case.level == "1" { "" } else { "--chunk=64" };
        write!(
            script,
            "attach {}\nmdadm --create /dev/md0 --run --quiet --homehost=any --level={} {chunk} --raid-devices=4 --bitmap=none \
             --assume-clean $DEVS\nfill\n\
             BB=$(md_sys /dev/md0)/dev-$(basename $(echo $DEVS | cut -d' ' -f2))\nAT=$(cat $BB/offset)\n\
             echo \"$((AT + {})) 8\" > $BB/bad_blocks\necho \"$((AT + {})) 16\" > $BB/bad_blocks\n\
             dd if=/tmp/pattern of=/dev/md0 bs=64k count=1 skip=32 seek=32 oflag=direct status=none\ndone_with\n",
            case.members().join(" "),
            case.level,
            FIRST / 512,
            SECOND / 512,
        )
        .unwrap();
        script
    })
}

/// The bad ranges that uraid sees on the bad member: offsets from the start of its data and lengths, in sectors.
fn recorded(bench: &Bench, case: &Case) -> Vec<(u64, u64)> {
    let member: Value = bench.examine(&case.members()).remove(BAD);
    let data = member["superblocks"][0]["data_offset"].as_u64().unwrap();
    let number = |range: &Value, field: &str| range[field].as_u64().unwrap();
    let ranges = member["bad_blocks"].as_array().unwrap().iter();
    let ranges: Vec<(u64, u64)> = ranges.map(|range| (number(range, "start_sector") - data, number(range, "sectors"))).collect();
    let has_bit = member["superblocks"][0]["feature_map"].as_u64().unwrap() & 8 != 0;
    assert_eq!(has_bit, !ranges.is_empty(), "the feature bit and the log, at level {}", case.level);
    ranges
}

/// The script that reports what the kernel has in its list when it assembles the array, and whether it reads the pattern.
fn kernels_view() -> String {
    CASES.iter().fold(String::new(), |mut script, case| {
        let name = case.name();
        write!(
            script,
            "attach {}\nmdadm --assemble --quiet /dev/md0 $DEVS\nmdwait /dev/md0\n\
             BB=$(md_sys /dev/md0)/dev-$(basename $(echo $DEVS | cut -d' ' -f2))\nAT=$(cat $BB/offset)\n\
             echo bad.{name}=$(while read at len; do echo $((at - AT)) $len; done < $BB/bad_blocks)\nreport {name}\ndone_with\n",
            case.members().join(" "),
        )
        .unwrap();
        script
    })
}

#[test]
fn bad_blocks_are_rebuilt_kept_and_cleared_as_by_the_kernel() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    guest::run(referee, &bench, &make(&bench));
    let view = kernels_view();
    for case in &CASES {
        let (level, members) = (case.level, case.members());
        assert_eq!(recorded(&bench, case), [(FIRST / 512, 8), (SECOND / 512, 16)], "level {level}");
        // What is there is rubbish, or would be on a disk that has lost it.
        bench.spoil(&members[BAD], FIRST);
        bench.spoil(&members[BAD], SECOND);
        let before = bench.lab.bytes(&members);
        bench.assert_exports(&members, bench.expected(bench.size_bytes(&members)), false);
        assert!(bench.lab.bytes(&members) == before, "level {level}");
        // Without those that it could be rebuilt from: an error that names the member, and no rubbish.
        let failed = bench.export(&without(&members, case.lost)).expect(1);
        assert!(failed.stderr.contains(&members[BAD]), "level {level}: {}", failed.stderr);

        // The first range is written again, the second one is not.
        fs::write(bench.lab.path("stripe"), bench.expected(case.stripe_bytes)).unwrap();
        bench.lab.ok(&[&["import", "--input=stripe"], &refs(&members)[..]].concat());
        assert_eq!(recorded(&bench, case), [(SECOND / 512, 16)], "level {level}");
        assert!(!bench.is_spoilt(&members[BAD], FIRST), "level {level}");
        assert!(bench.is_spoilt(&members[BAD], SECOND), "level {level}");
    }
    // The kernel has the same list, and does not read the rubbish; RAID5 and RAID6 mend it as they read, RAID1 and RAID10 do not.
    let output = guest::run(referee, &bench, &view);
    for case in &CASES {
        assert_eq!(guest::value(&output, "bad", &case.name()), "128 16", "level {}", case.level);
        assert_eq!(guest::value(&output, "same", &case.name()), "yes", "level {}", case.level);
    }
    for case in &CASES {
        let members = case.members();
        if !matches!(case.level, "5" | "6") {
            assert_eq!(recorded(&bench, case), [(SECOND / 512, 16)], "level {}", case.level);
        }
        // Everything is written again.
        bench.import(&members, false);
        assert_eq!(recorded(&bench, case), [], "level {}", case.level);
    }
    let output = guest::run(referee, &bench, &view);
    for case in &CASES {
        assert_eq!(guest::value(&output, "bad", &case.name()), "", "level {}", case.level);
        assert_eq!(guest::value(&output, "same", &case.name()), "yes", "level {}", case.level);
    }
}

/// As the kernel's RAID5 does: a block that is bad is rebuilt for its reader, written back, and bad no more.
#[test]
fn what_is_read_from_a_running_array_is_mended() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    guest::run(referee, &bench, &make(&bench));
    for case in &CASES {
        let members = case.members();
        bench.spoil(&members[BAD], FIRST);
        let socket = bench.lab.path("socket");
        let server = bench.lab.assemble(&members, &["--name=mend", &format!("--nbd=unix:{}", socket.display())]);
        let mut first = vec![0; case.stripe_bytes as usize];
        // Copies are read from any member: of a few reads one asks the bad one.
        for _ in 0..8 {
            Nbd::connect(&socket).unwrap().read(0, &mut first).unwrap();
            assert!(first == bench.expected(case.stripe_bytes), "level {}", case.level);
        }
        bench.lab.wait_idle("mend");
        bench.lab.control("mend", &serde_json::json!({ "op": "check" }));
        bench.lab.wait_idle("mend");
        assert_eq!(server.stop().0, 0);
        assert_eq!(recorded(&bench, case), [], "level {}", case.level);
        assert!(!bench.is_spoilt(&members[BAD], FIRST), "level {}", case.level);
    }
}
