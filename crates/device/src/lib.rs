//! Members: what an array's bytes live on, and how they are reached.
//!
//! [`Device`] is one member, addressed in bytes, with plain blocking calls: scanning, metadata and tests use it, and the wrappers
//! ([`Faulty`], [`Slow`], [`Counting`], [`ReadOnly`], [`Overlay`], [`Window`]) lay themselves over it. [`Queue`] is many members at once, asynchronous:
//! an [`Io`] owns its buffers until its [`Completion`] hands them back.
//!
//! This crate knows nothing of arrays and decides nothing: it reports each failure once and leaves the judgement to its user. It
//! never reports a short transfer as done, and never repeats a failed flush. It is the only one, beside `parity`, with unsafe
//! code, and that is fenced into the buffers and the ring.
//!
//! ```
//! use std::sync::Arc;
//! use uraid_device::{Io, IoOp, MemoryDevice, Pool, QueueOptions, queue};
//!
//! let pool = Pool::new(1 << 20);
//! let mut queue = queue(&QueueOptions::default());
//! let member = queue.add(Arc::new(MemoryDevice::new("m0", 1 << 20, 512)));
//! queue.submit(Io { token: 1, member, op: IoOp::Write { offset_bytes: 4096, from: vec![pool.copy(&[7; 512])] } });
//! let mut done = Vec::new();
//! queue.wait(None, &mut done);
//! assert!(done[0].token == 1 && done[0].result.is_ok());
//! ```

// The unsafe parts of the crate, each with its reasons beside it.
#[allow(unsafe_code)]
mod buffer;
mod device;
mod error;
mod file;
mod memory;
mod queue;
mod wrap;

pub use buffer::{ALIGN_BYTES, Buf, Pool, Shared};
pub use device::{Device, DeviceInfo, Identity};
pub use error::{DeviceError, Operation};
pub use file::{Direct, FileDevice, OpenOptions, RaggedFile};
pub use memory::MemoryDevice;
pub use queue::{Backend, Completion, Io, IoOp, Queue, QueueOptions, RingQueue, ThreadQueue, Waker, queue};
pub use wrap::{
    Counters, Counting, Counts, Fault, FaultControl, Faulty, OVERLAY_BLOCK_BYTES, Overlay, OverlayFile, OverlayOrigin,
    OverlayState, ReadOnly, Slow, Window,
};
