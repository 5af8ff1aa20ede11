//! Members as they are named on the command line: opened, scanned, put together.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use uraid_array::{
    AssembleOptions, Assembly, Backup, BitmapFile, BitmapFileError, Candidate, MemberPath, Refused, RefusedReason, SyncSpeed,
    choose, open_member, scan,
};
use uraid_device::{Device, DeviceError, OpenOptions};
use uraid_serve::control as sockets;
use uraid_types::Raid0Layout;
use uuid::Uuid;

use crate::control::{self, NOT_UTF8, Request, Running, full};
use crate::foreign::{self, VolumeArgs};
use crate::output::{note, usage};
use crate::overlays::open_under;
use crate::present::parse_uuid;
use crate::undo::{UndoArgs, tell};

/// How long the members of a process that was killed may stay locked.
const LAST_BREATH: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// The members of a command, and how to take them.
#[derive(Clone, Debug, clap::Args)]
pub struct MemberArgs {
    /// Members of the array, in any order
    #[arg(value_name = "MEMBER", required = true)]
    pub members: Vec<PathBuf>,
    #[command(flatten)]
    pub which: WhichArgs,
}

/// Which of the members belong, and what they are.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WhichArgs {
    /// Only members of this array
    #[arg(short = 'u', long, value_parser = parse_uuid)]
    pub uuid: Option<Uuid>,
    /// Logical block of members that are regular files, 512 or 4096 bytes
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub member_block_size: Option<u32>,
    /// How to read a RAID0 of unequal members that does not record its layout: original or alternate
    #[arg(short = 'p', long, value_name = "LAYOUT", value_parser = raid0_layout)]
    pub layout: Option<Raid0Layout>,
    /// The file that the array's write-intent bitmap is kept in, where the members do not have it
    #[arg(short = 'b', long, value_name = "FILE")]
    pub bitmap: Option<PathBuf>,
    /// The array's journal, when it is not among the members
    #[arg(long, value_name = "MEMBER")]
    pub write_journal: Option<PathBuf>,
    /// Open members for reading only; what is written goes to files in DIR, one a member, and stays there
    #[arg(long, value_name = "DIR")]
    pub overlay: Option<PathBuf>,
    /// The backup file of a reshape that is part way (mdadm --grow --backup-file)
    #[arg(long, value_name = "FILE")]
    pub backup_file: Option<PathBuf>,
    /// Read an array that was being reshaped in place without its backup file: what was being rewritten may be wrong
    #[arg(long, conflicts_with = "backup_file")]
    pub invalid_backup: bool,
    #[command(flatten)]
    pub volume: VolumeArgs,
}

impl WhichArgs {
    /// All members: `members` and the journal.
    pub fn all(&self, members: &[PathBuf]) -> Vec<PathBuf> {
        members.iter().chain(&self.write_journal).cloned().collect()
    }

    /// The backup file, if one was given.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn backup(&self) -> anyhow::Result<Option<Backup>> {
        let Some(path) = &self.backup_file else { return Ok(None) };
        let device = open_member(path, OpenOptions::look())?;
        let backup = Backup::read(device).with_context(|| format!("--backup-file {}", path.display()))?;
        Ok(Some(backup))
    }

    /// `options` for the members `all`, which are opened as `open` says.
    ///
    /// # Errors
    /// The bitmap's file cannot be used.
    pub fn options(&self, options: &AssembleOptions, all: &[PathBuf], open: OpenOptions) -> anyhow::Result<AssembleOptions> {
        let bitmap_file = self.bitmap_file(all, open)?;
        Ok(AssembleOptions {
            uuid: self.uuid,
            raid0_layout: self.layout,
            invalid_backup: self.invalid_backup,
            bitmap_file,
            ..options.clone()
        })
    }

    /// The bitmap's file, opened as `open` says; under an overlay its changes stay in memory.
    ///
    /// # Errors
    /// It cannot be used, or is one of the members `all`.
    pub fn bitmap_file(&self, all: &[PathBuf], open: OpenOptions) -> anyhow::Result<Option<BitmapFile>> {
        let Some(path) = &self.bitmap else { return Ok(None) };
        refuse_member_as("--bitmap", path, all)?;
        let is_word = matches!(path.to_str(), Some("internal" | "none")) && !path.exists();
        if is_word {
            return Err(usage("--bitmap names a bitmap's file here; one that the members have is found without it"));
        }
        let in_memory = self.overlay.is_some() && open.write;
        let until = Instant::now() + LAST_BREATH;
        loop {
            match BitmapFile::open(path, open, in_memory) {
                Err(BitmapFileError::Device(error)) if is_busy(&error) && Instant::now() < until => std::thread::sleep(PAUSE),
                opened => {
                    if in_memory {
                        note(format_args!("--overlay: changes to the bitmap in {} are not kept", path.display()));
                    }
                    return opened.map(Some).context("--bitmap");
                }
            }
        }
    }
}

fn raid0_layout(text: &str) -> Result<Raid0Layout, String> {
    match text {
        "original" => Ok(Raid0Layout::Original),
        "alternate" => Ok(Raid0Layout::Alternate),
        other => Err(format!("'{other}' is neither original nor alternate")),
    }
}

/// From what state an array may be started.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct StartArgs {
    /// Start although members are missing that were active last time
    #[arg(short = 'R', long)]
    run: bool,
    /// Take stale members where there are not enough others, and parity of an unclean degraded array for good
    #[arg(short, long)]
    force: bool,
    /// What keeps parity right from now on: 'resync' drops a partial parity log (PPL), which uraid does not write
    #[arg(short = 'k', long, value_name = "POLICY")]
    consistency_policy: Option<Policy>,
    /// Change the superblocks first: 'no-bitmap' drops the bitmap that the members have, whatever is the matter with it; 'no-ppl' is
    /// as --consistency-policy=resync
    #[arg(short = 'U', long, value_name = "CHANGE")]
    update: Option<Update>,
    #[command(flatten)]
    undo: UndoArgs,
}

/// What superblocks can be made to say when an array starts: some of mdadm's `--update`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Update {
    /// No bitmap.
    NoBitmap,
    /// No partial parity log.
    NoPpl,
}

/// Policies that an array can be given when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Policy {
    /// A resync after an unclean stop.
    Resync,
}

impl StartArgs {
    /// As the library takes them.
    pub fn options(&self, read_only: bool) -> AssembleOptions {
        let drop_ppl = self.consistency_policy == Some(Policy::Resync) || self.update == Some(Update::NoPpl);
        let drop_bitmap = self.update == Some(Update::NoBitmap);
        AssembleOptions { force: self.force, run: self.run, read_only, drop_ppl, drop_bitmap, ..AssembleOptions::default() }
    }

    /// Puts `candidates` together, once the metadata that a start with force or with changes overwrites is saved.
    ///
    /// # Errors
    /// It cannot be saved, or the array does not start.
    pub fn start(
        &self,
        command: &str,
        candidates: Vec<Candidate>,
        which: &WhichArgs,
        options: &AssembleOptions,
    ) -> anyhow::Result<Assembly> {
        let rewrites =
            (options.force || options.drop_ppl || options.drop_bitmap) && !options.read_only && which.overlay.is_none();
        // Nothing is saved for an array that does not start, or is only read, as one that is being reshaped.
        let is_written = || choose(candidates.clone(), options, None).is_ok_and(|array| array.read_only_because.is_none());
        let saved = if rewrites && is_written() { self.undo.save_start(command, &candidates)? } else { None };
        tell(saved.as_ref());
        Ok(uraid_array::assemble(candidates, options, which.backup()?.as_ref())?)
    }
}

/// How fast runs over the array may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct SpeedArgs {
    /// KiB/s of each member that resync, recovery, check and repair keep while requests come in; a window at a time unless given
    #[arg(long, value_name = "KIB/S")]
    sync_speed_min: Option<u64>,
    /// KiB/s of each member that resync, recovery, check and repair do not exceed
    #[arg(long, value_name = "KIB/S", value_parser = clap::value_parser!(u64).range(1..))]
    sync_speed_max: Option<u64>,
}

impl SpeedArgs {
    /// As the library takes them.
    pub fn speed(self) -> SyncSpeed {
        SyncSpeed { min_kib: self.sync_speed_min, max_kib: self.sync_speed_max }
    }

    /// Tells a running array, where there is something to tell.
    ///
    /// # Errors
    /// It does not answer.
    pub fn tell(self, name: &str) -> anyhow::Result<()> {
        if self != SpeedArgs::default() {
            control::call(name, &Request::SyncSpeed { min_kib: self.sync_speed_min, max_kib: self.sync_speed_max })?;
        }
        Ok(())
    }
}

/// The logical blocks that there are.
pub fn block_size(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4K" | "4k" => Ok(4096),
        other => Err(format!("'{other}' is neither 512 nor 4096")),
    }
}

/// What was found on members.
pub struct Found {
    /// Members with a superblock that can be used.
    pub candidates: Vec<Candidate>,
    /// The others.
    pub refused: Vec<Refused>,
}

/// How members are opened that nobody else may use meanwhile, though nothing is written.
pub fn read_alone() -> OpenOptions {
    OpenOptions { lock: true, ..OpenOptions::look() }
}

/// Opens and scans all of `paths`, under the overlays of `which` where there are any.
pub fn scan_all(paths: &[PathBuf], which: &WhichArgs, open: OpenOptions) -> Found {
    let open = OpenOptions { logical_block_bytes: which.member_block_size, ..open };
    let mut found = Found { candidates: Vec::new(), refused: Vec::new() };
    let patience = Instant::now() + LAST_BREATH;
    for path in paths {
        let opened = open_patiently(path, which.overlay.as_deref(), open, patience);
        let unreadable = |error| Refused { name: path.display().to_string(), reason: RefusedReason::Unreadable(error) };
        match opened.map_err(unreadable).and_then(scan) {
            Ok(candidate) => found.candidates.push(candidate),
            Err(refused) => found.refused.push(refused),
        }
    }
    found
}

/// Opens a member, if need be once its last owner is really gone: the system keeps the locks of a process that was killed until
/// its member I/O has ended.
fn open_patiently(
    path: &Path,
    overlay: Option<&Path>,
    open: OpenOptions,
    until: Instant,
) -> Result<Arc<dyn Device>, DeviceError> {
    loop {
        match open_over(path, overlay, open) {
            Err(error) if is_busy(&error) && Instant::now() < until && owner_of(path).is_none() => {
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

fn is_busy(error: &DeviceError) -> bool {
    error.source.kind() == ErrorKind::ResourceBusy
}

/// Opens a member as `open` says, or under its overlay in the folder `overlay`: then what only looks makes none.
///
/// # Errors
/// It cannot be opened, or its overlay cannot be used.
pub fn open_over(path: &Path, overlay: Option<&Path>, open: OpenOptions) -> Result<Arc<dyn Device>, DeviceError> {
    match overlay {
        Some(dir) => open_under(dir, path, open, open.write),
        None => open_member(path, open),
    }
}

/// The running array that has the member at `path`.
pub fn owner_of(path: &Path) -> Option<Running> {
    let path = full(path).ok()?.to_string_lossy().into_owned();
    let has = |running: &Running| running.member_paths.contains(&path);
    sockets::list().unwrap_or_default().iter().filter_map(|name| control::running(name).ok()).find(has)
}

/// Puts an array together from `paths`, opened as `open` says. Members that are left out are named on standard error.
///
/// # Errors
/// Why it cannot be started, with every member that was left out and the reason.
pub fn assemble(
    command: &str,
    paths: &[PathBuf],
    which: &WhichArgs,
    open: OpenOptions,
    start: &StartArgs,
    options: &AssembleOptions,
) -> anyhow::Result<Assembly> {
    let paths = which.all(paths);
    if !which.volume.in_order {
        refuse_repeated(&paths)?;
    }
    let found = scan_all(&paths, which, open);
    let options = which.options(options, &paths, open)?;
    if found.candidates.is_empty()
        && let Some(assembly) = foreign::assemble(&paths, which, &options, open.write)?
    {
        return Ok(assembly);
    }
    let left_out = || found.refused.iter().map(|refused| format!("\n  left out: {refused}")).collect::<String>();
    let assembly = start
        .start(command, found.candidates, which, &options)
        .map_err(|error| anyhow::anyhow!("{error:#}{}", left_out()))
        .context("the array cannot be started")?;
    for refused in found.refused.iter().chain(&assembly.refused) {
        note(format_args!("left out: {refused}"));
    }
    for warning in &assembly.warnings {
        note(warning);
    }
    Ok(assembly)
}

/// Refuses names that cannot be shown or told, and one medium that is given twice, under one name or two, before the second lock finds the first.
///
/// # Errors
/// Which.
pub fn refuse_repeated(paths: &[PathBuf]) -> anyhow::Result<()> {
    for (index, path) in paths.iter().enumerate() {
        if path.to_str().is_none() {
            return Err(usage(format!("{}: {NOT_UTF8}", path.display())));
        }
        let earlier = &paths[..index];
        if earlier.contains(path) {
            return Err(usage(format!("{} is given twice", path.display())));
        }
        let is_same = |other: &&PathBuf| Medium::of(path).zip(Medium::of(other)).is_some_and(|(own, other)| own.overlaps(&other));
        if let Some(other) = earlier.iter().find(is_same) {
            return Err(usage(format!("{} and {} are the same medium, given twice", other.display(), path.display())));
        }
    }
    Ok(())
}

/// What tells one medium from another, whatever it is called.
#[derive(PartialEq, Eq)]
struct Medium {
    file: (u64, u64),
    partition: Option<u32>,
}

impl Medium {
    fn of(path: &Path) -> Option<Medium> {
        let MemberPath { medium, partition } = MemberPath::new(path);
        let metadata = medium.metadata().ok()?;
        let is_block = metadata.file_type().is_block_device();
        let file = if is_block { (0, metadata.rdev()) } else { (metadata.ino(), metadata.dev()) };
        Some(Medium { file, partition })
    }

    /// Have they bytes in common?
    fn overlaps(&self, other: &Medium) -> bool {
        self.file == other.file && (self.partition == other.partition || self.partition.is_none() || other.partition.is_none())
    }
}

/// Refuses a path that `option` names when it is one of the members, under whatever name.
///
/// # Errors
/// It is one.
pub fn refuse_member_as(option: &str, path: &Path, members: &[PathBuf]) -> anyhow::Result<()> {
    let Some(own) = Medium::of(path) else { return Ok(()) };
    match members.iter().find(|member| Medium::of(member).is_some_and(|member| own.overlaps(&member))) {
        Some(member) => Err(usage(format!("{option} {} is the member {}", path.display(), member.display()))),
        None => Ok(()),
    }
}
