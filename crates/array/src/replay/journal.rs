//! Replaying a journal: see `uraid_format::JournalMeta` for what it says.
//!
//! Rows of a stripe of which the journal has new data and then parity are written as they are. Rows of which it has data only were
//! acknowledged in write-back mode and had not yet reached the members, which agree with their old parity: they get new parity.

use std::collections::BTreeMap;

use uraid_device::{Buf, Device, DeviceError};
use uraid_engine::codec::{Blocks, Place, generate};
use uraid_format::{JOURNAL_BLOCK_BYTES, JOURNAL_BLOCK_SECTORS, JournalMeta, JournalPayload, journal_seed};
use uraid_parity::crc32c_raw;
use uraid_types::{Sector, Slot, StripeNo};

use super::Rows;
use crate::Candidate;
use crate::probe::bytes_at;

/// The journal's data area: a ring of blocks.
struct Ring<'a> {
    device: &'a dyn Device,
    base: Sector,
    blocks: u64,
    seed: u32,
}

/// The rows of one block of a stripe, as far as the journal has them: blocks of the ring.
#[derive(Debug, Default)]
struct Pending {
    /// By syndrome index.
    data: BTreeMap<usize, u64>,
    /// P, or P and Q; empty until they are there.
    parity: Vec<u64>,
}

/// What was replayed.
#[derive(Debug, Default)]
struct Counts {
    with_parity: u64,
    data_only: u64,
    torn: u64,
}

struct Replayer<'a, 'b> {
    ring: Ring<'a>,
    rows: &'a mut Rows<'b>,
    /// By member data sector.
    pending: BTreeMap<u64, Pending>,
    counts: Counts,
}

/// Replays the journal. Gives a sentence on it.
pub(super) fn replay(rows: &mut Rows, journal: &Candidate) -> Result<String, String> {
    let superblock = journal.superblock();
    let ring = Ring {
        device: &*journal.device,
        base: superblock.data_offset,
        blocks: superblock.data_size.0 / JOURNAL_BLOCK_SECTORS,
        seed: journal_seed(superblock.array_id, crc32c_raw),
    };
    let tail = superblock.journal_tail.unwrap_or(Sector(0)).0 / JOURNAL_BLOCK_SECTORS;
    let mut replayer = Replayer { ring, rows, pending: BTreeMap::new(), counts: Counts::default() };
    replayer.run(tail).map_err(|error| error.to_string())?;
    let Counts { with_parity, data_only, torn } = replayer.counts;
    let torn = if torn > 0 { format!("; {torn} torn writes were left out") } else { String::new() };
    Ok(format!(
        "its journal {} was replayed in memory, the members are as they were: {with_parity} rows with parity, {data_only} with data only{torn}",
        journal.name()
    ))
}

impl Ring<'_> {
    fn read(&self, block: u64) -> Result<Vec<u8>, DeviceError> {
        let at = Sector(self.base.0 + block % self.blocks * JOURNAL_BLOCK_SECTORS);
        bytes_at(self.device, at.byte_offset(), JOURNAL_BLOCK_BYTES as u64)
    }

    /// Do all blocks behind a meta block have their checksums?
    fn is_whole(&self, meta: &JournalMeta, at: u64) -> Result<bool, DeviceError> {
        let checksums = meta.payloads.iter().flat_map(JournalPayload::checksums);
        for (block, &checksum) in (at + 1..).zip(checksums) {
            if crc32c_raw(self.seed, &self.read(block)?) != checksum {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Replayer<'_, '_> {
    fn run(&mut self, tail: u64) -> Result<(), DeviceError> {
        let (mut at, mut expected, mut seen) = (tail, None, 0);
        while let Ok(meta) = JournalMeta::parse(&self.ring.read(at)?, self.ring.seed, crc32c_raw) {
            let blocks = 1 + meta.blocks();
            seen += blocks;
            let is_next = meta.position.0 == at * JOURNAL_BLOCK_SECTORS && expected.is_none_or(|seq| seq == meta.seq);
            if !is_next || seen > self.ring.blocks {
                break;
            }
            // Blocks that did not arrive cost that write, not those behind it: they were under way at the same time.
            if self.ring.is_whole(&meta, at)? {
                self.take(&meta, at)?;
            } else {
                self.counts.torn += 1;
            }
            expected = Some(meta.seq.wrapping_add(1));
            at = (at + blocks) % self.ring.blocks;
        }
        for (row, pending) in std::mem::take(&mut self.pending) {
            self.apply(row, &pending)?;
        }
        Ok(())
    }

    /// Notes what a whole meta block at block `at` of the ring names.
    fn take(&mut self, meta: &JournalMeta, at: u64) -> Result<(), DeviceError> {
        let mut block = at + 1;
        for payload in &meta.payloads {
            match payload {
                JournalPayload::Data { array, checksums } => {
                    for index in 0..checksums.len() as u64 {
                        self.take_data(array.0.saturating_add(index * JOURNAL_BLOCK_SECTORS), block + index)?;
                    }
                }
                JournalPayload::Parity { member, checksums } => {
                    let blocks = (block..).take(checksums.len()).collect();
                    self.pending.entry(member.0).or_default().parity = blocks;
                }
                JournalPayload::Flushed { members } => members.iter().for_each(|row| drop(self.pending.remove(&row.0))),
            }
            block += payload.checksums().len() as u64;
        }
        Ok(())
    }

    fn take_data(&mut self, array: u64, block: u64) -> Result<(), DeviceError> {
        let parity = &self.rows.parity;
        if array >= parity.capacity().0 || !array.is_multiple_of(JOURNAL_BLOCK_SECTORS) {
            self.counts.torn += 1;
            return Ok(());
        }
        let place = parity.stripe_of(Sector(array));
        let row = parity.member_sector(place.stripe, place.offset).0;
        // A write to rows whose earlier write is complete.
        if self.pending.get(&row).is_some_and(|pending| !pending.parity.is_empty()) {
            let earlier = self.pending.remove(&row).unwrap_or_default();
            self.apply(row, &earlier)?;
        }
        self.pending.entry(row).or_default().data.insert(place.index, block);
        Ok(())
    }

    /// Puts what the journal has of the rows at member data sector `row` onto the members.
    fn apply(&mut self, row: u64, pending: &Pending) -> Result<(), DeviceError> {
        let parity = &self.rows.parity;
        // Parity whose data was lost with a torn block, or of rows that are not there, is of no use.
        if pending.data.is_empty() || row >= parity.member_data_sectors().0 || !row.is_multiple_of(JOURNAL_BLOCK_SECTORS) {
            return Ok(());
        }
        let stripe = StripeNo(row / parity.chunk().0);
        let mut writes: Vec<(Slot, Vec<u8>)> = Vec::new();
        for (&index, &block) in &pending.data {
            writes.push((parity.data_slot(stripe, index), self.ring.read(block)?));
        }
        if pending.parity.is_empty() {
            self.counts.data_only += 1;
            writes.extend(self.new_parity(stripe, row, &writes));
        } else {
            self.counts.with_parity += 1;
            let slots = [Some(parity.p_slot(stripe)), parity.q_slot(stripe)];
            for (slot, &block) in slots.into_iter().flatten().zip(&pending.parity) {
                writes.push((slot, self.ring.read(block)?));
            }
        }
        writes.into_iter().try_for_each(|(slot, bytes)| self.rows.write(slot, Sector(row), &bytes))
    }

    /// The parity of the rows with `new` data on top of what the members have; nothing where too much of that is lost.
    fn new_parity(&self, stripe: StripeNo, row: u64, new: &[(Slot, Vec<u8>)]) -> Vec<(Slot, Vec<u8>)> {
        let parity = &self.rows.parity;
        let read = |slot: Slot| self.rows.read(slot, Sector(row), JOURNAL_BLOCK_BYTES);
        let (p_slot, q_slot) = (parity.p_slot(stripe), parity.q_slot(stripe));
        let data_slots: Vec<Slot> = (0..parity.data_members()).map(|index| parity.data_slot(stripe, index)).collect();
        let data: Vec<Option<Buf>> = data_slots.iter().map(|&slot| read(slot)).collect();
        let (p, q) = (read(p_slot), q_slot.and_then(read));
        let old = Blocks {
            data: data.iter().map(Option::as_deref).collect(),
            p: p.as_deref(),
            q: q.as_deref(),
            has_q: q_slot.is_some(),
            gaps: parity.gaps(stripe),
        };
        if !old.recoverable() {
            return Vec::new();
        }
        let rebuilt = old.rebuild_data(&self.rows.pool, JOURNAL_BLOCK_BYTES);
        let now = |index: usize| -> Option<&[u8]> {
            let written = new.iter().find(|(slot, _)| *slot == data_slots[index]).map(|(_, bytes)| &bytes[..]);
            let lost = || rebuilt.iter().find(|(lost, _)| *lost == index).map(|(_, bytes)| &bytes[..]);
            written.or(data[index].as_deref()).or_else(lost)
        };
        let all: Option<Vec<&[u8]>> = (0..data.len()).map(now).collect();
        let Some(all) = all else { return Vec::new() };
        let wanted = (true, q_slot.is_some());
        let made = generate(&all, parity.gaps(stripe), &self.rows.pool, JOURNAL_BLOCK_BYTES, wanted);
        let slot_of = |place| if place == Place::P { Some(p_slot) } else { q_slot };
        made.into_iter().filter_map(|(place, bytes)| Some((slot_of(place)?, bytes.to_vec()))).collect()
    }
}
