//! Every crash of tiny arrays: a short script of writes, and at each step everything that a power cut could leave.
//!
//! A step is the end of one member operation, or the next of the script's requests. The oldest operation ends first, but for
//! *deviations*: steps at which another one ends, or the script goes on although nobody was answered yet. All schedules with so many
//! deviations are run. At each of their steps the power goes, once for every choice of what reached the disks: of each block the
//! durable version or any later one, of each operation under way any of its blocks. What comes of that is put together again,
//! resynced, read and checked as at the end of a life. States that were seen before are not looked at again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use uraid_array::core::{Command, Input};
use uraid_device::IoOp;
use uraid_format::MetadataVersion;
use uraid_types::{Layout, Level, ParityLayout, Raid10Layout, SectorCount};

use crate::model::Value;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::world::{Asked, Mutation, Stop, World};

/// Blocks of 4 KiB, one to a chunk.
const BLOCK: u64 = 8;

/// More states than that at one step are not all looked at.
const MAX_STATES: u64 = 1 << 12;

/// What the script does next, all of it together.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Writes blocks, from the first up to the second.
    Write(u64, u64),
    /// The same, durable when it is answered.
    WriteThrough(u64, u64),
    Flush,
    /// So many milliseconds go by.
    Quiet(u64),
}

use Act::{Flush, Quiet, Write, WriteThrough};

/// Groups of requests; the next group comes once all of the last are answered. Together they have two or three writes: side by
/// side in a stripe, one over the other, and over more than a stripe; flushed, written through, or left for the array to settle.
const SCRIPTS: &[(&str, &[&[Act]])] = &[
    ("two blocks of a stripe, then one again", &[&[Write(0, 1), Write(1, 2)], &[Flush], &[Write(0, 1)], &[Quiet(250)]]),
    ("one block over another, written through", &[&[WriteThrough(0, 1)], &[Write(0, 1), WriteThrough(2, 3)], &[Quiet(250)]]),
    ("quiet, and a write as it settles", &[&[Write(0, 1)], &[Quiet(250)], &[Write(1, 2)], &[Quiet(250)], &[Quiet(250)]]),
    ("more than a stripe, and bits cleared", &[&[Write(0, 4)], &[Flush], &[Quiet(6000)], &[Quiet(6000)], &[Write(1, 2)]]),
];

/// An array and what is done to it.
#[derive(Clone, Debug)]
pub struct Case {
    setup: Setup,
    /// A member is failed before the script begins.
    degraded: bool,
    script: &'static str,
    groups: &'static [&'static [Act]],
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arrays with their scripts.
    pub cases: u64,
    /// Orders in which operations ended.
    pub schedules: u64,
    /// Steps at which the power went.
    pub crashes: u64,
    /// What it could leave then, one by one.
    pub states: u64,
    /// Of those, the ones that differ: each was put together, resynced and read.
    pub distinct: u64,
    /// Left out, where a step had too many.
    pub left_out: u64,
}

impl Counts {
    /// Those of another run as well.
    pub fn add(&mut self, other: &Counts) {
        self.cases += other.cases;
        self.schedules += other.schedules;
        self.crashes += other.crashes;
        self.states += other.states;
        self.distinct += other.distinct;
        self.left_out += other.left_out;
    }
}

/// Every case: each level, without and with a bitmap, whole and degraded, with every script.
#[must_use]
pub fn cases() -> Vec<Case> {
    use Level::{Linear, Raid0, Raid1, Raid4, Raid5, Raid6, Raid10};
    let symmetric = Layout::Parity(ParityLayout::LeftSymmetric);
    let raid10 = |layout| (Raid10, Layout::Raid10(layout));
    let shapes = [
        ((Linear, Layout::default_for(Linear)), 2),
        ((Raid0, Layout::default_for(Raid0)), 3),
        ((Raid1, Layout::default_for(Raid1)), 2),
        ((Raid1, Layout::default_for(Raid1)), 3),
        ((Raid4, Layout::default_for(Raid4)), 3),
        ((Raid5, symmetric), 3),
        ((Raid5, symmetric), 4),
        ((Raid6, symmetric), 4),
        (raid10(Raid10Layout::near(2)), 3),
        (raid10(Raid10Layout::far(2)), 3),
        (raid10(Raid10Layout::offset(2)), 4),
    ];
    let mut cases = Vec::new();
    for ((level, layout), slots) in shapes {
        for bitmap_chunk in [None, Some(4096)].into_iter().filter(|bitmap| bitmap.is_none() || level.is_redundant()) {
            for degraded in [false, true].into_iter().filter(|degraded| !degraded || level.is_redundant()) {
                for &(script, groups) in SCRIPTS {
                    let setup = Setup {
                        level,
                        layout,
                        slots,
                        spares: 0,
                        chunk: SectorCount(if level == Raid1 { 0 } else { BLOCK }),
                        block_bytes: 4096,
                        bitmap_chunk,
                        disk_sectors: 128 + data_sectors(level),
                        version: MetadataVersion::V1_2,
                        assume_clean: true,
                    };
                    cases.push(Case { setup, degraded, script, groups });
                }
            }
        }
    }
    cases
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { level, slots, layout, bitmap_chunk, .. } = &self.setup;
        let bitmap = if bitmap_chunk.is_some() { ", bitmap" } else { "" };
        let degraded = if self.degraded { ", degraded" } else { "" };
        write!(f, "{level} {layout:?} of {slots}{bitmap}{degraded}, {}", self.script)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { cases, schedules, crashes, states, distinct, left_out } = self;
        write!(
            f,
            "{cases} cases, {schedules} schedules, {crashes} crashes, {states} states ({left_out} left out), {distinct} distinct"
        )
    }
}

/// Two stripes of each member; copies need more to hold as many blocks, and where there are no chunks there is no less than 64 KiB.
fn data_sectors(level: Level) -> u64 {
    match level {
        Level::Raid1 | Level::Linear => 128,
        Level::Raid10 => 4 * BLOCK,
        _ => 2 * BLOCK,
    }
}

/// Looks at every crash of `case` in all schedules with up to `deviations`.
///
/// # Errors
/// The rule that was broken, and when the power went.
pub fn explore(case: &Case, deviations: usize, mutation: Option<Mutation>) -> Result<Counts, String> {
    let mut explorer = Explorer { case, mutation, counts: Counts { cases: 1, ..Counts::default() }, seen: HashSet::new() };
    crate::guarded(|| explorer.schedules(&BTreeMap::new(), deviations))?;
    Ok(explorer.counts)
}

/// Which operation ends at a step, where it is not the oldest.
type Deviations = BTreeMap<usize, usize>;

struct Explorer<'a> {
    case: &'a Case,
    mutation: Option<Mutation>,
    counts: Counts,
    seen: HashSet<u64>,
}

/// A block of a disk that a power cut leaves in one of several versions.
struct Open {
    disk: usize,
    block: usize,
    /// The durable one first.
    versions: Vec<Vec<u8>>,
    /// What each adds to the number of a state.
    numbers: Vec<u64>,
}

impl Explorer<'_> {
    /// Runs the schedule of `deviations`, and all that deviate from it later, up to `more` times.
    fn schedules(&mut self, deviations: &Deviations, more: usize) -> Result<(), String> {
        let from = deviations.last_key_value().map_or(0, |(step, _)| step + 1);
        let choices = self.run(deviations, from).map_err(|why| {
            let Case { setup, degraded, script, .. } = self.case;
            format!("{why} ['{script}', deviations {deviations:?}, degraded {degraded}, {setup:?}]")
        })?;
        self.counts.schedules += 1;
        if more == 0 {
            return Ok(());
        }
        for (step, &choices) in choices.iter().enumerate().skip(from) {
            for choice in 1..choices {
                let mut deviations = deviations.clone();
                deviations.insert(step, choice);
                self.schedules(&deviations, more - 1)?;
            }
        }
        Ok(())
    }

    /// Runs one schedule, with a crash at each step from `first_crash` on; returns how many choices there were at each.
    fn run(&mut self, deviations: &Deviations, first_crash: usize) -> Result<Vec<usize>, String> {
        let mut world = World::of(self.case.setup.clone(), Rng::new(1), self.mutation, false)?;
        world.start_up(self.case.degraded).map_err(words)?;
        let mut touched = BTreeSet::new();
        let mut groups = self.case.groups.iter();
        let mut choices = Vec::new();
        loop {
            world.touch(&mut touched);
            if choices.len() >= first_crash {
                self.crash(&world, &touched).map_err(|why| format!("{why}; the power went at step {}", choices.len()))?;
            }
            let idle = world.under_way.is_empty();
            if idle && groups.len() == 0 {
                break;
            }
            let choice = deviations.get(&choices.len()).copied().unwrap_or(0);
            choices.push(world.under_way.len() + usize::from(groups.len() > 0));
            if choice < world.under_way.len() {
                world.complete_oldest(choice).map_err(words)?;
            } else if let Some(group) = groups.next() {
                world.do_all(group).map_err(words)?;
            }
        }
        if world.waiting.is_empty() { Ok(choices) } else { Err("requests are never answered".to_owned()) }
    }

    /// The power goes: every state that this can leave.
    fn crash(&mut self, world: &World, touched: &BTreeSet<(usize, usize)>) -> Result<(), String> {
        self.counts.crashes += 1;
        let open = world.open_blocks();
        let mut after = world.model.clone();
        after.crash(world.now);
        let is_open = |place: &(usize, usize)| open.iter().any(|open| (open.disk, open.block) == *place);
        let settled = touched.iter().filter(|place| !is_open(place));
        let base = settled.map(|&(disk, block)| number(disk, block, world.disks[disk].durable_block(block)));
        let base = base.fold(after.number(), u64::wrapping_add);
        let all: u64 = open.iter().map(|open| open.versions.len() as u64).product();
        self.counts.left_out += all.saturating_sub(MAX_STATES);
        for state in 0..all.min(MAX_STATES) {
            self.counts.states += 1;
            let mut rest = state;
            let choice: Vec<usize> = open
                .iter()
                .map(|open| {
                    let versions = open.versions.len() as u64;
                    let version = (rest % versions) as usize;
                    rest /= versions;
                    version
                })
                .collect();
            let chosen = open.iter().zip(&choice).map(|(open, &version)| open.numbers[version]);
            if self.seen.insert(chosen.fold(base, u64::wrapping_add)) {
                self.counts.distinct += 1;
                self.recover(world, &open, &choice).map_err(|why| {
                    let left: Vec<_> =
                        open.iter().zip(&choice).map(|(open, version)| (open.disk, open.block, *version)).collect();
                    format!("{why}; of each (disk, block) this version was left: {left:?}")
                })?;
            }
        }
        Ok(())
    }

    /// Puts what is left together again and looks at it.
    fn recover(&self, before: &World, open: &[Open], choice: &[usize]) -> Result<(), String> {
        let mut world = World::of(self.case.setup.clone(), Rng::new(2), self.mutation, false)?;
        world.take_over(before);
        for (open, &version) in open.iter().zip(choice) {
            world.disks[open.disk].put_durable(open.block, &open.versions[version]);
        }
        world.begin(true).map_err(words)?;
        world.handle(Input::Start).map_err(words)?;
        world.drain().map_err(words)?;
        world.check_everything().map_err(words)
    }
}

fn words(stop: Stop) -> String {
    match stop {
        Stop::Bug(bug) => bug,
        other => format!("{other:?}"),
    }
}

/// What a block's contents add to the number of a state.
fn number(disk: usize, block: usize, bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (disk, block, bytes).hash(&mut hasher);
    hasher.finish()
}

impl World {
    /// Starts the array, fails its last member when it is to be degraded, and lets it come to rest.
    fn start_up(&mut self, degraded: bool) -> Result<(), Stop> {
        self.begin(true)?;
        self.handle(Input::Start)?;
        if degraded {
            let name = self.disks[usize::from(self.setup.slots) - 1].name.clone();
            self.command("fail", Command::Fail { name })?.map_err(|error| error.to_string())?;
        }
        while !self.under_way.is_empty() {
            self.complete_oldest(0)?;
        }
        Ok(())
    }

    /// Ends the operation that came before all but `index` of those under way.
    fn complete_oldest(&mut self, index: usize) -> Result<(), Stop> {
        let mut order: Vec<usize> = (0..self.under_way.len()).collect();
        order.sort_by_key(|&at| self.under_way[at].io.token);
        self.complete(order[index])
    }

    fn do_all(&mut self, group: &[Act]) -> Result<(), Stop> {
        for act in group {
            let (range, fua) = match *act {
                Write(start, end) => (start * BLOCK..end * BLOCK, false),
                WriteThrough(start, end) => (start * BLOCK..end * BLOCK, true),
                Flush => {
                    self.ask(Asked::Flush, 0..0)?;
                    continue;
                }
                Quiet(ms) => {
                    self.tick(ms)?;
                    continue;
                }
            };
            let range = range.start..range.end.min(self.model.len());
            if range.is_empty() {
                continue;
            }
            let value: Value = self.next_value + 1;
            self.next_value = value;
            self.ask(Asked::Write { value, fua }, range)?;
        }
        Ok(())
    }

    /// Notes the blocks that have been written or are about to be.
    fn touch(&self, touched: &mut BTreeSet<(usize, usize)>) {
        for (key, disk) in self.disks.iter().enumerate() {
            touched.extend(disk.unflushed_versions().map(|(block, _)| (key, block)));
        }
    }

    /// What a power cut may leave in more than one way.
    fn open_blocks(&self) -> Vec<Open> {
        let mut open: BTreeMap<(usize, usize), Vec<Vec<u8>>> = BTreeMap::new();
        for (key, disk) in self.disks.iter().enumerate() {
            for (block, versions) in disk.unflushed_versions() {
                open.insert((key, block), versions.cloned().collect());
            }
        }
        for way in &self.under_way {
            let IoOp::Write { offset_bytes, from } = &way.io.op else { continue };
            let disk = &self.disks[way.io.member];
            let bytes: Vec<u8> = from.iter().flat_map(|part| part.iter().copied()).collect();
            let first = (offset_bytes / disk.block_bytes()) as usize;
            for (index, bytes) in bytes.chunks_exact(disk.block_bytes() as usize).enumerate() {
                open.entry((way.io.member, first + index)).or_default().push(bytes.to_vec());
            }
        }
        let with_durable = |((disk, block), later): ((usize, usize), Vec<Vec<u8>>)| {
            let mut versions = vec![self.disks[disk].durable_block(block).to_vec()];
            for version in later {
                if !versions.contains(&version) {
                    versions.push(version);
                }
            }
            let numbers = versions.iter().map(|version| number(disk, block, version)).collect();
            Open { disk, block, versions, numbers }
        };
        open.into_iter().map(with_durable).collect()
    }

    /// Goes on from where the power went in another, with nothing but what was durable.
    fn take_over(&mut self, before: &World) {
        self.disks.clone_from(&before.disks);
        self.disks.iter_mut().for_each(|disk| disk.crash(crate::disk::Loss::Lost, &mut Rng::new(0)));
        self.model = before.model.clone();
        self.now = before.now + 1;
        self.now_ms = before.now_ms;
        self.next_value = before.next_value;
        self.newest_events = before.newest_events;
        self.missed_bits.clone_from(&before.missed_bits);
        self.note_holes();
        self.model.crash(self.now);
    }
}
