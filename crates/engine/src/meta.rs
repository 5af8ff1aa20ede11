//! What the superblocks have to say, and who waits for it: dirty before the first write, losses before an acknowledgement,
//! clean once all is quiet and durable.

use uraid_types::{Sector, Slot};

use crate::Engine;
use crate::event::{Effect, MemberState, Snapshot};
use crate::extents::Rows;
use crate::members::Mark;

/// Milliseconds without a write after which the array is marked clean (md's safe mode delay).
const SAFE_MODE_DELAY_MS: u64 = 200;
/// Milliseconds between looks at the bitmap for bits to clear (md's daemon sleep is 5 s).
const BITMAP_SLEEP_MS: u64 = 5000;
/// Milliseconds between records of how far a sync has come.
const CHECKPOINT_MS: u64 = 10_000;

/// What held when a flush was sent, and is durable once it has succeeded.
#[derive(Debug)]
pub(crate) struct Settle {
    pub clearable: Vec<u64>,
    pub resync_from: Option<Sector>,
    pub members: Vec<Mark>,
}

/// The earlier of two resync positions, `None` being the end.
pub(crate) fn earliest(a: Option<Sector>, b: Option<Sector>) -> Option<Sector> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    /// The newest snapshot asked for.
    pub requested: u64,
    /// The newest snapshot known to be durable.
    pub durable: u64,
    /// The snapshot that shows the last loss of a member.
    pub failure: u64,
    /// Writes may be under way.
    pub dirty: bool,
    /// The snapshot that shows `dirty`.
    dirty_since: u64,
    /// A loss to be marked in the next snapshot.
    pub lost: bool,
    /// The next snapshot waits for a flush.
    held: bool,
    pub last_write_ms: u64,
    /// A write has ended since the last flush was sent.
    pub written: bool,
    last_bitmap_ms: u64,
    last_checkpoint_ms: u64,
    /// A flush is under way, after which bits are cleared and perhaps the array marked clean.
    pub settling: bool,
}

impl Meta {
    /// Does the next snapshot wait for a flush?
    pub const fn is_held(&self) -> bool {
        self.held
    }
}

impl Engine {
    /// Asks for the superblocks to show the present state.
    pub(crate) fn put_metadata(&mut self) -> u64 {
        if self.broken.is_some() || self.read_only {
            return self.meta.durable;
        }
        if !self.geometry.survives(&self.members.incomplete_if_cut_now()) {
            // A member whose recovery has ended, but whose contents are not durable, holds what another took with it: to record the
            // one as lost and the other as incomplete would be the end of the array.
            self.meta.held = true;
            if !self.meta.settling {
                self.settle(Vec::new());
            }
            return self.meta.requested + 1;
        }
        self.meta.held = false;
        self.meta.requested += 1;
        let failure = std::mem::take(&mut self.meta.lost);
        self.out.push(Effect::Metadata(Snapshot {
            generation: self.meta.requested,
            clean: !self.meta.dirty,
            resync_from: earliest(self.safe_resync_from, self.resync_from),
            slots: self.members.safe_states(),
            failure,
        }));
        self.meta.requested
    }

    pub(crate) fn metadata_done(&mut self, generation: u64) {
        self.meta.durable = self.meta.durable.max(generation);
        self.unpark();
        self.wake_writers();
        self.continue_shutdown();
    }

    pub(crate) fn bitmap_done(&mut self, generation: u64) {
        if let Some(intent) = &mut self.intent {
            intent.written(generation);
        }
        self.put_bitmap();
        self.wake_writers();
        self.continue_shutdown();
    }

    fn put_bitmap(&mut self) {
        if let Some((generation, set)) = self.intent.as_mut().and_then(|intent| intent.next_set()) {
            self.out.push(Effect::Bitmap { generation, set, clear: Vec::new() });
        }
    }

    /// A write to `rows` (in the unit of resync) wants to start: true when it may, else it is woken later.
    pub(crate) fn begin_write(&mut self, op: usize, rows: &Rows) -> bool {
        self.writes_under_way += 1;
        self.meta.last_write_ms = self.now_ms;
        if !self.geometry.shape().level.is_redundant() {
            return true;
        }
        if !self.meta.dirty {
            self.meta.dirty = true;
            self.meta.dirty_since = self.put_metadata();
        }
        let bits_ready = self.intent.as_mut().is_none_or(|intent| intent.begin(rows));
        if !bits_ready {
            self.put_bitmap();
        }
        let ready = bits_ready && self.meta.dirty_since <= self.meta.durable;
        if !ready {
            self.waiting_intent.push((op, rows.clone()));
        }
        ready
    }

    /// A write that began has ended; `torn` when it did not reach every member that it should have.
    pub(crate) fn end_write(&mut self, rows: &Rows, torn: bool) {
        self.writes_under_way -= 1;
        self.meta.last_write_ms = self.now_ms;
        self.meta.written = true;
        if let Some(intent) = &mut self.intent {
            intent.end(rows, torn);
        }
        if torn {
            self.torn_from = earliest(self.torn_from, Some(Sector(rows.start)));
            self.resync_from = earliest(self.resync_from, self.torn_from);
        }
    }

    fn wake_writers(&mut self) {
        if self.meta.dirty_since > self.meta.durable && self.broken.is_none() {
            return;
        }
        let broken = self.broken.is_some();
        let mut intent = self.intent.take();
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting_intent)
            .into_iter()
            .partition(|(_, rows)| broken || intent.as_mut().is_none_or(|intent| intent.ready(rows)));
        self.intent = intent;
        self.waiting_intent = waiting;
        for (op, _) in ready {
            self.intent_ready(op);
        }
    }

    /// The member can no longer be used: the others record it, and whatever waits goes on without it.
    pub(crate) fn lose_member(&mut self, slot: Slot, why: &str) {
        if self.members.get(slot).state == MemberState::Missing || self.broken.is_some() {
            return;
        }
        self.out.push(Effect::MemberLost { slot, why: why.to_owned() });
        let missing: Vec<Slot> = self.members.incomplete().into_iter().chain([slot]).collect();
        if self.read_only || !self.geometry.survives(&missing) {
            // The superblocks keep showing the last state from which the array can start.
            if !self.geometry.survives(&missing) {
                self.broken = Some(format!("the array has failed: {slot} was lost ({why}), and too few members are left"));
            }
            self.members.get_mut(slot).state = MemberState::Missing;
            self.unpark();
            self.wake_writers();
            return;
        }
        self.members.get_mut(slot).state = MemberState::Missing;
        if let Some(run) = &mut self.sync {
            run.drop_target(slot);
            self.sync_wants_pump = true;
        }
        self.meta.lost = true;
        self.meta.failure = self.put_metadata();
    }

    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.throttle_tick();
        if self.read_only || self.broken.is_some() || self.stopping {
            return;
        }
        if self.meta.settling {
            return;
        }
        let checkpoint_due = self.sync.is_some() && self.now_ms - self.meta.last_checkpoint_ms >= CHECKPOINT_MS;
        let quiet = self.meta.dirty && self.writes_under_way == 0 && self.now_ms - self.meta.last_write_ms >= SAFE_MODE_DELAY_MS;
        let bits_due = self.intent.is_some() && self.now_ms - self.meta.last_bitmap_ms >= BITMAP_SLEEP_MS;
        if quiet || bits_due || checkpoint_due {
            let clearable = if bits_due && self.members.incomplete().is_empty() {
                self.meta.last_bitmap_ms = self.now_ms;
                self.intent.as_mut().map_or_else(Vec::new, |intent| intent.clearable())
            } else {
                Vec::new()
            };
            if checkpoint_due {
                self.meta.last_checkpoint_ms = self.now_ms;
            }
            if quiet || checkpoint_due || !clearable.is_empty() {
                self.settle(clearable);
            }
        }
    }

    /// The members have been flushed: what the flush covered may be recorded.
    pub(crate) fn settled(&mut self, settle: &Settle) {
        self.meta.settling = false;
        if self.broken.is_some() {
            self.continue_shutdown();
            return;
        }
        let before = (self.safe_resync_from, self.members.safe_states());
        self.safe_resync_from = earliest(settle.resync_from, self.resync_from);
        self.members.mark_safe(&settle.members);
        if self.meta.held {
            self.put_metadata();
        }
        let moved = before != (self.safe_resync_from, self.members.safe_states());
        let clearable = &settle.clearable;
        if self.members.incomplete().is_empty()
            && let Some((generation, clear)) = self.intent.as_mut().and_then(|intent| intent.clear(clearable))
        {
            self.out.push(Effect::Bitmap { generation, set: Vec::new(), clear });
        }
        // A flush may take long: a write that came while it ran, and has been quiet for a while, it did not cover.
        let all_durable = self.writes_under_way == 0 && !self.meta.written;
        let quiet = self.now_ms - self.meta.last_write_ms >= SAFE_MODE_DELAY_MS;
        if self.meta.dirty && all_durable && (quiet || self.stopping) {
            self.meta.dirty = false;
            self.put_metadata();
        } else if moved {
            self.put_metadata();
        }
        self.continue_shutdown();
    }

    /// Goes one step further towards the end, if one is asked for and nothing stands in the way.
    pub(crate) fn continue_shutdown(&mut self) {
        let busy = self.writes_under_way > 0 || !self.requests.is_empty() || !self.ops.is_empty() || !self.flushes.is_idle();
        if !self.stopping || self.stopped || busy || self.meta.settling {
            return;
        }
        if self.broken.is_none() && !self.read_only {
            if self.intent.as_ref().is_some_and(|intent| intent.is_writing()) {
                return;
            }
            if self.meta.dirty || !self.final_checkpoint {
                self.final_checkpoint = true;
                let clearable = if self.members.incomplete().is_empty() {
                    // Twice: what was in use at the first look is idle at the second.
                    self.intent.as_mut().map_or_else(Vec::new, |intent| {
                        intent.clearable();
                        intent.clearable()
                    })
                } else {
                    Vec::new()
                };
                self.meta.dirty = self.geometry.shape().level.is_redundant();
                self.settle(clearable);
                return;
            }
            if self.meta.durable < self.meta.requested {
                return;
            }
        }
        self.stopped = true;
        self.out.push(Effect::Stopped);
    }
}
