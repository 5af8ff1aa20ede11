//! A part of a member as a member of its own: a partition of a disk, or the extent of a volume.

use std::ops::Range;
use std::sync::Arc;

use crate::{Device, DeviceError, DeviceInfo, Identity, Operation};

/// Bytes from a start on, and nothing outside of them: whatever goes beyond is refused before the medium sees it.
pub struct Window {
    below: Arc<dyn Device>,
    start_bytes: u64,
    info: DeviceInfo,
}

impl Window {
    /// The bytes `range` of `below`, under the name `name`. A length that is not of whole logical blocks is rounded down.
    ///
    /// # Errors
    /// `InvalidInput` when the range is not within the medium, or begins within one of its logical blocks.
    pub fn new(below: Arc<dyn Device>, range: Range<u64>, name: String) -> Result<Window, DeviceError> {
        let under = below.info();
        let block = u64::from(under.logical_block_bytes);
        let len_bytes = range.end.saturating_sub(range.start);
        let refuse = |why: String| {
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
            Err(DeviceError::whole(&name, Operation::Open, source))
        };
        if range.end > under.size_bytes {
            return refuse(format!("it ends at byte {}, {} already at byte {}", range.end, under.name, under.size_bytes));
        }
        if !range.start.is_multiple_of(block) {
            return refuse(format!("it begins at byte {}, within a block of {block} bytes", range.start));
        }
        let info = DeviceInfo {
            path: under.path.is_some().then(|| name.clone().into()),
            name,
            size_bytes: len_bytes - len_bytes % block,
            ..under.clone()
        };
        Ok(Window { below, start_bytes: range.start, info })
    }

    /// The error of the medium, with the place and the name of the window.
    fn own(&self, error: DeviceError) -> DeviceError {
        let offset_bytes = error.offset_bytes.saturating_sub(self.start_bytes);
        DeviceError { name: self.info.name.clone(), offset_bytes, ..error }
    }
}

/// Has no descriptor, for a ring counts from the medium's start: a queue makes its calls here.
impl Device for Window {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Read, offset_bytes, into.len() as u64)?;
        self.below.read_at(self.start_bytes + offset_bytes, into).map_err(|error| self.own(error))
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Write, offset_bytes, from.len() as u64)?;
        self.below.write_at(self.start_bytes + offset_bytes, from).map_err(|error| self.own(error))
    }

    fn write_parts_at(&self, offset_bytes: u64, parts: &[&[u8]]) -> Result<(), DeviceError> {
        let len_bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.info.check(Operation::Write, offset_bytes, len_bytes)?;
        self.below.write_parts_at(self.start_bytes + offset_bytes, parts).map_err(|error| self.own(error))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.below.flush().map_err(|error| self.own(error))
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, hole: bool) -> Result<(), DeviceError> {
        self.info.check(Operation::Zero, offset_bytes, len_bytes)?;
        self.below.zero(self.start_bytes + offset_bytes, len_bytes, hole).map_err(|error| self.own(error))
    }

    fn check(&self, operation: Operation, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.info.check(operation, offset_bytes, len_bytes)?;
        self.below.check(operation, self.start_bytes + offset_bytes, len_bytes).map_err(|error| self.own(error))
    }

    fn in_memory(&self) -> bool {
        self.below.in_memory()
    }

    fn identity(&self) -> Option<Identity> {
        self.below.identity().map(|identity| identity.part(self.start_bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::{FileDevice, MemoryDevice, OpenOptions};

    #[test]
    fn nothing_outside_is_touched() {
        let below = Arc::new(MemoryDevice::new("m", 8192, 512));
        below.write_at(0, &[7; 8192]).unwrap();
        let part = Window::new(Arc::clone(&below) as Arc<dyn Device>, 1024..3000, "m#1".to_owned()).unwrap();
        assert_eq!((part.info().size_bytes, part.info().name.as_str()), (1536, "m#1"), "whole blocks");
        part.write_at(0, &[1; 512]).unwrap();
        part.write_parts_at(512, &[&[2; 512], &[3; 512]]).unwrap();
        for (offset, len) in [(1536, 512), (1024, 1024), (u64::MAX - 511, 512)] {
            assert_eq!(part.write_at(offset, &vec![9; len]).unwrap_err().source.kind(), ErrorKind::InvalidInput);
            assert_eq!(part.zero(offset, len as u64, true).unwrap_err().source.kind(), ErrorKind::InvalidInput);
            assert_eq!(part.check(Operation::Write, offset, len as u64).unwrap_err().name, "m#1");
            assert!(part.read_at(offset, &mut vec![0; len]).is_err());
        }
        let mut all = [0; 8192];
        below.read_at(0, &mut all).unwrap();
        let expected = [vec![7; 1024], vec![1; 512], vec![2; 512], vec![3; 512], vec![7; 8192 - 2560]].concat();
        assert!(all[..] == expected);
        part.zero(512, 1024, true).unwrap();
        below.read_at(1024, &mut all[..2048]).unwrap();
        assert!(all[..512] == [1; 512] && all[512..1536] == [0; 1024] && all[1536..2048] == [7; 512]);
    }

    #[test]
    fn a_window_lies_within_its_medium() {
        let below: Arc<dyn Device> = Arc::new(MemoryDevice::new("m", 8192, 4096));
        for (range, why) in [(4096..8193, "ends at byte 8193, m already at byte 8192"), (512..4096, "begins at byte 512")] {
            let error = Window::new(Arc::clone(&below), range, "m#2".to_owned()).err().unwrap().to_string();
            assert!(error.starts_with("m#2: cannot open: it ") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn parts_of_a_file_are_owned_apart_from_one_another_and_never_beside_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        FileDevice::create_sparse(&path, 64 << 10, false).unwrap();
        let part =
            |start, end, write| FileDevice::open(&path, OpenOptions { part: Some((start, end)), write, ..OpenOptions::own() });
        let busy = |opened: Result<FileDevice, DeviceError>| opened.err().map(|error| error.source.kind());
        let first = part(0, 16384, true).unwrap();
        let second = part(16384, 32768, true).unwrap();
        assert_eq!(busy(part(16384, 20480, true)), Some(ErrorKind::ResourceBusy));
        assert_eq!(busy(part(8192, 20480, false)), Some(ErrorKind::ResourceBusy));
        assert_eq!(busy(FileDevice::open(&path, OpenOptions::own())), Some(ErrorKind::ResourceBusy));
        assert_eq!(busy(FileDevice::open(&path, OpenOptions::look())), None);
        drop((first, second));
        let whole = FileDevice::open(&path, OpenOptions::own()).unwrap();
        assert_eq!(busy(part(0, 512, false)), Some(ErrorKind::ResourceBusy));
        drop(whole);
        assert_eq!(busy(part(16384, 20480, true)), None);
        let identities = [0, 512].map(|start| {
            let below: Arc<dyn Device> = Arc::new(FileDevice::open(&path, OpenOptions::look()).unwrap());
            Window::new(below, start..2048, "part".to_owned()).unwrap().identity().unwrap()
        });
        assert_ne!(identities[0], identities[1]);
    }
}
