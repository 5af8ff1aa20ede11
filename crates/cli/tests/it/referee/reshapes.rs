//! Reshapes part way: the kernel is held in the middle of one, its members are copied, and uraid reads the copies through both shapes.
//!
//! What a reshape in place was about to overwrite is put into a backup file as mdadm writes them, and spoilt on the members.

use std::fs;
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};
use uraid_referee::{Output, require};

use super::cases::everything;
use super::guest;
use super::host::{Bench, assert_same, rubbish, without};
use crate::lab::refs;
use crate::nbd::Nbd;

/// Member sectors that the kernel reshapes before it is held: a multiple of every chunk.
const HELD_AT: u64 = 4096;

/// A reshape, and where it is held.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Also the first part of its members' names.
    name: &'static str,
    create: &'static str,
    members: usize,
    /// Members that come with the reshape.
    more: usize,
    member_mib: u64,
    /// What starts it, once the kernel has been told where to stop. `$M` is the array's folder, `$MORE` the members that come.
    start: &'static str,
    /// Can the kernel's own array be read meanwhile? It makes readers wait next to where a reshape goes backwards.
    live: bool,
    /// What md does over data that is still there: the data members and the KiB of a chunk before it.
    in_place: Option<(u64, u64)>,
    /// Members that may be lost in both shapes.
    may_lose: usize,
}

const ADD: &str = "echo frozen > $M/sync_action; mdadm --quiet /dev/md0 --add $MORE";

/// A RAID5 of three members that gets a fourth.
const GROWN: Row = Row {
    name: "grown",
    create: "--level=5 --chunk=64 --bitmap=none",
    members: 3,
    more: 1,
    member_mib: 10,
    start: "echo 4 > $M/raid_disks",
    live: true,
    in_place: None,
    may_lose: 1,
};

/// A RAID5 of three members that gets another chunk or layout.
const CHANGED: Row = Row { more: 0, in_place: Some((2, 64)), start: "echo 131072 > $M/chunk_size", ..GROWN };

const ROWS: &[Row] = &[
    GROWN,
    Row { name: "old", create: "--level=5 --chunk=64 --bitmap=none --metadata=0.90", ..GROWN },
    Row { name: "four", create: "--level=4 --chunk=32 --bitmap=none --metadata=1.0", ..GROWN },
    Row {
        name: "six",
        create: "--level=6 --chunk=16 --bitmap=none --metadata=1.1",
        members: 4,
        start: "echo 5 > $M/raid_disks",
        may_lose: 2,
        ..GROWN
    },
    // mdadm moves the data away from where it was; the kernel alone does not.
    Row { name: "moved", member_mib: 14, in_place: None, start: "(mdadm --grow /dev/md0 --chunk=128 &)", ..CHANGED },
    Row { name: "larger", ..CHANGED },
    Row { name: "smaller", start: "echo 32768 > $M/chunk_size", ..CHANGED },
    Row { name: "turned", start: "echo 0 > $M/layout", create: "--level=5 --chunk=64 --bitmap=none --metadata=0.90", ..CHANGED },
    Row { name: "back", start: "echo backwards > $M/reshape_direction; echo 1 > $M/layout", live: false, ..CHANGED },
    Row {
        name: "shrunk",
        members: 4,
        more: 0,
        live: false,
        start: "echo 18432 > $M/array_size; echo 3 > $M/raid_disks",
        ..GROWN
    },
    Row {
        name: "oldshrunk",
        create: "--level=5 --chunk=64 --bitmap=none --metadata=0.90",
        members: 4,
        more: 0,
        live: false,
        start: "echo 20352 > $M/array_size; echo 3 > $M/raid_disks",
        ..GROWN
    },
    // The new member holds Q, of which there is none yet where the reshape has not been.
    Row { name: "to6", in_place: Some((2, 64)), start: "echo raid6 > $M/level; echo 2 > $M/layout", ..GROWN },
    Row {
        name: "oldto6",
        create: "--level=5 --chunk=64 --bitmap=none --metadata=0.90",
        in_place: Some((2, 64)),
        start: "echo raid6 > $M/level; echo 2 > $M/layout",
        ..GROWN
    },
    Row {
        name: "from6",
        create: "--level=6 --chunk=64 --bitmap=none",
        members: 4,
        more: 0,
        live: false,
        start: "echo backwards > $M/reshape_direction; echo 18 > $M/layout",
        in_place: Some((2, 64)),
        may_lose: 2,
        ..GROWN
    },
    // A RAID0 grows as a RAID4 without its parity.
    Row {
        name: "from0",
        create: "--level=0 --chunk=64",
        members: 2,
        more: 2,
        start: "echo 4 > $M/raid_disks",
        may_lose: 0,
        ..GROWN
    },
    Row {
        name: "0to5",
        create: "--level=0 --chunk=64",
        start: "echo 2 > $M/layout",
        in_place: Some((3, 64)),
        may_lose: 0,
        ..GROWN
    },
    Row {
        name: "ten",
        create: "--level=10 --layout=n2 --chunk=64 --bitmap=none",
        member_mib: 21,
        start: "(mdadm --grow /dev/md0 --raid-devices=4 &)",
        ..GROWN
    },
    // Linux 6.1 fails members that it takes from near to offset, so that is not tried.
    Row {
        name: "tenoffset",
        create: "--level=10 --layout=o2 --chunk=64 --bitmap=none",
        member_mib: 21,
        start: "(mdadm --grow /dev/md0 --raid-devices=4 &)",
        ..GROWN
    },
    Row {
        name: "tenlarger",
        create: "--level=10 --layout=n2 --chunk=64 --bitmap=none",
        more: 0,
        member_mib: 21,
        start: "(mdadm --grow /dev/md0 --chunk=128 &)",
        ..GROWN
    },
];

/// Shell functions of this test.
const LIBRARY: &str = r#"
# Waits until the reshape rests where it was told to.
hold() { n=0; last=
  for try in $(seq 100); do
    sleep 0.1; now=$(cat $M/reshape_position)
    [ "$now" = "$last" ] && [ "$now" != none ] && n=$((n+1)) || n=0
    last=$now; [ $n = 5 ] && return
  done; return 1; }
# "new (old)", or one number, to "old new".
change() { sed 's/\(.*\) (\(.*\))/\2 \1/; t; s/.*/& &/' $M/$1; }
"#;

impl Row {
    /// Members, those that come included.
    fn files(&self) -> Vec<String> {
        (0..self.members + self.more).map(|index| format!("{}.{index}", self.name)).collect()
    }

    fn cut(&self) -> Vec<String> {
        self.files().iter().map(|file| format!("{file}.cut")).collect()
    }

    fn script(&self, bench: &Bench) -> String {
        let Row { name, create, members, start, live, .. } = self;
        let files = self.files();
        files.iter().for_each(|file| drop(bench.lab.file(file, self.member_mib << 20)));
        let level = if create.contains("--level=0") { if *name == "0to5" { "raid5" } else { "raid4" } } else { "" };
        let takeover = if level.is_empty() { String::new() } else { format!("echo {level} > $M/level; M=$(md_sys /dev/md0)") };
        let clean = if level.is_empty() { "--assume-clean" } else { "" };
        let repair = if level.is_empty() { "echo repair > $M/sync_action; mdwait /dev/md0; sleep 0.3" } else { "" };
        format!(
            "attach {first}\nOLD=$DEVS\nattach {last}\nMORE=$DEVS\nDEVS=\"$OLD $MORE\"
             mdadm --create /dev/md0 --run --quiet --homehost=any --raid-devices={members} {clean} {create} $OLD
             M=$(md_sys /dev/md0)\nfill\n{repair}\n{takeover}
             [ -z \"$MORE\" ] || {{ {ADD}; }}
             echo {HELD_AT} > $M/sync_max\n{start}
             {go}\nhold
             echo position.{name}=$(cat $M/reshape_position)\necho degraded.{name}=$(cat $M/degraded)
             for key in raid_disks layout chunk_size; do echo $key.{name}=$(change $key); done
             {report}
             for g in {all}; do cp --sparse=always $W/$g $W/$g.cut; done
             size=$(blockdev --getsize64 /dev/md0)
             echo max > $M/sync_max
             for try in $(seq 200); do [ $(cat $M/reshape_position) = none ] && break; sleep 0.1; done
             blockdev --flushbufs /dev/md0
             echo end.{name}=$(cmp -n $size /dev/md0 /tmp/pattern >&2 && cat $M/reshape_position)
             mdadm --stop --quiet /dev/md0\nMORE=\ndetach\n",
            go = if start.contains("--grow") { "" } else { "echo reshape > $M/sync_action" },
            first = files[..*members].join(" "),
            last = files[*members..].join(" "),
            all = files.join(" "),
            report = if *live { format!("report {name}") } else { format!("echo size.{name}=$(blockdev --getsize64 /dev/md0)") },
        )
    }

    fn check(&self, bench: &Bench, output: &Output) {
        let value = |key: &str| guest::value(output, key, self.name);
        assert_eq!(value("end"), "none", "{self:?}: the kernel did not end it:\n{}", output.stdout);
        if self.live {
            assert_eq!(value("same"), "yes", "{self:?}");
        }
        let expected = bench.expected(value("size").parse().unwrap());
        let degraded = value("degraded") != "0";
        let members = self.cut();
        let before = bench.lab.bytes(&members);
        self.assert_reported(bench, output);
        if self.in_place.is_some() {
            let refused = bench.export(&members).expect(1);
            assert!(refused.stderr.contains("--backup-file"), "{}", refused.stderr);
        }
        self.assert_reads(bench, &members, expected, degraded);
        for lost in 0..if self.may_lose == 0 { 0 } else { members.len() } {
            let lost: Vec<usize> = (0..self.may_lose).map(|further| (lost + further) % members.len()).collect();
            // RAID10 bears the loss of any one; whether of more is a matter of which.
            self.assert_reads(bench, &without(&members, &lost), expected, true);
        }
        for (file, (before, after)) in members.iter().zip(before.iter().zip(bench.lab.bytes(&members))) {
            assert!(*before == after, "{self:?}: {file} was written to while only read");
        }
        if let Some((data_members, chunk_kib)) = self.in_place {
            self.check_backup(bench, expected, degraded, data_members * chunk_kib * 2);
        }
    }

    /// What uraid says of it is what the kernel says.
    fn assert_reported(&self, bench: &Bench, output: &Output) {
        let members = self.cut();
        let report = bench.lab.run(&[&["detail", "--json", "--invalid-backup"], &refs(&members)[..]].concat()).json();
        let array = &report["arrays"][0];
        assert_eq!(array["startable"], true, "{self:?}: {array}");
        let reshape = &array["reshape"];
        let value = |key: &str| guest::value(output, key, self.name);
        assert_eq!(reshape["position_sectors"].to_string(), value("position"), "{self:?}");
        assert_eq!(reshape["backwards"], !self.live, "{self:?}");
        assert_eq!(reshape["in_place"], self.in_place.is_some(), "{self:?}: {reshape}");
        assert_eq!(array["size_bytes"].to_string(), value("size"), "{self:?}");
        for (ours, kernels) in [("raid_disks", "raid_disks"), ("layout_number", "layout"), ("chunk_bytes", "chunk_size")] {
            let both = format!("{} {}", reshape["before"][ours], reshape["after"][ours]);
            // RAID4 has one layout, whatever number it goes by.
            if ours != "layout_number" || array["level"] != "raid4" {
                assert_eq!(both, value(kernels), "{self:?}: {ours}");
            }
        }
    }

    #[track_caller]
    fn assert_reads(&self, bench: &Bench, members: &[String], expected: &[u8], degraded: bool) {
        let without_backup: &[&str] = if self.in_place.is_some() { &["--invalid-backup"] } else { &[] };
        let ended = bench.lab.run(&[&["export", "--output=exported"], without_backup, &refs(members)[..]].concat());
        ended.expect(if degraded { 3 } else { 0 });
        assert_same(&fs::read(bench.lab.path("exported")).unwrap(), expected, &format!("{self:?} of {members:?}"));
    }

    /// The stripe next to the position is spoilt on all members, and read from the backup file; `stripe` in array sectors.
    fn check_backup(&self, bench: &Bench, expected: &[u8], degraded: bool, stripe: u64) {
        let members = self.cut();
        let examined = bench.examine(&members);
        let is_old = self.create.contains("0.90");
        let superblock = |index: usize| &examined[index][if is_old { "superblocks_090" } else { "superblocks" }][0];
        let position = superblock(0)["reshape_position"].as_u64().unwrap();
        let (array_start, row) =
            if self.live { (position, position / stripe) } else { (position - stripe, position / stripe - 1) };
        let (_, chunk_kib) = self.in_place.unwrap();
        for (index, member) in members.iter().enumerate() {
            let file = fs::File::options().write(true).open(bench.lab.path(member)).unwrap();
            let data = superblock(index)["data_offset"].as_u64().unwrap_or(0) * 512;
            for page in 0..chunk_kib / 4 {
                file.write_all_at(&rubbish(), data + row * chunk_kib * 1024 + page * 4096).unwrap();
            }
        }
        let uuid = uuid::Uuid::parse_str(superblock(0)["set_uuid"].as_str().unwrap()).unwrap();
        // mdadm takes the words of an old UUID as numbers of the machine's.
        let id = if is_old {
            [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12].map(|at| uuid.as_bytes()[at])
        } else {
            uuid.into_bytes()
        };
        let written = superblock(0)["utime"].as_u64().unwrap();
        let saved = &expected[array_start as usize * 512..][..stripe as usize * 512];
        let export = |backup: &[u8]| {
            fs::write(bench.lab.path("backup"), backup).unwrap();
            bench.lab.run(&[&["export", "--output=exported", "--backup-file=backup"], &refs(&members)[..]].concat())
        };
        export(&backup(&id, written, array_start, saved)).expect(if degraded { 3 } else { 0 });
        assert_same(&fs::read(bench.lab.path("exported")).unwrap(), expected, &format!("{self:?} with its backup"));
        let refused = |bytes: &[u8], why: &str| {
            let ended = export(bytes).expect(1);
            assert!(ended.stderr.contains(why), "{why}: {}", ended.stderr);
        };
        refused(&backup(&[7; 16], written, array_start, saved), "it is of array 07070707");
        refused(&backup(&id, written - 10_000, array_start, saved), "earlier reshape");
        refused(&backup(&id, written, array_start + 4 * stripe, saved), "does not have it");
        let mut broken = backup(&id, written, array_start, saved);
        broken[65] ^= 1;
        refused(&broken, "sum at byte 64");
    }
}

/// A backup file as mdadm writes it, with one section.
fn backup(uuid: &[u8; 16], written_seconds: u64, array_start: u64, saved: &[u8]) -> Vec<u8> {
    let mut bytes = b"md_backup_data-1".to_vec();
    bytes.extend(uuid);
    for number in [written_seconds, 8, array_start, saved.len() as u64 / 512] {
        bytes.extend(number.to_le_bytes());
    }
    let sum = bytes.iter().fold(0_u32, |sum, _| (sum << 3).wrapping_add(u32::from(b'm')));
    bytes.extend(sum.to_le_bytes());
    bytes.resize(4096, 0);
    bytes.extend(saved);
    bytes
}

#[test]
fn arrays_being_reshaped_are_read_through_both_shapes() {
    let Some(referee) = require() else { return };
    let step = if everything() { 1 } else { 4 };
    let rows: Vec<&Row> = ROWS.iter().step_by(step).collect();
    for batch in rows.chunks(6) {
        let bench = Bench::new();
        let script: String = batch.iter().map(|row| row.script(&bench)).collect();
        let output = guest::run(referee, &bench, &format!("{LIBRARY}{script}"));
        batch.iter().for_each(|row| row.check(&bench, &output));
    }
    println!("reshapes: {} of {} part way", rows.len(), ROWS.len());
}

#[test]
fn an_array_being_reshaped_is_served_and_not_written() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let output = guest::run(referee, &bench, &format!("{LIBRARY}{}", GROWN.script(&bench)));
    let position: u64 = guest::value(&output, "position", GROWN.name).parse().unwrap();
    let members = GROWN.cut();
    let before = bench.lab.bytes(&members);
    // Either of its shapes would find mismatches everywhere.
    let refused = bench.lab.run(&[&["check"], &refs(&members)[..]].concat()).expect(1).stderr;
    assert!(refused.contains("reshape is part way"), "{refused}");
    let server = bench.lab.assemble(&members, &["--name=part", "--nbd=unix:socket"]);
    let status = bench.lab.status("part");
    assert_eq!((&status["reshape"]["position_sectors"], &status["read_only"]), (&json!(position), &Value::Bool(true)));
    let mut client = Nbd::connect(&bench.lab.path("socket")).unwrap();
    // Over the place where one shape ends and the other begins.
    let (start, mut found) = (position * 512 - 65_536, vec![0; 131_072]);
    client.read(start, &mut found).unwrap();
    assert_same(&found, &bench.pattern[start as usize..][..found.len()], "the middle");
    drop(client);
    assert_eq!(server.stop().0, 0);
    assert!(bench.lab.bytes(&members) == before);
}
