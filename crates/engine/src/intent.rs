//! The write-intent bitmap in memory: which regions have writes under way, which must be synced, what is on disk.
//!
//! A bit is durable before a write under it starts. It is cleared lazily: once nothing has been under way for a while, the members
//! are flushed, no member is missing, and no sync still needs the region.

use std::collections::BTreeSet;

use crate::extents::Rows;

#[derive(Clone, Copy, Debug, Default)]
struct Bit {
    /// Writes under way.
    writes: u32,
    /// The bitmap on the members has it set, durably.
    on_disk: bool,
    /// The change now being written sets it.
    setting: bool,
    /// A sync has yet to come by.
    needed: bool,
    /// Nothing has happened here since the last look.
    idle: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Intent {
    sectors_per_bit: u64,
    bits: Vec<Bit>,
    to_set: BTreeSet<u64>,
    /// Bits that the change now being written sets and clears.
    writing: Option<(u64, Vec<u64>)>,
    generation: u64,
}

impl Intent {
    /// `set`: the bits found set on the members; `needed`: they must be synced.
    pub fn new(sectors_per_bit: u64, bits: u64, set: &[u64], needed: bool) -> Intent {
        let count = usize::try_from(bits).expect("a bitmap fits memory: its size was checked when it was read");
        let mut intent =
            Intent { sectors_per_bit, bits: vec![Bit::default(); count], to_set: BTreeSet::new(), writing: None, generation: 0 };
        for &bit in set {
            let bit = intent.bit(bit);
            bit.on_disk = true;
            bit.needed = needed;
        }
        intent
    }

    fn bit(&mut self, index: u64) -> &mut Bit {
        &mut self.bits[usize::try_from(index).expect("bit indices come from addresses within the array")]
    }

    fn range(&self, rows: &Rows) -> std::ops::RangeInclusive<u64> {
        rows.start / self.sectors_per_bit..=(rows.end - 1) / self.sectors_per_bit
    }

    /// A write to `rows` is to start: true when it may at once, else when [`Intent::ready`] says so.
    pub fn begin(&mut self, rows: &Rows) -> bool {
        let mut ready = true;
        for index in self.range(rows) {
            let bit = self.bit(index);
            bit.writes += 1;
            bit.idle = false;
            if !bit.on_disk {
                ready = false;
                if !bit.setting {
                    self.to_set.insert(index);
                }
            }
        }
        ready
    }

    /// Are the bits of `rows` durable?
    pub fn ready(&mut self, rows: &Rows) -> bool {
        self.range(rows).all(|index| self.bit(index).on_disk)
    }

    /// A write has ended. `torn`: it did not reach every member that it should have.
    pub fn end(&mut self, rows: &Rows, torn: bool) {
        for index in self.range(rows) {
            let bit = self.bit(index);
            assert!(bit.writes > 0, "a write ends once");
            bit.writes -= 1;
            bit.needed |= torn;
        }
    }

    /// Must a sync come by anywhere in `rows`?
    pub fn needs_sync(&mut self, rows: &Rows) -> bool {
        self.range(rows).any(|index| self.bit(index).needed)
    }

    /// The end of the run of regions around `start` that no sync needs, when `start` lies in one.
    pub fn skip_from(&self, start: u64, end: u64) -> Option<u64> {
        let first = usize::try_from(start / self.sectors_per_bit).ok()?;
        let clear = self.bits.get(first..)?.iter().take_while(|bit| !bit.needed).count() as u64;
        (clear > 0).then(|| ((start / self.sectors_per_bit + clear) * self.sectors_per_bit).min(end))
    }

    /// A sync that had passed everything before `rows` has passed those as well; at `end` it has passed all.
    pub fn synced(&mut self, rows: &Rows, end: u64) {
        let full = if rows.end >= end { self.bits.len() as u64 } else { rows.end / self.sectors_per_bit };
        for index in rows.start / self.sectors_per_bit..full {
            self.bit(index).needed = false;
        }
    }

    /// A member came back: everything written since it left must be synced.
    pub fn need_all_set(&mut self) {
        for bit in &mut self.bits {
            bit.needed |= bit.on_disk;
        }
    }

    /// A member without usable contents came, or the array was not stopped cleanly and the bitmap is not to be believed.
    pub fn need_everything(&mut self) {
        for bit in &mut self.bits {
            bit.needed = true;
        }
    }

    /// The next change to write, unless one is being written: bits to set.
    pub fn next_set(&mut self) -> Option<(u64, Vec<u64>)> {
        if self.writing.is_some() || self.to_set.is_empty() {
            return None;
        }
        let set: Vec<u64> = std::mem::take(&mut self.to_set).into_iter().collect();
        for &index in &set {
            self.bit(index).setting = true;
        }
        self.generation += 1;
        self.writing = Some((self.generation, set.clone()));
        Some((self.generation, set))
    }

    /// Bits that have been idle since the last call, to be cleared once the members are flushed.
    pub fn clearable(&mut self) -> Vec<u64> {
        let mut clearable = Vec::new();
        for (index, bit) in self.bits.iter_mut().enumerate() {
            if bit.on_disk && bit.writes == 0 && !bit.needed {
                if bit.idle {
                    clearable.push(index as u64);
                }
                bit.idle = true;
            }
        }
        clearable
    }

    /// Clears those of `candidates` that are still idle; `None` when a change is being written, or there are none.
    pub fn clear(&mut self, candidates: &[u64]) -> Option<(u64, Vec<u64>)> {
        if self.writing.is_some() {
            return None;
        }
        let mut clear = Vec::new();
        for &index in candidates {
            let bit = self.bit(index);
            if bit.on_disk && bit.writes == 0 && !bit.needed && bit.idle {
                // From here on it counts as clear: a write that comes now sets it again, after this change.
                bit.on_disk = false;
                clear.push(index);
            }
        }
        if clear.is_empty() {
            return None;
        }
        self.generation += 1;
        self.writing = Some((self.generation, Vec::new()));
        Some((self.generation, clear))
    }

    /// The change of `generation` is durable.
    ///
    /// # Panics
    /// When it is not the one being written.
    pub fn written(&mut self, generation: u64) {
        let (expected, set) = self.writing.take().expect("a bitmap change ends once");
        assert_eq!(generation, expected, "bitmap changes end in order");
        for index in set {
            let bit = self.bit(index);
            (bit.setting, bit.on_disk) = (false, true);
        }
    }

    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    pub fn count_on_disk(&self) -> u64 {
        self.bits.iter().filter(|bit| bit.on_disk).count() as u64
    }

    pub fn len(&self) -> u64 {
        self.bits.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_for_its_bit_and_the_bit_for_the_write() {
        let mut intent = Intent::new(16, 4, &[], false);
        assert!(!intent.begin(&(0..20)));
        let (generation, set) = intent.next_set().unwrap();
        assert_eq!(set, [0, 1]);
        assert!(!intent.ready(&(0..20)));
        assert!(intent.next_set().is_none());
        intent.written(generation);
        assert!(intent.ready(&(0..20)));
        assert!(intent.clearable().is_empty() && intent.clearable().is_empty(), "not while the write is under way");
        intent.end(&(0..20), false);
        assert!(intent.clearable().is_empty(), "not at the first look");
        let clearable = intent.clearable();
        assert_eq!(clearable, [0, 1]);
        assert!(intent.begin(&(16..17)), "a bit not yet cleared serves the next write");
        let (generation, cleared) = intent.clear(&clearable).unwrap();
        assert_eq!(cleared, [0], "the other is in use again");
        assert!(!intent.begin(&(0..1)), "a cleared bit has to be set again");
        intent.written(generation);
        assert_eq!(intent.next_set().unwrap().1, [0]);
    }

    #[test]
    fn a_sync_skips_what_is_clean() {
        let mut intent = Intent::new(16, 8, &[2, 3, 6], true);
        assert_eq!(intent.skip_from(0, 128), Some(32));
        assert_eq!(intent.skip_from(32, 128), None);
        assert_eq!(intent.skip_from(64, 128), Some(96));
        assert!(intent.needs_sync(&(40..41)) && !intent.needs_sync(&(64..96)));
        intent.synced(&(0..64), 128);
        assert!(!intent.needs_sync(&(40..41)) && intent.needs_sync(&(96..97)));
        intent.synced(&(64..128), 128);
        assert!(!intent.needs_sync(&(0..128)));
    }
}
