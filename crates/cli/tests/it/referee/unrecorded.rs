//! A RAID0 that does not record its layout: the kernel wants to be told, and so does uraid.

use std::fmt::Write as _;

use uraid_referee::require;

use super::guest;
use super::host::{Bench, assert_same};
use crate::lab::refs;
use crate::superblock::{FEATURE_MAP, LAYOUT, set};

/// What the layouts are called, and the numbers by which the kernel's module takes them.
const LAYOUTS: [(&str, u32); 2] = [("original", 1), ("alternate", 2)];

/// The members of an array that the kernel filled, made by it under one name and read under both.
fn members(name: &str) -> Vec<String> {
    (0..4).map(|index| format!("{name}.{index}")).collect()
}

#[test]
fn both_readings_are_offered_and_each_is_the_kernels() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let mut script = String::new();
    for (name, number) in LAYOUTS {
        for (index, member) in members(name).iter().enumerate() {
            bench.lab.file(member, (5 << 20) + index as u64 * 1_069_056);
        }
        let options = ["create", "--level=0", "--chunk=64", "--layout=original"];
        bench.lab.ok(&[&options[..], &refs(&members(name))].concat());
        for member in members(name) {
            set(&bench.lab.path(&member), FEATURE_MAP, &0_u32.to_le_bytes());
            set(&bench.lab.path(&member), LAYOUT, &0_u32.to_le_bytes());
        }
        writeln!(
            script,
            "attach {}\necho 0 > /sys/module/raid0/parameters/default_layout\n\
             if mdadm --assemble --quiet /dev/md0 $DEVS; then echo untold.{name}=taken; else echo untold.{name}=refused; fi\n\
             mdadm --stop --quiet /dev/md0 || true\n\
             echo {number} > /sys/module/raid0/parameters/default_layout\nmdadm --assemble --quiet /dev/md0 $DEVS\nfill\n\
             report {name}\ndone_with",
            members(name).join(" "),
        )
        .unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    for (name, _) in LAYOUTS {
        assert_eq!(guest::value(&output, "untold", name), "refused");
        assert_eq!(guest::value(&output, "same", name), "yes");
        let expected = bench.expected(guest::value(&output, "size", name).parse().unwrap());
        let before = bench.lab.bytes(&members(name));
        let untold = bench.export(&members(name)).expect(1).stderr;
        for (layout, _) in LAYOUTS {
            assert!(untold.contains(&format!("--layout={layout}")), "{untold}");
            let chosen = format!("--layout={layout}");
            bench.lab.ok(&[&["export", "--output=exported", &chosen], &refs(&members(name))[..]].concat());
            let found = std::fs::read(bench.lab.path("exported")).unwrap();
            if layout == name {
                assert_same(&found, expected, name);
            } else {
                assert!(found != expected && found.len() == expected.len(), "{layout} reads what {name} wrote");
            }
        }
        assert!(before == bench.lab.bytes(&members(name)), "{name}: written to while only read");
        let untold = bench.lab.run(&[&["assemble", "--name=zones", "--daemon"], &refs(&members(name))[..]].concat()).expect(1);
        assert!(untold.stderr.contains("--layout=original"), "{}", untold.stderr);
        let chosen = format!("--layout={name}");
        bench.lab.ok(&[&["assemble", "--name=zones", "--daemon", &chosen], &refs(&members(name))[..]].concat());
        bench.lab.ok(&["stop", "zones"]);
    }
}

/// What is recorded is not open to choice.
#[test]
fn a_recorded_layout_is_kept_to() {
    let bench = Bench::new();
    let members: Vec<String> = (0..3).map(|index| bench.lab.file(&format!("m.{index}"), (5 + index) << 20)).collect();
    bench.lab.ok(&[&["create", "--level=0", "--layout=original"], &refs(&members)[..]].concat());
    let chosen = |layout| bench.lab.run(&[&["export", "--output=out", layout], &refs(&members)[..]].concat());
    let said = chosen("--layout=alternate").expect(1).stderr;
    assert!(said.contains("has the layout original"), "{said}");
    chosen("--layout=original").expect(0);
    chosen("--layout=left-symmetric").expect(2);
}
