//! `uraid bench ...`.

use crate::output::Exit;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub enum Command {}

/// Runs it.
pub fn run(_command: &Command) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}
