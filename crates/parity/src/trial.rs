//! Blocks to try a kernel on; the choice and the measurement run the same trials.

use crate::jobs::{
    AddInPasses, Changes, CheckP, CheckPq, FromQ, GenPq, GenQ, IsZero, Left, LimitGen, LimitUpdate, TwoLost, Xor, XorInto,
    highest_first,
};
use crate::kernel::{Kernel, Ready, RecoveryKernel, Row};
use crate::rival::{LimitKernel, TwoPassKernel};
use crate::{Delta, MAX_DATA_DISKS, Operation, UNIT_BYTES};

/// Blocks start on a page, as those of the buffer pool do.
const PAGE_BYTES: usize = 4096;

/// From the start of one block to the next. Blocks of several pages have one between them, as an allocator leaves it that notes
/// something beside each: at a multiple of a large power of two they would fight for the same few sets of every cache, and which
/// kernel loses most by that says nothing of blocks elsewhere.
fn stride(len_bytes: usize) -> usize {
    let pages = len_bytes.next_multiple_of(PAGE_BYTES);
    if pages > PAGE_BYTES { pages + PAGE_BYTES } else { pages }
}

/// The blocks of one stripe: data, P, Q, two to be written, and new contents for the disks that change.
pub(crate) struct Trial<'a> {
    data: Vec<&'a [u8]>,
    new: Vec<&'a [u8]>,
    zero: &'a [u8],
    p: &'a mut [u8],
    q: &'a mut [u8],
    out: [&'a mut [u8]; 2],
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) operation: Operation,
    pub(crate) changed: Changed,
}

/// Which disks of a stripe an update changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// One disk, in the middle: a small write.
    One,
    /// The upper half of the disks, as the kernel's figure has it.
    UpperHalf,
}

impl Changed {
    /// The syndrome indices.
    fn range(self, disks: usize) -> std::ops::Range<usize> {
        match self {
            Changed::One => disks / 2..disks / 2 + 1,
            Changed::UpperHalf => disks / 2..disks,
        }
    }

    /// How many disks change.
    pub(crate) fn count(self, disks: usize) -> usize {
        self.range(disks).len()
    }
}

impl Work {
    pub(crate) fn new(operation: Operation, changed: Changed) -> Work {
        Work { operation, changed }
    }

    /// The blocks that count for a rate: every data block of the stripe, lost ones too; those that change; or one.
    pub(crate) fn counted_blocks(self, disks: usize) -> usize {
        match self.operation {
            operation if operation.is_of_one_block() => 1,
            operation if operation.is_update() => self.changed.count(disks),
            _ => disks,
        }
    }

    /// How many blocks of new contents the trial needs.
    fn new_blocks(self, disks: usize) -> usize {
        match self.operation {
            Operation::Update => self.changed.count(disks),
            Operation::XorInto => 1,
            _ => 0,
        }
    }
}

/// In how many places in memory blocks of that length are tried. Where blocks lie decides which of their lines fight for the same
/// place in a cache, and that shifts the balance between kernels by a tenth. Beyond the nearer caches it matters less, and time is dear.
pub(crate) fn placements(len_bytes: usize) -> usize {
    if len_bytes <= 128 << 10 { 4 } else { 1 }
}

/// Calls `body` with `count` stripes, blocks of `len_bytes` whose P and Q are right, mixed up in memory as a pool's are.
///
/// # Panics
/// Unless there are 1 to 254 disks and the length is a positive multiple of the unit.
pub(crate) fn with_trials<T>(
    work: Work,
    disks: usize,
    len_bytes: usize,
    count: usize,
    body: impl FnOnce(&mut [Trial<'_>]) -> T,
) -> T {
    crate::assert_count(disks);
    assert!(len_bytes > 0 && len_bytes.is_multiple_of(UNIT_BYTES), "a block of {len_bytes} bytes can't be tried");
    let stride = stride(len_bytes);
    let of_each = disks + work.new_blocks(disks) + 5;
    let mut memory = vec![0_u8; count * of_each * stride + PAGE_BYTES];
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    let mut blocks: Vec<&mut [u8]> = memory[start..].chunks_exact_mut(stride).map(|block| &mut block[..len_bytes]).collect();
    shuffle(&mut blocks);
    let mut trials: Vec<Trial<'_>> = blocks.chunks_exact_mut(of_each).map(|blocks| Trial::of(work, disks, blocks)).collect();
    body(&mut trials)
}

/// Mixes them up, always alike.
fn shuffle<T>(items: &mut [T]) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..items.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, (random >> 33) as usize % (last + 1));
    }
}

impl<'a> Trial<'a> {
    /// A stripe made of these blocks.
    fn of(work: Work, disks: usize, blocks: &mut [&'a mut [u8]]) -> Trial<'a> {
        let mut blocks = blocks.iter_mut().map(std::mem::take);
        let mut next = |value: u8| -> &'a mut [u8] {
            // Memory that was never touched costs a fault at the first store.
            let block = blocks.next().unwrap_or_default();
            block.fill(value);
            block
        };
        let (p, q, out) = (next(0), next(0), [next(1), next(1)]);
        let data: Vec<&[u8]> = (0..disks).map(|disk| &*next(disk as u8 | 1)).collect();
        let new = (0..work.new_blocks(disks)).map(|disk| &*next(disk as u8 | 0xc0)).collect();
        let zero = &*next(0);
        crate::choose::any_kernel().gen_pq(GenPq { data: &data, p, q });
        Trial { data, new, zero, p, q, out }
    }
}

/// A row that trials can be run on.
pub(crate) trait Tried: Row + Sized {
    /// Does the work `times` times on the trial's blocks; it is one of the row's table.
    fn repeat(row: Ready<Self>, work: Work, trial: &mut Trial<'_>, times: usize);

    /// The same on each of them, one after the other.
    fn repeat_on_all(row: Ready<Self>, work: Work, trials: &mut [Trial<'_>], times: usize) {
        trials.iter_mut().for_each(|trial| Self::repeat(row, work, trial, times));
    }
}

fn deltas<'a>(data: &[&'a [u8]], new: &[&'a [u8]], changed: Changed) -> Vec<Delta<'a>> {
    let changed = changed.range(data.len()).zip(new);
    changed.map(|(index, new)| Delta { index, old: data[index], new }).collect()
}

fn differences<'a>(data: &[&'a [u8]], changed: Changed) -> Vec<(usize, &'a [u8])> {
    changed.range(data.len()).map(|index| (index, data[index])).collect()
}

/// The data without the blocks at `lost`.
fn without<'a>(data: &[&'a [u8]], lost: &[usize]) -> Vec<&'a [u8]> {
    data.iter().enumerate().filter(|(index, _)| !lost.contains(index)).map(|(_, block)| *block).collect()
}

/// Two data disks of the stripe, far apart.
fn two_lost(disks: usize) -> [usize; 2] {
    [disks / 4, disks / 4 + disks / 2]
}

impl Tried for Kernel {
    fn repeat(row: Ready<Kernel>, work: Work, trial: &mut Trial<'_>, times: usize) {
        let Trial { data, new, zero, p, q, out: [out, _] } = trial;
        let data = &data[..];
        let mut room = [0; MAX_DATA_DISKS];
        match work.operation {
            Operation::XorInto => (0..times).for_each(|_| row.xor_into(XorInto { dst: out, src: new[0] })),
            Operation::GenP => (0..times).for_each(|_| row.xor(Xor { blocks: data, out: p })),
            Operation::GenPq => (0..times).for_each(|_| row.gen_pq(GenPq { data, p, q })),
            Operation::GenQ => (0..times).for_each(|_| row.gen_q(GenQ { data, q })),
            Operation::Update => {
                let changes = &deltas(data, new, work.changed)[..];
                let order = highest_first(changes, &mut room);
                (0..times).for_each(|_| row.update(Changes { changes, order, p: Some(p), q: Some(q) }));
            }
            Operation::UpdateByDifference => {
                let changes = &differences(data, work.changed)[..];
                let order = highest_first(changes, &mut room);
                (0..times).for_each(|_| row.add(Changes { changes, order, p: Some(p), q: Some(q) }));
            }
            Operation::CheckP => {
                let right = (0..times).all(|_| row.check_p(CheckP { data, p }));
                assert!(right, "a kernel found a wrong P where it is right");
            }
            Operation::CheckPq => {
                let right = (0..times).all(|_| !row.check_pq(CheckPq { data, p, q }).any());
                assert!(right, "a kernel found a wrong parity where it is right");
            }
            Operation::IsZero => {
                let right = (0..times).all(|_| row.is_zero(IsZero { block: zero }));
                assert!(right, "a kernel found a zero block not zero");
            }
            _ => unreachable!("recovery has a table of its own"),
        }
    }
}

impl Tried for RecoveryKernel {
    fn repeat(row: Ready<RecoveryKernel>, work: Work, trial: &mut Trial<'_>, times: usize) {
        let Trial { data, p, q, out: [a, b], .. } = trial;
        let (p, q) = (&**p, &**q);
        let middle = data.len() / 2;
        let mut left = without(data, &[middle]);
        match work.operation {
            Operation::RecoverFromP => {
                left.push(p);
                (0..times).for_each(|_| row.one_by_p(Xor { blocks: &left, out: a }));
            }
            Operation::RecoverFromQ => {
                let left = Left { blocks: &left, low: middle, high: None };
                (0..times).for_each(|_| row.one_by_q(FromQ { left, q, out: a }));
            }
            Operation::RecoverTwoData => {
                let lost = two_lost(data.len());
                let left = without(data, &lost);
                (0..times).for_each(|_| row.two_lost(TwoLost::two_data(&left, lost, (p, q), (a, b))));
            }
            Operation::RecoverDataAndP => {
                (0..times).for_each(|_| row.two_lost(TwoLost::data_and_p(&left, middle, q, (a, b))));
            }
            Operation::RecoverDataAndQ => {
                (0..times).for_each(|_| row.two_lost(TwoLost::data_and_q(&left, middle, p, (a, b))));
            }
            _ => unreachable!("the other operations have a table of their own"),
        }
    }
}

impl LimitKernel {
    /// Is there a limit for the operation? What is XOR alone has none but its own best.
    pub(crate) fn covers(operation: Operation) -> bool {
        let two_outputs = [Operation::GenPq, Operation::RecoverTwoData, Operation::RecoverDataAndP, Operation::RecoverDataAndQ];
        operation.is_update() || two_outputs.contains(&operation)
    }
}

impl Tried for LimitKernel {
    fn repeat(row: Ready<LimitKernel>, work: Work, trial: &mut Trial<'_>, times: usize) {
        let Trial { data, new, p, q, out: [a, b], .. } = trial;
        match work.operation {
            Operation::GenPq => (0..times).for_each(|_| row.make(LimitGen { blocks: data, outputs: [p, q] })),
            operation if operation.is_update() => {
                let mut reads = data[work.changed.range(data.len())].to_vec();
                reads.extend(new.iter().copied());
                (0..times).for_each(|_| row.update(LimitUpdate { blocks: &reads, p, q }));
            }
            operation => {
                let middle = data.len() / 2;
                let reads = match operation {
                    Operation::RecoverDataAndP => [&without(data, &[middle])[..], &[q]].concat(),
                    Operation::RecoverDataAndQ => [&without(data, &[middle])[..], &[p]].concat(),
                    _ => [&without(data, &two_lost(data.len()))[..], &[p, q]].concat(),
                };
                (0..times).for_each(|_| row.make(LimitGen { blocks: &reads, outputs: [a, b] }));
            }
        }
    }
}

impl Tried for TwoPassKernel {
    fn repeat(row: Ready<TwoPassKernel>, work: Work, trial: &mut Trial<'_>, times: usize) {
        let Trial { data, new, p, q, .. } = trial;
        let range = work.changed.range(data.len());
        let (first, old) = (range.start, &data[range]);
        for _ in 0..times {
            row.add(AddInPasses { first, blocks: old, p, q });
            if work.operation == Operation::Update {
                row.add(AddInPasses { first, blocks: new, p, q });
            }
        }
    }
}
