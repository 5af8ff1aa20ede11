//! Undo: what a command overwrites on members is saved first, so that it can be put back.
//!
//! The file is text up to its second line: a line that names the format, then a line of JSON ([`UndoHeader`]) that names the
//! command, the members and every range. Bytes follow: of each change what was there, and what the command writes where that is
//! known beforehand. The last four bytes are the CRC32C (little-endian) of all before them.
//!
//! The file is whole and durable under its name before the first byte of a member changes. Sectors change one by one, so that a
//! command, or its undoing, that was cut short leaves each sector either as it was or as it was to be: [`UndoFile::judge`] tells
//! which, and putting back may begin again at any time.

mod file;
mod save;
#[cfg(test)]
mod tests;

pub use file::{UndoChange, UndoFile, UndoHeader, UndoMember, UndoState};
pub use save::{After, Change, Changed, ReadAfter, save_undo, undo_of_start};

use std::io;
use std::path::PathBuf;

use uraid_device::DeviceError;

/// First line of an undo file.
const FIRST_LINE: &str = "uraid-undo 1\n";

/// How the files' names end.
pub const UNDO_ENDING: &str = "undo";

/// Bytes that are compared and copied at once.
const PIECE_BYTES: u64 = 1 << 20;

/// What a sector's write is to be all of or nothing of.
const SECTOR: usize = 512;

/// Why something cannot be saved or put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The undo file cannot be read or written.
    #[error("{}: {what}: {source}", path.display())]
    Io {
        /// The file or its directory.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The undo file is not one, or it is damaged.
    #[error("{}: {why}; nothing was written", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// In what way.
        why: String,
    },
    /// A member failed.
    #[error("{0}")]
    Member(#[source] DeviceError),
}
