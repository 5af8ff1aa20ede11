//! The simulator: an array's core on simulated disks, with everything that can go wrong, from one seed.
//!
//! A seed chooses an array, creates it, and leads it through several lives: requests of all kinds in flight together, completions
//! in any order, disks that die, fill up or lose blocks, an administrator who fails, removes and adds members, and a power cut at
//! any output, after which unflushed writes are kept, lost or torn block by block. A model knows what each sector may hold; rules
//! that hold at all times are checked on every output. The same seed gives the same run, on any machine, for ever.
//!
//! It uses no clock, no threads and no I/O, and nothing depends on it.
//!
//! ```
//! let marks = uraid_sim::run(7, None).unwrap();
//! assert!(marks.count("life") > 0);
//! ```

mod actions;
mod assemble;
mod disk;
mod exhaustive;
mod life;
mod marks;
mod model;
mod rng;
mod rules;
mod setup;
mod silent;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use exhaustive::{Case, Counts, cases, explore};
pub use marks::{Marks, WANTED};
pub use silent::{silent, stale};
pub use world::Mutation;

/// Runs a seed to its end and returns what it reached. A panic of the code under test is a failure like any other.
///
/// # Errors
/// The rule that was broken.
pub fn run(seed: u64, mutation: Option<Mutation>) -> Result<Marks, String> {
    guarded(|| life::run(seed, mutation, false))
}

/// As [`run`], printing everything that happens.
///
/// # Errors
/// As [`run`].
pub fn trace(seed: u64) -> Result<Marks, String> {
    guarded(|| life::run(seed, None, true))
}

/// The command that replays a seed.
#[must_use]
pub fn replay_command(seed: u64) -> String {
    format!("cargo run --release -p uraid-sim -- --seed {seed} --trace")
}

fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", words.unwrap_or("without words")))
    })
}
