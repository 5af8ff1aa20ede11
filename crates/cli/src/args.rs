//! The command line. Each command's options stand in its own module.

use clap::{Parser, Subcommand};

use crate::commands;

/// Software RAID in user space, on Linux md's own format.
#[derive(Debug, Parser)]
#[command(name = "uraid", version, max_term_width = 120)]
pub struct Args {
    /// Say more of what is done; twice for more still (or set URAID_LOG)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write metadata: make an array of members
    Create(commands::create::Args),
    /// Print what each member's metadata says
    Examine(commands::examine::Args),
    /// Print the array as a whole: of members at rest, or running
    Detail(commands::detail::Args),
    /// Own an array and serve it
    Assemble(commands::assemble::Args),
    /// Running arrays, as /proc/mdstat
    Status(commands::status::Args),
    /// Flush, mark clean, end the server
    Stop(commands::stop::Args),
    /// Stop using a member of a running array
    Fail(commands::manage::Args),
    /// Let go of a failed member or a spare
    Remove(commands::manage::Args),
    /// Give a running array a spare
    Add(commands::manage::AddArgs),
    /// Take back a member that was here before
    ReAdd(commands::manage::AddArgs),
    /// Make parity or copies agree after an unclean stop
    Resync(commands::sync::Args),
    /// Count mismatches, write nothing
    Check(commands::sync::Args),
    /// Count mismatches and mend them
    Repair(commands::sync::Args),
    /// Copy the array's contents out, degraded or not, without writing to any member
    Export(commands::export::Args),
    /// Copy contents into the array
    Import(commands::import::Args),
    /// What assemble, import and the like wrote into the files of --overlay: shown, written to the members, dropped
    #[command(subcommand)]
    Overlay(commands::overlay::Command),
    /// Give members metadata of another version; the data stays where it is
    Convert(commands::convert::Args),
    /// Put back what create, convert, overlay commit or a forced start overwrote
    Undo(commands::undo::Args),
    /// Measure
    #[command(subcommand)]
    Bench(commands::bench::Command),
    /// The whole story in one go, on sparse files
    Quickstart(commands::quickstart::Args),
    /// Print shell completions
    Completions(commands::completions::Args),
    /// Print the manual pages into a folder
    #[command(hide = true)]
    Manual(commands::completions::ManualArgs),
}
