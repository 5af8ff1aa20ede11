//! Every kernel that this processor can run, against ways to compute the same that share nothing with it.

mod choice;
mod crc;
mod failures;
mod field;
mod guard;
mod kernels;
mod md;
mod misuse;
mod reference;

/// Bytes that look random, the same for one seed.
fn noise(seed: u64, len_bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len_bytes).map(|_| next()).collect()
}

/// Blocks of noise.
fn disks(count: usize, len_bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|disk| noise(disk as u64 + 1, len_bytes)).collect()
}

fn slices(blocks: &[Vec<u8>]) -> Vec<&[u8]> {
    blocks.iter().map(Vec::as_slice).collect()
}
