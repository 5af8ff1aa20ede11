//! Metadata of other versions: what uraid converts the kernel assembles with the same contents, there and back; and what mdadm's own
//! conversion leaves is judged right.

use std::fmt::Write as _;

use uraid_referee::require;

use super::guest;
use super::host::Bench;
use crate::lab::refs;

const MEMBER_BYTES: u64 = 8 << 20;

/// Name, options, and the versions that it goes through.
const WAYS: [(&str, &[&str], &[&str]); 5] = [
    ("old5", &["--level=5", "--chunk=64", "--metadata=0.90"], &["1.0"]),
    ("old1", &["--level=1", "--metadata=0.90"], &["1.0"]),
    ("old10", &["--level=10", "--chunk=64", "--metadata=0.90"], &["1.0"]),
    ("new5", &["--level=5", "--chunk=64", "--data-offset=1M", "--size=4M"], &["1.0", "1.1", "1.2", "1.1", "1.0", "1.2"]),
    ("new6", &["--level=6", "--chunk=64", "--data-offset=1M", "--size=4M", "--metadata=1.1"], &["1.2", "1.0", "1.1"]),
];

#[test]
fn the_kernel_assembles_each_version_with_the_same_contents() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let mut script = String::new();
    let mut expected = Vec::new();
    for (name, options, versions) in WAYS {
        let members: Vec<String> = (0..4).map(|index| bench.lab.file(&format!("{name}.{index}"), MEMBER_BYTES)).collect();
        bench.lab.ok(&[&["create", "--assume-clean"], options, &refs(&members)].concat());
        let size_bytes = bench.import(&members, false);
        bench.lab.ok(&[&["resync"], &refs(&members)[..]].concat());
        for (step, version) in versions.iter().enumerate() {
            bench.lab.ok(&[&["convert", "-e", version], &refs(&members)[..]].concat());
            bench.assert_exports(&members, bench.expected(size_bytes), false);
            // A copy, so that what the kernel writes does not get into the next conversion.
            let copies: Vec<String> = members.iter().map(|member| format!("{member}.{step}")).collect();
            for (member, copy) in members.iter().zip(&copies) {
                std::fs::copy(bench.lab.path(member), bench.lab.path(copy)).unwrap();
            }
            let key = format!("{name}.{step}");
            writeln!(
                script,
                "attach {}\nexamine {key}\nmdadm --assemble --quiet /dev/md0 $DEVS\nmdwait /dev/md0\nreport {key}\n\
                 echo version.{key}=$(cat $(md_sys /dev/md0)/metadata_version)\necho degraded.{key}=$(cat $(md_sys /dev/md0)/degraded)\n\
                 echo mismatch.{key}=$(mismatch /dev/md0)\ndone_with",
                copies.join(" "),
            )
            .unwrap();
            expected.push((key, *version, size_bytes, copies));
        }
    }
    let output = guest::run(referee, &bench, &script);
    for (key, version, size_bytes, copies) in expected {
        assert_eq!(guest::value(&output, "size", &key), size_bytes.to_string(), "{key}");
        assert_eq!(guest::value(&output, "same", &key), "yes", "{key}");
        assert_eq!(guest::value(&output, "version", &key), version, "{key}");
        assert_eq!((guest::value(&output, "degraded", &key), guest::value(&output, "mismatch", &key)), ("0", "0"), "{key}");
        for report in guest::examined(&output, &key) {
            assert_eq!(report.fields["Version"], version, "{key}");
        }
        // And what the kernel has left is still the same to uraid.
        bench.assert_exports(&copies, bench.expected(size_bytes), false);
    }
}

/// mdadm leaves the old superblock on the member, with more events than the new one has: the creation time decides.
#[test]
fn what_mdadm_converted_is_judged_by_creation_time() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let members: Vec<String> = (0..3).map(|index| bench.lab.file(&format!("m.{index}"), MEMBER_BYTES)).collect();
    let script = format!(
        "attach {}\nmdadm --create /dev/md0 --run --quiet --metadata=0.90 --level=5 --raid-devices=3 --chunk=64 --homehost=any $DEVS\n\
         mdwait /dev/md0\nfill\nmdadm --stop --quiet /dev/md0\nsleep 2\n\
         mdadm --assemble --quiet --update=metadata /dev/md0 $DEVS\nmdwait /dev/md0\nreport m\n\
         echo version.m=$(cat $(md_sys /dev/md0)/metadata_version)\ndone_with",
        members.join(" "),
    );
    let output = guest::run(referee, &bench, &script);
    assert_eq!((guest::value(&output, "same", "m"), guest::value(&output, "version", "m")), ("yes", "1.0"));
    let size_bytes: u64 = guest::value(&output, "size", "m").parse().unwrap();
    for member in bench.examine(&members) {
        let (new, old) = (&member["superblocks"][0], &member["superblocks_090"][0]);
        assert_eq!((&new["metadata"], &old["metadata"]), (&"1.0".into(), &"0.90".into()), "both are there");
        assert!(new["ctime"].as_u64() >= old["ctime"].as_u64(), "{member}");
        assert!(new["events"].as_u64() < old["events"].as_u64(), "events would choose the old one: {member}");
    }
    let detail = bench.lab.ok(&[&["detail", "--json"], &refs(&members)[..]].concat()).json();
    assert_eq!(detail["arrays"][0]["metadata"], "1.0", "{detail}");
    bench.assert_exports(&members, bench.expected(size_bytes), false);
    // Converted once more nothing but the remains of the old one goes.
    bench.lab.ok(&[&["convert", "-e", "1.0"], &refs(&members)[..]].concat());
    for member in bench.examine(&members) {
        assert_eq!(member["superblocks_090"].as_array().unwrap().len(), 0, "{member}");
    }
    bench.assert_exports(&members, bench.expected(size_bytes), false);
}
