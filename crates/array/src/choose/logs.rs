//! What the array's logs of writes (PPL, journal) mean for its start.

use uraid_engine::MemberState;
use uraid_format::{Feature, Superblock};
use uraid_geometry::Geometry;
use uraid_types::{Sector, Slot};

use super::judge::{Judged, is_stale};
use super::{AssembleOptions, AssembleProblem, Replay};
use crate::Candidate;
use crate::replay::ppl::useless_entries;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// What has to be replayed.
    pub replay: Replay,
    /// The candidate that is the journal.
    pub journal: Option<usize>,
    /// Parity of an array that was not stopped cleanly does not hide a wrong block behind a missing member.
    pub closes_write_hole: bool,
    /// Once it is replayed, parity agrees everywhere.
    pub makes_in_sync: bool,
    /// Why nothing may be written.
    pub read_only_because: Option<String>,
    /// The PPL goes.
    pub drops_ppl: bool,
    pub warnings: Vec<String>,
}

impl Logs {
    /// `holders` and `states` by slot; `dirty`: was it not stopped cleanly?
    pub fn of(
        candidates: &[Candidate],
        judged: &Judged,
        (holders, states): (&[Option<usize>], &[MemberState]),
        geometry: &Geometry,
        dirty: bool,
        options: &AssembleOptions,
    ) -> Result<Logs, AssembleProblem> {
        let newest = candidates[judged.freshest].superblock();
        if newest.has(Feature::Journal) {
            return journal(candidates, judged, newest, options);
        }
        if newest.ppl.is_some() {
            let whole = (0..states.len()).filter(|&slot| states[slot] == MemberState::InSync);
            let whole = whole.filter_map(|slot| Some((Slot::from_index(slot), &candidates[holders[slot]?])));
            return Ok(ppl(&whole.collect::<Vec<_>>(), geometry, newest, dirty, options));
        }
        Ok(Logs::default())
    }
}

/// md's rules: the logs are replayed when the array was not stopped cleanly. Did all of them make sense, and was there anything
/// in them, then nothing else needs a resync.
fn ppl(whole: &[(Slot, &Candidate)], geometry: &Geometry, newest: &Superblock, dirty: bool, options: &AssembleOptions) -> Logs {
    let mut logs = Logs { drops_ppl: options.drop_ppl, ..Logs::default() };
    if !options.drop_ppl {
        let what = "it has a partial parity log (PPL), which uraid replays but does not write";
        logs.read_only_because = Some(format!("{what}; --consistency-policy=resync drops the log, and writes"));
    }
    // A clean stop with a resync part way says where that stands, and nothing was being written.
    let Geometry::Parity(parity) = geometry else { return logs };
    if !dirty || newest.resync_offset != Some(Sector(0)) {
        return logs;
    }
    let mut entries = 0;
    let mut torn = 0;
    let mut is_whole = true;
    for (slot, member) in whole {
        match &member.ppl {
            Some(Ok(found)) => {
                entries += found.header.entries.len();
                torn += useless_entries(parity, found, *slot);
            }
            Some(Err(problem)) => {
                is_whole = false;
                logs.warnings.push(format!("the PPL of {} cannot be used: {problem}", member.name()));
            }
            None => is_whole = false,
        }
    }
    if torn > 0 {
        logs.warnings.push(format!("{torn} entries of the PPL are torn and left out"));
    }
    if entries > torn {
        logs.replay = Replay::Ppl;
    }
    logs.closes_write_hole = is_whole;
    logs.makes_in_sync = is_whole && torn == 0 && entries > 0;
    logs
}

fn journal(
    candidates: &[Candidate],
    judged: &Judged,
    newest: &Superblock,
    options: &AssembleOptions,
) -> Result<Logs, AssembleProblem> {
    let is_current = |index: &usize| !is_stale(candidates[*index].superblock().events, newest.events);
    let found = judged.journals();
    let Some(journal) = found.iter().copied().find(is_current) else {
        let stale = found.first().map(|&index| (candidates[index].name().to_owned(), candidates[index].superblock().events));
        let problem = AssembleProblem::Journal { stale, events: newest.events };
        if !options.force {
            return Err(problem);
        }
        let read_only_because = Some("its journal is not here".to_owned());
        let warnings =
            vec![format!("--force took the array without its journal: the last writes may be lost or torn ({problem})")];
        return Ok(Logs { read_only_because, warnings, ..Logs::default() });
    };
    let why = "writes have to go through its journal, which uraid only reads; the kernel's md writes it";
    Ok(Logs { replay: Replay::Journal, journal: Some(journal), read_only_because: Some(why.to_owned()), ..Logs::default() })
}
