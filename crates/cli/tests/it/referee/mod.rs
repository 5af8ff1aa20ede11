//! The real Linux md against the program: what one writes the other reads, recovers, resyncs or refuses.
//!
//! `URAID_REFEREE_ALL=1` runs more cases; without the packages of the referee the tests are skipped, see `uraid_referee`.

mod agree;
mod bad_blocks;
mod bitmap_dropped;
mod bitmap_file;
mod bitmaps;
mod cases;
mod compat;
mod containers;
mod converted;
mod examine_bitmap;
mod examined;
mod guest;
mod host;
mod logs;
mod lost;
mod made;
mod matrix;
mod partitions;
mod reads;
mod refused;
mod reshapes;
mod resumed;
mod unrecorded;
