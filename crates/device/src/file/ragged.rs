//! A regular file whose length is not of whole blocks: a bitmap that md keeps in a file of its own.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::open;
use crate::{Device, DeviceError, DeviceInfo, Identity, OpenOptions, Operation, Pool};

/// What is read behind the file's end.
const FILL: u8 = 0xff;

/// A regular file of any length as a device, through the page cache: its last block of 4096 bytes is read as if filled up with ones,
/// and written up to the file's end only. The file keeps its length and has no holes but those that it had.
pub struct RaggedFile {
    file: File,
    info: DeviceInfo,
    identity: Identity,
    len_bytes: u64,
}

impl RaggedFile {
    /// Opens `path`; of `options` the block and the part do not matter.
    ///
    /// # Errors
    /// As [`crate::FileDevice::open`]; `InvalidInput` for a block device.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<RaggedFile, DeviceError> {
        let path = path.as_ref();
        let opened = || {
            let file = open::open_file(path, options, open::is_block_device(&path.metadata()?)?)?;
            let metadata = file.metadata()?;
            if open::is_block_device(&metadata)? {
                return Err(io::Error::new(ErrorKind::InvalidInput, "is a block device; a regular file is needed"));
            }
            if options.lock {
                open::lock(&file, false)?;
            }
            Ok((file, metadata))
        };
        let (file, metadata) =
            opened().map_err(|source| DeviceError::whole(path.display().to_string(), Operation::Open, source))?;
        let info = DeviceInfo {
            name: path.display().to_string(),
            path: Some(path.to_owned()),
            size_bytes: metadata.len().next_multiple_of(4096),
            logical_block_bytes: 512,
            read_only: !options.write,
            direct: false,
            rotational: None,
        };
        let identity = Identity::File { device: metadata.dev(), inode: metadata.ino() };
        Ok(RaggedFile { file, info, identity, len_bytes: metadata.len() })
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// How many of `len` bytes at `offset_bytes` the file has.
    fn within(&self, offset_bytes: u64, len: usize) -> usize {
        self.len_bytes.saturating_sub(offset_bytes).min(len as u64) as usize
    }

    /// A write to a file that was cut short would make it long again, with zeros for what it lost.
    fn is_whole(&self) -> io::Result<()> {
        let now = self.file.metadata()?.len();
        if now < self.len_bytes {
            return Err(io::Error::other(format!("the file was cut short from {} to {now} bytes", self.len_bytes)));
        }
        Ok(())
    }
}

impl Device for RaggedFile {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Read, offset_bytes, into.len() as u64)?;
        let len = into.len() as u64;
        let (there, beyond) = into.split_at_mut(self.within(offset_bytes, into.len()));
        beyond.fill(FILL);
        let read = self.file.read_exact_at(there, offset_bytes);
        read.map_err(|source| DeviceError::at(&self.info.name, Operation::Read, offset_bytes, len, source))
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Write, offset_bytes, from.len() as u64)?;
        let there = &from[..self.within(offset_bytes, from.len())];
        let written = self.is_whole().and_then(|()| self.file.write_all_at(there, offset_bytes));
        let len = from.len() as u64;
        written.map_err(|source| DeviceError::at(&self.info.name, Operation::Write, offset_bytes, len, source))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let flushed = self.is_whole().and_then(|()| self.file.sync_data());
        flushed.map_err(|source| DeviceError::whole(&self.info.name, Operation::Flush, source))
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, _hole: bool) -> Result<(), DeviceError> {
        // Zeros are written: Linux does not take a bitmap's file that has holes.
        self.info.check(Operation::Zero, offset_bytes, len_bytes)?;
        let there = self.within(offset_bytes, usize::try_from(len_bytes).unwrap_or(usize::MAX));
        let zeroed = self.is_whole().and_then(|()| self.file.write_all_at(&Pool::new(0).zeroed(there), offset_bytes));
        zeroed.map_err(|source| DeviceError::at(&self.info.name, Operation::Zero, offset_bytes, len_bytes, source))
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.identity)
    }
}

impl Drop for RaggedFile {
    fn drop(&mut self) {
        open::unlock(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_stays_and_the_end_reads_as_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bitmap");
        std::fs::write(&path, vec![7; 700]).unwrap();
        let file = RaggedFile::open(&path, OpenOptions::own()).unwrap();
        assert_eq!(RaggedFile::open(&path, OpenOptions::own()).err().unwrap().source.kind(), ErrorKind::ResourceBusy);
        assert_eq!((file.info().size_bytes, file.len_bytes()), (4096, 700));
        let mut block = [0; 1024];
        file.read_at(0, &mut block).unwrap();
        assert!(block[..700].iter().all(|byte| *byte == 7) && block[700..].iter().all(|byte| *byte == 0xff));
        file.write_at(512, &[9; 3584]).unwrap();
        file.flush().unwrap();
        let now = std::fs::read(&path).unwrap();
        assert!(now.len() == 700 && now[..512].iter().all(|byte| *byte == 7) && now[512..].iter().all(|byte| *byte == 9));
        File::options().write(true).open(&path).unwrap().set_len(600).unwrap();
        file.write_at(0, &[9; 512]).unwrap_err();
        file.flush().unwrap_err();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 600);
    }
}
