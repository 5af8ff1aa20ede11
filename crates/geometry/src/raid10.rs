//! RAID10: near, far and offset copies, and far copies within sets of members.
//!
//! The near copies of all chunks, in order, fill the members row by row. Far copies repeat that picture further down each
//! member (`far`) or in the row below (`offset`), each time on other members: shifted by the number of near copies, within
//! a set of members.

use uraid_types::{Layout, Raid10Layout, Sector, SectorCount, Slot};

use crate::copies::{Extent, MemberExtent, Place, Places};
use crate::shape::{checked_capacity, to_chunk_end};
use crate::{GeometryError, Shape};

/// A RAID10 array's arithmetic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raid10 {
    chunk: u64,
    members: u64,
    near: u64,
    far: u64,
    offset: bool,
    /// Chunks of the array.
    chunks: u64,
    /// Chunks between a near copy and its next far copy on a member.
    stride: u64,
    /// For each member, the member that holds the next far copy of what it holds; and the inverse.
    next: Vec<u16>,
    previous: Vec<u16>,
}

impl Raid10 {
    pub(crate) fn new(shape: &Shape, layout: Raid10Layout) -> Result<Raid10, GeometryError> {
        let members = u64::from(shape.raid_disks);
        let (near, far) = (u64::from(layout.near_copies), u64::from(layout.far_copies));
        let copies = layout.copies();
        if copies < 2 || copies > usize::from(shape.raid_disks) {
            return Err(GeometryError::Copies { copies, members: usize::from(shape.raid_disks) });
        }
        let chunk = shape.chunk.0;
        let rows = shape.member_sectors[0].0 / chunk / far;
        let places = checked_capacity(rows * chunk, members)?.0 / chunk;
        let chunks = places / near;
        if chunks == 0 {
            let least = SectorCount(chunk * far);
            return Err(GeometryError::MemberTooSmall { slot: Slot(0), found: shape.member_sectors[0], least });
        }
        let overlap =
            || GeometryError::Overlap { layout: Layout::Raid10(layout).to_string(), members: usize::from(shape.raid_disks) };
        let next = next_members(shape.raid_disks, layout).ok_or_else(overlap)?;
        let previous = invert(&next).ok_or_else(overlap)?;
        // Linux derives the stride from the array's size; with a member for each copy that comes to the same.
        let stride = if layout.far_offset { 1 } else { rows };
        let raid10 = Raid10 { chunk, members, near, far, offset: layout.far_offset, chunks, stride, next, previous };
        if raid10.overlaps() { Err(overlap()) } else { Ok(raid10) }
    }

    pub(crate) fn capacity(&self) -> SectorCount {
        SectorCount(self.chunks * self.chunk)
    }

    pub(crate) fn copies(&self) -> usize {
        (self.near * self.far) as usize
    }

    pub(crate) fn locate(&self, array: Sector, max: SectorCount) -> Extent {
        let offset = array.0 % self.chunk;
        let copies = self
            .places(array.0 / self.chunk)
            .map(|(slot, chunk)| Place { slot, sector: Sector(chunk * self.chunk + offset) })
            .collect::<Places>();
        Extent { len: to_chunk_end(array, SectorCount(self.chunk), max), copies }
    }

    /// The slot and the member chunk of each copy of the array's chunk `number`: each near copy followed by its far copies.
    fn places(&self, number: u64) -> impl Iterator<Item = (Slot, u64)> + '_ {
        (0..self.near).flat_map(move |near| {
            let place = number * self.near + near;
            let (row, mut member) = (place / self.members, (place % self.members) as u16);
            let first = if self.offset { row * self.far } else { row };
            (0..self.far).map(move |far| {
                let slot = Slot(member);
                member = self.next[usize::from(member)];
                (slot, first + far * self.stride)
            })
        })
    }

    pub(crate) fn at_member(&self, slot: Slot, sector: Sector, max: SectorCount) -> MemberExtent {
        let chunk = SectorCount(self.chunk);
        let member_chunk = sector.0 / self.chunk;
        let (row, far) = if self.offset {
            (member_chunk / self.far, member_chunk % self.far)
        } else {
            (member_chunk % self.stride, member_chunk / self.stride)
        };
        if far >= self.far {
            return MemberExtent::gap(max);
        }
        let member = (0..far).fold(slot.0, |member, _| self.previous[usize::from(member)]);
        let place = row * self.members + u64::from(member);
        let (number, near) = (place / self.near, place % self.near);
        let len = to_chunk_end(sector, chunk, max);
        if number >= self.chunks {
            return MemberExtent::gap(len);
        }
        let array = Sector(number * self.chunk + sector.0 % self.chunk);
        MemberExtent { len, array: Some(array), copy: (near * self.far + far) as usize }
    }

    /// Chunks after which the members of the copies repeat.
    fn period(&self) -> u64 {
        self.members.min(self.chunks)
    }

    pub(crate) fn survives(&self, lost: &[bool]) -> bool {
        (0..self.period()).all(|number| self.places(number).any(|(slot, _)| !lost[slot.index()]))
    }

    /// Would two copies meet: of one chunk on one member, or of two chunks in one place?
    fn overlaps(&self) -> bool {
        // The copies of a chunk whose near copies wrap to the next row lie where that row's far copies belong.
        let rows_meet = self.offset && !self.members.is_multiple_of(self.near);
        rows_meet || (0..self.period()).any(|number| self.shares_a_member(number))
    }

    fn shares_a_member(&self, number: u64) -> bool {
        let mut slots: Vec<Slot> = self.places(number).map(|(slot, _)| slot).collect();
        slots.sort_unstable();
        slots.windows(2).any(|pair| pair[0] == pair[1])
    }
}

/// For each member, the member of the next far copy; `None` for sets that md does not have.
///
/// Members beyond the last full set join it.
fn next_members(members: u16, layout: Raid10Layout) -> Option<Vec<u16>> {
    let members = u64::from(members);
    let (near, far) = (u64::from(layout.near_copies), u64::from(layout.far_copies));
    let set = match (layout.far_sets, layout.far_sets_improved) {
        (false, false) => members,
        (true, false) => members / far,
        (false, true) => near * far,
        (true, true) => return None,
    };
    let last_start = (members / set - 1) * set;
    let last_len = members - last_start;
    let next = |member: u64| {
        let shifted = member + near;
        // md decides by the shifted member whether this is the larger last set.
        if !members.is_multiple_of(set) && shifted > last_start {
            last_start + (shifted - last_start) % last_len
        } else {
            member / set * set + shifted % set
        }
    };
    Some((0..members).map(|member| next(member) as u16).collect())
}

/// The inverse; `None` when two members share a successor.
fn invert(next: &[u16]) -> Option<Vec<u16>> {
    let mut previous = vec![None; next.len()];
    for (member, &successor) in next.iter().enumerate() {
        let entry = previous.get_mut(usize::from(successor))?;
        if entry.replace(member as u16).is_some() {
            return None;
        }
    }
    previous.into_iter().collect()
}
