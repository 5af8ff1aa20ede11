//! `uraid examine`: what each member's metadata says, whether or not it can be used.

mod report;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use uraid_array::{Candidate, RefusedReason, scan};
use uraid_device::{Device, DeviceError, FileDevice, OpenOptions, Pool};
use uraid_format::{MinorVersion, RawFields, RawSuper, SUPER_BYTES, super_offsets};
use uraid_types::{Sector, SectorCount};

use crate::members::block_size;
use crate::output::{Exit, note, say, say_json};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Members, or what may be members
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
    /// One line for each array, for mdadm.conf
    #[arg(short = 'b', long, conflicts_with_all = ["export", "json"])]
    brief: bool,
    /// KEY=value lines, for scripts
    #[arg(short = 'Y', long, conflicts_with = "json")]
    export: bool,
    /// Logical block of members that are regular files, 512 or 4096 bytes
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    logical_block_size: Option<u32>,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// A member and everything found on it.
pub struct Examined {
    name: String,
    size_bytes: u64,
    superblocks: Vec<Found>,
    /// The member as the array would see it, or why it would not.
    scanned: Result<Candidate, RefusedReason>,
}

/// A superblock, whether or not it can be used.
struct Found {
    minor: MinorVersion,
    fields: RawFields,
    /// Why it cannot be used.
    problem: Option<String>,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut all = Vec::new();
    let mut exit = Exit::Done;
    for path in &args.members {
        match examine(path, args.logical_block_size) {
            Ok(examined) => {
                if examined.scanned.is_err() {
                    exit = Exit::Failed;
                }
                all.push(examined);
            }
            Err(error) => {
                note(error);
                exit = Exit::Failed;
            }
        }
    }
    if args.json {
        say_json("examine", &report::Report::new(&all))?;
    } else if args.brief {
        text::brief(&all).iter().try_for_each(say)?;
    } else {
        for examined in &all {
            say(if args.export { text::export(examined) } else { text::full(examined) })?;
        }
    }
    Ok(exit)
}

fn examine(path: &Path, logical_block_bytes: Option<u32>) -> Result<Examined, DeviceError> {
    let device = Arc::new(FileDevice::open(path, OpenOptions { logical_block_bytes, ..OpenOptions::look() })?);
    let (name, size_bytes) = (device.info().name.clone(), device.info().size_bytes);
    let mut superblocks = Vec::new();
    for (minor, offset_bytes) in super_offsets(size_bytes) {
        let mut bytes = Pool::new(0).take(SUPER_BYTES);
        device.read_at(offset_bytes, &mut bytes)?;
        if let Some(fields) = RawFields::read(&bytes) {
            let at = Sector(SectorCount::floor_bytes(offset_bytes).0);
            let problem = RawSuper::parse(&bytes, at, SectorCount::floor_bytes(size_bytes)).err().map(|error| error.to_string());
            superblocks.push(Found { minor, fields, problem });
        }
    }
    let scanned = scan(device as Arc<dyn Device>).map_err(|refused| refused.reason);
    Ok(Examined { name, size_bytes, superblocks, scanned })
}
