//! A run from seed to end: lives of the array, each begun by assembling it and ended by a power cut or a shutdown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uraid_array::core::{Core, Input};
use uraid_device::{IoOp, Pool};
use uraid_engine::MemberState;
use uraid_format::BITMAP_SUPER_BYTES;
use uraid_geometry::{Geometry, Shape};
use uraid_types::{SectorCount, Slot};

use crate::assemble::{Assembled, assemble, read_super};
use crate::disk::Loss;
use crate::marks::Marks;
use crate::model::{ANY, Model, ZERO};
use crate::rng::Rng;
use crate::rules::BITMAP_EVENTS_AT;
use crate::setup::{Areas, Setup, data_sector};
use crate::world::{Episode, Mutation, Stop, World};

/// Runs the seed to its end.
///
/// # Errors
/// Which rule was broken.
pub(crate) fn run(seed: u64, mutation: Option<Mutation>, trace: bool) -> Result<Marks, String> {
    let mut world = World::new(seed, mutation, trace)?;
    let lives = 1 + world.rng.below(4);
    for life in 1..=lives {
        let last = life == lives;
        world.say(|| format!("life {life} of {lives}"));
        let result = world.live(last);
        world.count_paths();
        match result {
            Ok(()) => {}
            Err(Stop::Crash) => world.marks.hit("crash"),
            Err(Stop::GivenUp) => return Ok(world.marks),
            Err(Stop::Bug(bug)) => return Err(format!("{bug} [{:?}]", world.setup)),
        }
        world.power_cut();
    }
    Ok(world.marks)
}

impl World {
    fn new(seed: u64, mutation: Option<Mutation>, trace: bool) -> Result<World, String> {
        let mut rng = Rng::new(seed);
        let mut setup = Setup::choose(&mut rng);
        // Chosen apart, so that the other seeds lead where they led before there were any.
        let mut apart = Rng::new(!seed);
        let mut episode = apart.pick(&[Some(Episode::Resync), Some(Episode::Swap), None, None, None, None, None, None]);
        if apart.below(100) == 0 {
            setup = setup.with_many_bits();
            episode = Some(Episode::Swap);
        }
        let mut world = World::of(setup, rng, mutation, trace)?;
        world.episode = episode;
        Ok(world)
    }

    /// The array of `setup`, right after it was created.
    pub(crate) fn of(setup: Setup, mut rng: Rng, mutation: Option<Mutation>, trace: bool) -> Result<World, String> {
        let mut disks = setup.create(&mut rng)?;
        if mutation == Some(Mutation::FlushLies) {
            disks[0].flush_lies = true;
        }
        let raw = read_super(disks[0].durable()).ok_or("a new disk has no superblock")?;
        let superblock = raw.superblock();
        let size = if setup.level.is_redundant() { superblock.used_size } else { superblock.data_size };
        let shape = Shape {
            level: setup.level,
            layout: setup.layout,
            raid_disks: setup.slots,
            chunk: superblock.chunk,
            member_sectors: vec![size; usize::from(setup.slots)],
        };
        let geometry = Geometry::new(&shape).map_err(|error| format!("{setup:?}: {error}"))?;
        let model = Model::new(geometry.capacity().0, if setup.assume_clean { ZERO } else { ANY });
        if trace {
            println!("{setup:?}, {} array sectors", geometry.capacity().0);
        }
        Ok(World {
            areas: Areas::of(superblock),
            rng,
            setup,
            geometry,
            disks,
            pool: Pool::new(8 << 20),
            model,
            marks: Marks::default(),
            mutation,
            trace,
            now: 1,
            now_ms: 1000,
            core: None,
            under_way: Vec::new(),
            waiting: BTreeMap::new(),
            next_request: 1,
            next_value: ZERO + 1,
            commands: VecDeque::new(),
            results: VecDeque::new(),
            crash_in: None,
            stopped: false,
            read_only: false,
            slot_of: BTreeMap::new(),
            attached: BTreeSet::new(),
            joining: BTreeSet::new(),
            introduced: BTreeSet::new(),
            rebuilding: BTreeSet::new(),
            released: BTreeSet::new(),
            losses: Vec::new(),
            broken: false,
            holes: BTreeSet::new(),
            io_errors_excused: false,
            spoiled: None,
            space_tight: false,
            out_of_space: false,
            ended_runs: Vec::new(),
            newest_events: 0,
            sent_supers: BTreeMap::new(),
            metadata_failed: BTreeSet::new(),
            missed_bits: BTreeSet::new(),
            episode: None,
            loss_due: false,
            filled_in_vain: false,
        })
    }

    /// One life; the last one has no faults and ends with everything checked.
    fn live(&mut self, last: bool) -> Result<(), Stop> {
        self.marks.hit("life");
        self.crash_in = None;
        self.begin(last)?;
        if !last && self.rng.chance(70) {
            let outputs = self.rng.pick(&[20, 60, 200, 600, 2000]);
            self.crash_in = Some(self.rng.below(outputs));
        }
        self.handle(Input::Start)?;
        match self.episode {
            Some(Episode::Resync) => self.resync_in_peace()?,
            Some(Episode::Swap) if !last => self.swap_members()?,
            Some(Episode::Swap) | None => {}
        }
        let steps = self.rng.pick(&[50, 200, 500, 900]);
        for _ in 0..steps {
            self.step(!last)?;
            if self.broken && self.rng.chance(5) {
                break;
            }
        }
        if !last && self.rng.chance(30) {
            return Err(Stop::Crash);
        }
        self.drain()?;
        if !self.broken {
            self.check_everything()?;
        }
        self.shut_down()?;
        self.marks.hit("shutdown");
        Ok(())
    }

    /// The power goes: unflushed and unfinished writes are kept, lost or torn.
    pub(crate) fn power_cut(&mut self) {
        self.now += 1;
        let loss = self.rng.pick(&[Loss::Kept, Loss::Lost, Loss::Torn, Loss::Torn]);
        self.say(|| format!("power cut: {loss:?}"));
        if self.under_way.iter().any(|way| matches!(way.io.op, IoOp::Write { .. }) && !self.in_data(way.io.op.offset_bytes())) {
            self.marks.hit("crash in metadata");
        }
        for way in std::mem::take(&mut self.under_way) {
            if let (IoOp::Write { offset_bytes, from }, false) = (way.io.op, self.disks[way.io.member].dead) {
                let rng = &mut self.rng;
                self.disks[way.io.member].write(offset_bytes, &from, || loss == Loss::Kept || rng.chance(50));
            }
        }
        self.note_holes();
        for disk in &mut self.disks {
            if loss == Loss::Torn && !disk.unflushed_blocks().is_empty() {
                self.marks.hit("torn write");
            }
            disk.crash(loss, &mut self.rng);
        }
        if self.episode == Some(Episode::Resync) && self.rng.chance(40) {
            self.forget_bitmaps();
        }
        self.model.crash(self.now);
        self.filled_in_vain = self.lost_while_made_whole();
        self.waiting.clear();
        self.commands.clear();
        self.core = None;
    }

    /// As somebody leaves the array who keeps its superblocks up to date and knows nothing of bitmaps.
    fn forget_bitmaps(&mut self) {
        let Some((start, _)) = self.areas.bitmap else { return };
        self.marks.hit("bitmap behind");
        let is_member = |disk: &&mut crate::disk::Disk| read_super(disk.durable()).is_some();
        for disk in self.disks.iter_mut().filter(is_member) {
            disk.place(start + BITMAP_EVENTS_AT, &[0; 8]);
            let bits = start + BITMAP_SUPER_BYTES as u64;
            disk.place(bits, &vec![0; (start + 4096 - bits) as usize]);
        }
    }

    /// The stripes with writes that were not made durable: parity and data may disagree there.
    pub(crate) fn note_holes(&mut self) {
        if !self.level().has_parity() {
            return;
        }
        let at_risk: Vec<u64> = self.model.unsafe_sectors().collect();
        for sector in at_risk {
            self.holes.extend(self.stripes_of(&(sector..sector + 1)));
        }
        for disk in &mut self.disks {
            // What parity would give for an unreadable block there is no better than nothing.
            let areas = self.areas;
            let chunk = self.geometry.shape().chunk.0;
            let holes = &self.holes;
            disk.mend(|byte| {
                (areas.data_byte..areas.data_end_byte).contains(&byte) && holes.contains(&(data_sector(&areas, byte) / chunk))
            });
        }
    }

    /// Puts the array together from what the disks durably hold.
    pub(crate) fn begin(&mut self, last: bool) -> Result<(), Stop> {
        self.read_only = !last && self.rng.chance(6);
        let assembled = self.assemble()?;
        self.begin_with(assembled)
    }

    /// Goes on with what was put together.
    pub(crate) fn begin_with(&mut self, assembled: Assembled) -> Result<(), Stop> {
        let config = assembled.config;
        self.slot_of = config.members.iter().filter_map(|member| Some((member.key, member.slot?))).collect();
        let rebuilds = |slot: Slot| matches!(config.slots[slot.index()], MemberState::Rebuilding { .. });
        self.rebuilding = self.slot_of.iter().filter(|(_, slot)| rebuilds(**slot)).map(|(&key, _)| key).collect();
        self.attached = config.members.iter().map(|member| member.key).collect();
        // Spares may have an older bitmap; it is written whole with their first superblock.
        self.joining = self.attached.iter().copied().filter(|key| !self.slot_of.contains_key(key)).collect();
        self.released = assembled.left_out.iter().copied().collect();
        (self.broken, self.stopped, self.out_of_space) = (false, false, false);
        self.losses.clear();
        self.metadata_failed.clear();
        self.introduced.clear();
        self.loss_due = false;
        self.sent_supers.clear();
        for (&key, slot) in self.slot_of.iter().filter(|(key, _)| self.rebuilding.contains(key)) {
            if let MemberState::Rebuilding { recovered } = config.slots[slot.index()] {
                self.disks[key].begin_filling(self.areas.data_byte + recovered.byte_offset());
            }
        }
        self.ended_runs.clear();
        if config.events < self.newest_events.saturating_sub(2) {
            return Err(Stop::Bug(format!("events went back from {} to {}", self.newest_events, config.events)));
        }
        self.newest_events = config.events;
        let incomplete: Vec<Slot> =
            (0..config.slots.len()).filter(|&slot| config.slots[slot] != MemberState::InSync).map(Slot::from_index).collect();
        if incomplete.is_empty() {
            // A loss that was not recorded is one to nobody.
            self.missed_bits.clear();
        }
        self.marks.add("member left out", assembled.left_out.len() as u64);
        if self.read_only {
            self.marks.hit("assembled read-only");
        }
        if assembled.dirty && !incomplete.is_empty() && self.level().has_parity() {
            self.marks.hit("assembled forced");
        }
        if !assembled.dirty {
            self.holes.clear();
        }
        if config.slots.iter().any(|state| matches!(state, MemberState::Rebuilding { recovered } if recovered.0 > 0)) {
            self.marks.hit("recovery resumed");
        }
        if config.resync_from.is_some_and(|from| from.0 > 0) {
            self.marks.hit("resync resumed");
        }
        incomplete.iter().for_each(|&slot| self.open_hole_for(slot));
        self.io_errors_excused = !self.redundant();
        let mut bad = (0..self.disks.len()).filter(|&key| self.disks[key].has_bad_blocks());
        self.spoiled = bad.next();
        self.space_tight = false;
        self.io_errors_excused |= bad.next().is_some();
        self.say(|| {
            format!(
                "assembled: {:?}, resync from {:?}, events {}, read-only {}, bitmap {:?}, left out {:?}, holes {:?}",
                config.slots,
                config.resync_from,
                config.events,
                config.read_only,
                config.bitmap.as_ref().map(|(found, ..)| &found.set),
                self.released,
                self.holes
            )
        });
        self.core = Some(Core::new(config));
        self.note_excuses();
        Ok(())
    }

    /// Adds up which paths the engine took in this life.
    fn count_paths(&mut self) {
        let Some(core) = &self.core else { return };
        let counters = core.counters();
        let paths = [
            ("reconstruct", counters.reconstructs),
            ("read-modify-write", counters.read_modify_writes),
            ("rebuild first", counters.rebuilds_first),
            ("direct write", counters.data_only),
            ("write joined", counters.joined),
            ("degraded read", counters.rebuilt_reads),
            ("bitmap skip", counters.skips),
        ];
        for (mark, count) in paths {
            self.marks.add(mark, count);
        }
    }

    fn assemble(&mut self) -> Result<Assembled, Stop> {
        let events = |disk: &crate::disk::Disk| read_super(disk.durable()).map_or(0, |raw| raw.superblock().events);
        let newest = self.disks.iter().map(events).max().unwrap_or(0);
        let come_back: Vec<bool> = self.disks.iter().map(|disk| !disk.dead || self.rng.chance(60)).collect();
        let alive = (0..self.disks.len()).filter(|&key| come_back[key]);
        // Without the freshest member an old state would be taken for the present one; an administrator is asked about that.
        let fresh = alive.map(|key| events(&self.disks[key])).max() == Some(newest);
        let found = assemble(&self.disks, |key| fresh && come_back[key], self.read_only, &self.pool);
        let found = match found {
            Ok(found) => {
                self.disks.iter_mut().zip(&come_back).filter(|(_, back)| **back).for_each(|(disk, _)| disk.dead = false);
                found
            }
            Err(_) => {
                self.disks.iter_mut().for_each(|disk| disk.dead = false);
                match assemble(&self.disks, |_| true, self.read_only, &self.pool) {
                    Err(_) if self.recovery_was_cut_at_its_end() => {
                        self.marks.hit("needs force");
                        return Err(Stop::GivenUp);
                    }
                    found => found.map_err(|why| Stop::Bug(format!("with every disk back the array does not start: {why}")))?,
                }
            }
        };
        Ok(found)
    }

    /// Is there a member that was lost, or has all its contents, and that its superblock durably shows as incomplete?
    fn lost_while_made_whole(&self) -> bool {
        let incomplete = |key: usize| {
            let raw = read_super(self.disks[key].durable());
            raw.is_some_and(|raw| raw.superblock().recovery_offset.is_some())
        };
        let was_filled = |key: &usize| !self.rebuilding.contains(key) || !self.attached.contains(key);
        (0..self.disks.len()).any(|key| was_filled(&key) && incomplete(key)) && !self.losses.is_empty()
    }

    /// The end of a recovery and the loss of another member are recorded in one update, by the recovered member first. When one that
    /// is just then recorded as whole fails to take that, or a third is lost, the array starts only with `--force`.
    fn recovery_was_cut_at_its_end(&self) -> bool {
        if self.filled_in_vain {
            return true;
        }
        let supers = self.disks.iter().filter_map(|disk| read_super(disk.durable()));
        supers.into_iter().any(|raw| raw.superblock().recovery_offset.is_some_and(|recovered| recovered.0 > 0))
    }

    /// Bytes of the array's logical block in sectors.
    pub(crate) fn block_sectors(&self) -> u64 {
        SectorCount::floor_bytes(u64::from(self.setup.block_bytes)).0
    }
}
