//! The binary as people run it.

#![allow(clippy::unwrap_used, reason = "all of this crate is tests; a helper that panics fails its test")]

mod adversary;
mod at_rest;
mod bad_input;
mod block_size;
mod clients;
mod crash;
mod images;
mod kept;
mod lab;
mod looks;
mod measure;
mod nbd;
mod overlay;
mod referee;
mod running;
mod schema;
mod superblock;
mod undo;
