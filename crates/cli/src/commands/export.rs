//! `uraid export`.

use std::fs::File;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use uraid_array::{Array, AssembleOptions, Assembly, RunOptions};
use uraid_report::Progress;

use crate::members::{MemberArgs, StartArgs, assemble, read_alone, refuse_member_as};
use crate::output::{Exit, say_json, usage};
use crate::signals::Stop;
use crate::sizes;
use crate::transfer::Reader;

/// Zeros of at least this length and alignment become holes.
const HOLE_BYTES: usize = 64 << 10;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    members: MemberArgs,
    /// Where the contents go: a file, a block device, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// First byte of the array to copy; units as in 64K, 10G
    #[arg(long, value_name = "BYTES", value_parser = sizes::bytes, default_value = "0")]
    offset: u64,
    /// How many bytes to copy; to the array's end unless stated
    #[arg(long, value_name = "BYTES", value_parser = sizes::bytes)]
    length: Option<u64>,
    /// Take stale members where there are not enough others, and parity of an unclean degraded array for good
    #[arg(short, long)]
    force: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report `export`.
#[derive(Debug, Serialize)]
struct Report {
    output: PathBuf,
    offset_bytes: u64,
    length_bytes: u64,
    /// Bytes that became holes in the output.
    hole_bytes: u64,
    /// Slots that were not in sync.
    degraded: usize,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let to_stdout = args.output == Path::new("-");
    if to_stdout && args.json {
        return Err(usage("--json and the contents cannot both go to standard output"));
    }
    if to_stdout && io::stdout().is_terminal() {
        return Err(usage("the array's contents do not belong on a terminal; give a file with --output"));
    }
    let stop = Stop::listen()?;
    refuse_member_as("--output", &args.output, &args.members.members)?;
    let options = AssembleOptions { force: args.force, run: true, read_only: true, ..AssembleOptions::default() };
    let assembly = assemble("export", &args.members.members, &args.members.which, read_alone(), &StartArgs::default(), &options)?;
    let range = range(args, &assembly)?;
    let degraded = assembly.degraded;
    let array = Array::start(assembly, &RunOptions { read_only: true, auto_sync: false, ..RunOptions::default() });
    let mut sink = if to_stdout { Sink::stdout()? } else { Sink::file(&args.output)? };
    let copied = copy(&array, &range, &mut sink, &stop);
    array.stop();
    copied?;
    if args.json {
        let (offset_bytes, length_bytes) = (range.start, range.end - range.start);
        let report = Report { output: args.output.clone(), offset_bytes, length_bytes, hole_bytes: sink.hole_bytes, degraded };
        say_json("export", &report)?;
    }
    Ok(if degraded > 0 { Exit::Degraded } else { Exit::Done })
}

/// The bytes of the array to copy.
fn range(args: &Args, assembly: &Assembly) -> anyhow::Result<std::ops::Range<u64>> {
    let size_bytes = assembly.geometry.capacity().bytes();
    let length_bytes = args.length.unwrap_or(size_bytes.saturating_sub(args.offset));
    let end_bytes = args.offset.checked_add(length_bytes).filter(|&end| end <= size_bytes);
    match end_bytes {
        Some(end_bytes) if args.offset <= size_bytes => Ok(args.offset..end_bytes),
        _ => Err(usage(format!("--offset {} --length {length_bytes} is not within the array's {size_bytes} bytes", args.offset))),
    }
}

fn copy(array: &Array, range: &std::ops::Range<u64>, sink: &mut Sink, stop: &Stop) -> anyhow::Result<()> {
    let block_bytes = u64::from(array.block_bytes());
    // The array is read in whole blocks; what sticks out on either side is cut off.
    let whole = range.start / block_bytes * block_bytes..range.end.div_ceil(block_bytes) * block_bytes;
    let mut progress = Progress::new("export", range.end - range.start);
    for (offset_bytes, outcome) in Reader::new(array, whole) {
        stop.check().with_context(|| format!("the output is incomplete: it ends before byte {offset_bytes} of the array"))?;
        let parts = outcome.map_err(|error| anyhow::anyhow!("the array cannot be read at byte {offset_bytes}: {error}"))?;
        let mut at_bytes = offset_bytes;
        for part in parts {
            let end_bytes = at_bytes + part.len() as u64;
            // Both lie within the part, which is no longer than memory is.
            let from = (range.start.clamp(at_bytes, end_bytes) - at_bytes) as usize;
            let to = (range.end.clamp(at_bytes, end_bytes) - at_bytes) as usize;
            sink.take(&part[from..to])?;
            at_bytes = end_bytes;
        }
        progress.set(at_bytes.min(range.end).saturating_sub(range.start));
    }
    sink.end()?;
    progress.finish();
    Ok(())
}

fn is_zero(piece: &[u8]) -> bool {
    let (blocks, rest) = piece.split_at(piece.len() / uraid_parity::UNIT_BYTES * uraid_parity::UNIT_BYTES);
    uraid_parity::is_zero(blocks) && rest.iter().all(|&byte| byte == 0)
}

/// Where the bytes go.
struct Sink {
    file: File,
    name: String,
    /// Holes can be left out: it is a regular file that was empty.
    sparse: bool,
    /// Bytes taken.
    taken_bytes: u64,
    /// Zeros that have been left out since the last write.
    skipped_bytes: u64,
    hole_bytes: u64,
}

impl Sink {
    fn stdout() -> anyhow::Result<Sink> {
        let copy: OwnedFd = io::stdout().as_fd().try_clone_to_owned().context("standard output")?;
        Ok(Sink::new(File::from(copy), "standard output".to_owned(), false))
    }

    fn file(path: &Path) -> anyhow::Result<Sink> {
        let name = path.display().to_string();
        let opened = File::options().write(true).create(true).truncate(true).open(path);
        let file = opened.with_context(|| format!("{name}: cannot be opened for writing"))?;
        let sparse = file.metadata().with_context(|| name.clone())?.is_file();
        Ok(Sink::new(file, name, sparse))
    }

    fn new(file: File, name: String, sparse: bool) -> Sink {
        Sink { file, name, sparse, taken_bytes: 0, skipped_bytes: 0, hole_bytes: 0 }
    }

    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        for piece in bytes.chunks(HOLE_BYTES) {
            self.taken_bytes += piece.len() as u64;
            if self.sparse && is_zero(piece) {
                self.skipped_bytes += piece.len() as u64;
                self.hole_bytes += piece.len() as u64;
                continue;
            }
            self.write(piece).with_context(|| self.at())?;
        }
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.skipped_bytes > 0 {
            self.file.seek(SeekFrom::Start(self.taken_bytes - piece.len() as u64))?;
            self.skipped_bytes = 0;
        }
        self.file.write_all(piece)
    }

    /// Gives a sparse file its length and makes what is kept durable.
    fn end(&mut self) -> anyhow::Result<()> {
        let sized = if self.sparse { self.file.set_len(self.taken_bytes) } else { Ok(()) };
        // A pipe has nothing to make durable.
        let synced = match self.file.sync_all() {
            Err(error) if matches!(error.raw_os_error(), Some(code) if code == rustix::io::Errno::INVAL.raw_os_error()) => Ok(()),
            other => other,
        };
        sized.and(synced).with_context(|| self.at())
    }

    fn at(&self) -> String {
        format!("{}: cannot be written at byte {}", self.name, self.taken_bytes)
    }
}
