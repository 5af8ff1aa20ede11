//! What an instruction set must offer; every algorithm is written once over this.
#![allow(unsafe_code)]

use crate::style::Style;

/// A register full of bytes.
///
/// # Safety
/// Every method is for processors with the instructions that the type stands for; the callers get that from
/// [`InstructionSet::run`]. `load` and `store` touch exactly `BYTES` bytes, at any alignment.
pub(crate) trait Vector: Copy {
    /// Bytes in a register.
    const BYTES: usize;

    /// How many multiplications by 2 cost as much as one [`Vector::mul`].
    const MUL_WORTH: usize;

    /// A constant made ready for [`Vector::mul`].
    type Factor: Copy;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// [`Vector::store`] past the caches, to a multiple of `BYTES`; before anyone else may read it, [`Vector::fence`].
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.store(to) }
    }
    /// Makes what was streamed visible to others in order.
    #[inline(always)]
    unsafe fn fence() {}
    unsafe fn is_zero(self) -> bool;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// 2 * self in every byte.
    unsafe fn mul2(self) -> Self;
    unsafe fn factor(constant: u8) -> Self::Factor;
    unsafe fn mul(self, factor: Self::Factor) -> Self;

    /// `self + a + b`.
    #[inline(always)]
    unsafe fn xor3(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise is the same.
        unsafe { self.xor(a).xor(b) }
    }

    /// `2 * self + a`: one step of Horner's rule.
    #[inline(always)]
    unsafe fn mul2_xor(self, a: Self) -> Self {
        // SAFETY: the caller's promise is the same.
        unsafe { self.mul2().xor(a) }
    }

    /// `4 * self + 2 * a + b`: two steps of Horner's rule.
    #[inline(always)]
    unsafe fn mul4_xor2(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise is the same.
        unsafe { self.mul2_xor(a).mul2_xor(b) }
    }
}

/// A piece of work over blocks of equal length, a multiple of [`crate::UNIT_BYTES`].
pub(crate) trait Job {
    /// What comes out beside what is written.
    type Output;

    /// Does it with `LANES` registers abreast; `LANES * V::BYTES` divides [`crate::UNIT_BYTES`].
    ///
    /// # Safety
    /// The processor has `V`'s instructions, and all blocks of the job have one length, a multiple of
    /// [`crate::UNIT_BYTES`].
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) -> Self::Output;
}

/// One set of instructions: the place where the compiler is told that it may use them.
pub(crate) trait InstructionSet {
    /// What the processor must have.
    const NEEDS: &'static [crate::Feature];

    /// Runs `job` with these instructions.
    ///
    /// # Safety
    /// The processor has everything in `NEEDS`, and the promise of [`Job::run`] holds.
    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output;
}
