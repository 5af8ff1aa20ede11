//! Which members make the array, and in which state: pure decisions on what [`crate::scan`] found.

mod bitmap;
mod judge;
mod logs;
mod problem;
mod reshape;
mod start;
mod survey;

pub use problem::{AssembleError, AssembleProblem};
pub use reshape::{ReshapePart, ReshapeSource, Reshaping};
pub use survey::{ArraySurvey, OtherStanding, OtherSurvey, SlotStanding, SlotSurvey, survey};

use uraid_engine::{BitmapConfig, MemberState};
use uraid_format::{ArrayId, BackupHead, Bitmap, BitmapSuper, Feature, MetadataVersion, Superblock};
use uraid_geometry::Geometry;
use uraid_types::{Raid0Layout, Sector, SectorCount};
use uuid::Uuid;

use crate::{Backup, BitmapFile, Candidate, Refused, RefusedReason};
use bitmap::Bitmaps;
use judge::{Judged, Verdict, judge};
use start::StartPlan;

/// How far to go.
#[derive(Clone, Debug, Default)]
pub struct AssembleOptions {
    /// Take stale members where there are not enough others, and a dirty degraded parity array as clean.
    pub force: bool,
    /// Start without members that were active last time.
    pub run: bool,
    /// Write nothing.
    pub read_only: bool,
    /// Drop a partial parity log, so that the array can be written: md's consistency policy becomes `resync`.
    pub drop_ppl: bool,
    /// Drop the bitmap that the members have, whatever is the matter with it.
    pub drop_bitmap: bool,
    /// The bitmap, when the array keeps it in a file of its own.
    pub bitmap_file: Option<BitmapFile>,
    /// Only members of this array.
    pub uuid: Option<Uuid>,
    /// How to read a RAID0 that does not record its layout.
    pub raid0_layout: Option<Raid0Layout>,
    /// Read an array that was being reshaped in place without the backup of what was overwritten last.
    pub invalid_backup: bool,
}

impl AssembleOptions {
    /// Which bitmap counts.
    fn bitmaps(&self) -> Bitmaps<'_> {
        match &self.bitmap_file {
            Some(file) => Bitmaps::File(&file.found),
            None if self.drop_bitmap => Bitmaps::None,
            None => Bitmaps::OfMembers,
        }
    }
}

/// One slot of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlan {
    /// Index into [`Assembly::members`]; `None` exactly when `state` is `Missing`.
    pub member: Option<usize>,
    /// How good its contents are.
    pub state: MemberState,
}

/// What has to be replayed before the array's contents are what was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// Nothing.
    #[default]
    None,
    /// The members' partial parity logs.
    Ppl,
    /// The journal.
    Journal,
}

/// An array that can be started.
#[derive(Debug)]
pub struct Assembly {
    /// Where everything is.
    pub geometry: Geometry,
    /// The array's logical block: 1 or 8 sectors.
    pub block: SectorCount,
    /// The logical block that the superblocks record, in bytes; 0 for none.
    pub logical_block_bytes: u32,
    /// By slot.
    pub slots: Vec<SlotPlan>,
    /// All that belong: the active ones by slot, then the spares, then those that may be re-added.
    pub members: Vec<Candidate>,
    /// Indices into `members`.
    pub spares: Vec<usize>,
    /// Indices into `members` of those that left the array, but whose gap the bitmap covers. Also named in `refused`.
    pub readdable: Vec<usize>,
    /// Everyone else, with the reason.
    pub refused: Vec<Refused>,
    /// Index into `members` of the active one whose superblock decided.
    pub freshest: usize,
    /// The highest events of any member given, taken or not: new superblocks go beyond it.
    pub events: u64,
    /// What the metadata is, where it is not md's; see [`crate::foreign`].
    pub foreign: Option<&'static str>,
    /// Where a resync starts, in the unit of [`Geometry::resync_sectors`]; `None` for an array in sync.
    pub resync_from: Option<Sector>,
    /// The bitmap for the engine.
    pub bitmap: Option<BitmapConfig>,
    /// The bitmap's superblock, to be rewritten with it.
    pub bitmap_super: Option<BitmapSuper>,
    /// The bits of all members together, as the engine gets them.
    pub bitmap_bits: Option<Bitmap>,
    /// Where the bitmap is kept, when that is a file of its own.
    pub bitmap_file: Option<BitmapFile>,
    /// Have the superblocks in `members` been changed by the options, so that they are due to be written?
    pub superblocks_due: bool,
    /// By slot.
    pub write_mostly: Vec<bool>,
    /// What is to be replayed first: [`crate::assemble`] does.
    pub replay: Replay,
    /// The journal.
    pub journal: Option<Candidate>,
    /// Why nothing may be written; `None` when it may.
    pub read_only_because: Option<String>,
    /// What the administrator should know.
    pub warnings: Vec<String>,
    /// Slots that are not in sync.
    pub degraded: usize,
    /// Was it not stopped cleanly?
    pub dirty: bool,
    /// The array's name as recorded, with the home host.
    pub name: String,
    /// The array's UUID.
    pub array_id: ArrayId,
    /// The other shape that parts of the array are in, while it is being reshaped.
    pub reshape: Option<Box<Reshaping>>,
    /// The backup file that parts of it are read from.
    pub backup: Option<Backup>,
}

/// Decides what to start. Asks no device anything but what it is.
///
/// `force` implies `run`. An array that is being reshaped has two shapes; what was overwritten last is in the backup file, whose head
/// is `backup`.
///
/// # Errors
/// [`AssembleError`] says why it cannot be started, slot by slot where that helps, and what would do.
pub fn choose(
    candidates: Vec<Candidate>,
    options: &AssembleOptions,
    backup: Option<&BackupHead>,
) -> Result<Assembly, AssembleError> {
    let (candidates, refused) = of_one_array(candidates, options)?;
    match reshape::Shapes::of(&candidates) {
        Some(shapes) => shapes.choose(refused, options, backup),
        None => choose_shape(candidates, refused, options),
    }
}

/// As [`choose`], of members that are in one shape.
fn choose_shape(
    candidates: Vec<Candidate>,
    mut refused: Vec<Refused>,
    options: &AssembleOptions,
) -> Result<Assembly, AssembleError> {
    let judged = judge(&candidates, options.force, options.bitmaps());
    match start::plan(&candidates, &judged, options) {
        Ok(plan) => Ok(assembly(candidates, judged, plan, refused, options)),
        Err(problem) => {
            refused.extend(judged.into_refused(&candidates));
            Err(AssembleError { problem, refused })
        }
    }
}

/// Only the members of one array, and those that are of another than was asked for.
fn of_one_array(candidates: Vec<Candidate>, options: &AssembleOptions) -> Result<(Vec<Candidate>, Vec<Refused>), AssembleError> {
    let mut refused = Vec::new();
    let mut wanted = Vec::new();
    for candidate in candidates {
        let found = candidate.superblock().array_id;
        match options.uuid {
            Some(uuid) if uuid != found => refused
                .push(Refused { name: candidate.name().to_owned(), reason: RefusedReason::OtherArray { found, wanted: uuid } }),
            _ => wanted.push(candidate),
        }
    }
    let problem = match (&array_ids(&wanted)[..], options.uuid) {
        ([_], _) => return Ok((wanted, refused)),
        ([], Some(uuid)) => AssembleProblem::NoneOfArray(uuid),
        ([], None) => AssembleProblem::NoMembers,
        (several, _) => AssembleProblem::SeveralArrays(several.iter().map(|&id| members_of(id, &wanted)).collect()),
    };
    Err(AssembleError { problem, refused })
}

/// The arrays of the candidates, in the order in which they come.
fn array_ids(candidates: &[Candidate]) -> Vec<ArrayId> {
    let mut ids = Vec::new();
    for candidate in candidates {
        let id = candidate.superblock().array_id;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

fn members_of(id: ArrayId, candidates: &[Candidate]) -> String {
    let own = || candidates.iter().filter(|candidate| candidate.superblock().array_id == id);
    let names: Vec<&str> = own().map(Candidate::name).collect();
    let array = own().next().map(|candidate| array_name(candidate.superblock())).unwrap_or_default();
    format!("{} of array {id} ('{array}')", names.join(", "))
}

/// The array's name as recorded; what is no UTF-8 is replaced. Version 0.90 records a number only.
fn array_name(superblock: &Superblock) -> String {
    if superblock.version == MetadataVersion::V0_90 {
        return format!("md{}", superblock.preferred_minor);
    }
    String::from_utf8_lossy(&superblock.name).into_owned()
}

/// Puts the members into their order and the decisions into terms of it.
fn assembly(
    candidates: Vec<Candidate>,
    judged: Judged,
    plan: StartPlan,
    mut refused: Vec<Refused>,
    options: &AssembleOptions,
) -> Assembly {
    let spares = judged.indices(|verdict| matches!(verdict, Verdict::Spare));
    let readdable = judged.indices(|verdict| matches!(verdict, Verdict::Out(out) if out.readdable));
    let order: Vec<usize> = plan.holders.iter().flatten().copied().chain(spares.iter().chain(&readdable).copied()).collect();
    let place = |index: usize| order.iter().position(|&ordered| ordered == index);
    let freshest = &candidates[judged.freshest];
    let (name, array_id) = (array_name(freshest.superblock()), freshest.superblock().array_id);
    let logical_block_bytes = freshest.superblock().logical_block_bytes;
    let slots = plan.holders.iter().zip(&plan.states);
    let slots = slots.map(|(holder, &state)| SlotPlan { member: holder.and_then(place), state }).collect();
    let places = |indices: &[usize]| indices.iter().filter_map(|&index| place(index)).collect();
    let (spares, readdable) = (places(&spares), places(&readdable));
    let freshest = place(judged.freshest).expect("the freshest member of an array that starts holds its slot");
    let events = candidates.iter().map(|candidate| candidate.superblock().events).max().unwrap_or(0);
    refused.extend(judged.into_refused(&candidates));
    let mut candidates: Vec<Option<Candidate>> = candidates.into_iter().map(Some).collect();
    if plan.logs.drops_ppl {
        candidates.iter_mut().flatten().for_each(|candidate| candidate.raw.update(|superblock| superblock.ppl = None));
    }
    if plan.drops_bitmap {
        candidates.iter_mut().flatten().for_each(|candidate| drop_bitmap(candidate, plan.distrusts_parity));
    }
    let journal = plan.logs.journal.and_then(|index| candidates[index].take());
    Assembly {
        geometry: plan.geometry,
        block: plan.block,
        logical_block_bytes,
        slots,
        members: order.iter().filter_map(|&index| candidates[index].take()).collect(),
        spares,
        readdable,
        refused,
        freshest,
        events,
        foreign: None,
        resync_from: plan.resync_from,
        bitmap: plan.bitmap.as_ref().map(bitmap::Merged::config),
        bitmap_super: plan.bitmap.as_ref().map(|merged| merged.superblock.clone()),
        bitmap_bits: plan.bitmap.map(|merged| merged.bits),
        bitmap_file: options.bitmap_file.clone(),
        superblocks_due: plan.drops_bitmap,
        write_mostly: plan.write_mostly,
        replay: plan.logs.replay,
        journal,
        read_only_because: plan.read_only_because,
        warnings: plan.warnings,
        degraded: plan.degraded,
        dirty: plan.dirty,
        name,
        array_id,
        reshape: None,
        backup: None,
    }
}

/// The superblock as it is once its array has no bitmap any more.
fn drop_bitmap(candidate: &mut Candidate, resync: bool) {
    candidate.raw.update(|superblock| {
        if resync {
            superblock.resync_offset = Some(Sector(0));
        }
        superblock.bitmap_offset = None;
        superblock.set_feature(Feature::Bitmap, false);
        superblock.set_feature(Feature::Clustered, false);
    });
    (candidate.bitmap, candidate.bitmap_problem) = (None, None);
}

#[cfg(test)]
mod tests;
