//! What a disk carries besides md's version-1 superblocks: file systems, partition tables, other RAID metadata.

use std::fmt;

use uraid_device::{Device, DeviceError};

/// What was recognised, and by which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// A word for it: `ext4`, `xfs`, `gpt partition table`, ...
    pub kind: &'static str,
    /// Where its magic lies, in bytes from the start of the device.
    pub offset: u64,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (magic at byte {})", self.kind, self.offset)
    }
}

/// The first signature found, if any. Reads only.
///
/// # Errors
/// A read that failed.
pub fn signature(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let _ = device;
    todo!()
}
