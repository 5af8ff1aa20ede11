//! The algorithms, each written once over [`Vector`]: every byte is loaded once, whatever is summed stays in registers.
//!
//! Q by Horner's rule: from the highest data disk down, double the sum and add the block.
#![allow(unsafe_code)]

mod check;
mod generate;
mod recover;
mod update;

pub(crate) use check::{CheckP, CheckPq, IsZero};
pub(crate) use generate::{GenPq, GenQ, Xor, XorInto};
pub(crate) use recover::{FromQ, TwoData};
pub(crate) use update::{Changes, highest_first};

use crate::vector::Vector;

/// `LANES` registers' worth of a block.
#[inline(always)]
unsafe fn load<V: Vector, const LANES: usize>(block: &[u8], at: usize) -> [V; LANES] {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at`.
    unsafe {
        let from = block.as_ptr().add(at);
        let mut lanes = [V::zero(); LANES];
        for (lane, register) in lanes.iter_mut().enumerate() {
            *register = V::load(from.add(lane * V::BYTES));
        }
        lanes
    }
}

#[inline(always)]
unsafe fn store<V: Vector, const LANES: usize>(lanes: &[V; LANES], block: &mut [u8], at: usize) {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at`.
    unsafe {
        let to = block.as_mut_ptr().add(at);
        for (lane, register) in lanes.iter().enumerate() {
            register.store(to.add(lane * V::BYTES));
        }
    }
}

#[inline(always)]
unsafe fn zeros<V: Vector, const LANES: usize>() -> [V; LANES] {
    // SAFETY: the caller has the instructions.
    unsafe { [V::zero(); LANES] }
}

/// `sum += block`.
#[inline(always)]
unsafe fn add<V: Vector, const LANES: usize>(sum: &mut [V; LANES], block: &[V; LANES]) {
    for lane in 0..LANES {
        // SAFETY: the caller has the instructions.
        sum[lane] = unsafe { sum[lane].xor(block[lane]) };
    }
}

/// `sum *= constant`.
#[inline(always)]
unsafe fn scale<V: Vector, const LANES: usize>(sum: &mut [V; LANES], factor: V::Factor) {
    for register in sum {
        // SAFETY: the caller has the instructions.
        *register = unsafe { register.mul(factor) };
    }
}

/// `sum *= 2`.
#[inline(always)]
unsafe fn double<V: Vector, const LANES: usize>(sum: &mut [V; LANES]) {
    for register in sum {
        // SAFETY: the caller has the instructions.
        *register = unsafe { register.mul2() };
    }
}

/// `sum *= 2^exponent`, the cheaper way.
#[inline(always)]
unsafe fn scale_by_power<V: Vector, const LANES: usize>(sum: &mut [V; LANES], exponent: usize) {
    // SAFETY: the caller has the instructions.
    unsafe {
        if exponent <= V::MUL_WORTH {
            for _ in 0..exponent {
                double(sum);
            }
        } else {
            scale(sum, V::factor(crate::field::power_of_two(exponent)));
        }
    }
}

/// Adds all blocks to `p`.
#[inline(always)]
unsafe fn sum_blocks<V: Vector, const LANES: usize>(p: &mut [V; LANES], blocks: &[&[u8]], at: usize) {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at` of every block.
    unsafe {
        let (pairs, rest) = blocks.as_chunks::<2>();
        for [a, b] in pairs {
            let (a, b) = (load::<V, LANES>(a, at), load::<V, LANES>(b, at));
            for lane in 0..LANES {
                p[lane] = p[lane].xor3(a[lane], b[lane]);
            }
        }
        if let [last] = rest {
            add(p, &load(last, at));
        }
    }
}

/// Goes on with Horner's rule for Q and, where `WITH_P`, with the sum for P, from the last block to the first.
#[inline(always)]
unsafe fn horner<V: Vector, const LANES: usize, const WITH_P: bool>(
    p: &mut [V; LANES],
    q: &mut [V; LANES],
    blocks: &[&[u8]],
    at: usize,
) {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at` of every block.
    unsafe {
        let (rest, pairs) = blocks.as_rchunks::<2>();
        for [low, high] in pairs.iter().rev() {
            let (low, high) = (load::<V, LANES>(low, at), load::<V, LANES>(high, at));
            for lane in 0..LANES {
                if WITH_P {
                    p[lane] = p[lane].xor3(high[lane], low[lane]);
                }
                q[lane] = q[lane].mul4_xor2(high[lane], low[lane]);
            }
        }
        if let [first] = rest {
            let first = load::<V, LANES>(first, at);
            for lane in 0..LANES {
                if WITH_P {
                    p[lane] = p[lane].xor(first[lane]);
                }
                q[lane] = q[lane].mul2_xor(first[lane]);
            }
        }
    }
}

/// P's and Q's sums over all blocks; the highest starts them, so nothing is spent on doubling zero.
#[inline(always)]
unsafe fn sums<V: Vector, const LANES: usize, const WITH_P: bool>(data: &[&[u8]], at: usize) -> ([V; LANES], [V; LANES]) {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at` of every block.
    unsafe {
        let Some((highest, others)) = data.split_last() else {
            return (zeros(), zeros());
        };
        let mut q = load::<V, LANES>(highest, at);
        let mut p = q;
        horner::<V, LANES, WITH_P>(&mut p, &mut q, others, at);
        (p, q)
    }
}
