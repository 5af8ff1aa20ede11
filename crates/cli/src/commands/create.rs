//! `uraid create`.

mod list;
mod plan;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use uraid_array::{CreateError, CreateRequest, Created, MemberPath, create_with, open_member};
use uraid_device::{Device, DeviceError, FileDevice, MemoryDevice, OpenOptions};
use uraid_format::{BitmapSpec, MetadataVersion};
use uraid_types::{Layout, Level, Sector, SectorCount};
use uuid::Uuid;

use crate::members::{block_size, refuse_repeated};
use crate::output::{Exit, note, say, say_json, usage};
use crate::present::parse_uuid;
use crate::sizes;
use crate::undo::{UndoArgs, tell};
use list::MemberList;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    members: MemberList,
    /// linear, 0, 1, 4, 5, 6 or 10
    #[arg(short, long)]
    level: Level,
    /// Members that hold data; all that are given, spares aside, unless stated
    #[arg(short = 'n', long, value_name = "N")]
    raid_devices: Option<usize>,
    /// How many of the members, the last ones, are spares
    #[arg(short = 'x', long, value_name = "N", default_value_t = 0)]
    spare_devices: usize,
    /// Chunk, in KiB unless a unit is given; 512K unless stated
    #[arg(short, long, value_name = "SIZE", value_parser = sizes::kib)]
    chunk: Option<u64>,
    /// How much of each member is used, in KiB unless a unit is given; max for as much as fits
    #[arg(short = 'z', long, value_name = "SIZE", value_parser = used_size)]
    size: Option<UsedSize>,
    /// Where parity or copies go: left-symmetric (ls), ddf-N-restart, ..., n2, f2, o2, "near=2,far=2", ...
    #[arg(short = 'p', long, value_name = "LAYOUT")]
    layout: Option<String>,
    /// Version of the superblock: 0.90, 1.0, 1.1 or 1.2
    #[arg(short = 'e', long, value_name = "VERSION", default_value = "1.2", value_parser = metadata)]
    metadata: MetadataVersion,
    /// Write-intent bitmap: internal or none
    #[arg(short, long, value_name = "WHERE")]
    bitmap: Option<BitmapWish>,
    /// What one bit of the bitmap stands for, in KiB unless a unit is given
    #[arg(long, value_name = "SIZE", value_parser = sizes::kib)]
    bitmap_chunk: Option<u64>,
    /// After an unclean stop: resync everything, or what the bitmap names
    #[arg(short = 'k', long, value_name = "POLICY")]
    consistency_policy: Option<Policy>,
    /// The array's name
    #[arg(short = 'N', long, default_value = "md0")]
    name: String,
    /// The array's UUID; a random one unless stated
    #[arg(short = 'u', long, value_parser = parse_uuid)]
    uuid: Option<Uuid>,
    /// No resync: what lies on the members is consistent already
    #[arg(long)]
    assume_clean: bool,
    /// Where data begins on each member, in KiB unless a unit is given
    #[arg(long, value_name = "SIZE", value_parser = sizes::kib)]
    data_offset: Option<u64>,
    /// Make members that are not there, as sparse files of this size (10G)
    #[arg(long, value_name = "SIZE", value_parser = sizes::kib)]
    member_size: Option<u64>,
    /// Logical block of members that are regular files, 512 or 4096 bytes
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    member_block_size: Option<u32>,
    /// Record that the array has logical blocks of this size, 512 or 4096 bytes: only kernels from 6.19 on take such an array
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    logical_block_size: Option<u32>,
    #[command(flatten)]
    undo: UndoArgs,
    /// Overwrite whatever the members carry
    #[arg(short, long)]
    force: bool,
    /// Print the plan, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// `--size`.
#[derive(Clone, Copy, Debug)]
enum UsedSize {
    Max,
    Bytes(u64),
}

/// `--bitmap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BitmapWish {
    Internal,
    None,
}

/// `--consistency-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    Resync,
    Bitmap,
}

fn used_size(text: &str) -> Result<UsedSize, String> {
    if text == "max" { Ok(UsedSize::Max) } else { sizes::kib(text).map(UsedSize::Bytes) }
}

/// A version by its name.
pub fn metadata(text: &str) -> Result<MetadataVersion, String> {
    MetadataVersion::from_name(text).ok_or_else(|| format!("'{text}' is not one of 0.90, 1.0, 1.1, 1.2"))
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let request = request(args)?;
    let slots = slots(args)?;
    let mut made = MadeFiles::default();
    let mut devices = open_members(args, &mut made)?;
    let spares = devices.split_off(slots);
    let spares = present(spares, &args.members)?;
    let mut saved = None;
    let created = create_with(&devices, &spares, &request, &mut |changed| {
        saved = args.undo.save("create", changed).map_err(|error| error.to_string())?;
        Ok(())
    });
    tell(saved.as_ref());
    let created = created.map_err(|error| explain(error, args))?;
    made.keep();
    report(args, &created, saved)?;
    let missing = devices.iter().any(Option::is_none);
    Ok(if missing && created.written { Exit::Degraded } else { Exit::Done })
}

/// How many of the members hold slots.
fn slots(args: &Args) -> anyhow::Result<usize> {
    let (given, spares) = (args.members.paths.len(), args.spare_devices);
    let slots = args.raid_devices.unwrap_or(given.saturating_sub(spares));
    if slots.checked_add(spares) != Some(given) {
        return Err(usage(format!(
            "{given} members are given ('missing' included), but --raid-devices {slots} and --spare-devices {spares} ask for {}",
            slots.saturating_add(spares)
        )));
    }
    Ok(slots)
}

fn request(args: &Args) -> anyhow::Result<CreateRequest> {
    let layout = match &args.layout {
        Some(name) => Some(Layout::from_name(args.level, name).map_err(|error| usage(error.to_string()))?),
        None => None,
    };
    let whole = |what: &str, bytes: Option<u64>| match bytes.map(SectorCount::from_bytes) {
        None => Ok(None),
        Some(Some(sectors)) => Ok(Some(sectors)),
        Some(None) => Err(usage(format!("{what} must be whole sectors of 512 bytes"))),
    };
    let size = match args.size {
        Some(UsedSize::Bytes(bytes)) => whole("--size", Some(bytes))?,
        Some(UsedSize::Max) | None => None,
    };
    Ok(CreateRequest {
        layout,
        chunk: whole("--chunk", args.chunk)?,
        size,
        version: args.metadata,
        data_offset: whole("--data-offset", args.data_offset)?.map(|sectors| Sector(sectors.0)),
        bitmap: bitmap(args)?,
        name: args.name.clone(),
        array_id: args.uuid,
        assume_clean: args.assume_clean,
        write_mostly: args.members.write_mostly.clone(),
        logical_block_bytes: args.logical_block_size,
        force: args.force,
        dry_run: args.dry_run,
        ..CreateRequest::new(args.level)
    })
}

fn bitmap(args: &Args) -> anyhow::Result<Option<BitmapSpec>> {
    let wanted = match (args.bitmap, args.consistency_policy) {
        (Some(BitmapWish::Internal), Some(Policy::Resync)) => {
            return Err(usage("--consistency-policy resync means no bitmap, but --bitmap internal asks for one"));
        }
        (Some(BitmapWish::None), Some(Policy::Bitmap)) => {
            return Err(usage("--consistency-policy bitmap needs a bitmap, but --bitmap none refuses it"));
        }
        (Some(BitmapWish::Internal), _) | (None, Some(Policy::Bitmap)) => true,
        (Some(BitmapWish::None) | None, _) => false,
    };
    match (wanted, args.bitmap_chunk) {
        (false, Some(_)) => Err(usage("--bitmap-chunk means nothing without --bitmap internal")),
        (false, None) => Ok(None),
        (true, None) => Ok(Some(BitmapSpec { chunk_bytes: None })),
        (true, Some(bytes)) => match u32::try_from(bytes) {
            Ok(bytes) => Ok(Some(BitmapSpec { chunk_bytes: Some(bytes) })),
            Err(_) => Err(usage("--bitmap-chunk must be less than 4 GiB")),
        },
    }
}

/// Files made for members; they go again when the array is not made.
#[derive(Default)]
struct MadeFiles(Vec<PathBuf>);

impl MadeFiles {
    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = std::fs::remove_file(path) {
                note(format_args!("{}: cannot be removed again: {error}", path.display()));
            }
        }
    }
}

fn open_members(args: &Args, made: &mut MadeFiles) -> anyhow::Result<Vec<Option<Arc<dyn Device>>>> {
    let named: Vec<PathBuf> = args.members.paths.iter().filter(|path| !MemberList::is_missing(path)).cloned().collect();
    refuse_repeated(&named)?;
    let mut devices = Vec::new();
    for path in &args.members.paths {
        let device = if MemberList::is_missing(path) { None } else { Some(open_or_make(args, path, made)?) };
        devices.push(device);
    }
    Ok(devices)
}

fn open_or_make(args: &Args, path: &Path, made: &mut MadeFiles) -> anyhow::Result<Arc<dyn Device>> {
    let is_there = MemberPath::new(path).medium.symlink_metadata().is_ok();
    match args.member_size {
        Some(size_bytes) if !is_there && args.dry_run => {
            let block_bytes = u64::from(args.member_block_size.unwrap_or(512));
            let size_bytes = size_bytes - size_bytes % block_bytes;
            return Ok(Arc::new(MemoryDevice::new(path.display().to_string(), size_bytes, block_bytes as u32)));
        }
        Some(size_bytes) if !is_there => {
            FileDevice::create_sparse(path, size_bytes, false)?;
            made.0.push(path.to_owned());
        }
        _ => {}
    }
    let how = if args.dry_run { OpenOptions::look() } else { OpenOptions::own() };
    let opened = open_member(path, OpenOptions { logical_block_bytes: args.member_block_size, ..how });
    opened.map_err(|error| with_hint(error, is_there || args.member_size.is_some()))
}

fn with_hint(error: DeviceError, expected: bool) -> anyhow::Error {
    if expected {
        return error.into();
    }
    anyhow::anyhow!("{error}; --member-size makes missing members as sparse files")
}

fn present(spares: Vec<Option<Arc<dyn Device>>>, members: &MemberList) -> anyhow::Result<Vec<Arc<dyn Device>>> {
    let position = members.paths.len() - spares.len();
    let all: Option<Vec<Arc<dyn Device>>> = spares.into_iter().collect();
    all.ok_or_else(|| usage(format!("'missing' stands for a spare (members {} and on): ask for fewer spares", position + 1)))
}

/// Wrong wishes are the caller's; the rest are the members'.
fn explain(error: CreateError, args: &Args) -> anyhow::Error {
    let dry = if args.dry_run { "; this was a dry run, nothing was written" } else { "" };
    match error {
        CreateError::Plan { .. } | CreateError::Shape(_) | CreateError::SameMedium { .. } => usage(format!("{error}{dry}")),
        other => anyhow::anyhow!("{other}{dry}"),
    }
}

fn report(args: &Args, created: &Created, saved: Option<PathBuf>) -> anyhow::Result<()> {
    for (name, what) in &created.overwritten {
        let verb = if created.written { "was overwritten" } else { "would be overwritten" };
        note(format_args!("{name}: {what} {verb}"));
    }
    for warning in plan::warnings(created) {
        note(warning);
    }
    if args.json {
        say_json("create", &plan::Report::new(created, &args.name, saved))
    } else {
        say(plan::text(created, &args.name))?;
        Ok(())
    }
}
