//! Members that one side lost are recovered by the other.

use std::fmt::Write as _;

use uraid_referee::require;

use super::cases::{Case, LOSSES, chosen};
use super::guest;
use super::host::{Bench, write_nbd};
use crate::lab::refs;

/// A new member's name.
fn fresh(bench: &Bench, case: &Case) -> String {
    bench.lab.file(&format!("{}.new", case.name), case.member_bytes(0))
}

fn make_files(bench: &Bench, case: &Case) -> Vec<String> {
    case.files().iter().enumerate().map(|(index, name)| bench.lab.file(name, case.member_bytes(index))).collect()
}

/// The kernel loses the first member and then fills the array; uraid gets a new member.
#[test]
fn a_member_that_the_kernel_lost_is_recovered() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let cases = chosen(LOSSES);
    let mut script = String::new();
    for case in &cases {
        let (files, options) = (make_files(&bench, case).join(" "), case.options().join(" "));
        writeln!(
            script,
            "attach {files}\nmdadm --create /dev/md0 --run --quiet --homehost=any {options} $DEVS\nmdwait /dev/md0\n\
             set -- $DEVS\nmdadm --quiet /dev/md0 --fail $1\nfill\nmdadm --quiet /dev/md0 --remove $1\ndone_with",
        )
        .unwrap();
    }
    guest::run(referee, &bench, &script);

    let mut script = String::new();
    for case in &cases {
        let mut members = case.files().split_off(1);
        let server = bench.lab.assemble(&members, &["--name=degraded"]);
        assert_eq!(bench.lab.status("degraded")["degraded"], 1, "{case:?}");
        members.push(fresh(&bench, case));
        bench.lab.ok(&["add", "degraded", members.last().unwrap()]);
        let status = bench.lab.wait_idle("degraded");
        assert_eq!((&status["degraded"], &status["last_sync"]["kind"]), (&0.into(), &"recovery".into()), "{case:?}: {status}");
        assert_eq!(server.stop().0, 0, "{case:?}");
        writeln!(
            script,
            "attach {}\nmdadm --assemble --quiet /dev/md0 $DEVS\necho degraded.{name}=$(cat $(md_sys /dev/md0)/degraded)\n\
             echo action.{name}=$(cat $(md_sys /dev/md0)/sync_action)\nreport {name}\n\
             echo mismatch.{name}=$(mismatch /dev/md0)\ndone_with",
            members.join(" "),
            name = case.name,
        )
        .unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    for Case { name, .. } in &cases {
        let said = ["degraded", "action", "same", "mismatch"].map(|key| guest::value(&output, key, name));
        assert_eq!(said, ["0", "idle", "yes", "0"], "{name}");
    }
}

/// uraid loses the first member and then fills the array; the kernel gets a new member.
#[test]
fn a_member_that_uraid_lost_is_recovered_by_the_kernel() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let cases = chosen(LOSSES);
    let mut script = String::new();
    for case in &cases {
        let files = make_files(&bench, case);
        let options = case.options();
        bench.lab.ok(&[&["create"], &refs(&options)[..], &refs(&files)].concat());
        let server = bench.lab.assemble(&files, &["--name=losing", "--nbd=unix:socket"]);
        bench.lab.wait_idle("losing");
        bench.lab.ok(&["fail", "losing", &files[0]]);
        let size_bytes = bench.lab.status("losing")["size_bytes"].as_u64().unwrap();
        write_nbd(&bench.lab.path("socket"), 0, bench.expected(size_bytes));
        assert_eq!(server.stop().0, 3, "{case:?}");
        writeln!(
            script,
            "attach {}\nmdadm --assemble --quiet /dev/md0 $DEVS\necho before.{name}=$(cat $(md_sys /dev/md0)/degraded)\n\
             attach_more {}\nmdadm --quiet /dev/md0 --add $MORE\nmdwait /dev/md0\n\
             echo after.{name}=$(cat $(md_sys /dev/md0)/degraded)\nreport {name}\necho mismatch.{name}=$(mismatch /dev/md0)\ndone_with",
            files[1..].join(" "),
            fresh(&bench, case),
            name = case.name,
        )
        .unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    for case in &cases {
        let name = case.name;
        let said = ["before", "after", "same", "mismatch"].map(|key| guest::value(&output, key, name));
        assert_eq!(said, ["1", "0", "yes", "0"], "{name}");
        let size_bytes = guest::value(&output, "size", name).parse().unwrap();
        let members = [&case.files()[1..], &[format!("{name}.new")]].concat();
        bench.assert_exports(&members, bench.expected(size_bytes), false);
        // Without another one, the recovered member has to answer.
        bench.assert_exports(&members[1..], bench.expected(size_bytes), true);
    }
}
