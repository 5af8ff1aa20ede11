//! A simulated disk: what is durable, what its volatile cache holds, and which faults it has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use uraid_device::{Buf, Shared};

use crate::rng::Rng;
use crate::silent::Silent;

/// What a crash does to the writes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them reached the medium.
    Kept,
    /// None did.
    Lost,
    /// Each block by itself: any of its versions, the durable one included.
    Torn,
}

/// See the module. Addresses are bytes, in whole logical blocks.
#[derive(Clone, Debug)]
pub struct Disk {
    /// For messages, and the name that the array knows it by.
    pub name: String,
    block_bytes: usize,
    /// What is left after a power cut.
    durable: Vec<u8>,
    /// What reads see.
    view: Vec<u8>,
    /// Versions of a block that are not durable, oldest first, each with the number of its write.
    unflushed: BTreeMap<usize, Vec<(u64, Vec<u8>)>>,
    writes: u64,
    /// While it is given contents that it does not have: the blocks written since, and whether each has been durable at any time.
    filling: Option<BTreeMap<usize, bool>>,
    /// What it has already when that begins: blocks before this one.
    filled: usize,
    /// Blocks that cannot be read until they are rewritten.
    bad: BTreeSet<usize>,
    /// It answers nothing but errors.
    pub dead: bool,
    /// Its completions come late.
    pub slow: bool,
    /// So many data writes from now on fail for want of space.
    pub full: u32,
    /// So many writes from now on fail.
    pub failing_writes: u32,
    /// The next flush fails.
    pub failing_flush: bool,
    /// What it does to its next data write, telling nobody.
    pub silent: Option<Silent>,
    /// The bytes that are wrong for that.
    hit: Vec<Range<u64>>,
    /// A mutation for canaries: flushes are acknowledged and not done.
    pub flush_lies: bool,
}

impl Disk {
    /// A disk of `len_bytes`, filled with zeros or with noise.
    pub fn new(name: String, len_bytes: usize, block_bytes: usize, noise: Option<&mut Rng>) -> Disk {
        let mut durable = vec![0; len_bytes];
        if let Some(rng) = noise {
            for word in durable.chunks_exact_mut(8) {
                word.copy_from_slice(&rng.next().to_le_bytes());
            }
        }
        Disk {
            name,
            block_bytes,
            view: durable.clone(),
            durable,
            unflushed: BTreeMap::new(),
            writes: 0,
            filling: None,
            filled: 0,
            bad: BTreeSet::new(),
            dead: false,
            slow: false,
            full: 0,
            failing_writes: 0,
            failing_flush: false,
            silent: None,
            hit: Vec::new(),
            flush_lies: false,
        }
    }

    /// Puts bytes on the medium, as if they had always been there.
    pub fn place(&mut self, start_byte: u64, bytes: &[u8]) {
        let range = start_byte as usize..start_byte as usize + bytes.len();
        self.durable[range.clone()].copy_from_slice(bytes);
        self.view[range].copy_from_slice(bytes);
    }

    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.view.len() as u64
    }

    /// Bytes of a logical block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes as u64
    }

    /// What a power cut would leave.
    #[must_use]
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// What a read would see.
    #[must_use]
    pub fn view(&self) -> &[u8] {
        &self.view
    }

    fn blocks(&self, offset_bytes: u64, len_bytes: u64) -> std::ops::Range<usize> {
        let block = self.block_bytes as u64;
        assert!(
            offset_bytes.is_multiple_of(block) && len_bytes.is_multiple_of(block),
            "{}: {len_bytes} bytes at {offset_bytes} are not whole blocks of {block}",
            self.name
        );
        assert!(
            offset_bytes + len_bytes <= self.len_bytes(),
            "{}: {len_bytes} bytes at {offset_bytes} are beyond its end",
            self.name
        );
        (offset_bytes / block) as usize..((offset_bytes + len_bytes) / block) as usize
    }

    /// Fills `into`; false when a block of it cannot be read.
    pub fn read(&self, offset_bytes: u64, into: &mut Buf) -> bool {
        let blocks = self.blocks(offset_bytes, into.len() as u64);
        if self.bad.range(blocks).next().is_some() {
            return false;
        }
        let start = offset_bytes as usize;
        let len = into.len();
        into.copy_from_slice(&self.view[start..start + len]);
        true
    }

    /// Takes a write into the cache: at once, or only those blocks that `lands` chooses.
    pub fn write(&mut self, offset_bytes: u64, parts: &[Shared], mut lands: impl FnMut() -> bool) {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.writes += 1;
        for (index, block) in self.blocks(offset_bytes, bytes.len() as u64).enumerate() {
            if !lands() {
                continue;
            }
            let new = &bytes[index * self.block_bytes..(index + 1) * self.block_bytes];
            self.view[block * self.block_bytes..(block + 1) * self.block_bytes].copy_from_slice(new);
            self.unflushed.entry(block).or_default().push((self.writes, new.to_vec()));
            if let Some(filling) = &mut self.filling {
                filling.entry(block).or_insert(false);
            }
            self.bad.remove(&block);
        }
    }

    /// Takes a data write, doing to it what [`Disk::silent`] says. The data ends at `end_byte`.
    pub fn write_silently_wrong(&mut self, offset_bytes: u64, parts: &[Shared], end_byte: u64) {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        match self.silent.take() {
            None => return self.write(offset_bytes, parts, || true),
            Some(Silent::Misdirected(by)) if offset_bytes + by + len <= end_byte => {
                self.write(offset_bytes + by, parts, || true);
                self.hit.push(offset_bytes + by..offset_bytes + by + len);
            }
            Some(Silent::Phantom | Silent::Misdirected(_)) => {}
        }
        self.hit.push(offset_bytes..offset_bytes + len);
    }

    /// Turns bits of a byte around, durably.
    pub fn rot(&mut self, byte: u64, bits: u8) {
        self.durable[byte as usize] ^= bits;
        self.view[byte as usize] ^= bits;
    }

    /// What silent faults hit since the last call.
    pub fn take_hit(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.hit)
    }

    /// The mark of a flush sent now: it covers the writes that have ended by now.
    #[must_use]
    pub const fn flush_mark(&self) -> u64 {
        self.writes
    }

    /// A flush sent at `mark` ends.
    pub fn flush(&mut self, mark: u64) {
        if self.flush_lies {
            return;
        }
        let (durable, size, filling) = (&mut self.durable, self.block_bytes, &mut self.filling);
        self.unflushed.retain(|&block, versions| {
            let covered = versions.partition_point(|(write, _)| *write <= mark);
            if let Some((_, bytes)) = versions[..covered].last() {
                durable[block * size..(block + 1) * size].copy_from_slice(bytes);
                if let Some(filling) = filling {
                    filling.insert(block, true);
                }
            }
            versions.drain(..covered);
            !versions.is_empty()
        });
    }

    /// A flush sent at `mark` fails: what it should have made durable never will be, as with a page cache that counts pages as
    /// written once it has told of the failure. Returns the first bytes of those blocks.
    pub fn fail_flush(&mut self, mark: u64) -> Vec<u64> {
        self.failing_flush = false;
        let mut dropped = Vec::new();
        self.unflushed.retain(|&block, versions| {
            if versions.iter().any(|(write, _)| *write <= mark) {
                dropped.push((block * self.block_bytes) as u64);
            }
            versions.retain(|(write, _)| *write > mark);
            !versions.is_empty()
        });
        dropped
    }

    /// Blocks that are not durable, with what was written to them since they were, oldest first.
    pub fn unflushed_versions(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = &Vec<u8>>)> {
        self.unflushed.iter().map(|(&block, versions)| (block, versions.iter().map(|(_, bytes)| bytes)))
    }

    /// What a power cut would leave of a block.
    #[must_use]
    pub fn durable_block(&self, block: usize) -> &[u8] {
        &self.durable[block * self.block_bytes..(block + 1) * self.block_bytes]
    }

    /// Puts the contents of a block on the medium.
    pub fn put_durable(&mut self, block: usize, bytes: &[u8]) {
        self.place((block * self.block_bytes) as u64, bytes);
    }

    /// From now on it is given contents that it has only before `filled_byte`.
    pub fn begin_filling(&mut self, filled_byte: u64) {
        self.filling = Some(BTreeMap::new());
        self.filled = filled_byte as usize / self.block_bytes;
    }

    /// It counts as filled.
    pub fn end_filling(&mut self) {
        self.filling = None;
    }

    /// The first bytes of blocks of which a power cut would leave nothing that was written since the disk began to be filled.
    pub fn not_filled_durably(&self) -> impl Iterator<Item = u64> + '_ {
        self.filling
            .iter()
            .flatten()
            .filter(|(block, durable)| **block >= self.filled && !**durable)
            .map(|(block, _)| (block * self.block_bytes) as u64)
    }

    /// The first bytes of blocks that a power cut may change.
    pub fn unsettled(&self) -> impl Iterator<Item = u64> + '_ {
        let size = self.block_bytes;
        let differs = move |block: &usize| {
            let range = block * size..(block + 1) * size;
            self.view[range.clone()] != self.durable[range]
        };
        self.unflushed.keys().copied().filter(differs).map(move |block| (block * size) as u64)
    }

    /// Is there anything that a power cut could take?
    #[must_use]
    pub fn unflushed_blocks(&self) -> Vec<u64> {
        self.unflushed.keys().map(|&block| block as u64).collect()
    }

    /// The power goes: what was not durable is kept, lost or torn.
    pub fn crash(&mut self, loss: Loss, rng: &mut Rng) {
        for (block, versions) in std::mem::take(&mut self.unflushed) {
            let kept = match loss {
                Loss::Kept => versions.len(),
                Loss::Lost => 0,
                Loss::Torn => rng.index(versions.len() + 1),
            };
            if let Some((_, bytes)) = kept.checked_sub(1).and_then(|last| versions.get(last)) {
                self.durable[block * self.block_bytes..(block + 1) * self.block_bytes].copy_from_slice(bytes);
            }
        }
        self.view.copy_from_slice(&self.durable);
        (self.full, self.failing_writes, self.failing_flush, self.slow) = (0, 0, false, false);
    }

    /// Makes the block at `offset_bytes` unreadable until it is rewritten.
    pub fn spoil(&mut self, offset_bytes: u64) {
        self.bad.insert((offset_bytes / self.block_bytes as u64) as usize);
    }

    /// Makes unreadable blocks readable again where `which` says so of their first byte.
    pub fn mend(&mut self, which: impl Fn(u64) -> bool) {
        let block_bytes = self.block_bytes as u64;
        self.bad.retain(|&block| !which(block as u64 * block_bytes));
    }

    /// Are there unreadable blocks?
    #[must_use]
    pub fn has_bad_blocks(&self) -> bool {
        !self.bad.is_empty()
    }

    /// All faults but death end.
    pub fn heal(&mut self) {
        self.bad.clear();
        (self.full, self.failing_writes, self.failing_flush, self.slow) = (0, 0, false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uraid_device::Pool;

    fn filled(byte: u8) -> Vec<Shared> {
        vec![Pool::new(0).copy(&[byte; 1024])]
    }

    #[test]
    fn a_flush_covers_what_ended_before_it_was_sent() {
        let mut disk = Disk::new("d".to_owned(), 4096, 512, None);
        disk.write(0, &filled(1), || true);
        let mark = disk.flush_mark();
        disk.write(512, &filled(2), || true);
        disk.flush(mark);
        assert_eq!((disk.view()[512], disk.durable()[512]), (2, 1));
        disk.crash(Loss::Lost, &mut Rng::new(1));
        assert_eq!((disk.view()[0], disk.view()[512], disk.view()[1024]), (1, 1, 0));
    }

    #[test]
    fn bad_blocks_heal_when_rewritten() {
        let mut disk = Disk::new("d".to_owned(), 4096, 512, None);
        let mut buf = Pool::new(0).take(1024);
        disk.spoil(600);
        assert!(!disk.read(0, &mut buf));
        disk.write(0, &filled(3), || true);
        assert!(disk.read(0, &mut buf) && buf[1023] == 3);
    }
}
