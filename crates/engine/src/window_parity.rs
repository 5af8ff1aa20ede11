//! A window of a run over RAID4, RAID5 or RAID6: the same rows of all members are read, parity is compared, what is lost is
//! rebuilt, and only what differs is written.

use uraid_device::{Buf, IoOp, Shared};
use uraid_parity as parity;
use uraid_types::{Sector, SectorCount, Slot, StripeNo};

use crate::Engine;
use crate::codec::{self, Blocks, Filler, Place};
use crate::event::SyncKind;
use crate::extents::{Rows, bytes_of, within};
use crate::lock::Mode;
use crate::ops::{Done, Op};
use crate::planner::ROW;

/// See the module. Rows are member data sectors.
#[derive(Debug)]
pub(crate) struct ParityWindow {
    kind: SyncKind,
    rows: Rows,
    /// Stripes that the window touches.
    stripes: Rows,
    locked: u64,
    /// Parts still to be done, the next one last; a part with too much unreadable is cut into rows.
    todo: Vec<Rows>,
    /// By slot, of the part at hand.
    blocks: Vec<Option<Buf>>,
    unreadable: Vec<Slot>,
    outstanding: usize,
    writing: bool,
    pub found: Found,
}

/// What windows found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub mismatch_sectors: u64,
    pub unreadable_sectors: u64,
    /// The run cannot go on.
    pub abort: Option<String>,
}

impl Engine {
    pub(crate) fn start_parity_window(&mut self, kind: SyncKind, rows: Rows) {
        let chunk = self.parity().chunk().0;
        let stripes = rows.start / chunk..rows.end.div_ceil(chunk);
        let key = self.ops.insert(Op::ParityWindow(ParityWindow {
            kind,
            rows: rows.clone(),
            locked: 0,
            todo: vec![rows],
            blocks: Vec::new(),
            unreadable: Vec::new(),
            outstanding: 0,
            writing: false,
            found: Found::default(),
            stripes: stripes.clone(),
        }));
        if self.locks.acquire(stripes.start, key, Mode::Sync) {
            self.granted(key);
        }
    }

    pub(crate) fn parity_window_locked(&mut self, key: usize, mut op: ParityWindow) {
        op.locked += 1;
        let next = op.stripes.start + op.locked;
        if next < op.stripes.end {
            self.ops[key] = Op::ParityWindow(op);
            if self.locks.acquire(next, key, Mode::Sync) {
                self.granted(key);
            }
            return;
        }
        self.next_part(key, op);
    }

    fn next_part(&mut self, key: usize, mut op: ParityWindow) {
        let part = op.todo.last().cloned();
        let Some(rows) = part.filter(|_| self.broken.is_none() && op.found.abort.is_none()) else {
            return self.end_parity_window(key, op);
        };
        op.writing = false;
        op.unreadable.clear();
        op.blocks = self.members.slots().map(|_| None).collect();
        let end = Sector(rows.end);
        let sources: Vec<Slot> = self.members.slots().filter(|&slot| self.members.readable(slot, end)).collect();
        op.outstanding = sources.len();
        self.ops[key] = Op::ParityWindow(op);
        for slot in sources {
            self.send_read(key, slot, rows.clone());
        }
    }

    pub(crate) fn parity_window_done(&mut self, key: usize, mut op: ParityWindow, done: Done) {
        op.outstanding -= 1;
        match (done.op, done.error) {
            (IoOp::Read { into, .. }, None) => op.blocks[done.slot.index()] = Some(into),
            (IoOp::Read { .. }, Some(_)) => op.unreadable.push(done.slot),
            (_, None) => {}
            (_, Some(failure)) if failure.no_space => op.found.abort = Some(failure.why),
            (_, Some(failure)) => self.lose_member(done.slot, &failure.why),
        }
        if op.outstanding > 0 {
            self.ops[key] = Op::ParityWindow(op);
        } else if op.writing {
            op.todo.pop();
            self.next_part(key, op);
        } else {
            self.compare_part(key, op);
        }
    }

    fn compare_part(&mut self, key: usize, mut op: ParityWindow) {
        let rows = op.todo.last().cloned().expect("a window that is read has a part");
        if !op.unreadable.is_empty() && bytes_of(&rows) > ROW.len_bytes() {
            // Only what really cannot be read may be rebuilt: where a resync is due, parity may give something else than what is there.
            return self.read_again_row_by_row(key, op, &rows);
        }
        let mut writes: Vec<(Slot, Rows, Buf)> = Vec::new();
        for part in self.stripe_parts(&rows) {
            if self.compare_stripe(&mut op, &rows, &part, &mut writes) {
                continue;
            }
            op.found.unreadable_sectors += part.end - part.start;
            if op.kind == SyncKind::Recovery {
                let message = format!("member data sectors {}..{} cannot be rebuilt", part.start, part.end);
                op.found.abort.get_or_insert(message);
            }
        }
        if self.broken.is_some() || writes.is_empty() {
            op.todo.pop();
            return self.next_part(key, op);
        }
        let writes = join_writes(writes);
        for &slot in &op.unreadable {
            self.corrected(slot, &rows);
        }
        op.writing = true;
        op.outstanding = writes.len();
        op.blocks.clear();
        self.ops[key] = Op::ParityWindow(op);
        for (slot, rows, bytes) in writes {
            self.send_write(key, slot, rows, bytes);
        }
    }

    fn read_again_row_by_row(&mut self, key: usize, mut op: ParityWindow, rows: &Rows) {
        op.todo.pop();
        let cut = (rows.start..rows.end).step_by(ROW.0 as usize).map(|start| start..(start + ROW.0).min(rows.end));
        let cut: Vec<Rows> = cut.collect();
        op.todo.extend(cut.into_iter().rev());
        self.next_part(key, op);
    }

    /// Cuts member data sectors at chunk bounds.
    fn stripe_parts(&self, rows: &Rows) -> Vec<Rows> {
        let chunk = self.parity().chunk().0;
        let first = rows.start / chunk;
        (first..rows.end.div_ceil(chunk))
            .map(|stripe| rows.start.max(stripe * chunk)..rows.end.min((stripe + 1) * chunk))
            .collect()
    }

    /// Compares or rebuilds `part` (within one stripe) of `rows`; false when too much of it is lost.
    fn compare_stripe(&self, op: &mut ParityWindow, rows: &Rows, part: &Rows, writes: &mut Vec<(Slot, Rows, Buf)>) -> bool {
        let geometry = self.parity();
        let stripe = StripeNo(part.start / geometry.chunk().0);
        let range = within(rows.start, part);
        let block = |slot: Slot| op.blocks[slot.index()].as_ref().map(|block| &block[range.clone()]);
        let q_slot = geometry.q_slot(stripe);
        let blocks = Blocks {
            data: (0..geometry.data_members()).map(|index| block(geometry.data_slot(stripe, index))).collect(),
            p: block(geometry.p_slot(stripe)),
            q: q_slot.and_then(block),
            has_q: q_slot.is_some(),
            gaps: geometry.gaps(stripe),
        };
        let slot_of = |place: Place| match place {
            Place::Data(index) => geometry.data_slot(stripe, index),
            Place::P => geometry.p_slot(stripe),
            Place::Q => q_slot.expect("only RAID6 makes a Q"),
        };
        let complete = blocks.data.iter().all(Option::is_some) && blocks.p.is_some() && (q_slot.is_none() || blocks.q.is_some());
        let rebuilt = if complete {
            let data: Vec<&[u8]> = blocks.data.iter().copied().flatten().collect();
            let filler = Filler::new(blocks.gaps, &self.pool, bytes_of(part));
            let data = Filler::spread(filler.as_ref(), &data);
            let (bad_p, bad_q, mismatch_sectors) = compare(&data, blocks.p, blocks.q);
            op.found.mismatch_sectors += mismatch_sectors;
            let mend = mismatch_sectors > 0 && matches!(op.kind, SyncKind::Resync | SyncKind::Repair);
            if mend { codec::generate(&data, None, &self.pool, bytes_of(part), (bad_p, bad_q)) } else { Vec::new() }
        } else if blocks.recoverable() {
            let wanted = !self.read_only && self.members.slots().any(|slot| block(slot).is_none() && self.members.writable(slot));
            if matches!(op.kind, SyncKind::Resync | SyncKind::Repair) && !self.read_only {
                blocks.rebuild_and_mend(&self.pool, bytes_of(part))
            } else if wanted {
                blocks.rebuild(&self.pool, bytes_of(part))
            } else {
                Vec::new()
            }
        } else {
            return false;
        };
        for (place, bytes) in rebuilt {
            let slot = slot_of(place);
            if self.members.writable(slot) && !self.read_only {
                writes.push((slot, part.clone(), bytes));
            }
        }
        true
    }

    fn end_parity_window(&mut self, key: usize, op: ParityWindow) {
        self.ops.remove(key);
        for stripe in op.stripes.clone() {
            self.unlock(stripe);
        }
        self.window_done(&op.rows, op.found);
    }
}

/// Which parity differs from its data, and how many sectors md would count for it.
fn compare(data: &[&[u8]], p: Option<&[u8]>, q: Option<&[u8]>) -> (bool, bool, u64) {
    let differs = |range: std::ops::Range<usize>| {
        let data: Vec<&[u8]> = data.iter().map(|block| &block[range.clone()]).collect();
        match (p, q) {
            (Some(p), Some(q)) => {
                let differs = parity::check_pq(&data, &p[range.clone()], &q[range]);
                (differs.p, differs.q)
            }
            (Some(p), None) => (!parity::check_p(&data, &p[range]), false),
            _ => (false, false),
        }
    };
    let len_bytes = p.map_or(0, <[u8]>::len);
    let (bad_p, bad_q) = differs(0..len_bytes);
    if !bad_p && !bad_q {
        return (false, false, 0);
    }
    let row_bytes = ROW.len_bytes();
    let mut sectors = 0;
    for start in (0..len_bytes).step_by(row_bytes) {
        let end = (start + row_bytes).min(len_bytes);
        let (row_p, row_q) = differs(start..end);
        if row_p || row_q {
            sectors += SectorCount::floor_bytes((end - start) as u64).0;
        }
    }
    (bad_p, bad_q, sectors)
}

/// Joins writes that touch on a member.
pub(crate) fn join_writes(mut writes: Vec<(Slot, Rows, Buf)>) -> Vec<(Slot, Rows, Vec<Shared>)> {
    writes.sort_by_key(|(slot, rows, _)| (*slot, rows.start));
    let mut joined: Vec<(Slot, Rows, Vec<Shared>)> = Vec::new();
    for (slot, rows, bytes) in writes {
        match joined.last_mut() {
            Some((last, run, parts)) if *last == slot && run.end == rows.start => {
                run.end = rows.end;
                parts.push(bytes.share());
            }
            _ => joined.push((slot, rows, vec![bytes.share()])),
        }
    }
    joined
}
