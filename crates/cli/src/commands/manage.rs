//! `uraid fail|remove|add|re-add NAME MEMBER`.

use crate::output::Exit;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Options.
#[derive(Debug, clap::Args)]
pub struct AddArgs {}

/// Runs it.
pub fn fail(_args: &Args) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}

/// Runs it.
pub fn remove(_args: &Args) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}

/// Runs it.
pub fn add(_args: &AddArgs) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}

/// Runs it.
pub fn re_add(_args: &AddArgs) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}
