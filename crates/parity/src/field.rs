//! GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d) and generator 2: the field that md's Q is made in.
//!
//! Source: H. Peter Anvin, "The mathematics of RAID-6". The tables for instructions that not every processor has are tested on all.

/// The polynomial without its x^8.
pub(crate) const POLYNOMIAL: u8 = 0x1d;

/// The product of `a` and `b`, bit by bit.
pub(crate) const fn mul(a: u8, b: u8) -> u8 {
    let (mut power, mut rest, mut product) = (a, b, 0);
    while rest != 0 {
        if rest & 1 != 0 {
            product ^= power;
        }
        power = (power << 1) ^ if power & 0x80 != 0 { POLYNOMIAL } else { 0 };
        rest >>= 1;
    }
    product
}

/// 2 to the power of the index, twice round, so that the sum of two exponents below 255 needs no remainder.
const POWERS: [u8; 510] = {
    let mut powers = [1; 510];
    let mut exponent = 1;
    while exponent < 510 {
        powers[exponent] = mul(powers[exponent - 1], 2);
        exponent += 1;
    }
    powers
};

/// The power of 2 that the index, not 0, is.
const LOGARITHMS: [u8; 256] = {
    let mut logarithms = [0; 256];
    let mut exponent = 0;
    while exponent < 255 {
        logarithms[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    logarithms
};

/// 2 to the power of `exponent`.
pub(crate) const fn power_of_two(exponent: usize) -> u8 {
    static TABLE: [u8; 510] = POWERS;
    TABLE[if exponent < 510 { exponent } else { exponent % 255 }]
}

/// 2 to the power of minus `exponent`.
pub(crate) const fn inverse_power_of_two(exponent: usize) -> u8 {
    power_of_two(255 - exponent % 255)
}

/// The exponent of 2 that gives `value`, which is not 0.
pub(crate) const fn logarithm(value: u8) -> usize {
    static TABLE: [u8; 256] = LOGARITHMS;
    assert!(value != 0, "0 has no logarithm");
    TABLE[value as usize] as usize
}

/// The inverse of `value`, which is not 0.
pub(crate) const fn inverse(value: u8) -> u8 {
    inverse_power_of_two(logarithm(value))
}

/// `value` times 2 to the power of `exponent`, by logarithms: [`mul`] takes as long as some hundred bytes of parity.
pub(crate) const fn mul_by_power(value: u8, exponent: usize) -> u8 {
    if value == 0 { 0 } else { power_of_two(logarithm(value) + exponent % 255) }
}

/// For each constant its products with 0..16 and with 0, 16, .. 240: what a byte shuffle looks up by low and by high nibble.
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) static NIBBLE_PRODUCTS: [[u8; 32]; 256] = {
    let mut table = [[0; 32]; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[constant][nibble] = mul(constant as u8, nibble as u8);
            table[constant][16 + nibble] = mul(constant as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        constant += 1;
    }
    table
};

/// Multiplication by `constant` as the bit matrix that `vgf2p8affineqb` takes.
///
/// Bit i of the result is the parity of (x AND row i), and row i lies in byte 7 - i of the matrix (Intel SDM,
/// GF2P8AFFINEQB). Column j is `constant` * 2^j, so bit j of row i is bit i of that product.
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) const fn affine_matrix(constant: u8) -> u64 {
    let mut matrix = 0;
    let mut column = 0;
    while column < 8 {
        let product = mul(constant, 1 << column);
        let mut row = 0;
        while row < 8 {
            matrix |= ((product >> row & 1) as u64) << ((7 - row) * 8 + column);
            row += 1;
        }
        column += 1;
    }
    matrix
}

/// [`affine_matrix`] of every constant.
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) static AFFINE_MATRICES: [u64; 256] = {
    let mut table = [0; 256];
    let mut constant = 0;
    while constant < 256 {
        table[constant] = affine_matrix(constant as u8);
        constant += 1;
    }
    table
};

/// The factors that turn the sums of P and of Q into the lower of two lost blocks: `D_low = P' * of_p + Q' * of_q`.
///
/// With two blocks lost at `low` and `high`, P' = D_low + D_high and Q' = 2^low D_low + 2^high D_high, thus
/// D_low = (2^(high-low) P' + 2^-low Q') / (2^(high-low) + 1).
pub(crate) const fn two_lost_factors(low: usize, high: usize) -> (u8, u8) {
    let distance = high - low;
    let divisor = inverse(power_of_two(distance) ^ 1);
    (mul_by_power(divisor, distance), mul_by_power(divisor, 255 - low % 255))
}
