//! A member in memory, for tests and simulation.

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use crate::{Device, DeviceError, DeviceInfo, Operation};

/// Bytes under one lock, and the unit in which memory is taken and given back.
const SHARD_BYTES: usize = 256 << 10;

/// A member in memory. It takes memory only for what was written, so that a large one is cheap.
///
/// ```
/// use uraid_device::{Device, MemoryDevice};
/// let member = MemoryDevice::new("m0", 1 << 30, 512);
/// member.write_at(512, &[7; 512])?;
/// let mut back = [0; 1024];
/// member.read_at(0, &mut back)?;
/// assert_eq!((back[511], back[512]), (0, 7));
/// # Ok::<(), uraid_device::DeviceError>(())
/// ```
pub struct MemoryDevice {
    info: DeviceInfo,
    /// `None` reads as zeros.
    shards: Vec<RwLock<Option<Box<[u8]>>>>,
}

impl MemoryDevice {
    /// A member of `size_bytes` zeros, in logical blocks of 512 or 4096 bytes.
    ///
    /// # Panics
    /// When the logical block is neither, or the size is not a multiple of it.
    #[must_use]
    pub fn new(name: impl Into<String>, size_bytes: u64, logical_block_bytes: u32) -> MemoryDevice {
        assert!(matches!(logical_block_bytes, 512 | 4096), "a logical block of {logical_block_bytes} bytes");
        assert!(size_bytes.is_multiple_of(u64::from(logical_block_bytes)), "{size_bytes} bytes are no whole logical blocks");
        let shards = usize::try_from(size_bytes.div_ceil(SHARD_BYTES as u64)).expect("the size fits the address space");
        MemoryDevice {
            info: DeviceInfo {
                name: name.into(),
                path: None,
                size_bytes,
                logical_block_bytes,
                read_only: false,
                direct: false,
                rotational: None,
            },
            shards: (0..shards).map(|_| RwLock::new(None)).collect(),
        }
    }

    /// Memory taken, in bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        let taken = |shard: &&RwLock<Option<Box<[u8]>>>| shard.read().unwrap_or_else(PoisonError::into_inner).is_some();
        self.shards.iter().filter(taken).count() as u64 * SHARD_BYTES as u64
    }
}

/// The parts of a range by shard: the shard, the bytes within it, and the bytes of the caller's buffer.
fn parts(offset_bytes: u64, len_bytes: u64) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let end = offset_bytes + len_bytes;
    let mut at = offset_bytes;
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let inside = (at % SHARD_BYTES as u64) as usize;
        let shard = (at / SHARD_BYTES as u64) as usize;
        let len = ((SHARD_BYTES - inside) as u64).min(end - at) as usize;
        let done = (at - offset_bytes) as usize;
        at += len as u64;
        Some((shard, inside..inside + len, done..done + len))
    })
}

impl Device for MemoryDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Read, offset_bytes, into.len() as u64)?;
        for (shard, inside, outside) in parts(offset_bytes, into.len() as u64) {
            match &*self.shards[shard].read().unwrap_or_else(PoisonError::into_inner) {
                Some(bytes) => into[outside].copy_from_slice(&bytes[inside]),
                None => into[outside].fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.info.check(Operation::Write, offset_bytes, from.len() as u64)?;
        for (shard, inside, outside) in parts(offset_bytes, from.len() as u64) {
            let mut shard = self.shards[shard].write().unwrap_or_else(PoisonError::into_inner);
            let bytes = shard.get_or_insert_with(|| vec![0; SHARD_BYTES].into_boxed_slice());
            bytes[inside].copy_from_slice(&from[outside]);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn in_memory(&self) -> bool {
        true
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, _hole: bool) -> Result<(), DeviceError> {
        self.info.check(Operation::Zero, offset_bytes, len_bytes)?;
        for (shard, inside, _) in parts(offset_bytes, len_bytes) {
            let mut shard = self.shards[shard].write().unwrap_or_else(PoisonError::into_inner);
            if inside.len() == SHARD_BYTES {
                *shard = None;
            } else if let Some(bytes) = &mut *shard {
                bytes[inside].fill(0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn bytes_come_back_across_shards_and_holes_read_as_zeros() {
        let member = MemoryDevice::new("m", 3 * SHARD_BYTES as u64, 512);
        let data: Vec<u8> = (0..SHARD_BYTES + 1024).map(|i| (i % 251) as u8).collect();
        member.write_at(SHARD_BYTES as u64 - 512, &data).unwrap();
        let mut back = vec![1; data.len() + 1024];
        member.read_at(SHARD_BYTES as u64 - 1024, &mut back).unwrap();
        assert!(back[..512].iter().all(|&byte| byte == 0));
        assert_eq!(&back[512..512 + data.len()], &data[..]);
        member.zero(0, 3 * SHARD_BYTES as u64, true).unwrap();
        assert_eq!(member.allocated_bytes(), 0);
        member.read_at(0, &mut back).unwrap();
        assert!(back.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn what_is_not_whole_blocks_or_past_the_end_is_refused() {
        let member = MemoryDevice::new("m", 8192, 4096);
        let kind = |result: Result<(), DeviceError>| result.unwrap_err().source.kind();
        assert_eq!(kind(member.read_at(512, &mut [0; 4096])), io::ErrorKind::InvalidInput);
        assert_eq!(kind(member.write_at(0, &[0; 512])), io::ErrorKind::InvalidInput);
        assert_eq!(kind(member.read_at(8192, &mut [0; 4096])), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(member.write_at(8192, &[0; 4096])), io::ErrorKind::InvalidInput);
        assert_eq!(kind(member.zero(u64::MAX - 4095, 4096, false)), io::ErrorKind::InvalidInput);
    }
}
