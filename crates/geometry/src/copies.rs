//! Arrays that keep the data as it is, on one or more members: linear, RAID0, RAID1, RAID10.

use smallvec::{SmallVec, smallvec};
use uraid_types::{Layout, Level, Sector, SectorCount, Slot};

use crate::concat::{Linear, Striped};
use crate::raid10::Raid10;
use crate::{GeometryError, Shape};

/// The copies of an extent; up to four without allocation.
pub type Places = SmallVec<[Place; 4]>;

/// A linear, RAID0, RAID1 or RAID10 array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    shape: Shape,
    map: Map,
    capacity: SectorCount,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Map {
    Linear(Linear),
    Striped(Striped),
    Mirror,
    Raid10(Raid10),
}

/// One copy of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The member.
    pub slot: Slot,
    /// Its data sector, counted from the data offset.
    pub sector: Sector,
}

/// A run of array sectors that is contiguous on every member that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Sectors in the run; 0 only past the array's end or when none were asked for.
    pub len: SectorCount,
    /// All copies, copy 0 first, each on another member; empty when `len` is 0.
    pub copies: Places,
}

/// What a run of one member's data sectors holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberExtent {
    /// Sectors in the run; 0 only past the member's end, on a slot that does not exist, or when none were asked for.
    pub len: SectorCount,
    /// The array sector stored at the run's start; `None` when the run holds no data.
    pub array: Option<Sector>,
    /// Which copy it is: the index into [`Extent::copies`]. 0 when there is no data.
    pub copy: usize,
}

impl MemberExtent {
    pub(crate) const fn gap(len: SectorCount) -> MemberExtent {
        MemberExtent { len, array: None, copy: 0 }
    }
}

impl Copies {
    /// A `shape` of which [`Shape::check`] approves.
    pub(crate) fn new(shape: &Shape) -> Result<Copies, GeometryError> {
        let (map, capacity) = match (shape.level, shape.layout) {
            (Level::Linear, _) => {
                let linear = Linear::new(shape)?;
                let capacity = linear.capacity();
                (Map::Linear(linear), capacity)
            }
            (Level::Raid0, Layout::Raid0(layout)) => {
                let striped = Striped::new(shape, layout)?;
                let capacity = striped.capacity();
                (Map::Striped(striped), capacity)
            }
            (Level::Raid1, _) => (Map::Mirror, shape.member_sectors[0]),
            (Level::Raid10, Layout::Raid10(layout)) => {
                let raid10 = Raid10::new(shape, layout)?;
                let capacity = raid10.capacity();
                (Map::Raid10(raid10), capacity)
            }
            (level, layout) => return Err(GeometryError::ForeignLayout { level, layout: layout.to_string() }),
        };
        Ok(Copies { shape: shape.clone(), map, capacity })
    }

    /// Shows `size` at most.
    pub(crate) fn limit(&mut self, size: SectorCount) {
        self.capacity = self.capacity.min(size);
    }

    /// The shape this was made from.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The array's size.
    #[must_use]
    pub fn capacity(&self) -> SectorCount {
        self.capacity
    }

    /// Copies of each array sector, at least 1.
    #[must_use]
    pub fn copies(&self) -> usize {
        match &self.map {
            Map::Linear(_) | Map::Striped(_) => 1,
            Map::Mirror => usize::from(self.shape.raid_disks),
            Map::Raid10(raid10) => raid10.copies(),
        }
    }

    /// Where `array` lives, and how many sectors from there on, `max` at most, are contiguous on every copy.
    ///
    /// The run ends with the chunk (RAID0, RAID10), the member (linear) or the array.
    #[must_use]
    pub fn locate(&self, array: Sector, max: SectorCount) -> Extent {
        let left = SectorCount(self.capacity.0.saturating_sub(array.0)).min(max);
        if left.is_zero() {
            return Extent { len: left, copies: Places::new() };
        }
        match &self.map {
            Map::Linear(linear) => {
                let (place, len) = linear.locate(array, left);
                Extent { len, copies: smallvec![place] }
            }
            Map::Striped(striped) => {
                let (place, len) = striped.locate(array, left);
                Extent { len, copies: smallvec![place] }
            }
            Map::Mirror => {
                let slots = (0..self.shape.raid_disks).map(Slot);
                Extent { len: left, copies: slots.map(|slot| Place { slot, sector: array }).collect() }
            }
            Map::Raid10(raid10) => raid10.locate(array, left),
        }
    }

    /// Which array sector the member `slot` stores at `sector`, and how many sectors from there on, `max` at most, follow
    /// it contiguously (or hold no data either): the inverse of [`Copies::locate`], for the recovery of a member.
    #[must_use]
    pub fn at_member(&self, slot: Slot, sector: Sector, max: SectorCount) -> MemberExtent {
        let size = self.shape.member_sectors.get(slot.index()).map_or(0, |size| size.0);
        let left = SectorCount(size.saturating_sub(sector.0)).min(max);
        if left.is_zero() {
            return MemberExtent::gap(left);
        }
        match &self.map {
            Map::Linear(linear) => linear.at_member(slot, sector, left),
            Map::Striped(striped) => striped.at_member(slot, sector, left),
            Map::Mirror => MemberExtent { len: left, array: Some(sector), copy: slot.index() },
            Map::Raid10(raid10) => raid10.at_member(slot, sector, left),
        }
    }

    /// Is there a copy of everything outside the members that are `lost`?
    pub(crate) fn survives(&self, lost: &[bool]) -> bool {
        match &self.map {
            Map::Linear(_) | Map::Striped(_) => !lost.contains(&true),
            Map::Mirror => lost.contains(&false),
            Map::Raid10(raid10) => raid10.survives(lost),
        }
    }
}
