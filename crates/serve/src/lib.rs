//! Front ends: an NBD server, a FUSE file and the control socket.
//!
//! A front end sees the array as a [`Target`] and nothing else: it knows neither members nor metadata, and it makes no
//! decision about them. Protocols are parsed without I/O (`nbd::negotiate`, `nbd::proto`); the threads beside them move bytes.
//!
//! A [`Target`] takes whole blocks. [`ByteTarget`] lays byte-granular requests over it; give **one** [`ByteTarget`] to all
//! front ends of an array, so that an unaligned write through one and a write through another cannot undo each other.
//!
//! ```
//! use std::sync::Arc;
//! use uraid_serve::{ByteTarget, Listen, MemoryTarget, NbdOptions, NbdServer};
//!
//! let target = Arc::new(ByteTarget::new(Arc::new(MemoryTarget::new(1 << 20, 512))));
//! let listen: Listen = "127.0.0.1:0".parse()?;
//! let mut server = NbdServer::start(target, listen, NbdOptions { name: "md0".into(), ..NbdOptions::default() })?;
//! println!("nbdinfo nbd://{}/md0", server.address());
//! assert!(server.stop(), "nothing was in flight");
//! # Ok::<(), uraid_serve::ServeError>(())
//! ```

mod array_target;
pub mod control;
mod error;
mod fuse;
mod listen;
mod memory;
pub mod nbd;
mod target;
mod unaligned;

pub use array_target::ArrayTarget;
pub use error::ServeError;
pub use fuse::{FuseFile, FuseOptions, MountPoint};
pub use listen::Listen;
pub use memory::MemoryTarget;
pub use nbd::{NbdLimits, NbdOptions, NbdServer, NbdSocket};
pub use target::{Reply, Request, Target, TargetError};
pub use unaligned::ByteTarget;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic elsewhere: every mutex of this crate guards state that is whole between its statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
