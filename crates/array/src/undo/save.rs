//! Writing an undo file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use uraid_device::{Device, DeviceError, Pool};
use uraid_format::SUPER_BYTES;
use uraid_types::SECTOR_BYTES;
use uuid::Uuid;

use super::{FIRST_LINE, PIECE_BYTES, UNDO_ENDING, UndoChange, UndoError, UndoHeader, UndoMember};
use crate::Candidate;

/// Reads what a command will leave at a byte of the member.
pub type ReadAfter<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), DeviceError> + 'a;

/// What a command leaves in a range.
pub enum After<'a> {
    /// These bytes, as many as the range has.
    Bytes(&'a [u8]),
    /// Zeros.
    Zeros,
    /// What this reads; it takes the member's byte.
    Read(&'a ReadAfter<'a>),
    /// Nobody knows beforehand.
    Unknown,
}

impl After<'_> {
    fn kind(&self) -> &'static str {
        match self {
            After::Bytes(_) | After::Read(_) => UndoChange::BYTES,
            After::Zeros => UndoChange::ZEROS,
            After::Unknown => UndoChange::UNKNOWN,
        }
    }
}

/// A range that a command changes; whole logical blocks of the member.
pub struct Change<'a> {
    /// Where it begins on the member.
    pub start_byte: u64,
    /// Its length.
    pub len_bytes: u64,
    /// What will be there.
    pub after: After<'a>,
}

impl<'a> Change<'a> {
    /// `bytes` go to `start_byte`.
    #[must_use]
    pub fn bytes(start_byte: u64, bytes: &'a [u8]) -> Change<'a> {
        Change { start_byte, len_bytes: bytes.len() as u64, after: After::Bytes(bytes) }
    }

    /// The range becomes zeros.
    #[must_use]
    pub fn zeros(range: &Range<u64>) -> Change<'a> {
        Change { start_byte: range.start, len_bytes: range.end - range.start, after: After::Zeros }
    }
}

/// A member that a command changes.
pub struct Changed<'a> {
    /// The member.
    pub device: &'a dyn Device,
    /// What changes on it.
    pub changes: Vec<Change<'a>>,
}

/// Saves what `members` have where `command` is about to write, in a new file in the folder `dir`, which is made if need be.
///
/// Gives the file, durable under its name; `None` when all that would be saved is zeros, so that there is nothing to lose.
///
/// # Errors
/// [`UndoError`]; then there is no file, and the command must not write.
pub fn save_undo(dir: &Path, command: &str, members: &[Changed]) -> Result<Option<PathBuf>, UndoError> {
    if are_zeros(members)? {
        return Ok(None);
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let header = UndoHeader {
        command: command.to_owned(),
        created_seconds: seconds,
        members: members.iter().map(describe).collect::<Result<_, _>>()?,
    };
    let id = Uuid::new_v4().simple().to_string();
    let path = dir.join(format!("{command}-{seconds}-{}.{UNDO_ENDING}", &id[..8]));
    let part = path.with_extension("part");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| io_error(dir, "cannot be made", source))?;
    let written = write_file(&part, &header, members).and_then(|()| {
        std::fs::rename(&part, &path).map_err(|source| io_error(&path, "cannot be given its name", source))?;
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|source| io_error(dir, "cannot be made durable", source))
    });
    if let Err(error) = written {
        // What is left of it is of no use to anybody.
        let _ = std::fs::remove_file(&part);
        return Err(error);
    }
    Ok(Some(path))
}

fn io_error(path: &Path, what: &'static str, source: std::io::Error) -> UndoError {
    UndoError::Io { path: path.to_owned(), what, source }
}

fn are_zeros(members: &[Changed]) -> Result<bool, UndoError> {
    for member in members {
        for change in &member.changes {
            for (at, len) in pieces(change.start_byte, change.len_bytes) {
                if read(member.device, at, len)?.iter().any(|&byte| byte != 0) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// A range piece by piece.
pub(super) fn pieces(start: u64, len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len).step_by(PIECE_BYTES as usize).map(move |done| (start + done, PIECE_BYTES.min(len - done) as usize))
}

pub(super) fn read(device: &dyn Device, at: u64, len: usize) -> Result<uraid_device::Buf, UndoError> {
    let mut bytes = Pool::new(0).take(len);
    device.read_at(at, &mut bytes).map_err(UndoError::Member)?;
    Ok(bytes)
}

fn describe(member: &Changed) -> Result<UndoMember, UndoError> {
    let info = member.device.info();
    let path = std::path::absolute(&info.name).map_err(|source| io_error(Path::new(&info.name), "has no whole name", source))?;
    let change = |change: &Change| UndoChange {
        start_byte: change.start_byte,
        len_bytes: change.len_bytes,
        after: change.after.kind().to_owned(),
    };
    Ok(UndoMember { path, size_bytes: info.size_bytes, changes: member.changes.iter().map(change).collect() })
}

/// A file and the checksum of what went into it.
struct Summed {
    file: BufWriter<File>,
    crc: u32,
}

impl Summed {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.crc = uraid_parity::crc32c(self.crc, bytes);
        self.file.write_all(bytes)
    }
}

fn write_file(path: &Path, header: &UndoHeader, members: &[Changed]) -> Result<(), UndoError> {
    let fail = |source| io_error(path, "the undo file cannot be written", source);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(fail)?;
    let mut out = Summed { file: BufWriter::new(file), crc: 0 };
    let json = serde_json::to_string(header).map_err(|error| fail(error.into()))?;
    out.put(format!("{FIRST_LINE}{json}\n").as_bytes()).map_err(fail)?;
    for member in members {
        for change in &member.changes {
            for (at, len) in pieces(change.start_byte, change.len_bytes) {
                out.put(&read(member.device, at, len)?).map_err(fail)?;
            }
            match change.after {
                After::Bytes(bytes) => out.put(bytes).map_err(fail)?,
                After::Read(source) => {
                    for (at, len) in pieces(change.start_byte, change.len_bytes) {
                        let mut bytes = Pool::new(0).take(len);
                        source(at, &mut bytes).map_err(UndoError::Member)?;
                        out.put(&bytes).map_err(fail)?;
                    }
                }
                After::Zeros | After::Unknown => {}
            }
        }
    }
    let crc = out.crc.to_le_bytes();
    out.put(&crc).map_err(fail)?;
    let file = out.file.into_inner().map_err(|error| fail(error.into_error()))?;
    file.sync_all().map_err(fail)
}

/// What a start that forces something, or drops a log, may change of a member's metadata: superblock, bitmap and logs.
#[must_use]
pub fn undo_of_start(candidate: &Candidate) -> Changed<'_> {
    let (superblock, info) = (candidate.superblock(), candidate.device.info());
    let block = u64::from(info.logical_block_bytes);
    let bitmap = candidate.bitmap.as_ref().zip(superblock.bitmap_start());
    let bitmap = bitmap.map(|(found, start)| (start.byte_offset(), found.superblock.area_bytes(block)));
    let log = superblock.bad_block_log().into_iter().chain(superblock.ppl_area());
    let areas = [(superblock.super_offset.byte_offset(), SUPER_BYTES as u64)].into_iter().chain(bitmap);
    let areas = areas.chain(log.map(|(start, len)| (start.byte_offset(), len.0.saturating_mul(SECTOR_BYTES))));
    let change = |(start, len): (u64, u64)| {
        let start_byte = start - start % block;
        let end = start.saturating_add(len).div_ceil(block).saturating_mul(block).min(info.size_bytes - info.size_bytes % block);
        (end > start_byte).then(|| Change { start_byte, len_bytes: end - start_byte, after: After::Unknown })
    };
    Changed { device: &*candidate.device, changes: areas.filter_map(change).collect() }
}
