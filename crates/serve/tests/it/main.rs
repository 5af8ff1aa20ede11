//! The front ends from outside: raw bytes on sockets, real clients, a mounted file.

mod control;
mod fuse;
mod nbd_clients;
mod nbd_raw;
mod support;
mod unaligned;
