//! The bad-block log: sectors of one member whose data is lost.
//!
//! Source of the format: the log that Linux 6.1 writes and `mdadm --examine-badblocks` prints (see the fixtures). Each entry is
//! 64 bits, little-endian: the start in the upper 54, the length in the lower 10, both in units of `1 << bblog_shift` sectors,
//! counted from the member's start (not from its data). All ones end the log.

use uraid_types::{Sector, SectorCount};

/// Bits of an entry's length.
const LEN_BITS: u32 = 10;

/// The longest length that md writes; longer runs take several entries.
const MAX_LEN: u64 = 512;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 8;

/// What is wrong with a bad-block log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBlocksError {
    /// An entry of no length, or beyond 64 bits.
    #[error("bad-block entry {index} is {entry:#018x}, which names no sectors; leave this member out: what it lost is not known")]
    Entry {
        /// The entry's place in the log.
        index: usize,
        /// Its value.
        entry: u64,
    },
    /// More ranges than the log holds.
    #[error("{needed} bad-block entries do not fit a log of {room}; the member must be failed")]
    Full {
        /// Entries needed.
        needed: usize,
        /// Entries that fit.
        room: usize,
    },
    /// A range that cannot be written in units of `1 << shift` sectors, or begins beyond 54 bits.
    #[error("bad blocks at {start} (of {len}) cannot be recorded in units of 2^{shift} sectors")]
    Unit {
        /// Its start.
        start: Sector,
        /// Its length.
        len: SectorCount,
        /// `bblog_shift`.
        shift: u8,
    },
}

/// Reads a log: ranges of member sectors, in the order found (md does not sort them).
///
/// # Errors
/// [`BadBlocksError::Entry`] for an entry that makes no sense.
pub fn parse_bad_blocks(log: &[u8], shift: u8) -> Result<Vec<(Sector, SectorCount)>, BadBlocksError> {
    let entries =
        log.chunks_exact(ENTRY_BYTES).map(|entry| entry.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)));
    let mut ranges = Vec::new();
    for (index, entry) in entries.take_while(|&entry| entry != u64::MAX).enumerate() {
        let range = unpack(entry, shift).ok_or(BadBlocksError::Entry { index, entry })?;
        ranges.push(range);
    }
    Ok(ranges)
}

/// Writes a log of `log_bytes`; long ranges are split, empty ones left out.
///
/// # Errors
/// [`BadBlocksError::Full`] when they do not fit, [`BadBlocksError::Unit`] when one is no multiple of the log's unit.
pub fn bad_blocks_to_bytes(ranges: &[(Sector, SectorCount)], shift: u8, log_bytes: usize) -> Result<Vec<u8>, BadBlocksError> {
    let room = log_bytes / ENTRY_BYTES;
    let mut entries = Vec::new();
    for &(start, len) in ranges {
        let unit = BadBlocksError::Unit { start, len, shift };
        let (mut from, mut left) = in_units(start, len, shift).ok_or(unit.clone())?;
        let needed = entries.len() + left.div_ceil(MAX_LEN) as usize;
        if needed > room {
            return Err(BadBlocksError::Full { needed, room });
        }
        while left > 0 {
            let many = left.min(MAX_LEN);
            if from >> (u64::BITS - LEN_BITS) != 0 {
                return Err(unit);
            }
            entries.push(from << LEN_BITS | many);
            from += many;
            left -= many;
        }
    }
    let mut log = vec![0xff; log_bytes];
    for (place, entry) in log.chunks_exact_mut(ENTRY_BYTES).zip(&entries) {
        place.copy_from_slice(&entry.to_le_bytes());
    }
    Ok(log)
}

fn unpack(entry: u64, shift: u8) -> Option<(Sector, SectorCount)> {
    let unit = 1u64.checked_shl(u32::from(shift))?;
    let start = (entry >> LEN_BITS).checked_mul(unit)?;
    let len = (entry & ((1 << LEN_BITS) - 1)).checked_mul(unit)?;
    start.checked_add(len)?;
    (len > 0).then_some((Sector(start), SectorCount(len)))
}

fn in_units(start: Sector, len: SectorCount, shift: u8) -> Option<(u64, u64)> {
    let unit = 1u64.checked_shl(u32::from(shift))?;
    start.0.checked_add(len.0)?;
    (start.0.is_multiple_of(unit) && len.0.is_multiple_of(unit)).then(|| (start.0 / unit, len.0 / unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(log in prop::collection::vec(any::<u8>(), 0..200), shift in any::<u8>()) {
            let _ = parse_bad_blocks(&log, shift);
        }

        #[test]
        fn ranges_go_round(ranges in prop::collection::vec((0u64..1 << 53, 1u64..=512), 0..64), shift in 0u8..4) {
            let ranges: Vec<_> = ranges.iter().map(|&(start, len)| (Sector(start << shift), SectorCount(len << shift))).collect();
            let log = bad_blocks_to_bytes(&ranges, shift, 512).unwrap();
            prop_assert_eq!(parse_bad_blocks(&log, shift).unwrap(), ranges);
        }
    }

    #[test]
    fn long_runs_are_split_and_a_full_log_is_refused() {
        let log = bad_blocks_to_bytes(&[(Sector(9000), SectorCount(600))], 0, 24).unwrap();
        let split = [(Sector(9000), SectorCount(512)), (Sector(9512), SectorCount(88))];
        assert_eq!(parse_bad_blocks(&log, 0).unwrap(), split);
        let four = [(Sector(0), SectorCount(4 * 512))];
        assert_eq!(bad_blocks_to_bytes(&four, 0, 24), Err(BadBlocksError::Full { needed: 4, room: 3 }));
    }

    #[test]
    fn an_entry_of_no_length_is_refused() {
        let log = (7u64 << 10).to_le_bytes();
        assert_eq!(parse_bad_blocks(&log, 0), Err(BadBlocksError::Entry { index: 0, entry: 7 << 10 }));
    }
}
