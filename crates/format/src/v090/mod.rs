//! Superblocks of version 0.90: 1,024 words of 32 bits in the byte order of the machine that wrote them, in
//! `linux/raid/md_p.h` as `mdp_superblock_t`.

mod check;
mod fields;
mod table;
mod words;
mod write;

pub use fields::{Descriptor, RawFields090};

pub(crate) use check::check;
pub(crate) use words::Words;
pub(crate) use write::{new, write};
