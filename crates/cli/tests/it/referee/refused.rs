//! What the kernel refuses, uraid refuses as well; and the other way.

use std::fmt::Write as _;

use uraid_referee::require;

use super::guest;
use super::host::{Bench, write_nbd};
use crate::lab::refs;
use crate::superblock::{CHECKSUM, DATA_OFFSET, FEATURE_MAP, MAGIC, MAJOR_VERSION, MAX_DEV, set, spoil};

/// Sectors of data that a member has.
const DATA_SIZE: usize = DATA_OFFSET + 8;
/// Where the superblock says that it is.
const SUPER_OFFSET: usize = DATA_SIZE + 8;
const MEMBER_BYTES: u64 = 5 << 20;

/// Superblocks by what is wrong with them.
fn damaged(bench: &Bench) -> Vec<String> {
    let members: Vec<String> = (0..3).map(|index| bench.lab.file(&format!("whole.{index}"), MEMBER_BYTES)).collect();
    bench.lab.ok(&[&["create", "--level=5", "--chunk=64"], &refs(&members)[..]].concat());
    // With a right checksum, or with the old one.
    let damages = [
        ("sound", true, MAGIC, &0xa92b_4efc_u32.to_le_bytes()[..]),
        ("magic", true, MAGIC, &[0]),
        ("version", true, MAJOR_VERSION, &[2]),
        ("checksum", false, CHECKSUM, &[0x55, 0xaa]),
        ("bit-flip", false, DATA_SIZE + 1, &[0x11]),
        ("unknown-feature", true, FEATURE_MAP, &[0, 0, 1]),
        ("elsewhere", true, SUPER_OFFSET, &[16]),
        ("beyond-the-end", true, DATA_SIZE, &[0, 0, 0, 1]),
        ("too-many-roles", true, MAX_DEV, &[0, 8]),
    ];
    let spoiled = damages.map(|(name, is_summed, field, value)| {
        std::fs::copy(bench.lab.path(&members[0]), bench.lab.path(name)).unwrap();
        let damage = if is_summed { set } else { spoil };
        damage(&bench.lab.path(name), field, value);
        name.to_owned()
    });
    spoiled.into()
}

#[test]
fn superblocks_that_the_kernel_refuses_are_refused() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let names = damaged(&bench);
    // The kernel alone, without mdadm's opinion.
    let mut script = String::new();
    for (index, name) in names.iter().enumerate() {
        writeln!(
            script,
            "echo md_judge{index} > /sys/module/md_mod/parameters/new_array\nJ=/sys/block/md_judge{index}/md\nattach {name}\necho 1.2 > $J/metadata_version\n\
             if cat /sys/block/$(basename $DEVS)/dev > $J/new_dev; then echo taken.{name}=true; else echo taken.{name}=false; fi\n\
             echo clear > $J/array_state\ndetach",
        )
        .unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    let by_kernel: Vec<bool> = names.iter().map(|name| guest::value(&output, "taken", name).parse().unwrap()).collect();
    let by_uraid: Vec<bool> = names.iter().map(|name| bench.lab.run(&["examine", name]).code == 0).collect();
    assert_eq!(by_kernel, by_uraid, "{names:?}");
    assert_eq!(by_kernel.iter().filter(|taken| **taken).count(), 1, "{names:?}: {by_kernel:?}");
}

/// Arrays left dirty, with a member gone: parity arrays are refused without force, mirrors are not.
#[test]
fn dirty_and_degraded_is_refused_by_both() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let levels = ["--level=5", "--level=6", "--level=1", "--level=10"];
    let mut script = String::new();
    for (index, level) in levels.iter().enumerate() {
        let members = |by: &str| (0..4).map(|member| format!("{by}{index}.{member}")).collect::<Vec<_>>();
        for member in [members("md"), members("uraid")].iter().flatten() {
            bench.lab.file(member, MEMBER_BYTES);
        }
        // By the kernel: dirty copies.
        let options = "--raid-devices=4 --assume-clean --bitmap=none --homehost=any";
        writeln!(
            script,
            "attach {}\nmdadm --create /dev/md0 --run --quiet {options} {level} $DEVS\n\
             echo 1000 > $(md_sys /dev/md0)/safe_mode_delay\ndd if=/tmp/pattern of=/dev/md0 bs=64K count=4 oflag=direct status=none\nsync",
            members("md").join(" "),
        )
        .unwrap();
        for member in members("md") {
            writeln!(script, "cp $W/{member} $W/{member}.cut").unwrap();
        }
        script += "done_with\n";
        // By uraid: killed.
        bench.lab.ok(&[&["create", level, "--assume-clean"], &refs(&members("uraid"))[..]].concat());
        let server = bench.lab.assemble(&members("uraid"), &["--name=dirty", "--nbd=unix:socket"]);
        write_nbd(&bench.lab.path("socket"), 0, &bench.pattern[..256 << 10]);
        server.kill();
        for (by, end) in [("md", ".cut"), ("uraid", "")] {
            writeln!(
                script,
                "attach {by}{index}.0{end} {by}{index}.1{end} {by}{index}.2{end}\nmdadm --assemble --run --quiet /dev/md0 $DEVS || true\n\
                 S=$(cat $(md_sys /dev/md0)/array_state 2>&1 || true)\necho state.{by}{index}=$S\n\
                 mdadm --stop --quiet /dev/md0 || true\ndetach",
            )
            .unwrap();
        }
    }
    // The kernel may have written to what uraid left.
    let copies: Vec<String> =
        (0..levels.len()).flat_map(|index| (0..3).map(move |member| format!("uraid{index}.{member}"))).collect();
    for name in &copies {
        std::fs::copy(bench.lab.path(name), bench.lab.path(&format!("{name}.copy"))).unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    for (index, level) in levels.iter().enumerate() {
        for (by, end) in [("md", ".cut"), ("uraid", ".copy")] {
            let state = guest::value(&output, "state", &format!("{by}{index}"));
            let started_by_kernel = ["clean", "active", "active-idle"].contains(&state);
            assert_eq!(started_by_kernel, index >= 2, "{level} by {by}: {state}\n{}", output.stdout);
            let members: Vec<String> = (0..3).map(|member| format!("{by}{index}.{member}{end}")).collect();
            let degraded = bench.lab.run(&[&["assemble", "--run", "--name=d", "--daemon"], &refs(&members)[..]].concat());
            if started_by_kernel {
                degraded.expect(3);
                bench.lab.run(&["stop", "d"]).expect(0);
            } else {
                let said = degraded.expect(1).stderr;
                assert!(said.contains("was not stopped cleanly") && said.contains("--force"), "{level} by {by}: {said}");
                bench.lab.run(&[&["assemble", "--force", "--name=d", "--daemon"], &refs(&members)[..]].concat()).expect(3);
                bench.lab.run(&["stop", "d"]).expect(0);
            }
        }
    }
}
