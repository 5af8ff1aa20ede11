//! Which members make the array, and in which state: pure decisions on what [`crate::scan`] found.

mod problem;
mod survey;

pub use problem::{AssembleError, AssembleProblem};
pub use survey::{ArraySurvey, SlotStanding, SlotSurvey, survey};

use uraid_engine::{BitmapConfig, MemberState};
use uraid_format::{ArrayId, Bitmap, BitmapSuper};
use uraid_geometry::Geometry;
use uraid_types::{Sector, SectorCount};
use uuid::Uuid;

use crate::{Candidate, Refused};

/// How far to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssembleOptions {
    /// Take stale members where there are not enough others, and a dirty degraded parity array as clean.
    pub force: bool,
    /// Start without members that were active last time.
    pub run: bool,
    /// Write nothing.
    pub read_only: bool,
    /// Only members of this array.
    pub uuid: Option<Uuid>,
}

/// One slot of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlan {
    /// Index into [`Assembly::members`]; `None` exactly when `state` is `Missing`.
    pub member: Option<usize>,
    /// How good its contents are.
    pub state: MemberState,
}

/// An array that can be started.
#[derive(Debug)]
pub struct Assembly {
    /// Where everything is.
    pub geometry: Geometry,
    /// The array's logical block: 1 or 8 sectors.
    pub block: SectorCount,
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
    /// Index into `members` of the one whose superblock decided.
    pub freshest: usize,
    /// The highest events of any member, the forced ones included: new superblocks go beyond it.
    pub events: u64,
    /// Where a resync starts, in the unit of [`Geometry::resync_sectors`]; `None` for an array in sync.
    pub resync_from: Option<Sector>,
    /// The bitmap for the engine.
    pub bitmap: Option<BitmapConfig>,
    /// The bitmap's superblock, to be rewritten with it.
    pub bitmap_super: Option<BitmapSuper>,
    /// The bits of all members together, as the engine gets them.
    pub bitmap_bits: Option<Bitmap>,
    /// By slot.
    pub write_mostly: Vec<bool>,
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
}

/// Decides what to start. Asks no device anything but what it is.
///
/// # Errors
/// [`AssembleError`] says why it cannot be started, slot by slot where that helps, and what would do.
pub fn choose(candidates: Vec<Candidate>, options: &AssembleOptions) -> Result<Assembly, AssembleError> {
    let _ = (candidates, options);
    todo!()
}
