//! `uraid completions` and the manual pages.

use crate::output::Exit;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Options.
#[derive(Debug, clap::Args)]
pub struct ManualArgs {}

/// Runs it.
pub fn run(_args: &Args) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}

/// Runs it.
pub fn manual(_args: &ManualArgs) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}
