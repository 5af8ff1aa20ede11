//! Members: what an array's bytes live on, and how they are reached.
//!
//! [`Device`] is one member, addressed in bytes, with plain blocking calls: scanning, metadata and tests use it, and the wrappers
//! (faults, delays, counters) lay themselves over it. [`Queue`] is many members at once, asynchronous: an [`Io`] owns its
//! buffers until its [`Completion`] hands them back.
//!
//! This crate is the only one, beside `parity`, with unsafe code.

mod buffer;
mod error;

pub use buffer::{Buf, Pool, Shared};
pub use error::{DeviceError, Operation};

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

/// What a member is.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// For messages: the path, or a name for what has none.
    pub name: String,
    /// The path, where there is one.
    pub path: Option<PathBuf>,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Smallest unit of reading and writing in bytes: 512 or 4096.
    pub logical_block_bytes: u32,
    /// Is it open for reading only?
    pub read_only: bool,
    /// Does it bypass the page cache?
    pub direct: bool,
    /// Does it turn? `None` where the system does not say.
    pub rotational: Option<bool>,
}

/// One member, addressed in bytes.
///
/// Offsets, lengths and buffer addresses are multiples of `logical_block_bytes`. A short transfer is continued inside and never
/// reported as success.
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Fills `into` from `offset_bytes`.
    ///
    /// # Errors
    /// The member, the operation, the offset and the cause.
    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes all of `from` at `offset_bytes`.
    ///
    /// # Errors
    /// As [`Device::read_at`]; also when the member is open for reading only.
    fn write_at(&self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError>;

    /// Makes everything written so far durable. A failed flush is final: the caller fails the member.
    ///
    /// # Errors
    /// As [`Device::write_at`].
    fn flush(&self) -> Result<(), DeviceError>;

    /// Makes the range read as zeros, giving its space back where that is possible (`hole`).
    ///
    /// # Errors
    /// As [`Device::write_at`].
    fn zero(&self, offset_bytes: u64, len_bytes: u64, hole: bool) -> Result<(), DeviceError>;

    /// The descriptor that a ring may use instead of the calls above; `None` for whatever is no plain descriptor.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// What an [`Io`] does.
#[derive(Debug)]
pub enum IoOp {
    /// Fill `into` from `offset_bytes`.
    Read {
        /// Where on the member.
        offset_bytes: u64,
        /// Filled whole.
        into: Buf,
    },
    /// Write the slices of `from`, one after another, at `offset_bytes`.
    Write {
        /// Where on the member.
        offset_bytes: u64,
        /// Shared, so that one buffer can go to several members.
        from: Vec<Shared>,
    },
    /// Make all completed writes durable.
    Flush,
    /// As [`Device::zero`].
    Zero {
        /// Where on the member.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
        /// Give the space back.
        hole: bool,
    },
}

/// One operation on one member of a [`Queue`].
#[derive(Debug)]
pub struct Io {
    /// Handed back in the completion; the caller's to choose.
    pub token: u64,
    /// Which member, by the index that [`Queue::add`] gave.
    pub member: usize,
    /// What to do.
    pub op: IoOp,
}

/// An operation that has ended; its buffers come back in `op`.
#[derive(Debug)]
pub struct Completion {
    /// The caller's token.
    pub token: u64,
    /// Which member.
    pub member: usize,
    /// The operation with its buffers.
    pub op: IoOp,
    /// Whether the whole of it was done.
    pub result: Result<(), DeviceError>,
}

/// Many members, asynchronously.
pub trait Queue: Send {
    /// Adds a member and gives its index. Indices are never used again.
    fn add(&mut self, device: std::sync::Arc<dyn Device>) -> usize;

    /// Lets go of a member once its operations have completed; later operations on it complete with an error.
    fn remove(&mut self, member: usize);

    /// Takes an operation; it has started at the latest when [`Queue::wait`] is called.
    fn submit(&mut self, io: Io);

    /// Waits until something completes, the waker is used or `timeout` has passed (`None`: for ever, zero: only look), and
    /// appends what has completed to `done`.
    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>);

    /// Something that ends a [`Queue::wait`] from another thread.
    fn waker(&self) -> Waker;

    /// Operations taken and not yet handed back.
    fn in_flight(&self) -> usize;
}

/// Ends a [`Queue::wait`] from another thread.
#[derive(Clone)]
pub struct Waker(std::sync::Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(std::sync::Arc::new(wake))
    }

    /// Ends the current or the next wait.
    pub fn wake(&self) {
        (self.0)();
    }
}
