//! Ordered pieces of bytes by sector range: new data over which newer data is laid, and blocks that were read.

use std::ops::Range;

use uraid_device::{Buf, Shared};
use uraid_types::SectorCount;

pub(crate) type Rows = Range<u64>;

pub(crate) fn bytes_of(rows: &Rows) -> usize {
    SectorCount(rows.end - rows.start).len_bytes()
}

/// The part of a buffer that starts at sector `base` which holds `rows`.
pub(crate) fn within(base: u64, rows: &Rows) -> Range<usize> {
    let start = SectorCount(rows.start - base).len_bytes();
    start..start + bytes_of(rows)
}

/// New data, without overlaps, in ascending order; what is laid later wins.
#[derive(Debug, Default)]
pub(crate) struct Overlay(Vec<(Rows, Shared)>);

impl Overlay {
    /// Lays `data` over what is there.
    ///
    /// # Panics
    /// When `data` is not as long as `rows`.
    pub fn lay(&mut self, rows: Rows, data: Shared) {
        assert_eq!(data.len(), bytes_of(&rows), "data fits its rows");
        let mut kept = Vec::with_capacity(self.0.len() + 2);
        for (old, bytes) in self.0.drain(..) {
            if old.end <= rows.start || old.start >= rows.end {
                kept.push((old, bytes));
                continue;
            }
            if old.start < rows.start {
                let left = old.start..rows.start;
                kept.push((left.clone(), bytes.slice(within(old.start, &left))));
            }
            if old.end > rows.end {
                let right = rows.end..old.end;
                kept.push((right.clone(), bytes.slice(within(old.start, &right))));
            }
        }
        let at = kept.partition_point(|(old, _)| old.start < rows.start);
        kept.insert(at, (rows, data));
        self.0 = kept;
    }

    pub fn iter(&self) -> impl Iterator<Item = &(Rows, Shared)> {
        self.0.iter()
    }

    /// Where pieces start and end.
    pub fn bounds(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(rows, _)| [rows.start, rows.end])
    }

    /// The new data of `rows`, which no piece's bound may cut; `None` when there is none.
    pub fn get(&self, rows: &Rows) -> Option<Shared> {
        let (piece, bytes) = self.0.iter().find(|(piece, _)| piece.start <= rows.start && rows.end <= piece.end)?;
        Some(bytes.slice(within(piece.start, rows)))
    }

    /// Runs of pieces without a gap: the rows and their bytes.
    pub fn runs(&self) -> Vec<(Rows, Vec<Shared>)> {
        let mut runs: Vec<(Rows, Vec<Shared>)> = Vec::new();
        for (rows, bytes) in &self.0 {
            match runs.last_mut() {
                Some((run, parts)) if run.end == rows.start => {
                    run.end = rows.end;
                    parts.push(bytes.clone());
                }
                _ => runs.push((rows.clone(), vec![bytes.clone()])),
            }
        }
        runs
    }
}

/// Blocks read from one member.
#[derive(Debug, Default)]
pub(crate) struct ReadBlocks(Vec<(Rows, Buf)>);

impl ReadBlocks {
    pub fn put(&mut self, rows: Rows, bytes: Buf) {
        self.0.push((rows, bytes));
    }

    pub fn get(&self, rows: &Rows) -> Option<&[u8]> {
        let (block, bytes) = self.0.iter().find(|(block, _)| block.start <= rows.start && rows.end <= block.end)?;
        Some(&bytes[within(block.start, rows)])
    }
}

/// Merges ranges that touch or overlap; sorted.
pub(crate) fn merge(mut ranges: Vec<Rows>) -> Vec<Rows> {
    ranges.sort_by_key(|rows| rows.start);
    let mut merged: Vec<Rows> = Vec::with_capacity(ranges.len());
    for rows in ranges {
        match merged.last_mut() {
            Some(last) if last.end >= rows.start => last.end = last.end.max(rows.end),
            _ => merged.push(rows),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use uraid_device::Pool;

    fn filled(pool: &Pool, sectors: u64, byte: u8) -> Shared {
        let mut buf = pool.take(SectorCount(sectors).len_bytes());
        buf.fill(byte);
        buf.share()
    }

    /// Against a plain array, for every pair and triple of small ranges.
    #[test]
    fn later_data_wins_as_in_a_plain_array() {
        let pool = Pool::new(0);
        let ranges: Vec<Rows> = (0..5).flat_map(|start| (start + 1..=5).map(move |end| start..end)).collect();
        for a in &ranges {
            for b in &ranges {
                for c in &ranges {
                    let (mut overlay, mut plain) = (Overlay::default(), [0u8; 5]);
                    for (rows, byte) in [(a, 1), (b, 2), (c, 3)] {
                        overlay.lay(rows.clone(), filled(&pool, rows.end - rows.start, byte));
                        plain[rows.start as usize..rows.end as usize].fill(byte);
                    }
                    let mut seen = [0u8; 5];
                    for (rows, bytes) in overlay.iter() {
                        for row in rows.clone() {
                            assert_eq!(seen[row as usize], 0, "no overlaps");
                            seen[row as usize] = bytes[within(rows.start, &(row..row + 1))][0];
                        }
                    }
                    assert_eq!(seen, plain, "{a:?} {b:?} {c:?}");
                    let covered: u64 = overlay.runs().iter().map(|(rows, _)| rows.end - rows.start).sum();
                    assert_eq!(covered as usize, plain.iter().filter(|&&byte| byte != 0).count());
                }
            }
        }
    }

    #[test]
    fn ranges_merge() {
        assert_eq!(merge(vec![4..6, 0..2, 2..3, 5..9]), [0..3, 4..9]);
    }
}
