//! Bytes that look like chance and can be made again from their place: what is written is compared with what should be there.

/// A sequence of bytes, another one for each seed.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    seed: u64,
}

impl Pattern {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Pattern {
        Pattern { seed }
    }

    /// The word at `index`: the output function of SplitMix64 (Steele, Lea, Flood 2014) on a counter.
    fn word(self, index: u64) -> u64 {
        let mut word = self.seed.wrapping_shl(48) ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// The bytes from `offset_bytes` on; both it and the length are multiples of 8.
    pub fn fill(self, offset_bytes: u64, into: &mut [u8]) {
        for (index, word) in (offset_bytes / 8..).zip(into.chunks_exact_mut(8)) {
            word.copy_from_slice(&self.word(index).to_le_bytes());
        }
    }

    /// The place of the first of `bytes`, which lie at `offset_bytes`, that is not the sequence's.
    pub fn first_difference(self, offset_bytes: u64, bytes: &[u8]) -> Option<u64> {
        let wrong =
            (offset_bytes / 8..).zip(bytes.chunks_exact(8)).find(|(index, word)| *word != self.word(*index).to_le_bytes());
        wrong.map(|(index, _)| index * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_splitmix64() {
        // The first outputs of the published generator for the seed 0.
        let mut bytes = [0; 24];
        Pattern::new(0).fill(0, &mut bytes);
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(words, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let pattern = Pattern::new(7);
        let mut bytes = [0; 4096];
        pattern.fill(1 << 20, &mut bytes);
        assert_eq!(pattern.first_difference(1 << 20, &bytes), None);
        bytes[100] ^= 1;
        assert_eq!(pattern.first_difference(1 << 20, &bytes), Some((1 << 20) + 96));
        assert!(pattern.first_difference(0, &bytes).is_some(), "another place has other bytes");
    }
}
