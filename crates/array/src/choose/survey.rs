//! The array as a whole, for reports: whatever was found, startable or not.

use uraid_format::{ArrayId, MinorVersion};
use uraid_types::{Layout, Level, Sector, SectorCount, Slot};

use crate::Candidate;

/// What is known of one array.
#[derive(Clone, Debug)]
pub struct ArraySurvey {
    /// The array's UUID.
    pub array_id: ArrayId,
    /// Its name as recorded.
    pub name: String,
    /// Where its superblocks lie.
    pub minor: MinorVersion,
    /// The level.
    pub level: Level,
    /// The layout.
    pub layout: Layout,
    /// The chunk; 0 where there is none.
    pub chunk: SectorCount,
    /// Slots.
    pub raid_disks: u16,
    /// Sectors used of each member; 0 for linear and RAID0.
    pub used_size: SectorCount,
    /// The array's size; `None` when it cannot be known from the members at hand.
    pub capacity: Option<SectorCount>,
    /// Creation, seconds since 1970.
    pub created_seconds: u64,
    /// The last update by the freshest member, seconds since 1970.
    pub updated_seconds: u64,
    /// The freshest member's events.
    pub events: u64,
    /// The freshest member.
    pub freshest: String,
    /// Where a resync would start; `None` for a clean array.
    pub resync_from: Option<Sector>,
    /// By slot.
    pub slots: Vec<SlotSurvey>,
    /// Names of the spares.
    pub spares: Vec<String>,
    /// Names of members that may be re-added.
    pub readdable: Vec<String>,
    /// Members that are left out: name and reason.
    pub left_out: Vec<(String, String)>,
    /// Slots that are not in sync.
    pub degraded: usize,
    /// Dirty and set bits, and all bits, of the bitmap; `None` without one.
    pub bitmap_bits: Option<(u64, u64)>,
    /// Why it does not start as it is; `None` when it does.
    pub obstacle: Option<String>,
    /// Members it could still lose, whichever they are; `None` when it does not even start.
    pub survives: Option<usize>,
    /// What to do next.
    pub next_step: String,
    /// What the administrator should know.
    pub warnings: Vec<String>,
}

/// One slot's story.
#[derive(Clone, Debug)]
pub struct SlotSurvey {
    /// Which.
    pub slot: Slot,
    /// Who holds it, or claims it.
    pub member: Option<String>,
    /// Its state.
    pub standing: SlotStanding,
    /// The holder's or claimant's events.
    pub events: Option<u64>,
    /// Its last update, seconds since 1970.
    pub updated_seconds: Option<u64>,
    /// Did the freshest member count it as active?
    pub recorded_active: bool,
    /// A sentence on it, where there is something to say.
    pub note: Option<String>,
}

/// What a slot's member is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStanding {
    /// All of its data is right.
    InSync,
    /// It is being filled; member data sectors before this one are right.
    Rebuilding(Sector),
    /// Its claimant is left out.
    LeftOut,
    /// Nobody claims it.
    Missing,
}

/// Every array among the candidates, in the order of their first members. Never fails.
#[must_use]
pub fn survey(candidates: &[Candidate]) -> Vec<ArraySurvey> {
    let _ = candidates;
    todo!()
}
