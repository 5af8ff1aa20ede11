//! `--undo-dir`: where commands save what they overwrite, for `uraid undo`.

use std::path::{Path, PathBuf};

use uraid_array::{Candidate, Changed, save_undo, undo_of_start};
use uraid_serve::control::run_dir;

use crate::output::note;

/// Where the overwritten bytes go.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct UndoArgs {
    /// Where to save what is overwritten, for 'uraid undo'; 'none' for not at all [default: undo in the run directory]
    #[arg(long, value_name = "DIR")]
    undo_dir: Option<PathBuf>,
}

/// The folder that is used unless another is given.
pub fn default_dir() -> PathBuf {
    run_dir().join("undo")
}

impl UndoArgs {
    /// The folder; `None` when nothing is to be saved.
    pub fn dir(&self) -> Option<PathBuf> {
        match &self.undo_dir {
            Some(dir) if dir == Path::new("none") => None,
            // Named in full, so that the command that is told works from anywhere.
            Some(dir) => Some(std::path::absolute(dir).unwrap_or_else(|_| dir.clone())),
            None => Some(default_dir()),
        }
    }

    /// Saves what `members` have where `command` is about to write. Gives the file; `None` when nothing is or need be saved.
    ///
    /// # Errors
    /// It cannot be saved: then the command must not write.
    pub fn save(&self, command: &str, members: &[Changed]) -> anyhow::Result<Option<PathBuf>> {
        let Some(dir) = self.dir() else { return Ok(None) };
        save_undo(&dir, command, members).map_err(|error| {
            anyhow::anyhow!("{error}; nothing was written. Another --undo-dir may help, or --undo-dir=none to do without undo")
        })
    }

    /// Saves the metadata of `candidates` before a start that forces something.
    ///
    /// # Errors
    /// As [`UndoArgs::save`].
    pub fn save_start(&self, command: &str, candidates: &[Candidate]) -> anyhow::Result<Option<PathBuf>> {
        self.save(command, &candidates.iter().map(undo_of_start).collect::<Vec<_>>())
    }
}

/// Tells how to put back what `file` holds.
pub fn tell(file: Option<&PathBuf>) {
    if let Some(file) = file {
        note(format_args!("what is overwritten was saved first; to put it back: uraid undo {}", quoted(file)));
    }
}

/// A path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:,@%=".contains(character);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
