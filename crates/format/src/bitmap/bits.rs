//! A bitmap's bits, in memory and as they lie on the disk.

use core::fmt;
use core::ops::Range;

use super::BitmapError;

const WORD_BITS: u64 = u64::BITS as u64;

/// The bits of a bitmap in memory.
///
/// Bits beyond the last chunk, to the end of the area, are kept as they were read: md leaves them set.
#[derive(Clone, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    bits: u64,
}

impl Bitmap {
    /// A bitmap of `bits` chunks, all of them clean.
    #[must_use]
    pub fn new_clean(bits: u64) -> Bitmap {
        let mut bitmap = Bitmap::new_dirty(bits);
        bitmap.clear_range(0..bits);
        bitmap
    }

    /// A bitmap of `bits` chunks, all of them dirty.
    #[must_use]
    pub fn new_dirty(bits: u64) -> Bitmap {
        Bitmap { words: vec![u64::MAX; bits.div_ceil(WORD_BITS) as usize], bits }
    }

    /// Reads `bits` bits from `bytes`, which follow the bitmap's superblock.
    ///
    /// # Errors
    /// [`BitmapError::TooShort`] when `bytes` holds fewer.
    pub fn from_bytes(bits: u64, bytes: &[u8]) -> Result<Bitmap, BitmapError> {
        let needed = bits.div_ceil(8);
        if needed > bytes.len() as u64 {
            return Err(BitmapError::TooShort { found: bytes.len() as u64, needed });
        }
        let word = |part: &[u8]| {
            let mut whole = [0xff; 8];
            whole[..part.len()].copy_from_slice(part);
            u64::from_le_bytes(whole)
        };
        let words = bytes.chunks(8).take(bits.div_ceil(WORD_BITS) as usize).map(word).collect();
        Ok(Bitmap { words, bits })
    }

    /// The bytes `range` of the bits as they lie after the superblock; what lies beyond the last bit is all ones.
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> Vec<u8> {
        let byte = |index: usize| self.words.get(index / 8).map_or(0xff, |word| word.to_le_bytes()[index % 8]);
        range.map(byte).collect()
    }

    /// Number of chunks.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.bits
    }

    /// Does it cover nothing?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// Is chunk `index` dirty?
    ///
    /// # Panics
    /// As the other methods that take chunks, when it is beyond the last one.
    #[must_use]
    pub fn get(&self, index: u64) -> bool {
        self.check(index);
        self.words[(index / WORD_BITS) as usize] & 1 << (index % WORD_BITS) != 0
    }

    /// Marks chunk `index` dirty; was it clean?
    pub fn set(&mut self, index: u64) -> bool {
        let changes = !self.get(index);
        self.words[(index / WORD_BITS) as usize] |= 1 << (index % WORD_BITS);
        changes
    }

    /// Marks chunk `index` clean; was it dirty?
    pub fn clear(&mut self, index: u64) -> bool {
        let changes = self.get(index);
        self.words[(index / WORD_BITS) as usize] &= !(1 << (index % WORD_BITS));
        changes
    }

    /// Marks the chunks `range` dirty.
    pub fn set_range(&mut self, range: Range<u64>) {
        self.change(range, |word, mask| *word |= mask);
    }

    /// Marks the chunks `range` clean.
    pub fn clear_range(&mut self, range: Range<u64>) {
        self.change(range, |word, mask| *word &= !mask);
    }

    /// Dirty chunks.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.masked_words().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The first dirty chunk at `from` or after it.
    #[must_use]
    pub fn next_set(&self, from: u64) -> Option<u64> {
        self.find(from, |word| word)
    }

    /// The runs of dirty chunks, in order, as long as they can be.
    pub fn dirty_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let start = self.next_set(from)?;
            let end = self.find(start, |word| !word).unwrap_or(self.bits);
            from = end;
            Some(start..end)
        })
    }

    /// Marks dirty whatever is dirty in `other`.
    ///
    /// # Panics
    /// When `other` has another number of chunks.
    pub fn merge(&mut self, other: &Bitmap) {
        assert_eq!(self.bits, other.bits, "bitmaps of one array have one length");
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    fn check(&self, index: u64) {
        assert!(index < self.bits, "bitmap chunk {index} of {}", self.bits);
    }

    fn change(&mut self, range: Range<u64>, apply: impl Fn(&mut u64, u64)) {
        let mut index = range.start;
        if index < range.end {
            self.check(range.end - 1);
        }
        while index < range.end {
            let first = index % WORD_BITS;
            let many = (WORD_BITS - first).min(range.end - index);
            apply(&mut self.words[(index / WORD_BITS) as usize], (u64::MAX >> (WORD_BITS - many)) << first);
            index += many;
        }
    }

    /// The first chunk from `from` whose bit is set in `see(word)`.
    fn find(&self, from: u64, see: impl Fn(u64) -> u64) -> Option<u64> {
        let mut index = from;
        while index < self.bits {
            let rest = see(self.words[(index / WORD_BITS) as usize]) >> (index % WORD_BITS);
            if rest != 0 {
                return Some(index + u64::from(rest.trailing_zeros())).filter(|&found| found < self.bits);
            }
            index = (index / WORD_BITS + 1) * WORD_BITS;
        }
        None
    }

    /// The words, bits beyond the last chunk as 0.
    fn masked_words(&self) -> impl Iterator<Item = u64> {
        let last = self.words.len().wrapping_sub(1);
        let tail = self.bits % WORD_BITS;
        let mask = if tail == 0 { u64::MAX } else { (1 << tail) - 1 };
        self.words.iter().enumerate().map(move |(index, &word)| if index == last { word & mask } else { word })
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bitmap({} of {} dirty)", self.count(), self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_agree_with_single_bits(bits in 1u64..300, edits in prop::collection::vec((any::<bool>(), 0u64..300, 0u64..300), 0..8)) {
            let mut bitmap = Bitmap::new_clean(bits);
            let mut model = vec![false; bits as usize];
            for (dirty, a, b) in edits {
                let range = a.min(b).min(bits)..a.max(b).min(bits);
                model[range.start as usize..range.end as usize].fill(dirty);
                if dirty { bitmap.set_range(range) } else { bitmap.clear_range(range) }
            }
            prop_assert_eq!((0..bits).map(|index| bitmap.get(index)).collect::<Vec<_>>(), model.clone());
            prop_assert_eq!(bitmap.count(), model.iter().filter(|&&dirty| dirty).count() as u64);
            let from_ranges: Vec<u64> = bitmap.dirty_ranges().flatten().collect();
            let from_model: Vec<u64> = (0..bits).filter(|&index| model[index as usize]).collect();
            prop_assert_eq!(from_ranges, from_model);
            let ends: Vec<_> = bitmap.dirty_ranges().collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].end < pair[1].start), "runs must not touch");
            let bytes = bitmap.bytes(0..bits.div_ceil(8) as usize);
            prop_assert_eq!(Bitmap::from_bytes(bits, &bytes).unwrap(), bitmap);
        }
    }
}
