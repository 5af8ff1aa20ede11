//! `uraid undo FILE`: puts back what a command overwrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use serde::Serialize;
use uraid_array::{UNDO_ENDING, UndoFile, UndoState, open_member};
use uraid_device::{Device, OpenOptions};

use crate::output::{Exit, say, say_json, usage};
use crate::present::time;
use crate::undo::{UndoArgs, quoted};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file that the command named
    #[arg(value_name = "FILE", required_unless_present = "list")]
    file: Option<PathBuf>,
    /// Show the files that there are, and what each would do
    #[arg(long, conflicts_with_all = ["file", "dry_run", "force"])]
    list: bool,
    #[command(flatten)]
    place: UndoArgs,
    /// Look at the members and say what would be put back, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Put back also what has changed since the command, or where nobody knows what it left
    #[arg(short, long)]
    force: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// One file.
#[derive(Serialize)]
struct Entry {
    file: PathBuf,
    /// The command that overwrote; empty for a file that cannot be used.
    command: String,
    created_seconds: u64,
    members: Vec<MemberEntry>,
    /// What is wrong with the file.
    problem: Option<String>,
}

#[derive(Serialize)]
struct MemberEntry {
    member: PathBuf,
    /// Bytes that are as they were before the command.
    restored_bytes: u64,
    /// Bytes that the command left.
    to_restore_bytes: u64,
    /// Why they are not put back.
    problem: Option<String>,
}

/// The JSON report `undo`.
#[derive(Serialize)]
struct Report {
    /// `listed`, `planned` or `undone`.
    done: &'static str,
    files: Vec<Entry>,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.file {
        Some(file) => undo(args, file),
        None => list(args),
    }
}

fn list(args: &Args) -> anyhow::Result<Exit> {
    let dir = args.place.dir().ok_or_else(|| usage("--undo-dir=none has no files"))?;
    let mut files = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        found => {
            let entries = found.and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
            entries.with_context(|| format!("{}: cannot be read", dir.display()))?
        }
    };
    files.retain(|path: &PathBuf| path.extension().is_some_and(|ending| ending == UNDO_ENDING));
    files.sort();
    let entries: Vec<Entry> = files.iter().map(|file| entry(file)).collect();
    let is_broken = entries.iter().any(|entry| entry.problem.is_some());
    report(args, "listed", entries)?;
    Ok(if is_broken { Exit::Failed } else { Exit::Done })
}

fn entry(path: &Path) -> Entry {
    match UndoFile::open(path) {
        Ok(undo) => {
            let members = (0..undo.header().members.len()).map(|index| match look(&undo, index, OpenOptions::look()) {
                Ok((_, state)) => member_entry(&undo, index, state, None),
                Err(error) => member_entry(&undo, index, UndoState::default(), Some(error.to_string())),
            });
            Entry {
                file: path.to_owned(),
                command: undo.header().command.clone(),
                created_seconds: undo.header().created_seconds,
                members: members.collect(),
                problem: None,
            }
        }
        Err(error) => Entry {
            file: path.to_owned(),
            command: String::new(),
            created_seconds: 0,
            members: Vec::new(),
            problem: Some(error.to_string()),
        },
    }
}

fn member_entry(undo: &UndoFile, index: usize, state: UndoState, problem: Option<String>) -> MemberEntry {
    MemberEntry {
        member: undo.header().members[index].path.clone(),
        restored_bytes: state.before_bytes,
        to_restore_bytes: state.after_bytes,
        problem: problem.or_else(|| objection(state)),
    }
}

/// Why what a member holds now is not put back without force.
fn objection(state: UndoState) -> Option<String> {
    if let Some(byte) = state.strange_byte {
        return Some(format!("byte {byte} holds neither what the command wrote nor what was there before: it has changed since"));
    }
    let byte = state.unknown_byte?;
    Some(format!("byte {byte} has changed, and what the command left there is not recorded: the array ran with it"))
}

/// Opens member number `index` and looks at what it holds.
fn look(undo: &UndoFile, index: usize, how: OpenOptions) -> anyhow::Result<(Arc<dyn Device>, UndoState)> {
    let member = &undo.header().members[index];
    let device = open_member(&member.path, how)?;
    let size_bytes = device.info().size_bytes;
    if size_bytes != member.size_bytes {
        bail!(
            "{}: it has {size_bytes} bytes and had {} when it was saved: this is another member",
            member.path.display(),
            member.size_bytes
        );
    }
    let state = undo.judge(index, &*device)?;
    Ok((device, state))
}

fn undo(args: &Args, file: &Path) -> anyhow::Result<Exit> {
    let undo = UndoFile::open(file)?;
    let how = if args.dry_run { OpenOptions::look() } else { OpenOptions::own() };
    let mut devices = Vec::new();
    let mut entries = Vec::new();
    // All members are looked at before any is written.
    for index in 0..undo.header().members.len() {
        let (device, state) = look(&undo, index, how).with_context(|| "nothing was written")?;
        entries.push(member_entry(&undo, index, state, None));
        devices.push(device);
    }
    let refused = entries.iter().filter_map(|entry| Some(format!("{}: {}", entry.member.display(), entry.problem.as_ref()?)));
    let refused: Vec<String> = refused.collect();
    if !refused.is_empty() && !args.force && !args.dry_run {
        bail!("{}; nothing was written. --force puts it back all the same", refused.join("; "));
    }
    if !args.dry_run {
        for (index, device) in devices.iter().enumerate() {
            undo.put_back(index, &**device).with_context(|| format!("run it again: uraid undo {}", quoted(file)))?;
        }
    }
    let header = undo.header();
    let entry = Entry {
        file: file.to_owned(),
        command: header.command.clone(),
        created_seconds: header.created_seconds,
        members: entries,
        problem: None,
    };
    report(args, if args.dry_run { "planned" } else { "undone" }, vec![entry])?;
    Ok(if refused.is_empty() || !args.dry_run { Exit::Done } else { Exit::Failed })
}

fn report(args: &Args, done: &'static str, files: Vec<Entry>) -> anyhow::Result<()> {
    if args.json {
        return say_json("undo", &Report { done, files });
    }
    for Entry { file, command, created_seconds, members, problem } in &files {
        let what = match problem {
            Some(problem) => problem.clone(),
            None => format!("{}: {command} of {}", file.display(), time(*created_seconds)),
        };
        say(format_args!("{done}: {what}"))?;
        for MemberEntry { member, restored_bytes, to_restore_bytes, problem } in members {
            let problem = problem.as_ref().map_or(String::new(), |problem| format!("; {problem}"));
            let member = member.display();
            say(format_args!("  {member}: {to_restore_bytes} bytes to put back, {restored_bytes} as they were{problem}"))?;
        }
    }
    Ok(())
}
