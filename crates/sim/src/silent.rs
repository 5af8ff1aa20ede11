//! Faults that no disk reports, and members that come back stale: what an array without checksums can promise of them.
//!
//! Rot, writes that never land and writes that land elsewhere: what a block holds there nobody can know. But nothing beside it is
//! wrong, a check finds it and changes nothing, and after a repair parity and copies agree again. A member that was away while the
//! array went on is left out, and two halves that each went on alone are not put together.

use std::collections::BTreeSet;

use uraid_array::core::{Command, Input};
use uraid_engine::SyncKind;
use uraid_geometry::{Geometry, ParityRole};
use uraid_types::{Level, StripeNo};

use crate::assemble::assemble;
use crate::marks::Marks;
use crate::rng::Rng;
use crate::setup::{Setup, data_sector};
use crate::world::{Asked, Stop, World};

/// What a disk does to one of its data writes, or to one of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silent {
    /// The next data write is acknowledged and never lands.
    Phantom,
    /// The next data write lands so many bytes further on.
    Misdirected(u64),
}

/// One seed: an array with known contents, one silent fault, and what is found of it.
///
/// # Errors
/// The rule that was broken.
pub fn silent(seed: u64) -> Result<Marks, String> {
    crate::guarded(|| run(seed, World::silent_fault))
}

/// One seed: members that are away while the array goes on, in turns.
///
/// # Errors
/// The rule that was broken.
pub fn stale(seed: u64) -> Result<Marks, String> {
    crate::guarded(|| run(seed, World::stale_members))
}

fn run(seed: u64, scenario: impl FnOnce(&mut World) -> Result<(), Stop>) -> Result<Marks, String> {
    let mut rng = Rng::new(seed);
    let mut setup = Setup::choose(&mut rng);
    while setup.level == Level::Raid0 {
        setup = Setup::choose(&mut rng);
    }
    setup.spares = 0;
    let mut world = World::of(setup, rng, None, false)?;
    let result = world.fill().and_then(|()| scenario(&mut world));
    match result {
        Ok(()) => Ok(world.marks),
        Err(Stop::Bug(bug)) => Err(format!("{bug} [{:?}]", world.setup)),
        Err(other) => Err(format!("{other:?} [{:?}]", world.setup)),
    }
}

impl World {
    /// Starts the array and writes all of it.
    fn fill(&mut self) -> Result<(), Stop> {
        self.begin(true)?;
        self.handle(Input::Start)?;
        self.write_all()?;
        self.drain()?;
        self.check_everything()
    }

    fn write_all(&mut self) -> Result<(), Stop> {
        let piece = 32 * self.block_sectors();
        for start in (0..self.model.len()).step_by(piece as usize) {
            self.next_value += 1;
            let asked = Asked::Write { value: self.next_value, fua: false };
            self.ask(asked, start..(start + piece).min(self.model.len()))?;
            self.finish()?;
        }
        self.ask(Asked::Flush, 0..0)?;
        self.finish()
    }

    /// Until every request is answered.
    fn finish(&mut self) -> Result<(), Stop> {
        while !self.waiting.is_empty() {
            if self.under_way.is_empty() {
                return Err(Stop::Bug("a request is never answered".to_owned()));
            }
            self.complete_one()?;
        }
        Ok(())
    }

    fn silent_fault(&mut self) -> Result<(), Stop> {
        let key = self.rng.index(usize::from(self.setup.slots));
        let hit = match self.rng.below(3) {
            0 => {
                let block = u64::from(self.setup.block_bytes);
                let blocks = (self.areas.data_end_byte - self.areas.data_byte) / block;
                let byte = self.areas.data_byte + self.rng.below(blocks) * block;
                self.marks.hit("rot");
                let bit = self.rng.below(8 * block);
                self.disks[key].rot(byte + bit / 8, 1 << (bit % 8));
                vec![(key, byte..byte + block)]
            }
            1 => {
                self.marks.hit("phantom write");
                self.disks[key].silent = Some(Silent::Phantom);
                self.one_write(key)?
            }
            _ => {
                self.marks.hit("misdirected write");
                let by = self.rng.pick(&[1, 2, 8]) * 4096;
                self.disks[key].silent = Some(Silent::Misdirected(by));
                self.one_write(key)?
            }
        };
        self.say(|| format!("hit {hit:?}"));
        let mut is_data = BTreeSet::new();
        for (key, bytes) in &hit {
            let slot = self.slot_of[key];
            for byte in bytes.clone().step_by(512) {
                is_data.extend(self.array_sector(slot, data_sector(&self.areas, byte)));
            }
        }
        for &sector in &is_data {
            self.model.forget(&(sector..sector + 1), self.now);
        }
        self.expect_check(!hit.is_empty() && self.holds_something(&hit))?;
        // Once more: what is not hit is right, before and after the repair, and whoever is missing.
        self.read_all()?;
        self.sync_to_its_end(SyncKind::Repair)?;
        // As with any write, what a repair wrote is durable with the next flush.
        self.ask(Asked::Flush, 0..0)?;
        self.finish()?;
        self.expect_check(false)?;
        self.read_all()?;
        let Some(other) = (0..usize::from(self.setup.slots)).find(|other| *other != key) else { return Ok(()) };
        let name = self.disks[other].name.clone();
        if self.command("fail", Command::Fail { name })?.is_ok() {
            self.read_all()?;
        }
        Ok(())
    }

    /// One write, at any place; returns what the fault on disk `key` hit: bytes that are not what was sent there.
    fn one_write(&mut self, key: usize) -> Result<Vec<(usize, std::ops::Range<u64>)>, Stop> {
        let block = self.block_sectors();
        let blocks = self.model.len() / block;
        let (start, len) = (self.rng.below(blocks), 1 + self.rng.below(8));
        self.next_value += 1;
        let asked = Asked::Write { value: self.next_value, fua: true };
        self.ask(asked, start * block..(start + len).min(blocks) * block)?;
        self.finish()?;
        self.drain()?;
        Ok(self.disks[key].take_hit().into_iter().map(|bytes| (key, bytes)).collect())
    }

    /// Does any of the bytes that were hit belong to parity or to a copy? RAID10's members may end in a gap.
    fn holds_something(&self, hit: &[(usize, std::ops::Range<u64>)]) -> bool {
        hit.iter().any(|(key, bytes)| {
            bytes.clone().step_by(512).any(|byte| {
                let (slot, sector) = (self.slot_of[key], data_sector(&self.areas, byte));
                match &self.geometry {
                    Geometry::Copies(_) => self.array_sector(slot, sector).is_some(),
                    Geometry::Parity(parity) => {
                        let role = parity.role(StripeNo(sector / parity.chunk().0), slot);
                        matches!(role, ParityRole::Data(_) | ParityRole::P | ParityRole::Q)
                    }
                }
            })
        })
    }

    fn read_all(&mut self) -> Result<(), Stop> {
        let piece = 64 * self.block_sectors();
        for start in (0..self.model.len()).step_by(piece as usize) {
            // Two copies may answer in turns.
            self.model.copies_may_differ();
            self.ask(Asked::Read, start..(start + piece).min(self.model.len()))?;
            self.finish()?;
        }
        Ok(())
    }

    /// Checks the array: there are mismatches or none, and nothing changes.
    fn expect_check(&mut self, mismatches: bool) -> Result<(), Stop> {
        let range = self.areas.data_byte as usize..self.areas.data_end_byte as usize;
        let before: Vec<Vec<u8>> = self.disks.iter().map(|disk| disk.view()[range.clone()].to_vec()).collect();
        let found = self.sync_to_its_end(SyncKind::Check)?;
        if self.disks.iter().zip(&before).any(|(disk, before)| disk.view()[range.clone()] != before[..]) {
            return Err(Stop::Bug("a check changed data".to_owned()));
        }
        if (found > 0) != mismatches {
            return Err(Stop::Bug(format!("a check found {found} sectors that differ; some should: {mismatches}")));
        }
        Ok(())
    }

    /// Runs over the array; returns the mismatches.
    fn sync_to_its_end(&mut self, kind: SyncKind) -> Result<u64, Stop> {
        self.ended_runs.clear();
        self.command("check or repair", Command::StartSync(kind))?.map_err(|error| error.to_string())?;
        self.drain()?;
        match self.ended_runs.iter().find(|(progress, complete)| progress.kind == kind && *complete) {
            Some((progress, _)) => Ok(progress.mismatch_sectors),
            None => Err(Stop::Bug(format!("{kind:?} did not end: {:?}", self.ended_runs))),
        }
    }

    /// Stops, or loses its power in the middle.
    fn go_down(&mut self, by_power_cut: bool) -> Result<(), Stop> {
        if by_power_cut {
            self.steps(60)?;
            self.ask(Asked::Flush, 0..0)?;
            self.finish()?;
        } else {
            self.shut_down()?;
        }
        self.power_cut();
        Ok(())
    }

    /// Starts with all disks but `away`.
    fn begin_without(&mut self, away: &BTreeSet<usize>) -> Result<(), Stop> {
        self.newest_events = 0;
        let found = assemble(&self.disks, |key| !away.contains(&key), false, &self.pool)?;
        self.begin_with(found)?;
        self.handle(Input::Start)?;
        self.drain()
    }

    fn stale_members(&mut self) -> Result<(), Stop> {
        let slots = usize::from(self.setup.slots);
        let away = BTreeSet::from([self.rng.index(slots)]);
        let others: BTreeSet<usize> = (0..slots).filter(|key| !away.contains(key)).collect();
        let cut = self.rng.chance(50);
        self.go_down(cut)?;
        let before = self.model.clone();
        self.begin_without(&away)?;
        self.write_all()?;
        self.go_down(false)?;
        // The one that was away has all there is only where the others are copies of it.
        if self.setup.level == Level::Raid1 && self.rng.chance(50) {
            self.marks.hit("two halves");
            let went_on = std::mem::replace(&mut self.model, before);
            self.begin_without(&others)?;
            self.write_all()?;
            self.go_down(false)?;
            if let Ok(found) = assemble(&self.disks, |_| true, false, &self.pool) {
                return Err(Stop::Bug(format!("two halves that each went on alone were put together: {:?}", found.config.slots)));
            }
            self.model = went_on;
            self.begin_without(&away)?;
            return self.read_all();
        }
        self.marks.hit("stale member");
        self.begin_without(&BTreeSet::new())?;
        if away.iter().any(|key| self.slot_of.contains_key(key)) {
            return Err(Stop::Bug(format!(
                "disk {away:?} was away while the others went on, and was taken back: {:?}",
                self.slot_of
            )));
        }
        self.read_all()
    }
}
