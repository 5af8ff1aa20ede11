//! Runs many seeds, or one with a trace: `--seeds N [--start S] [--until-failure]`, `--seed X [--trace]`; or every crash of tiny
//! arrays: `--exhaustive DEVIATIONS [--until-failure]`.

use std::process::ExitCode;

use uraid_sim::{Counts, Marks, WANTED, cases, explore, replay_command, run, trace};

const USAGE: &str = "usage: uraid-sim --seeds N [--start S] [--until-failure] | --seed X [--trace] | --exhaustive DEVIATIONS";

struct Wish {
    start: u64,
    seeds: u64,
    trace: bool,
    until_failure: bool,
    deviations: Option<usize>,
}

fn parse(args: impl Iterator<Item = String>) -> Option<Wish> {
    let mut wish = Wish { start: 0, seeds: 0, trace: false, until_failure: false, deviations: None };
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|number| number.parse().ok());
        match arg.as_str() {
            "--seeds" => wish.seeds = number()?,
            "--start" => wish.start = number()?,
            "--seed" => (wish.start, wish.seeds) = (number()?, 1),
            "--exhaustive" => wish.deviations = Some(usize::try_from(number()?).ok()?),
            "--trace" => wish.trace = true,
            "--until-failure" => wish.until_failure = true,
            _ => return None,
        }
    }
    (wish.seeds > 0 || wish.deviations.is_some()).then_some(wish)
}

fn main() -> ExitCode {
    let Some(wish) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if let Some(deviations) = wish.deviations {
        return exhaustive(deviations, wish.until_failure);
    }
    let (mut failed, mut marks) = (0, Marks::default());
    for seed in wish.start..wish.start + wish.seeds {
        let result = if wish.trace { trace(seed) } else { run(seed, None) };
        match result {
            Ok(reached) => marks.merge(&reached),
            Err(why) => {
                failed += 1;
                println!("seed {seed}: {why}\n  {}", replay_command(seed));
                if wish.until_failure {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    for (mark, count) in marks.iter() {
        println!("{count:>10} {mark}");
    }
    for mark in WANTED.iter().filter(|mark| marks.count(mark) == 0) {
        println!("     never {mark}");
    }
    println!("{} seeds, {failed} failed", wish.seeds);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn exhaustive(deviations: usize, until_failure: bool) -> ExitCode {
    let (mut failed, mut counts) = (0, Counts::default());
    for case in cases() {
        match explore(&case, deviations, None) {
            Ok(found) => {
                counts.add(&found);
                println!("{case}: {found}");
            }
            Err(why) => {
                failed += 1;
                println!("case {case}: {why}");
                if until_failure {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{counts}; {failed} cases failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
