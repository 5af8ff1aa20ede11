//! uraid makes and fills arrays; the kernel checks them, fails a member, rebuilds, adds a bitmap, makes them larger; uraid reads
//! what has become of them.

use uraid_referee::{Output, require};

use super::shapes::{METADATA, SHAPES, Shape};
use super::{Entry, run};
use crate::lab::refs;
use crate::referee::guest;
use crate::referee::host::Bench;

fn all() -> Vec<Entry<()>> {
    let shapes = SHAPES.iter().flat_map(|shape| METADATA.map(|metadata| (shape, metadata)));
    let shapes = shapes.filter(|(shape, metadata)| shape.fits(metadata));
    shapes
        .enumerate()
        .map(|(number, (shape, metadata))| Entry { shape, metadata, state: (), name: format!("u{number}") })
        .collect()
}

/// Can the kernel make it larger by one member? mdadm wants room beside the array for several stripes, which small members have not.
fn grows(shape: &Shape) -> bool {
    const ROOM_KIB: u32 = 256;
    let of_its_own = !shape.layout.ends_with("-6") && !shape.layout.starts_with("ddf");
    let fits = shape.chunk_kib * shape.members as u32 <= ROOM_KIB;
    matches!(shape.level, "1" | "4" | "5" | "6") && of_its_own && fits
}

fn script(bench: &Bench, entry: &Entry<()>) -> String {
    let (name, files) = (&entry.name, entry.files());
    entry.make_files(bench);
    bench.lab.file(&format!("{name}.more"), entry.shape.member_bytes(0));
    let mut options = entry.options();
    if entry.shape.is_redundant() {
        options.extend(["--bitmap=none".to_owned(), "--assume-clean".to_owned()]);
    }
    bench.lab.ok(&[&["create"], &refs(&options)[..], &refs(&files)].concat());
    bench.import(&files, false);
    // What was not written was never parity's business.
    if entry.shape.is_redundant() {
        bench.lab.run(&[&["repair"], &refs(&files)[..]].concat());
    }
    let mut script = format!(
        "attach {}\nattach_more {}\nmdadm --assemble --quiet /dev/md0 $DEVS\nmdwait /dev/md0\nM=$(md_sys /dev/md0)\nreport {name}\n",
        files.join(" "),
        entry.spare()
    );
    if entry.shape.is_redundant() {
        script += &format!("echo mismatch.{name}=$(mismatch /dev/md0)\n");
        script += "set -- $DEVS; mdadm --quiet /dev/md0 --fail $2; mdadm --quiet /dev/md0 --remove $2\n\
                   mdadm --quiet /dev/md0 --add $MORE\nmdwait /dev/md0\n";
        script += &format!("report after.{name}\necho mismatch.after.{name}=$(mismatch /dev/md0)\n");
    }
    if grows(entry.shape) {
        script += &format!(
            "EVEN=$(losetup -f --show $W/{name}.more)\nmdadm --quiet /dev/md0 --add $EVEN\n\
             again mdadm --quiet --grow --raid-devices={} /dev/md0\nmdwait /dev/md0\necho size.grown.{name}=$(blockdev --getsize64 /dev/md0)\n",
            entry.shape.members + 1
        );
    }
    if entry.shape.is_redundant() {
        script += "again mdadm --quiet --grow --bitmap=internal /dev/md0\n";
    }
    script += "mdadm --stop --quiet /dev/md0\n";
    if grows(entry.shape) {
        // Linux 6.1 leaves wrong parity behind where it makes some arrays larger, and sees it once it has assembled them again.
        script += "set -- $DEVS; FIRST=$1; shift 2\nmdadm --assemble --quiet /dev/md0 $FIRST $MORE $@ $EVEN\nmdwait /dev/md0\n";
        script += &format!("echo mismatch.grown.{name}=$(mismatch /dev/md0)\nmdadm --stop --quiet /dev/md0\nlosetup -d $EVEN\n");
    }
    script += "detach\n";
    script
}

fn check(bench: &Bench, entry: &Entry<()>, output: &Output) {
    let (name, shape) = (&entry.name, entry.shape);
    let said = |key: &str| guest::value(output, key, name).to_owned();
    let mut members = entry.files();
    assert_eq!(said("same"), "yes", "{entry:?}");
    let mut size_bytes: u64 = said("size").parse().unwrap();
    if shape.is_redundant() {
        assert_eq!(
            (said("mismatch"), said("same.after"), said("mismatch.after")),
            ("0".into(), "yes".into(), "0".into()),
            "{entry:?}"
        );
        members[1] = entry.spare();
    }
    if grows(shape) {
        size_bytes = said("size.grown").parse().unwrap();
        members.push(format!("{name}.more"));
    }
    bench.export(&members).expect(0);
    let exported = std::fs::read(bench.lab.path("exported")).unwrap();
    assert_eq!(exported.len() as u64, size_bytes, "{entry:?}");
    let filled: usize = said("size").parse().unwrap();
    assert!(exported[..filled] == *bench.expected(filled as u64), "{entry:?}: not what was written");
    if shape.is_redundant() {
        let mismatches = if grows(shape) { said("mismatch.grown") } else { "0".to_owned() };
        let checked =
            bench.lab.run(&[&["check", "--json"], &refs(&members)[..]].concat()).expect(if mismatches == "0" { 0 } else { 3 });
        assert_eq!(checked.json()["mismatch_sectors"].to_string(), mismatches, "{entry:?}");
    }
}

#[test]
fn whatever_uraid_makes_the_kernel_works_with() {
    let Some(referee) = require() else { return };
    run(referee, "made by uraid", &all(), Bench::new, script, check);
}
