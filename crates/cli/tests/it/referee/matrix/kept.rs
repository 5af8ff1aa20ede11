//! The arrays of `tests/kept`, made once more.
//!
//! They are a part of the matrix: of every shape one state, each shape in the next of those that are possible for it. What the kernel makes today has
//! to read as what it made then, and to be the same after packing. `cargo xtask keep` puts what it makes in the place of what is kept (by way of
//! `URAID_KEEP_DIR=DIR`, a folder for the packed arrays).

use std::path::PathBuf;

use uraid_referee::{Output, require};

use super::left::{self, State};
use super::shapes::SHAPES;
use super::{Entry, run};
use crate::kept::assert_reads;
use crate::kept::pack::Kept;
use crate::referee::guest;
use crate::referee::host::Bench;

/// Of every shape one array, and one that is written mostly.
fn all() -> Vec<Entry<State>> {
    let matrix = left::all();
    let chosen = SHAPES.iter().enumerate().map(|(number, shape)| {
        let entries: Vec<&Entry<State>> = matrix.iter().filter(|entry| entry.shape == shape).collect();
        let mut states: Vec<State> = entries.iter().map(|entry| entry.state).collect();
        states.dedup();
        let state = states[number % states.len()];
        // Arrays that were stopped whole are there under each metadata.
        let alike: Vec<&Entry<State>> = entries.into_iter().filter(|entry| entry.state == state).collect();
        alike[number % alike.len()].clone()
    });
    // Only mirrors know it, and none of them is in turn for it.
    let mostly = matrix.iter().find(|entry| entry.state == State::WriteMostly).cloned();
    chosen.chain(mostly).collect()
}

/// The packed array's file.
fn file_name(entry: &Entry<State>) -> String {
    let (shape, state) = (entry.shape, entry.state);
    let mut name = if shape.level == "linear" { "linear".to_owned() } else { format!("raid{}", shape.level) };
    if !shape.layout.is_empty() {
        name = format!("{name}-{}", shape.layout);
    }
    name = format!("{name}-{}", shape.members);
    if shape.chunk_kib > 0 {
        name = format!("{name}x{}k", shape.chunk_kib);
    }
    format!("{name}-{state:?}-{}.packed", entry.metadata).to_lowercase()
}

fn check(bench: &Bench, entry: &Entry<State>, output: &Output) {
    left::check(bench, entry, output);
    let kept = Kept {
        size_bytes: guest::value(output, "size", &entry.name).parse().unwrap(),
        exit: if entry.state.is_degraded() { 3 } else { 0 },
        may_lose: if entry.state == State::Clean { entry.shape.may_lose as u8 } else { 0 },
        members: bench.lab.bytes(&left::members(entry)),
    };
    let packed = kept.pack();
    assert!(Kept::unpack(&packed) == kept, "{entry:?}: packed and unpacked, it is another");
    assert_reads(&entry.name, &kept);
    if let Some(folder) = std::env::var_os("URAID_KEEP_DIR") {
        std::fs::write(PathBuf::from(folder).join(file_name(entry)), packed).unwrap();
    }
}

#[test]
fn what_is_kept_can_be_made_again() {
    let Some(referee) = require() else { return };
    run(referee, "kept", &all(), Bench::numbered, left::script, check);
}
