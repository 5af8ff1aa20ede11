//! Many members at once, asynchronously.

mod helpers;
mod lanes;
mod members;
// The kernel gets addresses of buffers; what keeps them alive is said there.
#[allow(unsafe_code)]
mod ring;
mod threads;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Buf, Device, DeviceError, Operation, Shared};

pub use ring::RingQueue;
pub use threads::ThreadQueue;

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

impl IoOp {
    /// What it does, without its buffers.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            IoOp::Read { .. } => Operation::Read,
            IoOp::Write { .. } => Operation::Write,
            IoOp::Flush => Operation::Flush,
            IoOp::Zero { .. } => Operation::Zero,
        }
    }

    /// Where it starts on the member, in bytes; 0 for a flush.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        match self {
            IoOp::Read { offset_bytes, .. } | IoOp::Write { offset_bytes, .. } | IoOp::Zero { offset_bytes, .. } => *offset_bytes,
            IoOp::Flush => 0,
        }
    }

    /// Bytes of the member that it covers; 0 for a flush.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        match self {
            IoOp::Read { into, .. } => into.len() as u64,
            IoOp::Write { from, .. } => from.iter().map(|part| part.len() as u64).sum(),
            IoOp::Zero { len_bytes, .. } => *len_bytes,
            IoOp::Flush => 0,
        }
    }
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
///
/// Operations in flight at the same time have no order among them, on one member neither. A queue that is dropped ends what it
/// has taken first, so that no buffer is freed under a running transfer.
pub trait Queue: Send {
    /// Adds a member and gives its index. Indices are never used again.
    fn add(&mut self, device: Arc<dyn Device>) -> usize;

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
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(Arc::new(wake))
    }

    /// Ends the current or the next wait.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// What moves the bytes of a [`Queue`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The ring where the system has it, else threads.
    #[default]
    Auto,
    /// Threads with blocking calls.
    Threads,
}

/// How to make a [`Queue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// What moves the bytes.
    pub backend: Backend,
    /// Submission entries of the ring, 1 to 32768 and rounded up to a power of two; more operations than that wait their turn.
    pub ring_entries: u32,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions { backend: Backend::Auto, ring_entries: 256 }
    }
}

/// A queue as `options` say: io_uring, or threads where the system refuses a ring (an old kernel, a container's filter).
#[must_use]
pub fn queue(options: &QueueOptions) -> Box<dyn Queue> {
    match options.backend {
        Backend::Threads => Box::new(ThreadQueue::new()),
        Backend::Auto => match RingQueue::new(options.ring_entries) {
            Ok(ring) => Box::new(ring),
            Err(error) => {
                tracing::info!(%error, "no io_uring here: threads do the member I/O");
                Box::new(ThreadQueue::new())
            }
        },
    }
}
