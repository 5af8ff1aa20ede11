//! `uraid convert`: metadata of another version on all members of an array at rest.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use uraid_array::{ConvertRequest, ConvertedMember, convert, open_member};
use uraid_device::{Device, OpenOptions};
use uraid_format::MetadataVersion;

use super::create::metadata;
use crate::members::{block_size, refuse_repeated};
use crate::output::{Exit, say, say_json};
use crate::undo::{UndoArgs, tell};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// All members of the array, spares too, in any order
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
    /// Version that the superblocks are to have: 1.0, 1.1 or 1.2
    #[arg(short = 'e', long, value_name = "VERSION", value_parser = metadata)]
    metadata: MetadataVersion,
    /// 'none' leaves the write-intent bitmap behind, which is kept only where it can stay in its place
    #[arg(short, long, value_name = "WHERE")]
    bitmap: Option<Bitmap>,
    /// Logical block of members that are regular files, 512 or 4096 bytes
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    member_block_size: Option<u32>,
    #[command(flatten)]
    undo: UndoArgs,
    /// Say what would be done, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// `--bitmap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Bitmap {
    None,
}

/// The JSON report `convert`.
#[derive(Serialize)]
struct Report {
    /// Was it written, or only planned?
    written: bool,
    uuid: String,
    metadata: &'static str,
    members: Vec<Member>,
    /// What puts back what was overwritten; `null` when nothing was saved.
    undo_file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Member {
    member: String,
    from: &'static str,
    super_offset_bytes: u64,
    /// Had it been converted before?
    was_done: bool,
}

impl Member {
    fn new(member: &ConvertedMember) -> Member {
        let ConvertedMember { name, from, super_byte, was_done } = member;
        Member { member: name.clone(), from: from.name(), super_offset_bytes: *super_byte, was_done: *was_done }
    }
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    refuse_repeated(&args.members)?;
    let how = if args.dry_run { OpenOptions::look() } else { OpenOptions::own() };
    let open = |path: &PathBuf| open_member(path, OpenOptions { logical_block_bytes: args.member_block_size, ..how });
    let devices: Vec<Arc<dyn Device>> = args.members.iter().map(open).collect::<Result<_, _>>()?;
    let request = ConvertRequest { to: args.metadata, drop_bitmap: args.bitmap == Some(Bitmap::None), dry_run: args.dry_run };
    let mut saved = None;
    let converted = convert(&devices, &request, &mut |changed| {
        saved = args.undo.save("convert", changed).map_err(|error| error.to_string())?;
        Ok(())
    });
    tell(saved.as_ref());
    let converted = converted?;
    let members: Vec<Member> = converted.members.iter().map(Member::new).collect();
    let metadata = args.metadata.name();
    if args.json {
        let uuid = converted.array_id.to_string();
        say_json("convert", &Report { written: !args.dry_run, uuid, metadata, members, undo_file: saved })?;
        return Ok(Exit::Done);
    }
    for Member { member, from, super_offset_bytes, was_done } in &members {
        let what = match (was_done, args.dry_run) {
            (true, _) => format!("has metadata {metadata} already"),
            (false, true) => format!("metadata {from} would become {metadata}"),
            (false, false) => format!("metadata {from} became {metadata}"),
        };
        say(format_args!("{member}: {what}, superblock at byte {super_offset_bytes}"))?;
    }
    Ok(Exit::Done)
}
