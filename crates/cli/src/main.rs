//! The binary `uraid`: commands, their options, their output. Everything else is in the libraries.

mod args;
mod commands;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    output::start_logging(args.verbose);
    match commands::run(args.command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("uraid: {error:#}");
            output::Exit::Failed.into()
        }
    }
}
