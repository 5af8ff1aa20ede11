//! `uraid examine`: what each member's metadata says, whether or not it can be used.

mod bitmap;
mod compat;
mod fields090;
mod report;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use uraid_array::foreign::{Container, ForeignDisk, look};
use uraid_array::{Candidate, RefusedReason, open_member, partition_members, partitions, scan};
use uraid_device::{Device, DeviceError, OpenOptions, Pool};
use uraid_format::{
    BITMAP_MAGIC, Feature, MetadataVersion, PartitionTable, RawFields, RawFields090, RawSuper, SUPER_BYTES, super_offsets,
};
use uraid_types::{SECTOR_BYTES, Sector, SectorCount};

use crate::foreign;
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
    /// The write-intent bitmap instead: of members, or of a bitmap's own file
    #[arg(short = 'X', long, conflicts_with_all = ["brief", "export"])]
    bitmap: bool,
    /// From which Linux on each member assembles, and what stands in the way of older ones
    #[arg(long, conflicts_with_all = ["brief", "export", "bitmap"])]
    compat: bool,
    /// Logical block of members that are regular files, 512 or 4096 bytes
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    member_block_size: Option<u32>,
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
    /// The container of another maker's RAID that it is a disk of.
    foreign: Option<foreign::Report>,
    /// The partition table of a disk whose partitions hold members.
    table: Option<PartitionTable>,
}

/// A superblock, whether or not it can be used.
struct Found {
    version: MetadataVersion,
    fields: Fields,
    /// The version of the internal bitmap, as its own superblock has it.
    bitmap_version: Option<u32>,
    /// Why it cannot be used.
    problem: Option<String>,
}

/// Its numbers as found.
enum Fields {
    V1(Box<RawFields>),
    V090(Box<RawFields090>),
}

impl Fields {
    fn read(bytes: &[u8]) -> Option<Fields> {
        let version_1 = || RawFields::read(bytes).map(|fields| Fields::V1(Box::new(fields)));
        RawFields090::read(bytes).map(|fields| Fields::V090(Box::new(fields))).or_else(version_1)
    }

    /// Where the internal bitmap of the superblock at `super_byte` begins, if it has one.
    fn bitmap_byte(&self, super_byte: u64) -> Option<u64> {
        match self {
            Fields::V1(fields) if fields.feature_map & Feature::Bitmap as u32 == 0 => None,
            Fields::V1(fields) => super_byte.checked_add_signed(i64::from(fields.bitmap_offset) * SECTOR_BYTES as i64),
            Fields::V090(fields) => (fields.state & BITMAP_PRESENT_090 != 0).then_some(super_byte + SUPER_BYTES as u64),
        }
    }
}

/// Bit 8 of `state` in version 0.90.
const BITMAP_PRESENT_090: u32 = 1 << 8;

/// The version in the bitmap's superblock at `byte`, whether or not the rest of it makes sense; `None` where there is none.
fn bitmap_version(device: &dyn Device, byte: Option<u64>) -> Result<Option<u32>, DeviceError> {
    let size_bytes = device.info().size_bytes;
    let from = byte.map(|byte| byte - byte % SUPER_BYTES as u64).filter(|from| from + SUPER_BYTES as u64 <= size_bytes);
    let (Some(byte), Some(from)) = (byte, from) else { return Ok(None) };
    let mut bytes = Pool::new(0).take(SUPER_BYTES);
    device.read_at(from, &mut bytes)?;
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let start = (byte - from) as usize;
    Ok(word(start).filter(|&magic| magic == BITMAP_MAGIC).and_then(|_| word(start + 4)))
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.bitmap {
        return bitmap::run(&args.members, args.member_block_size, args.json);
    }
    let mut all = Vec::new();
    let mut exit = Exit::Done;
    for path in &args.members {
        match examine(path, args.member_block_size) {
            Ok(found) => {
                // A disk whose partitions hold members is none itself.
                let of_members = if found.len() > 1 { &found[1..] } else { &found[..] };
                if of_members.iter().any(|examined| examined.scanned.is_err() && examined.foreign.is_none()) {
                    exit = Exit::Failed;
                }
                all.extend(found);
            }
            Err(error) => {
                note(error);
                exit = Exit::Failed;
            }
        }
    }
    if args.compat && args.json {
        say_json("examine-compat", &compat::Report::new(&all))?;
    } else if args.compat {
        all.iter().map(compat::text).try_for_each(say)?;
    } else if args.json {
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

/// What is on the member; of a disk whose partitions hold members the disk, and then each of those.
fn examine(path: &Path, logical_block_bytes: Option<u32>) -> Result<Vec<Examined>, DeviceError> {
    let device = open_member(path, OpenOptions { logical_block_bytes, ..OpenOptions::look() })?;
    let mut examined = examine_one(Arc::clone(&device))?;
    let Err(RefusedReason::InPartitions { members, .. }) = &examined.scanned else { return Ok(vec![examined]) };
    let members = members.clone();
    examined.table = partitions(&*device).ok().flatten();
    let inside = examined.table.iter().flat_map(|table| partition_members(&device, table));
    let inside = inside.filter(|member| members.contains(&member.info().name)).map(examine_one).collect::<Result<Vec<_>, _>>()?;
    Ok(std::iter::once(examined).chain(inside).collect())
}

fn examine_one(device: Arc<dyn Device>) -> Result<Examined, DeviceError> {
    let (name, size_bytes) = (device.info().name.clone(), device.info().size_bytes);
    let mut superblocks = Vec::new();
    for (version, offset_bytes) in super_offsets(size_bytes) {
        let mut bytes = Pool::new(0).take(SUPER_BYTES);
        device.read_at(offset_bytes, &mut bytes)?;
        if let Some(fields) = Fields::read(&bytes) {
            let at = Sector(SectorCount::floor_bytes(offset_bytes).0);
            let problem = RawSuper::parse(&bytes, at, SectorCount::floor_bytes(size_bytes)).err().map(|error| error.to_string());
            let bitmap_version = bitmap_version(&*device, fields.bitmap_byte(offset_bytes))?;
            superblocks.push(Found { version, fields, bitmap_version, problem });
        }
    }
    let mut scanned = scan(Arc::clone(&device)).map_err(|refused| refused.reason);
    let mut foreign = None;
    if let Err(RefusedReason::NoSuperblock { .. } | RefusedReason::InPartitions { .. }) = scanned {
        match look(&*device) {
            Ok(Some(metadata)) => {
                let disks = vec![ForeignDisk { device, metadata, place: None }];
                foreign = Container::of(disks).ok().map(|container| foreign::Report::new(&container));
            }
            Ok(None) => {}
            Err(error) => scanned = Err(RefusedReason::Foreign(error.to_string())),
        }
    }
    Ok(Examined { name, size_bytes, superblocks, scanned, foreign, table: None })
}
