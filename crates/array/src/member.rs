//! Members as they are named: a file, a block device, or a partition in an image of a whole disk (`disk.img#2`).

use std::fmt::Display;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uraid_device::{Device, DeviceError, FileDevice, OpenOptions, Operation, Window};
use uraid_format::{Partition, PartitionError, PartitionTable, read_partitions};

use crate::probe::bytes_at;

/// What a member's name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPath {
    /// The file or block device.
    pub medium: PathBuf,
    /// The partition in it, counted as Linux does; `None` for the whole.
    pub partition: Option<u32>,
}

impl MemberPath {
    /// A name that exists is meant as it is; otherwise `#` and a number at its end ask for a partition of what is before them.
    #[must_use]
    pub fn new(path: &Path) -> MemberPath {
        let whole = MemberPath { medium: path.to_owned(), partition: None };
        if path.symlink_metadata().is_ok() {
            return whole;
        }
        let parts = path.to_str().and_then(|text| text.rsplit_once('#'));
        let Some((medium, number)) = parts.filter(|(medium, _)| Path::new(medium).exists()) else { return whole };
        match number.parse() {
            Ok(number) => MemberPath { medium: medium.into(), partition: Some(number) },
            Err(_) => whole,
        }
    }

    /// The same under another name of the medium.
    #[must_use]
    pub fn named(&self, medium: &Path) -> PathBuf {
        match self.partition {
            Some(number) => partition_name(medium.display(), number).into(),
            None => medium.to_owned(),
        }
    }
}

/// The name of a partition.
fn partition_name(medium: impl Display, number: u32) -> String {
    format!("{medium}#{number}")
}

/// Opens the member that `path` names; of a partition nothing beyond its ends can be reached.
///
/// # Errors
/// As [`FileDevice::open`]; `NotFound` for a partition that the table does not have, `InvalidData` for a table that is damaged,
/// `InvalidInput` for a partition that is not within its disk.
pub fn open_member(path: &Path, options: OpenOptions) -> Result<Arc<dyn Device>, DeviceError> {
    let MemberPath { medium, partition } = MemberPath::new(path);
    let Some(number) = partition else { return Ok(Arc::new(FileDevice::open(medium, options)?)) };
    let refuse = |kind, why: String| DeviceError::whole(path.display().to_string(), Operation::Open, Error::new(kind, why));
    let look = OpenOptions { logical_block_bytes: options.logical_block_bytes, ..OpenOptions::look() };
    let table = match partitions(&FileDevice::open(&medium, look)?) {
        Ok(Some(table)) => table,
        Ok(None) => return Err(refuse(ErrorKind::NotFound, format!("{} has no partition table", medium.display()))),
        Err(PartitionError::Read(error)) => return Err(error),
        Err(error) => return Err(refuse(ErrorKind::InvalidData, format!("{}: {error}", medium.display()))),
    };
    let Some(partition) = table.partitions.iter().find(|partition| partition.number == number) else {
        let numbers: Vec<String> = table.partitions.iter().map(|partition| partition.number.to_string()).collect();
        let has = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
        let why = format!("the {} of {} has no partition {number}; it has {has}", table.kind.name(), medium.display());
        return Err(refuse(ErrorKind::NotFound, why));
    };
    let part = Some((partition.start_bytes, partition.end_bytes()));
    let below: Arc<dyn Device> = Arc::new(FileDevice::open(&medium, OpenOptions { part, ..options })?);
    window(below, partition, path.display().to_string())
}

/// A partition as a member.
fn window(below: Arc<dyn Device>, partition: &Partition, name: String) -> Result<Arc<dyn Device>, DeviceError> {
    Ok(Arc::new(Window::new(below, partition.start_bytes..partition.end_bytes(), name)?))
}

/// The partition table on a device, if there is one. Reads only.
///
/// # Errors
/// It is damaged, or cannot be read.
pub fn partitions(device: &dyn Device) -> Result<Option<PartitionTable>, PartitionError<DeviceError>> {
    let info = device.info();
    read_partitions(info.size_bytes, info.logical_block_bytes, &mut |byte, len| bytes_at(device, byte, len as u64))
}

/// The partitions of `table` on `device`, each as a member; those that are not within the disk are left out.
#[must_use]
pub fn partition_members(device: &Arc<dyn Device>, table: &PartitionTable) -> Vec<Arc<dyn Device>> {
    let name = |partition: &Partition| partition_name(&device.info().name, partition.number);
    let open = |partition| window(Arc::clone(device), partition, name(partition)).ok();
    table.partitions.iter().filter_map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_exists_is_meant_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["a", "a#1", "#7"] {
            std::fs::write(path(name), "").unwrap();
        }
        let cases =
            [("a", "a", None), ("a#1", "a#1", None), ("a#2", "a", Some(2)), ("a#1#5", "a#1", Some(5)), ("#7", "#7", None)];
        for (name, medium, partition) in cases {
            assert_eq!(MemberPath::new(&path(name)), MemberPath { medium: path(medium), partition }, "{name}");
        }
        for name in ["b#1", "a#", "a#x", "a#-1", "a#4294967296"] {
            assert_eq!(MemberPath::new(&path(name)), MemberPath { medium: path(name), partition: None }, "{name}");
        }
        assert_eq!(MemberPath::new(&path("a#2")).named(Path::new("/dev/b")), Path::new("/dev/b#2"));
    }
}
