//! The geometry against Linux, against its own inverse, and against nonsense.

#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod kernel;
mod properties;
mod refusals;
mod write_cost;
