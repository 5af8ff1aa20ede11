//! Operations under way and the member I/Os that they wait for.

use uraid_device::{DeviceError, IoOp};
use uraid_types::{Sector, Slot};

use crate::Engine;
use crate::copies::{CopyFix, CopyRead, CopyWrite};
use crate::event::Effect;
use crate::extents::Rows;
use crate::flush::Flush;
use crate::stripe_read::{DirectRead, StripeFix, StripeRead};
use crate::stripe_write::StripeWrite;
use crate::window_copies::CopyWindow;
use crate::window_parity::ParityWindow;

/// One operation: a state machine that advances when its member I/Os end.
#[derive(Debug)]
pub(crate) enum Op {
    DirectRead(DirectRead),
    StripeRead(StripeRead),
    StripeFix(StripeFix),
    StripeWrite(StripeWrite),
    CopyRead(CopyRead),
    CopyWrite(CopyWrite),
    CopyFix(CopyFix),
    ParityWindow(ParityWindow),
    CopyWindow(CopyWindow),
    Flush(Flush),
    /// Being worked on: taken out of the table for the moment.
    Busy,
}

/// What a member I/O belongs to.
#[derive(Debug)]
pub(crate) struct IoRef {
    op: usize,
    slot: Slot,
    /// Which of the slot's members it went to.
    epoch: u64,
    rows: Rows,
}

/// A member I/O that has ended, as operations see it.
#[derive(Debug)]
pub(crate) struct Done {
    pub slot: Slot,
    /// The member data sectors, as given to [`Engine::send`].
    pub rows: Rows,
    pub op: IoOp,
    pub error: Option<Failure>,
}

/// Why it failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub no_space: bool,
    pub why: String,
}

impl Engine {
    /// Sends a member I/O; `rows` are its member data sectors, which come back in [`Done`].
    pub(crate) fn send(&mut self, op: usize, slot: Slot, rows: Rows, io: IoOp) {
        if matches!(io, IoOp::Read { .. }) {
            self.members.get_mut(slot).reads += 1;
        }
        let epoch = self.members.get(slot).epoch;
        let token = self.ios.insert(IoRef { op, slot, epoch, rows }) as u64;
        self.out.push(Effect::Io { token, slot, op: io });
    }

    /// Reads `rows` of a member.
    pub(crate) fn send_read(&mut self, op: usize, slot: Slot, rows: Rows) {
        let into = self.pool.take(crate::extents::bytes_of(&rows));
        let offset_bytes = Sector(rows.start).byte_offset();
        self.send(op, slot, rows, IoOp::Read { offset_bytes, into });
    }

    /// Writes `rows` of a member.
    pub(crate) fn send_write(&mut self, op: usize, slot: Slot, rows: Rows, from: Vec<uraid_device::Shared>) {
        let offset_bytes = Sector(rows.start).byte_offset();
        self.send(op, slot, rows, IoOp::Write { offset_bytes, from });
    }

    pub(crate) fn io_done(&mut self, token: u64, op: IoOp, result: Result<(), DeviceError>) {
        let key = usize::try_from(token).expect("tokens are table keys");
        let IoRef { op: key, slot, epoch, rows } = self.ios.remove(key);
        self.counters.ios.count(&self.ops[key], &op);
        let member = self.members.get_mut(slot);
        match op {
            IoOp::Read { .. } => member.reads -= 1,
            // Not when it is sent: a flush that overtakes it does not cover it.
            IoOp::Write { .. } | IoOp::Zero { .. } => member.unflushed = true,
            IoOp::Flush => {}
        }
        // What a lost member failed to write says nothing about the one that has its slot now, which is being rebuilt.
        let of_another = epoch != member.epoch && !matches!(op, IoOp::Read { .. });
        let error = result
            .err()
            .filter(|_| !of_another)
            .map(|error| Failure { no_space: error.source.kind() == std::io::ErrorKind::StorageFull, why: error.to_string() });
        let done = Done { slot, rows, op, error };
        match std::mem::replace(&mut self.ops[key], Op::Busy) {
            Op::DirectRead(op) => self.direct_read_done(key, op, done),
            Op::StripeRead(op) => self.stripe_read_done(key, op, done),
            Op::StripeFix(op) => self.stripe_fix_done(key, op, done),
            Op::StripeWrite(op) => self.stripe_write_done(key, op, done),
            Op::CopyRead(op) => self.copy_read_done(key, op, done),
            Op::CopyWrite(op) => self.copy_write_done(key, op, done),
            Op::CopyFix(op) => self.copy_fix_done(key, op, done),
            Op::ParityWindow(op) => self.parity_window_done(key, op, done),
            Op::CopyWindow(op) => self.copy_window_done(key, op, done),
            Op::Flush(op) => {
                self.ops[key] = Op::Flush(op);
                self.flush_io_done(key, slot, done.error.map(|failure| failure.why));
            }
            Op::Busy => panic!("I/Os end one at a time"),
        }
        self.continue_shutdown();
    }

    /// `op` has the lock that it waited for.
    pub(crate) fn granted(&mut self, key: usize) {
        match std::mem::replace(&mut self.ops[key], Op::Busy) {
            Op::StripeRead(op) => self.stripe_read_locked(key, op),
            Op::StripeFix(op) => self.stripe_fix_locked(key, op),
            Op::StripeWrite(op) => self.stripe_write_locked(key, op),
            Op::CopyRead(op) => self.try_copy(key, op),
            Op::CopyWrite(op) => self.copy_write_locked(key, op),
            Op::CopyFix(op) => self.copy_fix_locked(key, op),
            Op::ParityWindow(op) => self.parity_window_locked(key, op),
            Op::CopyWindow(op) => self.copy_window_locked(key, op),
            other => panic!("{other:?} takes no lock"),
        }
    }

    /// The bits and the dirty mark that `op` waited for are durable.
    pub(crate) fn intent_ready(&mut self, key: usize) {
        match std::mem::replace(&mut self.ops[key], Op::Busy) {
            Op::StripeWrite(op) => self.stripe_write_ready(key, op),
            Op::CopyWrite(op) => self.copy_write_ready(key, op),
            other => panic!("{other:?} announces no write"),
        }
    }

    /// Gives a lock back and starts whoever has it now.
    pub(crate) fn unlock(&mut self, lock: u64) {
        for op in self.locks.release(lock) {
            self.granted(op);
        }
    }
}
