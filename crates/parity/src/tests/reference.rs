//! P and Q byte by byte, by logarithms, in a field made by polynomial division and with another generator than 2.

use std::sync::LazyLock;

/// x^8 + x^4 + x^3 + x^2 + 1.
const MODULUS: u16 = 0x11d;

/// The remainder of the product of two polynomials over GF(2): schoolbook multiplication, then long division.
pub(super) fn product(a: u8, b: u8) -> u8 {
    let mut dividend = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u16::from(a) << bit);
    for bit in (8..15).rev() {
        if dividend >> bit & 1 == 1 {
            dividend ^= MODULUS << (bit - 8);
        }
    }
    dividend as u8
}

struct Logarithms {
    log: [usize; 256],
    power: [u8; 255],
}

static FIELD: LazyLock<Logarithms> = LazyLock::new(|| {
    let cycle = |generator: u8| -> Vec<u8> {
        let mut powers = vec![1];
        while powers.len() == 1 || powers.last() != Some(&1) {
            powers.push(product(*powers.last().unwrap(), generator));
        }
        powers.pop();
        powers
    };
    let powers = (3..=255).map(cycle).find(|powers| powers.len() == 255).unwrap();
    let mut field = Logarithms { log: [0; 256], power: [0; 255] };
    for (exponent, value) in powers.into_iter().enumerate() {
        field.power[exponent] = value;
        field.log[usize::from(value)] = exponent;
    }
    field
});

/// The product by logarithms.
pub(super) fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    FIELD.power[(FIELD.log[usize::from(a)] + FIELD.log[usize::from(b)]) % 255]
}

/// 2 to the power of `exponent`.
pub(super) fn power_of_two(exponent: usize) -> u8 {
    FIELD.power[FIELD.log[2] * exponent % 255]
}

/// P and Q of the data.
pub(super) fn parity(data: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let len_bytes = data[0].len();
    let (mut p, mut q) = (vec![0; len_bytes], vec![0; len_bytes]);
    for (index, block) in data.iter().enumerate() {
        let coefficient = power_of_two(index);
        for (at, byte) in block.iter().enumerate() {
            p[at] ^= byte;
            q[at] ^= mul(coefficient, *byte);
        }
    }
    (p, q)
}
