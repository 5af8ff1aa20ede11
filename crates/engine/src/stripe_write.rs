//! Writes to one stripe of RAID4, RAID5 or RAID6: all that wait for it are joined into one operation.
//!
//! Lock → announce (superblock dirty, bitmap bits set) → read what the plan needs → compute → write data and parity → unlock,
//! acknowledge. A block that cannot be read changes the plan; a member that cannot be written is lost, which its parity covers.

use uraid_device::{IoOp, Shared};
use uraid_geometry::Parity;
use uraid_parity::Delta;
use uraid_types::{Sector, SectorCount, Slot, StripeNo};

use crate::Engine;
use crate::codec::{self, Blocks};
use crate::event::{FailureKind, RequestError};
use crate::extents::{Overlay, ReadBlocks, Rows, bytes_of, merge, within};
use crate::flush::write_failure;
use crate::lock::Mode;
use crate::ops::{Done, Op};
use crate::planner::{self, Block, Method, ParityTrust, Plan};

/// See the module. Rows are sectors within the chunk.
#[derive(Debug)]
pub(crate) struct StripeWrite {
    stripe: StripeNo,
    /// A request for each piece that was joined.
    requests: Vec<usize>,
    /// New data, by syndrome index.
    new: Vec<Overlay>,
    waiting: bool,
    announced: bool,
    writing: bool,
    outstanding: usize,
    /// What was read, by slot.
    old: Vec<ReadBlocks>,
    unreadable: Vec<Slot>,
    segments: Vec<Segment>,
    failure: Option<RequestError>,
    torn: bool,
    /// Bytes counted against the cache while it runs.
    held_bytes: usize,
}

/// Rows that are written alike.
#[derive(Debug)]
struct Segment {
    rows: Rows,
    plan: Plan,
}

impl StripeWrite {
    fn new(stripe: StripeNo, data_members: usize, members: usize) -> StripeWrite {
        StripeWrite {
            stripe,
            requests: Vec::new(),
            new: (0..data_members).map(|_| Overlay::default()).collect(),
            waiting: true,
            announced: false,
            writing: false,
            outstanding: 0,
            old: (0..members).map(|_| ReadBlocks::default()).collect(),
            unreadable: Vec::new(),
            segments: Vec::new(),
            failure: None,
            torn: false,
            held_bytes: 0,
        }
    }

    /// The member data sectors between the first and the last that are written.
    fn member_rows(&self, parity: &Parity) -> Rows {
        let bounds = || self.new.iter().flat_map(Overlay::bounds);
        let base = parity.member_sector(self.stripe, SectorCount(0)).0;
        let (start, end) = (bounds().min().unwrap_or(0), bounds().max().unwrap_or(0));
        base + start..base + end
    }

    /// Cuts the rows wherever the set of written blocks changes.
    fn cut(&self) -> Vec<(Rows, Vec<bool>)> {
        let mut bounds: Vec<u64> = self.new.iter().flat_map(Overlay::bounds).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let segment = |pair: &[u64]| {
            let rows = pair[0]..pair[1];
            let written: Vec<bool> = self.new.iter().map(|new| new.get(&rows).is_some()).collect();
            (rows, written)
        };
        bounds.windows(2).map(segment).filter(|(_, written)| written.contains(&true)).collect()
    }
}

impl Engine {
    pub(crate) fn write_stripe(&mut self, stripe: StripeNo, index: usize, rows: Rows, data: Shared, request: usize) {
        let key = match self.joinable(stripe.0) {
            Some(key) if matches!(&self.ops[key], Op::StripeWrite(op) if op.waiting) => key,
            _ => {
                let parity = self.parity();
                let op = StripeWrite::new(stripe, parity.data_members(), self.members.len());
                self.ops.insert(Op::StripeWrite(op))
            }
        };
        let Op::StripeWrite(op) = &mut self.ops[key] else { panic!("writes join writes") };
        let first = op.requests.is_empty();
        self.counters.joined += u64::from(op.requests.last().is_some_and(|&last| last != request));
        op.requests.push(request);
        op.new[index].lay(rows, data);
        if first {
            // Started only after the whole request has been split, so that its own pieces join.
            self.to_lock.push((stripe.0, key));
        }
    }

    /// The operation that came last for `lock` and has not begun.
    pub(crate) fn joinable(&self, lock: u64) -> Option<usize> {
        let fresh = self.to_lock.iter().rev().find(|(wanted, _)| *wanted == lock).map(|&(_, key)| key);
        fresh.or_else(|| self.locks.last_waiting(lock))
    }

    /// Takes the locks that new writes asked for.
    pub(crate) fn start_writes(&mut self) {
        for (lock, key) in std::mem::take(&mut self.to_lock) {
            if self.locks.acquire(lock, key, Mode::Exclusive) {
                self.granted(key);
            }
        }
    }

    pub(crate) fn stripe_write_locked(&mut self, key: usize, mut op: StripeWrite) {
        op.waiting = false;
        if let Some(error) = self.broken_error() {
            op.failure = Some(error);
            return self.finish_stripe_write(key, op);
        }
        let rows = op.member_rows(self.parity());
        if op.held_bytes == 0 {
            op.held_bytes = bytes_of(&rows) * self.members.len();
            if !self.starved.is_empty() || !self.has_room(op.held_bytes) {
                self.starved.push_back((key, op.held_bytes));
                self.ops[key] = Op::StripeWrite(op);
                return;
            }
            self.held_bytes += op.held_bytes;
        }
        op.announced = true;
        self.ops[key] = Op::StripeWrite(op);
        if self.begin_write(key, &rows) {
            self.intent_ready(key);
        }
    }

    pub(crate) fn stripe_write_ready(&mut self, key: usize, mut op: StripeWrite) {
        match self.plan_stripe_write(&mut op) {
            Ok(()) => self.read_for_stripe_write(key, op),
            Err(error) => {
                op.failure = Some(error);
                self.finish_stripe_write(key, op);
            }
        }
    }

    fn plan_stripe_write(&mut self, op: &mut StripeWrite) -> Result<(), RequestError> {
        if let Some(error) = self.broken_error() {
            return Err(error);
        }
        let mut segments = Vec::new();
        for (rows, written) in op.cut() {
            let plan = self.plan_segment(op, &rows, &written).ok_or_else(|| {
                let message = format!("stripe {} has lost too many blocks to be written", op.stripe.0);
                RequestError::new(FailureKind::Io, message)
            })?;
            segments.push(Segment { rows, plan });
        }
        op.segments = segments;
        Ok(())
    }

    fn plan_segment(&mut self, op: &StripeWrite, rows: &Rows, written: &[bool]) -> Option<Plan> {
        let base = self.parity().member_sector(op.stripe, SectorCount(0)).0;
        let member_rows = base + rows.start..base + rows.end;
        let trust = self.parity_trust(&member_rows);
        let parity = self.parity();
        let end = Sector(member_rows.end);
        let block = |slot: Slot| Block {
            readable: self.members.readable(slot, end) && !op.unreadable.contains(&slot),
            writable: self.members.writable(slot),
        };
        let data: Vec<Block> = (0..parity.data_members()).map(|index| block(parity.data_slot(op.stripe, index))).collect();
        let (p, q) = (block(parity.p_slot(op.stripe)), parity.q_slot(op.stripe).map(block));
        planner::plan(&planner::Rows { data: &data, p, q, written, trust }, self.preference)
    }

    /// Does parity match data in these member data sectors?
    pub(crate) fn parity_trust(&mut self, rows: &Rows) -> ParityTrust {
        let marked_clean = self.intent.as_mut().is_some_and(|intent| !intent.needs_sync(rows));
        ParityTrust::of(self.resync_from, Sector(rows.end), marked_clean)
    }

    fn read_for_stripe_write(&mut self, key: usize, mut op: StripeWrite) {
        let parity = self.parity();
        let mut wanted: Vec<Vec<Rows>> = vec![Vec::new(); self.members.len()];
        for segment in &op.segments {
            let data = segment.plan.read_data.iter().map(|&index| parity.data_slot(op.stripe, index));
            let p = segment.plan.read_p.then(|| parity.p_slot(op.stripe));
            let q = parity.q_slot(op.stripe).filter(|_| segment.plan.read_q);
            for slot in data.chain(p).chain(q) {
                wanted[slot.index()].push(segment.rows.clone());
            }
        }
        let base = parity.member_sector(op.stripe, SectorCount(0)).0;
        let mut reads = Vec::new();
        for (index, ranges) in wanted.into_iter().enumerate() {
            let missing = merge(ranges).into_iter().filter(|rows| op.old[index].get(rows).is_none());
            reads.extend(missing.map(|rows| (Slot::from_index(index), base + rows.start..base + rows.end)));
        }
        if reads.is_empty() {
            return self.write_out_stripe(key, op);
        }
        op.outstanding = reads.len();
        self.ops[key] = Op::StripeWrite(op);
        for (slot, rows) in reads {
            self.send_read(key, slot, rows);
        }
    }

    pub(crate) fn stripe_write_done(&mut self, key: usize, mut op: StripeWrite, done: Done) {
        op.outstanding -= 1;
        let base = self.parity().member_sector(op.stripe, SectorCount(0)).0;
        match (done.op, done.error) {
            (IoOp::Read { into, .. }, None) => {
                op.old[done.slot.index()].put(done.rows.start - base..done.rows.end - base, into);
            }
            (IoOp::Read { .. }, Some(_)) => op.unreadable.push(done.slot),
            (_, None) => {}
            (_, Some(failure)) => {
                // A full file system hits every member alike: losing them for it one by one would lose the array.
                if failure.no_space && self.members.incomplete().is_empty() {
                    op.failure = Some(write_failure(done.slot, true, &failure.why));
                    op.torn = true;
                } else {
                    self.lose_member(done.slot, &failure.why);
                }
            }
        }
        if op.outstanding > 0 {
            self.ops[key] = Op::StripeWrite(op);
        } else if op.writing {
            self.finish_stripe_write(key, op);
        } else {
            // With all blocks read this plans the same again; else it goes around the one that could not be.
            self.stripe_write_ready(key, op);
        }
    }

    fn write_out_stripe(&mut self, key: usize, mut op: StripeWrite) {
        if let Some(error) = self.broken_error() {
            op.failure = Some(error);
            return self.finish_stripe_write(key, op);
        }
        let mut writes: Vec<(Slot, Rows, Vec<Shared>)> = Vec::new();
        let parity = self.parity();
        for (index, new) in op.new.iter().enumerate() {
            let slot = parity.data_slot(op.stripe, index);
            if self.members.writable(slot) {
                writes.extend(new.runs().into_iter().map(|(rows, bytes)| (slot, rows, bytes)));
            }
        }
        let p_slot = Some(parity.p_slot(op.stripe)).filter(|&slot| self.members.writable(slot));
        let q_slot = parity.q_slot(op.stripe).filter(|&slot| self.members.writable(slot));
        if p_slot.is_some() || q_slot.is_some() {
            for run in merge(op.segments.iter().map(|segment| segment.rows.clone()).collect()) {
                let (p, q) = self.new_parity(&op, &run, p_slot.is_some(), q_slot.is_some());
                let blocks = [(p_slot, p), (q_slot, q)];
                writes.extend(blocks.into_iter().filter_map(|(slot, block)| Some((slot?, run.clone(), vec![block?]))));
            }
        }
        for segment in &op.segments {
            let counter = match segment.plan.method {
                Method::Reconstruct => &mut self.counters.reconstructs,
                Method::ReadModifyWrite(_) => &mut self.counters.read_modify_writes,
                Method::RebuildFirst => &mut self.counters.rebuilds_first,
                Method::DataOnly => &mut self.counters.data_only,
            };
            *counter += 1;
        }
        op.writing = true;
        op.outstanding = writes.len();
        if writes.is_empty() {
            return self.finish_stripe_write(key, op);
        }
        let base = self.parity().member_sector(op.stripe, SectorCount(0)).0;
        op.old.iter_mut().for_each(|old| *old = ReadBlocks::default());
        self.ops[key] = Op::StripeWrite(op);
        for (slot, rows, bytes) in writes {
            self.send_write(key, slot, base + rows.start..base + rows.end, bytes);
        }
    }

    /// New P and Q for a run of segments.
    fn new_parity(&self, op: &StripeWrite, run: &Rows, want_p: bool, want_q: bool) -> (Option<Shared>, Option<Shared>) {
        let block = |wanted: bool| wanted.then(|| self.pool.take(bytes_of(run)));
        let (mut p, mut q) = (block(want_p), block(want_q));
        for segment in op.segments.iter().filter(|segment| run.start <= segment.rows.start && segment.rows.end <= run.end) {
            let part = within(run.start, &segment.rows);
            let p = p.as_mut().map(|p| &mut p[part.clone()]);
            let q = q.as_mut().map(|q| &mut q[part.clone()]);
            self.parity_of_segment(op, segment, p, q);
        }
        (p.map(|p| p.share()), q.map(|q| q.share()))
    }

    fn parity_of_segment(&self, op: &StripeWrite, segment: &Segment, mut p: Option<&mut [u8]>, mut q: Option<&mut [u8]>) {
        let parity = self.parity();
        let gaps = parity.gaps(op.stripe);
        let old = |slot: Slot| op.old[slot.index()].get(&segment.rows);
        let old_data = |index: usize| old(parity.data_slot(op.stripe, index));
        let new: Vec<Option<Shared>> = op.new.iter().map(|new| new.get(&segment.rows)).collect();
        match segment.plan.method {
            Method::DataOnly => {}
            Method::ReadModifyWrite(_) => {
                let slots = [(p.as_deref_mut(), Some(parity.p_slot(op.stripe))), (q.as_deref_mut(), parity.q_slot(op.stripe))];
                for (block, slot) in slots {
                    if let (Some(block), Some(slot)) = (block, slot) {
                        block.copy_from_slice(old(slot).expect("the plan had the old parity read"));
                    }
                }
                let deltas: Vec<Delta<'_>> = (0..new.len())
                    .filter_map(|index| {
                        let new = new[index].as_deref()?;
                        let old = old_data(index).expect("the plan had the old data read");
                        Some(Delta { index: codec::exponent(gaps, index), old, new })
                    })
                    .collect();
                uraid_parity::update(&deltas, p, q);
            }
            Method::Reconstruct => {
                let block = |index: usize| new[index].as_deref().or_else(|| old_data(index));
                let data: Vec<&[u8]> =
                    (0..new.len()).map(|index| block(index).expect("the plan had the other data read")).collect();
                codec::generate_into(&data, gaps, &self.pool, p, q);
            }
            Method::RebuildFirst => {
                let blocks = Blocks {
                    data: (0..new.len())
                        .map(|index| old_data(index).filter(|_| segment.plan.read_data.contains(&index)))
                        .collect(),
                    p: old(parity.p_slot(op.stripe)).filter(|_| segment.plan.read_p),
                    q: parity.q_slot(op.stripe).and_then(old).filter(|_| segment.plan.read_q),
                    has_q: parity.q_slot(op.stripe).is_some(),
                    gaps,
                };
                let rebuilt = blocks.rebuild_data(&self.pool, bytes_of(&segment.rows));
                let lost = |index: usize| rebuilt.iter().find(|(lost, _)| *lost == index).map(|(_, block)| &block[..]);
                let block = |index: usize| new[index].as_deref().or(blocks.data[index]).or_else(|| lost(index));
                let data: Vec<&[u8]> = (0..new.len()).map(|index| block(index).expect("what was lost was rebuilt")).collect();
                codec::generate_into(&data, gaps, &self.pool, p, q);
            }
        }
    }

    fn finish_stripe_write(&mut self, key: usize, op: StripeWrite) {
        if op.announced {
            let rows = op.member_rows(self.parity());
            self.end_write(&rows, op.torn);
        }
        self.ops.remove(key);
        self.held_bytes -= op.held_bytes;
        self.writes_done(op.requests, op.failure);
        self.unlock(op.stripe.0);
        while let Some(&(key, held_bytes)) = self.starved.front()
            && self.has_room(held_bytes)
        {
            self.starved.pop_front();
            self.held_bytes += held_bytes;
            self.granted(key);
        }
    }

    /// Is there room in the cache for an operation, which may have it all when it is alone?
    fn has_room(&self, held_bytes: usize) -> bool {
        self.held_bytes == 0 || self.held_bytes + held_bytes <= self.cache_bytes
    }
}
