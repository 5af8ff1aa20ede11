//! Runs over the whole array: which comes next, how many windows are out, how far it has come.

use std::collections::BTreeMap;

use uraid_geometry::Geometry;
use uraid_types::{Level, Sector, Slot};

use crate::Engine;
use crate::event::{Effect, MemberState, SyncKind, SyncProgress};
use crate::extents::Rows;
use crate::meta::earliest;
use crate::pace::SyncSpeed;
use crate::window_parity::Found;

/// A run.
#[derive(Debug)]
pub(crate) struct SyncRun {
    kind: SyncKind,
    next: u64,
    done: u64,
    end: u64,
    /// Windows out, and those that ended before an earlier one: start → end once ended.
    windows: BTreeMap<u64, Option<u64>>,
    out: usize,
    found: Found,
    stop: bool,
    /// The slots that a recovery rebuilds.
    targets: Vec<Slot>,
}

impl SyncRun {
    /// The member in `slot` was lost: another that gets the slot has none of what this run has rebuilt so far.
    pub fn drop_target(&mut self, slot: Slot) {
        self.targets.retain(|target| *target != slot);
        self.stop |= self.kind == SyncKind::Recovery && self.targets.is_empty();
    }

    fn progress(&self) -> SyncProgress {
        SyncProgress {
            kind: self.kind,
            done: Sector(self.done),
            end: Sector(self.end),
            mismatch_sectors: self.found.mismatch_sectors,
            unreadable_sectors: self.found.unreadable_sectors,
        }
    }
}

impl Engine {
    /// Where the run under way stands.
    #[must_use]
    pub fn sync_progress(&self) -> Option<SyncProgress> {
        self.sync.as_ref().map(SyncRun::progress)
    }

    /// Starts what the array's state calls for, unless something runs already.
    pub(crate) fn start_needed_sync(&mut self) {
        if !self.started || self.sync.is_some() || self.read_only || self.stopping || self.broken.is_some() || !self.auto_sync {
            return;
        }
        if self.resync_from.is_some() && !self.blocked.contains(&SyncKind::Resync) {
            self.start_sync(SyncKind::Resync);
        } else if !self.members.rebuilding().is_empty() && !self.blocked.contains(&SyncKind::Recovery) {
            self.start_sync(SyncKind::Recovery);
        }
    }

    /// Starts a run; without a reason for one it ends at once.
    pub(crate) fn start_sync(&mut self, kind: SyncKind) {
        if self.sync.is_some() || self.broken.is_some() || self.stopping || !self.geometry.shape().level.is_redundant() {
            return;
        }
        if kind == SyncKind::Resync {
            self.torn_from = None;
        }
        let targets = self.members.rebuilding();
        let recovered = |slot: &Slot| match self.members.get(*slot).state {
            MemberState::Rebuilding { recovered } => recovered.0,
            MemberState::InSync | MemberState::Missing => u64::MAX,
        };
        let (start, end) = match kind {
            SyncKind::Recovery => (targets.iter().map(recovered).min().unwrap_or(0), self.member_sectors()),
            SyncKind::Resync => (self.resync_from.unwrap_or_default().0, self.geometry.resync_sectors().0),
            SyncKind::Check | SyncKind::Repair => (0, self.geometry.resync_sectors().0),
        };
        self.sync = Some(SyncRun {
            kind,
            next: start.min(end),
            done: start.min(end),
            end,
            windows: BTreeMap::new(),
            out: 0,
            found: Found::default(),
            stop: false,
            targets,
        });
        self.pump_sync();
    }

    pub(crate) fn stop_sync(&mut self) {
        if let Some(run) = &mut self.sync {
            run.stop = true;
        }
        self.pump_sync();
    }

    /// Data sectors used on each member.
    fn member_sectors(&self) -> u64 {
        self.geometry.shape().member_sectors.iter().map(|len| len.0).min().unwrap_or(0)
    }

    /// While requests come in, a run makes way for them.
    pub(crate) fn throttle_tick(&mut self) {
        self.sync_wants_pump |= self.pace.tick(self.now_ms, self.requests_seen > 0) && self.sync.is_some();
        self.requests_seen = 0;
    }

    /// Sets how fast runs may go, the one under way too.
    pub(crate) fn set_sync_speed(&mut self, speed: SyncSpeed) {
        self.pace.speed = speed;
        self.sync_wants_pump = self.sync.is_some();
    }

    /// How fast runs may go.
    #[must_use]
    pub fn sync_speed(&self) -> SyncSpeed {
        self.pace.speed
    }

    /// Sends windows until enough are out, and ends the run when all are back.
    pub(crate) fn pump_sync(&mut self) {
        loop {
            let depth = self.pace.depth(self.windows);
            let Some(run) = &mut self.sync else { return };
            let halted = run.stop || run.found.abort.is_some() || self.broken.is_some() || self.stopping;
            if halted || run.next >= run.end {
                if run.out == 0 {
                    self.end_sync();
                }
                return;
            }
            if run.out >= depth {
                return;
            }
            let kind = run.kind;
            // At RAID10 a recovery counts in member sectors, the bitmap in array sectors: its windows look bits up themselves.
            let guided = match kind {
                SyncKind::Resync => true,
                SyncKind::Recovery => self.geometry.shape().level != Level::Raid10,
                SyncKind::Check | SyncKind::Repair => false,
            };
            let skip = self.intent.as_ref().filter(|_| guided).and_then(|intent| intent.skip_from(run.next, run.end));
            if let Some(to) = skip {
                run.windows.insert(run.next, Some(to));
                run.next = to;
                self.counters.skips += 1;
                self.advance_sync();
                continue;
            }
            let rows = run.next..(run.next + self.window.0).min(run.end);
            run.next = rows.end;
            self.pace.begun(rows.end - rows.start);
            run.windows.insert(rows.start, None);
            run.out += 1;
            match self.geometry {
                Geometry::Parity(_) => self.start_parity_window(kind, rows),
                Geometry::Copies(_) => self.start_copy_window(kind, rows),
            }
        }
    }

    pub(crate) fn window_done(&mut self, rows: &Rows, found: Found) {
        let Some(run) = &mut self.sync else { panic!("a window ends before its run") };
        run.out -= 1;
        run.windows.insert(rows.start, Some(rows.end));
        run.found.mismatch_sectors += found.mismatch_sectors;
        run.found.unreadable_sectors += found.unreadable_sectors;
        if found.abort.is_some() {
            // What this window left undone must not count as passed.
            run.windows.insert(rows.start, None);
            run.found.abort = run.found.abort.take().or(found.abort);
        }
        if self.broken.is_none() {
            self.advance_sync();
        }
        self.sync_wants_pump = true;
    }

    /// Moves the mark behind which everything is done.
    fn advance_sync(&mut self) {
        let Some(run) = &mut self.sync else { return };
        let before = run.done;
        while let Some((&start, &Some(end))) = run.windows.first_key_value() {
            run.windows.remove(&start);
            run.done = end;
        }
        let (done, end) = (run.done, run.end);
        match run.kind {
            SyncKind::Resync => {
                self.resync_from = earliest((done < end).then_some(Sector(done)), self.torn_from);
                // A torn write may lie behind this run, and a member being rebuilt needs the bits for its own run.
                let passed = before..self.torn_from.map_or(done, |torn| done.min(torn.0));
                let rebuilding = !self.members.rebuilding().is_empty();
                if let Some(intent) = self.intent.as_mut().filter(|_| !rebuilding && !passed.is_empty()) {
                    intent.synced(&passed, end);
                }
            }
            SyncKind::Recovery => {
                for &slot in &run.targets {
                    let member = self.members.get_mut(slot);
                    if let MemberState::Rebuilding { recovered } = member.state {
                        member.state = MemberState::Rebuilding { recovered: recovered.max(Sector(done)) };
                    }
                }
            }
            SyncKind::Check | SyncKind::Repair => {}
        }
    }

    fn end_sync(&mut self) {
        let Some(run) = self.sync.take() else { return };
        let complete = run.done >= run.end;
        if complete && run.kind == SyncKind::Recovery {
            for &slot in &run.targets {
                let member = self.members.get_mut(slot);
                if matches!(member.state, MemberState::Rebuilding { .. }) {
                    member.state = MemberState::InSync;
                }
            }
        }
        // Bits that one run left for the other are not due to anybody any more.
        let repairs = matches!(run.kind, SyncKind::Resync | SyncKind::Recovery);
        if complete
            && repairs
            && self.members.incomplete().is_empty()
            && self.resync_from.is_none()
            && let Some(intent) = &mut self.intent
        {
            intent.synced(&(0..run.end), run.end);
        }
        if !complete && run.found.abort.is_some() {
            self.blocked.push(run.kind);
        }
        self.out.push(Effect::SyncEnded { progress: run.progress(), complete, why: run.found.abort.clone() });
        if matches!(run.kind, SyncKind::Resync | SyncKind::Recovery) && !self.read_only && self.broken.is_none() && !self.stopping
        {
            self.settle(Vec::new());
        }
        self.start_needed_sync();
    }
}
