//! Reading an undo file, and putting back what it holds.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uraid_device::{Device, Pool};

use super::save::{pieces, read};
use super::{FIRST_LINE, PIECE_BYTES, SECTOR, UndoError};

/// The checksum at the end.
const TRAILER_BYTES: u64 = 4;

/// What an undo file is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UndoHeader {
    /// The command that overwrote: `create`, `convert`, ...
    pub command: String,
    /// When, in seconds since 1970.
    pub created_seconds: u64,
    /// What it changed, in the order of the bytes that follow.
    pub members: Vec<UndoMember>,
}

/// A member that was changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UndoMember {
    /// Its whole name.
    pub path: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// What changed on it.
    pub changes: Vec<UndoChange>,
}

/// A range that was changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UndoChange {
    /// Where it begins on the member.
    pub start_byte: u64,
    /// Its length.
    pub len_bytes: u64,
    /// What the command left: `bytes` (they follow what was there before), `zeros`, or `unknown`.
    pub after: String,
}

impl UndoChange {
    pub(super) const BYTES: &str = "bytes";
    pub(super) const ZEROS: &str = "zeros";
    pub(super) const UNKNOWN: &str = "unknown";

    /// Bytes of it in the file; `None` for nonsense.
    fn stored_bytes(&self) -> Option<u64> {
        let whole = self.len_bytes > 0 && (self.len_bytes | self.start_byte).is_multiple_of(SECTOR as u64);
        match self.after.as_str() {
            _ if !whole => None,
            UndoChange::BYTES => self.len_bytes.checked_mul(2),
            UndoChange::ZEROS | UndoChange::UNKNOWN => Some(self.len_bytes),
            _ => None,
        }
    }
}

/// What the ranges of a member hold now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndoState {
    /// Bytes that are as they were before the command.
    pub before_bytes: u64,
    /// Bytes that the command left, and that differ from what was there before.
    pub after_bytes: u64,
    /// The first byte of the first sector that holds neither.
    pub strange_byte: Option<u64>,
    /// The first byte of the first sector that has changed where nobody knows what the command left.
    pub unknown_byte: Option<u64>,
}

/// An undo file, checked as a whole.
#[derive(Debug)]
pub struct UndoFile {
    path: PathBuf,
    file: File,
    header: UndoHeader,
    /// By member and change: where its bytes begin in the file.
    places: Vec<Vec<u64>>,
}

impl UndoFile {
    /// Reads an undo file and checks all of it.
    ///
    /// # Errors
    /// It cannot be read, or it is damaged.
    pub fn open(path: &Path) -> Result<UndoFile, UndoError> {
        let fail = |source| UndoError::Io { path: path.to_owned(), what: "cannot be read", source };
        let damaged = |why: String| UndoError::Damaged { path: path.to_owned(), why };
        let file = File::open(path).map_err(fail)?;
        let file_bytes = file.metadata().map_err(fail)?.len();
        // No line is longer than the file, and no file without the right start is read any further.
        let mut reader = BufReader::new((&file).take(file_bytes));
        let mut first = [0; FIRST_LINE.len()];
        let is_undo = reader.read_exact(&mut first).is_ok() && first == *FIRST_LINE.as_bytes();
        if !is_undo {
            return Err(damaged("this is no undo file of uraid's".to_owned()));
        }
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).map_err(fail)?;
        let header: UndoHeader =
            serde_json::from_slice(&line).map_err(|error| damaged(format!("its second line is no header: {error}")))?;
        let start = (FIRST_LINE.len() + line.len()) as u64;
        let (places, end) = places(&header, start).ok_or_else(|| damaged("a range in its header is impossible".to_owned()))?;
        if end.checked_add(TRAILER_BYTES) != Some(file_bytes) {
            let expected = end.saturating_add(TRAILER_BYTES);
            return Err(damaged(format!("it has {file_bytes} bytes, but its header speaks of {expected}")));
        }
        let (found, expected) = checksums(&file, file_bytes).map_err(fail)?;
        if found != expected {
            return Err(damaged(format!("its checksum is {found:#010x}, that of its bytes {expected:#010x}")));
        }
        Ok(UndoFile { path: path.to_owned(), file, header, places })
    }

    /// What it is about.
    #[must_use]
    pub fn header(&self) -> &UndoHeader {
        &self.header
    }

    /// Looks at what member number `index`, opened as `device`, holds now. Writes nothing.
    ///
    /// # Errors
    /// The member or the file cannot be read.
    pub fn judge(&self, index: usize, device: &dyn Device) -> Result<UndoState, UndoError> {
        let mut state = UndoState::default();
        for (change, &place) in self.header.members[index].changes.iter().zip(&self.places[index]) {
            for (at, len) in pieces(change.start_byte, change.len_bytes) {
                let done = at - change.start_byte;
                let (now, before) = (read(device, at, len)?, self.bytes(place + done, len)?);
                let after = match change.after.as_str() {
                    UndoChange::BYTES => Some(self.bytes(place + change.len_bytes + done, len)?),
                    UndoChange::ZEROS => Some(vec![0; len]),
                    _ => None,
                };
                for sector in (0..len).step_by(SECTOR) {
                    let range = sector..sector + SECTOR;
                    let byte = at + sector as u64;
                    let now = &now[range.clone()];
                    match &after {
                        _ if *now == before[range.clone()] => state.before_bytes += SECTOR as u64,
                        Some(after) if *now == after[range] => state.after_bytes += SECTOR as u64,
                        Some(_) => state.strange_byte = state.strange_byte.or(Some(byte)),
                        None => state.unknown_byte = state.unknown_byte.or(Some(byte)),
                    }
                }
            }
        }
        Ok(state)
    }

    /// Puts back what member number `index`, opened as `device`, had, the last change first, and makes it durable.
    ///
    /// # Errors
    /// The member or the file fails; doing it again goes on.
    pub fn put_back(&self, index: usize, device: &dyn Device) -> Result<(), UndoError> {
        for (change, &place) in self.header.members[index].changes.iter().zip(&self.places[index]).rev() {
            for (at, len) in pieces(change.start_byte, change.len_bytes) {
                let before = self.bytes(place + (at - change.start_byte), len)?;
                device.write_at(at, &Pool::new(0).copy(&before)).map_err(UndoError::Member)?;
            }
        }
        device.flush().map_err(UndoError::Member)
    }

    /// Bytes of the file.
    fn bytes(&self, at: u64, len: usize) -> Result<Vec<u8>, UndoError> {
        let mut bytes = vec![0; len];
        let fail = |source| UndoError::Io { path: self.path.clone(), what: "cannot be read", source };
        self.file.read_exact_at(&mut bytes, at).map_err(fail)?;
        Ok(bytes)
    }
}

/// Where the bytes of each change begin, and where all of them end; `None` for impossible ranges.
fn places(header: &UndoHeader, start: u64) -> Option<(Vec<Vec<u64>>, u64)> {
    let mut at = start;
    let mut all = Vec::new();
    for member in &header.members {
        let mut own = Vec::new();
        for change in &member.changes {
            change.start_byte.checked_add(change.len_bytes).filter(|&end| end <= member.size_bytes)?;
            own.push(at);
            at = at.checked_add(change.stored_bytes()?)?;
        }
        all.push(own);
    }
    Some((all, at))
}

/// The checksum at the end of the file, and what it should be.
fn checksums(mut file: &File, file_bytes: u64) -> std::io::Result<(u32, u32)> {
    file.seek(SeekFrom::Start(0))?;
    let mut left = file_bytes - TRAILER_BYTES;
    let mut piece = vec![0; left.min(PIECE_BYTES) as usize];
    let mut crc = 0;
    while left > 0 {
        let len = left.min(PIECE_BYTES) as usize;
        file.read_exact(&mut piece[..len])?;
        crc = uraid_parity::crc32c(crc, &piece[..len]);
        left -= len as u64;
    }
    let mut found = [0; TRAILER_BYTES as usize];
    file.read_exact(&mut found)?;
    Ok((u32::from_le_bytes(found), crc))
}
