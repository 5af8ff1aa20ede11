//! A member laid under a copy-on-write overlay: reads see what was written, the member below is never written.

mod file;
mod header;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Device, DeviceError, DeviceInfo, Identity, Operation};

pub use file::OverlayFile;
pub use header::{OVERLAY_BLOCK_BYTES, OverlayOrigin, OverlayState};

/// Where written blocks go.
enum Store {
    Memory(BTreeMap<u64, Box<[u8]>>),
    File(OverlayFile),
}

/// Takes all changes of the member below, in memory or in a file, and leaves the member as it is.
///
/// What is in a file survives the process once it has been flushed; what was not flushed may be lost with it, as on a disk with a
/// volatile cache.
///
/// ```
/// use std::sync::Arc;
/// use uraid_device::{Device, MemoryDevice, Overlay};
/// let member = Arc::new(MemoryDevice::new("m0", 1 << 20, 512));
/// let tried = Overlay::in_memory(member.clone());
/// tried.write_at(512, &[7; 512])?;
/// let (mut above, mut below) = ([0; 512], [0; 512]);
/// tried.read_at(512, &mut above)?;
/// member.read_at(512, &mut below)?;
/// assert_eq!((above, below), ([7; 512], [0; 512]));
/// # Ok::<(), uraid_device::DeviceError>(())
/// ```
pub struct Overlay {
    below: Arc<dyn Device>,
    info: DeviceInfo,
    store: Mutex<Store>,
}

impl Overlay {
    /// Over `below`, until it is dropped.
    #[must_use]
    pub fn in_memory(below: Arc<dyn Device>) -> Overlay {
        Overlay::over(below, Store::Memory(BTreeMap::new()))
    }

    /// Over `below`, going on from what `file` holds.
    ///
    /// # Errors
    /// The file is of a member of another size.
    pub fn in_file(below: Arc<dyn Device>, file: OverlayFile) -> Result<Overlay, DeviceError> {
        let (size_bytes, found_bytes) = (below.info().size_bytes, file.origin().size_bytes);
        if size_bytes != found_bytes {
            let why = format!("it is for a member of {found_bytes} bytes, and {} has {size_bytes}", below.info().name);
            return Err(DeviceError::whole(file.name(), Operation::Open, std::io::Error::other(why)));
        }
        Ok(Overlay::over(below, Store::File(file)))
    }

    fn over(below: Arc<dyn Device>, store: Store) -> Overlay {
        let info = DeviceInfo { read_only: false, direct: false, ..below.info().clone() };
        Overlay { below, info, store: Mutex::new(store) }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes `len_bytes` at `offset_bytes`, block by block or in runs of whole blocks; `write` puts the bytes of a range.
    fn put(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        mut write: impl FnMut(&mut Store, Range<u64>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let end_bytes = offset_bytes + len_bytes;
        let mut store = self.store();
        for edge in [offset_bytes, end_bytes] {
            // A block that is written in part gets the rest from below first.
            if !edge.is_multiple_of(OVERLAY_BLOCK_BYTES) && edge != self.info.size_bytes {
                self.bring_up(&mut store, edge / OVERLAY_BLOCK_BYTES)?;
            }
        }
        if len_bytes == 0 {
            return Ok(());
        }
        write(&mut store, offset_bytes..end_bytes)
    }

    /// Copies a block that is not in the overlay from the member below.
    fn bring_up(&self, store: &mut Store, block: u64) -> Result<(), DeviceError> {
        if store.has(block) {
            return Ok(());
        }
        let start = block * OVERLAY_BLOCK_BYTES;
        let len = OVERLAY_BLOCK_BYTES.min(self.info.size_bytes - start) as usize;
        let mut bytes = crate::Pool::new(0).take(len);
        self.below.read_at(start, &mut bytes)?;
        store.write(start, &bytes)
    }
}

impl Store {
    fn has(&self, block: u64) -> bool {
        match self {
            Store::Memory(blocks) => blocks.contains_key(&block),
            Store::File(file) => file.has(block),
        }
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        match self {
            Store::Memory(blocks) => {
                for (block, inside, outside) in parts(offset_bytes, from.len() as u64) {
                    let bytes = blocks.entry(block).or_insert_with(|| vec![0; OVERLAY_BLOCK_BYTES as usize].into_boxed_slice());
                    bytes[inside].copy_from_slice(&from[outside]);
                }
                Ok(())
            }
            Store::File(file) => file.write(offset_bytes, from),
        }
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        match self {
            Store::Memory(blocks) => {
                for (block, inside, outside) in parts(offset_bytes, into.len() as u64) {
                    into[outside].copy_from_slice(&blocks[&block][inside]);
                }
                Ok(())
            }
            Store::File(file) => file.read(offset_bytes, into),
        }
    }

    fn zero(&mut self, range: Range<u64>) -> Result<(), DeviceError> {
        match self {
            Store::Memory(blocks) => {
                for (block, inside, _) in parts(range.start, range.end - range.start) {
                    let bytes = blocks.entry(block).or_insert_with(|| vec![0; OVERLAY_BLOCK_BYTES as usize].into_boxed_slice());
                    bytes[inside].fill(0);
                }
                Ok(())
            }
            Store::File(file) => file.zero(range),
        }
    }
}

/// The parts of a range by block: the block, the bytes within it, and the bytes of the caller's buffer.
fn parts(offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let end = offset_bytes + len_bytes;
    (offset_bytes / OVERLAY_BLOCK_BYTES..end.div_ceil(OVERLAY_BLOCK_BYTES)).map(move |block| {
        let start = block * OVERLAY_BLOCK_BYTES;
        let (from, to) = (offset_bytes.max(start), end.min(start + OVERLAY_BLOCK_BYTES));
        let inside = (from - start) as usize..(to - start) as usize;
        (block, inside, (from - offset_bytes) as usize..(to - offset_bytes) as usize)
    })
}

impl Device for Overlay {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Read, offset_bytes, into.len() as u64)?;
        let end = offset_bytes + into.len() as u64;
        let mut at = offset_bytes;
        while at < end {
            let store = self.store();
            let above = store.has(at / OVERLAY_BLOCK_BYTES);
            let next = (at / OVERLAY_BLOCK_BYTES + 1..end.div_ceil(OVERLAY_BLOCK_BYTES)).find(|&block| store.has(block) != above);
            let to = next.map_or(end, |block| (block * OVERLAY_BLOCK_BYTES).min(end));
            let part = &mut into[(at - offset_bytes) as usize..(to - offset_bytes) as usize];
            if above {
                store.read(at, part)?;
            } else {
                // What lies below never changes, so nobody has to be kept from writing meanwhile.
                drop(store);
                self.below.read_at(at, part)?;
            }
            at = to;
        }
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Write, offset_bytes, from.len() as u64)?;
        self.put(offset_bytes, from.len() as u64, |store, _| store.write(offset_bytes, from))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        match &mut *self.store() {
            Store::Memory(_) => Ok(()),
            Store::File(file) => file.flush(),
        }
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, _hole: bool) -> Result<(), DeviceError> {
        self.info.check(Operation::Zero, offset_bytes, len_bytes)?;
        self.put(offset_bytes, len_bytes, Store::zero)
    }

    fn identity(&self) -> Option<Identity> {
        self.below.identity()
    }
}

#[cfg(test)]
mod tests;
