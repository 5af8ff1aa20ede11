//! Eight bytes in a plain register: for every processor, and the reference for all the others.
#![allow(unsafe_code)]

use crate::Feature;
use crate::kernel::{Kernel, RecoveryKernel};
#[cfg(feature = "std")]
use crate::rival::{LimitKernel, TwoPassKernel};
use crate::style::{Plain, Style};
use crate::vector::{InstructionSet, Job, Vector};

#[cfg(not(target_arch = "x86_64"))]
pub(crate) static KERNELS: &[Kernel] = &[INT64X1, INT64X2, INT64X4, INT64X8];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) static RECOVERY_KERNELS: &[RecoveryKernel] = &[RECOVER_INT64X1, RECOVER_INT64X2, RECOVER_INT64X4, RECOVER_INT64X8];

pub(crate) const INT64X1: Kernel = Kernel::of::<Int64, Plain, 1>("int64x1");
pub(crate) const INT64X2: Kernel = Kernel::of::<Int64, Plain, 2>("int64x2");
pub(crate) const INT64X4: Kernel = Kernel::of::<Int64, Plain, 4>("int64x4");
pub(crate) const INT64X8: Kernel = Kernel::of::<Int64, Plain, 8>("int64x8");

pub(crate) const RECOVER_INT64X1: RecoveryKernel = RecoveryKernel::of::<Int64, Plain, 1>("int64x1");
pub(crate) const RECOVER_INT64X2: RecoveryKernel = RecoveryKernel::of::<Int64, Plain, 2>("int64x2");
pub(crate) const RECOVER_INT64X4: RecoveryKernel = RecoveryKernel::of::<Int64, Plain, 4>("int64x4");
pub(crate) const RECOVER_INT64X8: RecoveryKernel = RecoveryKernel::of::<Int64, Plain, 8>("int64x8");

/// What the kernels of a processor without others are measured against.
#[cfg(feature = "std")]
pub(crate) const LIMIT_INT64X8: LimitKernel = LimitKernel::of::<Int64, Plain, 8>("int64x8");
#[cfg(feature = "std")]
pub(crate) const TWO_PASS_INT64X8: TwoPassKernel = TwoPassKernel::of::<Int64, 8>("int64x8");

#[cfg(all(feature = "std", not(target_arch = "x86_64")))]
pub(crate) static LIMITS: &[LimitKernel] = &[LIMIT_INT64X8];
#[cfg(all(feature = "std", not(target_arch = "x86_64")))]
pub(crate) static TWO_PASS: &[TwoPassKernel] = &[TWO_PASS_INT64X8];

pub(crate) struct Int64;

impl InstructionSet for Int64 {
    const NEEDS: &'static [Feature] = &[];

    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output {
        // SAFETY: plain registers are everywhere; the blocks are the caller's promise.
        unsafe { job.run::<Word, S, LANES>() }
    }
}

/// Eight bytes.
#[derive(Clone, Copy)]
pub(crate) struct Word(u64);

const fn bytes(value: u8) -> u64 {
    u64::from_ne_bytes([value; 8])
}

impl Vector for Word {
    const BYTES: usize = 8;
    const MUL_WORTH: usize = 9;
    type Factor = u8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Word(0)
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has eight bytes there.
        Word(unsafe { from.cast::<u64>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has eight bytes there.
        unsafe { to.cast::<u64>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        Word(self.0 | other.0)
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Word(self.0 ^ other.0)
    }

    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        let top_bits = self.0 & bytes(0x80);
        // 0xff in every byte whose top bit falls out: 0x100 - 1 there, without a borrow from the neighbour.
        let falls_out = (top_bits << 1).wrapping_sub(top_bits >> 7);
        Word(((self.0 << 1) & bytes(0xfe)) ^ (falls_out & bytes(crate::field::POLYNOMIAL)))
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> u8 {
        constant
    }

    #[inline(always)]
    unsafe fn mul(self, factor: u8) -> Self {
        let mut product = Word(0);
        let mut bit = 8;
        while bit > 0 {
            bit -= 1;
            let chosen = Word(self.0 & (u64::from(factor >> bit & 1)).wrapping_neg());
            // SAFETY: plain registers are everywhere.
            product = unsafe { product.mul2_xor(chosen) };
        }
        product
    }
}
