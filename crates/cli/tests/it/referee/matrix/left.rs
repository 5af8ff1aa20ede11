//! The kernel makes, fills and leaves arrays in every state; uraid reads them to the last byte, and writes nothing.

use uraid_referee::{Output, require};

use super::shapes::{METADATA, SHAPES, Shape};
use super::{Entry, run};
use crate::referee::guest;
use crate::referee::host::{Bench, without};

/// In which state the kernel leaves an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Stopped, whole.
    Clean,
    /// The last member failed, was taken out, and nothing took its place.
    Degraded,
    /// The last member failed and the spare has taken over; the failed one is given to uraid too.
    TookOver,
    /// As many members failed as the level bears.
    AsFarAsItGoes,
    /// The spare had been rebuilt for a part when the array was stopped.
    Recovering,
    /// A resync had gone a part of the way.
    Resyncing,
    /// The spare was to replace a member that is still there, and has a part of it.
    Replacing,
    /// Not stopped at all: the members as they were in the middle of everything, with an internal bitmap.
    RunningWithBitmap,
    /// The same without a bitmap.
    Running,
    /// The last member is to be read only when nothing else can answer.
    WriteMostly,
}

use State::{
    AsFarAsItGoes, Clean, Degraded, Recovering, Replacing, Resyncing, Running, RunningWithBitmap, TookOver, WriteMostly,
};

impl State {
    fn is_possible(self, shape: &Shape) -> bool {
        match self {
            Clean | Running => true,
            Degraded | TookOver | Recovering | Replacing | Resyncing | RunningWithBitmap => shape.is_redundant(),
            AsFarAsItGoes => shape.may_lose > 1,
            WriteMostly => shape.level == "1",
        }
    }

    fn options(self) -> &'static str {
        match self {
            RunningWithBitmap => "--bitmap=internal",
            _ => "--bitmap=none",
        }
    }

    /// What is done to the running array, whole and full. `$DEVS` are its members, `$MORE` is the spare, `$M` the kernel's folder.
    fn script(self, shape: &Shape) -> String {
        // Far enough to be seen, in sectors: a megabyte of each member, a multiple of every chunk.
        let part = "echo 0 > $M/sync_min; echo 2048 > $M/sync_max";
        let to_the_part = "while ! grep -q '^2048 /' $M/sync_completed; do sleep 0.02; done";
        let running = "echo 1000 > $M/safe_mode_delay; echo 1000 > $M/bitmap/time_base 2>&- || true
            dd if=/tmp/pattern of=/dev/md0 bs=64K count=4 oflag=direct conv=notrunc status=none; sync";
        let fail = |device: &str| format!("mdadm --quiet /dev/md0 --fail {device}; mdadm --quiet /dev/md0 --remove {device}");
        match self {
            Clean | WriteMostly => String::new(),
            Degraded => fail("$LAST"),
            AsFarAsItGoes => (0..shape.may_lose).map(|index| fail(&format!("$(echo $DEVS | cut -d' ' -f{})", 2 * index + 1)) + "\n").collect(),
            TookOver => "mdadm --quiet /dev/md0 --add $MORE; mdadm --quiet /dev/md0 --fail $LAST; mdwait /dev/md0".to_owned(),
            Recovering => {
                format!("{}; echo frozen > $M/sync_action; mdadm --quiet /dev/md0 --add $MORE; {part}; echo idle > $M/sync_action; {to_the_part}", fail("$LAST"))
            }
            Resyncing => format!(
                "mdadm --stop --quiet /dev/md0; mdadm --assemble --readonly --update=resync --quiet /dev/md0 $DEVS; M=$(md_sys /dev/md0)
                 {part}; mdadm --readwrite /dev/md0; {to_the_part}"
            ),
            Replacing => format!(
                "echo frozen > $M/sync_action; mdadm --quiet /dev/md0 --add $MORE; mdadm --quiet /dev/md0 --replace $LAST --with $MORE
                 {part}; echo idle > $M/sync_action; {to_the_part}"
            ),
            Running | RunningWithBitmap => running.to_owned(),
        }
    }

    /// Does the array lack something when uraid sees it?
    pub fn is_degraded(self) -> bool {
        matches!(self, Degraded | Recovering | AsFarAsItGoes)
    }
}

/// Whole under every version of metadata; every other state under one of them, in turn.
pub fn all() -> Vec<Entry<State>> {
    let entry = |shape, metadata, state: State, number: usize| Entry { shape, metadata, state, name: format!("k{number}") };
    let mut entries = Vec::new();
    for shape in SHAPES {
        for metadata in METADATA.into_iter().filter(|metadata| shape.fits(metadata)) {
            entries.push(entry(shape, metadata, Clean, entries.len()));
        }
    }
    let states = [Degraded, AsFarAsItGoes, TookOver, Recovering, Resyncing, Replacing, RunningWithBitmap, Running, WriteMostly];
    for state in states {
        for shape in SHAPES.iter().filter(|shape| state.is_possible(shape)) {
            let metadata = METADATA[entries.len() % METADATA.len()];
            // A replacement is beyond version 0.90.
            let fits = shape.fits(metadata) && !(state == Replacing && metadata == "0.90");
            entries.push(entry(shape, if fits { metadata } else { "1.2" }, state, entries.len()));
        }
    }
    entries
}

pub fn script(bench: &Bench, entry: &Entry<State>) -> String {
    entry.make_files(bench);
    let (name, files) = (&entry.name, entry.files().join(" "));
    let bitmap = if entry.shape.is_redundant() { entry.state.options() } else { "" };
    let mostly = if entry.state == WriteMostly { "--write-mostly" } else { "" };
    let options = entry.options().join(" ");
    let clean = if entry.shape.is_redundant() { "--assume-clean" } else { "" };
    format!(
        "attach {files}\nattach_more {spare}\nLAST=$(echo $DEVS | awk '{{print $NF}}'); OTHERS=${{DEVS% *}}
         mdadm --create /dev/md0 --run --quiet --homehost=any {options} {bitmap} {clean} $OTHERS {mostly} $LAST
         M=$(md_sys /dev/md0)\nfill\necho sync.{name}=$({resync})\n{state}\nreport {name}\n{end}\ndetach\n",
        spare = entry.spare(),
        // The pattern was written whole, but parity of a short last stripe may never have been.
        resync =
            if entry.shape.is_redundant() { "echo repair > $M/sync_action; mdwait /dev/md0; echo done" } else { "echo none" },
        state = entry.state.script(entry.shape),
        end = if matches!(entry.state, Running | RunningWithBitmap) {
            // A copy of the members of an array at work is what a power cut leaves.
            format!("for f in {files}; do cp --sparse=always $W/$f $W/$f.cut; done\nmdadm --stop --quiet /dev/md0")
        } else {
            "mdadm --stop --quiet /dev/md0".to_owned()
        },
    )
}

/// The members that uraid is given.
pub fn members(entry: &Entry<State>) -> Vec<String> {
    let mut members = entry.files();
    if matches!(entry.state, Running | RunningWithBitmap) {
        members.iter_mut().for_each(|member| *member += ".cut");
    }
    if matches!(entry.state, TookOver | Recovering | Replacing) {
        members.push(entry.spare());
    }
    members
}

pub fn check(bench: &Bench, entry: &Entry<State>, output: &Output) {
    let (shape, state) = (entry.shape, entry.state);
    assert_eq!(guest::value(output, "same", &entry.name), "yes", "{entry:?}");
    let size_bytes = guest::value(output, "size", &entry.name).parse().unwrap();
    let expected = bench.expected(size_bytes);
    let members = members(entry);
    let before = bench.lab.bytes(&members);
    bench.assert_exports(&members, expected, state.is_degraded());
    if state == Clean {
        // Another set of lost members for every array, as many as it bears.
        let lost: Vec<usize> = (0..shape.may_lose).map(|index| (entry.name.len() + 2 * index) % shape.members).collect();
        if shape.is_redundant() {
            bench.assert_exports(&without(&members, &lost), expected, true);
        }
    }
    for (file, (before, after)) in members.iter().zip(before.iter().zip(bench.lab.bytes(&members))) {
        assert!(*before == after, "{entry:?}: {file} was written to while only read");
    }
}

#[test]
fn whatever_the_kernel_leaves_is_read() {
    let Some(referee) = require() else { return };
    let all = all();
    assert!(all.len() >= 120, "{} arrays made by the kernel", all.len());
    run(referee, "made by the kernel", &all, Bench::new, script, check);
}
