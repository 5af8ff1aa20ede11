//! What is left of the data, side by side, on the stack.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

use crate::MAX_DATA_DISKS;

/// The blocks that are there, in syndrome order without gaps, and the places of those that are not.
pub(crate) struct Present<'a> {
    /// Room for a parity block too. Not filled beforehand: that would take as long as a small block's recovery.
    blocks: [MaybeUninit<&'a [u8]>; MAX_DATA_DISKS + 1],
    /// So many of them, from the start, are there.
    count: usize,
    lost: [usize; 2],
    lost_count: usize,
}

impl<'a> Present<'a> {
    #[track_caller]
    pub(crate) fn new(data: &[Option<&'a [u8]>]) -> Present<'a> {
        crate::assert_count(data.len());
        let mut present = Present { blocks: [MaybeUninit::uninit(); MAX_DATA_DISKS + 1], count: 0, lost: [0; 2], lost_count: 0 };
        for (index, block) in data.iter().enumerate() {
            match block {
                Some(block) => present.push(block),
                None => {
                    if let Some(place) = present.lost.get_mut(present.lost_count) {
                        *place = index;
                    }
                    present.lost_count += 1;
                }
            }
        }
        present
    }

    fn push(&mut self, block: &'a [u8]) {
        self.blocks[self.count].write(block);
        self.count += 1;
    }

    /// The places of the lost blocks, ascending. Panics unless there are exactly `N`.
    #[track_caller]
    pub(crate) fn lost<const N: usize>(&self) -> [usize; N] {
        assert!(self.lost_count == N, "this recovers {N} lost data blocks, not {}", self.lost_count);
        core::array::from_fn(|i| self.lost[i])
    }

    pub(crate) fn blocks(&self) -> &[&'a [u8]] {
        // SAFETY: `push` wrote the first `count`, and MaybeUninit has the layout of what it holds.
        unsafe { core::slice::from_raw_parts(self.blocks.as_ptr().cast(), self.count) }
    }

    /// The blocks with a parity block behind them.
    pub(crate) fn with(&mut self, parity: &'a [u8]) -> &[&'a [u8]] {
        self.push(parity);
        self.blocks()
    }
}
