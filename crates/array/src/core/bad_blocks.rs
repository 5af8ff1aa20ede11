//! Bad-block logs kept while an array runs: as with md, what has been written again is bad no more.
//!
//! A sector leaves the log only once its new data is durable. A log that cannot be written (its entries are too many, or it is not
//! aligned to the member's blocks) keeps what it has: it then names sectors that are good again, never too few.

use uraid_device::{IoOp, Pool};
use uraid_format::{Feature, bad_blocks_to_bytes};
use uraid_types::{SECTOR_BYTES, Sector, SectorCount};

use super::Core;
use super::roles::Attached;

/// Sectors from the member's start.
pub(super) type Ranges = Vec<(Sector, SectorCount)>;

/// `ranges` without the sectors of `start` to `end`.
fn without(ranges: &Ranges, start: u64, end: u64) -> Ranges {
    let rest = |&(from, len): &(Sector, SectorCount)| {
        let to = from.0 + len.0;
        [(from.0, to.min(start)), (from.0.max(end), to)]
    };
    let left = ranges.iter().flat_map(rest).filter(|(from, to)| from < to);
    left.map(|(from, to)| (Sector(from), SectorCount(to - from))).collect()
}

impl Core {
    /// An operation of the engine on the member of `key` has succeeded.
    pub(super) fn note_good(&mut self, key: usize, op: &IoOp) {
        if !matches!(op, IoOp::Write { .. } | IoOp::Zero { .. }) {
            return;
        }
        let Some(member) = self.attached.iter_mut().find(|member| member.key == key && !member.bad_blocks.is_empty()) else {
            return;
        };
        let start = op.offset_bytes().div_ceil(SECTOR_BYTES);
        let end = (op.offset_bytes() + op.len_bytes()) / SECTOR_BYTES;
        let left = without(&member.bad_blocks, start, end);
        if left != member.bad_blocks {
            member.bad_blocks = left;
            self.persist.put_bad_blocks(key);
        }
    }

    /// Writes the log of the member of `key` with the ranges that are left, and its superblock where that mentions the log.
    pub(super) fn write_bad_blocks(&mut self, key: usize, left: &Ranges) {
        let block = self.block.0;
        let Some(member) = self.attached.iter_mut().find(|member| member.key == key) else { return };
        let Some(log) = log_bytes(member, left, block) else { return };
        member.raw.update(|sb| sb.set_feature(Feature::BadBlocks, !left.is_empty()));
        let superblock = member.raw.superblock();
        let Some((start, _)) = superblock.bad_block_log() else { return };
        let (pool, super_byte, raw) = (Pool::new(0), superblock.super_offset.byte_offset(), member.raw.to_bytes());
        let writes = [(start.byte_offset(), log), (super_byte, raw)];
        self.send_to_all(|member| {
            let write = |(at, bytes): &(u64, Vec<u8>)| IoOp::Write { offset_bytes: *at, from: vec![pool.copy(bytes)] };
            if member.key == key { writes.iter().map(write).collect() } else { Vec::new() }
        });
    }
}

/// The log's bytes, where it can be written.
fn log_bytes(member: &Attached, left: &Ranges, block: u64) -> Option<Vec<u8>> {
    let superblock = member.raw.superblock();
    let (start, len) = superblock.bad_block_log()?;
    let is_aligned = start.0.is_multiple_of(block) && len.0.is_multiple_of(block);
    let log = bad_blocks_to_bytes(left, superblock.bad_block_shift, len.len_bytes());
    log.ok().filter(|_| is_aligned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_cut_out() {
        let ranges = vec![(Sector(10), SectorCount(10)), (Sector(40), SectorCount(2))];
        let range = |start, len| (Sector(start), SectorCount(len));
        assert_eq!(without(&ranges, 0, 10), ranges);
        assert_eq!(without(&ranges, 12, 14), [range(10, 2), range(14, 6), range(40, 2)]);
        assert_eq!(without(&ranges, 15, 41), [range(10, 5), range(41, 1)]);
        assert_eq!(without(&ranges, 0, 100), []);
    }
}
