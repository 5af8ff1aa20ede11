//! The array as a whole, for reports: whatever was found, startable or not.

use uraid_engine::MemberState;
use uraid_format::{ArrayId, BackupHead, Feature, MetadataVersion, Role, Superblock};
use uraid_geometry::Geometry;
use uraid_types::{Layout, Level, Sector, SectorCount, Slot};

use super::judge::{Judged, Verdict, judge};
use super::reshape::Shapes;
use super::{AssembleOptions, AssembleProblem, array_ids, array_name, start};
use crate::core::ReshapeStatus;
use crate::{BitmapFile, Candidate, RefusedReason};

/// What is known of one array.
#[derive(Clone, Debug)]
pub struct ArraySurvey {
    /// The array's UUID.
    pub array_id: ArrayId,
    /// Its name as recorded.
    pub name: String,
    /// Where its superblocks lie.
    pub version: MetadataVersion,
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
    /// The logical block that the superblocks record, in bytes; 0 for none.
    pub logical_block_bytes: u32,
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
    /// The reshape that it is in.
    pub reshape: Option<ReshapeStatus>,
    /// By slot.
    pub slots: Vec<SlotSurvey>,
    /// Members in no slot, whatever they are.
    pub others: Vec<OtherSurvey>,
    /// What makes parity or copies agree after an unclean stop: `journal`, `ppl`, `bitmap`, `resync`; `none` without either.
    pub consistency_policy: &'static str,
    /// Names of the spares.
    pub spares: Vec<String>,
    /// Names of members that may be re-added.
    pub readdable: Vec<String>,
    /// Members that are left out: name and reason.
    pub left_out: Vec<(String, String)>,
    /// Slots that are not in sync.
    pub degraded: usize,
    /// Set bits and all bits of the bitmap; `None` without one, or when the array does not start.
    pub bitmap_bits: Option<(u64, u64)>,
    /// Why it does not start as it is; `None` when it does.
    pub obstacle: Option<String>,
    /// Members it could still lose, whichever they are; `None` when it has lost too many, or its size is not known. An array that does not start by
    /// itself may have some to lose.
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

/// The story of a member without a slot.
#[derive(Clone, Debug)]
pub struct OtherSurvey {
    /// Its name.
    pub member: String,
    /// What it is here for.
    pub standing: OtherStanding,
    /// Its events.
    pub events: u64,
    /// Its last update, seconds since 1970.
    pub updated_seconds: u64,
    /// A sentence on it, where there is something to say.
    pub note: Option<String>,
}

/// What a member without a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherStanding {
    /// Waits for a slot.
    Spare,
    /// Holds writes on their way to the others.
    Journal,
    /// Fills up with what a member still there has, to take its place.
    Replacement,
    /// Left out, for the reason in the note.
    LeftOut,
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
pub fn survey(candidates: &[Candidate], options: &AssembleOptions, backup: Option<&BackupHead>) -> Vec<ArraySurvey> {
    let own = |id| candidates.iter().filter(|candidate| candidate.superblock().array_id == id).cloned().collect::<Vec<_>>();
    let ids = array_ids(candidates);
    let only = ids.len() == 1;
    let survey = |own: Vec<Candidate>| {
        // Of several arrays the bitmap's file is one's.
        let is_its = |file: &BitmapFile| only || own.iter().any(|own| own.superblock().bitmap_id() == file.found.superblock.id);
        let options = AssembleOptions { bitmap_file: options.bitmap_file.clone().filter(is_its), ..options.clone() };
        survey_any(&own, &options, backup)
    };
    ids.into_iter().map(|id| survey(own(id))).collect()
}

/// An array in the one shape that it has, or in the one of its two in which each member has a slot.
fn survey_any(candidates: &[Candidate], options: &AssembleOptions, backup: Option<&BackupHead>) -> ArraySurvey {
    let Some(shapes) = Shapes::of(candidates) else { return survey_one(candidates, options) };
    let mut survey = survey_one(shapes.own_members(), options);
    survey.capacity = shapes.capacity().ok();
    survey.reshape = shapes.status().ok();
    "let Linux finish the reshape, or copy the data out: here it is read only".clone_into(&mut survey.next_step);
    match shapes.choose(Vec::new(), options, backup) {
        Ok(assembly) => {
            survey.degraded = assembly.degraded;
            survey.warnings = assembly.warnings;
        }
        Err(error) => {
            survey.survives = None;
            survey.next_step = match error.problem {
                AssembleProblem::NeedsBackup { .. } | AssembleProblem::Backup { .. } => "find the backup file".to_owned(),
                _ => "find the missing members".to_owned(),
            };
            survey.obstacle = Some(error.problem.to_string());
        }
    }
    survey
}

fn survey_one(candidates: &[Candidate], options: &AssembleOptions) -> ArraySurvey {
    let judged = judge(candidates, false, options.bitmaps());
    let started = start::plan(candidates, &judged, options);
    let newest = candidates[judged.freshest].superblock();
    let name = |&index: &usize| candidates[index].name().to_owned();
    let slots: Vec<SlotSurvey> = (0..newest.raid_disks).map(|slot| slot_survey(candidates, &judged, Slot(slot))).collect();
    let lost: Vec<Slot> = slots.iter().filter(|slot| slot.standing != SlotStanding::InSync).map(|slot| slot.slot).collect();
    let geometry = match &started {
        Ok(plan) => Some(plan.geometry.clone()),
        Err(_) if newest.level.is_redundant() => start::redundant_geometry(newest).ok(),
        Err(_) => None,
    };
    let spares = judged.indices(|verdict| matches!(verdict, Verdict::Spare));
    let readdable = judged.indices(|verdict| matches!(verdict, Verdict::Out(out) if out.readdable));
    let bitmap_bits =
        started.as_ref().ok().and_then(|plan| plan.bitmap.as_ref()).map(|merged| (merged.bits.count(), merged.bits.len()));
    ArraySurvey {
        array_id: newest.array_id,
        name: array_name(newest),
        version: newest.version,
        level: newest.level,
        layout: newest.layout,
        chunk: newest.chunk,
        raid_disks: newest.raid_disks,
        used_size: newest.used_size,
        logical_block_bytes: newest.logical_block_bytes,
        capacity: geometry.as_ref().map(Geometry::capacity),
        created_seconds: newest.created_seconds,
        updated_seconds: newest.updated_seconds,
        events: newest.events,
        freshest: name(&judged.freshest),
        reshape: None,
        resync_from: newest.resync_offset.filter(|_| newest.level.is_redundant()),
        degraded: lost.len(),
        bitmap_bits,
        survives: survives(geometry.as_ref(), &lost),
        others: others(candidates, &judged, &slots),
        consistency_policy: if bitmap_bits.is_some() { "bitmap" } else { consistency_policy(newest) },
        next_step: next_step(&started, &spares, &readdable, candidates),
        obstacle: started.as_ref().err().map(ToString::to_string),
        warnings: started.map(|plan| plan.warnings).unwrap_or_default(),
        slots,
        spares: spares.iter().map(name).collect(),
        readdable: readdable.iter().map(name).collect(),
        left_out: judged.into_refused(candidates).into_iter().map(|out| (out.name, out.reason.to_string())).collect(),
    }
}

fn slot_survey(candidates: &[Candidate], judged: &Judged, slot: Slot) -> SlotSurvey {
    let (index, standing, note) = match (judged.holder(slot), judged.claimant(slot)) {
        (Some((index, None)), _) => (Some(index), SlotStanding::InSync, None),
        (Some((index, Some(at))), _) => (Some(index), SlotStanding::Rebuilding(at), None),
        (None, Some((index, out))) => (Some(index), SlotStanding::LeftOut, Some(out.reason.to_string())),
        (None, None) => (None, SlotStanding::Missing, None),
    };
    let superblock = index.map(|index| candidates[index].superblock());
    SlotSurvey {
        slot,
        member: index.map(|index| candidates[index].name().to_owned()),
        standing,
        events: superblock.map(|superblock| superblock.events),
        updated_seconds: superblock.map(|superblock| superblock.updated_seconds),
        recorded_active: candidates[judged.freshest].superblock().roles.contains(&Role::Active(slot)),
        note,
    }
}

fn others(candidates: &[Candidate], judged: &Judged, slots: &[SlotSurvey]) -> Vec<OtherSurvey> {
    let is_in_slot = |name: &str| slots.iter().any(|slot| slot.member.as_deref() == Some(name));
    let other = |(candidate, verdict): (&Candidate, &Verdict)| {
        let (standing, note) = match verdict {
            Verdict::Active(..) => return None,
            Verdict::Spare => (OtherStanding::Spare, None),
            Verdict::Journal => (OtherStanding::Journal, None),
            Verdict::Out(out) => {
                let is_replacement = matches!(out.reason, RefusedReason::Replacement { .. });
                let standing = if is_replacement { OtherStanding::Replacement } else { OtherStanding::LeftOut };
                (standing, Some(out.reason.to_string()))
            }
        };
        let superblock = candidate.superblock();
        Some(OtherSurvey {
            member: candidate.name().to_owned(),
            standing,
            events: superblock.events,
            updated_seconds: superblock.updated_seconds,
            note,
        })
    };
    let all = candidates.iter().zip(&judged.verdicts).filter(|(candidate, _)| !is_in_slot(candidate.name()));
    all.filter_map(other).collect()
}

fn consistency_policy(newest: &Superblock) -> &'static str {
    if newest.has(Feature::Journal) {
        "journal"
    } else if newest.has(Feature::Ppl) || newest.has(Feature::MultiplePpls) {
        "ppl"
    } else if newest.has(Feature::Bitmap) {
        "bitmap"
    } else if newest.level.is_redundant() {
        "resync"
    } else {
        "none"
    }
}

fn survives(geometry: Option<&Geometry>, lost: &[Slot]) -> Option<usize> {
    geometry.filter(|geometry| geometry.survives(lost)).map(|geometry| further_losses(geometry, lost))
}

/// Members that may be lost beyond `lost`, whichever they are. Every set of one, two, ... of the others is tried; no layout in
/// use survives more than a few.
fn further_losses(geometry: &Geometry, lost: &[Slot]) -> usize {
    let slots = geometry.shape().raid_disks;
    match geometry {
        Geometry::Parity(parity) => parity.parity_members().saturating_sub(lost.len()),
        Geometry::Copies(_) if geometry.shape().level == Level::Raid1 => usize::from(slots).saturating_sub(lost.len() + 1),
        Geometry::Copies(copies) => {
            let rest: Vec<Slot> = (0..slots).map(Slot).filter(|slot| !lost.contains(slot)).collect();
            (1..copies.copies()).take_while(|&many| every_choice_survives(geometry, &mut lost.to_vec(), &rest, many)).count()
        }
    }
}

/// Does the array survive the loss of any `many` of `rest` besides `lost`?
fn every_choice_survives(geometry: &Geometry, lost: &mut Vec<Slot>, rest: &[Slot], many: usize) -> bool {
    if many == 0 {
        return geometry.survives(lost);
    }
    (0..rest.len()).all(|index| {
        lost.push(rest[index]);
        let survives = every_choice_survives(geometry, lost, &rest[index + 1..], many - 1);
        lost.pop();
        survives
    })
}

fn next_step(
    started: &Result<start::StartPlan, AssembleProblem>,
    spares: &[usize],
    readdable: &[usize],
    candidates: &[Candidate],
) -> String {
    let names = |indices: &[usize]| indices.iter().map(|&index| candidates[index].name()).collect::<Vec<_>>().join(", ");
    match started {
        Ok(plan) if plan.degraded == 0 && plan.dirty => "assemble it: a resync starts by itself".to_owned(),
        Ok(plan) if plan.degraded == 0 => "assemble it".to_owned(),
        Ok(_) if !readdable.is_empty() => format!("assemble it and re-add {}", names(readdable)),
        Ok(plan) if plan.states.iter().any(|state| matches!(state, MemberState::Rebuilding { .. })) => {
            "assemble it: recovery goes on by itself".to_owned()
        }
        Ok(_) if !spares.is_empty() => format!("assemble it: recovery onto {} starts by itself", names(spares)),
        Ok(_) => "assemble it and add a member: it is degraded".to_owned(),
        Err(AssembleProblem::FewerThanLastTime { .. }) => "find the missing members, or assemble it with --run".to_owned(),
        Err(AssembleProblem::DirtyDegraded { .. }) => {
            "find the missing members; failing that, copy the data out with --read-only --force before anything is written"
                .to_owned()
        }
        Err(AssembleProblem::NotEnough { hint, .. }) if !hint.is_empty() => {
            "find the missing members; failing that, assemble it with --read-only --force and check the contents".to_owned()
        }
        Err(AssembleProblem::Raid0Layout) => {
            "export it with --layout=original and with --layout=alternate, and assemble it with the one that makes sense"
                .to_owned()
        }
        Err(AssembleProblem::NotEnough { .. } | AssembleProblem::OnlySpares(_)) => "find the missing members".to_owned(),
        Err(AssembleProblem::TwoForSlot { .. } | AssembleProblem::SplitBrain { .. }) => {
            "decide which of the two holds the right data, and give the other members with that one only".to_owned()
        }
        Err(_) => "start it with the kernel's md, or mend what the obstacle names".to_owned(),
    }
}
