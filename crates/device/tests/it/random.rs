//! Thousands of operations on every kind of member at once, against a plain copy in memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use uraid_device::{
    Completion, Counting, Device, Direct, FileDevice, Io, IoOp, MemoryDevice, OpenOptions, Pool, Queue, RingQueue, Shared, Slow,
};

use crate::support::{Numbers, disk, memory, queues};

const SIZE_BYTES: usize = 1 << 20;
const OPERATIONS: u64 = 3000;

/// A queue with its members, what they should hold, and what is under way.
struct Run {
    queue: Box<dyn Queue>,
    devices: Vec<Arc<dyn Device>>,
    expected: Vec<Vec<u8>>,
    /// By token; a range under way is left alone, since overlapping operations have no order.
    under_way: Vec<(u64, usize, Range<usize>)>,
    pool: Pool,
    numbers: Numbers,
}

impl Run {
    fn overlaps(&self, member: usize, range: &Range<usize>) -> bool {
        self.under_way.iter().any(|(_, other, taken)| *other == member && taken.start < range.end && range.start < taken.end)
    }

    fn parts(&mut self, range: &Range<usize>, block: usize) -> Vec<Shared> {
        let mut whole = self.pool.take(range.len());
        whole.iter_mut().for_each(|byte| *byte = self.numbers.next() as u8);
        let whole = whole.share();
        let mut parts = Vec::new();
        let mut at = 0;
        while at < whole.len() {
            let blocks = 1 + self.numbers.below(((whole.len() - at) / block) as u64) as usize;
            parts.push(whole.slice(at..at + blocks * block));
            at += blocks * block;
        }
        parts
    }

    fn submit(&mut self, token: u64) {
        let member = self.numbers.below(self.devices.len() as u64) as usize;
        let block = self.devices[member].info().logical_block_bytes as usize;
        let blocks = SIZE_BYTES / block;
        let start = self.numbers.below(blocks as u64) as usize;
        let len = 1 + self.numbers.below((blocks - start).min(64) as u64) as usize;
        let range = start * block..(start + len) * block;
        while self.overlaps(member, &range) {
            self.reap(None);
        }
        let (offset_bytes, len_bytes) = (range.start as u64, range.len() as u64);
        let op = match self.numbers.below(10) {
            0..=4 => {
                let from = self.parts(&range, block);
                let bytes: Vec<u8> = from.iter().flat_map(|part| part.iter().copied()).collect();
                self.expected[member][range.clone()].copy_from_slice(&bytes);
                IoOp::Write { offset_bytes, from }
            }
            5 => {
                self.expected[member][range.clone()].fill(0);
                IoOp::Zero { offset_bytes, len_bytes, hole: self.numbers.below(2) == 0 }
            }
            6 => IoOp::Flush,
            _ => IoOp::Read { offset_bytes, into: self.pool.take(range.len()) },
        };
        self.under_way.push((token, member, range));
        self.queue.submit(Io { token, member, op });
    }

    fn reap(&mut self, timeout: Option<Duration>) {
        let mut done = Vec::new();
        self.queue.wait(timeout, &mut done);
        assert!(timeout.is_some() || !done.is_empty(), "nothing ended a wait without an end");
        for Completion { token, member, op, result } in done {
            result.unwrap();
            let place = self.under_way.iter().position(|(other, ..)| *other == token).expect("each completes once");
            let (_, submitted, range) = self.under_way.swap_remove(place);
            assert_eq!(member, submitted);
            if let IoOp::Read { into, .. } = op {
                assert!(into[..] == self.expected[member][range.clone()], "member {member}, bytes {range:?}");
            }
        }
        assert_eq!(self.queue.in_flight(), self.under_way.len());
    }
}

/// Files direct and buffered, on tmpfs, of both block sizes; memory; and members without a descriptor.
fn devices(disk: &tempfile::TempDir, memory: &tempfile::TempDir) -> Vec<Arc<dyn Device>> {
    let file = |place: &tempfile::TempDir, name: &str, direct, logical_block_bytes| {
        let path = place.path().join(name);
        FileDevice::create_sparse(&path, SIZE_BYTES as u64, true).unwrap();
        let options = OpenOptions { direct, logical_block_bytes: Some(logical_block_bytes), ..OpenOptions::own() };
        Arc::new(FileDevice::open(&path, options).unwrap())
    };
    vec![
        file(disk, "direct", Direct::Auto, 512),
        file(disk, "direct-4k", Direct::Auto, 4096),
        file(disk, "buffered", Direct::No, 512),
        file(memory, "tmpfs", Direct::Auto, 512),
        Arc::new(MemoryDevice::new("memory", SIZE_BYTES as u64, 4096)),
        Arc::new(Counting::new(file(disk, "counted", Direct::Auto, 512))),
        Arc::new(Slow::new(Arc::new(MemoryDevice::new("slow", SIZE_BYTES as u64, 512)), Duration::ZERO, 1e10)),
    ]
}

fn run(queue: Box<dyn Queue>, seed: u64) {
    let (disk, memory) = (disk(), memory());
    let devices = devices(&disk, &memory);
    let expected = vec![vec![0; SIZE_BYTES]; devices.len()];
    let (pool, numbers) = (Pool::new(1 << 20), Numbers(seed));
    let mut run = Run { queue, devices, expected, under_way: Vec::new(), pool, numbers };
    for device in run.devices.clone() {
        run.queue.add(device);
    }
    for token in 0..OPERATIONS {
        run.submit(token);
        match run.numbers.below(24) {
            0 => run.reap(None),
            1 => run.reap(Some(Duration::ZERO)),
            _ => {}
        }
    }
    while !run.under_way.is_empty() {
        run.reap(None);
    }
    for (device, expected) in run.devices.iter().zip(&run.expected) {
        let mut back = vec![0; SIZE_BYTES];
        device.read_at(0, &mut back).unwrap();
        assert!(back == *expected, "{}", device.info().name);
    }
    assert_eq!(run.pool.outstanding_bytes(), 0);
}

#[test]
fn every_queue_agrees_with_a_copy_in_memory() {
    for (seed, (_, queue)) in queues().into_iter().enumerate() {
        run(queue, seed as u64);
    }
}

#[test]
fn a_ring_of_two_entries_serves_any_number() {
    match RingQueue::new(2) {
        Ok(ring) => run(Box::new(ring), 77),
        Err(error) => eprintln!("SKIPPED: io_uring: {error}"),
    }
}
