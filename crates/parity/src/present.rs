//! What is left of the data, side by side, on the stack.

use crate::MAX_DATA_DISKS;

/// The blocks that are there, in syndrome order without gaps, and the places of those that are not.
pub(crate) struct Present<'a> {
    /// Room for a parity block too.
    blocks: [&'a [u8]; MAX_DATA_DISKS + 1],
    count: usize,
    lost: [usize; 2],
    lost_count: usize,
}

impl<'a> Present<'a> {
    #[track_caller]
    pub(crate) fn new(data: &[Option<&'a [u8]>]) -> Present<'a> {
        crate::assert_count(data.len());
        let mut present = Present { blocks: [&[]; MAX_DATA_DISKS + 1], count: 0, lost: [0; 2], lost_count: 0 };
        for (index, block) in data.iter().enumerate() {
            match block {
                Some(block) => {
                    present.blocks[present.count] = block;
                    present.count += 1;
                }
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

    /// The places of the lost blocks, ascending. Panics unless there are exactly `N`.
    #[track_caller]
    pub(crate) fn lost<const N: usize>(&self) -> [usize; N] {
        assert!(self.lost_count == N, "this recovers {N} lost data blocks, not {}", self.lost_count);
        core::array::from_fn(|i| self.lost[i])
    }

    pub(crate) fn blocks(&self) -> &[&'a [u8]] {
        &self.blocks[..self.count]
    }

    /// The blocks with a parity block behind them.
    pub(crate) fn with(&mut self, parity: &'a [u8]) -> &[&'a [u8]] {
        self.blocks[self.count] = parity;
        &self.blocks[..=self.count]
    }
}
