//! An NBD server for one export.
//!
//! [`negotiate`] and [`proto`] hold the protocol without I/O; `connection` moves the bytes; [`NbdServer`] is the whole.

mod budget;
mod connection;
pub mod negotiate;
pub mod proto;
mod server;

pub use server::{NbdLimits, NbdOptions, NbdServer, NbdSocket};
