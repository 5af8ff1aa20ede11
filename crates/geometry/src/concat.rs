//! One copy of everything: members one after another (linear), or striped in zones (RAID0).

use uraid_types::{Raid0Layout, Sector, SectorCount, Slot};

use crate::copies::{MemberExtent, Place};
use crate::shape::{checked_capacity, to_chunk_end};
use crate::{GeometryError, MAX_SECTORS, Shape};

/// Members one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    /// Where each member ends in the array.
    ends: Vec<u64>,
}

impl Linear {
    /// md rounds each member down to the chunk when the superblock has one; arrays without a chunk use every sector.
    pub(crate) fn new(shape: &Shape) -> Result<Linear, GeometryError> {
        let unit = SectorCount(shape.chunk.0.max(1));
        let mut end = 0;
        let mut ends = Vec::with_capacity(shape.member_sectors.len());
        for size in &shape.member_sectors {
            end += size.round_down(unit).0;
            if end > MAX_SECTORS {
                return Err(GeometryError::TooLarge { what: "the array" });
            }
            ends.push(end);
        }
        Ok(Linear { ends })
    }

    pub(crate) fn capacity(&self) -> SectorCount {
        SectorCount(self.ends.last().copied().unwrap_or(0))
    }

    fn start(&self, member: usize) -> u64 {
        if member == 0 { 0 } else { self.ends[member - 1] }
    }

    pub(crate) fn locate(&self, array: Sector, max: SectorCount) -> (Place, SectorCount) {
        let member = self.ends.partition_point(|&end| end <= array.0);
        let place = Place { slot: Slot::from_index(member), sector: Sector(array.0 - self.start(member)) };
        (place, SectorCount(self.ends[member] - array.0).min(max))
    }

    pub(crate) fn at_member(&self, slot: Slot, sector: Sector, max: SectorCount) -> MemberExtent {
        let array = self.start(slot.index()) + sector.0;
        match self.ends[slot.index()].checked_sub(array) {
            None | Some(0) => MemberExtent::gap(max),
            Some(left) => MemberExtent { len: SectorCount(left).min(max), array: Some(Sector(array)), copy: 0 },
        }
    }
}

/// RAID0: striped over all members to the end of the smallest, then over the larger ones to the end of the next, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Striped {
    chunk: SectorCount,
    capacity: SectorCount,
    /// By array address, and equally by member address.
    zones: Vec<Zone>,
}

/// The part of the array between two sizes of members.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    array_start: u64,
    array_end: u64,
    member_start: u64,
    member_end: u64,
    /// The members that reach this far, in slot order.
    slots: Vec<Slot>,
    /// The place, among `slots`, of the zone's first chunk.
    first: u64,
}

impl Striped {
    pub(crate) fn new(shape: &Shape, layout: Raid0Layout) -> Result<Striped, GeometryError> {
        let chunk = shape.chunk;
        let sizes: Vec<u64> = shape.member_sectors.iter().map(|size| size.round_down(chunk).0).collect();
        let mut steps = sizes.clone();
        steps.sort_unstable();
        steps.dedup();
        let mut zones = Vec::with_capacity(steps.len());
        let (mut array_start, mut member_start) = (0, 0);
        for member_end in steps {
            let reaching = (0..sizes.len()).filter(|&index| sizes[index] >= member_end);
            let slots: Vec<Slot> = reaching.map(Slot::from_index).collect();
            let width = slots.len() as u64;
            let length = checked_capacity(member_end - member_start, width)?;
            let array_end = array_start + length.0;
            if array_end > MAX_SECTORS {
                return Err(GeometryError::TooLarge { what: "the array" });
            }
            let counted_from_array_start = (array_start / chunk.0) % width;
            let first = match layout {
                Raid0Layout::Alternate => 0,
                Raid0Layout::Original => counted_from_array_start,
                Raid0Layout::Unspecified if counted_from_array_start == 0 => 0,
                Raid0Layout::Unspecified => return Err(GeometryError::LayoutUnspecified),
            };
            zones.push(Zone { array_start, array_end, member_start, member_end, slots, first });
            (array_start, member_start) = (array_end, member_end);
        }
        // With a chunk that is no power of two Linux masks each size with `chunk - 1` all the same, so that the array ends
        // a little before its last zone does. Figures from Linux 6.1; nothing changes for a power of two.
        let capacity = SectorCount(sizes.iter().map(|size| size & !(chunk.0 - 1)).sum());
        Ok(Striped { chunk, capacity, zones })
    }

    pub(crate) fn capacity(&self) -> SectorCount {
        self.capacity
    }

    pub(crate) fn locate(&self, array: Sector, max: SectorCount) -> (Place, SectorCount) {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.array_end <= array.0)];
        let width = zone.slots.len() as u64;
        let within = array.0 - zone.array_start;
        let (number, offset) = (within / self.chunk.0, within % self.chunk.0);
        let slot = zone.slots[((number + zone.first) % width) as usize];
        let sector = Sector(zone.member_start + number / width * self.chunk.0 + offset);
        // Zones start at chunk boundaries of the array.
        (Place { slot, sector }, to_chunk_end(array, self.chunk, max))
    }

    pub(crate) fn at_member(&self, slot: Slot, sector: Sector, max: SectorCount) -> MemberExtent {
        let zone = self.zones.get(self.zones.partition_point(|zone| zone.member_end <= sector.0));
        let found = zone.and_then(|zone| Some((zone, zone.slots.binary_search(&slot).ok()?)));
        // Past the last whole chunk of this member.
        let Some((zone, position)) = found else { return MemberExtent::gap(max) };
        let width = zone.slots.len() as u64;
        let within = sector.0 - zone.member_start;
        let (row, offset) = (within / self.chunk.0, within % self.chunk.0);
        let number = row * width + (position as u64 + width - zone.first) % width;
        let array = zone.array_start + number * self.chunk.0 + offset;
        let len = to_chunk_end(sector, self.chunk, max);
        match self.capacity.0.checked_sub(array) {
            None | Some(0) => MemberExtent::gap(len),
            Some(left) => MemberExtent { len: SectorCount(left).min(len), array: Some(Sector(array)), copy: 0 },
        }
    }
}
