//! 16 bytes: SSE2, and SSSE3 for its byte shuffle.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m128i, _mm_add_epi8, _mm_and_si128, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
    _mm_set1_epi8, _mm_setzero_si128, _mm_sfence, _mm_shuffle_epi8, _mm_srli_epi64, _mm_storeu_si128, _mm_stream_si128,
    _mm_xor_si128,
};

use crate::Feature;
use crate::field::{NIBBLE_PRODUCTS, POLYNOMIAL};
use crate::style::Style;
use crate::vector::{InstructionSet, Job, Vector};

pub(super) struct Sse2;
pub(super) struct Ssse3;

impl InstructionSet for Sse2 {
    const NEEDS: &'static [Feature] = &[Feature::Sse2];

    #[target_feature(enable = "sse2")]
    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output {
        // SAFETY: the caller's promise is the same.
        unsafe { job.run::<Xmm, S, LANES>() }
    }
}

impl InstructionSet for Ssse3 {
    const NEEDS: &'static [Feature] = &[Feature::Ssse3];

    #[target_feature(enable = "ssse3")]
    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output {
        // SAFETY: the caller's promise is the same.
        unsafe { job.run::<ShuffleXmm, S, LANES>() }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Xmm(__m128i);

impl Vector for Xmm {
    const BYTES: usize = 16;
    const MUL_WORTH: usize = 9;
    type Factor = u8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has SSE2, here and below.
        Xmm(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has 16 bytes there.
        Xmm(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has 16 bytes there.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller has 16 bytes there, at a multiple of 16.
        unsafe { _mm_stream_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: every 64-bit x86 has it.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: SSE2.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(self.0, _mm_setzero_si128())) == 0xffff }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: SSE2.
        Xmm(unsafe { _mm_or_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: SSE2.
        Xmm(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: SSE2.
        unsafe {
            let falls_out = _mm_cmplt_epi8(self.0, _mm_setzero_si128());
            let reduction = _mm_and_si128(falls_out, _mm_set1_epi8(POLYNOMIAL as i8));
            Xmm(_mm_xor_si128(_mm_add_epi8(self.0, self.0), reduction))
        }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> u8 {
        constant
    }

    #[inline(always)]
    unsafe fn mul(self, factor: u8) -> Self {
        // SAFETY: SSE2.
        unsafe {
            let mut product = Xmm::zero();
            let mut bit = 8;
            while bit > 0 {
                bit -= 1;
                let mask = _mm_set1_epi8(-((factor >> bit & 1) as i8));
                product = product.mul2_xor(Xmm(_mm_and_si128(self.0, mask)));
            }
            product
        }
    }
}

/// [`Xmm`] with products looked up by nibble.
#[derive(Clone, Copy)]
pub(crate) struct ShuffleXmm(Xmm);

impl Vector for ShuffleXmm {
    const BYTES: usize = 16;
    const MUL_WORTH: usize = 2;
    type Factor = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: SSSE3 has SSE2, here and below.
        ShuffleXmm(unsafe { Xmm::zero() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has 16 bytes there.
        ShuffleXmm(unsafe { Xmm::load(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has 16 bytes there.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: SSE2.
        unsafe { self.0.is_zero() }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: SSE2.
        ShuffleXmm(unsafe { self.0.or(other.0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: SSE2.
        ShuffleXmm(unsafe { self.0.xor(other.0) })
    }

    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: SSE2.
        ShuffleXmm(unsafe { self.0.mul2() })
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> Self::Factor {
        let table = NIBBLE_PRODUCTS[usize::from(constant)].as_ptr();
        // SAFETY: the table has 32 bytes.
        unsafe { (_mm_loadu_si128(table.cast()), _mm_loadu_si128(table.add(16).cast())) }
    }

    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: the caller has SSSE3.
        unsafe {
            let nibble = _mm_set1_epi8(0x0f);
            let of_low = _mm_shuffle_epi8(low, _mm_and_si128(self.0.0, nibble));
            let of_high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi64::<4>(self.0.0), nibble));
            ShuffleXmm(Xmm(_mm_xor_si128(of_low, of_high)))
        }
    }
}

/// CRC32C of `bytes` onto the raw register `state`, by SSE4.2's instruction, one stream.
///
/// # Safety
/// The processor has SSE4.2.
#[cfg(feature = "std")]
#[target_feature(enable = "sse4.2")]
pub(crate) unsafe fn crc32c_instruction(state: u32, bytes: &[u8]) -> u32 {
    use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let wide = words.iter().fold(u64::from(state), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    // The instruction leaves the upper half 0.
    rest.iter().fold(wide as u32, |crc, byte| _mm_crc32_u8(crc, *byte))
}
