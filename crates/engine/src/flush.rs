//! Flushes: one at a time over all members, each answering everybody who asked before it was sent.

use uraid_types::Slot;

use crate::Engine;
use crate::event::{FailureKind, RequestError};
use crate::meta::Settle;
use crate::ops::Op;

/// A flush under way.
#[derive(Debug)]
pub(crate) struct Flush {
    requests: Vec<usize>,
    settle: Option<Settle>,
    outstanding: usize,
    failure: Option<RequestError>,
}

/// Who waits for the next flush.
#[derive(Debug, Default)]
pub(crate) struct FlushQueue {
    under_way: bool,
    requests: Vec<usize>,
    settle: Option<Vec<u64>>,
}

impl FlushQueue {
    /// Is nothing under way, and nobody waiting?
    pub fn is_idle(&self) -> bool {
        !self.under_way && self.requests.is_empty() && self.settle.is_none()
    }
}

impl Engine {
    /// A request (opened, one piece out) is done once all that was written is durable.
    pub(crate) fn flush_for(&mut self, request: usize) {
        self.flushes.requests.push(request);
        self.start_flush();
    }

    /// Flushes the members on the engine's own behalf; [`Engine::settled`] follows.
    pub(crate) fn settle(&mut self, clearable: Vec<u64>) {
        self.meta.settling = true;
        self.flushes.settle = Some(clearable);
        self.start_flush();
    }

    fn start_flush(&mut self) {
        if self.flushes.under_way {
            return;
        }
        let requests = std::mem::take(&mut self.flushes.requests);
        let settle = self.flushes.settle.take().map(|clearable| Settle {
            clearable,
            resync_from: self.resync_from,
            members: self.members.marks(),
        });
        if requests.is_empty() && settle.is_none() {
            return;
        }
        self.flushes.under_way = true;
        self.meta.written = false;
        let targets: Vec<Slot> =
            self.members.slots().filter(|&slot| self.members.writable(slot) && self.members.get(slot).unflushed).collect();
        let key = self.ops.insert(Op::Flush(Flush { requests, settle, outstanding: targets.len(), failure: None }));
        for &slot in &targets {
            self.members.get_mut(slot).unflushed = false;
            self.send(key, slot, 0..0, uraid_device::IoOp::Flush);
        }
        if targets.is_empty() {
            self.finish_flush(key);
        }
    }

    pub(crate) fn flush_io_done(&mut self, key: usize, slot: Slot, error: Option<String>) {
        if let Some(why) = error {
            // What the member held back may be gone for good: asking again would get a success that means nothing.
            if self.geometry.shape().level.is_redundant() {
                self.lose_member(slot, &why);
            } else {
                self.broken.get_or_insert(format!("{slot} could not make its writes durable: {why}"));
            }
        }
        let broken = self.broken_error();
        let Some(Op::Flush(flush)) = self.ops.get_mut(key) else { panic!("a flush's I/O belongs to a flush") };
        flush.failure = flush.failure.take().or(broken);
        flush.outstanding -= 1;
        if flush.outstanding == 0 {
            self.finish_flush(key);
        }
    }

    fn finish_flush(&mut self, key: usize) {
        let Op::Flush(flush) = self.ops.remove(key) else { panic!("a flush ends as a flush") };
        self.flushes.under_way = false;
        self.writes_done(flush.requests, flush.failure);
        if let Some(settle) = flush.settle {
            self.settled(&settle);
        }
        self.start_flush();
    }
}

/// The error of a request that a member's failed write leaves undone.
pub(crate) fn write_failure(slot: Slot, no_space: bool, why: &str) -> RequestError {
    let kind = if no_space { FailureKind::NoSpace } else { FailureKind::Io };
    RequestError::new(kind, format!("{slot} could not be written: {why}"))
}
