//! `uraid bench resync`: how fast, where the time goes, and what would bound it on other members.

mod account;
mod limits;
mod times;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;
use uraid_array::core::Command;
use uraid_array::{CreateRequest, RunOptions};
use uraid_engine::SyncKind;
use uraid_report::{Progress, Table, human_bytes, human_duration, human_speed};
use uraid_types::{Level, SectorCount};

use super::processor;
use account::{Account, Measured, OnMembers};
use limits::{Limits, limits};
use times::ProcessTime;

use crate::bed::{Bed, create_on, start};
use crate::commands::quickstart::pattern::Pattern;
use crate::output::{Exit, say, say_json, usage};
use crate::signals::Stop;
use crate::sizes;
use crate::watch::until_idle;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the member files go, in a folder of their own
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    dir: PathBuf,
    /// How many members
    #[arg(long, value_name = "N", default_value_t = 16)]
    members: usize,
    /// Size of each, in KiB unless a unit is given
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::kib)]
    member_size: u64,
    /// 4, 5 or 6 (1 and 10 have no parity to write)
    #[arg(short, long, default_value = "6")]
    level: Level,
    /// Chunk, in KiB unless a unit is given
    #[arg(short, long, value_name = "SIZE", default_value = "512K", value_parser = sizes::kib)]
    chunk: u64,
    /// Leave the members sparse, where all zeros need no parity written, instead of filling them
    #[arg(long)]
    sparse: bool,
    /// Also say what would bound the array on members of this speed: 250MB/s, units as powers of 1024
    #[arg(long, value_name = "RATE", value_parser = member_rate)]
    member_rate: Option<u64>,
    /// Leave the files where they are
    #[arg(long)]
    keep: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

fn member_rate(text: &str) -> Result<u64, String> {
    let rate = sizes::bytes(text.strip_suffix("/s").or_else(|| text.strip_suffix("/sec")).unwrap_or(text))?;
    if rate == 0 { Err("members of no speed never come to an end".to_owned()) } else { Ok(rate) }
}

/// The JSON report `bench-resync`.
#[derive(Serialize)]
struct Report {
    /// Its name, where the system tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<String>,
    level: &'static str,
    members: usize,
    bytes_per_member: u64,
    chunk_bytes: u64,
    sparse: bool,
    passes: Vec<Pass>,
    /// MiB a second that each part can do alone.
    limits: Limits,
}

#[derive(Serialize)]
struct Pass {
    pass: &'static str,
    seconds: f64,
    kib_per_second_and_member: u64,
    /// MiB of all members a second.
    mib_per_second: u64,
    /// The part that is closest to its limit, in words.
    bound: String,
    /// Where the time went; what its name calls estimated is.
    time: Account,
    /// On members of the speed asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_members: Option<OnMembers>,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if !args.level.has_parity() {
        return Err(usage(format!("--level {} has no parity; take 4, 5 or 6", args.level)));
    }
    let stop = Stop::listen()?;
    let bed = Bed::new(&args.dir, "bench", args.members as u64, args.member_size, args.keep)?;
    let paths = bed.make(0..args.members)?;
    if !args.sparse {
        fill(&paths, args.member_size, &stop)?;
    }
    let chunk = SectorCount::from_bytes(args.chunk);
    // What the members were filled with may look like anything.
    create_on(&paths, &CreateRequest { chunk, force: true, name: "bench".to_owned(), ..CreateRequest::new(args.level) })?;
    let begun = Begun::now();
    let array = start(&paths, &RunOptions::default())?;
    let status = until_idle(&array, &stop)?;
    let first = begun.end();
    let begun = Begun::now();
    array.command(Command::StartSync(SyncKind::Resync)).context("the second pass was refused")?;
    let ended = until_idle(&array, &stop)?;
    let second = begun.end();
    array.stop();
    if status.last_sync.is_none_or(|last| !last.complete) || ended.resync_pending {
        bail!("a resync did not reach the end");
    }
    stop.check()?;
    let limits = limits(&paths, args.member_size, parities(args.level))?;
    let names = if args.sparse {
        ["first, sparse, all zeros", "second, sparse, parity right"]
    } else {
        ["first, parity written", "second, parity right"]
    };
    let passes = [(names[0], first, !args.sparse), (names[1], second, false)];
    let passes =
        passes.map(|(name, took, writes)| Pass::new(name, &measured(args, status.member_bytes, &took, writes), args, &limits));
    report(
        &Report {
            processor: processor::name(),
            level: args.level.name(),
            members: args.members,
            bytes_per_member: status.member_bytes,
            chunk_bytes: status.chunk_bytes,
            sparse: args.sparse,
            passes: passes.into(),
            limits,
        },
        args.json,
    )
}

fn parities(level: Level) -> usize {
    if level == Level::Raid6 { 2 } else { 1 }
}

fn measured(args: &Args, bytes_per_member: u64, took: &Took, writes: bool) -> Measured {
    Measured {
        seconds: took.wall.as_secs_f64().max(1e-6),
        member_bytes: bytes_per_member as f64 * args.members as f64,
        members: args.members,
        parities: parities(args.level),
        writes,
        processor_seconds: took.processor.all.as_secs_f64(),
        kernel_seconds: took.processor.kernel.map(|time| time.as_secs_f64()),
        queued_seconds: took.processor.queued.map(|time| time.as_secs_f64()),
    }
}

/// The clocks when a pass began.
struct Begun {
    wall: Instant,
    processor: ProcessTime,
}

/// What a pass took.
struct Took {
    wall: Duration,
    processor: ProcessTime,
}

impl Begun {
    fn now() -> Begun {
        Begun { wall: Instant::now(), processor: ProcessTime::now() }
    }

    fn end(self) -> Took {
        Took { wall: self.wall.elapsed(), processor: ProcessTime::now().since(self.processor) }
    }
}

impl Pass {
    fn new(pass: &'static str, measured: &Measured, args: &Args, limits: &Limits) -> Pass {
        let time = Account::new(measured, limits);
        let bytes_per_second = measured.member_bytes / measured.seconds;
        Pass {
            pass,
            seconds: measured.seconds,
            kib_per_second_and_member: (bytes_per_second / measured.members as f64 / 1024.0) as u64,
            mib_per_second: (bytes_per_second / f64::from(1 << 20)) as u64,
            bound: time.bound.clone(),
            time,
            on_members: args.member_rate.map(|rate| OnMembers::new(measured, rate)),
        }
    }

    /// What is said of members of the speed asked for.
    fn on_members_text(&self) -> Option<String> {
        let on = self.on_members.as_ref()?;
        let (bound, other) =
            if on.bound == "members" { ("the members", "this machine") } else { ("this machine", "the members") };
        Some(format!(
            "{}, on members of {}/s: {} a member (estimate), bound by {bound}; {other} would be busy {:.0} % of the time",
            self.pass,
            human_bytes(on.member_bytes_per_second),
            human_speed(on.kib_per_second_and_member),
            on.other_busy * 100.0
        ))
    }
}

fn report(report: &Report, as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        say_json("bench-resync", report)?;
        return Ok(Exit::Done);
    }
    let Report { level, members, bytes_per_member, .. } = report;
    say(format_args!(
        "{level}, {members} members of {}, chunk {}",
        human_bytes(*bytes_per_member),
        human_bytes(report.chunk_bytes)
    ))?;
    let mut table = Table::new(&["pass", "time", "a member", "all members"]);
    table.right(1).right(2).right(3);
    for pass in &report.passes {
        table.row([
            pass.pass.to_owned(),
            human_duration(Duration::from_secs_f64(pass.seconds)),
            human_speed(pass.kib_per_second_and_member),
            format!("{} MiB/s", pass.mib_per_second),
        ]);
    }
    say(table)?;
    say(format_args!("\n{}", time_table(report)))?;
    for pass in &report.passes {
        say(format_args!("{}: {}", pass.pass, pass.bound))?;
    }
    report.passes.iter().filter_map(Pass::on_members_text).try_for_each(say)?;
    Ok(Exit::Done)
}

/// Where the time went, each part beside what it can do alone.
fn time_table(report: &Report) -> Table {
    let limits = &report.limits;
    let mut headings = vec!["where the time of the processors goes"];
    headings.extend(report.passes.iter().map(|pass| pass.pass));
    headings.push("alone");
    let mut table = Table::new(&headings);
    (1..headings.len()).for_each(|column| {
        table.right(column);
    });
    let mut row = |label: &str, alone: String, cell: &dyn Fn(&Account) -> String| {
        let cells = report.passes.iter().map(|pass| cell(&pass.time));
        table.row(std::iter::once(label.to_owned()).chain(cells).chain([alone]));
    };
    let part = |seconds: f64, time: &Account| format!("{:.0} %", seconds / time.available_seconds.max(1e-9) * 100.0);
    let none = String::new;
    let parity = format!("{:.0} MiB/s of data, {}", limits.check, limits.kernel);
    row("parity code (estimate)", none(), &|time| part(time.parity_seconds_estimated, time));
    row("reading members, copying (estimate)", none(), &|time| part(time.member_reads_seconds_estimated, time));
    row("writing, engine, slower memory (rest)", none(), &|time| part(time.other_seconds, time));
    row("waiting", none(), &|time| part(time.waiting_seconds, time));
    row("ready, but other programs ran", none(), &|time| part(time.other_programs_seconds, time));
    row("(of it all within the system's kernel)", none(), &|time| {
        time.kernel_seconds.map_or_else(|| "-".to_owned(), |seconds| part(seconds, time))
    });
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    row("share of parity code alone, one thread", parity, &|time| share(time.share_of_parity));
    let reads = format!("{:.0} MiB/s, {} threads", limits.bare_reads, limits.threads);
    row("share of bare reads of the members", reads, &|time| share(time.share_of_member_reads));
    let memory = format!("{:.0} MiB/s, {} threads", limits.memory_reads, limits.threads);
    row("share of reading memory, each byte twice", memory, &|time| share(time.share_of_memory));
    table
}

/// Fills the members with what looks like chance, each with something else.
fn fill(paths: &[PathBuf], member_bytes: u64, stop: &Stop) -> anyhow::Result<()> {
    let mut progress = Progress::new("fill", member_bytes * paths.len() as u64);
    let mut buffer = vec![0; 1 << 20];
    let mut done_bytes = 0;
    for (index, path) in paths.iter().enumerate() {
        let pattern = Pattern::new(index as u64 + 1);
        let mut file = File::options().write(true).open(path).with_context(|| path.display().to_string())?;
        let mut at_bytes = 0;
        while at_bytes < member_bytes {
            stop.check()?;
            let len = buffer.len().min(usize::try_from(member_bytes - at_bytes).unwrap_or(usize::MAX));
            pattern.fill(at_bytes, &mut buffer[..len]);
            file.write_all(&buffer[..len]).with_context(|| format!("{}: cannot be written", path.display()))?;
            at_bytes += len as u64;
            done_bytes += len as u64;
            progress.set(done_bytes);
        }
    }
    progress.finish();
    Ok(())
}
