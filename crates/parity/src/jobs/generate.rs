//! Making P and Q from the data.

use super::blocks::{Blocks, by_count};
use super::{add, can_stream, load, put, store, sum_of, sums};
use crate::style::Style;
use crate::vector::{Job, Vector};

/// `dst += src`.
pub(crate) struct XorInto<'a> {
    pub(crate) dst: &'a mut [u8],
    pub(crate) src: &'a [u8],
}

impl Job for XorInto<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
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
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        // SAFETY: the caller's promise, and that of `can_stream`.
        unsafe {
            if S::STREAMING && can_stream::<V>(&[self.out]) {
                by_count!(S, self.blocks, |blocks| write_sum::<V, _, true, LANES>(blocks, self.out));
                V::fence();
            } else {
                by_count!(S, self.blocks, |blocks| write_sum::<V, _, false, LANES>(blocks, self.out));
            }
        }
    }
}

#[inline(always)]
unsafe fn write_sum<V: Vector, B: Blocks + ?Sized, const STREAM: bool, const LANES: usize>(blocks: &B, out: &mut [u8]) {
    for at in (0..out.len()).step_by(LANES * V::BYTES) {
        // SAFETY: the caller's promise.
        unsafe { put::<V, STREAM, LANES>(&sum_of(blocks, at), out, at) };
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
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        // SAFETY: the caller's promise, and that of `can_stream`.
        unsafe {
            if S::STREAMING && can_stream::<V>(&[self.p, self.q]) {
                by_count!(S, self.data, |data| write_pq::<V, _, true, LANES>(data, self.p, self.q));
                V::fence();
            } else {
                by_count!(S, self.data, |data| write_pq::<V, _, false, LANES>(data, self.p, self.q));
            }
        }
    }
}

#[inline(always)]
unsafe fn write_pq<V: Vector, B: Blocks + ?Sized, const STREAM: bool, const LANES: usize>(
    data: &B,
    to_p: &mut [u8],
    to_q: &mut [u8],
) {
    for at in (0..to_p.len()).step_by(LANES * V::BYTES) {
        // SAFETY: the caller's promise.
        unsafe {
            let (p, q) = sums::<V, B, true, LANES>(data, at);
            put::<V, STREAM, LANES>(&p, to_p, at);
            put::<V, STREAM, LANES>(&q, to_q, at);
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
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        // SAFETY: the caller's promise, and that of `can_stream`.
        unsafe {
            if S::STREAMING && can_stream::<V>(&[self.q]) {
                write_q::<V, true, LANES>(self.data, self.q);
                V::fence();
            } else {
                write_q::<V, false, LANES>(self.data, self.q);
            }
        }
    }
}

#[inline(always)]
unsafe fn write_q<V: Vector, const STREAM: bool, const LANES: usize>(data: &[&[u8]], to_q: &mut [u8]) {
    for at in (0..to_q.len()).step_by(LANES * V::BYTES) {
        // SAFETY: the caller's promise.
        unsafe {
            let (_, q) = sums::<V, [&[u8]], false, LANES>(data, at);
            put::<V, STREAM, LANES>(&q, to_q, at);
        }
    }
}
