//! `uraid import`.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use uraid_array::{Array, RunOptions};
use uraid_device::{Buf, OpenOptions};
use uraid_report::Progress;

use crate::members::{MemberArgs, StartArgs, assemble, refuse_member_as};
use crate::output::{Exit, say_json, usage};
use crate::signals::{Interrupted, Stop};
use crate::sizes;
use crate::transfer::Writer;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    members: MemberArgs,
    /// Where the contents come from: a file, a block device, or - for standard input
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// First byte of the array to write; units as in 64K, 10G
    #[arg(long, value_name = "BYTES", value_parser = sizes::bytes, default_value = "0")]
    offset: u64,
    #[command(flatten)]
    start: StartArgs,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report `import`.
#[derive(Debug, Serialize)]
struct Report {
    input: PathBuf,
    offset_bytes: u64,
    length_bytes: u64,
    /// Slots that are not in sync.
    degraded: usize,
    /// A resync is still due: it starts when the array is assembled.
    resync_pending: bool,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let stop = Stop::listen()?;
    refuse_member_as("--input", &args.input, &args.members.members)?;
    let mut input = Input::open(&args.input)?;
    let options = args.start.options(false);
    let assembly = assemble("import", &args.members.members, &args.members.which, OpenOptions::own(), &args.start, &options)?;
    if let Some(why) = &assembly.read_only_because {
        bail!("the array can only be read: {why}");
    }
    let size_bytes = assembly.geometry.capacity().bytes();
    let room_bytes = room(args, size_bytes, &input)?;
    let array = Array::start(assembly, &RunOptions { auto_sync: false, ..RunOptions::default() });
    let copied = copy(&array, args.offset, room_bytes, &mut input, &stop);
    let status = array.status();
    array.stop();
    let length_bytes = copied?;
    let Some(status) = status else { bail!("the array's thread has ended") };
    if let Some(why) = status.broken {
        bail!("the array has failed: {why}");
    }
    let (degraded, resync_pending) = (status.degraded, status.resync_pending);
    if args.json {
        let report = Report { input: args.input.clone(), offset_bytes: args.offset, length_bytes, degraded, resync_pending };
        say_json("import", &report)?;
    }
    Ok(if degraded > 0 { Exit::Degraded } else { Exit::Done })
}

/// Bytes of the array from the offset on; an input that is known to be larger is refused.
fn room(args: &Args, size_bytes: u64, input: &Input) -> anyhow::Result<u64> {
    let Some(room_bytes) = size_bytes.checked_sub(args.offset) else {
        return Err(usage(format!("--offset {} is beyond the array's {size_bytes} bytes", args.offset)));
    };
    match input.size_bytes {
        Some(given) if given > room_bytes => Err(usage(format!(
            "{} has {given} bytes, more than the {room_bytes} bytes that the array has from byte {} on; nothing was written",
            input.name, args.offset
        ))),
        _ => Ok(room_bytes),
    }
}

/// Copies the input to its end; gives its length.
fn copy(array: &Array, offset_bytes: u64, room_bytes: u64, input: &mut Input, stop: &Stop) -> anyhow::Result<u64> {
    let mut progress = Progress::new("import", input.size_bytes.unwrap_or(room_bytes));
    let mut writer = Writer::new(array);
    let mut done_bytes = 0;
    let interrupted = loop {
        let at_bytes = offset_bytes + done_bytes;
        let left_bytes = room_bytes - done_bytes;
        let want = writer.len_at(at_bytes).min(usize::try_from(left_bytes).unwrap_or(usize::MAX));
        let mut piece = array.pool().take(want);
        let (got, ended) = match input.fill(&mut piece, stop)? {
            Filled::Interrupted => break Some(Interrupted),
            Filled::Whole(got) => (got, false),
            Filled::ToTheEnd(got) => (got, true),
        };
        if got > 0 {
            write_piece(array, &mut writer, at_bytes, piece, got)?;
            done_bytes += got as u64;
            progress.set(done_bytes);
        }
        if ended {
            break None;
        }
        if left_bytes == got as u64 {
            if !matches!(input.fill(&mut [0], stop)?, Filled::ToTheEnd(0)) {
                writer.finish()?;
                bail!("{} is larger than the array: its first {done_bytes} bytes were written", input.name);
            }
            break None;
        }
    };
    writer.finish()?;
    progress.finish();
    match interrupted {
        Some(interrupted) => {
            Err(anyhow::Error::new(interrupted)
                .context(format!("only the first {done_bytes} bytes of {} were written", input.name)))
        }
        None => Ok(done_bytes),
    }
}

/// Writes the first `len` bytes of `piece`; blocks that they fill only in part are read first.
fn write_piece(array: &Array, writer: &mut Writer<'_>, at_bytes: u64, mut piece: Buf, len: usize) -> anyhow::Result<()> {
    let block_bytes = u64::from(array.block_bytes());
    let (start, end) = (at_bytes / block_bytes * block_bytes, (at_bytes + len as u64).div_ceil(block_bytes) * block_bytes);
    if (start, end) == (at_bytes, at_bytes + len as u64) {
        piece.truncate(len);
        return writer.write(at_bytes, piece.share());
    }
    // A piece is no longer than memory is, and so are its blocks.
    let mut whole = array.pool().take((end - start) as usize);
    let skip = (at_bytes - start) as usize;
    for block in [start, end - block_bytes] {
        let parts = array
            .read(block, block_bytes)
            .map_err(|error| anyhow::anyhow!("the array cannot be read at byte {block}: {error}"))?;
        let mut at = (block - start) as usize;
        for part in parts {
            whole[at..at + part.len()].copy_from_slice(&part);
            at += part.len();
        }
    }
    whole[skip..skip + len].copy_from_slice(&piece[..len]);
    writer.write(start, whole.share())
}

/// Where the bytes come from.
struct Input {
    file: File,
    name: String,
    /// `None` for a pipe.
    size_bytes: Option<u64>,
}

impl Input {
    fn open(path: &Path) -> anyhow::Result<Input> {
        if path == Path::new("-") {
            let copy: OwnedFd = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
            return Ok(Input { file: File::from(copy), name: "standard input".to_owned(), size_bytes: None });
        }
        let name = path.display().to_string();
        let mut file = File::open(path).with_context(|| format!("{name}: cannot be opened"))?;
        let kind = file.metadata().with_context(|| name.clone())?;
        if kind.is_dir() {
            bail!("{name}: is a directory");
        }
        // The end of a block device is found by going there; a pipe has none.
        let size_bytes = file.seek(SeekFrom::End(0)).ok().filter(|_| file.rewind().is_ok());
        Ok(Input { file, name, size_bytes })
    }

    /// Fills `into` as far as the input goes. A signal ends the wait for a pipe that is silent.
    fn fill(&mut self, into: &mut [u8], stop: &Stop) -> anyhow::Result<Filled> {
        let name = self.name.clone();
        let mut got = 0;
        while got < into.len() {
            if stop.asked() {
                return Ok(Filled::Interrupted);
            }
            let more = if self.is_ready()? { self.file.read(&mut into[got..]) } else { continue };
            match more {
                Ok(0) => return Ok(Filled::ToTheEnd(got)),
                Ok(more) => got += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).with_context(|| format!("{name}: cannot be read")),
            }
        }
        Ok(Filled::Whole(got))
    }

    /// Is there something to read, or the end? Waits a moment for a pipe.
    fn is_ready(&self) -> anyhow::Result<bool> {
        const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        if self.size_bytes.is_some() {
            return Ok(true);
        }
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&MOMENT)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("{}: cannot be waited for", self.name)),
        }
    }
}

/// How far the input went.
enum Filled {
    /// So many bytes, which is all that was asked for.
    Whole(usize),
    /// So many bytes, then its end.
    ToTheEnd(usize),
    /// A signal came; what has been read of this piece is dropped.
    Interrupted,
}
