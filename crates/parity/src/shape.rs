//! Numbers of disks and lengths of blocks that share a winner.

use crate::Operation;
use crate::memory::{is_beyond_cache, last_cache_bytes};

/// A class of block lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Up to two pages.
    Page,
    /// Up to 128 KiB.
    Chunk,
    /// Longer, while some cache holds all blocks of the call.
    Large,
    /// All blocks of the call together are more than that.
    BeyondCache,
}

/// The length that stands for [`Length::Page`]; the kernel's own figure is taken with it.
const PAGE_BYTES: usize = 4 << 10;
const LONGEST_PAGE_BYTES: usize = 8 << 10;
const CHUNK_BYTES: usize = 64 << 10;
const LONGEST_CHUNK_BYTES: usize = 128 << 10;
const LARGE_BYTES: usize = 512 << 10;

/// Numbers of disks: the most in a class, and the one that stands for it. Few disks make the most difference.
const DISKS: [(usize, usize); 15] = [
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 4),
    (5, 5),
    (6, 6),
    (7, 7),
    (8, 8),
    (10, 10),
    (12, 12),
    (14, 14),
    (16, 16),
    (32, 24),
    (64, 48),
    (usize::MAX, 128),
];

/// How many shapes there are.
pub(crate) const CELLS: usize = DISKS.len() * 4;

/// A class of calls, and what is measured for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    class: usize,
    pub(crate) length: Length,
    /// The data disks that are tried; for an update those that change.
    pub(crate) disks: usize,
    pub(crate) len_bytes: usize,
}

impl Shape {
    /// The shape of a call with so many data disks, or changed ones, and blocks of that length.
    pub(crate) fn of(operation: Operation, disks: usize, len_bytes: usize) -> Shape {
        let disks = if operation.is_of_one_block() { 1 } else { disks };
        // Recovery and checks of two disks are the least that all can be tried on.
        let disks = if operation == Operation::RecoverTwoData { disks.max(2) } else { disks };
        let class = DISKS.iter().take_while(|(most, _)| *most < disks).count();
        let length = if len_bytes <= LONGEST_PAGE_BYTES {
            Length::Page
        } else if is_beyond_cache(touched_blocks(operation, disks).saturating_mul(len_bytes)) {
            Length::BeyondCache
        } else if len_bytes <= LONGEST_CHUNK_BYTES {
            Length::Chunk
        } else {
            Length::Large
        };
        Shape { class, length, disks: DISKS[class].1, len_bytes: 0 }.with_length(length)
    }

    /// The same disks with blocks of another class.
    pub(crate) fn with_length(self, length: Length) -> Shape {
        let most = last_cache_bytes() / (2 * (self.disks + 2));
        let len_bytes = match length {
            Length::Page => PAGE_BYTES,
            Length::Chunk => CHUNK_BYTES,
            Length::Large => LARGE_BYTES.min(most),
            // As much as the cache, others' share of it included, so that next to nothing is left of the last pass.
            Length::BeyondCache => last_cache_bytes() / (self.disks + 2),
        };
        Shape { length, len_bytes: len_bytes.next_multiple_of(PAGE_BYTES), ..self }
    }

    /// Its number, less than [`CELLS`].
    pub(crate) fn cell(self) -> usize {
        self.class * 4 + self.length as usize
    }
}

/// Blocks that a call reads or writes.
fn touched_blocks(operation: Operation, disks: usize) -> usize {
    match operation {
        Operation::Update => 2 * disks + 2,
        _ => disks + 2,
    }
}
