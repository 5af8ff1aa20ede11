//! mdadm makes arrays and the kernel writes to them; uraid reads them, whole and degraded, sees the same metadata, and writes
//! nothing.

use std::fmt::Write as _;

use uraid_referee::require;

use super::agree::{assert_bitmap, assert_member};
use super::cases::{COMBINED, CONVERTED, COPIES, Case, PARITY, PLAIN, TWO_PARITIES, chosen};
use super::guest;
use super::host::{Bench, without};
use crate::lab::refs;

/// Who makes the metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Mdadm,
    /// For what mdadm has no name for.
    Uraid,
}

fn read_all(by: By, cases: &[Case]) {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let cases = chosen(cases);
    let mut script = String::new();
    for case in &cases {
        for (index, file) in case.files().iter().enumerate() {
            bench.lab.file(file, case.member_bytes(index));
        }
        let options = case.options();
        let start = match by {
            By::Mdadm => format!("--create /dev/md0 --run --quiet --homehost=any {}", options.join(" ")),
            By::Uraid => {
                bench.lab.ok(&[&["create"], &refs(&options)[..], &refs(&case.files())].concat());
                "--assemble --quiet /dev/md0".to_owned()
            }
        };
        writeln!(
            script,
            "attach {}\nmdadm {start} $DEVS\nmdwait /dev/md0\nfill\nreport {name}\n\
             mdadm --stop --quiet /dev/md0\nexamine {name}\n{}\ndetach",
            case.files().join(" "),
            if case.bitmap { format!("examine_bitmap {}", case.name) } else { String::new() },
            name = case.name,
        )
        .unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    for case in &cases {
        assert_eq!(guest::value(&output, "same", case.name), "yes", "{case:?}");
        let size_bytes = guest::value(&output, "size", case.name).parse().unwrap();
        let by_uraid = bench.examine(&case.files());
        for (index, (mdadm, member)) in guest::examined(&output, case.name).iter().zip(&by_uraid).enumerate() {
            assert_member(case, mdadm, member);
            if case.bitmap {
                assert_bitmap(case, &guest::examined_bitmap(&output, case.name, index), member, size_bytes);
            }
        }
        read(&bench, case, size_bytes);
    }
}

/// Reads one array that the kernel filled with the pattern.
fn read(bench: &Bench, case: &Case, size_bytes: u64) {
    let files = case.files();
    let before = bench.lab.bytes(&files);
    // Any order will do.
    let reversed: Vec<String> = files.iter().rev().cloned().collect();
    let expected = bench.expected(size_bytes);
    bench.assert_exports(&reversed, expected, false);
    for loss in case.losses() {
        bench.assert_exports(&without(&files, &loss), expected, true);
    }
    // The first chunk has all its copies on the first members, whatever the layout.
    let fatal: Vec<usize> = (0..=case.may_lose).collect();
    if fatal.len() < case.members {
        let ended = bench.export(&without(&files, &fatal)).expect(1);
        assert!(ended.stderr.contains("not enough members"), "{case:?}: {}", ended.stderr);
    }
    for (file, (before, after)) in files.iter().zip(before.iter().zip(bench.lab.bytes(&files))) {
        assert!(*before == after, "{file}: written to while only read");
    }
}

#[test]
fn stripes_and_mirrors_of_the_kernel_are_read() {
    read_all(By::Mdadm, PLAIN);
}

#[test]
fn parity_arrays_of_the_kernel_are_read() {
    read_all(By::Mdadm, PARITY);
}

#[test]
fn two_parity_arrays_of_the_kernel_are_read() {
    read_all(By::Mdadm, TWO_PARITIES);
}

#[test]
fn converted_arrays_of_the_kernel_are_read() {
    read_all(By::Mdadm, CONVERTED);
}

#[test]
fn combined_copies_of_the_kernel_are_read() {
    read_all(By::Uraid, COMBINED);
}

#[test]
fn striped_copies_of_the_kernel_are_read() {
    read_all(By::Mdadm, COPIES);
}
