//! The words of the field as types: sectors, slots, levels, layouts.
//!
//! This crate depends on nothing, does no I/O and holds no policy. Every other crate speaks in its terms, so that an
//! index, a count and a size cannot be taken for one another.
//!
//! ```
//! use uraid_types::{Level, Sector, SectorCount};
//! assert_eq!(Sector(8) + SectorCount(8), Sector(16));
//! assert_eq!(SectorCount::from_bytes(4096), Some(SectorCount(8)));
//! assert_eq!("raid6".parse::<Level>().unwrap(), Level::Raid6);
//! ```

mod layout;
mod level;
mod parity_layout;
mod raid10_layout;
mod units;

pub use layout::{Layout, LayoutError, Raid0Layout};
pub use level::{Level, UnknownLevel};
pub use parity_layout::ParityLayout;
pub use raid10_layout::Raid10Layout;
pub use units::{SECTOR_BYTES, Sector, SectorCount, Slot, StripeNo};
