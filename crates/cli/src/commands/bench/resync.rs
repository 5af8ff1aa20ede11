//! `uraid bench resync`.

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
    /// Leave the files where they are
    #[arg(long)]
    keep: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report `bench-resync`.
#[derive(Serialize)]
struct Report {
    level: &'static str,
    members: usize,
    bytes_per_member: u64,
    chunk_bytes: u64,
    sparse: bool,
    passes: Vec<Pass>,
}

#[derive(Serialize)]
struct Pass {
    pass: &'static str,
    seconds: f64,
    kib_per_second_and_member: u64,
    /// MiB of all members a second.
    mib_per_second: u64,
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
    let begun = Instant::now();
    let array = start(&paths, &RunOptions::default())?;
    let status = until_idle(&array, &stop)?;
    let first = begun.elapsed();
    let begun = Instant::now();
    array.command(Command::StartSync(SyncKind::Resync)).context("the second pass was refused")?;
    let ended = until_idle(&array, &stop)?;
    let second = begun.elapsed();
    array.stop();
    if status.last_sync.is_none_or(|last| !last.complete) || ended.resync_pending {
        bail!("a resync did not reach the end");
    }
    let first_name = if args.sparse { "first, all zeros" } else { "first, parity written" };
    let passes = [(first_name, first), ("second, parity right", second)];
    let pass = |(pass, took): (&'static str, Duration)| {
        let bytes_per_second = status.member_bytes as f64 / took.as_secs_f64();
        Pass {
            pass,
            seconds: took.as_secs_f64(),
            kib_per_second_and_member: (bytes_per_second / 1024.0) as u64,
            mib_per_second: (bytes_per_second * args.members as f64 / f64::from(1 << 20)) as u64,
        }
    };
    report(
        &Report {
            level: args.level.name(),
            members: args.members,
            bytes_per_member: status.member_bytes,
            chunk_bytes: status.chunk_bytes,
            sparse: args.sparse,
            passes: passes.map(pass).into(),
        },
        args.json,
    )
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
    Ok(Exit::Done)
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
