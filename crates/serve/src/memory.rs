//! A target in memory, for examples and tests.

use std::sync::Mutex;

use uraid_device::Pool;

use crate::{Reply, Request, Target, TargetError, lock};

/// Bytes in memory behind the [`Target`] interface. It answers before `submit` returns and refuses unaligned ranges.
pub struct MemoryTarget {
    bytes: Mutex<Vec<u8>>,
    size_bytes: u64,
    block_bytes: u32,
    read_only: bool,
    pool: Pool,
}

impl MemoryTarget {
    /// `size_bytes` of zeros that are addressed in blocks of `block_bytes`.
    ///
    /// # Panics
    /// When the size is no multiple of the block or does not fit memory.
    #[must_use]
    pub fn new(size_bytes: u64, block_bytes: u32) -> MemoryTarget {
        assert!(size_bytes.is_multiple_of(u64::from(block_bytes)), "{size_bytes} bytes are no whole blocks of {block_bytes}");
        let len = usize::try_from(size_bytes).expect("a memory target fits memory");
        MemoryTarget { bytes: Mutex::new(vec![0; len]), size_bytes, block_bytes, read_only: false, pool: Pool::new(1 << 20) }
    }

    /// The same target, refusing writes.
    #[must_use]
    pub fn into_read_only(self) -> MemoryTarget {
        MemoryTarget { read_only: true, ..self }
    }

    /// A copy of all bytes.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        lock(&self.bytes).clone()
    }

    fn range(&self, offset: u64, len: u64) -> Result<std::ops::Range<usize>, TargetError> {
        let block = u64::from(self.block_bytes);
        let end = offset.checked_add(len).filter(|&end| end <= self.size_bytes);
        let aligned = offset.is_multiple_of(block) && len.is_multiple_of(block);
        let end = end.filter(|_| aligned).ok_or_else(|| {
            TargetError::new(
                libc::EINVAL,
                format!("bytes {offset}+{len} are not whole blocks of {block} within {}", self.size_bytes),
            )
        })?;
        let index = |at: u64| usize::try_from(at).expect("within memory");
        Ok(index(offset)..index(end))
    }

    fn run(&self, request: Request) -> Result<Vec<uraid_device::Shared>, TargetError> {
        if self.read_only && !matches!(request, Request::Read { .. } | Request::Flush) {
            return Err(TargetError::new(libc::EPERM, "the target is read-only"));
        }
        match request {
            Request::Read { offset, len } => {
                let range = self.range(offset, u64::from(len))?;
                let mut buf = self.pool.take(range.len());
                buf.copy_from_slice(&lock(&self.bytes)[range]);
                return Ok(vec![buf.share()]);
            }
            Request::Write { offset, data, .. } => {
                let range = self.range(offset, data.len() as u64)?;
                lock(&self.bytes)[range].copy_from_slice(&data);
            }
            Request::Flush => {}
            Request::Trim { offset, len, .. } | Request::Zero { offset, len, .. } => {
                let range = self.range(offset, len)?;
                lock(&self.bytes)[range].fill(0);
            }
        }
        Ok(Vec::new())
    }
}

impl Target for MemoryTarget {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn preferred_bytes(&self) -> u32 {
        64 << 10
    }

    fn submit(&self, request: Request, reply: Reply) {
        reply(self.run(request));
    }
}
