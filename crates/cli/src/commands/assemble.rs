//! `uraid assemble`.

use std::io::ErrorKind;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use uraid_array::{Assembly, DEFAULT_CACHE_BYTES, Preference, Refused, RefusedReason, RmwPolicy, RunOptions};
use uraid_device::OpenOptions;
use uraid_report::human_bytes;
use uraid_serve::{Listen, control as sockets};

use crate::control::Running;
use crate::daemon;
use crate::foreign;
use crate::members::{Found, SpeedArgs, StartArgs, WhichArgs, owner_of, read_alone, refuse_member_as, refuse_repeated, scan_all};
use crate::output::{Exit, note, say, say_json, usage};
use crate::running::{FrontEnds, Owner};
use crate::sizes;

/// Least bytes for buffers: two windows of the widest arrays and a request.
const MIN_CACHE_BYTES: u64 = 1 << 20;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Members of the array, in any order
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
    #[command(flatten)]
    which: WhichArgs,
    /// Name to run under; by default the one in the superblock, or the first free of md0, md1, ...
    #[arg(short = 'N', long)]
    name: Option<String>,
    /// Serve by NBD on unix:PATH or HOST:PORT; may be given more than once
    #[arg(long, value_name = "ADDRESS")]
    nbd: Vec<Listen>,
    /// Let NBD listen beyond this machine; it knows no passwords
    #[arg(long)]
    nbd_allow_remote: bool,
    /// Show the array's contents as the regular file FILE; may be given more than once
    #[arg(long, value_name = "FILE")]
    fuse: Vec<PathBuf>,
    /// Write nothing, neither data nor metadata
    #[arg(short = 'o', long)]
    read_only: bool,
    #[command(flatten)]
    start: StartArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    /// Go into the background once the array is served; a log is kept in the run directory
    #[arg(long)]
    daemon: bool,
    /// Memory for stripes, in bytes or with a unit
    #[arg(long, value_name = "SIZE", value_parser = cache_size, default_value_t = DEFAULT_CACHE_BYTES, hide_default_value = true, help = cache_help())]
    cache_size: usize,
    /// May old data and parity be read and changed for a small write: never, auto (where it takes fewer member I/Os) or prefer
    #[arg(long, value_name = "WHEN", value_parser = rmw_policy, default_value = "auto")]
    rmw: RmwPolicy,
    /// Report what runs as JSON: the fields of a running array (see `uraid status --json`)
    #[arg(long)]
    json: bool,
}

/// md's `rmw_level`, by name or number.
pub fn rmw_policy(text: &str) -> Result<RmwPolicy, String> {
    match text {
        "never" | "0" => Ok(RmwPolicy::Never),
        "auto" | "1" => Ok(RmwPolicy::Auto),
        "prefer" | "2" => Ok(RmwPolicy::Prefer),
        other => Err(format!("'{other}' is none of never, auto, prefer")),
    }
}

fn cache_help() -> String {
    format!("Memory for stripes, with a unit (K, M, G) or in bytes; {} unless given", human_bytes(DEFAULT_CACHE_BYTES as u64))
}

fn cache_size(text: &str) -> Result<usize, String> {
    let size = sizes::bytes(text)?;
    if size < MIN_CACHE_BYTES {
        return Err(format!("a cache of {size} bytes is too small; it takes {} at least", human_bytes(MIN_CACHE_BYTES)));
    }
    usize::try_from(size).map_err(|_| format!("{size} bytes do not fit the address space"))
}

/// Runs it: until it is stopped, or with `--daemon` until it serves.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    refuse_remote(args)?;
    if args.daemon && !daemon::is_detached() {
        return daemon::start();
    }
    if args.daemon {
        daemon::detach()?;
    }
    let assembly = assemble(args)?;
    let name = name_for(args, &assembly)?;
    let preference = Preference { rmw: args.rmw, ..Preference::default() };
    let options = RunOptions {
        read_only: args.read_only,
        cache_bytes: args.cache_size,
        preference,
        sync_speed: args.speed.speed(),
        ..RunOptions::default()
    };
    let front_ends = FrontEnds { nbd: args.nbd.clone(), nbd_allow_remote: args.nbd_allow_remote, fuse: args.fuse.clone() };
    let overlay = args.which.overlay.clone();
    if let Some(why) = assembly.read_only_because.as_ref().filter(|_| !args.read_only) {
        note(format_args!("{name} is read-only: {why}"));
    }
    let owner = Owner::start(&name, assembly, &options, &front_ends, overlay)?;
    let running = owner.report()?;
    announce(args, &running)?;
    if args.daemon {
        daemon::ready(&sockets::run_dir().join(format!("{name}.log")), exit_for(&running.array))?;
    }
    let last = owner.run()?;
    Ok(exit_for(&last))
}

fn exit_for(status: &uraid_array::core::Status) -> Exit {
    match (&status.broken, status.degraded) {
        (Some(_), _) => Exit::Failed,
        (None, 0) => Exit::Done,
        (None, _) => Exit::Degraded,
    }
}

fn announce(args: &Args, running: &Running) -> anyhow::Result<()> {
    if args.json {
        return say_json("assemble", running);
    }
    let array = &running.array;
    let up = array.up.chars().filter(|slot| *slot == 'U').count();
    say(format_args!(
        "{}: {} of {}, {} of {} members up [{}], {}",
        running.name,
        array.level,
        human_bytes(array.size_bytes),
        up,
        array.raid_disks,
        array.up,
        array.state
    ))?;
    for address in &running.nbd {
        say(format_args!("{}: nbd {address}", running.name))?;
    }
    for path in &running.fuse {
        say(format_args!("{}: fuse {}", running.name, path.display()))?;
    }
    Ok(())
}

/// NBD beyond this machine is refused before anything is started.
fn refuse_remote(args: &Args) -> anyhow::Result<()> {
    for listen in &args.nbd {
        let Listen::Tcp(address) = listen else { continue };
        let found = address.to_socket_addrs().with_context(|| format!("{address}: cannot be listened on"))?;
        if !args.nbd_allow_remote && found.into_iter().any(|address| !address.ip().is_loopback()) {
            let what = "is reachable from other machines and NBD has no login; give --nbd-allow-remote if that is meant";
            return Err(usage(format!("{address} {what}")));
        }
    }
    Ok(())
}

/// Finds out what the members make together. Whoever names a member that does not belong has something else in mind than what
/// would be started; only members that the array itself has left behind are passed over.
fn assemble(args: &Args) -> anyhow::Result<Assembly> {
    let members = args.which.all(&args.members);
    if !args.which.volume.in_order {
        refuse_repeated(&members)?;
    }
    args.fuse.iter().try_for_each(|path| refuse_member_as("--fuse", path, &args.members))?;
    let open = if args.read_only { read_alone() } else { OpenOptions::own() };
    let Found { candidates, refused } = scan_all(&members, &args.which, open);
    let options = args.which.options(&args.start.options(args.read_only), &members, open)?;
    if candidates.is_empty()
        && let Some(assembly) = foreign::assemble(&members, &args.which, &options, false)?
    {
        return Ok(assembly);
    }
    refuse_strangers(&refused)?;
    let assembly = args.start.start("assemble", candidates, &args.which, &options).context("the array cannot be started")?;
    let strangers: Vec<&Refused> = assembly.refused.iter().filter(|refused| is_stranger(&refused.reason)).collect();
    refuse_strangers(&strangers)?;
    for refused in &assembly.refused {
        note(format_args!("left out: {refused}"));
    }
    assembly.warnings.iter().for_each(note);
    Ok(assembly)
}

/// Was it a mistake to name this member, other than one that time has made?
fn is_stranger(reason: &RefusedReason) -> bool {
    match reason {
        // These were members of the array once, and how they came to be left out is told.
        RefusedReason::Stale { .. }
        | RefusedReason::NotActive { .. }
        | RefusedReason::RoleTaken { .. }
        | RefusedReason::Diverged { .. }
        | RefusedReason::Copy { .. }
        | RefusedReason::Replacement { .. }
        | RefusedReason::NoUse { .. }
        // What --uuid is for.
        | RefusedReason::OtherArray { .. } => false,
        _ => true,
    }
}

fn refuse_strangers<R: std::borrow::Borrow<Refused>>(refused: &[R]) -> anyhow::Result<()> {
    if refused.is_empty() {
        return Ok(());
    }
    let each: Vec<String> = refused.iter().map(|refused| with_owner(refused.borrow())).collect();
    anyhow::bail!("{}; nothing was started. Leave it out to start the array without it", each.join("; "))
}

/// The reason, and the running array that has the member, where there is one.
fn with_owner(refused: &Refused) -> String {
    let RefusedReason::Unreadable(error) = &refused.reason else { return refused.to_string() };
    // A device's error names the member itself.
    match owner_of(Path::new(&refused.name)).filter(|_| error.source.kind() == ErrorKind::ResourceBusy) {
        Some(owner) => format!("{error}; it is a member of the running array {} (process {})", owner.name, owner.pid),
        None => error.to_string(),
    }
}

/// The name to run under.
fn name_for(args: &Args, assembly: &Assembly) -> anyhow::Result<String> {
    if let Some(name) = &args.name {
        sockets::socket_path(name).map_err(|error| usage(error.to_string()))?;
        return Ok(name.clone());
    }
    let running = sockets::list()?;
    let is_free = |name: &String| !running.contains(name) && sockets::socket_path(name).is_ok();
    let own = own_name(&assembly.name).into_iter().chain((0..).map(|number| format!("md{number}")));
    own.into_iter().find(is_free).context("there is a free number for every array")
}

/// The superblock's name without its home host; a number alone is that of an md device.
fn own_name(recorded: &str) -> Option<String> {
    let name = recorded.split_once(':').map_or(recorded, |(_, name)| name);
    let number = !name.is_empty() && name.bytes().all(|digit| digit.is_ascii_digit());
    let name = if number { format!("md{name}") } else { name.to_owned() };
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_superblock() {
        for (recorded, name) in
            [("host:0", Some("md0")), ("host:home", Some("home")), ("vm", Some("vm")), ("", None), ("h:", None)]
        {
            assert_eq!(own_name(recorded).as_deref(), name, "{recorded}");
        }
    }

    #[test]
    fn caches_have_a_least_size() {
        assert_eq!(cache_size("64M"), Ok(64 << 20));
        assert!(cache_size("64K").is_err() && cache_size("99999999999999999999").is_err());
    }
}
