//! `uraid fail|remove|add|re-add NAME MEMBER`: mdadm's manage mode.

use std::path::PathBuf;

use crate::control::{self, MemberName, Request};
use crate::output::{Exit, say};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The running array, as `uraid status` names it
    name: String,
    /// Its members, by any path that leads to them
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
}

/// Options.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    #[command(flatten)]
    which: Args,
    /// Take members that carry an array, a file system or a partition table; what they hold is lost
    #[arg(short, long)]
    force: bool,
}

/// Runs it.
pub fn fail(args: &Args) -> anyhow::Result<Exit> {
    each(args, "failed", |member| Request::Fail { member })
}

/// Runs it.
pub fn remove(args: &Args) -> anyhow::Result<Exit> {
    each(args, "removed", |member| Request::Remove { member })
}

/// Runs it.
pub fn add(args: &AddArgs) -> anyhow::Result<Exit> {
    each(&args.which, "added", |member| Request::Add { member, force: args.force })
}

/// Runs it.
pub fn re_add(args: &AddArgs) -> anyhow::Result<Exit> {
    each(&args.which, "re-added", |member| Request::ReAdd { member, force: args.force })
}

fn each(args: &Args, done: &str, request: impl Fn(MemberName) -> Request) -> anyhow::Result<Exit> {
    for member in &args.members {
        control::call(&args.name, &request(MemberName::new(member)?))?;
        say(format_args!("{}: {done} {}", args.name, member.display()))?;
    }
    Ok(Exit::Done)
}
