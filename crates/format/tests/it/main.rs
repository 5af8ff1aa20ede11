//! Tests of the crate from outside: against superblocks that the real md wrote, against damage, and plans for new arrays.

mod compat;
mod convert;
mod create;
mod damage;
mod fixtures;
mod foreign;
mod logs;
mod md_examine;
mod partitions;
mod v090;
