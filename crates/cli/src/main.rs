//! The binary `uraid`: commands, their options, their output. Everything else is in the libraries.

mod args;
mod bed;
mod commands;
mod control;
mod daemon;
mod foreign;
mod mdstat;
mod members;
mod output;
mod overlays;
mod present;
mod running;
mod signals;
mod sizes;
mod transfer;
mod undo;
mod watch;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    output::start_logging(args.verbose);
    match commands::run(args.command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::note(output::chain(&error));
            output::exit_for(&error).into()
        }
    }
}
