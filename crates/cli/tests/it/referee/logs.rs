//! PPL and journal: arrays cut off in the middle of writes read as they do once the kernel has replayed its logs.
//!
//! A cut: the members' devices are halted one after another while several writers are at work, then copied. What a member still
//! got after another was halted is what a power cut leaves: a stripe written in part, its log written before.

use std::fs;

use uraid_referee::{Output, Referee, require};

use super::guest;
use super::host::{Bench, assert_same, without};
use crate::lab::refs;

const MEMBER_BYTES: u64 = 10 << 20;
const MEMBERS: usize = 4;

/// A kind of log, and how an array with it is made.
struct Kind {
    level: &'static str,
    options: &'static str,
    journal: bool,
    write_back: bool,
}

const PPL: Kind = Kind { level: "5", options: "--consistency-policy=ppl", journal: false, write_back: false };
const WRITE_THROUGH: Kind = Kind { level: "6", options: "--write-journal=/dev/mapper/j", journal: true, write_back: false };
const WRITE_BACK: Kind = Kind { level: "5", options: "--write-journal=/dev/mapper/j", journal: true, write_back: true };

/// Members `c.0` to `c.3`, and the journal `c.j`.
fn names(kind: &Kind) -> Vec<String> {
    let numbers = (0..MEMBERS).map(|index| index.to_string());
    numbers.chain(kind.journal.then(|| "j".to_owned())).map(|name| format!("c.{name}")).collect()
}

/// Makes an array, cuts it off, and lets the kernel read copies of what is left, without each of `lost` in turn: `kernel.none`,
/// `kernel.0`, ... are the contents.
fn cut(referee: &Referee, bench: &Bench, kind: &Kind, lost: &[usize]) -> Output {
    let Kind { level, options, .. } = kind;
    let all: Vec<String> = names(kind).iter().map(|name| name.trim_start_matches("c.").to_owned()).collect();
    for name in &all {
        bench.lab.file(&format!("p.{name}"), MEMBER_BYTES);
    }
    let (all, lost) = (all.join(" "), lost.iter().map(|index| format!(" {index}")).collect::<String>());
    // In write-back mode no more than the journal holds: Linux 6.1 hangs now and then where it runs full.
    let writes = if kind.write_back { 10 } else { 1_000_000 };
    let mode = if kind.write_back { "write-back" } else { "write-through" };
    let mode = if kind.journal { format!("echo {mode} > $M/journal_mode") } else { String::new() };
    let script = format!(
        r#"
ALL="{all}"
cp $W/pattern /tmp/pattern
for i in $ALL; do
  d=$(losetup -f --show $W/p.$i)
  dmsetup create --noudevsync --verifyudev $i --table "0 $(blockdev --getsz $d) linear $d 0"
done
dmsetup mknodes
mdadm --create /dev/md0 --run --quiet --homehost=any --level={level} --raid-devices=4 --chunk=64 {options} --assume-clean \
  /dev/mapper/0 /dev/mapper/1 /dev/mapper/2 /dev/mapper/3
M=$(md_sys /dev/md0)
mdwait /dev/md0
fill
{mode}
echo 0 > $M/safe_mode_delay
writer() {{
  n=$1
  left={writes}
  while [ ! -e /tmp/done ] && [ $left -gt 0 ]; do
    left=$((left - 1))
    n=$(( (n * 1103515245 + 12345) & 0x7fffffff ))
    dd if=/tmp/pattern of=/dev/md0 bs=4k count=$((n / 7 % 20 + 1)) skip=$((n / 3 % 1000)) seek=$((n / 11 % 2000)) \
      oflag=direct conv=notrunc status=none
  done
}}
for k in 1 22 333 4444 5 66; do writer $k & done
sleep 0.7
for i in 2 0 j 3 1; do [ ! -e /dev/mapper/$i ] || dmsetup suspend --nolockfs $i; done
for i in $ALL; do cp $W/p.$i $W/c.$i; done
touch /tmp/done
for i in $ALL; do dmsetup resume $i; done
wait
mdadm --stop --quiet /dev/md0
for lost in none{lost}; do
  DEVS=
  for i in $ALL; do
    [ $i = $lost ] && continue
    cp $W/c.$i /tmp/k.$i
    DEVS="$DEVS $(losetup -f --show /tmp/k.$i)"
  done
  mdadm --assemble --run --quiet /dev/md0 $DEVS
  mdwait /dev/md0
  dd if=/dev/md0 of=$W/kernel.$lost bs=1M status=none
  [ $lost = none ] && echo mismatch=$(mismatch /dev/md0)
  done_with
done
dmesg | sed -n 's/.*recovering \([0-9]*\) data-only stripes and \([0-9]*\) data-parity stripes/stripes=\1 \2/p'
"#
    );
    guest::run_with(referee, bench, &script, &["dm-mod"])
}

fn hashes(bench: &Bench, names: &[String]) -> Vec<Vec<u8>> {
    names.iter().map(|name| fs::read(bench.lab.path(name)).unwrap()).collect()
}

/// Asserts that what is left reads as with the kernel, whole and without each of `lost`, and is left as it is.
fn reads_as_the_kernel(bench: &Bench, kind: &Kind, lost: &[usize]) {
    let names = names(kind);
    let before = hashes(bench, &names);
    for lost in std::iter::once(None).chain(lost.iter().copied().map(Some)) {
        let label = lost.map_or("none".to_owned(), |index| index.to_string());
        let left = without(&names, &lost.into_iter().collect::<Vec<_>>());
        let expected = fs::read(bench.lab.path(&format!("kernel.{label}"))).unwrap();
        bench.assert_exports(&left, &expected, lost.is_some());
    }
    assert!(hashes(bench, &names) == before, "an export has written to a member");
}

#[test]
fn a_ppl_array_that_was_cut_off_reads_as_the_kernel_replays_it() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let lost = [0, 1, 2, 3];
    let output = cut(referee, &bench, &PPL, &lost);
    assert_eq!(output.value("mismatch"), Some("0"));
    reads_as_the_kernel(&bench, &PPL, &lost);
    let names = names(&PPL);
    // Generations are counted over all members, each member's log is about stripes with its parity.
    let examined = bench.examine(&names);
    let mut generations: Vec<u64> = examined.iter().map(|member| member["ppl"]["generation"].as_u64().unwrap()).collect();
    generations.sort_unstable();
    generations.dedup();
    assert_eq!(generations.len(), MEMBERS);
    for (slot, member) in examined.iter().enumerate() {
        let entries = member["ppl"]["entries"].as_array().unwrap();
        assert!(!entries.is_empty() && entries.iter().all(|entry| entry["parity_slot"] == slot as u64), "{member}");
    }
    // Parity is right once it is replayed, which takes no resync, in memory as on the members.
    let replayed = bench.lab.ok(&[&["check", "--json"], &refs(&names)[..]].concat());
    assert_eq!(replayed.json()["mismatch_sectors"], 0);
    let refused = bench.lab.run(&[&["import", "--input=pattern"], &refs(&names)[..]].concat()).expect(1);
    assert!(refused.stderr.contains("--consistency-policy=resync"), "{}", refused.stderr);
    let resync = bench.lab.ok(&[&["resync", "--json", "--consistency-policy=resync"], &refs(&names)[..]].concat());
    assert!(resync.json()["ran"].is_null(), "{}", resync.stdout);
    let expected = fs::read(bench.lab.path("kernel.none")).unwrap();
    bench.assert_exports(&names, &expected, false);
    let script = format!(
        "attach {}\nmdadm --assemble --quiet /dev/md0 $DEVS\necho policy=$(cat $(md_sys /dev/md0)/consistency_policy)\n\
         echo mismatch=$(mismatch /dev/md0)\nreport c $W/kernel.none\ndone_with\n",
        names.join(" ")
    );
    let output = guest::run(referee, &bench, &script);
    assert_eq!((output.value("policy"), output.value("mismatch")), (Some("resync"), Some("0")), "{}", output.stdout);
    assert_eq!(guest::value(&output, "same", "c"), "yes");
}

/// How many stripes the kernel recovered, with data only and with parity too.
fn stripes(output: &Output) -> (u64, u64) {
    let (data_only, with_parity) = output.value("stripes").unwrap().split_once(' ').unwrap();
    (data_only.parse().unwrap(), with_parity.parse().unwrap())
}

#[test]
fn a_journal_is_replayed_as_the_kernel_does() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let lost = [0, 3];
    let output = cut(referee, &bench, &WRITE_THROUGH, &lost);
    assert!(stripes(&output).1 > 0, "{}", output.stdout);
    reads_as_the_kernel(&bench, &WRITE_THROUGH, &lost);
    let names = names(&WRITE_THROUGH);
    let (journal, members) = names.split_last().unwrap();
    // Without the journal only --force helps, and nothing is written even then.
    let refused = bench.export(members).expect(1);
    assert!(refused.stderr.contains("--write-journal"), "{}", refused.stderr);
    bench.lab.ok(&[&["export", "--force", "--output=forced"], &refs(members)[..]].concat());
    let named = format!("--write-journal={journal}");
    bench.lab.ok(&[&["export", "--output=named", &named], &refs(members)[..]].concat());
    let expected = fs::read(bench.lab.path("kernel.none")).unwrap();
    assert_same(&fs::read(bench.lab.path("named")).unwrap(), &expected, "the array with its journal named");
}

#[test]
fn data_that_is_only_in_the_journal_is_read_from_there() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let lost = [1, 2];
    let output = cut(referee, &bench, &WRITE_BACK, &lost);
    assert!(stripes(&output).0 > 0, "{}", output.stdout);
    reads_as_the_kernel(&bench, &WRITE_BACK, &lost);
}
