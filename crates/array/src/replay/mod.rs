//! Logs of writes that were under way, replayed: into the members when the array may be written, else into memory laid over them.

mod journal;
pub(crate) mod ppl;

use std::sync::Arc;

use uraid_device::{Buf, DeviceError, Overlay, Pool};
use uraid_engine::MemberState;
use uraid_geometry::{Geometry, Parity};
use uraid_types::{Sector, SectorCount, Slot};

use crate::choose::{AssembleError, AssembleOptions, AssembleProblem, Assembly, Replay, SlotPlan, choose};
use crate::update::write_superblocks;
use crate::{Backup, Candidate};

/// [`choose`]s what to start, writes superblocks that the options change, and replays its log of writes, if it has one: the only
/// things that are written before it starts, and only where it may be written. `backup` is the backup file of a reshape that is part
/// way.
///
/// # Errors
/// As [`choose`]; also when a member fails while its log is replayed.
pub fn assemble(
    candidates: Vec<Candidate>,
    options: &AssembleOptions,
    backup: Option<&Backup>,
) -> Result<Assembly, AssembleError> {
    let mut assembly = choose(candidates, options, backup.map(Backup::head))?;
    assembly.backup = backup.cloned();
    let what = match assembly.replay {
        Replay::None => return updated(assembly),
        Replay::Ppl => "PPL",
        Replay::Journal => "journal",
    };
    match replay(&mut assembly) {
        Ok(()) => updated(assembly),
        Err(why) => Err(AssembleError { problem: AssembleProblem::Replay { what, why }, refused: assembly.refused }),
    }
}

/// With its superblocks written, where the options have changed them.
fn updated(mut assembly: Assembly) -> Result<Assembly, AssembleError> {
    match write_superblocks(&mut assembly) {
        Ok(()) => Ok(assembly),
        Err(error) => {
            let problem = AssembleProblem::Update { why: error.to_string() };
            Err(AssembleError { problem, refused: assembly.refused })
        }
    }
}

fn replay(assembly: &mut Assembly) -> Result<(), String> {
    let Geometry::Parity(parity) = assembly.geometry.clone() else { return Err("the level has no parity".to_owned()) };
    let mut rows = Rows {
        parity,
        slots: &assembly.slots,
        members: &mut assembly.members,
        in_memory: assembly.read_only_because.is_some(),
        overlaid: vec![false; assembly.slots.len()],
        pool: Pool::new(0),
    };
    let told = match (assembly.replay, &assembly.journal) {
        (Replay::Ppl, _) => ppl::replay(&mut rows)?,
        (Replay::Journal, Some(journal)) => journal::replay(&mut rows, journal)?,
        (Replay::Journal | Replay::None, _) => return Ok(()),
    };
    assembly.warnings.push(told);
    Ok(())
}

/// The members by slot, in member data sectors.
struct Rows<'a> {
    parity: Parity,
    slots: &'a [SlotPlan],
    members: &'a mut [Candidate],
    in_memory: bool,
    /// By slot: does memory lie over the member already?
    overlaid: Vec<bool>,
    pool: Pool,
}

impl Rows<'_> {
    /// What `slot` has at `sector`; `None` where nothing right is there, or it cannot be read.
    fn read(&self, slot: Slot, sector: Sector, len_bytes: usize) -> Option<Buf> {
        let plan = self.slots[slot.index()];
        let end = Sector(sector.0 + SectorCount::floor_bytes(len_bytes as u64).0);
        let is_right = match plan.state {
            MemberState::InSync => true,
            MemberState::Rebuilding { recovered } => end <= recovered,
            MemberState::Missing => false,
        };
        let member = &self.members[plan.member.filter(|_| is_right)?];
        let base = member.superblock().data_offset;
        let (start, end) = (base.0 + sector.0, base.0 + end.0);
        if member.bad_blocks.iter().any(|(bad, len)| bad.0 < end && start < bad.0 + len.0) {
            return None;
        }
        let mut bytes = self.pool.take(len_bytes);
        member.device.read_at(Sector(start).byte_offset(), &mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes to `slot`, if somebody holds it.
    fn write(&mut self, slot: Slot, sector: Sector, bytes: &[u8]) -> Result<(), DeviceError> {
        let Some(index) = self.slots[slot.index()].member else { return Ok(()) };
        if self.in_memory && !self.overlaid[slot.index()] {
            self.members[index].device = Arc::new(Overlay::in_memory(Arc::clone(&self.members[index].device)));
            self.overlaid[slot.index()] = true;
        }
        let member = &self.members[index];
        let at = Sector(member.superblock().data_offset.0 + sector.0);
        member.device.write_at(at.byte_offset(), &self.pool.copy(bytes))
    }

    /// Makes all that was written durable.
    fn flush(&self) -> Result<(), DeviceError> {
        let held = self.slots.iter().filter_map(|slot| slot.member);
        held.into_iter().try_for_each(|index| self.members[index].device.flush())
    }
}
