//! `uraid completions` and the manual pages.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use crate::output::Exit;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Options.
#[derive(Debug, clap::Args)]
pub struct ManualArgs {
    /// The folder; it is made if it is missing
    dir: PathBuf,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    // Made in memory first: the generator panics when its reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::Args::command(), "uraid", &mut script);
    match std::io::stdout().write_all(&script) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        other => other.map(|()| Exit::Done).context("standard output"),
    }
}

/// Runs it.
pub fn manual(args: &ManualArgs) -> anyhow::Result<Exit> {
    let failed = || format!("{}: cannot write the manual", args.dir.display());
    std::fs::create_dir_all(&args.dir).with_context(failed)?;
    clap_mangen::generate_to(crate::args::Args::command(), &args.dir).with_context(failed)?;
    Ok(Exit::Done)
}
