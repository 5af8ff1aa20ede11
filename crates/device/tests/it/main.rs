//! Members on real files, block devices and rings.

// The helpers here are tests as well; clippy knows only functions marked as such.
#![allow(clippy::unwrap_used)]

mod block;
mod file;
mod queue;
mod random;
mod support;
