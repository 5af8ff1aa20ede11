//! Contents for test disks.

/// `len_bytes` bytes that follow from `seed` and look random, so that a block that ends up in the wrong place, or is
/// missing, is noticed. (The generator is Marsaglia's xorshift64 with the shifts 13, 7, 17.)
#[must_use]
pub fn pattern(seed: u64, len_bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len_bytes + 8);
    while bytes.len() < len_bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len_bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_seed_gives_one_pattern_and_no_block_repeats() {
        let bytes = pattern(7, 64 * 512);
        assert_eq!(bytes[..1000], pattern(7, 1000)[..]);
        assert_ne!(bytes[..512], pattern(8, 512)[..]);
        let blocks: std::collections::BTreeSet<_> = bytes.chunks(512).collect();
        assert_eq!(blocks.len(), 64);
    }
}
