//! uraid makes and fills arrays; the kernel assembles them, finds the same contents and no mismatch, and mdadm sees the same
//! metadata.

use std::fmt::Write as _;

use serde_json::Value;
use uraid_referee::require;

use super::agree::{assert_bitmap, assert_member};
use super::cases::{COMBINED, CONVERTED, COPIES, Case, INCOMPLETE, PARITY, PLAIN, TWO_PARITIES, chosen};
use super::guest;
use super::host::Bench;
use crate::lab::refs;

/// An array that uraid made.
struct Made {
    case: Case,
    /// The members that are there.
    files: Vec<String>,
    size_bytes: u64,
    /// `uraid examine --json` of each.
    examined: Vec<Value>,
}

/// Makes and fills an array. Of every other one the resync is left to the kernel.
fn make(bench: &Bench, case: Case, resync: bool) -> Made {
    let all: Vec<String> = case.files();
    for (index, name) in all.iter().enumerate().filter(|(_, name)| *name != "missing") {
        bench.lab.file(name, case.member_bytes(index));
    }
    let files: Vec<String> = all.iter().filter(|name| *name != "missing").cloned().collect();
    let degraded = all.len() > files.len();
    let options = case.options();
    bench.lab.run(&[&["create"], &refs(&options)[..], &refs(&all)].concat()).expect(if degraded { 3 } else { 0 });
    let size_bytes = bench.import(&files, degraded);
    if resync && case.is_redundant() && !degraded {
        bench.lab.ok(&[&["resync"], &refs(&files)[..]].concat());
        bench.lab.ok(&[&["check"], &refs(&files)[..]].concat());
    }
    let examined = bench.examine(&files);
    Made { case, files, size_bytes, examined }
}

fn script(made: &Made) -> String {
    let (case, name) = (&made.case, made.case.name);
    let mut script = format!("attach {}\nexamine {name}\n", made.files.join(" "));
    if case.bitmap {
        writeln!(script, "examine_bitmap {name}").unwrap();
    }
    writeln!(script, "mdadm --assemble --quiet /dev/md0 $DEVS\nmdwait /dev/md0\nreport {name}").unwrap();
    if case.is_redundant() {
        writeln!(script, "echo mismatch.{name}=$(mismatch /dev/md0)").unwrap();
    }
    writeln!(script, "done_with").unwrap();
    script
}

fn make_all(cases: &[Case]) {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let cases = chosen(cases).into_iter().enumerate();
    let all: Vec<Made> = cases.map(|(index, case)| make(&bench, case, index % 2 == 0)).collect();
    let text: String = all.iter().map(script).collect();
    let output = guest::run(referee, &bench, &text);
    for made in &all {
        let (case, name) = (&made.case, made.case.name);
        assert_eq!(guest::value(&output, "size", name), made.size_bytes.to_string(), "{case:?}");
        assert_eq!(guest::value(&output, "same", name), "yes", "{case:?}");
        if case.is_redundant() {
            assert_eq!(guest::value(&output, "mismatch", name), "0", "{case:?}");
        }
        let by_mdadm = guest::examined(&output, name);
        assert_eq!(by_mdadm.len(), made.files.len());
        for (index, (mdadm, member)) in by_mdadm.iter().zip(&made.examined).enumerate() {
            assert_member(case, mdadm, member);
            if mdadm.fields.contains_key("Array Size") {
                // Of RAID10 mdadm counts the parts of chunks at the ends of the members too; the kernel does not.
                let more_kib = mdadm.number("Array Size") - made.size_bytes / 1024;
                let uneven = if case.level == "10" { u64::from(case.chunk_kib) * case.members as u64 } else { 1 };
                assert!(more_kib < uneven, "{case:?}: {more_kib} KiB more by mdadm");
            }
            if case.bitmap {
                assert_bitmap(case, &guest::examined_bitmap(&output, name, index), member, made.size_bytes);
            }
        }
        // And what the kernel has left is still the same to uraid.
        let degraded = case.missing > case.spares;
        bench.assert_exports(&made.files, bench.expected(made.size_bytes), degraded);
    }
}

#[test]
fn stripes_and_mirrors_are_the_same_to_the_kernel() {
    make_all(PLAIN);
}

#[test]
fn parity_arrays_are_the_same_to_the_kernel() {
    make_all(PARITY);
}

#[test]
fn two_parity_arrays_are_the_same_to_the_kernel() {
    make_all(TWO_PARITIES);
}

#[test]
fn converted_arrays_are_the_same_to_the_kernel() {
    make_all(CONVERTED);
}

#[test]
fn combined_copies_are_the_same_to_the_kernel() {
    make_all(COMBINED);
}

#[test]
fn striped_copies_are_the_same_to_the_kernel() {
    make_all(COPIES);
}

#[test]
fn arrays_with_spares_and_gaps_are_the_same_to_the_kernel() {
    make_all(INCOMPLETE);
}
