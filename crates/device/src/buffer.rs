//! Aligned buffers, given out by a pool that keeps a bounded number of them for the next use.
//!
//! A fresh buffer of a chunk costs a page fault every 4 KiB, which is dearer than filling it; a returned one costs nothing. So
//! buffers come in size classes, four to each doubling (at most a quarter is wasted), and returned ones wait in their class.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Alignment of every buffer in bytes: enough for O_DIRECT on any member and for the widest vectors.
pub const ALIGN_BYTES: usize = 4096;

/// Size classes: 4 to each doubling from [`ALIGN_BYTES`] to 32 MiB; larger buffers are never kept.
const CLASSES: usize = 4 * 13 + 1;

/// Gives out aligned buffers. Cheap to clone; all clones share one store.
///
/// ```
/// let pool = uraid_device::Pool::new(1 << 20);
/// let mut buf = pool.zeroed(5000);
/// buf[0] = 7;
/// assert_eq!((buf.len(), buf.as_ptr() as usize % uraid_device::ALIGN_BYTES), (5000, 0));
/// let shared = buf.share();
/// assert_eq!(shared.slice(0..2)[..], [7, 0]);
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Store>);

/// Returned blocks by size class.
struct Store {
    keep_bytes: usize,
    kept_bytes: AtomicUsize,
    outstanding_bytes: AtomicUsize,
    free: [Mutex<Vec<Block>>; CLASSES],
}

impl Pool {
    /// A pool that keeps at most `keep_bytes` of returned buffers for reuse; it gives out more than that when asked to.
    #[must_use]
    pub fn new(keep_bytes: usize) -> Pool {
        Pool(Arc::new(Store {
            keep_bytes,
            kept_bytes: AtomicUsize::new(0),
            outstanding_bytes: AtomicUsize::new(0),
            free: std::array::from_fn(|_| Mutex::new(Vec::new())),
        }))
    }

    /// A buffer of `len_bytes` whose contents are arbitrary (never uninitialised memory).
    ///
    /// # Panics
    /// When `len_bytes` does not fit the address space; out of memory ends the process, as with any allocation.
    #[must_use]
    pub fn take(&self, len_bytes: usize) -> Buf {
        self.get(len_bytes).0
    }

    /// A buffer of `len_bytes` of zeros.
    ///
    /// # Panics
    /// As [`Pool::take`].
    #[must_use]
    pub fn zeroed(&self, len_bytes: usize) -> Buf {
        let (mut buf, used) = self.get(len_bytes);
        if used {
            buf.fill(0);
        }
        buf
    }

    /// A shared copy of `bytes`.
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Shared {
        let mut buf = self.take(bytes.len());
        buf.copy_from_slice(bytes);
        buf.share()
    }

    /// Bytes given out and not yet returned, each buffer counted with the whole of its size class.
    #[must_use]
    pub fn outstanding_bytes(&self) -> usize {
        self.0.outstanding_bytes.load(Ordering::Relaxed)
    }

    /// Bytes kept for reuse: at most the `keep_bytes` of [`Pool::new`].
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.0.kept_bytes.load(Ordering::Relaxed)
    }

    /// Gives everything that is kept for reuse back to the system.
    pub fn trim(&self) {
        for class in &self.0.free {
            let blocks = std::mem::take(&mut *lock(class));
            let bytes = blocks.iter().map(|block| block.layout.size()).sum();
            self.0.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// The buffer, and whether someone has used its memory before.
    fn get(&self, len_bytes: usize) -> (Buf, bool) {
        let (class, size_bytes) = size_class(len_bytes);
        let kept = self.0.free.get(class).and_then(|free| lock(free).pop());
        let used = kept.is_some();
        if used {
            self.0.kept_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
        }
        let block = kept.unwrap_or_else(|| Block::zeroed(size_bytes));
        self.0.outstanding_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        (Buf { block: Some(block), len_bytes, home: Arc::clone(&self.0) }, used)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} bytes out, {} of {} kept)", self.outstanding_bytes(), self.kept_bytes(), self.0.keep_bytes)
    }
}

impl Store {
    fn give_back(&self, block: Block) {
        let size_bytes = block.layout.size();
        self.outstanding_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
        let Some(free) = self.free.get(size_class(size_bytes).0) else { return };
        let room = self.kept_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| {
            kept.checked_add(size_bytes).filter(|&sum| sum <= self.keep_bytes)
        });
        if room.is_ok() {
            lock(free).push(block);
        }
    }
}

/// A list of blocks is whole at every moment, so a panic elsewhere while it was locked does not matter.
fn lock(list: &Mutex<Vec<Block>>) -> MutexGuard<'_, Vec<Block>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of a length and the class's size in bytes; a class of [`CLASSES`] or more is not kept.
fn size_class(len_bytes: usize) -> (usize, usize) {
    if len_bytes <= ALIGN_BYTES {
        return (0, ALIGN_BYTES);
    }
    let pages = len_bytes.div_ceil(ALIGN_BYTES);
    // Between 2^d and 2^(d+1) pages lie classes at 1.25, 1.5, 1.75 and 2 times 2^d; below 4 pages some of them coincide.
    let doubling = (pages - 1).ilog2() as usize;
    let quarter_pages = (1_usize << doubling).div_ceil(4);
    let quarters = (pages - (1 << doubling)).div_ceil(quarter_pages);
    let size_pages = (1 << doubling) + quarters * quarter_pages;
    let size_bytes = size_pages.checked_mul(ALIGN_BYTES).expect("a buffer fits the address space");
    // The last quarter of a doubling always has number 4, whatever the doubling is too small to tell apart.
    let number = if size_pages.is_power_of_two() { 4 } else { quarters };
    (4 * doubling + number, size_bytes)
}

/// Blocks of this many bytes or more are mapped each for itself: the system makes all their pages present at once, which is
/// cheaper than a fault for each, and has them back the moment they are freed, which an allocator may put off for ever.
const MAPPED_BYTES: usize = 128 << 10;

/// One allocation, aligned to [`ALIGN_BYTES`] and initialised.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory and nothing else, so any thread may use and free it.
unsafe impl Send for Block {}
// SAFETY: a shared block gives out shared slices only.
unsafe impl Sync for Block {}

impl Block {
    fn zeroed(size_bytes: usize) -> Block {
        assert!(size_bytes > 0, "a block has bytes");
        let layout = Layout::from_size_align(size_bytes, ALIGN_BYTES).expect("a buffer fits the address space");
        let start = if size_bytes >= MAPPED_BYTES {
            let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours; it starts on a page, which is
            // at least `ALIGN_BYTES`, and reads as zeros.
            unsafe { mmap_anonymous(ptr::null_mut(), size_bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }
                .map_or(ptr::null_mut(), <*mut _>::cast)
        } else {
            // SAFETY: the layout's size is not zero.
            unsafe { alloc_zeroed(layout) }
        };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Block { start, layout }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.layout.size() >= MAPPED_BYTES {
            // SAFETY: the memory is a mapping of this size, made by `zeroed`, and nobody else unmaps it.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.layout.size()) };
            assert!(unmapped.is_ok(), "a buffer's own mapping can be unmapped");
        } else {
            // SAFETY: the memory came from `alloc_zeroed` with this layout, and nobody else frees it.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

/// An owned, writable, aligned buffer; derefs to `[u8]`. Returns to its pool when dropped.
pub struct Buf {
    /// Taken in `drop` only.
    block: Option<Block>,
    len_bytes: usize,
    home: Arc<Store>,
}

impl Buf {
    /// Gives up writing for sharing.
    #[must_use]
    pub fn share(self) -> Shared {
        let range = 0..self.len_bytes;
        Shared { of: Arc::new(self), range }
    }

    /// Shortens the buffer to `len_bytes`; does nothing when it is no longer than that.
    pub fn truncate(&mut self, len_bytes: usize) {
        self.len_bytes = self.len_bytes.min(len_bytes);
    }

    fn start(&self) -> NonNull<u8> {
        self.block.as_ref().expect("a buffer has its block until it is dropped").start
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.home.give_back(block);
        }
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the block holds at least `len_bytes` initialised bytes (it is zeroed at birth), and is borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len_bytes) }
    }
}

impl std::ops::DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the slice the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len_bytes) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_lengths_and_waste_at_most_a_quarter() {
        let mut last = (0, ALIGN_BYTES);
        for len_bytes in (1..40 << 20).step_by(1021) {
            let (class, size_bytes) = size_class(len_bytes);
            assert!(size_bytes >= len_bytes && size_bytes % ALIGN_BYTES == 0);
            assert!(len_bytes <= 4 * ALIGN_BYTES || size_bytes * 4 <= len_bytes.next_multiple_of(ALIGN_BYTES) * 5, "{len_bytes}");
            assert_eq!(size_class(size_bytes), (class, size_bytes), "a class's size is of that class");
            assert!((class, size_bytes) == last || (class > last.0 && size_bytes > last.1), "classes grow");
            last = (class, size_bytes);
        }
        assert_eq!(size_class(64 << 10).1, 64 << 10, "a power of two wastes nothing");
        assert_eq!(size_class(512 << 10).1, 512 << 10);
        assert!(size_class(32 << 20).0 < CLASSES && size_class((32 << 20) + 1).0 >= CLASSES);
    }

    #[test]
    fn buffers_are_aligned_and_zeroed_even_when_used_before() {
        let pool = Pool::new(1 << 20);
        for len_bytes in [0, 1, 511, 4096, 5000, 65536, 200_000, 1 << 20] {
            let mut buf = pool.take(len_bytes);
            assert_eq!(buf.len(), len_bytes);
            assert_eq!(buf.as_ptr() as usize % ALIGN_BYTES, 0);
            buf.fill(0xaa);
            drop(buf);
            assert!(pool.zeroed(len_bytes).iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_returned_buffer_is_used_again() {
        let pool = Pool::new(1 << 20);
        let first = pool.take(65536);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(60_000).as_ptr(), address, "the same class");
        pool.trim();
        assert_eq!((pool.kept_bytes(), pool.outstanding_bytes()), (0, 0));
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let pool = Pool::new(100_000);
        let bufs: Vec<Buf> = (0..8).map(|_| pool.take(32768)).collect();
        assert_eq!(pool.outstanding_bytes(), 8 * 32768);
        drop(bufs);
        assert_eq!((pool.outstanding_bytes(), pool.kept_bytes()), (0, 3 * 32768));
        drop(pool.take(64 << 20));
        assert_eq!(pool.kept_bytes(), 3 * 32768, "a buffer beyond the largest class goes back at once");
    }

    #[test]
    fn shared_parts_become_a_buffer_again_only_when_alone_and_whole() {
        let pool = Pool::new(0);
        let whole = pool.copy(b"0123456789");
        let part = whole.slice(2..6).slice(1..3);
        assert_eq!(&part[..], b"34");
        let whole = whole.into_buf().unwrap_err();
        drop(part);
        let part = whole.slice(0..9);
        drop(whole);
        let part = part.into_buf().unwrap_err();
        assert_eq!(&part[..], b"012345678");
        let mut buf = pool.copy(b"abc").into_buf().unwrap();
        buf.truncate(2);
        buf.truncate(7);
        assert_eq!(&buf.share()[..], b"ab");
    }

    #[test]
    #[should_panic(expected = "slice 1..11 of 10 bytes")]
    fn a_slice_beyond_the_end_panics() {
        let _ = Pool::new(0).copy(b"0123456789").slice(1..11);
    }

    #[test]
    fn threads_share_a_pool() {
        let pool = Pool::new(1 << 20);
        std::thread::scope(|scope| {
            for seed in 0..4_u8 {
                let pool = pool.clone();
                scope.spawn(move || {
                    for round in 0..500_usize {
                        let mut buf = pool.take(1 + round * 97);
                        buf.fill(seed);
                        let shared = buf.share();
                        let other = shared.clone();
                        std::thread::yield_now();
                        assert!(other.iter().all(|&byte| byte == seed));
                    }
                });
            }
        });
        assert_eq!(pool.outstanding_bytes(), 0);
        assert!(pool.kept_bytes() <= 1 << 20);
    }
}
