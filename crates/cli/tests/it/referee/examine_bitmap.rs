//! `examine --bitmap` against `mdadm --examine-bitmap`: every field that mdadm prints, of bitmaps on members and in files of their
//! own; and which regions are dirty, against what was written.

use std::fmt::Write as _;
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};
use uraid_referee::{Report, parse_examine, require};

use super::guest;
use super::host::Bench;

/// A name, mdadm's options, and where the kernel's array is written: three chunks of 64 KiB from 1 MiB of it on, and one at 4 MiB.
const ARRAYS: [(&str, usize, &str); 7] = [
    ("v12", 2, "-l1 -e1.2 --bitmap=internal --bitmap-chunk=64K"),
    ("v11", 3, "-l5 -e1.1 --chunk=64 --bitmap=internal --bitmap-chunk=64K"),
    ("v10", 4, "-l10 -e1.0 --chunk=64 --bitmap=internal --bitmap-chunk=64K"),
    ("v090", 2, "-l1 -e0.90 --bitmap=internal --bitmap-chunk=64K"),
    ("wide", 2, "-l1 -e1.2 --bitmap=internal --bitmap-chunk=128M"),
    ("behind", 2, "-l1 -e1.2 --write-behind=77 --bitmap=internal --bitmap-chunk=64K"),
    ("file", 2, "-l1 -e1.2 --bitmap=/tmp/fs/file --bitmap-chunk=64K"),
];

fn script(bench: &Bench) -> String {
    bench.lab.file("fs", 16 << 20);
    let mut script = "mkfs.ext4 -q $W/fs\nmkdir -p /tmp/fs\nmount -o loop $W/fs /tmp/fs\n".to_owned();
    for (name, members, options) in ARRAYS {
        let files: Vec<String> = (0..members).map(|index| bench.lab.file(&format!("{name}.{index}"), 16 << 20)).collect();
        let count = files.len();
        let again = if name == "file" { "--bitmap=/tmp/fs/file" } else { "" };
        writeln!(
            script,
            "attach {files}\nmdadm --create /dev/md0 --run --quiet --homehost=any -n{count} --assume-clean {options} $DEVS\n\
             mdadm --stop --quiet /dev/md0\nmdadm --assemble --quiet {again} /dev/md0 $DEVS\n\
             echo 1000 > $(md_sys /dev/md0)/safe_mode_delay\necho 1000 > $(md_sys /dev/md0)/bitmap/time_base\n\
             dd if=/dev/zero of=/dev/md0 bs=64K seek=16 count=3 oflag=direct status=none\n\
             dd if=/dev/zero of=/dev/md0 bs=64K seek=64 count=1 oflag=direct status=none\nsync\necho 3 > /proc/sys/vm/drop_caches\n\
             examine_bitmap {name}\nif [ -e /tmp/fs/{name} ]; then\n\
             echo \"@bitmap {name} file\"; mdadm --examine-bitmap /tmp/fs/{name}; echo @end; cp /tmp/fs/{name} $W/{name}; fi\n\
             for f in {files}; do cp $W/$f $W/$f.cut; done\ndone_with",
            files = files.join(" "),
        )
        .unwrap();
    }
    script.replace("examine_bitmap file\n", "")
}

/// uraid's words for one member or file, as mdadm's are read.
fn words(bench: &Bench, name: &str, code: i32) -> Report {
    let ended = bench.lab.run(&["examine", "--bitmap", name]).expect(code);
    parse_examine(&format!("/bitmap:\n{}", ended.stdout)).remove(0)
}

/// Asserts that uraid says all that mdadm says.
#[track_caller]
fn assert_same(mdadm: &Report, own: &Report, what: &str) {
    assert!(mdadm.fields.len() >= 12, "{what}: mdadm said only {:#?}", mdadm.fields);
    for (label, value) in mdadm.fields.iter().filter(|(label, _)| *label != "Filename") {
        assert_eq!(own.field(label), value, "{label} of {what}");
    }
}

fn dirty(bench: &Bench, name: &str) -> Vec<Value> {
    let report = bench.lab.ok(&["examine", "-X", "--json", name]).json();
    report["bitmaps"][0]["dirty"].as_array().unwrap().clone()
}

#[test]
fn every_field_is_as_mdadm_has_it_and_regions_are_those_written() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let output = guest::run(referee, &bench, &script(&bench));
    for (name, members, _) in ARRAYS.into_iter().filter(|(name, ..)| *name != "file") {
        for index in 0..members {
            let what = format!("{name}.{index}.cut");
            assert_same(&guest::examined_bitmap(&output, name, index), &words(&bench, &what, 0), &what);
        }
    }
    let file = output.stdout.split_once("@bitmap file file\n").unwrap().1.split_once("@end").unwrap().0;
    assert_same(&parse_examine(&format!("/bitmap:\n{file}")).remove(0), &words(&bench, "file", 0), "file");

    let run = |first_bit: u64, bits: u64, member: Value, array: Value| json!({ "first_bit": first_bit, "bits": bits, "member": member, "array": array });
    let range = |start: u64, sectors: u64| json!({ "start_sector": start, "sectors": sectors });
    // A mirror's members are as long as the array.
    let mirror = [run(16, 3, range(2048, 384), range(2048, 384)), run(64, 1, range(8192, 128), range(8192, 128))];
    for name in ["v12.0.cut", "v12.1.cut", "v090.1.cut", "behind.0.cut"] {
        assert_eq!(dirty(&bench, name), mirror, "{name}");
    }
    // Array chunks 16 to 18 are in rows 8 and 9 of two data members, chunk 64 is in row 32.
    let parity = [run(8, 2, range(1024, 256), range(2048, 512)), run(32, 1, range(4096, 128), range(8192, 256))];
    assert_eq!(dirty(&bench, "v11.2.cut"), parity);
    // RAID10's bits stand for the array; one for all of it is cut at its end.
    let copies = [run(16, 3, Value::Null, range(2048, 384)), run(64, 1, Value::Null, range(8192, 128))];
    assert_eq!(dirty(&bench, "v10.3.cut"), copies);
    assert_eq!(dirty(&bench, "wide.0.cut"), [run(0, 1, range(0, 15 << 11), range(0, 15 << 11))]);
    // A file does not say of which level it is.
    let alone = [run(16, 3, range(2048, 384), Value::Null), run(64, 1, range(8192, 128), Value::Null)];
    assert_eq!(dirty(&bench, "file"), alone);
}

/// Heads as other kernels write them, and what is none: mdadm here, on the same files.
#[test]
fn odd_heads_are_told_as_mdadm_tells_them() {
    // mdadm is among what the referee needs.
    if require().is_none() {
        return;
    }
    let bench = Bench::new();
    let mut head = vec![0; 256];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"bitm");
    put(4, &4_u32.to_le_bytes());
    put(8, &[7; 16]);
    put(24, &19_u64.to_le_bytes());
    put(32, &18_u64.to_le_bytes());
    put(40, &(64_u64 << 11).to_le_bytes());
    put(52, &(1_u32 << 20).to_le_bytes());
    put(56, &5_u32.to_le_bytes());
    head.extend([0b1010_0001, 0xff, 0, 0, 0x80, 0, 0, 0]);
    let path = bench.lab.path("odd");
    let cases: [(u64, &[u8]); 6] = [(48, &[0]), (48, &[2]), (48, &[6]), (60, &[16]), (4, &[3]), (52, &[0, 2, 0, 0])];
    for (at, bytes) in cases {
        std::fs::write(&path, &head).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        // Small chunks need more bits.
        file.set_len(256 + (64 << 11) / 8).unwrap();
        file.write_all_at(bytes, at).unwrap();
        let mdadm = crate::lab::program("mdadm", &["--examine-bitmap", path.to_str().unwrap()]).expect(0);
        let mdadm = parse_examine(&format!("/bitmap:\n{}", mdadm.stdout)).remove(0);
        assert_same(&mdadm, &words(&bench, "odd", 0), &format!("{bytes:?} at {at}"));
    }
    // A cluster's and a lockless one: their heads, and that no more is known.
    for (version, words_of_it) in [(5, "of a cluster"), (6, "lockless")] {
        head[4] = version;
        std::fs::write(&path, &head).unwrap();
        let own = words(&bench, "odd", 1);
        let seen = ["Version", "Events", "Events Cleared", "Chunksize"].map(|label| own.field(label));
        assert_eq!(seen, [&*version.to_string(), "19", "18", "1 MB"]);
        assert!(own.field("Problem").contains(words_of_it) && !own.fields.contains_key("Bitmap"), "{own:?}");
    }
    head[4] = 4;
    std::fs::write(&path, &head[..256 + 7]).unwrap();
    let own = words(&bench, "odd", 1);
    assert!(own.field("Problem").contains("263 bytes is too short for the 264"), "{own:?}");
    std::fs::write(&path, &head[..100]).unwrap();
    words(&bench, "odd", 1);
}
