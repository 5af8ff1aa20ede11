//! What each array sector may hold.
//!
//! Every write leaves an entry on its sectors, from when it was submitted to when it ended. A sector may read as any entry that no
//! later one has certainly replaced; after a crash as any that no later *durable* one has.

use std::collections::BTreeSet;
use std::ops::Range;

/// A write's contents; sectors of it are told apart by their place.
pub type Value = u32;
/// Anything at all: what was there before the first write, or what a write hole left.
pub const ANY: Value = 0;
/// Zeros.
pub const ZERO: Value = 1;
/// Bytes of a sector.
pub const SECTOR: usize = 512;

const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    value: Value,
    submitted: u64,
    ended: u64,
    /// It ended well.
    acknowledged: bool,
    durable: bool,
    /// A read found something else when this one was long ended: since when, and in which of the model's epochs.
    unseen: Option<(u64, u32)>,
}

/// See the module. Times are counted by the caller and never repeat.
#[derive(Clone, Debug)]
pub struct Model {
    sectors: Vec<Vec<Entry>>,
    /// Sectors with more than one entry, or with entries still under way.
    open: BTreeSet<usize>,
    /// Copies may differ: what was read once need not be what is read next.
    epoch: u32,
}

/// The bytes that `value` has at `sector`.
pub fn fill(value: Value, sector: u64, into: &mut [u8]) {
    let mut word = (u64::from(value) << 32 ^ sector).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (index, bytes) in into.chunks_exact_mut(8).enumerate() {
        let bits = match (value, index) {
            (ZERO, _) => 0,
            (_, 0) => u64::from(value) << 32 | sector,
            _ => word,
        };
        bytes.copy_from_slice(&bits.to_le_bytes());
        word = word.wrapping_add(0xd1b5_4a32_d192_ed03);
    }
}

/// Does `bytes` hold `value` at `sector`?
pub fn holds(value: Value, sector: u64, bytes: &[u8]) -> bool {
    let first = if value == ZERO { 0 } else { u64::from(value) << 32 | sector };
    if value != ANY && bytes[..8] != first.to_le_bytes() {
        return false;
    }
    let mut expected = [0; SECTOR];
    fill(value, sector, &mut expected);
    value == ANY || bytes == expected
}

/// Which write made these bytes, for messages and to tell new data from the rest.
pub fn decode(bytes: &[u8], sector: u64) -> Option<Value> {
    let first = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    let value = (first >> 32) as Value;
    (value > ZERO && holds(value, sector, bytes)).then_some(value)
}

impl Model {
    /// An array of `sectors`, all of them holding `value`.
    #[must_use]
    pub fn new(sectors: u64, value: Value) -> Model {
        let entry = Entry { value, submitted: 0, ended: 0, acknowledged: true, durable: true, unseen: None };
        Model { sectors: (0..sectors).map(|_| vec![entry]).collect(), open: BTreeSet::new(), epoch: 0 }
    }

    /// Sectors of the array.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn each(&mut self, range: &Range<u64>) -> impl Iterator<Item = &mut Vec<Entry>> {
        self.sectors[range.start as usize..range.end as usize].iter_mut()
    }

    /// A write of `value` is asked for.
    pub fn submit(&mut self, range: &Range<u64>, value: Value, now: u64) {
        for entries in self.each(range) {
            entries.push(Entry { value, submitted: now, ended: NEVER, acknowledged: false, durable: false, unseen: None });
        }
        self.open.extend(range.start as usize..range.end as usize);
    }

    /// The write of `value` has ended.
    pub fn end(&mut self, range: &Range<u64>, value: Value, acknowledged: bool, durable: bool, now: u64) {
        for entries in self.each(range) {
            let entry = entries.iter_mut().find(|entry| entry.value == value && entry.ended == NEVER);
            let entry = entry.expect("a write that ends was submitted");
            (entry.ended, entry.acknowledged, entry.durable) = (now, acknowledged, acknowledged && durable);
        }
    }

    /// A flush that was submitted at `submitted` has ended well. Reads since `oldest_read` are still under way.
    pub fn flushed(&mut self, submitted: u64, oldest_read: u64) {
        let mut closed = Vec::new();
        for &sector in &self.open {
            let entries = &mut self.sectors[sector];
            for entry in entries.iter_mut().filter(|entry| entry.acknowledged && entry.ended < submitted) {
                entry.durable = true;
            }
            let by = entries.clone();
            entries.retain(|entry| {
                !by.iter().any(|later| later.durable && later.submitted > entry.ended && later.ended < oldest_read)
            });
            if entries.len() == 1 && entries[0].durable {
                closed.push(sector);
            }
        }
        for sector in closed {
            self.open.remove(&sector);
        }
    }

    /// The power goes: whatever no durable write has replaced may be there.
    pub fn crash(&mut self, now: u64) {
        for &sector in &self.open {
            let entries = &mut self.sectors[sector];
            let by = entries.clone();
            entries.retain(|entry| !by.iter().any(|later| later.durable && later.submitted > entry.ended));
            for entry in entries.iter_mut() {
                *entry =
                    Entry { value: entry.value, submitted: now, ended: now, acknowledged: true, durable: true, unseen: None };
            }
        }
        self.copies_may_differ();
    }

    /// From now on a read may find what an earlier one did not.
    pub fn copies_may_differ(&mut self) {
        self.epoch += 1;
    }

    /// Counts how often copies may have come to differ: what a read found says nothing of later ones when this has changed since it
    /// was submitted.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The contents of the range may be anything.
    pub fn forget(&mut self, range: &Range<u64>, now: u64) {
        for entries in self.each(range) {
            entries.push(Entry { value: ANY, submitted: now, ended: now, acknowledged: false, durable: false, unseen: None });
        }
        self.open.extend(range.start as usize..range.end as usize);
    }

    /// A number for what sectors may hold: the same where that is the same.
    pub fn number(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        for (sector, entries) in self.sectors.iter().enumerate() {
            let mut values: Vec<Value> = entries.iter().map(|entry| entry.value).collect();
            values.sort_unstable();
            (sector, values).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The sectors with a write that a crash may undo or tear.
    pub fn unsafe_sectors(&self) -> impl Iterator<Item = u64> + '_ {
        let at_risk = |sector: &&usize| self.sectors[**sector].iter().any(|entry| !entry.durable);
        self.open.iter().filter(at_risk).map(|&sector| sector as u64)
    }

    /// A read from `submitted` to `now` found `bytes` at `sector`; when the array is `stable`, later reads must find the same.
    ///
    /// # Errors
    /// What could have been there.
    pub fn check_read(&mut self, sector: u64, bytes: &[u8], submitted: u64, now: u64, stable: bool) -> Result<(), String> {
        let epoch = self.epoch;
        let entries = &mut self.sectors[sector as usize];
        let replaced = |entry: &Entry| {
            entries.iter().any(|later| later.acknowledged && later.submitted > entry.ended && later.ended < submitted)
                || entry.unseen.is_some_and(|(since, in_epoch)| since < submitted && in_epoch == epoch)
        };
        let possible: Vec<Value> = entries.iter().filter(|entry| !replaced(entry)).map(|entry| entry.value).collect();
        let Some(&found) = possible.iter().find(|&&value| holds(value, sector, bytes)) else {
            let first = u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default());
            return Err(format!(
                "array sector {sector} holds {:?} (first word {first:#x}), which is none of {possible:?}; entries {entries:?}",
                decode(bytes, sector)
            ));
        };
        let quiet = stable && entries.iter().all(|entry| entry.ended < submitted);
        if quiet && found != ANY && possible.len() > 1 {
            for entry in entries.iter_mut().filter(|entry| entry.value != found && entry.unseen.is_none_or(|(_, e)| e != epoch)) {
                entry.unseen = Some((now, epoch));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: Value, sector: u64) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        fill(value, sector, &mut bytes);
        bytes
    }

    #[test]
    fn an_acknowledged_write_is_what_is_read_and_may_be_lost_until_flushed() {
        let mut model = Model::new(8, ZERO);
        model.submit(&(2..4), 7, 1);
        assert!(
            model.check_read(2, &bytes(ZERO, 2), 2, 3, true).is_ok() && model.check_read(2, &bytes(7, 2), 2, 3, true).is_ok()
        );
        model.end(&(2..4), 7, true, false, 4);
        assert!(model.check_read(2, &bytes(ZERO, 2), 5, 6, true).is_err(), "read your writes");
        assert!(model.check_read(2, &bytes(ZERO, 2), 3, 6, true).is_ok(), "a read that began before");
        model.crash(7);
        assert!(model.check_read(2, &bytes(ZERO, 2), 8, 9, true).is_ok(), "not flushed");
        assert!(model.check_read(2, &bytes(7, 2), 10, 11, true).is_err(), "but then it stays lost");
        model.submit(&(2..3), 9, 12);
        model.end(&(2..3), 9, true, false, 13);
        model.flushed(14, 15);
        model.crash(16);
        assert!(
            model.check_read(2, &bytes(7, 2), 17, 18, true).is_err() && model.check_read(2, &bytes(9, 2), 17, 18, true).is_ok()
        );
    }

    #[test]
    fn concurrent_writes_end_in_either_order() {
        let mut model = Model::new(1, ZERO);
        model.submit(&(0..1), 5, 1);
        model.submit(&(0..1), 6, 2);
        model.end(&(0..1), 5, true, false, 3);
        model.end(&(0..1), 6, true, false, 4);
        assert!(model.check_read(0, &bytes(5, 0), 5, 6, true).is_ok());
        assert!(model.check_read(0, &bytes(6, 0), 7, 8, true).is_err(), "what was read once stays");
        model.copies_may_differ();
        assert!(model.check_read(0, &bytes(6, 0), 9, 10, true).is_ok());
        assert!(model.check_read(0, &bytes(ZERO, 0), 9, 10, true).is_err());
    }
}
