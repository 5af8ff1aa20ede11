//! What no kernel can beat: the same loads and stores as a job's, and of the arithmetic only the XORs of P.

use super::blocks::{Blocks, by_count};
use super::{add, can_stream, load, put, store, sum_of};
use crate::style::Style;
use crate::vector::{Job, Vector};

/// Sums `blocks` and writes the sum to both outputs: the traffic of making P and Q, or of recovering two blocks.
pub(crate) struct LimitGen<'a> {
    pub(crate) blocks: &'a [&'a [u8]],
    pub(crate) outputs: [&'a mut [u8]; 2],
}

impl Job for LimitGen<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        let [a, b] = self.outputs;
        // SAFETY: the caller's promise, and that of `can_stream`.
        unsafe {
            if S::STREAMING && can_stream::<V>(&[a, b]) {
                by_count!(S, self.blocks, |blocks| write_twice::<V, _, true, LANES>(blocks, a, b));
                V::fence();
            } else {
                by_count!(S, self.blocks, |blocks| write_twice::<V, _, false, LANES>(blocks, a, b));
            }
        }
    }
}

#[inline(always)]
unsafe fn write_twice<V: Vector, B: Blocks + ?Sized, const STREAM: bool, const LANES: usize>(
    blocks: &B,
    a: &mut [u8],
    b: &mut [u8],
) {
    for at in (0..a.len()).step_by(LANES * V::BYTES) {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = sum_of(blocks, at);
            put::<V, STREAM, LANES>(&sum, a, at);
            put::<V, STREAM, LANES>(&sum, b, at);
        }
    }
}

/// Adds the sum of `blocks` to both parities: the traffic of bringing P and Q up to date.
pub(crate) struct LimitUpdate<'a> {
    pub(crate) blocks: &'a [&'a [u8]],
    pub(crate) p: &'a mut [u8],
    pub(crate) q: &'a mut [u8],
}

impl Job for LimitUpdate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        // SAFETY: the caller's promise.
        unsafe { add_twice::<V, LANES>(self.blocks, self.p, self.q) }
    }
}

#[inline(always)]
unsafe fn add_twice<V: Vector, const LANES: usize>(blocks: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    for at in (0..p.len()).step_by(LANES * V::BYTES) {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = sum_of(blocks, at);
            for parity in [&mut *p, &mut *q] {
                let mut total = load::<V, LANES>(parity, at);
                add(&mut total, &sum);
                store(&total, parity, at);
            }
        }
    }
}
