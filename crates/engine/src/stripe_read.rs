//! Reads of RAID4, RAID5 and RAID6: straight from the member, or rebuilt from the rest of the stripe.
//!
//! A block that its member cannot read is answered from redundancy, then rewritten and read again ([`StripeFix`]).

use uraid_device::{Buf, IoOp, Shared};
use uraid_geometry::ParityRole;
use uraid_types::{Sector, SectorCount, Slot, StripeNo};

use crate::Engine;
use crate::codec::{Blocks, Place};
use crate::event::{Effect, FailureKind, RequestError};
use crate::extents::{Rows, bytes_of, within};
use crate::lock::Mode;
use crate::ops::{Done, Op};
use crate::planner::parity_to_rebuild;
use crate::requests::ReadPiece;

/// A piece of a read that lies in one block of a stripe.
#[derive(Debug)]
pub(crate) struct StripePiece {
    pub piece: ReadPiece,
    /// Syndrome index of the block.
    pub index: usize,
    /// Member data sectors.
    pub rows: Rows,
}

/// A piece that one member answers.
#[derive(Debug)]
pub(crate) struct DirectRead {
    stripe: StripeNo,
    piece: StripePiece,
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

/// Pieces of one request that are answered from the gathered rows of a stripe: some have to be rebuilt, the others come along.
#[derive(Debug)]
pub(crate) struct StripeRead {
    pieces: Vec<StripePiece>,
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
    /// Reads pieces of one request from one stripe.
    pub(crate) fn read_stripe(&mut self, stripe: StripeNo, pieces: Vec<StripePiece>) {
        let (direct, lost): (Vec<_>, Vec<_>) = pieces.into_iter().partition(|piece| {
            let slot = self.parity().data_slot(stripe, piece.index);
            self.members.readable(slot, Sector(piece.rows.end))
        });
        let rows = lost.iter().map(|piece| piece.rows.clone()).reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        // What has to be read for rebuilding anyway answers these pieces too.
        let comes_along =
            |piece: &StripePiece| rows.as_ref().is_some_and(|all| all.start <= piece.rows.start && piece.rows.end <= all.end);
        let (along, direct): (Vec<_>, Vec<_>) = direct.into_iter().partition(comes_along);
        for piece in direct {
            let (slot, rows) = (self.parity().data_slot(stripe, piece.index), piece.rows.clone());
            let key = self.ops.insert(Op::DirectRead(DirectRead { stripe, piece }));
            self.send_read(key, slot, rows);
        }
        if let Some(rows) = rows {
            let pieces = lost.into_iter().chain(along).collect();
            self.rebuild_for_read(pieces, Gather::new(stripe, rows, self.members.len(), Vec::new()));
        }
    }

    pub(crate) fn direct_read_done(&mut self, key: usize, op: DirectRead, done: Done) {
        self.ops.remove(key);
        match (done.op, done.error) {
            (IoOp::Read { into, .. }, None) => self.read_piece_done(op.piece.piece, Ok(into.share())),
            _ => {
                let gather = Gather::new(op.stripe, done.rows, self.members.len(), vec![done.slot]);
                self.rebuild_for_read(vec![op.piece], gather);
            }
        }
    }

    fn rebuild_for_read(&mut self, pieces: Vec<StripePiece>, gather: Gather) {
        let stripe = gather.stripe;
        let key = self.ops.insert(Op::StripeRead(StripeRead { pieces, gather }));
        if self.locks.acquire(stripe.0, key, Mode::Read) {
            self.granted(key);
        }
    }

    pub(crate) fn stripe_read_locked(&mut self, key: usize, mut op: StripeRead) {
        let parity = self.parity();
        let wanted = op.pieces.iter().map(|piece| self.sources(&op.gather, parity.data_slot(op.gather.stripe, piece.index)));
        // A piece that cannot be had does not keep the others from their sources.
        let mut slots: Vec<Slot> = wanted.flatten().flatten().collect();
        slots.sort_unstable();
        slots.dedup();
        if slots.is_empty() {
            return self.answer_stripe_read(key, op);
        }
        op.gather.outstanding = slots.len();
        let rows = op.gather.rows.clone();
        self.ops[key] = Op::StripeRead(op);
        for slot in slots {
            self.send_read(key, slot, rows.clone());
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
            gaps: parity.gaps(gather.stripe),
        }
    }

    fn answer_stripe_read(&mut self, key: usize, op: StripeRead) {
        let gathered = self.gathered(&op.gather);
        let lost = op.pieces.iter().any(|piece| gathered.data[piece.index].is_none());
        let rebuilt =
            if lost && gathered.recoverable() { gathered.rebuild_data(&self.pool, op.gather.len_bytes()) } else { Vec::new() };
        self.counters.rebuilt_reads += rebuilt.len() as u64;
        self.ops.remove(key);
        let Gather { stripe, rows, unreadable, blocks, .. } = op.gather;
        let slot_of = |index: usize| self.parity().data_slot(stripe, index);
        let mut known: Vec<(Slot, Shared)> = rebuilt.into_iter().map(|(index, bytes)| (slot_of(index), bytes.share())).collect();
        let read = blocks.into_iter().enumerate().filter_map(|(index, block)| Some((Slot::from_index(index), block?.share())));
        known.extend(read);
        let answer = |piece: &StripePiece| {
            let slot = slot_of(piece.index);
            let block = known.iter().find(|(known, _)| *known == slot);
            let bytes = block.map(|(_, bytes)| bytes.slice(within(rows.start, &piece.rows)));
            (piece.piece, bytes.ok_or_else(|| lost_block(slot, &piece.rows)))
        };
        let answers: Vec<(ReadPiece, Result<Shared, RequestError>)> = op.pieces.iter().map(answer).collect();
        if answers.iter().all(|(_, answer)| answer.is_ok()) {
            for slot in unreadable {
                self.fix_stripe(stripe, slot, rows.clone());
            }
        }
        for (piece, answer) in answers {
            self.read_piece_done(piece, answer);
        }
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
            // It was lost in the meantime, and another may have its slot.
            _ if self.broken.is_some() || !self.members.readable(slot, Sector(rows.end)) => self.end_fix(key, &op),
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

fn lost_block(slot: Slot, rows: &Rows) -> RequestError {
    let message = format!("{slot}, member data sectors {}..{}: cannot be read or rebuilt", rows.start, rows.end);
    RequestError::new(FailureKind::Io, message).of(vec![slot])
}
