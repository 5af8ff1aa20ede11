//! Lost blocks from what is left, each set of them in one pass. (One data block from P alone is [`super::Xor`].)
//!
//! Where multiplication is one instruction every block gets the coefficient with which it enters the result, so that the order
//! does not matter and nothing waits for anything; elsewhere Horner's rule, and multiplication once at its end.

use super::blocks::{Blocks, by_count};
use super::{add, can_stream, double, horner, load, put, scale, zeros};
use crate::style::Style;
use crate::vector::{Job, Vector};
use crate::{MAX_DATA_DISKS, field};

/// The data that is left, side by side, and where the gaps are.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    pub(crate) blocks: &'a [&'a [u8]],
    /// The syndrome index of the lost block, and of the second one if there is one.
    pub(crate) low: usize,
    pub(crate) high: Option<usize>,
}

impl<'a> Left<'a> {
    /// Below, between and above the two lost blocks; with one lost, what is above it counts as between.
    #[inline(always)]
    fn parts(self) -> [&'a [&'a [u8]]; 3] {
        let (below, rest) = self.blocks.split_at(self.low);
        let (between, above) = rest.split_at(self.high.map_or(rest.len(), |high| high - self.low - 1));
        [below, between, above]
    }

    /// The coefficient of each of the `count` blocks when `of_sum` times their sum and `of_q`, which is not 0, times their part of Q
    /// is wanted.
    #[inline(always)]
    fn coefficients(self, count: usize, of_sum: u8, of_q: u8) -> [u8; MAX_DATA_DISKS] {
        let mut coefficients = [0; MAX_DATA_DISKS];
        let exponent = field::logarithm(of_q);
        let first_above = self.high.map_or(usize::MAX, |high| high - 1);
        for (number, coefficient) in coefficients[..count].iter_mut().enumerate() {
            let index = number + usize::from(number >= self.low) + usize::from(number >= first_above);
            *coefficient = of_sum ^ field::power_of_two(exponent + index);
        }
        coefficients
    }
}

/// One lost data block from Q: what is missing from Q is 2^index times the block.
pub(crate) struct FromQ<'a> {
    pub(crate) left: Left<'a>,
    pub(crate) q: &'a [u8],
    pub(crate) out: &'a mut [u8],
}

impl Job for FromQ<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        // SAFETY: the caller's promise, and that of `can_stream`.
        unsafe {
            if S::STREAMING && can_stream::<V>(&[self.out]) {
                self.go::<V, true, LANES>();
                V::fence();
            } else {
                self.go::<V, false, LANES>();
            }
        }
    }
}

impl FromQ<'_> {
    #[inline(always)]
    unsafe fn go<V: Vector, const STREAM: bool, const LANES: usize>(self) {
        let FromQ { left, q, out } = self;
        let of_q = field::inverse_power_of_two(left.low);
        // SAFETY: the caller's promise.
        unsafe {
            let factor = V::factor(of_q);
            if V::MUL_WORTH == 1 {
                let coefficients = left.coefficients(left.blocks.len(), 0, of_q);
                for at in (0..out.len()).step_by(LANES * V::BYTES) {
                    let (mut unused, mut sum) = (zeros(), load::<V, LANES>(q, at));
                    scale(&mut sum, factor);
                    add_products::<V, _, false, LANES>(&mut unused, &mut sum, left.blocks, &coefficients, at);
                    put::<V, STREAM, LANES>(&sum, out, at);
                }
                return;
            }
            let [below, above, _] = left.parts();
            for at in (0..out.len()).step_by(LANES * V::BYTES) {
                let (mut unused, mut sum) = (zeros::<V, LANES>(), zeros::<V, LANES>());
                horner::<V, LANES, false>(&mut unused, &mut sum, above, at);
                double(&mut sum);
                horner::<V, LANES, false>(&mut unused, &mut sum, below, at);
                add(&mut sum, &load(q, at));
                scale(&mut sum, factor);
                put::<V, STREAM, LANES>(&sum, out, at);
            }
        }
    }
}

/// Adds every block to `sum`, where `WITH_SUM`, and its product with its coefficient to `products`.
#[inline(always)]
unsafe fn add_products<V: Vector, B: Blocks + ?Sized, const WITH_SUM: bool, const LANES: usize>(
    sum: &mut [V; LANES],
    products: &mut [V; LANES],
    blocks: &B,
    coefficients: &[u8; MAX_DATA_DISKS],
    at: usize,
) {
    // SAFETY: the caller has the instructions, and LANES * V::BYTES bytes at `at` of every block.
    unsafe {
        // Downwards, as everything else goes: upwards the compiler keeps every coefficient in a register, and spills.
        let mut left = blocks.count();
        if !left.is_multiple_of(2) {
            left -= 1;
            let (a, of_a) = (blocks.start(left).add(at), V::factor(coefficients[left]));
            for lane in 0..LANES {
                let a = V::load(a.add(lane * V::BYTES));
                if WITH_SUM {
                    sum[lane] = sum[lane].xor(a);
                }
                products[lane] = products[lane].xor(a.mul(of_a));
            }
        }
        while left >= 2 {
            left -= 2;
            let (a, b) = (blocks.start(left + 1).add(at), blocks.start(left).add(at));
            let (of_a, of_b) = (V::factor(coefficients[left + 1]), V::factor(coefficients[left]));
            for lane in 0..LANES {
                let (a, b) = (V::load(a.add(lane * V::BYTES)), V::load(b.add(lane * V::BYTES)));
                if WITH_SUM {
                    sum[lane] = sum[lane].xor3(a, b);
                }
                products[lane] = products[lane].xor3(a.mul(of_a), b.mul(of_b));
            }
        }
    }
}

/// Two lost blocks, at least one of them data.
///
/// With S the sum of the data that is left and of P, and T the data's part of Q and Q itself, P and Q where they are there: the first
/// result is `of_sum` S + `of_q` T, the second is S, or S and the first result together.
pub(crate) struct TwoLost<'a> {
    pub(crate) left: Left<'a>,
    pub(crate) p: Option<&'a [u8]>,
    pub(crate) q: Option<&'a [u8]>,
    of_sum: u8,
    of_q: u8,
    add_first: bool,
    pub(crate) first: &'a mut [u8],
    pub(crate) second: &'a mut [u8],
}

impl<'a> TwoLost<'a> {
    /// Two data blocks from P and Q; see [`field::two_lost_factors`]. `left` has two gaps.
    pub(crate) fn two_data(
        blocks: &'a [&'a [u8]],
        [low, high]: [usize; 2],
        (p, q): (&'a [u8], &'a [u8]),
        (out_low, out_high): (&'a mut [u8], &'a mut [u8]),
    ) -> Self {
        let (of_sum, of_q) = field::two_lost_factors(low, high);
        let left = Left { blocks, low, high: Some(high) };
        TwoLost { left, p: Some(p), q: Some(q), of_sum, of_q, add_first: true, first: out_low, second: out_high }
    }

    /// A data block and P, from Q: the block as in [`FromQ`], and P is the sum of the data with it.
    pub(crate) fn data_and_p(
        blocks: &'a [&'a [u8]],
        lost: usize,
        q: &'a [u8],
        (out, out_p): (&'a mut [u8], &'a mut [u8]),
    ) -> Self {
        let left = Left { blocks, low: lost, high: None };
        let of_q = field::inverse_power_of_two(lost);
        TwoLost { left, p: None, q: Some(q), of_sum: 0, of_q, add_first: true, first: out, second: out_p }
    }

    /// A data block and Q, from P: the block is S, and Q the data's part of it and 2^lost S.
    pub(crate) fn data_and_q(
        blocks: &'a [&'a [u8]],
        lost: usize,
        p: &'a [u8],
        (out, out_q): (&'a mut [u8], &'a mut [u8]),
    ) -> Self {
        let left = Left { blocks, low: lost, high: None };
        let of_sum = field::power_of_two(lost);
        TwoLost { left, p: Some(p), q: None, of_sum, of_q: 1, add_first: false, first: out_q, second: out }
    }
}

impl Job for TwoLost<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        // SAFETY: the caller's promise, and that of `can_stream`.
        unsafe {
            if S::STREAMING && can_stream::<V>(&[self.first, self.second]) {
                self.go::<V, S, true, LANES>();
                V::fence();
            } else {
                self.go::<V, S, false, LANES>();
            }
        }
    }
}

impl TwoLost<'_> {
    #[inline(always)]
    unsafe fn go<V: Vector, S: Style, const STREAM: bool, const LANES: usize>(self) {
        // SAFETY: the caller's promise.
        unsafe {
            if V::MUL_WORTH == 1 {
                let blocks = self.left.blocks;
                match (self.p, self.q) {
                    // Two data disks are the common case: that one has loops by the number of disks.
                    (Some(_), Some(_)) => by_count!(S, blocks, |blocks| {
                        self.by_products::<V, _, true, true, STREAM, LANES>(blocks);
                    }),
                    (Some(_), None) => self.by_products::<V, _, true, false, STREAM, LANES>(blocks),
                    _ => self.by_products::<V, _, false, true, STREAM, LANES>(blocks),
                }
            } else {
                self.by_horner::<V, STREAM, LANES>();
            }
        }
    }

    #[inline(always)]
    unsafe fn by_products<V: Vector, B: Blocks + ?Sized, const P: bool, const Q: bool, const STREAM: bool, const LANES: usize>(
        self,
        blocks: &B,
    ) {
        let coefficients = self.left.coefficients(blocks.count(), self.of_sum, self.of_q);
        // SAFETY: the caller's promise.
        unsafe {
            let (of_sum, of_q) = (V::factor(self.of_sum), V::factor(self.of_q));
            let (p, q) = (self.p.unwrap_or_default(), self.q.unwrap_or_default());
            for at in (0..self.first.len()).step_by(LANES * V::BYTES) {
                let (mut sum, mut products) = (zeros::<V, LANES>(), zeros::<V, LANES>());
                if P {
                    sum = load(p, at);
                    products = sum;
                    scale(&mut products, of_sum);
                }
                if Q {
                    let mut q = load(q, at);
                    scale(&mut q, of_q);
                    add(&mut products, &q);
                }
                add_products::<V, B, true, LANES>(&mut sum, &mut products, blocks, &coefficients, at);
                put::<V, STREAM, LANES>(&products, self.first, at);
                if self.add_first {
                    add(&mut sum, &products);
                }
                put::<V, STREAM, LANES>(&sum, self.second, at);
            }
        }
    }

    #[inline(always)]
    unsafe fn by_horner<V: Vector, const STREAM: bool, const LANES: usize>(self) {
        let [below, between, above] = self.left.parts();
        // SAFETY: the caller's promise.
        unsafe {
            let (of_sum, of_q) = (V::factor(self.of_sum), V::factor(self.of_q));
            for at in (0..self.first.len()).step_by(LANES * V::BYTES) {
                let (mut sum, mut products) = (zeros::<V, LANES>(), zeros::<V, LANES>());
                horner::<V, LANES, true>(&mut sum, &mut products, above, at);
                double(&mut products);
                horner::<V, LANES, true>(&mut sum, &mut products, between, at);
                double(&mut products);
                horner::<V, LANES, true>(&mut sum, &mut products, below, at);
                if let Some(p) = self.p {
                    add(&mut sum, &load(p, at));
                }
                if let Some(q) = self.q {
                    add(&mut products, &load(q, at));
                }
                scale(&mut products, of_q);
                let mut share = sum;
                scale(&mut share, of_sum);
                add(&mut products, &share);
                put::<V, STREAM, LANES>(&products, self.first, at);
                if self.add_first {
                    add(&mut sum, &products);
                }
                put::<V, STREAM, LANES>(&sum, self.second, at);
            }
        }
    }
}
