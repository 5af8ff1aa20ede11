//! The algorithms, each written once over [`Vector`]: every byte is loaded once, whatever is summed stays in registers.
//!
//! Q by Horner's rule: from the highest data disk down, double the sum and add the block.
#![allow(unsafe_code)]

mod blocks;
mod check;
mod generate;
#[cfg(feature = "std")]
mod limit;
mod recover;
#[cfg(feature = "std")]
mod two_pass;
mod update;

pub(crate) use check::{CheckP, CheckPq, IsZero};
pub(crate) use generate::{GenPq, GenQ, Xor, XorInto};
#[cfg(feature = "std")]
pub(crate) use limit::{LimitGen, LimitUpdate};
pub(crate) use recover::{FromQ, Left, TwoLost};
#[cfg(feature = "std")]
pub(crate) use two_pass::AddInPasses;
pub(crate) use update::{Changes, highest_first};

use crate::vector::Vector;
use blocks::Blocks;

/// `LANES` registers' worth from an address.
#[inline(always)]
unsafe fn load_from<V: Vector, const LANES: usize>(from: *const u8) -> [V; LANES] {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes there.
    unsafe {
        let mut lanes = [V::zero(); LANES];
        for (lane, register) in lanes.iter_mut().enumerate() {
            *register = V::load(from.add(lane * V::BYTES));
        }
        lanes
    }
}

/// `LANES` registers' worth of a block.
#[inline(always)]
unsafe fn load<V: Vector, const LANES: usize>(block: &[u8], at: usize) -> [V; LANES] {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at`.
    unsafe { load_from(block.as_ptr().add(at)) }
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

/// [`store`], past the caches where `STREAM`; the block then starts at a multiple of `V::BYTES`.
#[inline(always)]
unsafe fn put<V: Vector, const STREAM: bool, const LANES: usize>(lanes: &[V; LANES], block: &mut [u8], at: usize) {
    // SAFETY: the caller has the instructions, LANES * V::BYTES bytes at `at`, and the alignment.
    unsafe {
        if STREAM {
            let to = block.as_mut_ptr().add(at);
            for (lane, register) in lanes.iter().enumerate() {
                register.stream(to.add(lane * V::BYTES));
            }
        } else {
            store(lanes, block, at);
        }
    }
}

/// Do the blocks start where streaming stores are possible?
#[inline(always)]
fn can_stream<V: Vector>(outputs: &[&[u8]]) -> bool {
    outputs.iter().all(|block| block.as_ptr().addr().is_multiple_of(V::BYTES))
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

/// The sum of all blocks.
#[inline(always)]
unsafe fn sum_of<V: Vector, B: Blocks + ?Sized, const LANES: usize>(blocks: &B, at: usize) -> [V; LANES] {
    let mut left = blocks.count();
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at` of every block.
    unsafe {
        let mut sum = zeros();
        if !left.is_multiple_of(2) {
            left -= 1;
            sum = load_from::<V, LANES>(blocks.start(left).add(at));
        }
        while left >= 2 {
            let (a, b) = (blocks.start(left - 1).add(at), blocks.start(left - 2).add(at));
            for (lane, register) in sum.iter_mut().enumerate() {
                let (a, b) = (V::load(a.add(lane * V::BYTES)), V::load(b.add(lane * V::BYTES)));
                *register = register.xor3(a, b);
            }
            left -= 2;
        }
        sum
    }
}

/// Goes on with Horner's rule for Q and, where `WITH_P`, with the sum for P, over the blocks `..left`, an even number, downwards.
#[inline(always)]
unsafe fn horner_pairs<V: Vector, B: Blocks + ?Sized, const WITH_P: bool, const LANES: usize>(
    p: &mut [V; LANES],
    q: &mut [V; LANES],
    blocks: &B,
    mut left: usize,
    at: usize,
) {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at` of every block.
    unsafe {
        while left >= 2 {
            let (high, low) = (blocks.start(left - 1).add(at), blocks.start(left - 2).add(at));
            for lane in 0..LANES {
                let (high, low) = (V::load(high.add(lane * V::BYTES)), V::load(low.add(lane * V::BYTES)));
                if WITH_P {
                    p[lane] = p[lane].xor3(high, low);
                }
                q[lane] = q[lane].mul4_xor2(high, low);
            }
            left -= 2;
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
        let mut left = blocks.len();
        if !left.is_multiple_of(2) {
            left -= 1;
            let block = load::<V, LANES>(blocks[left], at);
            for lane in 0..LANES {
                if WITH_P {
                    p[lane] = p[lane].xor(block[lane]);
                }
                q[lane] = q[lane].mul2_xor(block[lane]);
            }
        }
        horner_pairs::<V, _, WITH_P, LANES>(p, q, blocks, left, at);
    }
}

/// P's and Q's sums over all blocks; the highest one or two start them, so nothing is spent on doubling zero.
#[inline(always)]
unsafe fn sums<V: Vector, B: Blocks + ?Sized, const WITH_P: bool, const LANES: usize>(
    data: &B,
    at: usize,
) -> ([V; LANES], [V; LANES]) {
    let count = data.count();
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at` of every block.
    unsafe {
        if count == 0 {
            return (zeros(), zeros());
        }
        let mut p = load_from::<V, LANES>(data.start(count - 1).add(at));
        let mut q = p;
        let mut left = count - 1;
        if !left.is_multiple_of(2) {
            left -= 1;
            let next = data.start(left).add(at);
            for lane in 0..LANES {
                let block = V::load(next.add(lane * V::BYTES));
                q[lane] = q[lane].mul2_xor(block);
                p[lane] = p[lane].xor(block);
            }
        }
        horner_pairs::<V, B, WITH_P, LANES>(&mut p, &mut q, data, left, at);
        (p, q)
    }
}
