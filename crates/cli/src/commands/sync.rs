//! `uraid resync`, `check` and `repair`: to the end, on members at rest or on a running array.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;
use uraid_array::core::{Command, Status, SyncStatus};
use uraid_array::{Array, Assembly, RunOptions};
use uraid_device::OpenOptions;
use uraid_engine::{MemberState, SyncKind};

use crate::control::{self, Request};
use crate::members::{SpeedArgs, StartArgs, WhichArgs, assemble, read_alone};
use crate::output::{Exit, note, say, say_json};
use crate::signals::{Interrupted, Stop};
use crate::watch::{Bars, until_idle_counted};

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
    #[command(flatten)]
    start: StartArgs,
    #[command(flatten)]
    speed: SpeedArgs,
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
    /// Sectors of each member (of the array at RAID10) that were gone over; more than there are when several runs were due.
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
    let ended = match running_name(&args.targets) {
        Some(name) => {
            args.speed.tell(name)?;
            on_running(name, kind, &stop)?
        }
        None => on_members(args, kind, &stop)?,
    };
    report(args, kind, &ended, begun.elapsed())
}

/// How it ended.
struct Ended {
    status: Status,
    /// The last run; `None` when nothing was due.
    ran: Option<SyncStatus>,
    /// Sectors that all runs have gone over.
    sectors: u64,
}

/// A single word that is no file is the name of a running array.
fn running_name(targets: &[PathBuf]) -> Option<&str> {
    match targets {
        [name] if !name.exists() => name.to_str().filter(|name| !name.contains('/')),
        _ => None,
    }
}

fn on_members(args: &Args, kind: SyncKind, stop: &Stop) -> anyhow::Result<Ended> {
    let looks_only = kind == SyncKind::Check;
    let open = if looks_only { read_alone() } else { OpenOptions::own() };
    let options = args.start.options(looks_only);
    let assembly = assemble(kind.name(), &args.targets, &args.which, open, &args.start, &options)?;
    if let (Some(why), false) = (&assembly.read_only_because, looks_only) {
        bail!("the array can only be read: {why}");
    }
    let begun = Bars::from(begun_sectors(&assembly));
    let sync_speed = args.speed.speed();
    let options = RunOptions { read_only: looks_only, auto_sync: !looks_only, sync_speed, ..RunOptions::default() };
    let array = Array::start(assembly, &options);
    let ended = run_on(&array, kind, begun, stop);
    array.stop();
    ended
}

/// Where the run that is due goes on from.
fn begun_sectors(assembly: &Assembly) -> u64 {
    let recovered = assembly.slots.iter().filter_map(|slot| match slot.state {
        MemberState::Rebuilding { recovered } => Some(recovered.0),
        MemberState::InSync | MemberState::Missing => None,
    });
    assembly.resync_from.map(|from| from.0).or(recovered.min()).unwrap_or(0)
}

fn run_on(array: &Array, kind: SyncKind, begun: Bars, stop: &Stop) -> anyhow::Result<Ended> {
    // What was due when the array started comes first; for a resync it is all there is to do.
    let (mut status, mut bytes) = until_idle_counted(array, stop, begun)?;
    if kind != SyncKind::Resync {
        array.command(Command::StartSync(kind)).with_context(|| format!("the {} was refused", kind.name()))?;
        let (ended, more_bytes) = until_idle_counted(array, stop, Bars::default())?;
        (status, bytes) = (ended, bytes + more_bytes);
    }
    if let Some(why) = &status.broken {
        bail!("the array has failed: {why}");
    }
    let ran = status.last_sync.clone();
    Ok(Ended { status, ran, sectors: bytes / 512 })
}

fn on_running(name: &str, kind: SyncKind, stop: &Stop) -> anyhow::Result<Ended> {
    let request = match kind {
        SyncKind::Check => Request::Check,
        SyncKind::Repair => Request::Repair,
        SyncKind::Resync | SyncKind::Recovery => Request::Resync,
    };
    // One that runs already is watched to its end.
    let under_way = control::status(name)?.sync.map(|sync| sync.kind);
    if under_way.as_deref() != Some(kind.name()) {
        control::call(name, &request)?;
    }
    let mut bars = Bars::default();
    loop {
        let status = control::status(name)?;
        bars.show(&status);
        if status.sync.is_none() {
            let ran = status.last_sync.clone();
            let sectors = bars.gone_over(ran.as_ref());
            return Ok(Ended { status, ran, sectors });
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

fn report(args: &Args, kind: SyncKind, ended: &Ended, took: Duration) -> anyhow::Result<Exit> {
    let Ended { status, ran, sectors } = ended;
    let (complete, mismatch_sectors) = ran.as_ref().map_or((true, 0), |ran| (ran.complete, ran.mismatch_sectors));
    let unreadable_sectors = ran.as_ref().map_or(0, |ran| ran.unreadable_sectors);
    if args.json {
        let report = Report {
            ran: ran.as_ref().map(|ran| ran.kind.clone()),
            complete,
            mismatch_sectors,
            unreadable_sectors,
            sectors: *sectors,
            seconds: took.as_secs_f64(),
            kib_per_second_and_member: (*sectors as f64 / 2.0 / took.as_secs_f64()) as u64,
            degraded: status.degraded,
            resync_pending: status.resync_pending,
        };
        say_json(kind.name(), &report)?;
    } else {
        match ran {
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
