//! One member with plain blocking calls.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use crate::{DeviceError, Operation, Pool};

/// What a member is.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// For messages: the path, or a name for what has none.
    pub name: String,
    /// The path, where there is one.
    pub path: Option<PathBuf>,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Smallest unit of reading and writing in bytes: 512 or 4096.
    pub logical_block_bytes: u32,
    /// Is it open for reading only?
    pub read_only: bool,
    /// Does it bypass the page cache?
    pub direct: bool,
    /// Does it turn? `None` where the system does not say.
    pub rotational: Option<bool>,
}

/// What tells one medium from another, whatever name it was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A regular file.
    File {
        /// The file system's device number (`st_dev`).
        device: u64,
        /// The file's number in it (`st_ino`).
        inode: u64,
    },
    /// A block device, by its number (`st_rdev`).
    Block {
        /// The device number.
        device: u64,
    },
    /// A part of a regular file.
    FilePart {
        /// The file system's device number (`st_dev`).
        device: u64,
        /// The file's number in it (`st_ino`).
        inode: u64,
        /// The first byte of the part.
        start_bytes: u64,
    },
    /// A part of a block device.
    BlockPart {
        /// The device number.
        device: u64,
        /// The first byte of the part.
        start_bytes: u64,
    },
}

impl Identity {
    /// What tells the part of this medium from `start_bytes` on from its other parts.
    #[must_use]
    pub fn part(self, start_bytes: u64) -> Identity {
        match self {
            Identity::File { device, inode } => Identity::FilePart { device, inode, start_bytes },
            Identity::FilePart { device, inode, start_bytes: outer } => {
                Identity::FilePart { device, inode, start_bytes: outer + start_bytes }
            }
            Identity::Block { device } => Identity::BlockPart { device, start_bytes },
            Identity::BlockPart { device, start_bytes: outer } => {
                Identity::BlockPart { device, start_bytes: outer + start_bytes }
            }
        }
    }
}

/// One member, addressed in bytes.
///
/// Offsets, lengths and buffer addresses are multiples of `logical_block_bytes`. A short transfer is continued inside and never
/// reported as success.
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Fills `into` from `offset_bytes`.
    ///
    /// # Errors
    /// The member, the operation, the offset and the cause.
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes all of `from` at `offset_bytes`.
    ///
    /// # Errors
    /// As [`Device::read_at`]; also when the member is open for reading only.
    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError>;

    /// Writes all of `parts`, one after another, from `offset_bytes` on, as one operation. Unless a back end knows better they are
    /// copied together first, so that a wrapper sees one write.
    ///
    /// # Errors
    /// As [`Device::write_at`].
    fn write_parts_at(&self, offset_bytes: u64, parts: &[&[u8]]) -> Result<(), DeviceError> {
        let mut whole = Pool::new(0).take(parts.iter().map(|part| part.len()).sum());
        let mut at = 0;
        for part in parts {
            whole[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.write_at(offset_bytes, &whole)
    }

    /// Makes everything written so far durable. A failed flush is final: the caller fails the member.
    ///
    /// # Errors
    /// As [`Device::write_at`].
    fn flush(&self) -> Result<(), DeviceError>;

    /// Makes the range read as zeros, giving its space back where that is possible (`hole`).
    ///
    /// # Errors
    /// As [`Device::write_at`].
    fn zero(&self, offset_bytes: u64, len_bytes: u64, hole: bool) -> Result<(), DeviceError>;

    /// Refuses what the member does not take, before anything is tried: as [`DeviceInfo::check`], and every change once the
    /// member has turned out to be shorter than it was. Asked for [`Operation::Flush`], it looks whether it is.
    ///
    /// # Errors
    /// As [`DeviceInfo::check`]; `Other` for a change to a member that was cut short, `UnexpectedEof` for a read of what it lost.
    fn check(&self, operation: Operation, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.info().check(operation, offset_bytes, len_bytes)
    }

    /// The descriptor that a ring may use instead of the calls above; `None` for whatever is no plain descriptor.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Does it answer at the speed of memory, without waiting for any device? Then a queue makes the calls above itself, whether
    /// there is a descriptor or not.
    fn in_memory(&self) -> bool {
        false
    }

    /// The medium, so that a member given twice under two names is found; `None` for what has no other name.
    fn identity(&self) -> Option<Identity> {
        None
    }
}

impl DeviceInfo {
    /// Refuses what no member takes: a range that is not of whole logical blocks or not within the member, and a change to a
    /// member that is open for reading only.
    ///
    /// # Errors
    /// `InvalidInput`, `UnexpectedEof` for a read past the end, `ReadOnlyFilesystem`.
    pub fn check(&self, operation: Operation, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let fail = |source| Err(DeviceError::at(&self.name, operation, offset_bytes, len_bytes, source));
        let changes = matches!(operation, Operation::Write | Operation::Zero);
        if changes && self.read_only {
            return fail(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "open for reading only"));
        }
        let block = u64::from(self.logical_block_bytes);
        if !offset_bytes.is_multiple_of(block) || !len_bytes.is_multiple_of(block) {
            return fail(io::Error::new(io::ErrorKind::InvalidInput, format!("not whole blocks of {block} bytes")));
        }
        let within = offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.size_bytes);
        if !within {
            let kind = if changes { io::ErrorKind::InvalidInput } else { io::ErrorKind::UnexpectedEof };
            return fail(io::Error::new(kind, format!("past the end at byte {}", self.size_bytes)));
        }
        Ok(())
    }
}
