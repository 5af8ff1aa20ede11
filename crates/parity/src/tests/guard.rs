//! Blocks that end where the memory ends: a kernel that touches one byte too many dies.
#![allow(unsafe_code)]

use std::ptr;

use super::{noise, reference};
use crate::arch::{KERNELS, RECOVERY_KERNELS};
use crate::jobs::{Changes, CheckP, CheckPq, FromQ, GenPq, GenQ, IsZero, Left, TwoLost, Xor, XorInto, highest_first};
use crate::kernel::Ready;
use crate::{Delta, MAX_DATA_DISKS};

/// A page between two that can't be touched.
struct Guarded {
    map: *mut u8,
    page_bytes: usize,
}

impl Guarded {
    fn new() -> Guarded {
        // SAFETY: a fresh private mapping; protecting its outer pages concerns nobody else.
        unsafe {
            let page_bytes = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let map = libc::mmap(ptr::null_mut(), 3 * page_bytes, protection, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            let map = map.cast::<u8>();
            assert_eq!(libc::mprotect(map.cast(), page_bytes, libc::PROT_NONE), 0);
            assert_eq!(libc::mprotect(map.add(2 * page_bytes).cast(), page_bytes, libc::PROT_NONE), 0);
            Guarded { map, page_bytes }
        }
    }

    /// `len_bytes` that end with the page, or start with it.
    fn block(&mut self, len_bytes: usize, at_end: bool) -> &mut [u8] {
        assert!(len_bytes <= self.page_bytes);
        let start = self.page_bytes + if at_end { self.page_bytes - len_bytes } else { 0 };
        // SAFETY: within the middle page, which can be read and written and is borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(start), len_bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no block of it outlives `self`.
        unsafe { libc::munmap(self.map.cast(), 3 * self.page_bytes) };
    }
}

/// Runs every job of every kernel on five data blocks, P, Q and two outputs at the edge.
fn run_all(len_bytes: usize, at_end: bool) {
    let mut pages: Vec<Guarded> = (0..9).map(|_| Guarded::new()).collect();
    let mut blocks: Vec<&mut [u8]> = pages.iter_mut().map(|page| page.block(len_bytes, at_end)).collect();
    let [data @ .., p, q, a, b] = &mut blocks[..] else { unreachable!("there are nine") };
    data.iter_mut().zip(1..).for_each(|(block, seed)| block.copy_from_slice(&noise(seed, len_bytes)));
    let data: Vec<&[u8]> = data.iter().map(|block| &**block).collect();
    let (right_p, right_q) = reference::parity(&data);

    for row in KERNELS.iter().filter_map(Ready::new) {
        row.gen_pq(GenPq { data: &data, p, q });
        assert!(**p == right_p[..] && **q == right_q[..], "{}", row.name());
        assert!(row.check_p(CheckP { data: &data, p }) && !row.check_pq(CheckPq { data: &data, p, q }).any());
        row.xor(Xor { blocks: &data, out: a });
        row.gen_q(GenQ { data: &data, q: b });
        assert!(*a == *p && *b == *q, "{}", row.name());
        row.xor_into(XorInto { dst: a, src: p });
        assert!(row.is_zero(IsZero { block: a }));
        // There and back again, one disk and two.
        let deltas = [Delta { index: 4, old: data[4], new: data[0] }, Delta { index: 1, old: data[1], new: data[2] }];
        for deltas in [&deltas[..1], &deltas[..]] {
            let back: Vec<Delta<'_>> = deltas.iter().map(|delta| Delta { old: delta.new, new: delta.old, ..*delta }).collect();
            for changes in [deltas, &back] {
                let mut room = [0; MAX_DATA_DISKS];
                row.update(Changes { changes, order: highest_first(changes, &mut room), p: Some(p), q: Some(q) });
            }
            let differences: Vec<(usize, &[u8])> = deltas.iter().map(|delta| (delta.index, delta.new)).collect();
            for _ in 0..2 {
                let mut room = [0; MAX_DATA_DISKS];
                let order = highest_first(&differences, &mut room);
                row.add(Changes { changes: &differences, order, p: Some(p), q: Some(q) });
            }
        }
        assert!(**p == right_p[..] && **q == right_q[..], "{}", row.name());
    }
    for row in RECOVERY_KERNELS.iter().filter_map(Ready::new) {
        row.one_by_p(Xor { blocks: &[data[0], data[1], data[2], data[3], p], out: a });
        let left = [data[0], data[1], data[3], data[4]];
        row.one_by_q(FromQ { left: Left { blocks: &left, low: 2, high: None }, q, out: b });
        assert!(**a == *data[4] && **b == *data[2], "{}", row.name());
        row.two_lost(TwoLost::two_data(&[data[0], data[2], data[4]], [1, 3], (p, q), (a, b)));
        assert!(**a == *data[1] && **b == *data[3], "{}", row.name());
        row.two_lost(TwoLost::data_and_p(&left, 2, q, (a, b)));
        assert!(**a == *data[2] && **b == **p, "{}", row.name());
        row.two_lost(TwoLost::data_and_q(&left, 2, p, (a, b)));
        assert!(**a == *data[2] && **b == **q, "{}", row.name());
    }
}

#[test]
fn no_kernel_leaves_its_blocks() {
    for len_bytes in [512, 1024, 1536, 4096] {
        run_all(len_bytes, true);
        run_all(len_bytes, false);
    }
}

/// The canary: touching the guard page is fatal indeed.
#[test]
fn the_guard_page_kills() {
    let mut page = Guarded::new();
    let end = page.block(512, true).as_mut_ptr_range().end;
    // SAFETY: the child does nothing but read one byte, which kills it, or leave at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            // No core dump, no crash handler: only the signal.
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::_exit(i32::from(ptr::read_volatile(end)) & 1);
        }
        assert!(child > 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "status {status:#x}");
    }
}
