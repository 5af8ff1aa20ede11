//! Comparing with what is stored, without storing anything: the differences are gathered in one register.

use super::blocks::{Blocks, by_count};
use super::{load, sum_of, sums};
use crate::style::Style;
use crate::vector::{Job, Vector};

/// How often a check looks whether the answer is known already.
const LOOK_BYTES: usize = 32 << 10;

/// Gathers in `difference` where the two are not equal.
#[inline(always)]
unsafe fn gather<V: Vector, const LANES: usize>(difference: &mut V, computed: &[V; LANES], stored: &[V; LANES]) {
    for lane in 0..LANES {
        // SAFETY: the caller has the instructions.
        *difference = unsafe { difference.or(computed[lane].xor(stored[lane])) };
    }
}

/// Is P the sum of the data?
pub(crate) struct CheckP<'a> {
    pub(crate) data: &'a [&'a [u8]],
    pub(crate) p: &'a [u8],
}

impl Job for CheckP<'_> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { is_p::<V, LANES>(self.data, self.p) }
    }
}

#[inline(always)]
unsafe fn is_p<V: Vector, const LANES: usize>(data: &[&[u8]], stored: &[u8]) -> bool {
    for start in (0..stored.len()).step_by(LOOK_BYTES) {
        let end = stored.len().min(start + LOOK_BYTES);
        // SAFETY: the caller's promise; every look starts at a multiple of the unit.
        unsafe {
            let mut difference = V::zero();
            for at in (start..end).step_by(LANES * V::BYTES) {
                gather::<V, LANES>(&mut difference, &sum_of(data, at), &load(stored, at));
            }
            if !difference.is_zero() {
                return false;
            }
        }
    }
    true
}

/// Which of P and Q are not those of the data?
pub(crate) struct CheckPq<'a> {
    pub(crate) data: &'a [&'a [u8]],
    pub(crate) p: &'a [u8],
    pub(crate) q: &'a [u8],
}

impl Job for CheckPq<'_> {
    type Output = crate::Differs;

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) -> crate::Differs {
        // SAFETY: the caller's promise.
        unsafe { by_count!(S, self.data, |data| are_pq::<V, _, LANES>(data, self.p, self.q)) }
    }
}

#[inline(always)]
unsafe fn are_pq<V: Vector, B: Blocks + ?Sized, const LANES: usize>(
    data: &B,
    stored_p: &[u8],
    stored_q: &[u8],
) -> crate::Differs {
    let mut differs = crate::Differs::default();
    for start in (0..stored_p.len()).step_by(LOOK_BYTES) {
        let end = stored_p.len().min(start + LOOK_BYTES);
        // SAFETY: the caller's promise; every look starts at a multiple of the unit.
        unsafe {
            let (mut of_p, mut of_q) = (V::zero(), V::zero());
            for at in (start..end).step_by(LANES * V::BYTES) {
                let (p, q) = sums::<V, B, true, LANES>(data, at);
                gather(&mut of_p, &p, &load(stored_p, at));
                gather(&mut of_q, &q, &load(stored_q, at));
            }
            differs.p |= !of_p.is_zero();
            differs.q |= !of_q.is_zero();
        }
        if differs.p && differs.q {
            break;
        }
    }
    differs
}

/// Is every byte 0?
pub(crate) struct IsZero<'a> {
    pub(crate) block: &'a [u8],
}

impl Job for IsZero<'_> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) -> bool {
        // Blocks that are not zero mostly show it early: look once a unit.
        for start in (0..self.block.len()).step_by(crate::UNIT_BYTES) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut seen = V::zero();
                for at in (start..start + crate::UNIT_BYTES).step_by(LANES * V::BYTES) {
                    for register in load::<V, LANES>(self.block, at) {
                        seen = seen.or(register);
                    }
                }
                if !seen.is_zero() {
                    return false;
                }
            }
        }
        true
    }
}
