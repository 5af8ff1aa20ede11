//! Members on real files, block devices and rings.

mod block;
mod file;
mod queue;
mod random;
mod support;
