//! `assemble --update=no-bitmap`: an array whose bitmap is damaged, or of a kind that uraid does not write, is only read until the
//! bitmap is dropped; the kernel then finds an array without one.

use std::os::unix::fs::FileExt;

use uraid_referee::require;

use super::guest;
use super::host::Bench;
use crate::lab::refs;

const MEMBER_BYTES: u64 = 5 << 20;

/// Changes a byte of the bitmaps on the members.
fn change_bitmaps(bench: &Bench, members: &[String], at: u64, value: u8) {
    for member in members {
        let report = bench.lab.run(&["examine", "-X", "--json", member]).json();
        let start = report["bitmaps"][0]["start_byte"].as_u64().unwrap();
        let file = std::fs::File::options().write(true).open(bench.lab.path(member)).unwrap();
        file.write_all_at(&[value], start + at).unwrap();
    }
}

#[test]
fn a_bitmap_that_cannot_be_used_is_dropped_and_the_kernel_goes_on() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let mut script = String::new();
    // The magic; a lockless bitmap, which leaves more than its bits unknown.
    let cases = [("damaged", 0, b'x', true), ("lockless", 4, 6, false)];
    for (name, at, value, stays) in cases {
        let members: Vec<String> = (0..4).map(|index| bench.lab.file(&format!("{name}.{index}"), MEMBER_BYTES)).collect();
        bench.lab.ok(&[
            &["create", "--level=5", "--layout=parity-last", "--chunk=64", "--bitmap=internal", "--assume-clean"],
            &refs(&members)[..],
        ]
        .concat());
        bench.import(&members, false);
        bench.lab.ok(&[&["resync"], &refs(&members)[..]].concat());
        bench.spoil(&members[3], 1 << 20);
        change_bitmaps(&bench, &members, at, value);
        let before = bench.lab.bytes(&members);
        std::fs::write(bench.lab.path("news"), [1; 4096]).unwrap();
        let refused = bench.lab.run(&[&["import", "--input=news"], &refs(&members)[..]].concat()).expect(1);
        assert!(refused.stderr.contains("--update=no-bitmap"), "{}", refused.stderr);
        bench.assert_exports(&members, bench.expected(bench.size_bytes(&members)), false);
        assert!(before == bench.lab.bytes(&members), "{name}: written to");

        let server = bench.lab.assemble(&members, &["--update=no-bitmap", "--name=dropped"]);
        let status = bench.lab.wait_idle("dropped");
        assert_eq!((&status["bitmap"], &status["read_only"]), (&serde_json::Value::Null, &false.into()), "{status}");
        server.kill();
        assert_eq!(bench.is_spoilt(&members[3], 1 << 20), stays, "{name}: parity is resynced where only the bitmap knew");
        script += &format!(
            "attach {}\nexamine {name}\nmdadm --assemble --quiet /dev/md0 $DEVS\nmdwait /dev/md0\n\
             echo location.{name}=$(cat $(md_sys /dev/md0)/bitmap/location)\necho mismatch.{name}=$(mismatch /dev/md0)\nreport {name}\n\
             done_with\n",
            members.join(" ")
        );
    }
    let output = guest::run(referee, &bench, &script);
    for (name, _, _, stays) in cases {
        let reports = guest::examined(&output, name);
        assert!(
            reports.iter().all(|report| report.field("Feature Map") == "0x0" && !report.fields.contains_key("Internal Bitmap"))
        );
        assert_eq!(guest::value(&output, "location", name), "none");
        assert_eq!(guest::value(&output, "mismatch", name), if stays { "8" } else { "0" });
        assert_eq!(guest::value(&output, "same", name), "yes");
    }
}
