//! `uraid overlay list|commit|discard DIR`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use serde::Serialize;
use uraid_array::{After, Change, Changed, open_member};
use uraid_device::{Device, OVERLAY_BLOCK_BYTES, OpenOptions, OverlayFile, OverlayState, Pool};
use uraid_report::{Progress, human_bytes};
use uuid::Uuid;

use crate::output::{Exit, note, say, say_json};
use crate::overlays::{changed_since, files_in, has_new_superblock};
use crate::undo::{UndoArgs, tell};

/// Bytes that go to a member at once.
const PIECE_BYTES: u64 = 1 << 20;

/// What to do with the files of `--overlay`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// What lies over which member
    List(Args),
    /// Write what the files hold to the members, and remove them; a commit that was cut short is gone on with
    Commit(CommitArgs),
    /// Remove the files; the members stay as they are
    Discard(Args),
}

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder that was given to --overlay
    dir: PathBuf,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// Options.
#[derive(Debug, clap::Args)]
pub struct CommitArgs {
    #[command(flatten)]
    which: Args,
    /// Say what would be written to which member, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    undo: UndoArgs,
    /// Write to members that have changed since the files were made
    #[arg(short, long)]
    force: bool,
}

/// One file.
#[derive(Debug, Serialize)]
struct Entry {
    file: PathBuf,
    /// Its member; empty when the file cannot be read.
    member: PathBuf,
    /// `open`, `committing` or `broken`; a broken one has nothing more to say.
    state: &'static str,
    array_uuid: String,
    device_uuid: String,
    /// The member's events when the file was made.
    events: u64,
    /// Bytes that differ from the member's, in blocks of 4 KiB.
    bytes: u64,
    /// In how many runs.
    runs: usize,
    /// What is wrong with the file.
    problem: Option<String>,
}

/// The JSON report `overlay`.
#[derive(Debug, Serialize)]
struct Report {
    /// `listed`, `planned`, `committed` or `discarded`.
    done: &'static str,
    overlays: Vec<Entry>,
    /// What puts back what a commit overwrote.
    undo_file: Option<PathBuf>,
}

/// Runs it.
pub fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list(args),
        Command::Commit(args) => commit(args),
        Command::Discard(args) => discard(args),
    }
}

impl Entry {
    fn of(overlay: &OverlayFile) -> Entry {
        let origin = overlay.origin();
        let runs: Vec<u64> = overlay.ranges().map(|range| range.end - range.start).collect();
        Entry {
            file: overlay.path().to_owned(),
            member: origin.path.clone(),
            state: if overlay.state() == OverlayState::Open { "open" } else { "committing" },
            array_uuid: Uuid::from_bytes(origin.array_id).to_string(),
            device_uuid: Uuid::from_bytes(origin.device_id).to_string(),
            events: origin.events,
            bytes: runs.iter().sum(),
            runs: runs.len(),
            problem: None,
        }
    }

    fn broken(file: &Path, problem: String) -> Entry {
        let (array_uuid, device_uuid) = (String::new(), String::new());
        let member = PathBuf::new();
        let problem = Some(problem);
        Entry { file: file.to_owned(), member, state: "broken", array_uuid, device_uuid, events: 0, bytes: 0, runs: 0, problem }
    }

    fn line(&self) -> String {
        match &self.problem {
            Some(problem) => format!("{}: {problem}", self.file.display()),
            None => format!(
                "{}: {} in {} runs lie in {} ({})",
                self.member.display(),
                human_bytes(self.bytes),
                self.runs,
                self.file.display(),
                self.state
            ),
        }
    }
}

fn report(json: bool, done: &'static str, overlays: Vec<Entry>) -> anyhow::Result<()> {
    report_with(json, done, overlays, None)
}

fn report_with(json: bool, done: &'static str, overlays: Vec<Entry>, undo_file: Option<PathBuf>) -> anyhow::Result<()> {
    if json {
        return say_json("overlay", &Report { done, overlays, undo_file });
    }
    overlays.iter().try_for_each(|entry| say(format_args!("{done}: {}", entry.line())))?;
    Ok(())
}

/// The files of the folder, of which there is at least one.
fn some_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let files = files_in(dir)?;
    if files.is_empty() {
        bail!("{}: there is no overlay in it", dir.display());
    }
    Ok(files)
}

fn list(args: &Args) -> anyhow::Result<Exit> {
    let look = |file: &PathBuf| match OverlayFile::look(file) {
        Ok(overlay) => Entry::of(&overlay),
        Err(error) => Entry::broken(file, error.source.to_string()),
    };
    let entries: Vec<Entry> = files_in(&args.dir)?.iter().map(look).collect();
    let is_broken = entries.iter().any(|entry| entry.problem.is_some());
    report(args.json, "listed", entries)?;
    Ok(if is_broken { Exit::Failed } else { Exit::Done })
}

fn discard(args: &Args) -> anyhow::Result<Exit> {
    let mut entries = Vec::new();
    let mut held = Vec::new();
    for file in some_files(&args.dir)? {
        match OverlayFile::open(&file) {
            Ok(overlay) if overlay.state() == OverlayState::Committing => {
                let member = overlay.origin().path.display();
                bail!("{member} has part of {}: commit it to the end; nothing was removed", file.display());
            }
            Ok(overlay) => {
                entries.push(Entry::of(&overlay));
                held.push(overlay);
            }
            Err(error) if error.source.kind() == std::io::ErrorKind::ResourceBusy => return Err(error.into()),
            Err(error) => entries.push(Entry::broken(&file, error.source.to_string())),
        }
    }
    remove(&args.dir, entries.iter().map(|entry| &*entry.file))?;
    report(args.json, "discarded", entries)?;
    Ok(Exit::Done)
}

fn remove<'a>(dir: &Path, files: impl Iterator<Item = &'a Path>) -> anyhow::Result<()> {
    for file in files {
        std::fs::remove_file(file).with_context(|| format!("{}: cannot be removed", file.display()))?;
    }
    let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
    synced.with_context(|| format!("{}: cannot be made durable", dir.display()))
}

/// An overlay and its member.
struct Pair {
    overlay: OverlayFile,
    member: Arc<dyn Device>,
}

fn commit(args: &CommitArgs) -> anyhow::Result<Exit> {
    let dir = &args.which.dir;
    let mut pairs = Vec::new();
    for file in some_files(dir)? {
        pairs.push(open_pair(&file, args)?);
    }
    let entries: Vec<Entry> = pairs.iter().map(|pair| Entry::of(&pair.overlay)).collect();
    if args.dry_run {
        report(args.which.json, "planned", entries)?;
        return Ok(Exit::Done);
    }
    for entry in &entries {
        note(format_args!("{} of {} are written to {}", human_bytes(entry.bytes), entry.file.display(), entry.member.display()));
    }
    let saved = save_old(args, &pairs)?;
    tell(saved.as_ref());
    // Once any member may have some of it, all files say so: whoever comes next goes on, and does not begin anew.
    for pair in &mut pairs {
        pair.overlay.begin_commit()?;
    }
    let mut progress = Progress::new("commit", entries.iter().map(|entry| entry.bytes).sum());
    let mut done_bytes = 0;
    // Superblocks come last: only with all data behind them may they speak of it.
    for is_super in [false, true] {
        for pair in &pairs {
            for range in pair.overlay.ranges() {
                write_run(pair, range, is_super, &mut |bytes| {
                    done_bytes += bytes;
                    progress.set(done_bytes);
                })?;
            }
            pair.member.flush()?;
        }
    }
    progress.finish();
    remove(dir, entries.iter().map(|entry| &*entry.file))?;
    report_with(args.which.json, "committed", entries, saved)?;
    Ok(Exit::Done)
}

/// Saves what the members have where the files have something else. A commit that goes on has done so when it began.
fn save_old(args: &CommitArgs, pairs: &[Pair]) -> anyhow::Result<Option<PathBuf>> {
    if pairs.iter().any(|pair| pair.overlay.state() == OverlayState::Committing) {
        note("this commit began earlier: what it overwrites was saved then");
        return Ok(None);
    }
    let readers: Vec<_> = pairs.iter().map(|pair| |at: u64, into: &mut [u8]| pair.overlay.read(at, into)).collect();
    let changed = pairs.iter().zip(&readers).map(|(pair, reader)| {
        let change = |range: std::ops::Range<u64>| Change {
            start_byte: range.start,
            len_bytes: range.end - range.start,
            after: After::Read(reader),
        };
        Changed { device: &*pair.member, changes: pair.overlay.ranges().map(change).collect() }
    });
    args.undo.save("overlay-commit", &changed.collect::<Vec<_>>())
}

fn open_pair(file: &Path, args: &CommitArgs) -> anyhow::Result<Pair> {
    let overlay = OverlayFile::open(file)?;
    let how = if args.dry_run { OpenOptions::look() } else { OpenOptions::own() };
    let member = open_member(&overlay.origin().path, how)?;
    let changed = changed_since(overlay.origin(), &*member)?;
    let was_done = overlay.state() == OverlayState::Committing && has_new_superblock(&overlay, &*member)?;
    let same_size = member.info().size_bytes == overlay.origin().size_bytes;
    match changed {
        Some(why) if !(was_done || args.force && same_size) => {
            let name = member.info().name.clone();
            bail!("{name}: {why} since {} was made; nothing was written. --force writes over it all the same", file.display());
        }
        _ => Ok(Pair { overlay, member }),
    }
}

/// Writes a run of blocks to the member: only the superblock's, or all others.
fn write_run(pair: &Pair, range: std::ops::Range<u64>, is_super: bool, done: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let start = pair.overlay.origin().super_byte / OVERLAY_BLOCK_BYTES * OVERLAY_BLOCK_BYTES;
    let superblock = start..start + OVERLAY_BLOCK_BYTES;
    let (before, after) = (range.start..range.end.min(superblock.start), range.start.max(superblock.end)..range.end);
    let own = range.start.max(superblock.start)..range.end.min(superblock.end);
    let parts = if is_super { vec![own] } else { vec![before, after] };
    let pool = Pool::new(PIECE_BYTES as usize);
    for part in parts {
        let mut at = part.start;
        while at < part.end {
            let len = PIECE_BYTES.min(part.end - at);
            let mut bytes = pool.take(len as usize);
            pair.overlay.read(at, &mut bytes)?;
            pair.member.write_at(at, &bytes)?;
            at += len;
            done(len);
        }
    }
    Ok(())
}
