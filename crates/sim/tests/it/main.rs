//! Many seeds, pinned seeds of every fault that was found, and canaries: runs that are made to go wrong and must be caught.

use std::thread;

use uraid_sim::{Counts, Marks, Mutation, WANTED, cases, explore, replay_command, run, silent, stale};

/// Seeds in an ordinary run; `URAID_SIM_SEEDS` sets another number.
const SEEDS: u64 = 5000;

/// Seeds that each canary may take to be caught.
const CANARY_SEEDS: u64 = 60;

fn seeds() -> u64 {
    std::env::var("URAID_SIM_SEEDS").ok().and_then(|number| number.parse().ok()).unwrap_or(SEEDS)
}

/// Runs the seeds; returns what was reached and, for each that failed, why and how to replay it.
fn run_all(seeds: impl Iterator<Item = u64>) -> (Marks, Vec<String>) {
    let (mut marks, mut failures) = (Marks::default(), Vec::new());
    for seed in seeds {
        match run(seed, None) {
            Ok(reached) => marks.merge(&reached),
            Err(why) => failures.push(format!("seed {seed}: {why}\n    {}", replay_command(seed))),
        }
    }
    (marks, failures)
}

#[test]
fn seeds_keep_the_rules_and_reach_every_path() {
    let count = seeds();
    let halves = [(0..count).step_by(2), (1..count.max(1)).step_by(2)];
    let workers = halves.map(|half| thread::spawn(move || run_all(half)));
    let (mut marks, mut failures) = (Marks::default(), Vec::new());
    for worker in workers {
        let (reached, failed) = worker.join().expect("a seed that panics is a failure that is caught");
        marks.merge(&reached);
        failures.extend(failed);
    }
    assert!(failures.is_empty(), "{} of {count} seeds failed:\n{}", failures.len(), failures.join("\n"));
    if count >= SEEDS {
        let missed: Vec<_> = WANTED.iter().filter(|mark| marks.count(mark) == 0).collect();
        assert!(missed.is_empty(), "never reached: {missed:?}; reached: {marks:?}");
    }
}

/// The seeds that found faults, and what was wrong then. Where a seed leads changes with the simulator, so these are first of all a
/// list of what it has found; the rules that found it are checked on every seed.
const PINNED: &[(u64, &str)] = &[
    (0, "a forced RAID6 kept a P and a Q that disagreed"),
    (11, "two crashes in a row left superblocks two events apart"),
    (40, "a RAID10 check found what a resync had passed by for a member being rebuilt"),
    (107, "bits of a clean array stayed set"),
    (238, "a spare that came in the middle of an update got a superblock of the past"),
    (220, "members brought up to date after a crash were ahead of their bitmaps"),
    (282, "a spare got a superblock without its bitmap"),
    (285, "a flush that had been sent before the last write marked the array clean"),
    (299, "a crash half way through recording a loss left members behind that were not lost"),
    (444, "a torn write during a resync was forgotten when it moved on"),
    (576, "one unreadable block had a whole window rebuilt from stale parity"),
    (770, "bits before a torn write stayed due"),
    (874, "a recovery took a resync for done that had given up"),
    (1079, "what a member had been filled with was never compared after a crash"),
    (2315, "an update begun before a loss was made all the same, with the lost member behind and its stand-in not yet recorded"),
    (3840, "a spare counted as filled because the freshest superblock gave it a slot"),
    (4144, "bits before the point where a resync starts stayed due"),
    (5279, "the loss of the last other member was recorded before the recovered one was durable"),
    (6880, "a spare that a crash had left one event ahead made the next update go two beyond all others"),
    (9571, "a member that had failed to flush metadata went on for so long that a request's flush counted"),
    (21295, "an update from before the loss of the last whole member left that one stale before its stand-in was recorded"),
    (33238, "a copy that a resync had read from a member lost since was written over one that had been read"),
    (40900, "the same at RAID1, where the lost member's copy was read before and written after"),
];

#[test]
fn pinned_seeds_stay_mended() {
    let (_, failures) = run_all(PINNED.iter().map(|&(seed, _)| seed));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn canaries_are_caught() {
    for mutation in Mutation::ALL {
        let caught = (0..CANARY_SEEDS).find(|&seed| run(seed, Some(mutation)).is_err());
        assert!(caught.is_some(), "{mutation:?} goes unnoticed in {CANARY_SEEDS} seeds");
    }
}

#[test]
fn tiny_arrays_outlive_every_crash() {
    let cases = cases();
    let halves = [cases.iter().step_by(2).cloned().collect::<Vec<_>>(), cases.iter().skip(1).step_by(2).cloned().collect()];
    let workers = halves.map(|half| thread::spawn(move || half.iter().map(|case| explore(case, 0, None)).collect::<Vec<_>>()));
    let (mut counts, mut failures) = (Counts::default(), Vec::new());
    for worker in workers {
        for result in worker.join().expect("a case that panics is a failure that is caught") {
            result.map_or_else(|why| failures.push(why), |found| counts.add(&found));
        }
    }
    println!("{counts}");
    assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(counts.left_out, 0);
    assert!(counts.distinct > 10_000, "{counts}");
}

#[test]
fn canaries_are_caught_in_tiny_arrays() {
    for mutation in [Mutation::FlushLies, Mutation::NoBitmap, Mutation::NoSuperblock] {
        let caught = cases().iter().any(|case| explore(case, 0, Some(mutation)).is_err());
        assert!(caught, "{mutation:?} goes unnoticed");
    }
}

/// Seeds of the faults that no disk reports, each.
const SILENT_SEEDS: u64 = 600;

fn run_scenario(scenario: fn(u64) -> Result<Marks, String>, reaches: &[&str]) {
    let (mut marks, mut failures) = (Marks::default(), Vec::new());
    for seed in 0..SILENT_SEEDS {
        match scenario(seed) {
            Ok(reached) => marks.merge(&reached),
            Err(why) => failures.push(format!("seed {seed}: {why}")),
        }
    }
    assert!(failures.is_empty(), "{} seeds failed:\n{}", failures.len(), failures.join("\n"));
    let missed: Vec<_> = reaches.iter().filter(|mark| marks.count(mark) < 20).collect();
    assert!(missed.is_empty(), "hardly reached: {missed:?}; reached: {marks:?}");
}

#[test]
fn what_no_disk_reports_is_found_by_a_check_and_harms_nothing_else() {
    run_scenario(silent, &["rot", "phantom write", "misdirected write"]);
}

#[test]
fn members_that_were_away_are_not_trusted() {
    run_scenario(stale, &["stale member", "two halves"]);
}

#[test]
fn a_seed_means_the_same_every_time() {
    for seed in 0..5 {
        assert_eq!(run(seed, None), run(seed, None));
    }
}
