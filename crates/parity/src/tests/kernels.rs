//! One suite for every row of both tables, and a row that must fail it.
#![allow(unsafe_code)]

use super::{disks, noise, reference, slices};
use crate::arch::generic::Word;
use crate::arch::{KERNELS, LIMITS, RECOVERY_KERNELS, TWO_PASS};
use crate::jobs::{AddInPasses, LimitGen, LimitUpdate};
use crate::jobs::{Changes, CheckP, CheckPq, FromQ, GenPq, GenQ, IsZero, Left, TwoLost, Xor, XorInto, highest_first};
use crate::kernel::{Kernel, Ready, RecoveryKernel};
use crate::style::{Counted, MOST_COUNTED, Plain, Streaming, Style};
use crate::vector::{InstructionSet, Job, Vector};
use crate::{Delta, Differs, Feature, MAX_DATA_DISKS};

/// Several steps of the widest kernel, and what is no whole number of two of them.
const LENGTHS: [usize; 5] = [512, 1024, 1536, 2560, 4096];

/// Whole registers of every width, and what the compiler and the memory would never give.
const STARTS: [usize; 6] = [0, 1, 8, 16, 32, 61];

/// A copy of `bytes` that starts at a chosen distance from a 64-byte boundary.
struct Placed {
    memory: Vec<u8>,
    start: usize,
    len_bytes: usize,
}

impl Placed {
    fn new(bytes: &[u8], start: usize) -> Placed {
        let mut memory = vec![0xee; bytes.len() + 256];
        let start = memory.as_ptr().align_offset(64) + start;
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        Placed { memory, start, len_bytes: bytes.len() }
    }

    /// Room to be written, full of what must not stay.
    fn poisoned(len_bytes: usize, start: usize) -> Placed {
        Placed::new(&vec![0x6b; len_bytes], start)
    }

    fn get(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len_bytes]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len_bytes]
    }

    /// The bytes, when nothing beside them was touched.
    fn written(&self) -> Option<&[u8]> {
        let outside = self.memory[..self.start].iter().chain(&self.memory[self.start + self.len_bytes..]);
        outside.clone().all(|byte| *byte == 0xee).then(|| self.get())
    }
}

/// Every shape of the suite.
fn shapes() -> impl Iterator<Item = (Vec<Vec<u8>>, usize)> {
    LENGTHS.into_iter().flat_map(|len_bytes| {
        STARTS.into_iter().flat_map(move |start| [1, 2, 3, 6, 9].map(|count| (disks(count, len_bytes), start)))
    })
}

/// The operations in which a kernel differs from the reference.
fn disagreements(row: Ready<Kernel>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (blocks, start) in shapes() {
        let placed: Vec<Placed> = blocks.iter().map(|block| Placed::new(block, start)).collect();
        let data: Vec<&[u8]> = placed.iter().map(Placed::get).collect();
        let (p, q) = reference::parity(&data);
        found.extend(wrong_parity(row, &data, &p, &q, start));
        found.extend(wrong_checks(row, &data, &p, &q));
        found.extend(wrong_updates(row, &data, &p, &q, start));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn wrong_parity(row: Ready<Kernel>, data: &[&[u8]], p: &[u8], q: &[u8], start: usize) -> Vec<&'static str> {
    let poisoned = || Placed::poisoned(p.len(), start);
    let mut wrong = Vec::new();
    let (mut to_p, mut to_q) = (poisoned(), poisoned());
    row.gen_pq(GenPq { data, p: to_p.get_mut(), q: to_q.get_mut() });
    if to_p.written() != Some(p) || to_q.written() != Some(q) {
        wrong.push("gen_pq");
    }
    let (mut to_p, mut to_q) = (poisoned(), poisoned());
    row.xor(Xor { blocks: data, out: to_p.get_mut() });
    if to_p.written() != Some(p) {
        wrong.push("xor");
    }
    row.gen_q(GenQ { data, q: to_q.get_mut() });
    if to_q.written() != Some(q) {
        wrong.push("gen_q");
    }
    let mut sum = Placed::new(&vec![0; p.len()], start);
    for block in data {
        row.xor_into(XorInto { dst: sum.get_mut(), src: block });
    }
    if sum.written() != Some(p) {
        wrong.push("xor_into");
    }
    wrong
}

fn wrong_checks(row: Ready<Kernel>, data: &[&[u8]], p: &[u8], q: &[u8]) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    if !row.check_p(CheckP { data, p }) || row.check_pq(CheckPq { data, p, q }).any() {
        wrong.push("check of what is right");
    }
    // A single bit, in the first byte, the last, and between.
    for at in [0, p.len() / 2 + 3, p.len() - 1] {
        let (mut bad_p, mut bad_q) = (p.to_vec(), q.to_vec());
        bad_p[at] ^= 0x10;
        bad_q[at] ^= 0x80;
        if row.check_p(CheckP { data, p: &bad_p }) {
            wrong.push("check_p");
        }
        let answers = [(&bad_p[..], q), (p, &bad_q), (&bad_p, &bad_q)].map(|(p, q)| row.check_pq(CheckPq { data, p, q }));
        if answers != [(true, false), (false, true), (true, true)].map(|(p, q)| Differs { p, q }) {
            wrong.push("check_pq");
        }
        let mut block = vec![0; p.len()];
        let zero = row.is_zero(IsZero { block: &block });
        block[at] = 1;
        if !zero || row.is_zero(IsZero { block: &block }) {
            wrong.push("is_zero");
        }
    }
    wrong
}

/// Sets of disks to change: single ones, neighbours, gaps, all; not in order.
fn changed_sets(count: usize) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = (0..count).map(|index| vec![index]).collect();
    sets.push((0..count).collect());
    sets.push((0..count).rev().step_by(2).collect());
    sets.push((count / 2..count).chain(0..count / 4).collect());
    sets
}

fn wrong_updates(row: Ready<Kernel>, data: &[&[u8]], p: &[u8], q: &[u8], start: usize) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    for set in changed_sets(data.len()) {
        let fresh: Vec<Placed> = set.iter().map(|index| Placed::new(&noise(*index as u64 + 99, p.len()), start)).collect();
        let deltas: Vec<Delta<'_>> =
            set.iter().zip(&fresh).map(|(&index, new)| Delta { index, old: data[index], new: new.get() }).collect();
        let mut after = data.to_vec();
        deltas.iter().for_each(|delta| after[delta.index] = delta.new);
        let (new_p, new_q) = reference::parity(&after);

        let mut room = [0; MAX_DATA_DISKS];
        let order = highest_first(&deltas, &mut room);
        for (with_p, with_q) in [(true, true), (true, false), (false, true)] {
            let (mut to_p, mut to_q) = (Placed::new(p, start), Placed::new(q, start));
            let (give_p, give_q) = (with_p.then(|| to_p.get_mut()), with_q.then(|| to_q.get_mut()));
            row.update(Changes { changes: &deltas, order, p: give_p, q: give_q });
            let expected = (if with_p { &new_p } else { p }, if with_q { &new_q } else { q });
            if (to_p.written(), to_q.written()) != (Some(expected.0), Some(expected.1)) {
                wrong.push("update");
            }
        }

        let sums: Vec<Vec<u8>> =
            deltas.iter().map(|delta| delta.old.iter().zip(delta.new).map(|(a, b)| a ^ b).collect()).collect();
        let differences: Vec<(usize, &[u8])> = set.iter().copied().zip(sums.iter().map(Vec::as_slice)).collect();
        let (mut to_p, mut to_q) = (Placed::new(p, start), Placed::new(q, start));
        row.add(Changes { changes: &differences, order, p: Some(to_p.get_mut()), q: Some(to_q.get_mut()) });
        if (to_p.written(), to_q.written()) != (Some(&new_p), Some(&new_q)) {
            wrong.push("update_by_difference");
        }
    }
    wrong
}

fn recovery_disagreements(row: Ready<RecoveryKernel>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (blocks, start) in shapes() {
        let (p, q) = reference::parity(&slices(&blocks));
        let placed: Vec<Placed> = blocks.iter().map(|block| Placed::new(block, start)).collect();
        let data: Vec<&[u8]> = placed.iter().map(Placed::get).collect();
        let poisoned = || Placed::poisoned(p.len(), start);
        for low in 0..data.len() {
            let others: Vec<&[u8]> = data[..low].iter().chain(&data[low + 1..]).copied().collect();
            found.extend(wrong_with_one_lost(row, &data, &others, low, (&p, &q), start));
            for high in low + 1..data.len() {
                let left: Vec<&[u8]> =
                    data.iter().enumerate().filter(|(i, _)| *i != low && *i != high).map(|(_, b)| *b).collect();
                let (mut out_low, mut out_high) = (poisoned(), poisoned());
                row.two_lost(TwoLost::two_data(&left, [low, high], (&p, &q), (out_low.get_mut(), out_high.get_mut())));
                if (out_low.written(), out_high.written()) != (Some(data[low]), Some(data[high])) {
                    found.push("from P and Q");
                }
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// One data block lost: alone, with P, with Q.
fn wrong_with_one_lost(
    row: Ready<RecoveryKernel>,
    data: &[&[u8]],
    others: &[&[u8]],
    lost: usize,
    (p, q): (&[u8], &[u8]),
    start: usize,
) -> Vec<&'static str> {
    let poisoned = || Placed::poisoned(p.len(), start);
    let mut wrong = Vec::new();
    let (mut by_p, mut by_q) = (poisoned(), poisoned());
    row.one_by_p(Xor { blocks: &[others, &[p]].concat(), out: by_p.get_mut() });
    row.one_by_q(FromQ { left: Left { blocks: others, low: lost, high: None }, q, out: by_q.get_mut() });
    if by_p.written() != Some(data[lost]) {
        wrong.push("from P");
    }
    if by_q.written() != Some(data[lost]) {
        wrong.push("from Q");
    }
    let (mut out, mut out_p) = (poisoned(), poisoned());
    row.two_lost(TwoLost::data_and_p(others, lost, q, (out.get_mut(), out_p.get_mut())));
    if (out.written(), out_p.written()) != (Some(data[lost]), Some(p)) {
        wrong.push("with P from Q");
    }
    let (mut out, mut out_q) = (poisoned(), poisoned());
    row.two_lost(TwoLost::data_and_q(others, lost, p, (out.get_mut(), out_q.get_mut())));
    if (out.written(), out_q.written()) != (Some(data[lost]), Some(q)) {
        wrong.push("with Q from P");
    }
    wrong
}

/// Every number of disks that has a loop of its own, and the first that has none.
#[test]
fn every_number_of_disks_has_its_loop() {
    for count in 1..=MOST_COUNTED + 1 {
        let blocks = disks(count, 1024);
        let data = slices(&blocks);
        let (p, q) = reference::parity(&data);
        for row in KERNELS.iter().filter_map(Ready::new).filter(|row| row.manner().counted) {
            assert_eq!(wrong_parity(row, &data, &p, &q, 0), Vec::<&str>::new(), "{} {count}", row.name());
            assert_eq!(wrong_checks(row, &data, &p, &q), Vec::<&str>::new(), "{} {count}", row.name());
        }
        for row in RECOVERY_KERNELS.iter().filter_map(Ready::new).filter(|row| row.manner().counted) {
            for lost in [0, count / 2, count - 1] {
                let others: Vec<&[u8]> = data[..lost].iter().chain(&data[lost + 1..]).copied().collect();
                let wrong = wrong_with_one_lost(row, &data, &others, lost, (&p, &q), 0);
                assert_eq!(wrong, Vec::<&str>::new(), "{} {count}", row.name());
            }
        }
    }
}

#[test]
fn every_kernel_agrees_with_the_reference() {
    for row in KERNELS.iter().filter_map(Ready::new) {
        assert_eq!(disagreements(row), Vec::<&str>::new(), "{}", row.name());
    }
}

#[test]
fn every_recovery_kernel_gives_the_data_back() {
    for row in RECOVERY_KERNELS.iter().filter_map(Ready::new) {
        assert_eq!(recovery_disagreements(row), Vec::<&str>::new(), "{}", row.name());
    }
}

#[test]
fn names_are_unique_and_every_kernel_recovers_too() {
    let names: Vec<&str> = KERNELS.iter().map(|row| row.name).collect();
    let recovery: Vec<&str> = RECOVERY_KERNELS.iter().map(|row| row.name).collect();
    assert!(names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1));
    assert!(crate::kernel_names().all(|name| recovery.contains(&name)) && crate::kernel_names().any(|name| name == "int64x8"));
    assert!(names.iter().all(|name| recovery.iter().filter(|other| *other == name).count() == 1));
}

/// The canary: kernels in the field of 0x11b, which is AES's and `gf2p8mulb`'s.
struct OtherField;

impl InstructionSet for OtherField {
    const NEEDS: &'static [Feature] = &[];

    unsafe fn run<J: Job, S: Style, const LANES: usize>(job: J) -> J::Output {
        // SAFETY: plain registers are everywhere; the blocks are the caller's promise.
        unsafe { job.run::<OtherWord, S, LANES>() }
    }
}

#[derive(Clone, Copy)]
struct OtherWord(Word);

impl Vector for OtherWord {
    const BYTES: usize = 8;
    const MUL_WORTH: usize = usize::MAX;
    type Factor = u8;

    unsafe fn zero() -> Self {
        // SAFETY: plain registers are everywhere, here and below.
        OtherWord(unsafe { Word::zero() })
    }
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        OtherWord(unsafe { Word::load(from) })
    }
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store(to) }
    }
    unsafe fn is_zero(self) -> bool {
        // SAFETY: as above.
        unsafe { self.0.is_zero() }
    }
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: as above.
        OtherWord(unsafe { self.0.or(other.0) })
    }
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        OtherWord(unsafe { self.0.xor(other.0) })
    }
    unsafe fn mul2(self) -> Self {
        let mut bytes = [0; 8];
        // SAFETY: eight bytes are there.
        unsafe {
            self.0.store(bytes.as_mut_ptr());
            bytes = bytes.map(|byte| (byte << 1) ^ if byte & 0x80 != 0 { 0x1b } else { 0 });
            OtherWord(Word::load(bytes.as_ptr()))
        }
    }
    unsafe fn factor(constant: u8) -> u8 {
        constant
    }
    unsafe fn mul(self, factor: u8) -> Self {
        // SAFETY: as above.
        OtherWord(unsafe { self.0.mul(factor) })
    }
}

#[test]
fn a_kernel_of_another_field_is_found_out() {
    static WRONG: [Kernel; 3] = [
        Kernel::of::<OtherField, Plain, 2>("wrong"),
        Kernel::of::<OtherField, Counted, 2>("wrong"),
        Kernel::of::<OtherField, Streaming, 2>("wrong"),
    ];
    static WRONG_RECOVERY: [RecoveryKernel; 3] = [
        RecoveryKernel::of::<OtherField, Plain, 2>("wrong"),
        RecoveryKernel::of::<OtherField, Counted, 2>("wrong"),
        RecoveryKernel::of::<OtherField, Streaming, 2>("wrong"),
    ];
    for row in WRONG.iter().filter_map(Ready::new) {
        let expected = ["check of what is right", "check_pq", "gen_pq", "gen_q", "update", "update_by_difference"];
        assert_eq!(disagreements(row), expected);
    }
    for row in WRONG_RECOVERY.iter().filter_map(Ready::new) {
        assert_eq!(recovery_disagreements(row), ["from P and Q", "from Q", "with P from Q", "with Q from P"]);
    }
}

/// The rival does the same as an update; the limit does not, but moves the same bytes.
#[test]
fn what_is_measured_against_is_what_it_says() {
    let blocks = disks(9, 1536);
    let data = slices(&blocks);
    let (old_p, old_q) = reference::parity(&data);
    let fresh: Vec<Vec<u8>> = (0..5).map(|disk| noise(disk + 500, 1536)).collect();
    let after: Vec<&[u8]> = data[..3].iter().copied().chain(fresh.iter().map(Vec::as_slice)).chain([data[8]]).collect();
    let expected = reference::parity(&after);
    for row in TWO_PASS.iter().filter_map(Ready::new) {
        let (mut p, mut q) = (old_p.clone(), old_q.clone());
        row.add(AddInPasses { first: 3, blocks: &data[3..8], p: &mut p, q: &mut q });
        row.add(AddInPasses { first: 3, blocks: &slices(&fresh), p: &mut p, q: &mut q });
        assert!((&p, &q) == (&expected.0, &expected.1), "{}", row.name());
    }
    for row in LIMITS.iter().filter_map(Ready::new) {
        let (mut a, mut b) = (vec![1; 1536], vec![2; 1536]);
        row.make(LimitGen { blocks: &data, outputs: [&mut a, &mut b] });
        assert!(a == old_p && b == old_p, "{}", row.name());
        row.update(LimitUpdate { blocks: &data, p: &mut a, q: &mut b });
        assert!(a == [0; 1536] && b == [0; 1536], "{}", row.name());
    }
}
