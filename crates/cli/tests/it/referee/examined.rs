//! Everything that `mdadm --examine` and `mdadm --detail` say is said by uraid too, with the same values.

use std::collections::BTreeMap;

use uraid_referee::{Output, Report, parse_detail, parse_examine, require};

use super::guest;
use super::host::Bench;
use crate::lab::refs;

const MEMBER_BYTES: u64 = 16 << 20;

/// An array in some state.
struct Left {
    name: &'static str,
    members: usize,
    /// Makes the array of `$1`, `$2`, ... and leaves it running; `$M` is the kernel's folder of it.
    script: &'static str,
}

const fn left(name: &'static str, members: usize, script: &'static str) -> Left {
    Left { name, members, script }
}

const STATES: &[Left] = &[
    left("linear", 3, "create --metadata=1.2 --level=linear --raid-devices=3 $DEVS"),
    left("stripes", 3, "create --metadata=1.0 --level=0 --raid-devices=3 --chunk=64 $DEVS"),
    left("bitmap", 4, "create --metadata=1.1 --level=5 --raid-devices=4 --bitmap=internal --assume-clean $DEVS"),
    left("spare", 5, "create --metadata=1.2 --level=6 --raid-devices=4 --spare-devices=1 --bitmap=none --assume-clean $DEVS"),
    left("copies", 3, "create --metadata=1.0 --level=10 --layout=f2 --raid-devices=3 --bitmap=none --assume-clean $DEVS"),
    left("offsets", 4, "create --metadata=1.2 --level=10 --layout=o2 --raid-devices=4 --bitmap=internal --assume-clean $DEVS"),
    left("four", 3, "create --metadata=1.1 --level=4 --raid-devices=3 --bitmap=none --assume-clean $DEVS"),
    left(
        "old",
        4,
        "create --metadata=0.90 --level=5 --raid-devices=3 --bitmap=internal --assume-clean $1 $2 $3 --spare-devices=1 $4",
    ),
    left(
        "old-lost",
        4,
        "create --metadata=0.90 --level=6 --raid-devices=4 --bitmap=none --assume-clean $DEVS; fill
         mdadm --quiet /dev/md0 --fail $3; mdadm --quiet /dev/md0 --remove $3",
    ),
    left("old-linear", 2, "create --metadata=0.90 --level=linear --raid-devices=2 $DEVS"),
    left("old-mirror", 2, "create --metadata=0.90 --level=1 --raid-devices=2 --bitmap=none --assume-clean $DEVS"),
    left("old-copies", 3, "create --metadata=0.90 --level=10 --layout=n2 --raid-devices=3 --bitmap=none --assume-clean $DEVS"),
    left(
        "mostly",
        3,
        "create --metadata=1.2 --level=1 --raid-devices=3 --bitmap=internal --assume-clean $1 $2 --write-mostly $3",
    ),
    left("failfast", 2, "create --metadata=1.0 --level=1 --raid-devices=2 --bitmap=none --assume-clean --failfast $DEVS"),
    left(
        "bad-blocks",
        3,
        "create --metadata=1.2 --level=5 --raid-devices=3 --bitmap=none --assume-clean $DEVS
         echo 64 8 > $M/dev-$(basename $2)/bad_blocks; fill",
    ),
    left("journal", 4, "create --metadata=1.2 --level=5 --raid-devices=3 --assume-clean $1 $2 $3 --write-journal $4"),
    left("ppl", 3, "create --metadata=1.2 --level=5 --raid-devices=3 --consistency-policy=ppl --assume-clean $DEVS"),
    left("ppl-end", 4, "create --metadata=1.0 --level=5 --raid-devices=4 --consistency-policy=ppl --assume-clean $DEVS"),
    left(
        "recovering",
        4,
        "create --metadata=1.2 --level=6 --raid-devices=4 --bitmap=none --assume-clean $DEVS; fill
         mdadm --quiet /dev/md0 --fail $4; mdadm --quiet /dev/md0 --remove $4; mdadm --quiet --zero-superblock $4
         echo frozen > $M/sync_action; mdadm --quiet /dev/md0 --add $4; part",
    ),
    left(
        "resyncing",
        3,
        "create --metadata=1.0 --level=1 --raid-devices=3 --bitmap=none --assume-clean $DEVS; mdadm --stop --quiet /dev/md0
         mdadm --assemble --readonly --update=resync --quiet /dev/md0 $DEVS
         echo 0 > $M/sync_min; echo 2048 > $M/sync_max; mdadm --readwrite /dev/md0; at_the_part",
    ),
    left(
        "replacing",
        4,
        "create --metadata=1.1 --level=5 --raid-devices=3 --bitmap=none --assume-clean $1 $2 $3 --spare-devices=1 $4
         echo frozen > $M/sync_action; mdadm --quiet /dev/md0 --replace $2 --with $4; part",
    ),
    left(
        "failed",
        4,
        "create --metadata=1.2 --level=10 --layout=n2 --raid-devices=4 --bitmap=none --assume-clean $DEVS
         mdadm --quiet /dev/md0 --fail $2",
    ),
];

/// Functions for the states, and what is printed of each.
const LIBRARY: &str = r#"
create() { mdadm --create /dev/md0 --run --quiet --homehost=any --name=$NAME "$@"; M=$(md_sys /dev/md0); }
at_the_part() { while ! grep -q '^2048 /' $M/sync_completed; do sleep 0.02; done; }
part() { echo 0 > $M/sync_min; echo 2048 > $M/sync_max; echo idle > $M/sync_action; at_the_part; }
say() {
  mdadm --stop --quiet /dev/md0
  examine $1
  echo "@brief $1"; mdadm --examine --brief $DEVS; echo "@end"
  i=0; for d in $DEVS; do echo "@export $1 $i"; mdadm --examine --export $d; echo "@end"; i=$((i + 1)); done
  mdadm --assemble --readonly --run --quiet /dev/md0 $DEVS
  echo "@detail $1"; TZ=UTC mdadm --detail /dev/md0; echo "@end"
}
"#;

fn script(bench: &Bench, state: &Left) -> String {
    for file in files(state) {
        bench.lab.file(&file, MEMBER_BYTES);
    }
    let Left { name, script, .. } = state;
    format!("NAME={name}; attach {}; set -- $DEVS\n{script}\nsay {name}\ndone_with\n", files(state).join(" "))
}

fn files(state: &Left) -> Vec<String> {
    (0..state.members).map(|index| format!("{}.{index}", state.name)).collect()
}

/// A value in a form that both have: times are in the C library's form and in ours; whether a name was given on this host is not on the member; the
/// events of 0.90 are two numbers to `--detail`.
fn normal(key: &str, value: &str) -> String {
    match key {
        "Creation Time" | "Update Time" => time(value),
        "Name" => value.split("  (local").next().unwrap_or_default().to_owned(),
        "Events" => value.trim_start_matches("0.").to_owned(),
        _ => value.to_owned(),
    }
}

/// `Tue Dec  1 05:52:03 2026` as `2026-12-01 05:52:03 UTC`; anything else as it is.
fn time(value: &str) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = value.split_whitespace().collect();
    match words[..] {
        [_, month, day, time, year] if MONTHS.contains(month) => {
            format!("{year}-{:02}-{day:0>2} {time} UTC", MONTHS.find(month).unwrap() / 3 + 1)
        }
        _ => value.to_owned(),
    }
}

/// The rows of a table without the host's paths.
fn rows(report: &Report) -> Vec<Vec<String>> {
    let own = |row: &Vec<String>| row.iter().filter(|word| !word.starts_with('/')).cloned().collect();
    report.table.iter().map(own).collect()
}

/// The fields of mdadm's that uraid says something else of, or nothing.
fn differences(mdadm: &BTreeMap<String, String>, uraid: &BTreeMap<String, String>) -> Vec<String> {
    let differing = mdadm.iter().filter_map(|(key, wanted)| {
        let wanted = normal(key, wanted);
        let found = uraid.get(key).map(|found| normal(key, found));
        (found.as_ref() != Some(&wanted)).then(|| format!("{key}: mdadm `{wanted}`, uraid {found:?}"))
    });
    differing.collect()
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn examine_differences(bench: &Bench, output: &Output, state: &Left) -> Vec<String> {
    let mut differing = Vec::new();
    let mut differ = |file: &str, command: &str, mut found: Vec<String>| {
        found.retain(|line| !is_on_purpose(state, command, line));
        differing.extend(found.into_iter().map(|line| format!("{file} {command}: {line}")));
    };
    for (index, (file, mdadm)) in files(state).iter().zip(guest::examined(output, state.name)).enumerate() {
        let said = parse_examine(&bench.lab.ok(&["examine", &bench.lab.text(file)]).stdout).remove(0);
        assert!(mdadm.fields.len() >= 15, "{file}: {mdadm:?}");
        differ(file, "", differences(&mdadm.fields, &said.fields));
        if rows(&mdadm) != rows(&said) {
            differ(file, "", vec![format!("table: mdadm {:?}, uraid {:?}", rows(&mdadm), rows(&said))]);
        }
        let mdadm = pairs(&guest::section(output, &format!("@export {} {index}", state.name)));
        assert!(mdadm.len() >= 5, "{file}: {mdadm:?}");
        differ(file, "--export", differences(&mdadm, &pairs(&bench.lab.ok(&["examine", "--export", file]).stdout)));
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mdadm = words(&guest::section(output, &format!("@brief {}", state.name)));
    let found = words(&bench.lab.ok(&[&["examine", "--brief"], &refs(&files(state))[..]].concat()).stdout);
    if mdadm != found {
        differ(state.name, "--brief", vec![format!("all: mdadm {mdadm:?}, uraid {found:?}")]);
    }
    differing
}

/// Where uraid differs on purpose: the array (any, if empty), the command and the field; and why.
const ON_PURPOSE: &[(&str, &str, &str, &str)] = &[
    (
        "copies",
        "",
        "Array Size",
        "of striped copies mdadm counts no chunks; uraid gives the kernel's size, which `detail` is compared by",
    ),
    ("old-copies", "", "Array Size", "as above"),
    ("copies", "--export", "MD_ARRAY_SIZE", "as above"),
    ("copies", "detail", "Used Dev Size", "the kernel counts whole chunks of striped copies, the superblock does not"),
    ("old-lost", "--export", "MD_UPDATE_TIME", "of 0.90 mdadm gives the time of creation under this name"),
    ("stripes", "detail", "Layout", "`-unknown-` to mdadm: the kernel does not tell of RAID0's"),
    ("failed", "detail", "Total Devices", "the failed member is given to uraid, and no part of mdadm's array"),
    ("failed", "detail", "Failed Devices", "as above"),
    ("old-lost", "detail", "Total Devices", "as above"),
    ("old-lost", "detail", "Failed Devices", "as above"),
    ("", "detail", "Persistence", "uraid knows no array without superblocks"),
    ("", "detail", "State", "words of a running array; that it is degraded is compared"),
    ("", "detail", "Intent Bitmap", "where it lies; uraid says how many of its bits are set"),
    ("", "detail", "Preferred Minor", "the number of the running array"),
];

fn is_on_purpose(state: &Left, command: &str, line: &str) -> bool {
    let is = |&(name, of, key, _): &(&str, &str, &str, &str)| {
        (name.is_empty() || name == state.name) && of == command && line.starts_with(&format!("{key}: "))
    };
    ON_PURPOSE.iter().any(is)
}

fn detail_differences(bench: &Bench, output: &Output, state: &Left) -> Vec<String> {
    let mdadm = parse_detail(&guest::section(output, &format!("@detail {}", state.name)));
    assert!(mdadm.fields.len() >= 12, "{}: {mdadm:?}", state.name);
    let text = bench.lab.run(&[&["detail"], &refs(&files(state))[..]].concat()).stdout;
    let rest = text.split_once('\n').unwrap().1;
    let mut said = parse_detail(&format!("/array:\n{rest}"));
    let mut wanted = mdadm.fields.clone();
    // Sizes are in KiB; in which other units they stand beside it is each one's own.
    for fields in [&mut wanted, &mut said.fields] {
        for key in ["Array Size", "Used Dev Size", "Chunk Size", "Events"] {
            fields.entry(key.to_owned()).and_modify(|value| value.truncate(value.find([' ', 'K']).unwrap_or(value.len())));
        }
    }
    let mut differing = differences(&wanted, &said.fields);
    differing.retain(|line| !is_on_purpose(state, "detail", line));
    let is_degraded = |report: &Report| report.field("State").contains("degraded");
    if is_degraded(&mdadm) != is_degraded(&said) {
        differing.push(format!("State: mdadm {}, uraid {}", mdadm.field("State"), said.field("State")));
    }
    differing.into_iter().map(|line| format!("{} detail: {line}", state.name)).collect()
}

#[test]
fn whatever_mdadm_says_is_said() {
    let Some(referee) = require() else { return };
    let mut differing = Vec::new();
    for states in STATES.chunks(STATES.len().div_ceil(2)) {
        let bench = Bench::new();
        let scripts: String = states.iter().map(|state| script(&bench, state)).collect();
        let output = guest::run(referee, &bench, &format!("{LIBRARY}{scripts}"));
        for state in states {
            differing.extend(examine_differences(&bench, &output, state));
            differing.extend(detail_differences(&bench, &output, state));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn canary_a_field_that_is_left_out_is_seen() {
    let said = |text: &str| pairs(&text.replace(' ', "\n"));
    assert_eq!(differences(&said("Events=5"), &said("Events=5 More=1")), [""; 0]);
    assert_eq!(differences(&said("Events=5 State=clean"), &said("Events=6")).len(), 2);
    assert_eq!(time("Tue Dec  1 05:52:03 2026"), "2026-12-01 05:52:03 UTC");
}
