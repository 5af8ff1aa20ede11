//! mdadm makes arrays and the kernel writes to them; uraid reads them, whole and degraded, and writes nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use uraid_referee::require;

use super::cases::{COPIES, Case, PARITY, PLAIN, TWO_PARITIES, chosen};
use super::guest;
use super::host::Bench;

fn read_all(cases: &[Case]) {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let cases = chosen(cases);
    let mut script = String::new();
    for case in &cases {
        for (index, file) in case.files(bench.path()).iter().enumerate() {
            bench.sparse(&file.file_name().unwrap().to_string_lossy(), case.member_bytes(index));
        }
        let name = case.name;
        let files: Vec<String> = (0..case.members).map(|index| format!("{name}.{index}")).collect();
        writeln!(
            script,
            "attach {}\nmdadm --create /dev/md0 --run --quiet --homehost=any {} $DEVS\nmdwait /dev/md0\nfill\nreport {name}\n\
             mdadm --stop --quiet /dev/md0\ndetach",
            files.join(" "),
            case.options().join(" "),
        )
        .unwrap();
    }
    let output = guest::run(referee, bench.path(), &script);
    for case in &cases {
        assert_eq!(guest::value(&output, "same", case.name), "yes", "{case:?}");
        let size_bytes = guest::value(&output, "size", case.name).parse().unwrap();
        read(&bench, case, size_bytes);
    }
}

/// Reads one array that the kernel filled with the pattern.
fn read(bench: &Bench, case: &Case, size_bytes: u64) {
    let mut files = case.files(bench.path());
    let before: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    // Any order will do.
    files.reverse();
    bench.assert_exports(&files, size_bytes, false);
    files.reverse();
    for loss in case.losses() {
        bench.assert_exports(&without(&files, &loss), size_bytes, case.is_redundant());
    }
    // The first chunk has all its copies on the first members, whatever the layout.
    let fatal: Vec<usize> = (0..=case.may_lose).collect();
    if fatal.len() < case.members {
        let ran = bench.export(&without(&files, &fatal));
        ran.assert_status(1);
        assert!(ran.stderr.contains("not enough members"), "{case:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{case:?}");
    }
    for (file, before) in files.iter().zip(&before) {
        assert!(fs::read(file).unwrap() == *before, "{}: written to while only read", file.display());
    }
}

fn without(files: &[PathBuf], lost: &[usize]) -> Vec<PathBuf> {
    files.iter().enumerate().filter(|(index, _)| !lost.contains(index)).map(|(_, file)| file.clone()).collect()
}

#[test]
fn stripes_and_mirrors_of_the_kernel_are_read() {
    read_all(PLAIN);
}

#[test]
fn parity_arrays_of_the_kernel_are_read() {
    read_all(PARITY);
}

#[test]
fn two_parity_arrays_of_the_kernel_are_read() {
    read_all(TWO_PARITIES);
}

#[test]
fn striped_copies_of_the_kernel_are_read() {
    read_all(COPIES);
}
