//! How a write to one stripe is done: which blocks are read, and how parity comes about. Pure.
//!
//! A plan is made for rows that are written alike, that is for a set of data blocks that are replaced whole. The writes are the
//! same whatever the method (the new data and all parity there is), so as long as every I/O costs the same, the method with the
//! fewest reads has the fewest member I/Os. Members whose I/Os differ are described by [`IoCosts`].

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

/// May old data and old parity be read and changed by the difference? md's `rmw_level` 0, 1 and 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RmwPolicy {
    /// Only where nothing else is possible.
    Never,
    /// Where it costs less.
    #[default]
    Auto,
    /// Where it costs no more.
    Prefer,
}

/// What member I/Os cost, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCosts {
    /// A read.
    pub read: u32,
    /// A write of a block that was not read for it.
    pub write: u32,
    /// A write of a block that has just been read: a rotating disk has to wait until it comes by again.
    pub rewrite: u32,
}

impl Default for IoCosts {
    /// Every I/O counts the same.
    fn default() -> IoCosts {
        IoCosts { read: 1, write: 1, rewrite: 1 }
    }
}

/// How a method is picked where several are possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// May parity be changed by the difference?
    pub rmw: RmwPolicy,
    /// What is summed up.
    pub costs: IoCosts,
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

    /// What it costs to carry it out on these rows.
    #[must_use]
    pub fn cost(&self, rows: &Rows<'_>, costs: IoCosts) -> u64 {
        let data = rows.data.iter().zip(rows.written).enumerate();
        let data =
            data.filter(|(_, (block, written))| block.writable && **written).map(|(index, _)| self.read_data.contains(&index));
        let p = rows.p.writable.then_some(self.read_p);
        let q = rows.q.filter(|q| q.writable).map(|_| self.read_q);
        let writes = data.chain(p).chain(q).map(|was_read| u64::from(if was_read { costs.rewrite } else { costs.write }));
        self.reads() as u64 * u64::from(costs.read) + writes.sum::<u64>()
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

/// The plan that costs least; `None` when the stripe has lost too much for any.
#[must_use]
pub fn plan(rows: &Rows<'_>, preference: Preference) -> Option<Plan> {
    let parity_writable = rows.p.writable || rows.q.is_some_and(|q| q.writable);
    if !parity_writable {
        // Without parity there is nothing that could hold what a lost data member should get.
        let all_fit = rows.data.iter().zip(rows.written).all(|(block, &written)| !written || block.writable);
        return all_fit.then(|| Plan { method: Method::DataOnly, read_data: Vec::new(), read_p: false, read_q: false });
    }
    // Of those that cost the same the first is taken. With all but a lost block written, rebuilding that one costs least.
    let rebuild = || rebuild_first(rows).filter(|_| rows.trust != ParityTrust::Stale);
    let candidates = match preference.rmw {
        RmwPolicy::Never => [reconstruct(rows), rebuild(), None],
        RmwPolicy::Auto => [reconstruct(rows), read_modify_write(rows), rebuild()],
        RmwPolicy::Prefer => [read_modify_write(rows), reconstruct(rows), rebuild()],
    };
    let cheapest = candidates.into_iter().flatten().min_by_key(|plan| plan.cost(rows, preference.costs));
    cheapest.or_else(|| rebuild_first(rows))
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
mod tests;
