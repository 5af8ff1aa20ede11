//! Linear, RAID0, RAID1 and RAID10: every sector has one or more copies and no parity.
//!
//! Writes go to all copies, one operation a region at a time so that copies never end up different; reads take the copy with the
//! least to do. Where copies may differ (a resync has yet to come by) everybody reads the same one.

use smallvec::SmallVec;
use uraid_device::{IoOp, Shared};
use uraid_geometry::Place;
use uraid_types::{Sector, SectorCount, Slot};

use crate::Engine;
use crate::event::{FailureKind, RequestError};
use crate::extents::{Overlay, Rows};
use crate::flush::write_failure;
use crate::lock::Mode;
use crate::ops::{Done, Op};
use crate::requests::ReadPiece;
use crate::stripe_read::FixPhase;

/// Array sectors under one lock where there are no chunks: 512 KiB.
const REGION: u64 = 1024;

pub(crate) type Places = SmallVec<[Place; 4]>;

/// A piece that any of its copies can answer.
#[derive(Debug)]
pub(crate) struct CopyRead {
    piece: ReadPiece,
    /// Array sectors.
    rows: Rows,
    copies: Places,
    failed: Vec<Slot>,
    /// The region whose lock it holds.
    locked: Option<u64>,
}

/// Writes to one region, joined.
#[derive(Debug)]
pub(crate) struct CopyWrite {
    region: u64,
    requests: Vec<usize>,
    /// By array sector.
    new: Overlay,
    waiting: bool,
    announced: bool,
    outstanding: usize,
    failure: Option<RequestError>,
    torn: bool,
}

/// Rewriting of a copy that could not be read.
#[derive(Debug)]
pub(crate) struct CopyFix {
    region: u64,
    from: Place,
    to: Place,
    len: SectorCount,
    phase: FixPhase,
}

/// The member data sectors of `len` sectors at `place`.
pub(crate) fn member_rows(place: Place, len: u64) -> Rows {
    place.sector.0..place.sector.0 + len
}

impl Engine {
    fn region_len(&self) -> u64 {
        match self.geometry.shape().chunk.0 {
            0 => REGION,
            chunk => chunk,
        }
    }

    /// The most sectors that one piece of a write can have.
    pub(crate) fn longest_piece(&self) -> SectorCount {
        SectorCount(self.region_len())
    }

    pub(crate) fn region_of(&self, array: u64) -> u64 {
        array / self.region_len()
    }

    /// What bitmap and resync count over: member data sectors at RAID1 are array sectors.
    fn unsynced(&mut self, rows: &Rows) -> bool {
        self.parity_trust(rows) == crate::planner::ParityTrust::Stale
    }

    /// Reads from `array` on, as far as one extent reaches; returns how far.
    pub(crate) fn read_copies(&mut self, array: Sector, max: SectorCount, piece: ReadPiece) -> SectorCount {
        let extent = self.copies().locate(array, max);
        let mut rows = array.0..array.0 + extent.len.0;
        let copies = extent.copies.iter().copied().collect();
        // A resync that has read its copies makes them like the first one, even if that is lost by then: who reads another meanwhile
        // would see the sector change once more.
        let locked = self.unsynced(&rows).then(|| self.region_of(array.0));
        if let Some(region) = locked {
            rows.end = rows.end.min((region + 1) * self.region_len());
        }
        let len = SectorCount(rows.end - rows.start);
        let key = self.ops.insert(Op::CopyRead(CopyRead { piece, rows, copies, failed: Vec::new(), locked }));
        if locked.is_none_or(|region| self.locks.acquire(region, key, Mode::Read)) {
            self.granted(key);
        }
        len
    }

    pub(crate) fn try_copy(&mut self, key: usize, op: CopyRead) {
        let len = op.rows.end - op.rows.start;
        let fixed_choice = self.unsynced(&op.rows);
        match self.choose_copy(&op.copies, len, &op.failed, fixed_choice) {
            Some(place) => {
                self.ops[key] = Op::CopyRead(op);
                self.send_read(key, place.slot, member_rows(place, len));
            }
            None => {
                self.ops.remove(key);
                let slots = op.copies.iter().map(|place| place.slot).collect();
                let message = format!("array sectors {}..{}: no copy can be read", op.rows.start, op.rows.end);
                self.read_piece_done(op.piece, Err(RequestError::new(FailureKind::Io, message).of(slots)));
                op.locked.into_iter().for_each(|region| self.unlock(region));
            }
        }
    }

    /// The copy to read: write-mostly members last, else the least busy, or simply the first where copies may differ.
    pub(crate) fn choose_copy(&self, copies: &[Place], len: u64, not: &[Slot], first: bool) -> Option<Place> {
        let usable =
            |place: &&Place| self.members.readable(place.slot, Sector(place.sector.0 + len)) && !not.contains(&place.slot);
        let busy = |place: &&Place| {
            let member = self.members.get(place.slot);
            (member.write_mostly, if first { 0 } else { member.reads })
        };
        copies.iter().filter(usable).min_by_key(busy).copied()
    }

    pub(crate) fn copy_read_done(&mut self, key: usize, mut op: CopyRead, done: Done) {
        match (done.op, done.error) {
            (IoOp::Read { into, .. }, None) => {
                self.ops.remove(key);
                let failed = op.copies.iter().filter(|place| op.failed.contains(&place.slot)).copied();
                let from = op.copies.iter().find(|place| place.slot == done.slot).copied();
                let len = SectorCount(op.rows.end - op.rows.start);
                for to in failed.collect::<Vec<_>>() {
                    if let Some(from) = from {
                        self.fix_copy(op.rows.start, from, to, len);
                    }
                }
                self.read_piece_done(op.piece, Ok(into.share()));
                op.locked.into_iter().for_each(|region| self.unlock(region));
            }
            _ => {
                op.failed.push(done.slot);
                self.try_copy(key, op);
            }
        }
    }

    fn fix_copy(&mut self, array: u64, from: Place, to: Place, len: SectorCount) {
        if self.read_only || self.stopping {
            return;
        }
        let region = self.region_of(array);
        let key = self.ops.insert(Op::CopyFix(CopyFix { region, from, to, len, phase: FixPhase::Gathering }));
        if self.locks.acquire(region, key, Mode::Exclusive) {
            self.granted(key);
        }
    }

    pub(crate) fn copy_fix_locked(&mut self, key: usize, op: CopyFix) {
        let readable = |place: Place| self.members.readable(place.slot, Sector(place.sector.0 + op.len.0));
        if self.broken.is_some() || !readable(op.from) || !readable(op.to) {
            return self.end_copy_fix(key, &op);
        }
        let (slot, rows) = (op.from.slot, member_rows(op.from, op.len.0));
        self.ops[key] = Op::CopyFix(op);
        self.send_read(key, slot, rows);
    }

    pub(crate) fn copy_fix_done(&mut self, key: usize, mut op: CopyFix, done: Done) {
        let (slot, rows) = (op.to.slot, member_rows(op.to, op.len.0));
        if self.broken.is_some() || !self.members.readable(slot, Sector(rows.end)) {
            // It was lost in the meantime, and another may have its slot.
            return self.end_copy_fix(key, &op);
        }
        match (&op.phase, done.op, done.error) {
            (FixPhase::Gathering, IoOp::Read { into, .. }, None) => {
                op.phase = FixPhase::Writing;
                self.ops[key] = Op::CopyFix(op);
                self.send_write(key, slot, rows, vec![into.share()]);
            }
            (FixPhase::Writing, _, None) => {
                op.phase = FixPhase::Verifying;
                self.ops[key] = Op::CopyFix(op);
                self.send_read(key, slot, rows);
            }
            (FixPhase::Verifying, _, None) => {
                self.corrected(slot, &rows);
                self.end_copy_fix(key, &op);
            }
            (FixPhase::Writing | FixPhase::Verifying, _, Some(failure)) => {
                self.lose_member(slot, &failure.why);
                self.end_copy_fix(key, &op);
            }
            (FixPhase::Gathering, _, _) => self.end_copy_fix(key, &op),
        }
    }

    fn end_copy_fix(&mut self, key: usize, op: &CopyFix) {
        self.ops.remove(key);
        self.unlock(op.region);
    }

    /// Writes from `array` on, as far as one region reaches; returns how far.
    pub(crate) fn write_copies(
        &mut self,
        array: Sector,
        max: SectorCount,
        request: usize,
        data: impl FnOnce(SectorCount) -> Shared,
    ) -> SectorCount {
        let region = self.region_of(array.0);
        let len = SectorCount(max.0.min((region + 1) * self.region_len() - array.0));
        let key = match self.joinable(region) {
            Some(key) if matches!(&self.ops[key], Op::CopyWrite(op) if op.waiting) => key,
            _ => {
                let key = self.ops.insert(Op::CopyWrite(CopyWrite {
                    region,
                    requests: Vec::new(),
                    new: Overlay::default(),
                    waiting: true,
                    announced: false,
                    outstanding: 0,
                    failure: None,
                    torn: false,
                }));
                self.to_lock.push((region, key));
                key
            }
        };
        let Op::CopyWrite(op) = &mut self.ops[key] else { panic!("writes join writes") };
        self.counters.joined += u64::from(op.requests.last().is_some_and(|&last| last != request));
        op.requests.push(request);
        op.new.lay(array.0..array.0 + len.0, data(len));
        len
    }

    pub(crate) fn copy_write_locked(&mut self, key: usize, mut op: CopyWrite) {
        op.waiting = false;
        if let Some(error) = self.broken_error() {
            op.failure = Some(error);
            return self.finish_copy_write(key, op);
        }
        op.announced = true;
        let rows = span(&op.new);
        self.ops[key] = Op::CopyWrite(op);
        if self.begin_write(key, &rows) {
            self.intent_ready(key);
        }
    }

    pub(crate) fn copy_write_ready(&mut self, key: usize, mut op: CopyWrite) {
        if let Some(error) = self.broken_error() {
            op.failure = Some(error);
            return self.finish_copy_write(key, op);
        }
        let writes = self.place_writes(&op.new);
        op.outstanding = writes.len();
        if writes.is_empty() {
            op.failure = Some(RequestError::new(FailureKind::Io, "no copy can be written"));
            return self.finish_copy_write(key, op);
        }
        self.ops[key] = Op::CopyWrite(op);
        for (slot, rows, bytes) in writes {
            self.send_write(key, slot, rows, bytes);
        }
    }

    /// Where new data goes, pieces that touch on a member joined into one write.
    fn place_writes(&self, new: &Overlay) -> Vec<(Slot, Rows, Vec<Shared>)> {
        let mut by_slot: Vec<Vec<(Rows, Shared)>> = vec![Vec::new(); self.members.len()];
        for (rows, bytes) in new.iter() {
            let mut at = rows.start;
            while at < rows.end {
                let extent = self.copies().locate(Sector(at), SectorCount(rows.end - at));
                let part = crate::extents::within(rows.start, &(at..at + extent.len.0));
                for place in extent.copies.iter().filter(|place| self.members.writable(place.slot)) {
                    by_slot[place.slot.index()].push((member_rows(*place, extent.len.0), bytes.slice(part.clone())));
                }
                at += extent.len.0;
            }
        }
        let mut writes: Vec<(Slot, Rows, Vec<Shared>)> = Vec::new();
        for (index, mut pieces) in by_slot.into_iter().enumerate() {
            let slot = Slot::from_index(index);
            pieces.sort_by_key(|(rows, _)| rows.start);
            for (rows, bytes) in pieces {
                match writes.last_mut() {
                    Some((last_slot, run, parts)) if *last_slot == slot && run.end == rows.start => {
                        run.end = rows.end;
                        parts.push(bytes);
                    }
                    _ => writes.push((slot, rows, vec![bytes])),
                }
            }
        }
        writes
    }

    pub(crate) fn copy_write_done(&mut self, key: usize, mut op: CopyWrite, done: Done) {
        op.outstanding -= 1;
        if let Some(failure) = done.error {
            let redundant = self.geometry.shape().level.is_redundant();
            if !redundant || failure.no_space && self.members.incomplete().is_empty() {
                op.failure = Some(write_failure(done.slot, failure.no_space, &failure.why));
                op.torn = redundant;
            } else {
                self.lose_member(done.slot, &failure.why);
            }
        }
        if op.outstanding > 0 {
            self.ops[key] = Op::CopyWrite(op);
        } else {
            self.finish_copy_write(key, op);
        }
    }

    fn finish_copy_write(&mut self, key: usize, op: CopyWrite) {
        if op.announced {
            self.end_write(&span(&op.new), op.torn);
        }
        self.ops.remove(key);
        self.writes_done(op.requests, op.failure);
        self.unlock(op.region);
    }
}

fn span(new: &Overlay) -> Rows {
    new.bounds().min().unwrap_or(0)..new.bounds().max().unwrap_or(0)
}
