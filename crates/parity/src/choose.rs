//! The choice: by measuring, at the first use of each operation, number of disks and length; or as the environment says.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Operation;
use crate::arch::{KERNELS, RECOVERY_KERNELS};
use crate::kernel::{Kernel, Ready, RecoveryKernel, Row};
use crate::trial::{Changed, Trial, Tried, with_blocks};

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

/// Numbers of disks and lengths that share a winner: few or many disks, up to a page or a chunk; and large blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) disks: usize,
    pub(crate) len_bytes: usize,
    cell: usize,
}

/// The shapes that are measured. Six data disks of a page are those of the kernel's own figure.
pub(crate) const SHAPES: [Shape; 5] = [
    Shape { disks: 6, len_bytes: 4 << 10, cell: 0 },
    Shape { disks: 14, len_bytes: 4 << 10, cell: 1 },
    Shape { disks: 6, len_bytes: 64 << 10, cell: 2 },
    Shape { disks: 14, len_bytes: 64 << 10, cell: 3 },
    // 14 blocks of 256 KiB are more than most second-level caches hold.
    Shape { disks: 14, len_bytes: 256 << 10, cell: 4 },
];

impl Shape {
    /// The shape that stands for a call.
    pub(crate) fn of(operation: Operation, disks: usize, len_bytes: usize) -> Shape {
        let many = disks > 8 && !works_on_one_disk(operation);
        match len_bytes {
            0..=8192 => SHAPES[usize::from(many)],
            8193..=131_072 => SHAPES[2 + usize::from(many)],
            _ => SHAPES[4],
        }
    }
}

/// For these the number of disks makes no difference worth measuring.
fn works_on_one_disk(operation: Operation) -> bool {
    matches!(operation, Operation::XorInto | Operation::IsZero | Operation::Update | Operation::UpdateByDifference)
}

type Winners<R> = [[OnceLock<Ready<R>>; SHAPES.len()]; Operation::ALL.len()];

/// The winners so far.
pub(crate) struct Chooser {
    policy: Policy,
    turn: AtomicUsize,
    kernels: Winners<Kernel>,
    recovery: Winners<RecoveryKernel>,
}

impl Chooser {
    pub(crate) const fn new(policy: Policy) -> Chooser {
        Chooser {
            policy,
            turn: AtomicUsize::new(0),
            kernels: [const { [const { OnceLock::new() }; SHAPES.len()] }; Operation::ALL.len()],
            recovery: [const { [const { OnceLock::new() }; SHAPES.len()] }; Operation::ALL.len()],
        }
    }

    pub(crate) fn kernel(&self, operation: Operation, disks: usize, len_bytes: usize) -> Ready<Kernel> {
        self.choose(KERNELS, &self.kernels, operation, Shape::of(operation, disks, len_bytes))
    }

    pub(crate) fn recovery(&self, operation: Operation, disks: usize, len_bytes: usize) -> Ready<RecoveryKernel> {
        self.choose(RECOVERY_KERNELS, &self.recovery, operation, Shape::of(operation, disks, len_bytes))
    }

    fn choose<R: Tried>(&self, rows: &'static [R], winners: &Winners<R>, operation: Operation, shape: Shape) -> Ready<R> {
        if self.policy == Policy::Cycle {
            let count = rows.iter().filter_map(Ready::new).count();
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % count;
            return rows.iter().filter_map(Ready::new).nth(turn).unwrap_or_else(|| last(rows));
        }
        *winners[operation as usize][shape.cell].get_or_init(|| match self.policy {
            Policy::Force(name) => find(rows, name).unwrap_or_else(|| fastest(rows, operation, shape)),
            Policy::Measure | Policy::Cycle => fastest(rows, operation, shape),
        })
    }
}

fn last<R: Row>(rows: &'static [R]) -> Ready<R> {
    rows.iter().rev().find_map(Ready::new).expect("the plain kernels run everywhere")
}

/// A kernel for what is not worth a choice.
pub(crate) fn any_kernel() -> Ready<Kernel> {
    last(KERNELS)
}

/// The row that takes the least time.
fn fastest<R: Tried>(rows: &'static [R], operation: Operation, shape: Shape) -> Ready<R> {
    let large = shape.len_bytes > 128 << 10;
    let mut ranked: Vec<Ready<R>> = rows.iter().rev().filter_map(Ready::new).collect();
    if large {
        // Large blocks take their time: only those that do well on a chunk are tried.
        let chunk = Shape::of(operation, shape.disks, 64 << 10);
        with_blocks(chunk.disks, chunk.len_bytes, |trial| rank(&mut ranked, operation, trial, Duration::from_micros(700)));
        ranked.truncate(3);
    }
    let limit = if shape.len_bytes > 8 << 10 { Duration::from_micros(700) } else { Duration::from_micros(250) };
    with_blocks(shape.disks, shape.len_bytes, |trial| rank(&mut ranked, operation, trial, limit));
    ranked[0]
}

/// Sorts the rows by their best time; those that the limit leaves untried fall away, but never the first.
fn rank<R: Tried>(rows: &mut Vec<Ready<R>>, operation: Operation, trial: &mut Trial<'_>, limit: Duration) {
    let start = Instant::now();
    let mut timed: Vec<(Duration, Ready<R>)> = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        if !timed.is_empty() && start.elapsed() > limit {
            break;
        }
        let mut best = Duration::MAX;
        // The first run warms up code and memory.
        for _ in 0..4 {
            let start = Instant::now();
            R::once(*row, operation, Changed::One, trial);
            best = best.min(start.elapsed());
        }
        timed.push((best, *row));
    }
    timed.sort_by_key(|(time, _)| *time);
    rows.clear();
    rows.extend(timed.into_iter().map(|(_, row)| row));
}

fn global() -> Result<&'static Chooser, &'static UnknownOverride> {
    static CHOOSER: OnceLock<Result<Chooser, UnknownOverride>> = OnceLock::new();
    let chooser = CHOOSER.get_or_init(|| {
        let value = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
        Policy::parse(value.as_deref()).map(Chooser::new)
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
