//! A member that counts what is asked of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Device, DeviceError, DeviceInfo, Identity};

/// What was asked of a member, failed operations included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Bytes asked for by them.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes handed over by them.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Ranges zeroed.
    pub zeroes: u64,
    /// Bytes in them.
    pub zeroed_bytes: u64,
}

#[derive(Default)]
struct Cells {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    zeroes: AtomicU64,
    zeroed_bytes: AtomicU64,
}

/// Reads the counts of a [`Counting`] member while it runs; clones read the same ones.
#[derive(Clone, Default)]
pub struct Counters(Arc<Cells>);

impl Counters {
    /// The counts now. Each is exact; operations that run meanwhile may be in some and not yet in others.
    #[must_use]
    pub fn get(&self) -> Counts {
        self.each(|cell| cell.load(Ordering::Relaxed))
    }

    /// The counts since the last reset, and starts again from 0.
    pub fn reset(&self) -> Counts {
        self.each(|cell| cell.swap(0, Ordering::Relaxed))
    }

    fn each(&self, read: impl Fn(&AtomicU64) -> u64) -> Counts {
        Counts {
            reads: read(&self.0.reads),
            read_bytes: read(&self.0.read_bytes),
            writes: read(&self.0.writes),
            written_bytes: read(&self.0.written_bytes),
            flushes: read(&self.0.flushes),
            zeroes: read(&self.0.zeroes),
            zeroed_bytes: read(&self.0.zeroed_bytes),
        }
    }
}

/// Counts operations and bytes on their way to the member below.
pub struct Counting {
    below: Arc<dyn Device>,
    counters: Counters,
}

impl Counting {
    /// Over `below`, from 0.
    #[must_use]
    pub fn new(below: Arc<dyn Device>) -> Counting {
        Counting { below, counters: Counters::default() }
    }

    /// What reads the counts from anywhere.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }
}

fn add(count: &AtomicU64, bytes: &AtomicU64, len_bytes: u64) {
    count.fetch_add(1, Ordering::Relaxed);
    bytes.fetch_add(len_bytes, Ordering::Relaxed);
}

/// Has no descriptor, so that a queue makes its calls here.
impl Device for Counting {
    fn info(&self) -> &DeviceInfo {
        self.below.info()
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        add(&self.counters.0.reads, &self.counters.0.read_bytes, into.len() as u64);
        self.below.read_at(offset_bytes, into)
    }

    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        add(&self.counters.0.writes, &self.counters.0.written_bytes, from.len() as u64);
        self.below.write_at(offset_bytes, from)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.counters.0.flushes.fetch_add(1, Ordering::Relaxed);
        self.below.flush()
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64, hole: bool) -> Result<(), DeviceError> {
        add(&self.counters.0.zeroes, &self.counters.0.zeroed_bytes, len_bytes);
        self.below.zero(offset_bytes, len_bytes, hole)
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
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn counts_by_kind() {
        let member = Counting::new(Arc::new(MemoryDevice::new("m", 8192, 512)));
        let counters = member.counters();
        member.write_at(0, &[1; 1024]).unwrap();
        member.write_at(1024, &[1; 512]).unwrap();
        member.read_at(0, &mut [0; 512]).unwrap();
        member.read_at(8192, &mut [0; 512]).unwrap_err();
        member.flush().unwrap();
        member.zero(0, 4096, true).unwrap();
        let expected =
            Counts { reads: 2, read_bytes: 1024, writes: 2, written_bytes: 1536, flushes: 1, zeroes: 1, zeroed_bytes: 4096 };
        assert_eq!(counters.get(), expected);
        assert_eq!(counters.reset(), expected);
        assert_eq!(counters.get(), Counts::default());
        assert!(member.descriptor().is_none());
    }
}
