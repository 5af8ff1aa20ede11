//! Where the array's data lies: array sector to (slot, member sector) and back, for every level and layout, and how many
//! member I/Os a write costs.
//!
//! Pure arithmetic: no I/O, no clock, no unsafe, no policy. A [`Shape`] comes from a superblock or from a command line and
//! is checked once, by [`Geometry::new`]; nothing after that can overflow or fail. Member sectors count from the member's
//! data offset; whoever does the I/O adds that.
//!
//! Two kinds of array are told apart because their users differ: [`Copies`] (linear, RAID0, RAID1, RAID10), where each
//! array sector lies on one or more members as it is, and [`Parity`] (RAID4, RAID5, RAID6), which works in stripes.
//!
//! ```
//! use uraid_geometry::{Geometry, Shape};
//! use uraid_types::{Layout, Level, Sector, SectorCount, Slot};
//!
//! let shape = Shape {
//!     level: Level::Raid10,
//!     layout: Layout::default_for(Level::Raid10),
//!     raid_disks: 4,
//!     chunk: SectorCount(8),
//!     member_sectors: vec![SectorCount(800); 4],
//! };
//! let geometry = Geometry::new(&shape).unwrap();
//! assert_eq!(geometry.capacity(), SectorCount(1600));
//! assert!(geometry.survives(&[Slot(0), Slot(2)]));
//! assert!(!geometry.survives(&[Slot(0), Slot(1)]));
//!
//! let Geometry::Copies(copies) = geometry else { unreachable!() };
//! let extent = copies.locate(Sector(9), SectorCount(100));
//! assert_eq!(extent.len, SectorCount(7), "to the end of the chunk");
//! assert_eq!((extent.copies[0].slot, extent.copies[0].sector), (Slot(2), Sector(1)));
//! assert_eq!((extent.copies[1].slot, extent.copies[1].sector), (Slot(3), Sector(1)));
//! ```

mod concat;
mod copies;
mod cost;
mod error;
mod parity;
mod raid10;
mod shape;

pub use copies::{Copies, Extent, MemberExtent, Place, Places};
pub use cost::{IoCount, WriteCost};
pub use error::GeometryError;
pub use parity::{Parity, ParityPlace, ParityRole};
pub use shape::{MAX_MEMBERS, MAX_PARITY_MEMBERS, MAX_SECTORS, Shape};

use uraid_types::{Level, SectorCount, Slot};

/// The address arithmetic of one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// Linear, RAID0 (one copy each), RAID1, RAID10.
    Copies(Copies),
    /// RAID4, RAID5, RAID6.
    Parity(Parity),
}

impl Geometry {
    /// Checks `shape` and prepares its arithmetic.
    ///
    /// # Errors
    /// Any [`GeometryError`]: what md would not run, or what would not fit 64-bit byte addresses.
    pub fn new(shape: &Shape) -> Result<Geometry, GeometryError> {
        shape.check()?;
        if shape.level.has_parity() { Parity::new(shape).map(Geometry::Parity) } else { Copies::new(shape).map(Geometry::Copies) }
    }

    /// The array's size, as Linux would show it.
    #[must_use]
    pub fn capacity(&self) -> SectorCount {
        match self {
            Geometry::Copies(copies) => copies.capacity(),
            Geometry::Parity(parity) => parity.capacity(),
        }
    }

    /// The same array showing no more than `size` of what its members have room for, as containers of other makers' RAID may
    /// have it; more than there is changes nothing.
    #[must_use]
    pub fn limited_to(mut self, size: SectorCount) -> Geometry {
        match &mut self {
            Geometry::Copies(copies) => copies.limit(size),
            Geometry::Parity(parity) => parity.limit(size),
        }
        self
    }

    /// The shape this was made from.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        match self {
            Geometry::Copies(copies) => copies.shape(),
            Geometry::Parity(parity) => parity.shape(),
        }
    }

    /// How many members may be lost, whichever they are.
    #[must_use]
    pub fn max_failures(&self) -> usize {
        match self {
            Geometry::Copies(copies) => copies.copies() - 1,
            Geometry::Parity(parity) => parity.parity_members(),
        }
    }

    /// Is every array sector still there without the `missing` members?
    ///
    /// RAID10 may survive more than [`Geometry::max_failures`]: it depends on which. Slots beyond the array and
    /// repetitions do not count.
    #[must_use]
    pub fn survives(&self, missing: &[Slot]) -> bool {
        let mut lost = vec![false; usize::from(self.shape().raid_disks)];
        for slot in missing {
            if let Some(entry) = lost.get_mut(slot.index()) {
                *entry = true;
            }
        }
        match self {
            Geometry::Copies(copies) => copies.survives(&lost),
            Geometry::Parity(parity) => lost.iter().filter(|&&is_lost| is_lost).count() <= parity.parity_members(),
        }
    }

    /// The length that md's resync offset and its bitmap count over: member data sectors for RAID1, 4, 5 and 6, array
    /// sectors for RAID10, nothing for linear and RAID0.
    #[must_use]
    pub fn resync_sectors(&self) -> SectorCount {
        match self.shape().level {
            Level::Linear | Level::Raid0 => SectorCount(0),
            Level::Raid1 | Level::Raid10 => self.capacity(),
            Level::Raid4 | Level::Raid5 | Level::Raid6 => match self {
                Geometry::Parity(parity) => parity.member_data_sectors(),
                Geometry::Copies(_) => SectorCount(0),
            },
        }
    }
}
