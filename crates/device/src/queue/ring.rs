//! A queue over io_uring: one ring for all members that have a descriptor.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::EventfdFlags;

use super::helpers::Helpers;
use super::lanes::{Deliver, Lanes};
use super::members::{Members, complete};
use super::{Completion, Io, IoOp, Queue, Waker};
use crate::file::{MAX_SLICES, whole_progress};
use crate::{Device, DeviceError, Operation};

/// Marks the completion of the ring's own read of its event counter.
const EVENT: u64 = u64::MAX;

/// Bytes in one transfer: below the kernel's own bound of 2 GiB less a page, and whole blocks.
const MAX_TRANSFER_BYTES: usize = 1 << 30;

/// Does the I/O of members with a descriptor through io_uring, that of members in memory with a few threads and the caller's
/// help, and that of others on a thread for each.
///
/// Zeroing goes to the member's thread too: the kernel would run it on a thread of its own anyway.
pub struct RingQueue {
    ring: IoUring,
    members: Members,
    lanes: Lanes,
    helpers: Helpers,
    /// What lanes and helpers have ended.
    ended: Receiver<Completion>,
    /// What ended at once: refused or empty.
    at_once: Vec<Completion>,
    /// By user data of their entries.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Flights to start or to go on with, as soon as the ring has room.
    backlog: VecDeque<usize>,
    in_kernel: usize,
    in_flight: usize,
    event: Arc<Event>,
    /// Where the kernel puts the event counter.
    event_value: Box<[u8; 8]>,
    event_armed: bool,
    /// Reused by `collect`.
    entries: Vec<(u64, i32)>,
}

/// An operation that the kernel has, or will have: it keeps the buffers and the descriptor alive.
struct Flight {
    io: Io,
    device: Arc<dyn Device>,
    done_bytes: usize,
    /// Of the transfer under way.
    slices: Vec<libc::iovec>,
}

// SAFETY: the pointers in `slices` point into buffers of `io`, which may themselves be sent; nobody follows them but the kernel.
unsafe impl Send for Flight {}

/// Ends a sleep of the ring from other threads: for completions of lanes and helpers, and for the waker.
struct Event {
    counter: OwnedFd,
    woken: AtomicBool,
    /// The queue's thread sleeps, or is about to once it has looked again for what would end its sleep.
    asleep: AtomicBool,
}

impl Event {
    fn signal(&self) {
        // The counter can only be full when nobody has read it 2^64 times; the sleeper is then awake.
        let _ = rustix::io::write(&self.counter, &1_u64.to_ne_bytes());
    }

    /// To be called after what the sleeper looks for is there: either it sees that, or this sees it asleep.
    fn signal_sleeper(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.signal();
        }
    }

    fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        self.signal_sleeper();
    }
}

impl RingQueue {
    /// A queue without members, whose ring has `entries` submission entries.
    ///
    /// # Errors
    /// As io_uring_setup(2): `Unsupported` or ENOSYS before Linux 5.11, EPERM where it is forbidden.
    pub fn new(entries: u32) -> io::Result<RingQueue> {
        // Without an interrupt for each completion: they are seen when the ring is entered, which `wait` does (since 5.19).
        let quiet = IoUring::builder().setup_clamp().setup_coop_taskrun().setup_taskrun_flag().build(entries);
        let ring = quiet.or_else(|_| IoUring::builder().setup_clamp().build(entries))?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::Error::new(ErrorKind::Unsupported, "this kernel's io_uring is older than Linux 5.11"));
        }
        let counter = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let event = Arc::new(Event { counter, woken: AtomicBool::new(false), asleep: AtomicBool::new(false) });
        let (sender, ended) = crossbeam_channel::unbounded();
        let deliver: Deliver = {
            let event = Arc::clone(&event);
            Arc::new(move |completion| {
                // The queue is gone while its last operations end: nobody is left to be told.
                drop(sender.send(completion));
                event.signal_sleeper();
            })
        };
        Ok(RingQueue {
            ring,
            members: Members::default(),
            lanes: Lanes::new(Arc::clone(&deliver)),
            helpers: Helpers::new(deliver),
            ended,
            at_once: Vec::new(),
            flights: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            in_kernel: 0,
            in_flight: 0,
            event,
            event_value: Box::new([0; 8]),
            event_armed: false,
            entries: Vec::new(),
        })
    }

    fn depart(&mut self, flight: Flight) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[slot] = Some(flight);
        self.backlog.push_back(slot);
    }

    fn flight(&mut self, slot: usize) -> &mut Flight {
        self.flights[slot].as_mut().expect("the kernel hands back what it was given, once")
    }

    fn land(&mut self, slot: usize) -> Flight {
        let flight = self.flights[slot].take().expect("the kernel hands back what it was given, once");
        self.free.push(slot);
        flight
    }

    /// Puts what waits into the ring, as far as it has room for submissions and for completions.
    fn fill(&mut self) {
        while self.in_kernel < self.ring.params().cq_entries() as usize - 1
            && let Some(&slot) = self.backlog.front()
        {
            let entry = self.flight(slot).entry().user_data(slot as u64);
            if !self.push(&entry) {
                self.enter(Some(Duration::ZERO));
                if !self.push(&entry) {
                    break;
                }
            }
            self.backlog.pop_front();
            self.in_kernel += 1;
        }
    }

    /// Listens for the event, if it does not yet.
    fn listen(&mut self) {
        if !self.event_armed {
            let counter = Fd(self.event.counter.as_raw_fd());
            let entry = opcode::Read::new(counter, self.event_value.as_mut_ptr(), 8).build().user_data(EVENT);
            self.event_armed = self.push(&entry);
        }
    }

    /// Queues an entry; false when the ring is full.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: what the entry points to outlives it: a flight stays in `flights`, with its buffers at a fixed address and its
        // descriptor open, until its completion is collected; the event's counter and value are fields. `drop` collects them all.
        unsafe { self.ring.submission().push(entry).is_ok() }
    }

    /// Hands entries to the kernel and sleeps until something completes: `None` for ever, zero not at all.
    fn enter(&mut self, pause: Option<Duration>) {
        let want = usize::from(pause.is_none_or(|pause| !pause.is_zero()));
        if want == 0 {
            let submission = self.ring.submission();
            if submission.is_empty() && !submission.taskrun() && !submission.cq_overflow() {
                return;
            }
        }
        let entered = match pause {
            Some(pause) if want > 0 => {
                let timespec = Timespec::from(pause);
                self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&timespec))
            }
            _ => self.ring.submit_and_wait(want),
        };
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY), _)) => {}
            // The kernel is short of memory; what it has will complete and give some back.
            Err((Some(libc::EAGAIN), _)) => std::thread::yield_now(),
            Err((_, error)) => panic!("the ring of the members' I/O is broken: {error}"),
        }
    }

    /// Sleeps until something completes, the waker is used or `pause` is over.
    fn sleep(&mut self, pause: Option<Duration>) {
        self.event.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.ended.is_empty() && !self.event.woken.load(Ordering::SeqCst) {
            self.enter(pause);
        }
        self.event.asleep.store(false, Ordering::SeqCst);
    }

    /// Appends what has completed to `done`.
    fn collect(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        done.append(&mut self.at_once);
        done.extend(self.ended.try_iter());
        let mut entries = std::mem::take(&mut self.entries);
        entries.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        for (user_data, result) in entries.drain(..) {
            if user_data == EVENT {
                self.event_armed = false;
                continue;
            }
            self.in_kernel -= 1;
            let slot = usize::try_from(user_data).expect("user data is a slot");
            match self.flight(slot).advance(result) {
                Step::GoOn => self.backlog.push_back(slot),
                Step::Block => {
                    let Flight { device, io, .. } = self.land(slot);
                    let member = io.member;
                    self.lanes.send(&device, io);
                    if !self.members.has(member) {
                        self.lanes.retire(member);
                    }
                }
                Step::End(result) => done.push(complete(self.land(slot).io, result)),
            }
        }
        self.entries = entries;
        self.in_flight -= done.len() - before;
    }
}

/// What follows a completion of the kernel.
enum Step {
    /// Another transfer for the rest.
    GoOn,
    /// The kernel wants to be asked with a blocking call.
    Block,
    End(Result<(), DeviceError>),
}

impl Flight {
    fn new(io: Io, device: Arc<dyn Device>) -> Flight {
        Flight { io, device, done_bytes: 0, slices: Vec::new() }
    }

    /// The entry for what is not done yet.
    fn entry(&mut self) -> squeue::Entry {
        let descriptor = self.device.descriptor().expect("a member without a descriptor has a lane").as_raw_fd();
        let (descriptor, done) = (Fd(descriptor), self.done_bytes);
        match &mut self.io.op {
            IoOp::Read { offset_bytes, into } => {
                let rest = &mut into[done..];
                let len = rest.len().min(MAX_TRANSFER_BYTES) as u32;
                opcode::Read::new(descriptor, rest.as_mut_ptr(), len).offset(*offset_bytes + done as u64).build()
            }
            IoOp::Write { offset_bytes, from } => {
                let offset_bytes = *offset_bytes + done as u64;
                slices_from(from.iter().map(|part| &part[..]), done, &mut self.slices);
                match &self.slices[..] {
                    [one] => opcode::Write::new(descriptor, one.iov_base.cast(), one.iov_len as u32).offset(offset_bytes).build(),
                    some => opcode::Writev::new(descriptor, some.as_ptr(), some.len() as u32).offset(offset_bytes).build(),
                }
            }
            IoOp::Flush => opcode::Fsync::new(descriptor).flags(FsyncFlags::DATASYNC).build(),
            IoOp::Zero { .. } => unreachable!("zeroing goes down the member's lane"),
        }
    }

    /// Takes in what the kernel says of the last entry: bytes moved, or an error number below 0.
    fn advance(&mut self, result: i32) -> Step {
        let moved = match usize::try_from(result) {
            Ok(moved) => moved,
            // Cancelled: the thread that entered it has ended, as a queue that changed threads may find.
            Err(_) if -result == libc::ECANCELED => return Step::GoOn,
            // A flush that was interrupted may have been told of a failure that nobody will hear of again.
            Err(_) if -result == libc::EINTR && !matches!(self.io.op, IoOp::Flush) => return Step::GoOn,
            Err(_) if -result == libc::EAGAIN => return Step::Block,
            Err(_) => return Step::End(Err(self.error(io::Error::from_raw_os_error(-result)))),
        };
        let ended = match self.io.op {
            IoOp::Read { .. } => ErrorKind::UnexpectedEof,
            IoOp::Write { .. } => ErrorKind::WriteZero,
            IoOp::Flush | IoOp::Zero { .. } => return Step::End(Ok(())),
        };
        let len = self.io.op.len_bytes() as usize;
        match whole_progress(self.device.info(), self.done_bytes + moved, len) {
            Some(now) if now == len => Step::End(Ok(())),
            Some(now) if now > self.done_bytes => {
                self.done_bytes = now;
                Step::GoOn
            }
            _ => {
                // A file that has become shorter is found out by asking; what follows from it, the device remembers.
                let _cut_short = self.device.check(Operation::Flush, 0, 0);
                Step::End(Err(self.error(io::Error::new(ended, format!("ended after {} bytes", self.done_bytes)))))
            }
        }
    }

    fn error(&self, source: io::Error) -> DeviceError {
        let op = &self.io.op;
        DeviceError::at(&self.device.info().name, op.operation(), op.offset_bytes(), op.len_bytes(), source)
    }
}

/// What is left of `parts` after `done` bytes, as much as the kernel takes at once.
fn slices_from<'a>(parts: impl Iterator<Item = &'a [u8]>, done: usize, into: &mut Vec<libc::iovec>) {
    into.clear();
    let (mut skip, mut room) = (done, MAX_TRANSFER_BYTES);
    for part in parts {
        let skipped = skip.min(part.len());
        skip -= skipped;
        let rest = &part[skipped..];
        let rest = &rest[..rest.len().min(room)];
        if into.len() == MAX_SLICES || room == 0 {
            return;
        }
        if !rest.is_empty() {
            room -= rest.len();
            into.push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
        }
    }
}

impl Queue for RingQueue {
    fn add(&mut self, device: Arc<dyn Device>) -> usize {
        self.members.add(device)
    }

    /// A flight keeps its member's descriptor open until it lands, so letting go is just that.
    fn remove(&mut self, member: usize) {
        self.members.remove(member);
        self.lanes.retire(member);
    }

    fn submit(&mut self, io: Io) {
        self.in_flight += 1;
        match self.members.admit(io) {
            Err(refused) => self.at_once.push(refused),
            Ok((device, io)) => match io.op {
                _ if device.in_memory() => self.helpers.send(device, io),
                IoOp::Zero { .. } => self.lanes.send(&device, io),
                _ if device.descriptor().is_none() => self.lanes.send(&device, io),
                IoOp::Read { .. } | IoOp::Write { .. } if io.op.len_bytes() == 0 => self.at_once.push(complete(io, Ok(()))),
                IoOp::Flush if device.info().read_only => self.at_once.push(complete(io, Ok(()))),
                _ => self.depart(Flight::new(io, device)),
            },
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>) {
        let before = done.len();
        // A timeout too far away to have an end is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut looked = false;
        loop {
            self.listen();
            self.fill();
            self.collect(done);
            let woken = self.event.woken.swap(false, Ordering::AcqRel);
            let ready = woken || done.len() > before;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let expired = left.is_some_and(|left| left.is_zero());
            if expired && looked && !ready {
                return;
            }
            if !ready && self.helpers.help(!expired) {
                continue;
            }
            // What waits in the backlog has its turn before any sleep: there may be room for it now.
            let may_sleep = !ready && !expired && self.event_armed && (self.backlog.is_empty() || self.in_kernel > 0);
            if may_sleep {
                self.sleep(left);
            } else {
                self.enter(Some(Duration::ZERO));
            }
            looked = true;
            if ready {
                self.collect(done);
                return;
            }
        }
    }

    fn waker(&self) -> Waker {
        let event = Arc::clone(&self.event);
        Waker::new(move || event.wake())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for RingQueue {
    /// Ends everything that was taken, since the kernel writes into the buffers until then; the lanes do so when they are dropped.
    fn drop(&mut self) {
        if std::thread::panicking() && self.in_kernel > 0 {
            // The ring may be what panicked. Memory that the kernel might still write is never given back.
            std::mem::forget(std::mem::take(&mut self.flights));
            Box::leak(std::mem::replace(&mut self.event_value, Box::new([0; 8])));
            return;
        }
        let mut done = Vec::new();
        while self.in_kernel > 0 || !self.backlog.is_empty() || self.event_armed {
            self.event.signal();
            self.fill();
            self.enter(None);
            self.collect(&mut done);
            done.clear();
        }
    }
}
