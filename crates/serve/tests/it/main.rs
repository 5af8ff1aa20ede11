//! The front ends from outside: raw bytes on sockets, real clients, a mounted file.

#![allow(clippy::unwrap_used, reason = "all of this crate is tests; a helper that panics fails its test")]

mod control;
mod fuse;
mod hostile;
mod nbd_clients;
mod nbd_raw;
mod support;
mod unaligned;
