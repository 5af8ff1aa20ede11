//! Blocking calls off the caller's thread: each member has a lane with a thread of its own, so that a slow one holds up no other.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Sender;

use super::members::complete;
use super::{Completion, Io, IoOp};
use crate::{Device, DeviceError};

/// Takes a completion from the thread that brought it about.
pub(super) type Deliver = Arc<dyn Fn(Completion) + Send + Sync>;

/// The lanes of a queue's members. Dropped, it ends what was sent first.
pub(super) struct Lanes {
    deliver: Deliver,
    /// By member; a lane begins with the first operation sent to it.
    lanes: Vec<Option<Lane>>,
    /// Threads of removed members, which may have operations to end.
    retired: Vec<JoinHandle<()>>,
}

struct Lane {
    jobs: Sender<Io>,
    thread: JoinHandle<()>,
}

impl Lanes {
    pub fn new(deliver: Deliver) -> Lanes {
        Lanes { deliver, lanes: Vec::new(), retired: Vec::new() }
    }

    /// Sends `io` down the lane of its member, which is `device`.
    pub fn send(&mut self, device: &Arc<dyn Device>, io: Io) {
        if self.lanes.len() <= io.member {
            self.lanes.resize_with(io.member + 1, || None);
        }
        let place = &mut self.lanes[io.member];
        let lane = match place.take() {
            Some(lane) => Ok(lane),
            None => Lane::start(Arc::clone(device), Arc::clone(&self.deliver)),
        };
        match lane {
            Ok(lane) => {
                let lane = place.insert(lane);
                lane.jobs.send(io).expect("a lane takes operations until it is retired");
            }
            Err(error) => {
                tracing::warn!(%error, "no thread for a member: its I/O blocks the queue");
                run(device.as_ref(), io, &self.deliver);
            }
        }
    }

    /// Ends the lane of `member` after what was sent down it, without waiting for that.
    pub fn retire(&mut self, member: usize) {
        self.retired.retain(|thread| !thread.is_finished());
        if let Some(lane) = self.lanes.get_mut(member).and_then(Option::take) {
            self.retired.push(lane.thread);
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for member in 0..self.lanes.len() {
            self.retire(member);
        }
        for thread in self.retired.drain(..) {
            // A lane catches the panics of its member, so nothing is left to report here.
            let _ = thread.join();
        }
    }
}

impl Lane {
    fn start(device: Arc<dyn Device>, deliver: Deliver) -> io::Result<Lane> {
        let (jobs, taken) = crossbeam_channel::unbounded();
        let lane = move || taken.iter().for_each(|io| run(device.as_ref(), io, &deliver));
        let thread = std::thread::Builder::new().name("uraid-member".to_owned()).spawn(lane)?;
        Ok(Lane { jobs, thread })
    }
}

/// Does `io` on `device`, which it is for, and delivers the completion. A panic of the member is its failure.
pub(super) fn run(device: &dyn Device, mut io: Io, deliver: &Deliver) {
    let result = catch_unwind(AssertUnwindSafe(|| perform(device, &mut io.op))).unwrap_or_else(|_| {
        let source = io::Error::other("its back end panicked");
        Err(DeviceError::at(&device.info().name, io.op.operation(), io.op.offset_bytes(), io.op.len_bytes(), source))
    });
    deliver(complete(io, result));
}

/// Does `op` with blocking calls.
fn perform(device: &dyn Device, op: &mut IoOp) -> Result<(), DeviceError> {
    match op {
        IoOp::Read { offset_bytes, into } => device.read_at(*offset_bytes, into),
        IoOp::Write { offset_bytes, from } => match &from[..] {
            [one] => device.write_at(*offset_bytes, one),
            parts => {
                let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
                device.write_parts_at(*offset_bytes, &parts)
            }
        },
        IoOp::Flush => device.flush(),
        IoOp::Zero { offset_bytes, len_bytes, hole } => device.zero(*offset_bytes, *len_bytes, *hole),
    }
}
