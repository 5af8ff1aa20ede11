//! `uraid stop NAME`.

use crate::control::{self, Request};
use crate::output::{Exit, say};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Arrays to stop, as `uraid status` names them
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// Runs it. It returns once the array is marked clean, its members are unlocked and its sockets are gone.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    for name in &args.names {
        control::call(name, &Request::Stop)?;
        say(format_args!("{name}: stopped"))?;
    }
    Ok(Exit::Done)
}
