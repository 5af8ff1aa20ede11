//! Small arrays in memory, for the tests of this crate's parts.

use std::sync::Arc;

use uraid_device::{Device, MemoryDevice, Pool};
use uraid_format::{BitmapSpec, Superblock};
use uraid_types::Level;

use crate::{Candidate, CreateRequest, create, scan};

/// 4 MiB of memory each, named `a`, `b`, ...
pub(crate) fn memory(count: usize) -> Vec<Arc<dyn Device>> {
    ('a'..).take(count).map(|name| Arc::new(MemoryDevice::new(name, 4 << 20, 512)) as Arc<dyn Device>).collect()
}

/// An array of `slots` members and `spares` spares, in sync, with a bitmap where the level can have one.
pub(crate) fn array(level: Level, slots: usize, spares: usize) -> Vec<Arc<dyn Device>> {
    let devices = memory(slots + spares);
    let mut request = CreateRequest::new(level);
    request.chunk = level.has_chunks().then_some(uraid_types::SectorCount(128));
    request.assume_clean = true;
    request.name = "host:t".to_owned();
    request.bitmap = level.is_redundant().then_some(BitmapSpec { chunk_bytes: Some(65536) });
    let members: Vec<Option<Arc<dyn Device>>> = devices[..slots].iter().cloned().map(Some).collect();
    create(&members, &devices[slots..], &request).unwrap();
    devices
}

/// Changes the superblock on a member.
pub(crate) fn edit(device: &Arc<dyn Device>, change: impl FnOnce(&mut Superblock)) {
    let mut raw = scan(Arc::clone(device)).unwrap().raw;
    raw.update(change);
    device.write_at(raw.superblock().super_offset.byte_offset(), &Pool::new(0).copy(&raw.to_bytes())).unwrap();
}

/// Scans members that are all valid.
pub(crate) fn candidates(devices: &[Arc<dyn Device>]) -> Vec<Candidate> {
    devices.iter().map(|device| scan(Arc::clone(device)).unwrap()).collect()
}
