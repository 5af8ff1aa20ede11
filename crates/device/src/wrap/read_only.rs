//! A member that refuses every change.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{Device, DeviceError, DeviceInfo, Identity, Operation};

/// Lets reads through to the member below and refuses the rest.
pub struct ReadOnly {
    below: Arc<dyn Device>,
    info: DeviceInfo,
}

impl ReadOnly {
    /// Over `below`.
    #[must_use]
    pub fn new(below: Arc<dyn Device>) -> ReadOnly {
        let info = DeviceInfo { read_only: true, ..below.info().clone() };
        ReadOnly { below, info }
    }
}

impl Device for ReadOnly {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.below.read_at(offset_bytes, into)
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Write, offset_bytes, from.len() as u64)
    }

    /// Nothing was written, so nothing is to be made durable.
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, _hole: bool) -> Result<(), DeviceError> {
        self.info.check(Operation::Zero, offset_bytes, len_bytes)
    }

    /// The one below: a queue refuses changes by `info` before they reach the descriptor.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below.descriptor()
    }

    fn in_memory(&self) -> bool {
        self.below.in_memory()
    }

    fn identity(&self) -> Option<Identity> {
        self.below.identity()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn reads_pass_and_changes_do_not() {
        let below = Arc::new(MemoryDevice::new("m", 4096, 512));
        below.write_at(0, &[7; 512]).unwrap();
        let member = ReadOnly::new(below);
        let mut back = [0; 512];
        member.read_at(0, &mut back).unwrap();
        assert_eq!(back, [7; 512]);
        assert_eq!(member.write_at(0, &[1; 512]).unwrap_err().source.kind(), ErrorKind::ReadOnlyFilesystem);
        assert_eq!(member.zero(0, 512, true).unwrap_err().source.kind(), ErrorKind::ReadOnlyFilesystem);
        assert!(member.info().read_only && member.info().name == "m" && member.flush().is_ok());
    }
}
