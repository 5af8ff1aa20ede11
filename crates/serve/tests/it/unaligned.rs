//! Byte-granular requests against a plain array of bytes.

use std::sync::{Arc, Mutex, mpsc};

use proptest::prelude::*;
use uraid_device::Pool;
use uraid_serve::{ByteTarget, MemoryTarget, Reply, Request, Target, TargetError};

use crate::support::{Gated, PATIENCE, pattern};

const SIZE: u64 = 16 * 512;

/// Answers each request later and in an order of its own, from another thread.
struct Shuffled {
    memory: MemoryTarget,
    queue: Mutex<mpsc::Sender<(Request, Reply)>>,
}

impl Shuffled {
    /// A target that a thread serves until it is dropped, `depth` requests at a time, picked by `seed`.
    fn new(depth: usize, seed: u64) -> Arc<Shuffled> {
        let (queue, requests) = mpsc::channel::<(Request, Reply)>();
        let shuffled = Arc::new(Shuffled { memory: MemoryTarget::new(SIZE, 512), queue: Mutex::new(queue) });
        let weak = Arc::downgrade(&shuffled);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            let mut choices = pattern(4096, seed).into_iter().cycle();
            loop {
                if held.is_empty() {
                    let Ok(request) = requests.recv() else { return };
                    held.push(request);
                }
                held.extend(requests.try_iter().take(depth));
                let pick = usize::from(choices.next().unwrap()) % held.len();
                let (request, reply) = held.swap_remove(pick);
                let Some(target) = weak.upgrade() else { return };
                target.memory.submit(request, reply);
            }
        });
        shuffled
    }
}

impl Target for Shuffled {
    fn size_bytes(&self) -> u64 {
        SIZE
    }
    fn read_only(&self) -> bool {
        false
    }
    fn block_bytes(&self) -> u32 {
        512
    }
    fn preferred_bytes(&self) -> u32 {
        4096
    }
    fn submit(&self, request: Request, reply: Reply) {
        self.queue.lock().unwrap().send((request, reply)).unwrap();
    }
}

type Outcomes = mpsc::Receiver<Result<Vec<u8>, TargetError>>;

fn start(target: &dyn Target, request: Request) -> Outcomes {
    let (done, outcomes) = mpsc::channel();
    let joined = move |outcome: Result<Vec<uraid_device::Shared>, TargetError>| {
        let bytes = outcome.map(|pieces| pieces.iter().map(|piece| &**piece).collect::<Vec<_>>().concat());
        done.send(bytes).expect("the test waits");
    };
    target.submit(request, Box::new(joined));
    outcomes
}

fn run(target: &dyn Target, request: Request) -> Result<Vec<u8>, TargetError> {
    start(target, request).recv_timeout(PATIENCE).expect("every request ends")
}

fn write(offset: u64, bytes: &[u8]) -> Request {
    let mut buf = Pool::new(0).take(bytes.len());
    buf.copy_from_slice(bytes);
    Request::Write { offset, data: buf.share(), fua: false }
}

fn zero(offset: u64, len: u64) -> Request {
    Request::Zero { offset, len, fua: false, may_trim: true, fast_only: false }
}

#[derive(Clone, Debug)]
enum Step {
    Write { offset: u64, len: usize, seed: u64 },
    Zero { offset: u64, len: u64 },
    Read { offset: u64, len: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let edge = prop_oneof![0..SIZE, (0u64..16, -2i64..3).prop_map(|(block, by)| (block * 512).saturating_add_signed(by))];
    let step = (edge, 1u64..2000, any::<u64>(), 0..4u8).prop_map(|(offset, len, seed, kind)| {
        let len = len.min(SIZE - offset);
        match kind {
            0 => Step::Zero { offset, len },
            1 => Step::Read { offset, len: u32::try_from(len).unwrap() },
            _ => Step::Write { offset, len: usize::try_from(len).unwrap(), seed },
        }
    });
    prop::collection::vec(step, 1..40)
}

/// The bytes that a step changes, and to what.
fn apply(model: &mut [u8], step: &Step) {
    match *step {
        Step::Write { offset, len, seed } => model[offset as usize..][..len].copy_from_slice(&pattern(len, seed)),
        Step::Zero { offset, len } => model[offset as usize..][..len as usize].fill(0),
        Step::Read { .. } => {}
    }
}

fn request(step: &Step) -> Request {
    match *step {
        Step::Write { offset, len, seed } => write(offset, &pattern(len, seed)),
        Step::Zero { offset, len } => zero(offset, len),
        Step::Read { offset, len } => Request::Read { offset, len },
    }
}

fn span(step: &Step) -> std::ops::Range<u64> {
    match *step {
        Step::Write { offset, len, .. } => offset..offset + len as u64,
        Step::Zero { offset, len } => offset..offset + len,
        Step::Read { offset, len } => offset..offset + u64::from(len),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_after_another_it_is_a_plain_array(steps in steps()) {
        let target = ByteTarget::new(Shuffled::new(4, 1));
        let mut model = vec![0; SIZE as usize];
        for step in &steps {
            let got = run(&target, request(step)).unwrap();
            if let Step::Read { offset, len } = *step {
                prop_assert_eq!(&got[..], &model[offset as usize..][..len as usize]);
            }
            apply(&mut model, step);
        }
        prop_assert_eq!(run(&target, Request::Read { offset: 0, len: SIZE as u32 }).unwrap(), model);
    }

    /// Steps whose bytes do not overlap go in at once, though their blocks do; every byte must arrive.
    #[test]
    fn at_once_nothing_is_lost(steps in steps(), seed: u64) {
        let target = ByteTarget::new(Shuffled::new(8, seed));
        let mut model = pattern(SIZE as usize, seed);
        run(&target, write(0, &model)).unwrap();
        let mut batch: Vec<&Step> = Vec::new();
        let finish = |batch: &mut Vec<&Step>, model: &mut Vec<u8>| {
            let before = model.clone();
            let running: Vec<_> = batch.iter().map(|step| start(&target, request(step))).collect();
            for (step, outcome) in batch.drain(..).zip(running) {
                let got = outcome.recv_timeout(PATIENCE).expect("every request ends").unwrap();
                if let Step::Read { offset, len } = *step {
                    assert_eq!(&got[..], &before[offset as usize..][..len as usize]);
                }
                apply(model, step);
            }
        };
        for step in &steps {
            let overlaps = |other: &&Step| span(other).start < span(step).end && span(step).start < span(other).end;
            if batch.iter().any(overlaps) {
                finish(&mut batch, &mut model);
            }
            batch.push(step);
        }
        finish(&mut batch, &mut model);
        prop_assert_eq!(run(&target, Request::Read { offset: 0, len: SIZE as u32 }).unwrap(), model);
    }
}

#[test]
fn hundreds_of_bytes_written_one_by_one_into_one_block_all_arrive() {
    // Both with a target that answers at once, whose waiters must not nest, and with one that answers later.
    let targets: [Arc<dyn Target>; 2] = [Arc::new(MemoryTarget::new(SIZE, 512)), Shuffled::new(64, 3)];
    for target in targets {
        let target = ByteTarget::new(target);
        let bytes = pattern(512, 9);
        let running: Vec<_> = bytes.iter().enumerate().map(|(at, byte)| start(&target, write(at as u64, &[*byte]))).collect();
        running.iter().for_each(|outcome| drop(outcome.recv_timeout(PATIENCE).unwrap().unwrap()));
        assert_eq!(run(&target, Request::Read { offset: 0, len: 512 }).unwrap(), bytes);
    }
}

#[test]
fn thousands_of_waiters_on_one_block_do_not_nest() {
    let gated = Gated::new(SIZE, 512);
    let target = ByteTarget::new(Arc::clone(&gated) as Arc<dyn Target>);
    gated.close();
    let running: Vec<_> = (0..3000).map(|at| start(&target, write(at % 512, &[at as u8]))).collect();
    gated.open();
    running.iter().for_each(|outcome| drop(outcome.recv_timeout(PATIENCE).unwrap().unwrap()));
}

#[test]
fn a_whole_block_write_waits_for_whoever_has_read_that_block() {
    let gated = Gated::new(SIZE, 512);
    let target = ByteTarget::new(Arc::clone(&gated) as Arc<dyn Target>);
    gated.close();
    let first = start(&target, write(10, b"abc"));
    let second = start(&target, write(0, &[7; 512]));
    assert_eq!(gated.held(), 1, "the read of the first; the second waits");
    gated.run_one(true);
    assert_eq!(gated.held(), 1, "the write of the first");
    gated.open();
    first.recv_timeout(PATIENCE).unwrap().unwrap();
    second.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(gated.memory.contents()[..512], [7; 512], "the later write won as a whole");
}

#[test]
fn whole_blocks_pass_uncopied() {
    let gated = Gated::new(SIZE, 512);
    let target = ByteTarget::new(Arc::clone(&gated) as Arc<dyn Target>);
    let request = write(512, &[1; 1024]);
    let Request::Write { data, .. } = &request else { unreachable!() };
    let address = data.as_ptr();
    run(&target, request).unwrap();
    let seen = gated.seen();
    assert!(matches!(&seen[..], [Request::Write { data, .. }] if data.as_ptr() == address), "{seen:?}");
}

#[test]
fn errors_come_back_and_leave_no_block_claimed() {
    let gated = Gated::new(SIZE, 512);
    let target = ByteTarget::new(Arc::clone(&gated) as Arc<dyn Target>);
    *gated.fail.lock().unwrap() = Some(libc::EIO);
    for request in [write(1, b"x"), write(0, &[0; 512]), zero(1, 1000), Request::Read { offset: 3, len: 5 }, Request::Flush] {
        assert_eq!(run(&target, request).unwrap_err().errno, libc::EIO);
    }
    *gated.fail.lock().unwrap() = None;
    run(&target, write(1, b"x")).unwrap();
    for (offset, len) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 2)] {
        assert_eq!(run(&target, zero(offset, len)).unwrap_err().errno, libc::EINVAL);
    }
}

#[test]
fn a_refused_fast_zeroing_has_changed_nothing() {
    let gated = Gated::new(SIZE, 512);
    gated.slow_zero.store(true, std::sync::atomic::Ordering::SeqCst);
    let target = ByteTarget::new(Arc::clone(&gated) as Arc<dyn Target>);
    run(&target, write(0, &pattern(4096, 5))).unwrap();
    let fast = Request::Zero { offset: 100, len: 3000, fua: false, may_trim: true, fast_only: true };
    assert_eq!(run(&target, fast).unwrap_err().errno, libc::EOPNOTSUPP);
    assert_eq!(gated.memory.contents()[..4096], pattern(4096, 5));
}

#[test]
fn a_trim_gives_up_whole_blocks_only() {
    let gated = Gated::new(SIZE, 512);
    let target = ByteTarget::new(Arc::clone(&gated) as Arc<dyn Target>);
    run(&target, Request::Trim { offset: 100, len: 1500, fua: true }).unwrap();
    run(&target, Request::Trim { offset: 100, len: 500, fua: true }).unwrap();
    let seen = gated.seen();
    assert!(matches!(&seen[..], [Request::Trim { offset: 512, len: 1024, fua: true }]), "{seen:?}");
}
