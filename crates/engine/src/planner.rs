//! How a write to one stripe is done: which blocks are read, and how parity comes about. Pure.
//!
//! A plan is made for rows that are written alike, that is for a set of data blocks that are replaced whole. The writes are the
//! same whatever the method (the new data and all parity there is), so the method with the fewest reads has the fewest member I/Os.

use uraid_types::{Sector, SectorCount};

/// One block of the stripe as the planner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its contents can be read.
    pub readable: bool,
    /// New contents can be written to it.
    pub writable: bool,
}

/// Proof that parity matches data in the rows asked about: read-modify-write and rebuilding need it.
///
/// Only [`ParityTrust::of`] makes one, from where a resync stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedParity(());

/// Does parity match data?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityTrust {
    /// It does.
    Trusted(TrustedParity),
    /// It may not: a resync has yet to come by.
    Stale,
}

impl ParityTrust {
    /// `synced_to`: rows before it are in sync (`None`: all are). `end`: the end of the rows asked about. `marked_clean`: the
    /// bitmap says that nothing was under way there.
    #[must_use]
    pub fn of(synced_to: Option<Sector>, end: Sector, marked_clean: bool) -> ParityTrust {
        match synced_to {
            Some(to) if end > to && !marked_clean => ParityTrust::Stale,
            _ => ParityTrust::Trusted(TrustedParity(())),
        }
    }
}

/// How parity comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Parity is computed from all data, old and new; nothing is read when all is new.
    Reconstruct,
    /// Old data and old parity are read and the difference applied.
    ReadModifyWrite(TrustedParity),
    /// Old data that cannot be read is rebuilt first, then parity is computed from all data.
    RebuildFirst,
    /// There is no parity to write.
    DataOnly,
}

/// What to read, and what to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How.
    pub method: Method,
    /// Data blocks to read, by syndrome index.
    pub read_data: Vec<usize>,
    /// Read P.
    pub read_p: bool,
    /// Read Q.
    pub read_q: bool,
}

impl Plan {
    /// Member reads.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.read_data.len() + usize::from(self.read_p) + usize::from(self.read_q)
    }
}

/// The rows of a stripe that are written alike.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Every data block, in syndrome order.
    pub data: &'a [Block],
    /// P.
    pub p: Block,
    /// Q, at RAID6.
    pub q: Option<Block>,
    /// Which data blocks are replaced whole; as long as `data`.
    pub written: &'a [bool],
    /// Does parity match data?
    pub trust: ParityTrust,
}

/// The plan with the fewest member I/Os; `None` when the stripe has lost too much for any.
#[must_use]
pub fn plan(rows: &Rows<'_>) -> Option<Plan> {
    let parity_writable = rows.p.writable || rows.q.is_some_and(|q| q.writable);
    if !parity_writable {
        // Without parity there is nothing that could hold what a lost data member should get.
        let all_fit = rows.data.iter().zip(rows.written).all(|(block, &written)| !written || block.writable);
        return all_fit.then(|| Plan { method: Method::DataOnly, read_data: Vec::new(), read_p: false, read_q: false });
    }
    let candidates = [reconstruct(rows), read_modify_write(rows)];
    candidates.into_iter().flatten().min_by_key(Plan::reads).or_else(|| rebuild_first(rows))
}

fn reconstruct(rows: &Rows<'_>) -> Option<Plan> {
    let read_data = indices(rows, |_, written| !written);
    let readable = read_data.iter().all(|&index| rows.data[index].readable);
    readable.then_some(Plan { method: Method::Reconstruct, read_data, read_p: false, read_q: false })
}

fn read_modify_write(rows: &Rows<'_>) -> Option<Plan> {
    let ParityTrust::Trusted(proof) = rows.trust else { return None };
    let read_data = indices(rows, |_, written| written);
    let (read_p, read_q) = (rows.p.writable, rows.q.is_some_and(|q| q.writable));
    let readable = read_data.iter().all(|&index| rows.data[index].readable)
        && (!read_p || rows.p.readable)
        && (!read_q || rows.q.is_some_and(|q| q.readable));
    readable.then_some(Plan { method: Method::ReadModifyWrite(proof), read_data, read_p, read_q })
}

fn rebuild_first(rows: &Rows<'_>) -> Option<Plan> {
    let read_data = indices(rows, |block, _| block.readable);
    let lost = rows.data.len() - read_data.len();
    let (has_p, has_q) = (rows.p.readable, rows.q.is_some_and(|q| q.readable));
    let (read_p, read_q) = parity_to_rebuild(lost, has_p, has_q)?;
    Some(Plan { method: Method::RebuildFirst, read_data, read_p, read_q })
}

/// Which parity rebuilds `lost` data blocks; `None` when there is not enough.
pub(crate) fn parity_to_rebuild(lost: usize, has_p: bool, has_q: bool) -> Option<(bool, bool)> {
    match lost {
        0 => Some((false, false)),
        1 if has_p => Some((true, false)),
        1 if has_q => Some((false, true)),
        2 if has_p && has_q => Some((true, true)),
        _ => None,
    }
}

fn indices(rows: &Rows<'_>, wanted: impl Fn(Block, bool) -> bool) -> Vec<usize> {
    (0..rows.data.len()).filter(|&index| wanted(rows.data[index], rows.written[index])).collect()
}

/// The length of a 4 KiB row, in which md counts mismatches.
pub(crate) const ROW: SectorCount = SectorCount(8);

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Block = Block { readable: true, writable: true };
    const GONE: Block = Block { readable: false, writable: false };

    fn trusted() -> ParityTrust {
        ParityTrust::of(None, Sector(8), false)
    }

    fn make(data: &[Block], p: Block, q: Option<Block>, written: &[usize], trust: ParityTrust) -> Option<Plan> {
        let written: Vec<bool> = (0..data.len()).map(|index| written.contains(&index)).collect();
        plan(&Rows { data, p, q, written: &written, trust })
    }

    /// Ten members, RAID6: the published arithmetic of read-modify-write against reconstruct-write.
    #[test]
    fn member_ios_of_the_published_raid6() {
        let count = |written: usize| {
            let written: Vec<usize> = (0..written).collect();
            let plan = make(&[GOOD; 8], GOOD, Some(GOOD), &written, trusted()).unwrap();
            (plan.reads() + written.len() + 2, matches!(plan.method, Method::ReadModifyWrite(_)))
        };
        assert_eq!(count(1), (6, true));
        assert_eq!(count(2), (8, true));
        assert_eq!(count(4), (10, false));
        assert_eq!(count(8), (10, false));
    }

    #[test]
    fn stale_parity_is_never_modified() {
        let stale = ParityTrust::of(Some(Sector(0)), Sector(8), false);
        let plan = make(&[GOOD; 8], GOOD, Some(GOOD), &[0], stale).unwrap();
        assert_eq!((plan.method, plan.reads()), (Method::Reconstruct, 7));
        assert_ne!(ParityTrust::of(Some(Sector(0)), Sector(8), true), ParityTrust::Stale);
        assert_ne!(ParityTrust::of(Some(Sector(8)), Sector(8), false), ParityTrust::Stale);
    }

    #[test]
    fn lost_members_change_the_method() {
        // A write to the lost member itself: all other data makes the parity that stands in for it.
        let plan = make(&[GOOD, GONE, GOOD], GOOD, None, &[1], trusted()).unwrap();
        assert_eq!((plan.method, plan.read_data), (Method::Reconstruct, vec![0, 2]));
        // A write beside the lost member: only the difference keeps the lost data reachable.
        let plan = make(&[GOOD, GONE, GOOD], GOOD, None, &[0], trusted()).unwrap();
        assert!(matches!(plan.method, Method::ReadModifyWrite(_)));
        // RAID6, both kinds at once.
        let plan = make(&[GONE, GONE, GOOD, GOOD], GOOD, Some(GOOD), &[0], trusted()).unwrap();
        assert_eq!((plan.method, plan.reads()), (Method::RebuildFirst, 4));
        // No parity left: data goes out alone.
        let plan = make(&[GOOD; 3], GONE, None, &[0], trusted()).unwrap();
        assert_eq!((plan.method, plan.reads()), (Method::DataOnly, 0));
    }

    #[test]
    fn too_much_lost_is_no_plan() {
        assert_eq!(make(&[GONE, GONE, GOOD], GOOD, None, &[0], trusted()), None);
        assert_eq!(make(&[GONE, GOOD, GOOD], GONE, None, &[0], trusted()), None);
        assert_eq!(make(&[GONE, GONE, GONE, GOOD], GOOD, Some(GOOD), &[0], trusted()), None);
    }
}
