//! Members in virtual time: the engine that runs real arrays, on disks of which only the timing is there.
//!
//! Hours of disk time pass in seconds, and the same seed gives the same figures on any machine. Nothing is stored, so contents mean
//! nothing; what is counted is when which member I/O ends. It may not look at a clock, and the engine does not know.
//!
//! ```
//! use uraid_engine::planner::Preference;
//! use uraid_geometry::{Geometry, Shape};
//! use uraid_model::{DiskModel, Load, Setup, random_writes};
//! use uraid_types::{Layout, Level, SectorCount};
//!
//! let shape = Shape {
//!     level: Level::Raid6,
//!     layout: Layout::default_for(Level::Raid6),
//!     raid_disks: 10,
//!     chunk: SectorCount(128),
//!     member_sectors: vec![SectorCount(1 << 30); 10],
//! };
//! let setup = Setup { geometry: Geometry::new(&shape).unwrap(), preference: Preference::default(), disk: DiskModel::ssd() };
//! let measured = random_writes(&setup, &Load { threads: 8, block_bytes: 4096, writes: 100, seed: 1 });
//! assert_eq!(measured.member_ios(), 6.0, "old data, P and Q read, the new ones written");
//! ```

mod disk;
mod run;

pub use disk::{DiskModel, Rotating, SolidState};
pub use run::{Load, Measured, Setup, random_writes};
