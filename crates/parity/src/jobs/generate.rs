//! Making P and Q from the data.

use super::{add, horner, load, store, sum_blocks, sums, zeros};
use crate::vector::{Job, Vector};

/// `dst += src`.
pub(crate) struct XorInto<'a> {
    pub(crate) dst: &'a mut [u8],
    pub(crate) src: &'a [u8],
}

impl Job for XorInto<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, const LANES: usize>(self) {
        for at in (0..self.src.len()).step_by(LANES * V::BYTES) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut sum = load::<V, LANES>(self.dst, at);
                add(&mut sum, &load(self.src, at));
                store(&sum, self.dst, at);
            }
        }
    }
}

/// `out` = the sum of all blocks: P, or one block from all the others and P.
pub(crate) struct Xor<'a> {
    pub(crate) blocks: &'a [&'a [u8]],
    pub(crate) out: &'a mut [u8],
}

impl Job for Xor<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, const LANES: usize>(self) {
        for at in (0..self.out.len()).step_by(LANES * V::BYTES) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut p = zeros::<V, LANES>();
                sum_blocks(&mut p, self.blocks, at);
                store(&p, self.out, at);
            }
        }
    }
}

/// P and Q of the data.
pub(crate) struct GenPq<'a> {
    pub(crate) data: &'a [&'a [u8]],
    pub(crate) p: &'a mut [u8],
    pub(crate) q: &'a mut [u8],
}

impl Job for GenPq<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, const LANES: usize>(self) {
        for at in (0..self.p.len()).step_by(LANES * V::BYTES) {
            // SAFETY: the caller's promise.
            unsafe {
                let (p, q) = sums::<V, LANES, true>(self.data, at);
                store(&p, self.p, at);
                store(&q, self.q, at);
            }
        }
    }
}

/// Q alone.
pub(crate) struct GenQ<'a> {
    pub(crate) data: &'a [&'a [u8]],
    pub(crate) q: &'a mut [u8],
}

impl Job for GenQ<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, const LANES: usize>(self) {
        for at in (0..self.q.len()).step_by(LANES * V::BYTES) {
            // SAFETY: the caller's promise.
            unsafe {
                let (mut unused, mut q) = (zeros::<V, LANES>(), zeros::<V, LANES>());
                horner::<V, LANES, false>(&mut unused, &mut q, self.data, at);
                store(&q, self.q, at);
            }
        }
    }
}
