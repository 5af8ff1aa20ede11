//! Can what was judged be started, and from which state?

use uraid_engine::MemberState;
use uraid_format::{Bitmap, BitmapError, ByteOrder, Feature, Role, Superblock, bits_for};
use uraid_geometry::{Geometry, GeometryError, Shape};
use uraid_types::{Layout, Raid0Layout, SECTOR_BYTES, Sector, SectorCount, Slot};

use super::bitmap::Merged;
use super::judge::{Judged, Verdict, judge};
use super::logs::Logs;
use super::reshape::holds_only_parity;
use super::{AssembleOptions, AssembleProblem};
use crate::Candidate;

/// How the array starts. Members are indices into the candidates.
pub(super) struct StartPlan {
    pub geometry: Geometry,
    pub block: SectorCount,
    /// By slot.
    pub holders: Vec<Option<usize>>,
    /// By slot.
    pub states: Vec<MemberState>,
    pub write_mostly: Vec<bool>,
    pub resync_from: Option<Sector>,
    pub bitmap: Option<Merged>,
    /// The bitmap that the members have goes.
    pub drops_bitmap: bool,
    /// It went, and only it knew which parity or copies agree.
    pub distrusts_parity: bool,
    pub logs: Logs,
    pub read_only_because: Option<String>,
    pub warnings: Vec<String>,
    pub degraded: usize,
    pub dirty: bool,
}

/// Would the array of `newest` have all data with the slots that are `held` whole?
pub(super) fn has_all_data(newest: &Superblock, held: &[bool]) -> bool {
    if !newest.level.is_redundant() {
        return held.iter().all(|&held| held);
    }
    let missing: Vec<Slot> = (0..held.len()).filter(|&slot| !held[slot]).map(Slot::from_index).collect();
    redundant_geometry(newest).is_ok_and(|geometry| geometry.survives(&missing))
}

/// The arithmetic of a redundant array, whose members are all of one size.
pub(super) fn redundant_geometry(newest: &Superblock) -> Result<Geometry, GeometryError> {
    geometry(newest, newest.layout, vec![newest.used_size; usize::from(newest.raid_disks)])
}

fn geometry(newest: &Superblock, layout: Layout, member_sectors: Vec<SectorCount>) -> Result<Geometry, GeometryError> {
    let Superblock { level, raid_disks, chunk, .. } = *newest;
    Geometry::new(&Shape { level, layout, raid_disks, chunk, member_sectors })
}

/// The plan, or why there is none.
pub(super) fn plan(candidates: &[Candidate], judged: &Judged, options: &AssembleOptions) -> Result<StartPlan, AssembleProblem> {
    Planner { candidates, judged, options, newest: candidates[judged.freshest].superblock() }.plan()
}

struct Planner<'a> {
    candidates: &'a [Candidate],
    judged: &'a Judged,
    options: &'a AssembleOptions,
    newest: &'a Superblock,
}

impl<'a> Planner<'a> {
    fn plan(&self) -> Result<StartPlan, AssembleProblem> {
        self.check_kind()?;
        self.check_bitmap_file()?;
        let held = self.slots().map(|slot| self.judged.holder(slot));
        let (holders, states): (Vec<_>, Vec<_>) = held.map(|held| (held.map(|(index, _)| index), state(held))).unzip();
        let geometry = self.geometry(&holders, &states)?;
        let has_nothing =
            |state: &&MemberState| matches!(state, MemberState::Missing | MemberState::Rebuilding { recovered: Sector(0) });
        let empty = states.iter().filter(has_nothing).count();
        let degraded = states.iter().filter(|&&state| state != MemberState::InSync).count();
        let level = self.newest.level;
        let distrusts_parity = level.is_redundant() && self.options.drop_bitmap && self.bitmap_alone_knows();
        let dirty = level.is_redundant() && self.newest.resync_offset.is_some() || distrusts_parity;
        let mut logs = Logs::of(self.candidates, self.judged, (&holders, &states), &geometry, dirty, self.options)?;
        let lacks_data = |slot: &Slot| states[slot.index()] != MemberState::InSync && !holds_only_parity(&geometry, *slot);
        let lost = self.slots().filter(lacks_data).count();
        let write_hole = dirty && level.has_parity() && lost > 0 && !logs.closes_write_hole;
        if write_hole && !self.options.force {
            return Err(AssembleProblem::DirtyDegraded { level, missing: degraded });
        }
        if !self.options.run && !self.options.force {
            self.check_last_time()?;
        }
        let block = self.block(&holders, &geometry)?;
        let bitmap = self.bitmap(&holders, &states);
        let write_mostly = |holder: &Option<usize>| holder.is_some_and(|index| self.superblock(index).flags.write_mostly);
        Ok(StartPlan {
            block,
            resync_from: self
                .resync_from(dirty && !logs.makes_in_sync, empty)
                .map(|from| if distrusts_parity { Sector(0) } else { from }),
            read_only_because: self.read_only_because(&holders, bitmap.is_some()).or_else(|| logs.read_only_because.take()),
            warnings: [std::mem::take(&mut logs.warnings), self.warnings(degraded, write_hole, bitmap.as_ref())].concat(),
            write_mostly: holders.iter().map(write_mostly).collect(),
            geometry,
            holders,
            states,
            bitmap,
            drops_bitmap: self.options.drop_bitmap && self.newest.bitmap_offset.is_some(),
            distrusts_parity,
            logs,
            degraded,
            dirty,
        })
    }

    fn name(&self, index: usize) -> &'a str {
        self.candidates[index].name()
    }

    fn superblock(&self, index: usize) -> &'a Superblock {
        self.candidates[index].superblock()
    }

    fn slots(&self) -> impl Iterator<Item = Slot> {
        (0..self.newest.raid_disks).map(Slot)
    }

    /// Whatever stands against starting before any slot is looked at.
    fn check_kind(&self) -> Result<(), AssembleProblem> {
        let (level, recorded) = (self.newest.level, self.newest.layout);
        if self
            .options
            .raid0_layout
            .is_some_and(|chosen| recorded != Layout::Raid0(Raid0Layout::Unspecified) && recorded != Layout::Raid0(chosen))
        {
            return Err(AssembleProblem::LayoutRecorded { level, recorded });
        }
        if let Some(conflict) = &self.judged.conflict {
            return Err(conflict.clone());
        }
        let spares = self.judged.indices(|verdict| matches!(verdict, Verdict::Spare));
        if self.candidates.iter().all(|candidate| candidate.superblock().own_role() == Role::Spare) {
            return Err(AssembleProblem::OnlySpares(spares.iter().map(|&index| self.name(index).to_owned()).collect()));
        }
        Ok(())
    }

    /// A bitmap's file has to be this array's, and its only bitmap.
    fn check_bitmap_file(&self) -> Result<(), AssembleProblem> {
        let Some(file) = &self.options.bitmap_file else { return Ok(()) };
        let refuse = |why: String| Err(AssembleProblem::BitmapFile { name: file.name().to_owned(), why });
        let newest = self.newest;
        if !newest.level.is_redundant() {
            return refuse(format!("a {} array has nothing to resync, so no bitmap either; leave --bitmap out", newest.level));
        }
        if newest.bitmap_offset.is_some() && !self.options.drop_bitmap {
            let choice = "leave --bitmap out, or drop that one with --update=no-bitmap";
            return refuse(format!("the array has a bitmap on its members; {choice}"));
        }
        if newest.ppl.is_some() && !self.options.drop_ppl || newest.has(Feature::Journal) {
            return refuse("the array has a log of writes (PPL or journal), and md takes no bitmap beside it".to_owned());
        }
        if let Err(error) = file.found.superblock.check_array(newest, Sector(0)) {
            return refuse(error.to_string());
        }
        let whole = redundant_geometry(newest).map(|geometry| geometry.resync_sectors()).unwrap_or_default();
        let (bits, has) = (bits_for(whole, file.found.superblock.chunk_bytes), file.found.bits.len());
        if bits > has {
            return refuse(format!("it has {has} bits, and the array needs {bits}"));
        }
        Ok(())
    }

    /// Does nothing but the bitmap that is to be dropped say where parity or copies agree? A cluster's nodes keep it out of the
    /// superblocks; a lockless one leaves parity unmade where nothing was written yet.
    fn bitmap_alone_knows(&self) -> bool {
        let is_other = |candidate: &Candidate| {
            let problem = candidate.bitmap_problem.as_ref();
            problem.is_some_and(|problem| matches!(problem, BitmapError::Version { .. }))
        };
        self.newest.has(Feature::Clustered) || self.candidates.iter().any(is_other)
    }

    /// The arithmetic, once it is known that all data is there.
    fn geometry(&self, holders: &[Option<usize>], states: &[MemberState]) -> Result<Geometry, AssembleProblem> {
        let shape = |error| match error {
            GeometryError::LayoutUnspecified => AssembleProblem::Raid0Layout,
            error => AssembleProblem::Shape { newest: self.name(self.judged.freshest).to_owned(), error },
        };
        let redundant = self.newest.level.is_redundant().then(|| redundant_geometry(self.newest).map_err(shape)).transpose()?;
        let held: Vec<bool> = states.iter().map(|&state| state == MemberState::InSync).collect();
        if !has_all_data(self.newest, &held) {
            return Err(self.not_enough(&held));
        }
        match redundant {
            Some(geometry) => Ok(geometry),
            None => {
                let sizes = holders.iter().flatten().map(|&index| self.superblock(index).data_size).collect();
                let chosen = self.options.raid0_layout.map(Layout::Raid0);
                geometry(self.newest, chosen.unwrap_or(self.newest.layout), sizes).map_err(shape)
            }
        }
    }

    fn not_enough(&self, held: &[bool]) -> AssembleProblem {
        AssembleProblem::NotEnough {
            in_sync: held.iter().filter(|&&held| held).count(),
            slots: held.len(),
            story: self.slots().map(|slot| self.story(slot)).collect(),
            hint: self.force_hint(),
        }
    }

    /// One slot in words.
    fn story(&self, slot: Slot) -> String {
        if let Some((index, recovered)) = self.judged.holder(slot) {
            return match recovered {
                None => format!("{slot}: {}", self.name(index)),
                Some(at) => format!("{slot}: {}, rebuilt up to {at} only", self.name(index)),
            };
        }
        match self.judged.claimant(slot) {
            Some((index, out)) => format!("{slot}: {} is left out ({})", self.name(index), out.reason),
            None => format!("{slot}: no member was given"),
        }
    }

    /// What `force` would do, when it would help.
    fn force_hint(&self) -> String {
        let forced = judge(self.candidates, true, self.options.bitmaps()).forced;
        if self.options.force || forced.is_empty() {
            return String::new();
        }
        format!("; --force would take {}: what was written to the array since may be lost", self.forced_words(&forced))
    }

    fn forced_words(&self, forced: &[usize]) -> String {
        let words = |&index: &usize| {
            let behind = self.newest.events.saturating_sub(self.superblock(index).events);
            format!("{} ({behind} events behind)", self.name(index))
        };
        forced.iter().map(words).collect::<Vec<_>>().join(", ")
    }

    /// Is everyone here who was active last time? A member that was made active just before a crash, and does not know it yet,
    /// counts as here.
    fn check_last_time(&self) -> Result<(), AssembleProblem> {
        let spares = self.judged.indices(|verdict| matches!(verdict, Verdict::Spare));
        let is_here = |slot: Slot| {
            let promoted = |&spare: &usize| {
                let own = self.superblock(spare);
                let became = self.newest.roles.get(own.dev_number as usize) == Some(&Role::Active(slot));
                // In version 0.90 it has got another number by that.
                let may_have = !self.newest.version.records_recovery() && own.events + 1 == self.newest.events;
                became || may_have
            };
            self.judged.holder(slot).is_some() || spares.iter().any(promoted)
        };
        let recorded: Vec<Slot> = self.slots().filter(|&slot| self.newest.roles.contains(&Role::Active(slot))).collect();
        let away: Vec<Slot> = recorded.iter().copied().filter(|&slot| !is_here(slot)).collect();
        if away.is_empty() {
            return Ok(());
        }
        Err(AssembleProblem::FewerThanLastTime {
            present: recorded.len() - away.len(),
            recorded: recorded.len(),
            story: away.into_iter().map(|slot| self.story(slot)).collect(),
        })
    }

    /// The largest logical block of all members that are or may become active; everything must be aligned to it.
    fn block(&self, holders: &[Option<usize>], geometry: &Geometry) -> Result<SectorCount, AssembleProblem> {
        let active: Vec<usize> = holders.iter().flatten().copied().collect();
        let spares = self.judged.indices(|verdict| matches!(verdict, Verdict::Spare));
        let members = active.iter().chain(&spares).map(|&index| self.candidates[index].device.info().logical_block_bytes);
        let block_bytes = members.chain([self.newest.logical_block_bytes, SECTOR_BYTES as u32]).max().unwrap_or(0);
        let fail = |field: String, found| Err(AssembleProblem::Block { field, found, block_bytes: u64::from(block_bytes) });
        let block = u64::from(block_bytes) / SECTOR_BYTES;
        if block_bytes != 512 && block_bytes != 4096 {
            return fail("the recorded logical block".to_owned(), block);
        }
        let mut fields: Vec<(String, u64)> = active
            .iter()
            .map(|&index| (format!("the data offset of {}", self.name(index)), self.superblock(index).data_offset.0))
            .collect();
        fields.push(("the chunk".to_owned(), self.newest.chunk.0));
        if self.newest.level.is_redundant() {
            fields.push(("the used size".to_owned(), self.newest.used_size.0));
        }
        fields.push(("the array's size".to_owned(), geometry.capacity().0));
        match fields.into_iter().find(|(_, found)| !found.is_multiple_of(block)) {
            Some((field, found)) => fail(field, found),
            None => Ok(SectorCount(block)),
        }
    }

    /// Forced members may disagree with the others anywhere, so everything is made consistent again where that can be done.
    /// A parity array with nothing left to compare has its parity taken for good: only `force` gets it here. A RAID6 with one slot
    /// missing still has P and Q, which must agree before another one goes; and where a member has been filled already, there is all
    /// to compare. `empty`: slots of which nothing is right.
    fn resync_from(&self, dirty: bool, empty: usize) -> Option<Sector> {
        let level = self.newest.level;
        let is_comparable = level.is_redundant() && !(level.has_parity() && empty >= level.parity_members());
        match is_comparable {
            true if !self.judged.forced.is_empty() => Some(Sector(0)),
            true if dirty => self.newest.resync_offset.or(Some(Sector(0))),
            _ => None,
        }
    }

    /// All bitmaps together; all set where a forced member missed what no bitmap may know.
    fn bitmap(&self, holders: &[Option<usize>], states: &[MemberState]) -> Option<Merged> {
        let in_sync = holders.iter().zip(states).filter(|(_, state)| **state == MemberState::InSync);
        let whole: Vec<&Candidate> = in_sync.filter_map(|(holder, _)| Some(&self.candidates[(*holder)?])).collect();
        let mut merged = self.options.bitmaps().merged(self.newest, &whole)?;
        if !self.judged.forced.is_empty() {
            merged.bits = Bitmap::new_dirty(merged.bits.len());
            merged.current = false;
        }
        Some(merged)
    }

    fn read_only_because(&self, holders: &[Option<usize>], has_bitmap: bool) -> Option<String> {
        if self.options.read_only {
            return Some("--read-only was given".to_owned());
        }
        if self.newest.byte_order == ByteOrder::Big {
            return Some(
                "its 0.90 superblocks are those of a big-endian machine: convert them to 1.0 ('uraid convert'), or let mdadm swap \
                 them (--assemble --update=byteorder)"
                    .to_owned(),
            );
        }
        let spares = self.judged.indices(|verdict| matches!(verdict, Verdict::Spare));
        let mut members = holders.iter().flatten().chain(&spares).map(|&index| &self.candidates[index]);
        if let Some(member) = members.clone().find(|member| member.device.info().read_only) {
            return Some(format!("{} is open for reading only", member.name()));
        }
        if self.options.bitmap_file.as_ref().is_some_and(|file| file.device.info().read_only) {
            return Some("the bitmap's file is open for reading only".to_owned());
        }
        if self.newest.has(Feature::Clustered) && !self.options.drop_bitmap {
            return Some(
                "it is shared by a cluster, whose other nodes may be using it; once none does, --update=no-bitmap makes it an array of \
                 this machine alone"
                    .to_owned(),
            );
        }
        if self.options.drop_bitmap || self.newest.bitmap_offset.is_none() || !self.newest.level.is_redundant() || has_bitmap {
            return None;
        }
        let problem = members.find_map(|member| Some(format!("{}: {}", member.name(), member.bitmap_problem.as_ref()?)));
        Some(problem.unwrap_or_else(|| "the array has a bitmap, but none of its members does".to_owned()))
    }

    fn warnings(&self, degraded: usize, write_hole: bool, bitmap: Option<&Merged>) -> Vec<String> {
        let mut warnings = Vec::new();
        let forced = &self.judged.forced;
        if !forced.is_empty() {
            let words = self.forced_words(forced);
            warnings.push(format!(
                "--force took {words}: what was written to the array since they left may be lost; check the contents"
            ));
        }
        if degraded > 0 {
            let story = self.slots().filter(|&slot| !matches!(self.judged.holder(slot), Some((_, None))));
            let story: Vec<String> = story.map(|slot| self.story(slot)).collect();
            warnings.push(format!("degraded: {}", story.join("; ")));
        }
        if write_hole {
            warnings.push(
                "--force took the parity for good although the array was not stopped cleanly: blocks of missing members may be wrong"
                    .to_owned(),
            );
        }
        if bitmap.is_some_and(|merged| !merged.current) {
            warnings.push("the bitmap is out of date: a resync covers the whole array".to_owned());
        }
        for index in self.slots().filter_map(|slot| Some(self.judged.holder(slot)?.0)) {
            if let Some((first, _)) = self.candidates[index].bad_blocks.first() {
                let name = self.name(index);
                warnings.push(format!(
                    "the bad-block log of {name} names lost sectors, the first at {first}: they are read from other members"
                ));
            }
        }
        warnings
    }
}

fn state(held: Option<(usize, Option<Sector>)>) -> MemberState {
    match held {
        None => MemberState::Missing,
        Some((_, None)) => MemberState::InSync,
        Some((_, Some(recovered))) => MemberState::Rebuilding { recovered },
    }
}
