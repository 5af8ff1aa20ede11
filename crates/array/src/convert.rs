//! Metadata in another version, on all members of an array at rest; the data stays where it is.
//!
//! The new superblocks are written and durable on all members before the first old one is wiped. Cut short, each member has the
//! old superblock, both or the new one, all of them true: doing it again goes on, and undo puts back what was there.

use std::sync::Arc;

use uraid_device::{Device, DeviceError, Pool};
use uraid_format::{self as format, ArrayId, Converted, MetadataVersion, RawSuper};
use uraid_types::{Level, SectorCount};
use uuid::Uuid;

use crate::scan::superblocks;
use crate::undo::{Change, Changed};
use crate::{AssembleError, AssembleOptions, Candidate, Refused, Replay, choose, scan};

/// What is to become of an array.
#[derive(Clone, Copy, Debug)]
pub struct ConvertRequest {
    /// The version that it is to have.
    pub to: MetadataVersion,
    /// Leave the bitmap behind.
    pub drop_bitmap: bool,
    /// Check and plan, but write nothing.
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug)]
pub struct ConvertReport {
    /// The array's UUID.
    pub array_id: ArrayId,
    /// The level.
    pub level: Level,
    /// By member.
    pub members: Vec<ConvertedMember>,
}

/// One member.
#[derive(Clone, Debug)]
pub struct ConvertedMember {
    /// Its name.
    pub name: String,
    /// What it had.
    pub from: MetadataVersion,
    /// Where the superblock is now, in bytes.
    pub super_byte: u64,
    /// Had it been converted before?
    pub was_done: bool,
}

/// Why an array was not converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A member that cannot be used. Nothing was written.
    #[error("{0}; nothing was written")]
    Refused(#[source] Refused),
    /// Members that do not make an array that starts. Nothing was written.
    #[error("the array must be whole and at rest: {0}; nothing was written")]
    Array(#[source] AssembleError),
    /// An array that starts, but is not as it should be. Nothing was written.
    #[error("{what}; nothing was written. {next}")]
    State {
        /// What is wrong.
        what: String,
        /// What to do about it.
        next: &'static str,
    },
    /// A member's superblock does not convert. Nothing was written.
    #[error("{name}: {error}; nothing was written")]
    Member {
        /// Its name.
        name: String,
        /// Why not.
        #[source]
        error: format::ConvertError,
    },
    /// What would be overwritten cannot be saved. Nothing was written.
    #[error("{0}")]
    Undo(String),
    /// A member could not be read. Nothing was written.
    #[error("{0}; nothing was written")]
    Unreadable(#[source] DeviceError),
    /// Writing failed half way.
    #[error("{0}; the array is half converted: convert it again to go on, or undo it")]
    Write(#[source] DeviceError),
}

/// What is to be done to one member.
struct Step {
    device: Arc<dyn Device>,
    from: MetadataVersion,
    super_byte: u64,
    /// The superblock and the log to write; `None` where they are there already.
    new: Option<(Vec<u8>, Option<format::MemberArea>)>,
    /// Old superblocks to wipe.
    old: Vec<std::ops::Range<u64>>,
}

/// Gives the array of `devices`, which are all of its members, the metadata that `request` asks for. `save` gets what will be
/// written before anything is.
///
/// # Errors
/// [`ConvertError`] says why not, and what to do next.
pub fn convert(
    devices: &[Arc<dyn Device>],
    request: &ConvertRequest,
    save: &mut dyn FnMut(&[Changed]) -> Result<(), String>,
) -> Result<ConvertReport, ConvertError> {
    let candidates = devices.iter().map(|device| scan(Arc::clone(device)));
    let candidates = candidates.collect::<Result<Vec<Candidate>, _>>().map_err(ConvertError::Refused)?;
    let (array_id, level) = check_whole(&candidates)?;
    let steps = candidates.iter().map(|candidate| step(candidate, request)).collect::<Result<Vec<Step>, _>>()?;
    let members = steps.iter().map(|step| ConvertedMember {
        name: step.device.info().name.clone(),
        from: step.from,
        super_byte: step.super_byte,
        was_done: step.new.is_none() && step.old.is_empty(),
    });
    let report = ConvertReport { array_id, level, members: members.collect() };
    if !request.dry_run {
        save(&steps.iter().map(Step::changed).filter(|changed| !changed.changes.is_empty()).collect::<Vec<_>>())
            .map_err(ConvertError::Undo)?;
        steps.iter().try_for_each(Step::write_new).map_err(ConvertError::Write)?;
        steps.iter().try_for_each(Step::wipe_old).map_err(ConvertError::Write)?;
    }
    Ok(report)
}

/// Nothing is missing, left out, under way or unclean.
fn check_whole(candidates: &[Candidate]) -> Result<(ArrayId, Level), ConvertError> {
    let assembly = choose(candidates.to_vec(), &AssembleOptions { read_only: true, ..AssembleOptions::default() }, None);
    let mut assembly = assembly.map_err(ConvertError::Array)?;
    let fail = |what: String, next| Err(ConvertError::State { what, next });
    if let Some(out) = assembly.refused.pop() {
        return Err(ConvertError::Refused(out));
    }
    if assembly.reshape.is_some() {
        return fail("the array is being reshaped".to_owned(), "Let the kernel's md finish that first");
    }
    if assembly.degraded > 0 {
        let what = format!("{} of {} slots are not in sync", assembly.degraded, assembly.slots.len());
        return fail(
            what,
            "Give all members, or let the array recover first, since a member left behind would not be known again",
        );
    }
    if assembly.dirty || assembly.resync_from.is_some() {
        return fail("the array was not stopped cleanly".to_owned(), "Resync it first");
    }
    if assembly.replay != Replay::None || assembly.journal.is_some() {
        return fail("the array has a log of writes".to_owned(), "Let the kernel's md remove it first, or resync it");
    }
    let first = assembly.members[assembly.freshest].superblock();
    Ok((first.array_id, first.level))
}

fn step(candidate: &Candidate, request: &ConvertRequest) -> Result<Step, ConvertError> {
    let (device, own) = (&candidate.device, candidate.superblock());
    let member = SectorCount::floor_bytes(device.info().size_bytes);
    let all = superblocks(&**device).map_err(ConvertError::Unreadable)?;
    let is_old = |raw: &&RawSuper| raw.superblock().version != request.to && raw.superblock().array_id == own.array_id;
    let mut old: Vec<_> = all.iter().filter(is_old).map(place).collect();
    let done = all.iter().find(|raw| {
        let found = raw.superblock();
        found.version == request.to && found.array_id == own.array_id && found.events == own.events
    });
    if let Some(done) = done {
        let super_byte = done.superblock().super_offset.byte_offset();
        let bitmap_stays = done.superblock().bitmap_offset.is_some() && request.drop_bitmap;
        if bitmap_stays {
            let what = format!("{} has metadata {} already, with a bitmap", device.info().name, request.to.name());
            return Err(ConvertError::State { what, next: "Only what is converted can leave its bitmap behind" });
        }
        return Ok(Step { device: Arc::clone(device), from: own.version, super_byte, new: None, old });
    }
    let converted = format::convert(&candidate.raw, request.to, member, Uuid::new_v4(), request.drop_bitmap);
    let Converted { superblock, bad_block_log, old_superblock } =
        converted.map_err(|error| ConvertError::Member { name: device.info().name.clone(), error })?;
    if !old.contains(&old_superblock) {
        old.push(old_superblock);
    }
    Ok(Step {
        device: Arc::clone(device),
        from: own.version,
        super_byte: superblock.superblock().super_offset.byte_offset(),
        new: Some((superblock.to_bytes(), bad_block_log)),
        old,
    })
}

/// The bytes that a superblock takes.
fn place(raw: &RawSuper) -> std::ops::Range<u64> {
    let start = raw.superblock().super_offset.byte_offset();
    start..start + raw.to_bytes().len() as u64
}

impl Step {
    fn changed(&self) -> Changed<'_> {
        let new = self.new.iter().flat_map(|(superblock, log)| {
            let log = log.iter().map(|area| (area.start_byte, &area.bytes[..]));
            log.chain([(self.super_byte, &superblock[..])])
        });
        let new = new.map(|(start_byte, bytes)| Change::bytes(start_byte, bytes));
        Changed { device: &*self.device, changes: new.chain(self.old.iter().map(Change::zeros)).collect() }
    }

    fn write_new(&self) -> Result<(), DeviceError> {
        let Some((superblock, log)) = &self.new else { return Ok(()) };
        if let Some(area) = log {
            self.device.write_at(area.start_byte, &Pool::new(0).copy(&area.bytes))?;
            self.device.flush()?;
        }
        self.device.write_at(self.super_byte, &Pool::new(0).copy(superblock))?;
        self.device.flush()
    }

    fn wipe_old(&self) -> Result<(), DeviceError> {
        for range in &self.old {
            self.device.zero(range.start, range.end - range.start, false)?;
        }
        self.device.flush()
    }
}

#[cfg(test)]
mod tests;
