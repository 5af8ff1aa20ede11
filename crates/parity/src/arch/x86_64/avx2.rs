//! 32 bytes: AVX2.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm_sfence, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpgt_epi8,
    _mm256_loadu_si256, _mm256_or_si256, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_stream_si256, _mm256_testz_si256, _mm256_xor_si256,
};

use crate::Feature;
use crate::field::{NIBBLE_PRODUCTS, POLYNOMIAL};
use crate::style::Style;
use crate::vector::{InstructionSet, Job, Vector};

pub(super) struct Avx2;

impl InstructionSet for Avx2 {
    const NEEDS: &'static [Feature] = &[Feature::Avx2];

    #[target_feature(enable = "avx2")]
    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output {
        // SAFETY: the caller's promise is the same.
        unsafe { job.run::<Ymm, S, LANES>() }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Ymm(pub(super) __m256i);

impl Vector for Ymm {
    const BYTES: usize = 32;
    const MUL_WORTH: usize = 2;
    type Factor = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX2, here and below.
        Ymm(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has 32 bytes there.
        Ymm(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has 32 bytes there.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller has 32 bytes there, at a multiple of 32.
        unsafe { _mm256_stream_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: every 64-bit x86 has it.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: AVX2.
        unsafe { _mm256_testz_si256(self.0, self.0) == 1 }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: AVX2.
        Ymm(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: AVX2.
        Ymm(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: AVX2.
        unsafe {
            let falls_out = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduction = _mm256_and_si256(falls_out, _mm256_set1_epi8(POLYNOMIAL as i8));
            Ymm(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduction))
        }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> Self::Factor {
        let table = NIBBLE_PRODUCTS[usize::from(constant)].as_ptr();
        // SAFETY: the table has 32 bytes.
        unsafe {
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(16).cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: AVX2.
        unsafe {
            let nibble = _mm256_set1_epi8(0x0f);
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(self.0, nibble));
            let of_high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), nibble));
            Ymm(_mm256_xor_si256(of_low, of_high))
        }
    }
}
