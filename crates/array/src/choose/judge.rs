//! What each member is worth: in sync, being filled, spare, or out and why.

use std::cmp::Reverse;

use uraid_format::{Feature, Role, Superblock};
use uraid_types::{SECTOR_BYTES, Sector, SectorCount, Slot};

use super::AssembleProblem;
use super::bitmap::Bitmaps;
use crate::create::same_medium;
use crate::{Candidate, Refused, RefusedReason};

/// The judgement on one member.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Holds a slot; what lies before the sector is right, all of it when there is none.
    Active(Slot, Option<Sector>),
    /// Waits for a slot.
    Spare,
    /// Holds writes on their way to the others.
    Journal,
    /// Left out.
    Out(Out),
}

/// Why, and what may still become of it.
#[derive(Debug)]
pub(super) struct Out {
    pub reason: RefusedReason,
    /// The slot that it claims.
    pub claim: Option<Slot>,
    /// Does the bitmap cover what it missed?
    pub readdable: bool,
    /// May `force` take it?
    pub forcible: bool,
}

impl Out {
    /// Out for good.
    fn because(reason: RefusedReason) -> Verdict {
        Verdict::Out(Out { reason, claim: None, readdable: false, forcible: false })
    }
}

/// The judgement on all members of one array.
#[derive(Debug)]
pub(super) struct Judged {
    /// Index of the member whose superblock decides.
    pub freshest: usize,
    /// By candidate.
    pub verdicts: Vec<Verdict>,
    /// Candidates that `force` took.
    pub forced: Vec<usize>,
    /// What makes any start wrong.
    pub conflict: Option<AssembleProblem>,
}

impl Judged {
    /// The candidates whose verdict `is` true of.
    pub fn indices(&self, is: impl Fn(&Verdict) -> bool) -> Vec<usize> {
        (0..self.verdicts.len()).filter(|&index| is(&self.verdicts[index])).collect()
    }

    /// Journals of the array.
    pub fn journals(&self) -> Vec<usize> {
        self.indices(|verdict| matches!(verdict, Verdict::Journal))
    }

    /// Who holds `slot`, and how far.
    pub fn holder(&self, slot: Slot) -> Option<(usize, Option<Sector>)> {
        self.verdicts.iter().enumerate().find_map(|(index, verdict)| match *verdict {
            Verdict::Active(own, recovered) if own == slot => Some((index, recovered)),
            _ => None,
        })
    }

    /// Who claims `slot` but is left out.
    pub fn claimant(&self, slot: Slot) -> Option<(usize, &Out)> {
        self.verdicts.iter().enumerate().find_map(|(index, verdict)| match verdict {
            Verdict::Out(out) if out.claim == Some(slot) => Some((index, out)),
            _ => None,
        })
    }

    /// Those left out, with their reasons.
    pub fn into_refused(self, candidates: &[Candidate]) -> Vec<Refused> {
        let refused = |(verdict, candidate): (Verdict, &Candidate)| match verdict {
            Verdict::Out(out) => Some(Refused { name: candidate.name().to_owned(), reason: out.reason }),
            Verdict::Active(..) | Verdict::Spare | Verdict::Journal => None,
        };
        self.verdicts.into_iter().zip(candidates).filter_map(refused).collect()
    }
}

/// Is a member at `events` so old that it missed updates of one at `freshest`? One less is the mark of a crash between two
/// superblock writes of one update; the role table of the freshest then tells whether the member was active.
pub(super) fn is_stale(events: u64, freshest: u64) -> bool {
    events.saturating_add(1) < freshest
}

/// Judges the members of one array; there is at least one.
pub(super) fn judge(candidates: &[Candidate], force: bool, bitmaps: Bitmaps) -> Judged {
    let mut verdicts: Vec<Option<Verdict>> = candidates.iter().map(|_| None).collect();
    let mut conflict = leave_out_copies(candidates, &mut verdicts);
    let freshest = freshest(candidates, &verdicts);
    let mut judge = Judge { candidates, freshest };
    let verdicts = verdicts.into_iter().enumerate().map(|(index, verdict)| verdict.unwrap_or_else(|| judge.member(index)));
    let mut judged = Judged { freshest, verdicts: verdicts.collect(), forced: Vec::new(), conflict: None };
    judge.settle_replacements(&mut judged);
    conflict = conflict.or_else(|| judge.conflict(&judged));
    judged.conflict = conflict;
    judge.mark_taken_slots(&mut judged);
    if force {
        judge.force(&mut judged);
    }
    judge.mark_readdable(&mut judged, bitmaps);
    judged
}

/// Leaves out what is there twice: one medium under two names, and copies of a member on other media.
fn leave_out_copies(candidates: &[Candidate], verdicts: &mut [Option<Verdict>]) -> Option<AssembleProblem> {
    let mut conflict = None;
    for second in 0..candidates.len() {
        for first in 0..second {
            if verdicts[first].is_some() || verdicts[second].is_some() {
                continue;
            }
            let (a, b) = (&candidates[first], &candidates[second]);
            if same_medium(&*a.device, &*b.device) {
                verdicts[second] = Some(Out::because(RefusedReason::GivenTwice { other: a.name().to_owned() }));
                continue;
            }
            let (one, other) = (a.superblock(), b.superblock());
            if one.device_id != other.device_id || one.device_id.is_nil() {
                continue;
            }
            if let (Role::Active(slot), Role::Active(_)) = (one.own_role(), other.own_role())
                && one.events.abs_diff(other.events) <= 1
            {
                conflict = conflict.or(Some(two_for_slot(slot, a, b)));
            }
            let (older, newer) = if one.events < other.events { (first, second) } else { (second, first) };
            let copy = RefusedReason::Copy {
                other: candidates[newer].name().to_owned(),
                events: candidates[older].superblock().events,
                newest: candidates[newer].superblock().events,
            };
            verdicts[older] = Some(Out::because(copy));
        }
    }
    conflict
}

fn two_for_slot(slot: Slot, first: &Candidate, second: &Candidate) -> AssembleProblem {
    AssembleProblem::TwoForSlot {
        slot,
        first: first.name().to_owned(),
        first_events: first.superblock().events,
        second: second.name().to_owned(),
        second_events: second.superblock().events,
    }
}

/// The member that decides: the highest events. A spare never does: it may come from anywhere. Nor does one that is being
/// filled while another is whole at the same events.
fn freshest(candidates: &[Candidate], verdicts: &[Option<Verdict>]) -> usize {
    let open = (0..candidates.len()).filter(|&index| verdicts[index].is_none());
    let rank = |&index: &usize| {
        let superblock = candidates[index].superblock();
        let active = matches!(superblock.own_role(), Role::Active(_));
        let whole = superblock.recovery_offset.is_none();
        let updated = (superblock.updated_seconds, superblock.updated_micros);
        (active, superblock.events, !superblock.has(Feature::Replacement), whole, updated, Reverse(index))
    };
    open.max_by_key(rank).unwrap_or(0)
}

/// What the members are compared with.
struct Judge<'a> {
    candidates: &'a [Candidate],
    freshest: usize,
}

impl<'a> Judge<'a> {
    fn superblock(&self, index: usize) -> &'a Superblock {
        self.candidates[index].superblock()
    }

    fn newest(&self) -> &'a Superblock {
        self.superblock(self.freshest)
    }

    /// Sectors that every member must have; levels without redundancy take what each has.
    fn used_size(&self) -> SectorCount {
        if self.newest().level.is_redundant() { self.newest().used_size } else { SectorCount(0) }
    }

    fn newest_name(&self) -> String {
        self.candidates[self.freshest].name().to_owned()
    }

    fn recorded(&self, index: usize) -> Option<Role> {
        self.newest().roles.get(self.superblock(index).dev_number as usize).copied()
    }

    /// A first verdict on one member, as if it were alone with the freshest.
    fn member(&self, index: usize) -> Verdict {
        let superblock = self.superblock(index);
        let needed = self.used_size();
        let too_small = superblock.data_size < needed;
        let reason = match superblock.own_role() {
            Role::Faulty => RefusedReason::NoUse { role: "faulty" },
            Role::Journal if self.newest().has(Feature::Journal) => return Verdict::Journal,
            Role::Journal => RefusedReason::NoUse { role: "journal" },
            Role::Active(slot) if !too_small => return self.active(index, slot),
            Role::Spare if !too_small => match self.misaligned(index) {
                None => return Verdict::Spare,
                Some(reason) => reason,
            },
            Role::Active(_) | Role::Spare => RefusedReason::TooSmall { found: superblock.data_size, needed },
        };
        Out::because(reason)
    }

    fn active(&self, index: usize, slot: Slot) -> Verdict {
        let (own, newest) = (self.superblock(index), self.newest());
        let is_whole = own.recovery_offset.is_none();
        let out = |reason, forcible| Verdict::Out(Out { reason, claim: Some(slot), readdable: false, forcible });
        if index != self.freshest {
            let recorded = self.recorded(index);
            let is_recorded = recorded == Some(Role::Active(slot));
            if !is_recorded && self.is_diverged(index) {
                return out(RefusedReason::Diverged { newest: self.newest_name() }, false);
            }
            if is_stale(own.events, newest.events) {
                let (events, freshest) = (own.events, newest.events);
                let reason = RefusedReason::Stale { events, freshest, newest: self.newest_name(), readdable: false };
                return out(reason, is_whole);
            }
            if own.events == newest.events
                && let Some(reason) = self.disagreement(own)
            {
                return out(reason, false);
            }
            if !is_recorded {
                let recorded = role_word(recorded);
                let reason = RefusedReason::NotActive { slot, newest: self.newest_name(), recorded, readdable: false };
                return out(reason, is_whole);
            }
        }
        if usize::from(slot.0) >= usize::from(newest.raid_disks) {
            let reason = RefusedReason::NotActive {
                slot,
                newest: self.newest_name(),
                recorded: format!("an array of {} slots", newest.raid_disks),
                readdable: false,
            };
            return out(reason, false);
        }
        Verdict::Active(slot, own.recovery_offset)
    }

    /// Did it and the freshest each go on without the other? Then no device is active in both tables, and nobody holds the
    /// freshest's slot in its eyes: had it merely failed before the freshest came, another would have held that slot.
    fn is_diverged(&self, index: usize) -> bool {
        let (own, newest) = (self.superblock(index), self.newest());
        let mut pairs = own.roles.iter().zip(&newest.roles);
        let shares_a_member = pairs.any(|(a, b)| a == b && matches!(a, Role::Active(_)));
        let slot = newest.own_role();
        matches!(slot, Role::Active(_)) && !shares_a_member && !own.roles.contains(&slot)
    }

    /// Can the array not be written in the logical blocks of this spare?
    fn misaligned(&self, index: usize) -> Option<RefusedReason> {
        let block_bytes = u64::from(self.candidates[index].device.info().logical_block_bytes);
        let fields = [
            ("data offset", self.superblock(index).data_offset.0),
            ("used size", self.used_size().0),
            ("chunk", self.newest().chunk.0),
        ];
        let (field, found) = fields.into_iter().find(|(_, found)| !found.is_multiple_of(block_bytes / SECTOR_BYTES))?;
        Some(RefusedReason::Misaligned { field, found, block_bytes })
    }

    /// At the same events two superblocks are of one update, and describe one array.
    fn disagreement(&self, own: &Superblock) -> Option<RefusedReason> {
        let newest = self.newest();
        let fields = [
            ("level", own.level.to_string(), newest.level.to_string()),
            ("layout", own.layout.to_string(), newest.layout.to_string()),
            ("chunk", own.chunk.to_string(), newest.chunk.to_string()),
            ("number of slots", own.raid_disks.to_string(), newest.raid_disks.to_string()),
            ("used size", own.used_size.to_string(), newest.used_size.to_string()),
            ("logical block", own.logical_block_bytes.to_string(), newest.logical_block_bytes.to_string()),
        ];
        let (field, found, expected) = fields.into_iter().find(|(_, found, expected)| found != expected)?;
        Some(RefusedReason::Disagrees { field, found, expected, newest: self.newest_name() })
    }

    /// A replacement shares its slot with the original until it is whole; then the original leaves.
    fn settle_replacements(&mut self, judged: &mut Judged) {
        let is_replacement = |index: usize| self.candidates[index].superblock().has(Feature::Replacement);
        for index in 0..judged.verdicts.len() {
            let Verdict::Active(slot, _) = judged.verdicts[index] else { continue };
            let original = (0..judged.verdicts.len()).find(|&other| {
                !is_replacement(other) && matches!(judged.verdicts[other], Verdict::Active(own, None) if own == slot)
            });
            if let Some(original) = original
                && is_replacement(index)
            {
                let reason = RefusedReason::Replacement { slot, original: self.candidates[original].name().to_owned() };
                judged.verdicts[index] = Out::because(reason);
                if index == judged.freshest {
                    judged.freshest = original;
                }
            }
        }
        self.freshest = judged.freshest;
    }

    /// Two that cannot both be right.
    fn conflict(&self, judged: &Judged) -> Option<AssembleProblem> {
        for second in 0..judged.verdicts.len() {
            let Verdict::Active(slot, _) = judged.verdicts[second] else { continue };
            if let Some((first, _)) = judged.holder(slot)
                && first < second
            {
                return Some(two_for_slot(slot, &self.candidates[first], &self.candidates[second]));
            }
        }
        let diverged = |&index: &usize| {
            let fresh = !is_stale(self.superblock(index).events, self.newest().events);
            fresh && matches!(&judged.verdicts[index], Verdict::Out(out) if matches!(out.reason, RefusedReason::Diverged { .. }))
        };
        let second = (0..judged.verdicts.len()).find(diverged)?;
        Some(AssembleProblem::SplitBrain { first: self.newest_name(), second: self.candidates[second].name().to_owned() })
    }

    /// A stale member whose slot has a newer holder has nothing to come back to.
    fn mark_taken_slots(&self, judged: &mut Judged) {
        for index in 0..judged.verdicts.len() {
            let Verdict::Out(Out { reason: RefusedReason::Stale { events, .. }, claim: Some(slot), .. }) = judged.verdicts[index]
            else {
                continue;
            };
            if let Some((holder, _)) = judged.holder(slot) {
                let (by, newest) = (self.candidates[holder].name().to_owned(), self.superblock(holder).events);
                judged.verdicts[index] = Out::because(RefusedReason::RoleTaken { slot, by, events, newest });
            }
        }
    }

    /// Takes the least stale members that are needed for all data to be there, and no more; none when they are not enough.
    fn force(&self, judged: &mut Judged) {
        let mut order = judged.indices(|verdict| matches!(verdict, Verdict::Out(out) if out.forcible));
        order.sort_by_key(|&index| (Reverse(self.superblock(index).events), index));
        let mut held: Vec<bool> =
            (0..self.newest().raid_disks).map(|slot| matches!(judged.holder(Slot(slot)), Some((_, None)))).collect();
        let claimed_by_other = |judged: &Judged, slot: Slot| judged.holder(slot).is_some();
        let mut taken: Vec<(usize, Slot)> = Vec::new();
        for index in order {
            let Verdict::Out(Out { claim: Some(slot), .. }) = judged.verdicts[index] else { continue };
            let is_free = held.get(slot.index()) == Some(&false) && !claimed_by_other(judged, slot);
            if super::start::has_all_data(self.newest(), &held) || !is_free {
                continue;
            }
            held[slot.index()] = true;
            taken.push((index, slot));
        }
        if !super::start::has_all_data(self.newest(), &held) {
            return;
        }
        // The stalest first: what the others make needless is not taken.
        for (index, slot) in taken.into_iter().rev() {
            held[slot.index()] = false;
            if super::start::has_all_data(self.newest(), &held) {
                continue;
            }
            held[slot.index()] = true;
            judged.verdicts[index] = Verdict::Active(slot, None);
            judged.forced.push(index);
        }
        judged.forced.sort_unstable();
    }

    /// Whoever left while the freshest was active, and whose gap the bitmap covers, may come back by way of it.
    fn mark_readdable(&self, judged: &mut Judged, bitmaps: Bitmaps) {
        let newest = self.newest();
        let Role::Active(own_slot) = newest.own_role() else { return };
        let active: Vec<&Candidate> = judged
            .indices(|verdict| matches!(verdict, Verdict::Active(_, None)))
            .into_iter()
            .map(|index| &self.candidates[index])
            .collect();
        let Some(merged) = bitmaps.merged(newest, &active) else { return };
        for index in 0..judged.verdicts.len() {
            let own = self.superblock(index);
            let knew_the_freshest = own.roles.get(newest.dev_number as usize) == Some(&Role::Active(own_slot));
            let Verdict::Out(Out { claim: Some(slot), .. }) = judged.verdicts[index] else { continue };
            let comes_back = judged.holder(slot).is_none() && slot.0 < newest.raid_disks;
            let covered = own.recovery_offset.is_none() && merged.covers(own.events) && judged.forced.is_empty();
            let Verdict::Out(out) = &mut judged.verdicts[index] else { continue };
            if let RefusedReason::Stale { readdable, .. } | RefusedReason::NotActive { readdable, .. } = &mut out.reason
                && knew_the_freshest
                && comes_back
                && covered
            {
                *readdable = true;
                out.readdable = true;
            }
        }
    }
}

fn role_word(role: Option<Role>) -> String {
    match role {
        Some(Role::Active(slot)) => slot.to_string(),
        Some(Role::Spare) => "spare or removed".to_owned(),
        Some(Role::Faulty) => "faulty".to_owned(),
        Some(Role::Journal) => "journal".to_owned(),
        None => "unknown".to_owned(),
    }
}
