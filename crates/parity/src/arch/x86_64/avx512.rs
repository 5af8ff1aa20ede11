//! 64 bytes: AVX-512 F and BW.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm_sfence, _mm512_add_epi8, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_loadu_si512,
    _mm512_maskz_mov_epi8, _mm512_movepi8_mask, _mm512_or_si512, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_srli_epi64, _mm512_storeu_si512, _mm512_stream_si512, _mm512_ternarylogic_epi64, _mm512_test_epi64_mask,
    _mm512_xor_si512,
};

use crate::Feature;
use crate::field::{NIBBLE_PRODUCTS, POLYNOMIAL};
use crate::style::Style;
use crate::vector::{InstructionSet, Job, Vector};

pub(super) struct Avx512;

impl InstructionSet for Avx512 {
    const NEEDS: &'static [Feature] = &[Feature::Avx512f, Feature::Avx512bw];

    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output {
        // SAFETY: the caller's promise is the same.
        unsafe { job.run::<Zmm, S, LANES>() }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Zmm(pub(super) __m512i);

impl Zmm {
    /// The pieces of 2 * self: what is shifted, and what is to be added where a bit falls out.
    #[inline(always)]
    unsafe fn doubled(self) -> (__m512i, __m512i) {
        // SAFETY: the caller has AVX-512 F and BW.
        unsafe {
            let falls_out = _mm512_movepi8_mask(self.0);
            (_mm512_add_epi8(self.0, self.0), _mm512_maskz_mov_epi8(falls_out, _mm512_set1_epi8(POLYNOMIAL as i8)))
        }
    }
}

impl Vector for Zmm {
    const BYTES: usize = 64;
    const MUL_WORTH: usize = 2;
    type Factor = (__m512i, __m512i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX-512 F and BW, here and below.
        Zmm(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has 64 bytes there.
        Zmm(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has 64 bytes there.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller has 64 bytes there, at a multiple of 64.
        unsafe { _mm512_stream_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: every 64-bit x86 has it.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: AVX-512 F.
        unsafe { _mm512_test_epi64_mask(self.0, self.0) == 0 }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: AVX-512 F.
        Zmm(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: AVX-512 F.
        Zmm(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn xor3(self, a: Self, b: Self) -> Self {
        // SAFETY: AVX-512 F; 0x96 is the truth table of the sum of three bits.
        Zmm(unsafe { _mm512_ternarylogic_epi64::<0x96>(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: AVX-512 F and BW.
        unsafe {
            let (shifted, reduction) = self.doubled();
            Zmm(_mm512_xor_si512(shifted, reduction))
        }
    }

    #[inline(always)]
    unsafe fn mul2_xor(self, a: Self) -> Self {
        // SAFETY: AVX-512 F and BW.
        unsafe {
            let (shifted, reduction) = self.doubled();
            Zmm(_mm512_ternarylogic_epi64::<0x96>(shifted, reduction, a.0))
        }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> Self::Factor {
        let table = NIBBLE_PRODUCTS[usize::from(constant)].as_ptr();
        // SAFETY: the table has 32 bytes.
        unsafe {
            (_mm512_broadcast_i32x4(_mm_loadu_si128(table.cast())), _mm512_broadcast_i32x4(_mm_loadu_si128(table.add(16).cast())))
        }
    }

    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: AVX-512 F and BW.
        unsafe {
            let nibble = _mm512_set1_epi8(0x0f);
            let of_low = _mm512_shuffle_epi8(low, _mm512_and_si512(self.0, nibble));
            let of_high = _mm512_shuffle_epi8(high, _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), nibble));
            Zmm(_mm512_xor_si512(of_low, of_high))
        }
    }
}
