//! Multiplication by one instruction, `vgf2p8affineqb`: any linear map of the bits of a byte, so also multiplication in the
//! field of 0x11d. (`gf2p8mulb` multiplies in the field of 0x11b, which is no use here.)
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m256i, __m512i, _mm256_gf2p8affine_epi64_epi8, _mm256_set1_epi64x, _mm512_gf2p8affine_epi64_epi8, _mm512_set1_epi64,
};

use super::avx2::Ymm;
use super::avx512::Zmm;
use crate::Feature;
use crate::field::{AFFINE_MATRICES, affine_matrix};
use crate::style::Style;
use crate::vector::{InstructionSet, Job, Vector};

const TIMES_2: i64 = affine_matrix(2) as i64;
const TIMES_4: i64 = affine_matrix(4) as i64;

pub(super) struct GfniAvx2;
pub(super) struct GfniAvx512;

impl InstructionSet for GfniAvx2 {
    const NEEDS: &'static [Feature] = &[Feature::Gfni, Feature::Avx2];

    #[target_feature(enable = "gfni,avx2")]
    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output {
        // SAFETY: the caller's promise is the same.
        unsafe { job.run::<AffineYmm, S, LANES>() }
    }
}

impl InstructionSet for GfniAvx512 {
    const NEEDS: &'static [Feature] = &[Feature::Gfni, Feature::Avx512f, Feature::Avx512bw];

    #[target_feature(enable = "gfni,avx512f,avx512bw")]
    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output {
        // SAFETY: the caller's promise is the same.
        unsafe { job.run::<AffineZmm, S, LANES>() }
    }
}

#[derive(Clone, Copy)]
pub(super) struct AffineYmm(Ymm);

impl Vector for AffineYmm {
    const BYTES: usize = 32;
    const MUL_WORTH: usize = 1;
    type Factor = __m256i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX2 and GFNI, here and below.
        AffineYmm(unsafe { Ymm::zero() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has 32 bytes there.
        AffineYmm(unsafe { Ymm::load(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has 32 bytes there.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller has 32 bytes there, at a multiple of 32.
        unsafe { self.0.stream(to) }
    }

    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: as for [`Vector::fence`].
        unsafe { Ymm::fence() }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: AVX2.
        unsafe { self.0.is_zero() }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: AVX2.
        AffineYmm(unsafe { self.0.or(other.0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: AVX2.
        AffineYmm(unsafe { self.0.xor(other.0) })
    }

    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: AVX2 and GFNI.
        unsafe { self.mul(_mm256_set1_epi64x(TIMES_2)) }
    }

    #[inline(always)]
    unsafe fn mul4_xor2(self, a: Self, b: Self) -> Self {
        // SAFETY: AVX2 and GFNI. The product of `a` does not wait for that of `self`.
        unsafe { self.mul(_mm256_set1_epi64x(TIMES_4)).xor(a.mul2().xor(b)) }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_set1_epi64x(AFFINE_MATRICES[usize::from(constant)] as i64) }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: __m256i) -> Self {
        // SAFETY: AVX2 and GFNI.
        AffineYmm(Ymm(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self.0.0, factor) }))
    }
}

#[derive(Clone, Copy)]
pub(super) struct AffineZmm(Zmm);

impl Vector for AffineZmm {
    const BYTES: usize = 64;
    const MUL_WORTH: usize = 1;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX-512 F, BW and GFNI, here and below.
        AffineZmm(unsafe { Zmm::zero() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has 64 bytes there.
        AffineZmm(unsafe { Zmm::load(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has 64 bytes there.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller has 64 bytes there, at a multiple of 64.
        unsafe { self.0.stream(to) }
    }

    #[inline(always)]
    unsafe fn fence() {
        // SAFETY: as for [`Vector::fence`].
        unsafe { Zmm::fence() }
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: AVX-512 F.
        unsafe { self.0.is_zero() }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: AVX-512 F.
        AffineZmm(unsafe { self.0.or(other.0) })
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: AVX-512 F.
        AffineZmm(unsafe { self.0.xor(other.0) })
    }

    #[inline(always)]
    unsafe fn xor3(self, a: Self, b: Self) -> Self {
        // SAFETY: AVX-512 F.
        AffineZmm(unsafe { self.0.xor3(a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: AVX-512 F and GFNI.
        unsafe { self.mul(_mm512_set1_epi64(TIMES_2)) }
    }

    #[inline(always)]
    unsafe fn mul4_xor2(self, a: Self, b: Self) -> Self {
        // SAFETY: AVX-512 F and GFNI. The product of `a` does not wait for that of `self`.
        unsafe { self.mul(_mm512_set1_epi64(TIMES_4)).xor3(a.mul2(), b) }
    }

    #[inline(always)]
    unsafe fn factor(constant: u8) -> __m512i {
        // SAFETY: AVX-512 F.
        unsafe { _mm512_set1_epi64(AFFINE_MATRICES[usize::from(constant)] as i64) }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: __m512i) -> Self {
        // SAFETY: AVX-512 F and GFNI.
        AffineZmm(Zmm(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0.0, factor) }))
    }
}
