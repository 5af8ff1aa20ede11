//! What happens to a running array: requests, completions in any order, faults and an administrator.

use uraid_array::core::{Command, Input, NewMember};
use uraid_device::IoOp;
use uraid_engine::SyncKind;
use uraid_types::Slot;
use uuid::Uuid;

use crate::assemble::read_super;
use crate::disk::Loss;
use crate::model::ZERO;
use crate::world::{Asked, Stop, World};

/// Requests in flight at once.
const DEPTH: usize = 12;

impl World {
    /// One thing happens.
    pub(crate) fn step(&mut self, faults: bool) -> Result<(), Stop> {
        if std::mem::take(&mut self.loss_due) {
            self.lose_one_now()?;
        }
        match self.rng.below(1000) {
            0..600 if !self.under_way.is_empty() => self.complete_one(),
            0..920 if self.waiting.len() < DEPTH => self.ask_something(),
            960..985 => {
                let ms = self.rng.pick(&[1, 30, 250, 250, 6000, 11_000]);
                self.tick(ms)
            }
            985..993 if faults && !self.read_only => self.inject_fault(),
            993..1000 if faults && !self.broken => self.administer(),
            _ => Ok(()),
        }
    }

    pub(crate) fn complete_one(&mut self) -> Result<(), Stop> {
        let mut index = self.rng.index(self.under_way.len());
        for _ in 0..4 {
            if self.disks[self.under_way[index].io.member].slow {
                index = self.rng.index(self.under_way.len());
            }
        }
        self.complete(index)
    }

    fn random_range(&mut self) -> std::ops::Range<u64> {
        let block = self.block_sectors();
        let blocks = self.model.len() / block;
        let stripe = self.setup.chunk.0.max(8) * u64::from(self.setup.slots) / block;
        let len = match self.rng.below(10) {
            0..4 => 1,
            4..7 => 1 + self.rng.below(8),
            7..9 => 1 + self.rng.below(stripe.max(1)),
            _ => 1 + self.rng.below(3 * stripe.max(1)),
        };
        // Half of all requests crowd together, so that they meet.
        let limit = if self.rng.chance(50) { blocks.min(24) } else { blocks };
        let start = self.rng.below(limit);
        // The last blocks have their bits in another block of the bitmap than the first, where there are so many.
        let start = if limit < blocks && blocks > 10_000 { blocks - 1 - start } else { start };
        let len = len.min(blocks - start);
        start * block..(start + len) * block
    }

    fn ask_something(&mut self) -> Result<(), Stop> {
        let range = self.random_range();
        match self.rng.below(100) {
            0..50 => {
                let fua = self.rng.chance(15);
                let value = self.next_value + 1;
                self.next_value = value;
                self.ask(Asked::Write { value, fua }, range)
            }
            50..55 => {
                let overlaps = |waiting: &crate::world::Waiting| {
                    matches!(waiting.asked, Asked::Write { value: ZERO, .. })
                        && waiting.range.start < range.end
                        && range.start < waiting.range.end
                };
                let fua = self.rng.chance(15);
                // Two zeroings of a sector at once could not be told apart.
                if self.waiting.values().any(overlaps) { Ok(()) } else { self.ask(Asked::Write { value: ZERO, fua }, range) }
            }
            55..92 => self.ask(Asked::Read, range),
            92..99 => self.ask(Asked::Flush, 0..0),
            _ => self.ask(Asked::Trim, range),
        }
    }

    /// A disk that holds a slot.
    fn active_disk(&mut self) -> Option<usize> {
        let keys: Vec<usize> = self.slot_of.keys().copied().collect();
        (!keys.is_empty()).then(|| keys[self.rng.index(keys.len())])
    }

    fn inject_fault(&mut self) -> Result<(), Stop> {
        let Some(key) = self.active_disk() else { return Ok(()) };
        let status = self.status();
        // Mostly no more than what redundancy covers; now and then too much.
        let spent = status.degraded + self.disks.iter().filter(|disk| disk.dead).count();
        if spent >= self.geometry.max_failures().max(1) && !self.rng.chance(4) {
            self.disks[key].slow ^= true;
            return Ok(());
        }
        let kind = self.rng.below(10);
        self.say(|| format!("fault {kind} on disk {key}"));
        match kind {
            0..2 => self.kill(key),
            2 => self.disks[key].failing_writes = 1,
            3 => self.disks[key].failing_flush = true,
            4..7 => self.spoil(key),
            // A write torn for want of space is as bad as an unreadable block: one or the other.
            7 if self.spoiled.is_none() => {
                self.space_tight = true;
                self.disks[key].full = 1 + self.rng.below(3) as u32;
            }
            _ => self.disks[key].slow ^= true,
        }
        self.note_excuses();
        Ok(())
    }

    fn kill(&mut self, key: usize) {
        self.disks[key].dead = true;
        // It may go on for long before a write fails and it is lost: until then its blocks are as good as parity makes them.
        if let Some(&slot) = self.slot_of.get(&key) {
            self.open_hole_for(slot);
        }
    }

    /// Some blocks become unreadable, where redundancy can answer for them.
    fn spoil(&mut self, key: usize) {
        if !self.holes.is_empty()
            || self.space_tight
            || (self.spoiled.is_some_and(|spoiled| spoiled != key) && !self.rng.chance(10))
        {
            return;
        }
        self.io_errors_excused |= self.spoiled.is_some_and(|spoiled| spoiled != key);
        self.spoiled = Some(key);
        let block = u64::from(self.setup.block_bytes);
        let blocks = (self.areas.data_end_byte - self.areas.data_byte) / block;
        let limit = if self.rng.chance(50) { blocks.min(12) } else { blocks };
        for _ in 0..1 + self.rng.below(4) {
            let byte = self.areas.data_byte + self.rng.below(limit) * block;
            self.disks[key].spoil(byte);
        }
    }

    fn administer(&mut self) -> Result<(), Stop> {
        match self.rng.below(10) {
            0 => {
                let Some(key) = self.active_disk() else { return Ok(()) };
                let name = self.disks[key].name.clone();
                if self.rng.chance(40) {
                    self.command("fail", Command::Fail { name })?.ok();
                }
            }
            1..4 => {
                let faulty =
                    self.status().members.iter().find(|member| member.state == "faulty").map(|member| member.name.clone());
                if let Some(name) = faulty {
                    self.command("remove", Command::Remove { name })?.ok();
                }
            }
            4..6 => self.add(None)?,
            6..8 => {
                let busy = |key: &usize| self.under_way.iter().any(|way| way.io.member == *key);
                let back = self.released.iter().copied().find(|key| !busy(key));
                if let Some(key) = back {
                    self.add(Some(key))?;
                }
            }
            8 => {
                let kind = self.rng.pick(&[SyncKind::Check, SyncKind::Repair]);
                self.command("check or repair", Command::StartSync(kind))?.ok();
            }
            _ => {
                self.command("stop sync", Command::StopSync)?.ok();
            }
        }
        Ok(())
    }

    /// Adds a new disk, or takes one back.
    fn add(&mut self, back: Option<usize>) -> Result<(), Stop> {
        if !self.redundant() || self.disks.len() > 12 || (back.is_none() && self.status().degraded == 0 && self.rng.chance(80)) {
            return Ok(());
        }
        self.add_now(back)
    }

    fn add_now(&mut self, back: Option<usize>) -> Result<(), Stop> {
        let key = match back {
            Some(key) => {
                if self.disks[key].dead {
                    let loss = self.rng.pick(&[Loss::Kept, Loss::Lost, Loss::Torn]);
                    self.disks[key].crash(loss, &mut self.rng);
                    self.disks[key].dead = false;
                }
                key
            }
            None => {
                let mut noise = self.rng.clone();
                self.disks.push(self.setup.blank_disk(self.disks.len(), Some(&mut noise)));
                self.disks.len() - 1
            }
        };
        let disk = &self.disks[key];
        let new = Box::new(NewMember {
            key,
            name: disk.name.clone(),
            sectors: disk.len_bytes() / 512,
            block_bytes: disk.block_bytes(),
            own: if back.is_some() { read_super(disk.view()) } else { None },
            bad_blocks: Vec::new(),
            device_id: Uuid::from_u128(0x2000 + u128::from(self.rng.next())),
        });
        let (name, own) = (new.name.clone(), new.own.clone());
        // The core may send to it before it answers.
        let was_released = self.released.remove(&key);
        self.attached.insert(key);
        self.joining.insert(key);
        self.introduced.remove(&key);
        let losses = std::mem::take(&mut self.losses);
        let trusted = own.as_ref().is_some_and(|own| self.would_trust(own));
        let result = match (back, self.rng.chance(80)) {
            (Some(_), true) => self.command("re-add", Command::ReAdd(new))?,
            _ => self.command("add", Command::Add(new))?,
        };
        self.losses = losses;
        if result.is_err() {
            self.attached.remove(&key);
            self.joining.remove(&key);
            if was_released {
                self.released.insert(key);
            }
            return Ok(());
        }
        let status = self.status();
        let member = status.members.iter().find(|member| member.name == name);
        let member = member.ok_or_else(|| format!("{name} was added and is not there"))?;
        self.losses.retain(|loss| loss.number != member.number as usize);
        if let Some(slot) = member.slot {
            self.slot_of.insert(key, Slot(slot));
            self.rebuilding.insert(key);
            if trusted {
                self.marks.hit("re-add by bitmap");
            } else {
                self.disks[key].begin_filling(0);
            }
        }
        Ok(())
    }

    fn would_trust(&self, own: &uraid_format::RawSuper) -> bool {
        self.setup.bitmap_chunk.is_some() && own.superblock().recovery_offset.is_none()
    }

    /// Nothing but reads, completions and time, for a while; but in the middle a member may go.
    pub(crate) fn resync_in_peace(&mut self) -> Result<(), Stop> {
        let fails_at = self.rng.below(600);
        for step in 0..300 {
            if step == fails_at / 8 && !self.broken && !self.read_only && self.redundant() {
                let Some(key) = self.active_disk() else { return Ok(()) };
                let name = self.disks[key].name.clone();
                self.command("fail", Command::Fail { name })?.ok();
            } else if self.waiting.len() < DEPTH && self.rng.chance(15) {
                let range = self.random_range();
                self.ask(Asked::Read, range)?;
            } else if !self.under_way.is_empty() && self.rng.chance(90) {
                self.complete_one()?;
            } else {
                let ms = self.rng.pick(&[30, 250, 11_000]);
                self.tick(ms)?;
            }
        }
        Ok(())
    }

    /// A member leaves, a new one is rebuilt in its place, wholly or in part, and goes; then one of the two comes back.
    pub(crate) fn swap_members(&mut self) -> Result<(), Stop> {
        if !self.redundant() || self.read_only || self.status().degraded > 0 {
            return Ok(());
        }
        let Some(old) = self.active_disk() else { return Ok(()) };
        let new = self.disks.len();
        self.take_out(old)?;
        self.add(None)?;
        if self.rng.chance(50) {
            let steps = self.rng.below(60);
            self.steps(steps)?;
        } else {
            self.settle_down()?;
        }
        self.steps(40)?;
        if self.slot_of.contains_key(&new) {
            self.take_out(new)?;
        }
        let back = if self.rng.chance(50) { old } else { new };
        let is_busy = self.under_way.iter().any(|way| way.io.member == back);
        if self.released.contains(&back) && !is_busy && !self.broken {
            self.marks.hit("member swapped");
            self.add(Some(back))?;
        }
        Ok(())
    }

    /// At the moment when a member has all its contents and has not been flushed yet, another fails to take what is recorded, while
    /// more is to be recorded after that.
    fn lose_one_now(&mut self) -> Result<(), Stop> {
        let all_can = self.disks.iter().all(|disk| !disk.dead && !disk.has_bad_blocks()) && self.crash_in.is_some();
        if !all_can || self.broken || self.read_only || self.status().degraded > 0 || self.rng.chance(30) {
            return Ok(());
        }
        let Some(key) = self.active_disk() else { return Ok(()) };
        if self.disks.len() < 12 {
            self.add_now(None)?;
            self.add_now(None)?;
        }
        self.say(|| format!("disk {key} fails to flush"));
        self.disks[key].failing_flush = true;
        Ok(())
    }

    /// Fails a member, and removes it once the others know.
    fn take_out(&mut self, key: usize) -> Result<(), Stop> {
        let name = self.disks[key].name.clone();
        if self.command("fail", Command::Fail { name: name.clone() })?.is_ok() {
            self.steps(60)?;
            self.command("remove", Command::Remove { name })?.ok();
            self.steps(30)?;
        }
        Ok(())
    }

    /// So many steps without faults.
    pub(crate) fn steps(&mut self, count: u64) -> Result<(), Stop> {
        (0..count).try_for_each(|_| self.step(false))
    }

    /// Until recovery is done, and bits have been cleared that can be.
    fn settle_down(&mut self) -> Result<(), Stop> {
        for _ in 0..1000 {
            if self.under_way.is_empty() {
                break;
            }
            self.complete_one()?;
        }
        for _ in 0..4 {
            self.tick(6000)?;
            for _ in 0..60 {
                if !self.under_way.is_empty() {
                    self.complete_one()?;
                }
            }
        }
        Ok(())
    }

    /// No more faults: everything that was asked is answered, and the array comes to rest.
    pub(crate) fn drain(&mut self) -> Result<(), Stop> {
        for disk in &mut self.disks {
            disk.heal();
        }
        let mut idle_ticks = 0;
        for step in 0..20_000 {
            if !self.under_way.is_empty() {
                self.complete_one()?;
                continue;
            }
            let status = self.status();
            let rebuilding = status.members.iter().any(|member| member.state == "rebuilding");
            let at_rest = self.broken
                || self.read_only
                || status.sync.is_none() && !status.resync_pending && !rebuilding && !status.state.contains("active");
            if at_rest && self.waiting.is_empty() && idle_ticks >= 5 {
                return Ok(());
            }
            if idle_ticks > 40 {
                let waiting: Vec<_> = self.waiting.iter().take(5).collect();
                return Err(Stop::Bug(format!("the array does not come to rest: {status:?}; waiting {waiting:?}; step {step}")));
            }
            idle_ticks += 1;
            self.tick(2600)?;
            // A run that gave up on unreadable blocks is not begun again by itself.
            if idle_ticks % 8 == 0 && self.under_way.is_empty() && !at_rest && status.sync.is_none() {
                let kind = if status.resync_pending { SyncKind::Resync } else { SyncKind::Recovery };
                self.command("start sync", Command::StartSync(kind))?.ok();
            }
        }
        Err(Stop::Bug("the array does not come to rest in 20,000 steps".to_owned()))
    }

    /// Reads everything, and checks that members agree.
    pub(crate) fn check_everything(&mut self) -> Result<(), Stop> {
        let piece = 64 * self.block_sectors();
        let mut at = 0;
        while at < self.model.len() {
            let end = (at + piece).min(self.model.len());
            self.ask(Asked::Read, at..end)?;
            while !self.waiting.is_empty() {
                if self.under_way.is_empty() {
                    return Err(Stop::Bug(format!("a read of {at}..{end} is never answered")));
                }
                self.complete_one()?;
            }
            at = end;
        }
        self.drain()?;
        if !self.redundant() || self.status().degraded > 0 || self.status().resync_pending || self.read_only {
            return Ok(());
        }
        self.ended_runs.clear();
        if self.command("check", Command::StartSync(SyncKind::Check))?.is_err() {
            return Ok(());
        }
        self.drain()?;
        match self.ended_runs.iter().find(|(progress, _)| progress.kind == SyncKind::Check) {
            Some((progress, true)) if progress.mismatch_sectors == 0 && progress.unreadable_sectors == 0 => {
                self.marks.hit("check found nothing");
                Ok(())
            }
            other => Err(Stop::Bug(format!("the check ended with {other:?}"))),
        }
    }

    /// Stops the array cleanly and looks at what is on the disks then.
    pub(crate) fn shut_down(&mut self) -> Result<(), Stop> {
        self.handle(Input::Shutdown)?;
        for _ in 0..10_000 {
            if self.stopped {
                break;
            }
            if self.under_way.is_empty() {
                return Err(Stop::Bug("the array does not stop".to_owned()));
            }
            self.complete_one()?;
        }
        if !self.under_way.iter().all(|way| matches!(way.io.op, IoOp::Read { .. })) {
            return Err(Stop::Bug("stopped with writes under way".to_owned()));
        }
        if self.broken || self.read_only {
            return Ok(());
        }
        self.now += 1;
        let (now, oldest_read) = (self.now, self.now);
        self.model.flushed(now, oldest_read);
        self.check_superblocks()
    }

    /// After a clean stop all members say the same.
    fn check_superblocks(&self) -> Result<(), Stop> {
        let mut seen = None;
        for &key in self.attached.iter().filter(|_| self.redundant()) {
            let disk = &self.disks[key];
            let raw = read_super(disk.durable()).ok_or_else(|| format!("disk {key} has no valid superblock after a stop"))?;
            let sb = raw.superblock();
            let says = (sb.events, sb.roles.clone(), sb.resync_offset, sb.array_id);
            match &seen {
                None => seen = Some(says),
                Some(first) if *first == says => {}
                Some(first) => return Err(Stop::Bug(format!("disk {key} says {says:?}, another {first:?}"))),
            }
        }
        let status = self.status();
        if let Some((events, _, resync_offset, _)) = seen {
            if events != status.events || resync_offset.is_some() != status.resync_pending {
                return Err(Stop::Bug(format!("stopped with events {events}, resync from {resync_offset:?}: {status:?}")));
            }
            if status.degraded == 0 && !status.resync_pending && status.bitmap.as_ref().is_some_and(|bitmap| bitmap.set > 0) {
                return Err(Stop::Bug(format!("bits stay set on a clean array: {:?}", status.bitmap)));
            }
        }
        Ok(())
    }
}
