//! P and Q over many shapes: the kernel in use, the best one, and the share of the XOR-only limit.

use std::time::Duration;

use serde::Serialize;
use uraid_parity::Operation;
use uraid_parity::measure::{Comparison, MeasureError, Part, compare};
use uraid_report::{Table, human_bytes};

/// Data disks of the grid.
const DATA_DISKS: [usize; 4] = [4, 6, 8, 14];

/// Block lengths: a page, a chunk, a large chunk, and one with which no stripe stays in a cache.
const BLOCK_BYTES: [usize; 4] = [4 << 10, 64 << 10, 512 << 10, 16 << 20];

/// How often all kernels are measured in turn; the median counts.
const ROUNDS: usize = 3;

/// What came out for one shape. Rates are MiB of data a second.
#[derive(Debug, Serialize)]
pub struct Cell {
    data_disks: usize,
    block_bytes: usize,
    /// The kernel that the library uses for the shape, by its own short measuring.
    pub chosen: &'static str,
    pub chosen_mib_per_second: f64,
    /// The fastest now.
    best: &'static str,
    best_mib_per_second: f64,
    /// Loading and storing the same bytes with no other arithmetic than XOR.
    pub limit_mib_per_second: Option<f64>,
    /// What the chosen kernel reached of that, 1 for all; noise may take it beyond.
    pub share_of_limit: Option<f64>,
}

impl Cell {
    /// Measures making P and Q, each kernel for `slice` in each round.
    ///
    /// # Errors
    /// For shapes that can't be.
    pub fn measure(data_disks: usize, block_bytes: usize, slice: Duration) -> Result<Cell, MeasureError> {
        Ok(Cell::of(&compare(Operation::GenPq, Part::OneDisk, data_disks, block_bytes, ROUNDS, slice)?))
    }

    fn of(found: &Comparison) -> Cell {
        let best = found.best();
        Cell {
            data_disks: found.data_disks,
            block_bytes: found.block_bytes,
            chosen: found.chosen,
            chosen_mib_per_second: found.chosen_rate(),
            best: best.map_or(found.chosen, |best| best.kernel),
            best_mib_per_second: best.map_or(0.0, |best| best.mib_per_second),
            limit_mib_per_second: found.limit.map(|limit| limit.mib_per_second),
            share_of_limit: found.share_of_limit(),
        }
    }
}

/// The whole grid.
///
/// # Errors
/// None of these shapes is one that can't be.
pub fn measure(slice: Duration) -> Result<Vec<Cell>, MeasureError> {
    let shapes = BLOCK_BYTES.into_iter().flat_map(|block_bytes| DATA_DISKS.map(|data_disks| (data_disks, block_bytes)));
    shapes.map(|(data_disks, block_bytes)| Cell::measure(data_disks, block_bytes, slice)).collect()
}

/// The grid as a table.
pub fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new(&["data disks", "block", "in use", "gen() MB/s", "best", "MB/s", "XOR-only MB/s", "share of it"]);
    for column in [0, 1, 3, 5, 6, 7] {
        table.right(column);
    }
    for cell in cells {
        table.row([
            cell.data_disks.to_string(),
            human_bytes(cell.block_bytes as u64),
            cell.chosen.to_owned(),
            format!("{:.0}", cell.chosen_mib_per_second),
            cell.best.to_owned(),
            format!("{:.0}", cell.best_mib_per_second),
            cell.limit_mib_per_second.map_or_else(|| "-".to_owned(), |limit| format!("{limit:.0}")),
            cell.share_of_limit.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}")),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use uraid_parity::measure::Rate;

    #[test]
    fn shares_are_of_the_kernel_in_use() {
        let rate = |kernel, mib_per_second| Rate { kernel, mib_per_second };
        // Figures published for six data disks and a page, as if the slower were in use.
        let found = Comparison {
            operation: Operation::GenPq,
            part: Part::OneDisk,
            data_disks: 6,
            block_bytes: 4096,
            rates: vec![rate("a", 57.0), rate("b", 139.0)],
            chosen: "a",
            limit: Some(rate("limit", 175.0)),
            two_pass: Vec::new(),
        };
        let cell = Cell::of(&found);
        assert_eq!((cell.chosen_mib_per_second, cell.best, cell.best_mib_per_second), (57.0, "b", 139.0));
        assert!(cell.share_of_limit.is_some_and(|share| (share - 57.0 / 175.0).abs() < 1e-12));
        assert!(table(&[cell]).to_string().ends_with("0.33"));
    }
}
