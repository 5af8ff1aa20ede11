//! `uraid resync`, `check` and `repair`: to the end, on members at rest or on a running array.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;
use uraid_array::core::{Status, SyncStatus};
use uraid_array::{Array, AssembleOptions, RunOptions};
use uraid_device::OpenOptions;
use uraid_engine::SyncKind;

use crate::control::{self, Request};
use crate::members::{WhichArgs, assemble, read_alone};
use crate::output::{Exit, note, say, say_json};
use crate::signals::{Interrupted, Stop};
use crate::watch::{Bars, until_idle};

/// How often a running array is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name of a running array, or the members of one at rest
    #[arg(value_name = "NAME|MEMBER", required = true)]
    targets: Vec<PathBuf>,
    #[command(flatten)]
    which: WhichArgs,
    /// Start although members are missing that were active last time
    #[arg(short = 'R', long)]
    run: bool,
    /// Take stale members where there are not enough others, and parity of an unclean degraded array for good
    #[arg(short, long)]
    force: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report `resync`, `check` or `repair`.
#[derive(Debug, Serialize)]
struct Report {
    /// What ran last: `resync`, `recovery`, `check` or `repair`; `null` when nothing was due.
    ran: Option<String>,
    complete: bool,
    /// md's mismatch_cnt, in sectors.
    mismatch_sectors: u64,
    unreadable_sectors: u64,
    /// Sectors of each member (of the array at RAID10).
    sectors: u64,
    seconds: f64,
    kib_per_second_and_member: u64,
    /// Slots that are not in sync.
    degraded: usize,
    resync_pending: bool,
}

/// Runs it.
pub fn run(args: &Args, kind: SyncKind) -> anyhow::Result<Exit> {
    let stop = Stop::listen()?;
    let begun = Instant::now();
    let (status, ran) = match running_name(&args.targets) {
        Some(name) => on_running(name, kind, &stop)?,
        None => on_members(args, kind, &stop)?,
    };
    report(args, kind, &status, ran, begun.elapsed())
}

/// A single word that is no file is the name of a running array.
fn running_name(targets: &[PathBuf]) -> Option<&str> {
    match targets {
        [name] if !name.exists() => name.to_str().filter(|name| !name.contains('/')),
        _ => None,
    }
}

fn on_members(args: &Args, kind: SyncKind, stop: &Stop) -> anyhow::Result<(Status, Option<SyncStatus>)> {
    let looks_only = kind == SyncKind::Check;
    let open = if looks_only { read_alone() } else { OpenOptions::own() };
    let options = AssembleOptions { force: args.force, run: args.run, read_only: looks_only, uuid: None };
    let assembly = assemble(&args.targets, &args.which, open, &options)?;
    if let (Some(why), false) = (&assembly.read_only_because, looks_only) {
        bail!("the array can only be read: {why}");
    }
    let array = Array::start(assembly, &RunOptions { read_only: looks_only, auto_sync: !looks_only, ..RunOptions::default() });
    let ended = run_on(&array, kind, stop);
    array.stop();
    ended
}

fn run_on(array: &Array, kind: SyncKind, stop: &Stop) -> anyhow::Result<(Status, Option<SyncStatus>)> {
    // What was due when the array started comes first; for a resync it is all there is to do.
    let mut status = until_idle(array, stop)?;
    if kind != SyncKind::Resync {
        array.command(uraid_array::core::Command::StartSync(kind)).with_context(|| format!("the {} was refused", kind.name()))?;
        status = until_idle(array, stop)?;
    }
    if let Some(why) = &status.broken {
        bail!("the array has failed: {why}");
    }
    let ran = status.last_sync.clone();
    Ok((status, ran))
}

fn on_running(name: &str, kind: SyncKind, stop: &Stop) -> anyhow::Result<(Status, Option<SyncStatus>)> {
    let request = match kind {
        SyncKind::Check => Request::Check,
        SyncKind::Repair => Request::Repair,
        SyncKind::Resync | SyncKind::Recovery => Request::Resync,
    };
    control::call(name, &request)?;
    let mut bars = Bars::default();
    loop {
        let status = control::status(name)?;
        bars.show(&status);
        if status.sync.is_none() {
            let ran = status.last_sync.clone();
            return Ok((status, ran));
        }
        if stop.asked() {
            bars.end(None);
            if matches!(kind, SyncKind::Check | SyncKind::Repair) {
                control::call(name, &Request::StopSync)?;
                return Err(Interrupted.into());
            }
            return Err(anyhow::Error::new(Interrupted).context(format!("the {} goes on in {name}", kind.name())));
        }
        std::thread::sleep(ASK_EVERY);
    }
}

fn report(args: &Args, kind: SyncKind, status: &Status, ran: Option<SyncStatus>, took: Duration) -> anyhow::Result<Exit> {
    let (complete, mismatch_sectors) = ran.as_ref().map_or((true, 0), |ran| (ran.complete, ran.mismatch_sectors));
    let sectors = ran.as_ref().map_or(0, |ran| ran.end_sectors);
    let unreadable_sectors = ran.as_ref().map_or(0, |ran| ran.unreadable_sectors);
    if args.json {
        let report = Report {
            ran: ran.as_ref().map(|ran| ran.kind.clone()),
            complete,
            mismatch_sectors,
            unreadable_sectors,
            sectors,
            seconds: took.as_secs_f64(),
            kib_per_second_and_member: (sectors as f64 / 2.0 / took.as_secs_f64()) as u64,
            degraded: status.degraded,
            resync_pending: status.resync_pending,
        };
        say_json(kind.name(), &report)?;
    } else {
        match &ran {
            None => say("nothing to resync: the array is in sync (repair goes over it regardless)")?,
            Some(ran) => {
                let end = if complete { "done" } else { "broken off" };
                say(format_args!(
                    "{} {end}: mismatch_cnt {mismatch_sectors}, unreadable sectors {unreadable_sectors}",
                    ran.kind
                ))?;
            }
        }
    }
    if !complete {
        bail!("the {} did not reach the end", kind.name());
    }
    if status.degraded > 0 {
        note(format_args!("{} of {} slots are not in sync: [{}]", status.degraded, status.raid_disks, status.up));
    }
    // A resync and a repair have mended what they found; what a check finds is still there.
    let bad = status.degraded > 0 || unreadable_sectors > 0 || mismatch_sectors > 0 && kind != SyncKind::Resync;
    Ok(if bad { Exit::Degraded } else { Exit::Done })
}
