//! The choice: by measuring, at the first use of each operation, number of disks and length; or as the environment says.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::arch::{KERNELS, RECOVERY_KERNELS};
use crate::kernel::{Kernel, Ready, RecoveryKernel, Row};
use crate::measure::now;
use crate::remember::Remembered;
use crate::shape::{CELLS, Length, Shape};
use crate::style::MOST_COUNTED;
use crate::trial::{Changed, Trial, Tried, Work, placements, with_trials};
use crate::{MAX_DATA_DISKS, Operation, UNIT_BYTES};

/// The variable that names a kernel, or `cycle`.
pub(crate) const VARIABLE: &str = "URAID_PARITY";

/// `URAID_PARITY` holds what is no kernel of this processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOverride {
    value: String,
}

impl fmt::Display for UnknownOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VARIABLE}='{}' is no parity kernel of this processor; it takes cycle", self.value)?;
        crate::kernel_names().try_for_each(|name| write!(f, ", {name}"))
    }
}

impl std::error::Error for UnknownOverride {}

/// How kernels are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The fastest.
    Measure,
    /// The one of this name, where a table has it; elsewhere the fastest.
    Force(&'static str),
    /// Another one at each call.
    Cycle,
}

impl Policy {
    /// What the variable's value means.
    pub(crate) fn parse(value: Option<&str>) -> Result<Policy, UnknownOverride> {
        match value {
            None | Some("") => Ok(Policy::Measure),
            Some("cycle") => Ok(Policy::Cycle),
            Some(name) => {
                let in_kernels = find(KERNELS, name).map(Ready::name);
                let found = in_kernels.or_else(|| find(RECOVERY_KERNELS, name).map(Ready::name));
                found.map(Policy::Force).ok_or_else(|| UnknownOverride { value: name.to_owned() })
            }
        }
    }
}

/// The row of that name, if the processor can run it.
pub(crate) fn find<R: Row>(rows: &'static [R], name: &str) -> Option<Ready<R>> {
    rows.iter().filter(|row| row.name() == name).find_map(Ready::new)
}

/// Those rows of a table that the processor can run, and which of them has won where.
struct Table<R: Row> {
    ready: Vec<Ready<R>>,
    /// For each operation and shape the winner's place in `ready` plus 1; 0: not measured yet.
    winners: Vec<AtomicU8>,
}

impl<R: Row> Table<R> {
    fn new(rows: &'static [R]) -> Table<R> {
        let ready: Vec<Ready<R>> = rows.iter().filter_map(Ready::new).collect();
        assert!(
            !ready.is_empty() && ready.len() < usize::from(u8::MAX),
            "the plain kernels run everywhere, and places fit a byte"
        );
        let winners = (0..Operation::ALL.len() * CELLS).map(|_| AtomicU8::new(0)).collect();
        Table { ready, winners }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.ready.iter().position(|row| row.name() == name)
    }
}

/// The winners so far.
pub(crate) struct Chooser {
    policy: Policy,
    turn: AtomicUsize,
    kernels: Table<Kernel>,
    recovery: Table<RecoveryKernel>,
    /// Held while measuring, lest two measure each other.
    measuring: Mutex<()>,
    remembered: Option<Remembered>,
}

impl Chooser {
    pub(crate) fn new(policy: Policy, remembered: Option<Remembered>) -> Chooser {
        Chooser {
            policy,
            turn: AtomicUsize::new(0),
            kernels: Table::new(KERNELS),
            recovery: Table::new(RECOVERY_KERNELS),
            measuring: Mutex::new(()),
            remembered,
        }
    }

    pub(crate) fn kernel(&self, operation: Operation, disks: usize, len_bytes: usize) -> Ready<Kernel> {
        self.choose(&self.kernels, operation, Shape::of(operation, disks, len_bytes))
    }

    pub(crate) fn recovery(&self, operation: Operation, disks: usize, len_bytes: usize) -> Ready<RecoveryKernel> {
        self.choose(&self.recovery, operation, Shape::of(operation, disks, len_bytes))
    }

    fn choose<R: Tried>(&self, table: &Table<R>, operation: Operation, shape: Shape) -> Ready<R> {
        if self.policy == Policy::Cycle {
            return table.ready[self.turn.fetch_add(1, Ordering::Relaxed) % table.ready.len()];
        }
        let winner = &table.winners[operation as usize * CELLS + shape.cell()];
        // The place tells all there is to know, so no order with other memory is needed.
        match winner.load(Ordering::Relaxed) {
            0 => self.choose_first(table, winner, operation, shape),
            place => table.ready[usize::from(place) - 1],
        }
    }

    #[cold]
    fn choose_first<R: Tried>(&self, table: &Table<R>, winner: &AtomicU8, operation: Operation, shape: Shape) -> Ready<R> {
        let _measuring = self.measuring.lock().unwrap_or_else(PoisonError::into_inner);
        let known = winner.load(Ordering::Relaxed);
        if known != 0 {
            return table.ready[usize::from(known) - 1];
        }
        let forced = match self.policy {
            Policy::Force(name) => table.place(name),
            Policy::Measure | Policy::Cycle => None,
        };
        let cell = (operation, shape.disks, shape.len_bytes);
        let place = forced.unwrap_or_else(|| {
            let known = self.remembered.as_ref().and_then(|remembered| table.place(&remembered.get(cell)?));
            known.unwrap_or_else(|| {
                let place = fastest(&table.ready, operation, shape);
                if let Some(remembered) = &self.remembered {
                    remembered.put(cell, table.ready[place].name());
                }
                place
            })
        });
        winner.store(place as u8 + 1, Ordering::Relaxed);
        table.ready[place]
    }

    /// Forgets what was measured, here and in the file.
    pub(crate) fn remeasure(&self) {
        let _measuring = self.measuring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remembered) = &self.remembered {
            remembered.forget();
        }
        self.kernels.winners.iter().chain(&self.recovery.winners).for_each(|winner| winner.store(0, Ordering::Relaxed));
    }
}

/// A kernel for what is not worth a choice.
pub(crate) fn any_kernel() -> Ready<Kernel> {
    KERNELS.iter().find_map(Ready::new).expect("the plain kernels run everywhere")
}

/// Could the row's style be of use? Where it could not, the row does as another one that has the plain style.
fn may_help<R: Row>(row: Ready<R>, operation: Operation, shape: Shape) -> bool {
    let manner = row.manner();
    let by_count = matches!(
        operation,
        Operation::GenP | Operation::GenPq | Operation::CheckPq | Operation::RecoverFromP | Operation::RecoverTwoData
    );
    (!manner.streaming || (operation.only_writes() && shape.length == Length::BeyondCache))
        && (!manner.counted || (by_count && shape.disks <= MOST_COUNTED))
}

/// The place of the row that takes the least time.
fn fastest<R: Tried>(ready: &[Ready<R>], operation: Operation, shape: Shape) -> usize {
    let (changed, stripe_disks) = stripe_for(operation, shape.disks);
    let work = Work::new(operation, changed);
    let mut places: Vec<usize> = (0..ready.len()).rev().filter(|&place| may_help(ready[place], operation, shape)).collect();
    let try_all = |places: &mut Vec<usize>, shape: Shape, effort: &Effort| {
        with_trials(work, stripe_disks, shape.len_bytes, placements(shape.len_bytes), |trials| {
            rank(ready, places, shape, effort, |row, times| {
                let warm = |trial: &mut Trial<'_>| {
                    R::repeat(row, work, trial, 1);
                    time(|| R::repeat(row, work, trial, times))
                };
                trials.iter_mut().map(warm).sum()
            });
        });
    };
    if matches!(shape.length, Length::Large | Length::BeyondCache) {
        // Large blocks take their time: only those that do well on a chunk are tried, and those that stream.
        let mut streaming = places.clone();
        streaming.retain(|&place| ready[place].manner().streaming);
        places.retain(|place| !streaming.contains(place));
        try_all(&mut places, shape.with_length(Length::Chunk), &FIRST_LOOK);
        places.truncate(if shape.length == Length::Large { 10 } else { 3 });
        places.extend(streaming);
    }
    match shape.length {
        Length::Page | Length::Chunk => try_all(&mut places, shape, &CACHE),
        Length::Large => try_all(&mut places, shape, &LARGE),
        Length::BeyondCache => {
            // Stripes that are taken in turn: until one's turn comes again, the others have driven it out of the caches.
            let len_bytes = (shape.len_bytes / 4).next_multiple_of(UNIT_BYTES);
            with_trials(work, stripe_disks, len_bytes, 4, |trials| {
                let mut turn = 0;
                rank(ready, &mut places, shape, &MEMORY, |row, times| {
                    turn = (turn + 1) % trials.len();
                    time(|| R::repeat(row, work, &mut trials[turn], times))
                });
            });
        }
    }
    places[0]
}

fn time(work: impl FnOnce()) -> Duration {
    let start = now();
    work();
    now().saturating_sub(start)
}

/// The stripe on which the shape's number of disks is tried, and which of its disks change: an update's disks lie high in a stripe that
/// has others too, so that coefficients and places in memory are like those of real ones.
fn stripe_for(operation: Operation, disks: usize) -> (Changed, usize) {
    match disks {
        _ if !operation.is_update() => (Changed::One, disks),
        1 => (Changed::One, 8),
        _ => (Changed::UpperHalf, (2 * disks).min(MAX_DATA_DISKS)),
    }
}

/// How much time a choice is worth.
struct Effort {
    /// Data bytes between two looks at the clock, so that looking does not count.
    batch_bytes: usize,
    /// How often every row is timed.
    looks: usize,
    /// Those that come within this factor of the best are timed again,
    again: f64,
    /// in turn, so often.
    rounds: usize,
}

const CACHE: Effort = Effort { batch_bytes: 512 << 10, looks: 2, again: 1.2, rounds: 8 };

const LARGE: Effort = Effort { batch_bytes: 0, looks: 2, again: 1.15, rounds: 8 };

/// For rows that are to be looked at more closely afterwards.
const FIRST_LOOK: Effort = Effort { batch_bytes: 256 << 10, looks: 1, again: 1.5, rounds: 0 };

/// Nothing is left in the caches from one run to the next, and a run takes half a millisecond.
const MEMORY: Effort = Effort { batch_bytes: 0, looks: 0, again: 1.15, rounds: 4 };

/// Sorts the rows by the best of the times that `time` takes for so many runs; those that are far behind fall away.
fn rank<R: Row>(
    ready: &[Ready<R>],
    places: &mut Vec<usize>,
    shape: Shape,
    effort: &Effort,
    mut time: impl FnMut(Ready<R>, usize) -> Duration,
) {
    let times = (effort.batch_bytes / (shape.disks * shape.len_bytes)).max(1);
    // The first run warms up code and memory, and shows those that are not worth a second look.
    let mut timed: Vec<(Duration, usize)> = Vec::with_capacity(places.len());
    let mut best = Duration::MAX;
    for &place in &*places {
        let mine = time(ready[place], 1);
        best = best.min(mine);
        if mine / 4 <= best {
            timed.push((mine, place));
        }
    }
    // In turn: what disturbs the machine for a while must not decide against one row.
    let mut look = |timed: &mut Vec<(Duration, usize)>, often: usize| {
        for _ in 0..often {
            for (best, place) in &mut *timed {
                *best = (time(ready[*place], times) / times as u32).min(*best);
            }
        }
    };
    look(&mut timed, effort.looks);
    let best = timed.iter().map(|(time, _)| *time).min().unwrap_or_default();
    timed.retain(|(time, _)| time.as_secs_f64() <= best.as_secs_f64() * effort.again);
    look(&mut timed, effort.rounds);
    timed.sort_by_key(|(time, _)| *time);
    places.clear();
    places.extend(timed.into_iter().map(|(_, place)| place));
}

fn global() -> Result<&'static Chooser, &'static UnknownOverride> {
    static CHOOSER: OnceLock<Result<Chooser, UnknownOverride>> = OnceLock::new();
    let chooser = CHOOSER.get_or_init(|| {
        let value = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
        let policy = Policy::parse(value.as_deref())?;
        let names: Vec<&str> = KERNELS.iter().map(Row::name).chain(RECOVERY_KERNELS.iter().map(Row::name)).collect();
        let remembered = if policy == Policy::Measure { Remembered::of_user(&names) } else { None };
        Ok(Chooser::new(policy, remembered))
    });
    chooser.as_ref()
}

/// Does `URAID_PARITY` make sense? It is read once, here or at the first use of parity, which panics if it does not.
///
/// # Errors
/// When it names no kernel that this processor can run.
pub fn check_override() -> Result<(), UnknownOverride> {
    global().map(|_| ()).map_err(Clone::clone)
}

/// Forgets which kernels won, here and in the user's cache file; each is measured again at its next use.
///
/// # Panics
/// When `URAID_PARITY` makes no sense.
pub fn remeasure() {
    chooser().remeasure();
}

#[track_caller]
fn chooser() -> &'static Chooser {
    match global() {
        Ok(chooser) => chooser,
        Err(unknown) => panic!("{unknown}"),
    }
}

#[track_caller]
pub(crate) fn kernel(operation: Operation, disks: usize, len_bytes: usize) -> Ready<Kernel> {
    chooser().kernel(operation, disks, len_bytes)
}

#[track_caller]
pub(crate) fn recovery(operation: Operation, disks: usize, len_bytes: usize) -> Ready<RecoveryKernel> {
    chooser().recovery(operation, disks, len_bytes)
}
