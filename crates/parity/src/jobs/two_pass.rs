//! Bringing P and Q up to date as Linux does it: a pass over P and Q for the old data and another for the new, each doubling its way
//! down from the highest changed disk to disk 0. Only to be measured against.

use super::{add, double, load, store, zeros};
use crate::style::Style;
use crate::vector::{Job, Vector};

/// Adds `blocks`, which are the data disks `first..`, to P and Q.
pub(crate) struct AddInPasses<'a> {
    pub(crate) first: usize,
    pub(crate) blocks: &'a [&'a [u8]],
    pub(crate) p: &'a mut [u8],
    pub(crate) q: &'a mut [u8],
}

impl Job for AddInPasses<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        for at in (0..self.p.len()).step_by(LANES * V::BYTES) {
            // SAFETY: the caller's promise.
            unsafe {
                let (mut of_p, mut of_q) = (load::<V, LANES>(self.p, at), zeros::<V, LANES>());
                for block in self.blocks.iter().rev() {
                    let block = load::<V, LANES>(block, at);
                    double(&mut of_q);
                    add(&mut of_p, &block);
                    add(&mut of_q, &block);
                }
                for _ in 0..self.first {
                    double(&mut of_q);
                }
                add(&mut of_q, &load(self.q, at));
                store(&of_p, self.p, at);
                store(&of_q, self.q, at);
            }
        }
    }
}
