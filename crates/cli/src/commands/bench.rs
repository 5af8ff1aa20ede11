//! `uraid bench ...`: how fast the parts are on this machine.

mod compare;
mod grid;
pub mod kernels;
mod processor;
mod random_write;
mod resync;
mod sequential;

use crate::output::Exit;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// P and Q: every algorithm, in the form that the kernel prints
    Parity(kernels::ParityArgs),
    /// RAID5's checksum: every algorithm
    Xor(kernels::XorArgs),
    /// CRC32C: every algorithm
    Crc32c(kernels::CrcArgs),
    /// A resync of RAID6 on files: the first pass writes parity, the second finds it right
    Resync(resync::Args),
    /// Threads that write blocks at random places, on modelled members in virtual time
    RandomWrite(random_write::Args),
    /// An array read and written from its start to its end, beside what its members do alone
    Sequential(sequential::Args),
    /// Saved reports and kernel boot logs side by side: which processor, and what bounds it
    Compare(compare::Args),
}

/// Runs it.
pub fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Parity(args) => kernels::parity(args),
        Command::Xor(args) => kernels::xor(args),
        Command::Crc32c(args) => kernels::crc32c(args),
        Command::Resync(args) => resync::run(args),
        Command::RandomWrite(args) => random_write::run(args),
        Command::Sequential(args) => sequential::run(args),
        Command::Compare(args) => compare::run(args),
    }
}
