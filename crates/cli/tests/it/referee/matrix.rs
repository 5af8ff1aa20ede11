//! The wide matrix: every level and layout under every version of metadata, and the states that an array can be left in.
//!
//! Arrays are put together from tables, many to a guest. `cargo xtask referee --all` runs all of them; otherwise every so many-th is taken, from a
//! place that is the same each time.

mod kept;
mod left;
mod made;
mod shapes;

use std::time::Instant;

use uraid_referee::{Output, Referee};

use super::cases::everything;
use super::guest;
use super::host::Bench;
use shapes::Shape;

/// Every so many arrays are tried when not all are. A prime, so that it goes through the versions of metadata too.
const STRIDE: usize = 23;

/// Arrays of one guest: its memory holds their members' pages.
const ARRAYS_PER_GUEST: usize = 12;

/// An array of the matrix: a shape under a version of metadata, in a state.
#[derive(Clone, Debug)]
struct Entry<S> {
    shape: &'static Shape,
    metadata: &'static str,
    state: S,
    /// Also the first part of its members' names.
    name: String,
}

impl<S> Entry<S> {
    /// The slots' members.
    fn files(&self) -> Vec<String> {
        (0..self.shape.members).map(|index| format!("{}.{index}", self.name)).collect()
    }

    /// One member beyond the slots.
    fn spare(&self) -> String {
        format!("{}.spare", self.name)
    }

    /// Makes the members' files, the spare's too.
    fn make_files(&self, bench: &Bench) {
        for (index, file) in self.files().iter().enumerate() {
            bench.lab.file(file, self.shape.member_bytes(index));
        }
        bench.lab.file(&self.spare(), self.shape.member_bytes(0));
    }

    /// What `mdadm --create` and `uraid create` both take.
    fn options(&self) -> Vec<String> {
        let mut options = self.shape.options();
        options.push(format!("--metadata={}", self.metadata));
        options
    }
}

/// Those that are to be tried, in guests' worth.
fn batches<S: Clone>(all: &[Entry<S>]) -> Vec<Vec<Entry<S>>> {
    let step = if everything() { 1 } else { STRIDE };
    let taken: Vec<Entry<S>> = all.iter().step_by(step).cloned().collect();
    taken.chunks(ARRAYS_PER_GUEST).map(<[_]>::to_vec).collect()
}

/// Runs the batches' scripts, each in a guest of its own with a bench of its own; says how many arrays that were and how long it took.
fn run<S: Clone>(
    referee: &Referee,
    what: &str,
    all: &[Entry<S>],
    bench: fn() -> Bench,
    prepare: impl Fn(&Bench, &Entry<S>) -> String,
    check: impl Fn(&Bench, &Entry<S>, &Output),
) {
    let (mut tried, started) = (0, Instant::now());
    for batch in batches(all) {
        let bench = bench();
        let script: String = batch.iter().map(|entry| prepare(&bench, entry)).collect();
        let output = guest::run(referee, &bench, &script);
        for entry in &batch {
            check(&bench, entry, &output);
            tried += 1;
        }
    }
    assert!(tried > 0, "{what}: nothing was tried");
    println!("matrix: {what}: {tried} arrays of {} in {} s", all.len(), started.elapsed().as_secs());
}
