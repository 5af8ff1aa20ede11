//! The backup file of a reshape, as far as reading the array needs it.

use std::fmt;
use std::sync::Arc;

use uraid_device::{Device, DeviceError, ReadOnly};
use uraid_format::{BACKUP_HEAD_BYTES, BackupError, BackupHead};

use crate::probe::bytes_at;

/// A backup file whose head has been read.
#[derive(Clone)]
pub struct Backup {
    head: BackupHead,
    device: Arc<dyn Device>,
}

/// Why a file is of no use as a backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupProblem {
    /// It could not be read.
    #[error(transparent)]
    Unreadable(#[from] DeviceError),
    /// It is none.
    #[error(transparent)]
    Head(#[from] BackupError),
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backup({}, {:?})", self.device.info().name, self.head)
    }
}

impl Backup {
    /// Reads the head of `device`. Never writes.
    ///
    /// # Errors
    /// It cannot be read, or is no backup file.
    pub fn read(device: Arc<dyn Device>) -> Result<Backup, BackupProblem> {
        let bytes = bytes_at(&*device, 0, BACKUP_HEAD_BYTES as u64)?;
        let head = BackupHead::parse(&bytes, device.info().size_bytes)?;
        Ok(Backup { head, device: Arc::new(ReadOnly::new(device)) })
    }

    /// What it says it holds.
    #[must_use]
    pub fn head(&self) -> &BackupHead {
        &self.head
    }

    pub(crate) fn device(&self) -> &dyn Device {
        &*self.device
    }
}
