//! Reads of RAID4, RAID5 and RAID6: straight from the member, or rebuilt from the rest of the stripe.
//!
//! A block that its member cannot read is answered from redundancy, then rewritten and read again ([`StripeFix`]).

use uraid_device::{Buf, IoOp};
use uraid_geometry::ParityRole;
use uraid_types::{Sector, SectorCount, Slot, StripeNo};

use crate::Engine;
use crate::codec::{Blocks, Place};
use crate::event::{Effect, FailureKind, RequestError};
use crate::extents::{Rows, bytes_of};
use crate::lock::Mode;
use crate::ops::{Done, Op};
use crate::planner::parity_to_rebuild;
use crate::requests::ReadPiece;

/// A piece that one member answers.
#[derive(Debug)]
pub(crate) struct DirectRead {
    piece: ReadPiece,
    stripe: StripeNo,
    index: usize,
}

/// The blocks of the same rows of a stripe that have been gathered.
#[derive(Debug)]
struct Gather {
    stripe: StripeNo,
    /// Member data sectors.
    rows: Rows,
    /// By slot.
    blocks: Vec<Option<Buf>>,
    unreadable: Vec<Slot>,
    outstanding: usize,
}

/// A piece that has to be rebuilt.
#[derive(Debug)]
pub(crate) struct StripeRead {
    piece: ReadPiece,
    index: usize,
    gather: Gather,
}

/// Rewriting of a block that could not be read.
#[derive(Debug)]
pub(crate) struct StripeFix {
    slot: Slot,
    gather: Gather,
    phase: FixPhase,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FixPhase {
    Gathering,
    Writing,
    Verifying,
}

impl Gather {
    fn new(stripe: StripeNo, rows: Rows, members: usize, unreadable: Vec<Slot>) -> Gather {
        Gather { stripe, rows, blocks: (0..members).map(|_| None).collect(), unreadable, outstanding: 0 }
    }

    fn len_bytes(&self) -> usize {
        bytes_of(&self.rows)
    }

    /// Takes a read that has ended.
    fn take(&mut self, done: Done) {
        self.outstanding -= 1;
        match (done.op, done.error) {
            (IoOp::Read { into, .. }, None) => self.blocks[done.slot.index()] = Some(into),
            _ => self.unreadable.push(done.slot),
        }
    }
}

impl Engine {
    /// Reads from one stripe; `rows` are member data sectors.
    pub(crate) fn read_stripe(&mut self, stripe: StripeNo, index: usize, rows: Rows, piece: ReadPiece) {
        let slot = self.parity().data_slot(stripe, index);
        if self.members.readable(slot, Sector(rows.end)) {
            let key = self.ops.insert(Op::DirectRead(DirectRead { piece, stripe, index }));
            self.send_read(key, slot, rows);
        } else {
            self.rebuild_for_read(stripe, index, rows, piece, Vec::new());
        }
    }

    pub(crate) fn direct_read_done(&mut self, key: usize, op: DirectRead, done: Done) {
        self.ops.remove(key);
        match (done.op, done.error) {
            (IoOp::Read { into, .. }, None) => self.read_piece_done(op.piece, Ok(into.share())),
            _ => self.rebuild_for_read(op.stripe, op.index, done.rows, op.piece, vec![done.slot]),
        }
    }

    fn rebuild_for_read(&mut self, stripe: StripeNo, index: usize, rows: Rows, piece: ReadPiece, unreadable: Vec<Slot>) {
        let gather = Gather::new(stripe, rows, self.members.len(), unreadable);
        let key = self.ops.insert(Op::StripeRead(StripeRead { piece, index, gather }));
        if self.locks.acquire(stripe.0, key, Mode::Read) {
            self.granted(key);
        }
    }

    pub(crate) fn stripe_read_locked(&mut self, key: usize, mut op: StripeRead) {
        let slot = self.parity().data_slot(op.gather.stripe, op.index);
        let wanted = self.sources(&op.gather, slot);
        match wanted {
            Some(slots) if slots.is_empty() => self.answer_stripe_read(key, op, slot),
            Some(slots) => {
                op.gather.outstanding = slots.len();
                let rows = op.gather.rows.clone();
                self.ops[key] = Op::StripeRead(op);
                for slot in slots {
                    self.send_read(key, slot, rows.clone());
                }
            }
            None => self.fail_stripe_read(key, op, slot),
        }
    }

    pub(crate) fn stripe_read_done(&mut self, key: usize, mut op: StripeRead, done: Done) {
        op.gather.take(done);
        if op.gather.outstanding > 0 {
            self.ops[key] = Op::StripeRead(op);
        } else {
            self.stripe_read_locked(key, op);
        }
    }

    /// Which blocks have yet to be read so that `slot`'s can be rebuilt (or are known); `None` when too many are lost.
    fn sources(&self, gather: &Gather, slot: Slot) -> Option<Vec<Slot>> {
        let parity = self.parity();
        let end = Sector(gather.rows.end);
        let usable = |slot: Slot| {
            gather.blocks[slot.index()].is_some() || self.members.readable(slot, end) && !gather.unreadable.contains(&slot)
        };
        let missing = |slots: Vec<Slot>| slots.into_iter().filter(|slot| gather.blocks[slot.index()].is_none()).collect();
        if usable(slot) {
            return Some(missing(vec![slot]));
        }
        let data: Vec<Slot> = (0..parity.data_members()).map(|index| parity.data_slot(gather.stripe, index)).collect();
        let mut slots: Vec<Slot> = data.iter().copied().filter(|&slot| usable(slot)).collect();
        let p = Some(parity.p_slot(gather.stripe)).filter(|&slot| usable(slot));
        let q = parity.q_slot(gather.stripe).filter(|&slot| usable(slot));
        let (with_p, with_q) = parity_to_rebuild(data.len() - slots.len(), p.is_some(), q.is_some())?;
        slots.extend(p.filter(|_| with_p).into_iter().chain(q.filter(|_| with_q)));
        Some(missing(slots))
    }

    /// The gathered blocks in the codec's terms.
    fn gathered<'a>(&self, gather: &'a Gather) -> Blocks<'a> {
        let parity = self.parity();
        let block = |slot: Slot| gather.blocks[slot.index()].as_deref();
        Blocks {
            data: (0..parity.data_members()).map(|index| block(parity.data_slot(gather.stripe, index))).collect(),
            p: block(parity.p_slot(gather.stripe)),
            q: parity.q_slot(gather.stripe).and_then(block),
            has_q: parity.q_slot(gather.stripe).is_some(),
        }
    }

    fn answer_stripe_read(&mut self, key: usize, mut op: StripeRead, slot: Slot) {
        let bytes = match op.gather.blocks[slot.index()].take() {
            Some(bytes) => bytes,
            None => {
                let rebuilt = self.gathered(&op.gather).rebuild_data(&self.pool, op.gather.len_bytes());
                let block = rebuilt.into_iter().find(|(index, _)| *index == op.index);
                block.map(|(_, bytes)| bytes).expect("the block that was lost is among those rebuilt")
            }
        };
        self.end_stripe_read(key, op, Ok(bytes));
    }

    fn fail_stripe_read(&mut self, key: usize, op: StripeRead, slot: Slot) {
        let rows = &op.gather.rows;
        let message = format!("{slot}, member data sectors {}..{}: cannot be read or rebuilt", rows.start, rows.end);
        self.end_stripe_read(key, op, Err(RequestError::new(FailureKind::Io, message)));
    }

    fn end_stripe_read(&mut self, key: usize, op: StripeRead, result: Result<Buf, RequestError>) {
        self.ops.remove(key);
        let Gather { stripe, rows, unreadable, .. } = op.gather;
        if result.is_ok() {
            for slot in unreadable {
                self.fix_stripe(stripe, slot, rows.clone());
            }
        }
        self.read_piece_done(op.piece, result.map(Buf::share));
        self.unlock(stripe.0);
    }

    fn fix_stripe(&mut self, stripe: StripeNo, slot: Slot, rows: Rows) {
        if self.read_only || self.stopping || !self.members.readable(slot, Sector(rows.end)) {
            return;
        }
        let gather = Gather::new(stripe, rows, self.members.len(), vec![slot]);
        let key = self.ops.insert(Op::StripeFix(StripeFix { slot, gather, phase: FixPhase::Gathering }));
        if self.locks.acquire(stripe.0, key, Mode::Exclusive) {
            self.granted(key);
        }
    }

    pub(crate) fn stripe_fix_locked(&mut self, key: usize, mut op: StripeFix) {
        let still_wanted = self.broken.is_none() && self.members.readable(op.slot, Sector(op.gather.rows.end));
        let sources = if still_wanted { self.fix_sources(&op.gather, op.slot) } else { None };
        let Some(slots) = sources else { return self.end_fix(key, &op) };
        if slots.is_empty() {
            return self.write_fix(key, op);
        }
        op.gather.outstanding = slots.len();
        let rows = op.gather.rows.clone();
        self.ops[key] = Op::StripeFix(op);
        for slot in slots {
            self.send_read(key, slot, rows.clone());
        }
    }

    /// As [`Engine::sources`], for any place in the stripe: parity is rebuilt from all data.
    fn fix_sources(&self, gather: &Gather, slot: Slot) -> Option<Vec<Slot>> {
        if let ParityRole::Data(_) = self.parity().role(gather.stripe, slot) {
            return self.sources(gather, slot);
        }
        let parity = self.parity();
        let data = (0..parity.data_members()).map(|index| self.sources(gather, parity.data_slot(gather.stripe, index)));
        let mut slots: Vec<Slot> = data.collect::<Option<Vec<_>>>()?.concat();
        slots.sort_unstable();
        slots.dedup();
        Some(slots)
    }

    fn write_fix(&mut self, key: usize, mut op: StripeFix) {
        let place = match self.parity().role(op.gather.stripe, op.slot) {
            ParityRole::Data(index) => Place::Data(index),
            ParityRole::P => Place::P,
            ParityRole::Q => Place::Q,
        };
        let rebuilt = self.gathered(&op.gather).rebuild(&self.pool, op.gather.len_bytes());
        let (_, bytes) = rebuilt.into_iter().find(|(lost, _)| *lost == place).expect("the block to be fixed was not read");
        let (slot, rows) = (op.slot, op.gather.rows.clone());
        op.phase = FixPhase::Writing;
        self.ops[key] = Op::StripeFix(op);
        self.send_write(key, slot, rows, vec![bytes.share()]);
    }

    pub(crate) fn stripe_fix_done(&mut self, key: usize, mut op: StripeFix, done: Done) {
        let (slot, rows) = (op.slot, op.gather.rows.clone());
        match op.phase {
            FixPhase::Gathering => {
                op.gather.take(done);
                if op.gather.outstanding > 0 {
                    self.ops[key] = Op::StripeFix(op);
                } else {
                    self.stripe_fix_locked(key, op);
                }
            }
            FixPhase::Writing if done.error.is_none() => {
                op.phase = FixPhase::Verifying;
                self.ops[key] = Op::StripeFix(op);
                self.send_read(key, slot, rows);
            }
            FixPhase::Verifying if done.error.is_none() => {
                self.corrected(slot, &rows);
                self.end_fix(key, &op);
            }
            FixPhase::Writing | FixPhase::Verifying => {
                let why = done.error.map(|failure| failure.why).unwrap_or_default();
                self.lose_member(slot, &why);
                self.end_fix(key, &op);
            }
        }
    }

    pub(crate) fn corrected(&mut self, slot: Slot, rows: &Rows) {
        let len = SectorCount(rows.end - rows.start);
        self.out.push(Effect::Corrected { slot, start: Sector(rows.start), len });
    }

    fn end_fix(&mut self, key: usize, op: &StripeFix) {
        self.ops.remove(key);
        self.unlock(op.gather.stripe.0);
    }
}
