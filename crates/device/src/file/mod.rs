//! Regular files and block devices.

mod open;
mod ragged;

use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

pub use open::{Direct, OpenOptions};
pub use ragged::RaggedFile;

use crate::{Device, DeviceError, DeviceInfo, Identity, Operation, Pool};

/// Bytes moved at once through a bounce buffer, and written at once where zeroing has to be done by hand.
const PIECE_BYTES: usize = 1 << 20;

/// Slices that the kernel takes in one vectored transfer (`UIO_MAXIOV`).
pub(crate) const MAX_SLICES: usize = 1024;

/// A regular file or a block device.
pub struct FileDevice {
    file: File,
    info: DeviceInfo,
    identity: Identity,
    memory_align_bytes: usize,
    in_memory: bool,
    locked: bool,
    /// Bytes that the file has had ever since it was opened; less than its size once somebody has cut it short. A write would
    /// make it long again, and what was lost would read as zeros without any error: so it takes no more changes.
    kept_bytes: AtomicU64,
}

impl FileDevice {
    /// Opens `path`. A size that is not of whole logical blocks is rounded down.
    ///
    /// # Errors
    /// As open(2); `IsADirectory` and `InvalidInput` for what is neither file nor block device, or has another logical block
    /// than was asked for; `ResourceBusy` when another owner or the kernel uses it; `Unsupported` when O_DIRECT was demanded
    /// and is impossible.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<FileDevice, DeviceError> {
        let path = path.as_ref();
        let opened = open::open(path, options)
            .map_err(|source| DeviceError::whole(path.display().to_string(), Operation::Open, source))?;
        Ok(FileDevice {
            file: opened.file,
            info: opened.info,
            identity: opened.identity,
            memory_align_bytes: opened.memory_align_bytes,
            in_memory: opened.in_memory,
            locked: options.lock,
            kept_bytes: AtomicU64::new(u64::MAX),
        })
    }

    /// Makes a sparse file of `size_bytes` at `path`. With `replace`, a regular file that is there and not in use is emptied;
    /// without, any is refused.
    ///
    /// # Errors
    /// As open(2) and ftruncate(2): `AlreadyExists`, `FileTooLarge`, ...; `ResourceBusy` when it has an owner.
    pub fn create_sparse(path: impl AsRef<Path>, size_bytes: u64, replace: bool) -> Result<(), DeviceError> {
        let path = path.as_ref();
        let create = || {
            let mut options = File::options();
            options.write(true).create_new(!replace).create(true);
            if replace && let Ok(there) = std::fs::metadata(path) {
                refuse_block_device(&there)?;
            }
            let file = options.open(path)?;
            refuse_block_device(&file.metadata()?)?;
            open::lock(&file, false)?;
            let sized = match i64::try_from(size_bytes) {
                Ok(_) => file.set_len(0).and_then(|()| file.set_len(size_bytes)),
                Err(_) => Err(io::Error::new(ErrorKind::FileTooLarge, "no file is larger than 2^63 bytes")),
            };
            open::unlock(&file);
            match sized {
                // What could not be made whole is not left behind.
                Err(error) if !replace => fs::remove_file(path).and(Err(error)),
                sized => sized,
            }
        };
        create().map_err(|source| DeviceError::whole(path.display().to_string(), Operation::Open, source))
    }

    fn error(&self, operation: Operation, offset_bytes: u64, len_bytes: u64, source: impl Into<io::Error>) -> DeviceError {
        DeviceError::at(&self.info.name, operation, offset_bytes, len_bytes, source)
    }

    /// Looks whether somebody has cut the file short.
    fn look_at_end(&self) {
        if let (Identity::File { .. }, Ok(now)) = (self.identity, self.file.metadata()) {
            self.kept_bytes.fetch_min(now.len(), Ordering::Relaxed);
        }
    }

    fn is_aligned(&self, memory: &[u8]) -> bool {
        memory.as_ptr().addr().is_multiple_of(self.memory_align_bytes)
    }

    /// Repeats `step`, which moves bytes from where it is told on, until `len` are moved.
    fn transfer(&self, len: usize, ended: ErrorKind, mut step: impl FnMut(usize) -> Result<usize, Errno>) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            match step(done) {
                Ok(moved) => match whole_progress(&self.info, done + moved, len) {
                    Some(now) if now > done => done = now,
                    _ => {
                        self.look_at_end();
                        return Err(io::Error::new(ended, format!("ended after {done} bytes")));
                    }
                },
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_aligned(&self, offset_bytes: u64, into: &mut [u8]) -> io::Result<()> {
        self.transfer(into.len(), ErrorKind::UnexpectedEof, |done| {
            rustix::io::pread(&self.file, &mut into[done..], offset_bytes + done as u64)
        })
    }

    fn write_aligned(&self, offset_bytes: u64, from: &[u8]) -> io::Result<()> {
        self.transfer(from.len(), ErrorKind::WriteZero, |done| {
            rustix::io::pwrite(&self.file, &from[done..], offset_bytes + done as u64)
        })
    }

    fn write_zeros(&self, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
        let zeros = Pool::new(0).zeroed(len_bytes.min(PIECE_BYTES as u64) as usize);
        let mut done = 0;
        while done < len_bytes {
            let piece = (len_bytes - done).min(zeros.len() as u64);
            self.write_aligned(offset_bytes + done, &zeros[..piece as usize])?;
            done += piece;
        }
        Ok(())
    }
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        if self.locked {
            open::unlock(&self.file);
        }
    }
}

/// What `done` of `len` bytes leave to go on from. A direct transfer that ended within a block repeats that block.
pub(crate) fn whole_progress(info: &DeviceInfo, done: usize, len: usize) -> Option<usize> {
    match info.direct && done < len {
        true => Some(done - done % info.logical_block_bytes as usize),
        false => Some(done).filter(|&done| done <= len),
    }
}

/// What is left of `parts` after `done` bytes, as much as the kernel takes at once.
fn slices_from<'a>(parts: &[&'a [u8]], done: usize) -> Vec<IoSlice<'a>> {
    let mut skip = done;
    let rest = parts.iter().filter_map(|part| {
        let skipped = skip.min(part.len());
        skip -= skipped;
        (skipped < part.len()).then(|| IoSlice::new(&part[skipped..]))
    });
    rest.take(MAX_SLICES).collect()
}

fn refuse_block_device(metadata: &std::fs::Metadata) -> io::Result<()> {
    match open::is_block_device(metadata)? {
        true => Err(io::Error::new(ErrorKind::AlreadyExists, "is a block device; only a regular file can be made anew")),
        false => Ok(()),
    }
}

impl Device for FileDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let len_bytes = into.len() as u64;
        self.check(Operation::Read, offset_bytes, len_bytes)?;
        let read = |into: &mut [u8]| {
            if self.is_aligned(into) {
                return self.read_aligned(offset_bytes, into);
            }
            let mut bounce = Pool::new(0).take(into.len().min(PIECE_BYTES));
            for (number, piece) in into.chunks_mut(PIECE_BYTES).enumerate() {
                let bounce = &mut bounce[..piece.len()];
                self.read_aligned(offset_bytes + (number * PIECE_BYTES) as u64, bounce)?;
                piece.copy_from_slice(bounce);
            }
            Ok(())
        };
        read(into).map_err(|source| self.error(Operation::Read, offset_bytes, len_bytes, source))
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        let len_bytes = from.len() as u64;
        self.check(Operation::Write, offset_bytes, len_bytes)?;
        let write = || {
            if self.is_aligned(from) {
                return self.write_aligned(offset_bytes, from);
            }
            let mut bounce = Pool::new(0).take(from.len().min(PIECE_BYTES));
            for (number, piece) in from.chunks(PIECE_BYTES).enumerate() {
                let bounce = &mut bounce[..piece.len()];
                bounce.copy_from_slice(piece);
                self.write_aligned(offset_bytes + (number * PIECE_BYTES) as u64, bounce)?;
            }
            Ok(())
        };
        write().map_err(|source| self.error(Operation::Write, offset_bytes, len_bytes, source))
    }

    fn write_parts_at(&self, offset_bytes: u64, parts: &[&[u8]]) -> Result<(), DeviceError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.check(Operation::Write, offset_bytes, len as u64)?;
        let written = if parts.iter().all(|part| self.is_aligned(part)) {
            self.transfer(len, ErrorKind::WriteZero, |done| {
                rustix::io::pwritev(&self.file, &slices_from(parts, done), offset_bytes + done as u64)
            })
        } else {
            let mut whole = Pool::new(0).take(len);
            let mut rest = &mut whole[..];
            for part in parts {
                let (here, behind) = rest.split_at_mut(part.len());
                here.copy_from_slice(part);
                rest = behind;
            }
            self.write_aligned(offset_bytes, &whole)
        };
        written.map_err(|source| self.error(Operation::Write, offset_bytes, len as u64, source))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.check(Operation::Flush, 0, 0)?;
        if self.info.read_only {
            return Ok(());
        }
        rustix::fs::fdatasync(&self.file).map_err(|error| self.error(Operation::Flush, 0, 0, error))
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, hole: bool) -> Result<(), DeviceError> {
        self.check(Operation::Zero, offset_bytes, len_bytes)?;
        if len_bytes == 0 {
            return Ok(());
        }
        // On block devices the kernel turns these two into discard-or-write and write of zeros, never into a mere discard.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let range = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        for mode in [hole.then_some(punch), Some(range)].into_iter().flatten() {
            match retry_interrupted(|| rustix::fs::fallocate(&self.file, mode, offset_bytes, len_bytes)) {
                Ok(()) => return Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                Err(error) => return Err(self.error(Operation::Zero, offset_bytes, len_bytes, error)),
            }
        }
        self.write_zeros(offset_bytes, len_bytes).map_err(|source| self.error(Operation::Zero, offset_bytes, len_bytes, source))
    }

    fn check(&self, operation: Operation, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.info.check(operation, offset_bytes, len_bytes)?;
        if operation == Operation::Flush {
            self.look_at_end();
        }
        let kept_bytes = self.kept_bytes.load(Ordering::Relaxed);
        let needed_bytes = if operation == Operation::Read { offset_bytes + len_bytes } else { self.info.size_bytes };
        if kept_bytes < needed_bytes {
            let why = format!("the file has been cut short: of {} bytes it kept {kept_bytes}", self.info.size_bytes);
            let kind = if operation == Operation::Read { ErrorKind::UnexpectedEof } else { ErrorKind::Other };
            return Err(self.error(operation, offset_bytes, len_bytes, io::Error::new(kind, why)));
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn in_memory(&self) -> bool {
        self.in_memory
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.identity)
    }
}

fn retry_interrupted(mut call: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            ended => return ended,
        }
    }
}
