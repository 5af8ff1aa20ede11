//! `uraid status`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use uraid_array::core::IoStatus;
use uraid_report::{ArrayStatus, mdstat};
use uraid_serve::control as sockets;
use uraid_types::Level;

use crate::control::{self, Running};
use crate::mdstat::array_status;
use crate::output::{Exit, note, say, say_json};
use crate::signals::Stop;

/// How often `--watch` looks.
const WATCH: Duration = Duration::from_secs(1);
/// To the terminal's first place, and clear what is below (ECMA-48).
const CLEAR: &str = "\x1b[H\x1b[J";

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One array only; all that run in the run directory when left out
    name: Option<String>,
    /// Again every second, until interrupted or until no array runs
    #[arg(short, long)]
    watch: bool,
    /// A report as JSON: `arrays`, each with the fields of /proc/mdstat and `uuid`, `events`, `pid`, `nbd`, `fuse`, and `ios`, its members' I/Os by what they were for
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    arrays: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    mdstat: ArrayStatus,
    uuid: String,
    events: u64,
    degraded: usize,
    broken: Option<String>,
    pid: u32,
    nbd: Vec<String>,
    fuse: Vec<PathBuf>,
    ios: IoStatus,
}

/// Runs it. Exit status 3 while an array is degraded or has failed.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if !args.watch {
        return show(args).map(|(exit, _)| exit);
    }
    let stop = Stop::listen()?;
    loop {
        if std::io::stdout().is_terminal() && !args.json {
            clear()?;
        }
        let (exit, arrays) = show(args)?;
        if arrays == 0 || stop.asked() {
            return Ok(exit);
        }
        std::thread::sleep(WATCH);
        if stop.asked() {
            return Ok(exit);
        }
    }
}

/// Empties the terminal.
fn clear() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(CLEAR.as_bytes()).and_then(|()| out.flush())
}

/// The running array `name` of a list; `None` when it has stopped since. One that may not be asked is named.
fn listed(name: &str) -> Option<Running> {
    match control::running(name) {
        Err(error) if error.is::<control::Denied>() => {
            note(error);
            None
        }
        other => other.ok(),
    }
}

/// Prints what runs, and says how many arrays that were.
fn show(args: &Args) -> anyhow::Result<(Exit, usize)> {
    let all = match &args.name {
        Some(name) => vec![control::running(name)?],
        None => sockets::list()?.iter().filter_map(|name| listed(name)).collect(),
    };
    let unwell = all.iter().any(|running| running.array.degraded > 0 || running.array.broken.is_some());
    let count = all.len();
    if args.json {
        say_json("status", &Report { arrays: all.into_iter().map(entry).collect() })?;
    } else {
        let levels: Vec<&str> = Level::ALL.iter().map(|level| level.name()).collect();
        let arrays: Vec<ArrayStatus> = all.iter().map(array_status).collect();
        say(mdstat(&levels, &arrays).trim_end_matches('\n'))?;
    }
    Ok((if unwell { Exit::Degraded } else { Exit::Done }, count))
}

fn entry(running: Running) -> Entry {
    Entry {
        mdstat: array_status(&running),
        uuid: running.array.uuid,
        events: running.array.events,
        degraded: running.array.degraded,
        broken: running.array.broken,
        pid: running.pid,
        nbd: running.nbd,
        fuse: running.fuse,
        ios: running.array.ios,
    }
}
