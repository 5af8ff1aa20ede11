//! Aligned buffers, given out by a pool that keeps a bounded number of them for the next use.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Alignment of every buffer in bytes: enough for O_DIRECT on any member and for the widest vectors.
pub const ALIGN_BYTES: usize = 4096;

/// Gives out aligned buffers. Cheap to clone; all clones share one store.
#[derive(Clone)]
pub struct Pool(Arc<()>);

impl Pool {
    /// A pool that keeps at most `keep_bytes` of returned buffers for reuse; it gives out more than that when asked to.
    #[must_use]
    pub fn new(_keep_bytes: usize) -> Pool {
        Pool(Arc::new(()))
    }

    /// A buffer of `len_bytes` whose contents are arbitrary (never uninitialised memory).
    #[must_use]
    pub fn take(&self, len_bytes: usize) -> Buf {
        Buf(vec![0; len_bytes])
    }

    /// A buffer of `len_bytes` of zeros.
    #[must_use]
    pub fn zeroed(&self, len_bytes: usize) -> Buf {
        Buf(vec![0; len_bytes])
    }

    /// Bytes given out and not yet returned.
    #[must_use]
    pub fn outstanding_bytes(&self) -> usize {
        0
    }
}

/// An owned, writable, aligned buffer; derefs to `[u8]`. Returns to its pool when dropped.
pub struct Buf(Vec<u8>);

impl Buf {
    /// Gives up writing for sharing.
    #[must_use]
    pub fn share(self) -> Shared {
        let len = self.0.len();
        Shared { of: Arc::new(self), range: 0..len }
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len())
    }
}

/// A part of a buffer that nobody writes any more; cheap to clone and to slice; derefs to `[u8]`.
#[derive(Clone)]
pub struct Shared {
    of: Arc<Buf>,
    range: Range<usize>,
}

impl Shared {
    /// The part `range`, counted from this part's start.
    ///
    /// # Panics
    /// When `range` is not within this part.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Shared {
        assert!(range.start <= range.end && range.end <= self.range.len(), "slice {range:?} of {} bytes", self.range.len());
        Shared { of: Arc::clone(&self.of), range: self.range.start + range.start..self.range.start + range.end }
    }

    /// The buffer itself again, when this is its only and whole part.
    ///
    /// # Errors
    /// The part unchanged, when others hold parts of the same buffer or this is not the whole of it.
    pub fn into_buf(self) -> Result<Buf, Shared> {
        if self.range != (0..self.of.len()) {
            return Err(self);
        }
        let range = self.range;
        Arc::try_unwrap(self.of).map_err(|of| Shared { of, range })
    }
}

impl std::ops::Deref for Shared {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.of[self.range.clone()]
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({} bytes)", self.len())
    }
}
