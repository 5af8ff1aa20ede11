//! The tables that the kernels look things up in.

use super::reference;
use crate::field;

/// What `vgf2p8affineqb` does to one byte, as Intel's manual has it: bit i of the result is the parity of byte 7 - i of
/// the matrix AND the source, plus bit i of the immediate.
fn affine_byte(matrix: u64, source: u8, immediate: u8) -> u8 {
    let mut result = 0;
    for bit in 0..8 {
        let row = matrix.to_le_bytes()[7 - bit];
        let parity = (row & source).count_ones() as u8 & 1;
        result |= (parity ^ (immediate >> bit & 1)) << bit;
    }
    result
}

/// The manual's own matrix for the identity.
const IDENTITY: u64 = 0x0102_0408_1020_4080;

#[test]
fn the_model_of_the_affine_instruction_knows_the_identity() {
    assert!((0..=255).all(|byte| affine_byte(IDENTITY, byte, 0) == byte && affine_byte(IDENTITY, byte, 0xff) == !byte));
}

#[test]
fn affine_matrices_multiply() {
    for constant in 0..=255 {
        let matrix = field::AFFINE_MATRICES[usize::from(constant)];
        assert!((0..=255).all(|byte| affine_byte(matrix, byte, 0) == reference::product(constant, byte)), "{constant}");
    }
    assert_eq!(field::affine_matrix(1), IDENTITY);
}

/// The model itself against the instruction, with matrices that mean nothing.
#[cfg(target_arch = "x86_64")]
#[test]
#[allow(unsafe_code)]
fn the_model_of_the_affine_instruction_is_the_instruction() {
    use std::arch::x86_64::{_mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_gf2p8affine_epi64_epi8};

    #[target_feature(enable = "sse2,gfni")]
    fn instruction(matrix: u64, source: u64) -> u64 {
        _mm_cvtsi128_si64(_mm_gf2p8affine_epi64_epi8::<0x5a>(_mm_cvtsi64_si128(source as i64), _mm_cvtsi64_si128(matrix as i64)))
            as u64
    }

    if !crate::Feature::Gfni.is_there() {
        eprintln!("skipped: this processor has no gfni");
        return;
    }
    let words = super::noise(7, 16 * 200);
    for pair in words.as_chunks::<16>().0 {
        let (matrix, source) = (u64::from_le_bytes(pair[..8].try_into().unwrap()), &pair[8..]);
        let expected: Vec<u8> = source.iter().map(|byte| affine_byte(matrix, *byte, 0x5a)).collect();
        // SAFETY: the processor has gfni, and every one has sse2.
        let found = unsafe { instruction(matrix, u64::from_le_bytes(source.try_into().unwrap())) };
        assert_eq!(found.to_le_bytes()[..], expected);
    }
}

#[test]
fn products_and_powers_agree_with_the_reference() {
    for a in 0..=255 {
        for b in 0..=255 {
            let expected = reference::product(a, b);
            assert_eq!((field::mul(a, b), reference::mul(a, b)), (expected, expected), "{a} * {b}");
            let row = &field::NIBBLE_PRODUCTS[usize::from(a)];
            assert_eq!(row[usize::from(b & 15)] ^ row[16 + usize::from(b >> 4)], expected, "{a} * {b} by nibbles");
        }
    }
    for value in 1..=255 {
        assert_eq!(reference::power_of_two(field::logarithm(value)), value);
    }
    for exponent in [0, 1, 7, 200, 254, 255, 300] {
        let power = reference::power_of_two(exponent);
        assert!((0..=255).all(|value| field::mul_by_power(value, exponent) == reference::mul(value, power)), "{exponent}");
    }
    for exponent in 0..600 {
        let power = reference::power_of_two(exponent);
        assert_eq!(field::power_of_two(exponent), power);
        assert_eq!(reference::product(field::inverse_power_of_two(exponent), power), 1);
    }
    assert!((1..=255).all(|value| reference::product(field::inverse(value), value) == 1));
}

/// From the paper "The mathematics of RAID-6": {02}^8 = {1d}, and the powers come round at 255.
#[test]
fn published_powers() {
    assert_eq!([0, 1, 7, 8, 254].map(field::power_of_two), [0x01, 0x02, 0x80, 0x1d, 0x8e]);
    assert_eq!(field::power_of_two(255), 1);
}

#[test]
fn two_lost_factors_solve_the_equations() {
    for low in 0..254 {
        for high in low + 1..254 {
            let (of_p, of_q) = field::two_lost_factors(low, high);
            // D_low's own share must come to 1, D_high's to 0.
            let share = |index| of_p ^ reference::mul(of_q, reference::power_of_two(index));
            assert_eq!((share(low), share(high)), (1, 0), "{low} and {high}");
        }
    }
}
