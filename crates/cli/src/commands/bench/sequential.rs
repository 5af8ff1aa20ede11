//! `uraid bench sequential`: how fast an array is read and written from its start to its end, beside what its members do alone.
//!
//! Members alone and the array take turns, and each is told by the median of its rounds: what disturbs one disturbs the other.

mod alone;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use uraid_array::{Array, CreateRequest, RunOptions};
use uraid_report::{Bar, BarChart, Table, human_bytes, svg};
use uraid_types::{Level, SectorCount};

use super::processor;
use alone::Members;

use crate::bed::{Bed, create_on, start};
use crate::commands::quickstart::pattern::Pattern;
use crate::output::{Exit, say, say_json};
use crate::signals::Stop;
use crate::sizes;
use crate::transfer::{Reader, Writer};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the member files go, in a folder of their own
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    dir: PathBuf,
    /// How many members
    #[arg(long, value_name = "N", default_value_t = 6)]
    members: usize,
    /// Size of each, in KiB unless a unit is given
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::kib)]
    member_size: u64,
    /// The level
    #[arg(short, long, default_value = "6")]
    level: Level,
    /// Chunk, in KiB unless a unit is given
    #[arg(short, long, value_name = "SIZE", default_value = "512K", value_parser = sizes::kib)]
    chunk: u64,
    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Also draw the medians as bars into FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Leave the files where they are
    #[arg(long)]
    keep: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report `bench-sequential`.
#[derive(Serialize)]
struct Report {
    /// Its name, where the system tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<String>,
    level: &'static str,
    members: usize,
    /// Of each that was measured.
    bytes_per_member: u64,
    array_bytes: u64,
    chunk_bytes: u64,
    runs: u16,
    read: Rates,
    write: Rates,
}

#[derive(Serialize)]
struct Rates {
    /// The array's bytes a second.
    array_mib_per_second: f64,
    /// The members' bytes a second, all together, without an array.
    members_mib_per_second: f64,
    /// The part of what the members can that the array could have: its data, without parity and copies.
    reachable_mib_per_second: f64,
    /// The array's rate over the reachable one.
    ratio: f64,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let stop = Stop::listen()?;
    let bed = Bed::new(&args.dir, "bench", args.members as u64, args.member_size, args.keep)?;
    let paths = bed.make(0..args.members)?;
    let chunk = SectorCount::from_bytes(args.chunk).filter(|_| args.level.has_chunks());
    create_on(&paths, &CreateRequest { chunk, name: "bench".to_owned(), assume_clean: true, ..CreateRequest::new(args.level) })?;
    let members = Members::of(&paths)?;
    // Nothing is sparse any more after this.
    members.write(&stop)?;
    let mut rounds = Rounds::default();
    let (mut array_bytes, mut chunk_bytes) = (0, 0);
    for _ in 0..args.runs {
        let array = start(&paths, &RunOptions { auto_sync: false, ..RunOptions::default() })?;
        array_bytes = array.size_bytes();
        chunk_bytes = array.status().context("the array has stopped")?.chunk_bytes;
        rounds.array_write.push(rate(array_bytes, || write(&array, &stop))?);
        rounds.array_read.push(rate(array_bytes, || read(&array, &stop))?);
        array.stop();
        rounds.members_read.push(rate(members.bytes(), || members.read(&stop))?);
        rounds.members_write.push(rate(members.bytes(), || members.write(&stop))?);
    }
    let share = array_bytes as f64 / members.bytes() as f64;
    let report = Report {
        processor: processor::name(),
        level: args.level.name(),
        members: args.members,
        bytes_per_member: members.bytes() / args.members as u64,
        array_bytes,
        chunk_bytes,
        runs: args.runs,
        read: Rates::of(&mut rounds.array_read, &mut rounds.members_read, 1.0),
        write: Rates::of(&mut rounds.array_write, &mut rounds.members_write, share),
    };
    if let Some(path) = &args.svg {
        std::fs::write(path, svg(&[chart(&report)])).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    if args.json {
        say_json("bench-sequential", &report)?;
    } else {
        say(table(&report))?;
    }
    Ok(Exit::Done)
}

/// MiB a second, round by round.
#[derive(Default)]
struct Rounds {
    array_read: Vec<f64>,
    array_write: Vec<f64>,
    members_read: Vec<f64>,
    members_write: Vec<f64>,
}

fn rate(bytes: u64, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(bytes as f64 / f64::from(1 << 20) / begun.elapsed().as_secs_f64().max(1e-9))
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    (rates[(rates.len() - 1) / 2] + rates[rates.len() / 2]) / 2.0
}

impl Rates {
    /// `share`: the part of the members' bytes that is the array's.
    fn of(array: &mut [f64], members: &mut [f64], share: f64) -> Rates {
        let (array, members) = (median(array), median(members));
        let reachable = members * share;
        Rates {
            array_mib_per_second: array,
            members_mib_per_second: members,
            reachable_mib_per_second: reachable,
            ratio: array / reachable,
        }
    }
}

fn read(array: &Array, stop: &Stop) -> anyhow::Result<()> {
    for (offset_bytes, outcome) in Reader::new(array, 0..array.size_bytes()) {
        stop.check()?;
        outcome.map_err(|error| anyhow::anyhow!("the array cannot be read at byte {offset_bytes}: {error}"))?;
    }
    Ok(())
}

fn write(array: &Array, stop: &Stop) -> anyhow::Result<()> {
    let mut writer = Writer::new(array);
    let mut bytes = array.pool().take(writer.len_at(0));
    Pattern::new(1).fill(0, &mut bytes);
    let bytes = bytes.share();
    let mut at_bytes = 0;
    while at_bytes < array.size_bytes() {
        stop.check()?;
        let len = usize::try_from(array.size_bytes() - at_bytes).unwrap_or(usize::MAX).min(writer.len_at(at_bytes));
        writer.write(at_bytes, bytes.slice(0..len))?;
        at_bytes += len as u64;
    }
    writer.finish()
}

fn table(report: &Report) -> String {
    let mut table = Table::new(&["", "array", "members alone", "reachable", "ratio"]);
    (1..5).for_each(|column| {
        table.right(column);
    });
    for (what, rates) in [("read", &report.read), ("write", &report.write)] {
        let mib = |rate: f64| format!("{rate:.0} MiB/s");
        table.row([
            what.to_owned(),
            mib(rates.array_mib_per_second),
            mib(rates.members_mib_per_second),
            mib(rates.reachable_mib_per_second),
            format!("{:.2}", rates.ratio),
        ]);
    }
    format!(
        "{}, {} members of {}, {} in the array, chunk {}; medians of {}\n{table}",
        report.level,
        report.members,
        human_bytes(report.bytes_per_member),
        human_bytes(report.array_bytes),
        human_bytes(report.chunk_bytes),
        report.runs
    )
}

fn chart(report: &Report) -> BarChart {
    let bars = [("read", &report.read), ("write", &report.write)].into_iter().flat_map(|(what, rates)| {
        let bar = |label: &str, value, series| Bar { label: format!("{what}, {label}"), value, series };
        [bar("array", rates.array_mib_per_second, 0), bar("reachable", rates.reachable_mib_per_second, 1)]
    });
    let title = format!("Sequential, {} of {} members", report.level, report.members);
    BarChart { title, unit: "MiB/s".to_owned(), bars: bars.collect() }
}
