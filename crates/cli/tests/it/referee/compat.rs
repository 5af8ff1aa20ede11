//! `examine --compat` against the kernel that is here: what it takes is from before it, what it refuses from after it.

use std::fmt::Write as _;

use uraid_referee::require;

use super::guest;
use super::host::Bench;
use crate::lab::refs;

const MEMBER_BYTES: u64 = 8 << 20;

/// Arrays by name; each has two members that are called after it.
const ARRAYS: [(&str, &[&str]); 7] = [
    ("plain", &["--level=1"]),
    ("old", &["--level=1", "--metadata=0.90"]),
    ("end-bitmap", &["--level=1", "--metadata=1.0", "--bitmap=internal"]),
    ("zones", &["--level=0", "--chunk=64"]),
    ("linear", &["--level=linear"]),
    ("parity", &["--level=5", "--chunk=64", "--bitmap=internal"]),
    ("block", &["--level=1", "--logical-block-size=4096"]),
];

/// The numbers of a release.
fn release(text: &str) -> Vec<u32> {
    text.split(['.', '-']).map_while(|number| number.parse().ok()).collect()
}

#[test]
fn the_kernel_takes_what_is_from_before_it() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let mut script = "echo kernel.here=$(uname -r)\n".to_owned();
    for (name, options) in ARRAYS {
        let members: Vec<String> = (0..2).map(|index| bench.lab.file(&format!("{name}.{index}"), MEMBER_BYTES)).collect();
        bench.lab.ok(&[&["create"], options, &refs(&members)].concat());
        writeln!(
            script,
            "attach {}\nif mdadm --assemble --run --quiet /dev/md0 $DEVS; then echo taken.{name}=true; mdadm --stop --quiet /dev/md0; \
             else echo taken.{name}=false; mdadm --stop --quiet /dev/md0 || true; fi\ndetach",
            members.join(" "),
        )
        .unwrap();
    }
    // Before the kernel writes to any of them.
    let since: Vec<String> = ARRAYS
        .iter()
        .map(|(name, _)| {
            let told = bench.lab.ok(&["examine", "--compat", "--json", &format!("{name}.1")]).json();
            told["members"][0]["superblocks"][0]["since"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(since, ["2.6.10", "2.4.0", "2.6.14", "5.4", "2.6.10", "2.6.15", "6.19"]);
    let output = guest::run(referee, &bench, &script);
    let here = release(guest::value(&output, "kernel", "here"));
    for ((name, _), since) in ARRAYS.iter().zip(&since) {
        let taken = guest::value(&output, "taken", name) == "true";
        assert_eq!(taken, here >= release(since), "{name} from {since} on, here {here:?}:\n{}", output.stdout);
    }
    let text = bench.lab.ok(&["examine", "--compat", "block.0"]).stdout;
    assert!(text.contains("from Linux 6.19 on") && text.contains("byte 224") && text.contains("[md.rst]"), "{text}");
}
