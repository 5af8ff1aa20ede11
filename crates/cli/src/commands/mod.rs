//! The commands, a module each.

pub mod assemble;
pub mod bench;
pub mod completions;
pub mod convert;
pub mod create;
pub mod detail;
pub mod examine;
pub mod export;
pub mod import;
pub mod manage;
pub mod overlay;
pub mod quickstart;
pub mod status;
pub mod stop;
pub mod sync;
pub mod undo;

use uraid_engine::SyncKind;

use crate::args::Command;
use crate::output::Exit;

/// Runs a command.
pub fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Create(args) => create::run(&args),
        Command::Examine(args) => examine::run(&args),
        Command::Detail(args) => detail::run(&args),
        Command::Assemble(args) => assemble::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Fail(args) => manage::fail(&args),
        Command::Remove(args) => manage::remove(&args),
        Command::Add(args) => manage::add(&args),
        Command::ReAdd(args) => manage::re_add(&args),
        Command::Resync(args) => sync::run(&args, SyncKind::Resync),
        Command::Check(args) => sync::run(&args, SyncKind::Check),
        Command::Repair(args) => sync::run(&args, SyncKind::Repair),
        Command::Export(args) => export::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Overlay(command) => overlay::run(&command),
        Command::Convert(args) => convert::run(&args),
        Command::Undo(args) => undo::run(&args),
        Command::Bench(command) => bench::run(&command),
        Command::Quickstart(args) => quickstart::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Manual(args) => completions::manual(&args),
    }
}
