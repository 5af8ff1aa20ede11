//! Member files in a folder of their own, for measuring and trying: made with room to spare, gone afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use uraid_array::{Array, AssembleOptions, CreateRequest, RunOptions, create};
use uraid_device::{Device, FileDevice, OpenOptions};
use uraid_report::human_bytes;

use crate::members::{StartArgs, WhichArgs, assemble};
use crate::output::note;

/// `f_type` of tmpfs (statfs(2)): its files take memory.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A folder with member files; both go when it is dropped, unless they are to be kept.
pub struct Bed {
    folder: PathBuf,
    member_bytes: u64,
    keep: bool,
}

impl Bed {
    /// Makes a new folder within `dir`, which must have room for `members` files of `member_bytes` full of data.
    ///
    /// # Errors
    /// There is not enough room, or the folder cannot be made.
    pub fn new(dir: &Path, purpose: &str, members: u64, member_bytes: u64, keep: bool) -> anyhow::Result<Bed> {
        let shown = dir.display();
        let free_bytes = free_bytes(dir).with_context(|| format!("{shown}: cannot be asked for free space"))?;
        let Some(needed_bytes) = members.checked_mul(member_bytes) else { bail!("{members} members of that size are too much") };
        if needed_bytes > free_bytes {
            bail!(
                "{shown}: {} are free, but {members} files of {} need {}; choose another --dir, or a smaller --member-size",
                human_bytes(free_bytes),
                human_bytes(member_bytes),
                human_bytes(needed_bytes)
            );
        }
        let folder = new_folder(dir, purpose).with_context(|| format!("{shown}: a folder cannot be made there"))?;
        Ok(Bed { folder, member_bytes, keep })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where member `index` is or would be.
    pub fn member(&self, index: usize) -> PathBuf {
        self.folder.join(format!("disk{index}"))
    }

    /// Makes members as sparse files.
    ///
    /// # Errors
    /// As [`FileDevice::create_sparse`].
    pub fn make(&self, indices: std::ops::Range<usize>) -> anyhow::Result<Vec<PathBuf>> {
        let paths: Vec<PathBuf> = indices.map(|index| self.member(index)).collect();
        for path in &paths {
            FileDevice::create_sparse(path, self.member_bytes, false)?;
        }
        Ok(paths)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.keep {
            return note(format_args!("kept: {}", self.folder.display()));
        }
        // Only what this made: the folder is removed when it is empty then.
        let mine = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in mine.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"disk")) {
            if let Err(error) = std::fs::remove_file(entry.path()) {
                note(format_args!("{}: cannot be removed: {error}", entry.path().display()));
            }
        }
        if let Err(error) = std::fs::remove_dir(&self.folder) {
            note(format_args!("{}: cannot be removed: {error}", self.folder.display()));
        }
    }
}

/// A folder that was not there before.
fn new_folder(dir: &Path, purpose: &str) -> std::io::Result<PathBuf> {
    let mut attempt = 0;
    loop {
        let folder = dir.join(format!("uraid-{purpose}-{}-{attempt}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Bytes that files in `dir` may still take. In shared memory no more than there is memory.
fn free_bytes(dir: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    if rustix::fs::statfs(dir)?.f_type as i64 != TMPFS_MAGIC {
        return Ok(free_bytes);
    }
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available_kib = available.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(available_kib.map_or(free_bytes, |kib| free_bytes.min(kib.saturating_mul(1024))))
}

/// Makes an array of the files at `paths`, all of them active members.
///
/// # Errors
/// As opening and creating.
pub fn create_on(paths: &[PathBuf], request: &CreateRequest) -> anyhow::Result<()> {
    let open = |path: &PathBuf| -> anyhow::Result<Option<Arc<dyn Device>>> {
        Ok(Some(Arc::new(FileDevice::open(path, OpenOptions::own())?)))
    };
    let devices = paths.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    create(&devices, &[], request)?;
    Ok(())
}

/// Assembles the array of the files at `paths` and runs it.
///
/// # Errors
/// Why it cannot be started.
pub fn start(paths: &[PathBuf], options: &RunOptions) -> anyhow::Result<Array> {
    let (which, start) = (WhichArgs::default(), StartArgs::default());
    let assembly = assemble("bench", paths, &which, OpenOptions::own(), &start, &AssembleOptions::default())?;
    Ok(Array::start(assembly, options))
}
