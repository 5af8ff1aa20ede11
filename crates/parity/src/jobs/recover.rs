//! Lost data from Q, or from P and Q. (From P alone it is [`super::Xor`].)

use super::{add, double, horner, load, scale, store, zeros};
use crate::field;
use crate::vector::{Job, Vector};

/// One lost data block from Q: what is missing from Q is 2^index times the block.
pub(crate) struct FromQ<'a> {
    /// The data below the lost block, so that its index is their number.
    pub(crate) below: &'a [&'a [u8]],
    pub(crate) above: &'a [&'a [u8]],
    pub(crate) q: &'a [u8],
    pub(crate) out: &'a mut [u8],
}

impl Job for FromQ<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, const LANES: usize>(self) {
        // SAFETY: the caller's promise.
        unsafe {
            let factor = V::factor(field::inverse_power_of_two(self.below.len()));
            for at in (0..self.out.len()).step_by(LANES * V::BYTES) {
                let (mut unused, mut sum) = (zeros::<V, LANES>(), zeros::<V, LANES>());
                horner::<V, LANES, false>(&mut unused, &mut sum, self.above, at);
                double(&mut sum);
                horner::<V, LANES, false>(&mut unused, &mut sum, self.below, at);
                add(&mut sum, &load(self.q, at));
                scale(&mut sum, factor);
                store(&sum, self.out, at);
            }
        }
    }
}

/// Two lost data blocks from P and Q; see [`field::two_lost_factors`].
pub(crate) struct TwoData<'a> {
    /// The data below the lower lost block, so that its index is their number.
    pub(crate) below: &'a [&'a [u8]],
    pub(crate) between: &'a [&'a [u8]],
    pub(crate) above: &'a [&'a [u8]],
    pub(crate) p: &'a [u8],
    pub(crate) q: &'a [u8],
    pub(crate) out_low: &'a mut [u8],
    pub(crate) out_high: &'a mut [u8],
}

impl Job for TwoData<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, const LANES: usize>(self) {
        let low = self.below.len();
        let (of_p, of_q) = field::two_lost_factors(low, low + 1 + self.between.len());
        // SAFETY: the caller's promise.
        unsafe {
            let (of_p, of_q) = (V::factor(of_p), V::factor(of_q));
            for at in (0..self.p.len()).step_by(LANES * V::BYTES) {
                let (mut p, mut q) = (load::<V, LANES>(self.p, at), zeros::<V, LANES>());
                horner::<V, LANES, true>(&mut p, &mut q, self.above, at);
                double(&mut q);
                horner::<V, LANES, true>(&mut p, &mut q, self.between, at);
                double(&mut q);
                horner::<V, LANES, true>(&mut p, &mut q, self.below, at);
                add(&mut q, &load(self.q, at));
                scale(&mut q, of_q);
                let both = p;
                scale(&mut p, of_p);
                add(&mut p, &q);
                store(&p, self.out_low, at);
                add(&mut p, &both);
                store(&p, self.out_high, at);
            }
        }
    }
}
