//! Blocks to try a kernel on; the choice and the measurement run the same trials.

use crate::jobs::{Changes, CheckP, CheckPq, FromQ, GenPq, GenQ, IsZero, TwoData, Xor, XorInto};
use crate::kernel::{Kernel, Ready, RecoveryKernel, Row};
use crate::present::Present;
use crate::{Delta, MAX_DATA_DISKS, Operation, UNIT_BYTES};

/// Blocks start on a page, as those of the buffer pool do.
const PAGE_BYTES: usize = 4096;

/// The blocks of one stripe: data, P, Q and two to be written.
pub(crate) struct Trial<'a> {
    data: Vec<&'a [u8]>,
    /// Stands for the new contents of every disk.
    new: &'a [u8],
    zero: &'a [u8],
    p: &'a mut [u8],
    q: &'a mut [u8],
    out: [&'a mut [u8]; 2],
}

/// Calls `body` with blocks of `len_bytes` whose P and Q are right.
///
/// # Panics
/// Unless there are 1 to 254 disks and the length is a positive multiple of the unit.
pub(crate) fn with_blocks<T>(disks: usize, len_bytes: usize, body: impl FnOnce(&mut Trial<'_>) -> T) -> T {
    crate::assert_count(disks);
    assert!(len_bytes > 0 && len_bytes.is_multiple_of(UNIT_BYTES), "a block of {len_bytes} bytes can't be tried");
    let stride = len_bytes.next_multiple_of(PAGE_BYTES);
    let mut memory = vec![0_u8; (disks + 6) * stride + PAGE_BYTES];
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    let mut blocks = memory[start..].chunks_exact_mut(stride).map(|block| &mut block[..len_bytes]);
    let mut next = || blocks.next().unwrap_or_default();
    let (p, q, out, zero, new) = (next(), next(), [next(), next()], next(), next());
    let mut data = Vec::with_capacity(disks);
    for disk in 0..disks {
        let block = next();
        block.fill(disk as u8 | 1);
        data.push(&*block);
    }
    new.fill(0xc3);
    crate::choose::any_kernel().gen_pq(GenPq { data: &data, p, q });
    body(&mut Trial { data, new, zero, p, q, out })
}

/// Which part of a stripe an update changes.
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

/// A row that trials can be run on.
pub(crate) trait Tried: Row {
    /// Does `operation` once on the trial's blocks; it is one of the row's table.
    fn once(row: Ready<Self>, operation: Operation, changed: Changed, trial: &mut Trial<'_>)
    where
        Self: Sized;
}

impl Tried for Kernel {
    fn once(row: Ready<Kernel>, operation: Operation, changed: Changed, trial: &mut Trial<'_>) {
        let Trial { data, new, zero, p, q, out: [out, _] } = trial;
        let data = &data[..];
        let range = changed.range(data.len());
        let mut room = [0; MAX_DATA_DISKS];
        match operation {
            Operation::XorInto => row.xor_into(XorInto { dst: out, src: new }),
            Operation::GenP => row.xor(Xor { blocks: data, out: p }),
            Operation::GenPq => row.gen_pq(GenPq { data, p, q }),
            Operation::GenQ => row.gen_q(GenQ { data, q }),
            Operation::Update => {
                let mut deltas = [Delta { index: 0, old: &[], new: &[] }; MAX_DATA_DISKS];
                for (delta, index) in deltas.iter_mut().zip(range.clone()) {
                    *delta = Delta { index, old: data[index], new };
                }
                let deltas = &deltas[..range.len()];
                let order = crate::jobs::highest_first(deltas, &mut room);
                row.update(Changes { changes: deltas, order, p: Some(p), q: Some(q) });
            }
            Operation::UpdateByDifference => {
                let mut differences = [(0, &[][..]); MAX_DATA_DISKS];
                for (difference, index) in differences.iter_mut().zip(range.clone()) {
                    *difference = (index, data[index]);
                }
                let differences = &differences[..range.len()];
                let order = crate::jobs::highest_first(differences, &mut room);
                row.add(Changes { changes: differences, order, p: Some(p), q: Some(q) });
            }
            Operation::CheckP => assert!(row.check_p(CheckP { data, p }), "a kernel found a wrong P where it is right"),
            Operation::CheckPq => assert!(!row.check_pq(CheckPq { data, p, q }).any(), "a kernel found a wrong parity"),
            Operation::IsZero => assert!(row.is_zero(IsZero { block: zero }), "a kernel found a zero block not zero"),
            Operation::RecoverFromP | Operation::RecoverFromQ | Operation::RecoverTwoData => {
                unreachable!("recovery has a table of its own")
            }
        }
    }
}

impl Tried for RecoveryKernel {
    fn once(row: Ready<RecoveryKernel>, operation: Operation, _changed: Changed, trial: &mut Trial<'_>) {
        let Trial { data, p, q, out: [low, high], .. } = trial;
        let middle = data.len() / 2;
        match operation {
            Operation::RecoverFromP => {
                let mut left: [Option<&[u8]>; MAX_DATA_DISKS] = [None; MAX_DATA_DISKS];
                for (slot, block) in left.iter_mut().zip(data.iter()) {
                    *slot = Some(block);
                }
                left[middle] = None;
                let mut present = Present::new(&left[..data.len()]);
                row.one_by_p(Xor { blocks: present.with(p), out: low });
            }
            Operation::RecoverFromQ => {
                row.one_by_q(FromQ { below: &data[..middle], above: &data[middle + 1..], q, out: low });
            }
            Operation::RecoverTwoData => {
                let (below, rest) = data.split_at(middle / 2);
                let (between, above) = match rest.len() {
                    0..=2 => (&rest[..0], &rest[..0]),
                    len => (&rest[1..len / 2], &rest[len / 2 + 1..]),
                };
                row.two_data(TwoData { below, between, above, p, q, out_low: low, out_high: high });
            }
            _ => unreachable!("the other operations have a table of their own"),
        }
    }
}
