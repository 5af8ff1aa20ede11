//! An array that is being reshaped: two arrays over the same members, one of either shape, of which each part of the array is read
//! from the one that it is in.
//!
//! Nothing here is written: md's own rules for carrying a reshape on are not known to this module.

use uraid_format::{BackupHead, Feature, MetadataVersion, RawSuper, Reshape, Role, Superblock};
use uraid_geometry::{Geometry, Parity, ParityRole};
use uraid_types::{Sector, SectorCount, Slot, StripeNo};

use super::bitmap::Bitmaps;
use super::judge::judge;
use super::{AssembleError, AssembleOptions, AssembleProblem, Assembly, start};
use crate::core::{ReshapeStatus, ShapeStatus};
use crate::{Candidate, Refused};

/// mdadm takes no backup that was written longer before the array's last update than this, in seconds, nor so much after.
const OLDEST_BACKUP: u64 = 2 * 60 * 60;

/// The other one of the two shapes that an array is in while it is reshaped, and which part is where.
#[derive(Debug)]
pub struct Reshaping {
    /// The array in its other shape, over the same members.
    pub other: Assembly,
    /// The array from its start to its end.
    pub parts: Vec<ReshapePart>,
    /// For reports.
    pub status: ReshapeStatus,
}

/// A part of an array that is being reshaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReshapePart {
    /// Array sector where it ends; it begins where the one before it ends.
    pub end: Sector,
    /// Where it is read from.
    pub from: ReshapeSource,
}

/// Where a part of an array that is being reshaped is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReshapeSource {
    /// In the shape of the assembly that has the [`Reshaping`].
    Own,
    /// In the shape of [`Reshaping::other`].
    Other,
    /// In the backup file; to this sector of it the array sector is added, wrapping, to find where.
    Backup(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Before,
    After,
}

/// The members in terms of either shape.
pub(super) struct Shapes {
    newest: Superblock,
    reshape: Reshape,
    before: Vec<Candidate>,
    after: Vec<Candidate>,
}

impl Shapes {
    /// `None` where the freshest of the members knows of no reshape.
    pub fn of(candidates: &[Candidate]) -> Option<Shapes> {
        let newest = candidates.get(judge(candidates, false, Bitmaps::OfMembers).freshest)?.superblock().clone();
        let reshape = newest.reshape?;
        let shaped = |which| {
            let shaper = Shaper { which, newest: &newest, reshape };
            candidates.iter().map(|candidate| shaper.shaped(candidate)).collect()
        };
        Some(Shapes { reshape, before: shaped(Which::Before), after: shaped(Which::After), newest: newest.clone() })
    }

    /// The shape with more slots, in which each member has one: the array is shown in it.
    fn own(&self) -> Which {
        if self.reshape.delta_disks < 0 { Which::Before } else { Which::After }
    }

    /// The members in the shape in which the array is shown.
    pub fn own_members(&self) -> &[Candidate] {
        match self.own() {
            Which::Before => &self.before,
            Which::After => &self.after,
        }
    }

    fn geometry(&self, which: Which) -> Result<Geometry, AssembleProblem> {
        let shaper = Shaper { which, newest: &self.newest, reshape: self.reshape };
        start::redundant_geometry(&shaper.superblock(&self.newest))
            .map_err(|error| AssembleProblem::Shape { newest: format!("the reshape's shape {}", which.word()), error })
    }

    /// What fits in both shapes: an array grows when its reshape ends, and shrinks before it begins.
    pub fn capacity(&self) -> Result<SectorCount, AssembleProblem> {
        Ok(self.geometry(Which::Before)?.capacity().min(self.geometry(Which::After)?.capacity()))
    }

    /// The reshape for reports.
    pub fn status(&self) -> Result<ReshapeStatus, AssembleProblem> {
        let shape = |which| {
            let superblock = Shaper { which, newest: &self.newest, reshape: self.reshape }.superblock(&self.newest);
            ShapeStatus {
                raid_disks: superblock.raid_disks,
                layout: superblock.layout.to_string(),
                layout_number: superblock.layout.md_number(superblock.level),
                chunk_bytes: superblock.chunk.bytes(),
            }
        };
        Ok(ReshapeStatus {
            position_sectors: self.reshape.position.0,
            size_sectors: self.capacity()?.0,
            backwards: self.reshape.backwards,
            before: shape(Which::Before),
            after: shape(Which::After),
            in_place: self.rewrites_in_place()?,
        })
    }

    /// Would the next rows of the shape after lie where data of the shape before still is? Then md goes on only with what it is
    /// about to overwrite in a backup file.
    fn rewrites_in_place(&self) -> Result<bool, AssembleProblem> {
        let (before, after) = (self.geometry(Which::Before)?, self.geometry(Which::After)?);
        let capacity = before.capacity().min(after.capacity());
        let Reshape { position, backwards, new_chunk, .. } = self.reshape;
        let done = if backwards { position.0 == 0 } else { position.0 >= capacity.0 };
        // RAID10's always moves its data out of the way.
        let (Geometry::Parity(before), Geometry::Parity(after)) = (before, after) else { return Ok(false) };
        if done {
            return Ok(false);
        }
        let chunk = self.newest.chunk.0.max(new_chunk.0);
        let row = |shape: &Parity| {
            let row_sectors = chunk.saturating_mul(shape.data_members() as u64);
            let row = if backwards { position.0.div_ceil(row_sectors) } else { position.0 / row_sectors };
            i128::from(row) * i128::from(chunk)
        };
        let (old, new) = (row(&before), row(&after));
        let moves =
            self.before.iter().zip(&self.after).map(|(before, after)| {
                i128::from(after.superblock().data_offset.0) - i128::from(before.superblock().data_offset.0)
            });
        Ok(moves.into_iter().any(|moved| if backwards { new + moved <= old } else { new + moved >= old }))
    }

    /// The parts of the array, once it is clear that none of them needs a backup that is not there.
    fn parts(&self, backup: Option<&BackupHead>, options: &AssembleOptions) -> Result<Vec<ReshapePart>, AssembleProblem> {
        let capacity = Sector(self.capacity()?.0);
        let position = self.reshape.position.min(capacity);
        let saved = match backup {
            Some(head) => self.saved(head, position, options)?,
            None => Vec::new(),
        };
        if saved.is_empty() && self.rewrites_in_place()? && !options.invalid_backup {
            return Err(AssembleProblem::NeedsBackup { position, given: backup.is_some() });
        }
        let source = |which| if which == self.own() { ReshapeSource::Own } else { ReshapeSource::Other };
        let (before, after) = (source(Which::Before), source(Which::After));
        let (first, last) = if self.reshape.backwards { (before, after) } else { (after, before) };
        let mut parts = Vec::new();
        let mut add = |end: Sector, from| {
            let start = parts.last().map_or(Sector(0), |part: &ReshapePart| part.end);
            if end.min(capacity) > start {
                parts.push(ReshapePart { end: end.min(capacity), from });
            }
        };
        let lowest = saved.first().filter(|_| self.reshape.backwards);
        add(lowest.map_or(position, |&(start, ..)| Sector(start)), first);
        saved.iter().for_each(|&(_, end, shift)| add(Sector(end), ReshapeSource::Backup(shift)));
        add(capacity, last);
        Ok(parts)
    }

    /// What the backup has of the array next to the position, on the side that is still to be reshaped: array sectors from and to,
    /// in order, and what leads from them to the file's.
    fn saved(
        &self,
        head: &BackupHead,
        position: Sector,
        options: &AssembleOptions,
    ) -> Result<Vec<(u64, u64, u64)>, AssembleProblem> {
        let refuse = |why: String| Err(AssembleProblem::Backup { why });
        // Version 0.90 keeps the UUID's words in the machine's order.
        let own = self.newest.array_id.into_bytes();
        let swapped: Vec<u8> = own.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
        if head.array_id.as_bytes() != &own && head.array_id.as_bytes()[..] != swapped[..] {
            return refuse(format!("it is of array {}, not of {}", head.array_id, self.newest.array_id));
        }
        let age = self.newest.updated_seconds.abs_diff(head.written_seconds);
        if age > OLDEST_BACKUP && !options.force {
            return refuse(format!(
                "it was written {age} seconds from the array's last update: it may be of an earlier reshape; --force takes it"
            ));
        }
        let mut sections: Vec<(u64, u64, u64)> = head
            .sections
            .iter()
            .map(|section| {
                (section.array.0, section.array.0.saturating_add(section.len.0), section.file.0.wrapping_sub(section.array.0))
            })
            .collect();
        sections.sort_unstable();
        if self.reshape.backwards {
            sections.reverse();
        }
        let (mut reached, mut saved) = (position.0, Vec::new());
        for (start, end, shift) in sections {
            if self.reshape.backwards && start < reached && end >= reached {
                saved.push((start, reached, shift));
                reached = start;
            } else if !self.reshape.backwards && start <= reached && end > reached {
                saved.push((reached, end, shift));
                reached = end;
            }
        }
        saved.sort_unstable();
        Ok(saved)
    }

    /// The array in both shapes, for reading.
    ///
    /// # Errors
    /// Why it cannot be read in one of them, or without a backup.
    pub fn choose(
        self,
        refused: Vec<Refused>,
        options: &AssembleOptions,
        backup: Option<&BackupHead>,
    ) -> Result<Assembly, AssembleError> {
        let prepared = self.parts(backup, options).and_then(|parts| Ok((parts, self.status()?, self.capacity()?)));
        let (parts, status, capacity) = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => return Err(AssembleError { problem, refused }),
        };
        let own = self.own();
        let other = own.other();
        let (own_members, other_members) = match own {
            Which::Before => (self.before, self.after),
            Which::After => (self.after, self.before),
        };
        let reading = AssembleOptions { read_only: true, bitmap_file: None, drop_bitmap: false, ..options.clone() };
        let named = |which: Which, error: AssembleError| AssembleError {
            problem: AssembleProblem::InShape { which: which.word(), problem: Box::new(error.problem) },
            refused: error.refused,
        };
        let mut assembly = super::choose_shape(own_members, refused, &reading).map_err(|error| named(own, error))?;
        // Who is missing has been judged; in a shape of fewer slots more are.
        let other_options = AssembleOptions { run: true, ..reading.clone() };
        let mut second = super::choose_shape(other_members, Vec::new(), &other_options).map_err(|error| named(other, error))?;
        second.geometry = second.geometry.limited_to(capacity);
        assembly.geometry = assembly.geometry.limited_to(capacity);
        assembly.degraded = assembly.degraded.max(second.degraded);
        assembly.read_only_because = Some(format!("{}: uraid reads such an array, and writes none", status.words()));
        if status.in_place && options.invalid_backup && !parts.iter().any(|part| matches!(part.from, ReshapeSource::Backup(_))) {
            assembly.warnings.push(format!(
                "--invalid-backup: if the reshape was cut short, what lies next to array sector {} is wrong",
                status.position_sectors
            ));
        }
        assembly.reshape = Some(Box::new(Reshaping { other: second, parts, status }));
        Ok(assembly)
    }
}

impl Which {
    fn other(self) -> Which {
        match self {
            Which::Before => Which::After,
            Which::After => Which::Before,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Which::Before => "before",
            Which::After => "after",
        }
    }
}

/// Puts superblocks into terms of one shape.
struct Shaper<'a> {
    which: Which,
    newest: &'a Superblock,
    reshape: Reshape,
}

impl Shaper<'_> {
    fn shaped(&self, candidate: &Candidate) -> Candidate {
        Candidate {
            raw: RawSuper::from_new(self.superblock(candidate.superblock())),
            bitmap: None,
            bitmap_problem: None,
            ppl: None,
            ..candidate.clone()
        }
    }

    /// The superblock as it is in this shape, without what counts for writing only.
    fn superblock(&self, superblock: &Superblock) -> Superblock {
        let mut shaped = match self.which {
            Which::Before => superblock.before_reshape(),
            Which::After => superblock.after_reshape(),
        };
        let chunk = self.newest.chunk.0.max(self.reshape.new_chunk.0).max(1);
        shaped.used_size = SectorCount(shaped.used_size.0 - shaped.used_size.0 % chunk);
        shaped.bitmap_offset = None;
        shaped.ppl = None;
        let slots = shaped.raid_disks;
        for role in &mut shaped.roles {
            if matches!(role, Role::Active(slot) if slot.0 >= slots) {
                *role = Role::Spare;
            }
        }
        if superblock.recovery_offset.is_some() || self.is_new_parity(&shaped) {
            self.settle_recovery(&mut shaped);
        }
        shaped
    }

    /// A member that came with the reshape has all that is in the shape after, and nothing of what is in the one before. One that
    /// a recovery had begun to fill has only as much as is recorded.
    fn settle_recovery(&self, shaped: &mut Superblock) {
        let recovered = shaped.recovery_offset;
        let reached = || {
            let capacity = start::redundant_geometry(shaped).ok()?.capacity().0.max(1);
            let rows = (u128::from(self.reshape.position.0) * u128::from(shaped.used_size.0)).div_ceil(u128::from(capacity));
            u64::try_from(rows).ok()
        };
        let has_all = self.which == Which::After
            && !self.reshape.backwards
            && recovered.is_none_or(|recovered| reached().is_some_and(|reached| recovered.0 >= reached));
        if has_all {
            shaped.recovery_offset = None;
        } else if self.which == Which::Before || self.reshape.backwards {
            let own = shaped.dev_number as usize;
            if let Some(role) = shaped.roles.get_mut(own) {
                *role = Role::Spare;
            }
            shaped.recovery_offset = None;
            shaped.set_feature(Feature::RecoveryOffset, false);
        }
    }

    /// Version 0.90 does not record that a member is being filled while it is reshaped. One that holds nothing but parity in the
    /// shape before may be new: none of that is relied on.
    fn is_new_parity(&self, shaped: &Superblock) -> bool {
        let Role::Active(slot) = shaped.own_role() else { return false };
        self.which == Which::Before
            && shaped.version == MetadataVersion::V0_90
            && start::redundant_geometry(shaped).is_ok_and(|geometry| holds_only_parity(&geometry, slot))
    }
}

/// Does `slot` hold no data, whatever the stripe?
pub(super) fn holds_only_parity(geometry: &Geometry, slot: Slot) -> bool {
    let Geometry::Parity(parity) = geometry else { return false };
    let period = u64::from(parity.shape().raid_disks) * 2;
    (0..period.min(parity.stripes())).all(|stripe| !matches!(parity.role(StripeNo(stripe), slot), ParityRole::Data(_)))
}
