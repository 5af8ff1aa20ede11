//! Runs many seeds, or one with a trace: `--seeds N [--start S]`, `--seed X [--trace]`.

use std::process::ExitCode;

use uraid_sim::{Marks, WANTED, replay_command, run, trace};

const USAGE: &str = "usage: uraid-sim --seeds N [--start S] | --seed X [--trace]";

struct Wish {
    start: u64,
    seeds: u64,
    trace: bool,
}

fn parse(args: impl Iterator<Item = String>) -> Option<Wish> {
    let mut wish = Wish { start: 0, seeds: 0, trace: false };
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|number| number.parse().ok());
        match arg.as_str() {
            "--seeds" => wish.seeds = number()?,
            "--start" => wish.start = number()?,
            "--seed" => (wish.start, wish.seeds) = (number()?, 1),
            "--trace" => wish.trace = true,
            _ => return None,
        }
    }
    (wish.seeds > 0).then_some(wish)
}

fn main() -> ExitCode {
    let Some(wish) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (mut failed, mut marks) = (0, Marks::default());
    for seed in wish.start..wish.start + wish.seeds {
        let result = if wish.trace { trace(seed) } else { run(seed, None) };
        match result {
            Ok(reached) => marks.merge(&reached),
            Err(why) => {
                failed += 1;
                println!("seed {seed}: {why}\n  {}", replay_command(seed));
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
