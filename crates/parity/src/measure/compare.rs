//! All kernels for one shape side by side: in turn, many times, so that whatever else the machine does hits all alike.

use std::time::Duration;

use super::clock::rate;
use super::{MeasureError, check_shape, chosen_for, least_disks};
use crate::Operation;
use crate::arch::{KERNELS, LIMITS, RECOVERY_KERNELS, TWO_PASS};
use crate::kernel::Ready;
use crate::rival::LimitKernel;
use crate::trial::{Changed, Trial, Tried, Work, placements, with_trials};

/// Which disks an update changes; other operations are about all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// One disk, in the middle: a small write.
    #[default]
    OneDisk,
    /// The upper half of the data disks, as in the kernel's xor().
    UpperHalf,
}

/// A kernel and how fast it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Its name.
    pub kernel: &'static str,
    /// MiB a second of the data that the operation is about; see [`super::measure`].
    pub mib_per_second: f64,
}

/// What came out for one operation and one shape: medians.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The operation.
    pub operation: Operation,
    /// What of the stripe an update changes.
    pub part: Part,
    /// Data disks of the stripe.
    pub data_disks: usize,
    /// Block length in bytes.
    pub block_bytes: usize,
    /// Every kernel that the processor can run, in the table's order.
    pub rates: Vec<Rate>,
    /// The kernel that the library uses for this shape; one of `rates`.
    pub chosen: &'static str,
    /// The fastest way to load and store the same bytes with no other arithmetic than XOR; `None` where XOR is all there is.
    pub limit: Option<Rate>,
    /// For updates: P and Q brought up to date as Linux does it, old and new data in a pass each; empty otherwise.
    pub two_pass: Vec<Rate>,
}

impl Comparison {
    /// The rate of a kernel.
    #[must_use]
    pub fn rate_of(&self, kernel: &str) -> Option<f64> {
        self.rates.iter().find(|rate| rate.kernel == kernel).map(|rate| rate.mib_per_second)
    }

    /// The rate of the chosen kernel.
    #[must_use]
    pub fn chosen_rate(&self) -> f64 {
        self.rate_of(self.chosen).unwrap_or(0.0)
    }

    /// The fastest kernel.
    #[must_use]
    pub fn best(&self) -> Option<Rate> {
        fastest(&self.rates)
    }

    /// The chosen kernel's share of the best one's rate: 1 when it is the best.
    #[must_use]
    pub fn share_of_best(&self) -> Option<f64> {
        self.best().map(|best| self.chosen_rate() / best.mib_per_second)
    }

    /// The chosen kernel's share of the limit.
    #[must_use]
    pub fn share_of_limit(&self) -> Option<f64> {
        self.limit.map(|limit| self.chosen_rate() / limit.mib_per_second)
    }

    /// How many times as fast as Linux's way the chosen kernel is, with the instruction set of the two-pass kernels whose names start so.
    #[must_use]
    pub fn times_two_pass(&self, instruction_set: &str) -> Option<f64> {
        let of_set = |rate: &&Rate| rate.kernel.strip_prefix(instruction_set).is_some_and(|rest| rest.starts_with('x'));
        let of_set: Vec<Rate> = self.two_pass.iter().filter(of_set).copied().collect();
        fastest(&of_set).map(|rival| self.chosen_rate() / rival.mib_per_second)
    }
}

fn fastest(rates: &[Rate]) -> Option<Rate> {
    rates.iter().max_by(|a, b| a.mib_per_second.total_cmp(&b.mib_per_second)).copied()
}

/// Data disks of the grid for `--all`.
pub const GRID_DATA_DISKS: [usize; 5] = [4, 6, 8, 14, 22];

/// Block lengths of the grid: a page, a chunk, a large chunk, and one with which eight disks are beyond most caches.
pub const GRID_BLOCK_BYTES: [usize; 4] = [4 << 10, 64 << 10, 512 << 10, 16 << 20];

/// Every operation and shape of the grid, for [`compare`].
pub fn grid() -> impl Iterator<Item = (Operation, Part, usize, usize)> {
    Operation::ALL.into_iter().flat_map(|operation| {
        let parts: &[Part] = if operation.is_update() { &[Part::OneDisk, Part::UpperHalf] } else { &[Part::OneDisk] };
        let disks = if operation.is_of_one_block() { &GRID_DATA_DISKS[..1] } else { &GRID_DATA_DISKS };
        let shapes = disks.iter().flat_map(|disks| GRID_BLOCK_BYTES.map(|len| (*disks, len)));
        shapes.flat_map(move |(disks, len)| parts.iter().map(move |part| (operation, *part, disks, len)))
    })
}

/// Measures every kernel for one shape, the limit and, for updates, Linux's way: `rounds` times in turn, each for `slice` or one run,
/// and takes the medians.
///
/// # Errors
/// For shapes that can't be.
///
/// # Panics
/// When `URAID_PARITY` makes no sense; see [`crate::check_override`].
pub fn compare(
    operation: Operation,
    part: Part,
    data_disks: usize,
    block_bytes: usize,
    rounds: usize,
    slice: Duration,
) -> Result<Comparison, MeasureError> {
    check_shape(data_disks, block_bytes, least_disks(operation))?;
    let changed = match part {
        Part::OneDisk => Changed::One,
        Part::UpperHalf => Changed::UpperHalf,
    };
    let work = Work::new(operation, changed);
    let chosen_disks = if operation.is_update() { changed.count(data_disks) } else { data_disks };
    let chosen = chosen_for(operation, chosen_disks, block_bytes);
    let (mut rates, mut limits, mut two_pass) = (Vec::new(), Vec::new(), Vec::new());
    with_trials(work, data_disks, block_bytes, placements(block_bytes), |trials| {
        let bytes = trials.len() * work.counted_blocks(data_disks) * block_bytes;
        for _ in 0..rounds.max(1) {
            if operation.is_recovery() {
                round(RECOVERY_KERNELS, work, trials, bytes, slice, &mut rates);
            } else {
                round(KERNELS, work, trials, bytes, slice, &mut rates);
            }
            if LimitKernel::covers(operation) {
                round(LIMITS, work, trials, bytes, slice, &mut limits);
            }
            if operation.is_update() {
                round(TWO_PASS, work, trials, bytes, slice, &mut two_pass);
            }
        }
    });
    let limit = fastest(&medians(limits));
    let (rates, two_pass) = (medians(rates), medians(two_pass));
    Ok(Comparison { operation, part, data_disks, block_bytes, rates, chosen, limit, two_pass })
}

/// The rates of one kernel, one for each round.
type Rounds = Vec<(&'static str, Vec<f64>)>;

fn round<R: Tried>(rows: &'static [R], work: Work, trials: &mut [Trial<'_>], bytes: usize, slice: Duration, rounds: &mut Rounds) {
    let ready: Vec<Ready<R>> = rows.iter().filter_map(Ready::new).collect();
    if rounds.is_empty() {
        rounds.extend(ready.iter().map(|row| (row.name(), Vec::new())));
    }
    for (row, (_, rates)) in ready.iter().zip(rounds) {
        rates.push(rate(bytes, slice, |times| R::repeat_on_all(*row, work, trials, times)));
    }
}

fn medians(rounds: Rounds) -> Vec<Rate> {
    let median = |(kernel, mut rates): (&'static str, Vec<f64>)| {
        rates.sort_by(f64::total_cmp);
        Rate { kernel, mib_per_second: rates[rates.len() / 2] }
    };
    rounds.into_iter().map(median).collect()
}
