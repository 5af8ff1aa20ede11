//! The winners of earlier runs on this processor, in a small file. Whatever is wrong with it, the price is measuring again.
//!
//! `$URAID_CACHE_DIR`, else `$XDG_CACHE_HOME/uraid`, else `~/.cache/uraid`; one file for each model of processor.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Operation, processor};

/// The first line of the file; the number counts its versions.
const MAGIC: &str = "uraid parity choices 1";

/// More than any such file has; what is longer is none.
const MOST_BYTES: u64 = 256 << 10;

/// What was measured: operation, representative disks and block length in bytes.
pub(crate) type Cell = (Operation, usize, usize);

/// The file and what it said.
pub(crate) struct Remembered {
    path: PathBuf,
    /// What the choices depend on: another second line, and the file is not ours.
    key: String,
    choices: Mutex<BTreeMap<String, String>>,
}

fn line_start((operation, disks, len_bytes): Cell) -> String {
    format!("{operation} {disks} {len_bytes}")
}

impl Remembered {
    /// The file in the user's cache. `None` without a home, and in debug builds, whose speeds mean nothing.
    pub(crate) fn of_user(kernels: &[&str]) -> Option<Remembered> {
        if cfg!(debug_assertions) {
            return None;
        }
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = set("URAID_CACHE_DIR")
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("uraid")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/uraid")))?;
        Some(Remembered::open(&directory, kernels))
    }

    /// The file in `directory`, for these kernels on this processor.
    pub(crate) fn open(directory: &Path, kernels: &[&str]) -> Remembered {
        let model = processor::model();
        let path = directory.join(format!("parity-{model}.txt"));
        let names = crate::crc32c(0, kernels.join(" ").as_bytes());
        let key = format!("{model} {} {} {names:08x}", processor::features(), env!("CARGO_PKG_VERSION"));
        let choices = Mutex::new(read(&path, &key).unwrap_or_default());
        Remembered { path, key, choices }
    }

    fn choices(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel's name, which may be of none that there is.
    pub(crate) fn get(&self, cell: Cell) -> Option<String> {
        self.choices().get(&line_start(cell)).cloned()
    }

    /// Remembers it, together with what others have written since; a failure to write is silent.
    pub(crate) fn put(&self, cell: Cell, kernel: &str) {
        let mut choices = self.choices();
        choices.insert(line_start(cell), kernel.to_owned());
        for (start, kernel) in read(&self.path, &self.key).unwrap_or_default() {
            choices.entry(start).or_insert(kernel);
        }
        let mut text = format!("{MAGIC}\n{}\n", self.key);
        choices.iter().for_each(|(start, kernel)| text.extend([start, " ", kernel, "\n"]));
        // Written beside it and renamed, so that nobody reads half a file.
        let fresh = self.path.with_extension(format!("{}.tmp", std::process::id()));
        let made = self.path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&fresh, text));
        if made.and_then(|()| fs::rename(&fresh, &self.path)).is_err() {
            let _ = fs::remove_file(&fresh);
        }
    }

    /// Forgets everything, in the file too.
    pub(crate) fn forget(&self) {
        self.choices().clear();
        let _ = fs::remove_file(&self.path);
    }
}

/// The choices in the file; `None` when it isn't there or isn't ours.
fn read(path: &Path, key: &str) -> Option<BTreeMap<String, String>> {
    if fs::metadata(path).ok()?.len() > MOST_BYTES {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    if lines.next()? != MAGIC || lines.next()? != key {
        return None;
    }
    lines.map(|line| line.rsplit_once(' ').map(|(start, kernel)| (start.to_owned(), kernel.to_owned()))).collect()
}
