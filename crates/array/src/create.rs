//! Making an array: checks on every member first, then writes.

use std::sync::Arc;

use uraid_device::{Device, DeviceError};
use uraid_format::{ArrayId, BitmapSpec, CreatePlan, MinorVersion};
use uraid_types::{Layout, Level, Sector, SectorCount, Slot};

use crate::Signature;

/// What array to make. Members are given beside it.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// The level.
    pub level: Level,
    /// `None` for the level's default.
    pub layout: Option<Layout>,
    /// `None` for 512 KiB where the level has chunks.
    pub chunk: Option<SectorCount>,
    /// Sectors used of each member; `None` for as many as fit.
    pub size: Option<SectorCount>,
    /// Where superblocks go.
    pub minor: MinorVersion,
    /// Where data begins; `None` for a good place.
    pub data_offset: Option<Sector>,
    /// An internal bitmap.
    pub bitmap: Option<BitmapSpec>,
    /// The array's name, with the home host before a colon as mdadm has it.
    pub name: String,
    /// `None` for a random one.
    pub array_id: Option<ArrayId>,
    /// No resync: what lies on the members is consistent.
    pub assume_clean: bool,
    /// By member in the order given, spares last; missing entries are false.
    pub write_mostly: Vec<bool>,
    /// Overwrite what the members carry.
    pub force: bool,
    /// Check and plan, but write nothing.
    pub dry_run: bool,
}

impl CreateRequest {
    /// An array of `level` with everything else as usual: version 1.2, no bitmap, default layout and chunk.
    #[must_use]
    pub fn new(level: Level) -> CreateRequest {
        CreateRequest {
            level,
            layout: None,
            chunk: None,
            size: None,
            minor: MinorVersion::V1_2,
            data_offset: None,
            bitmap: None,
            name: String::new(),
            array_id: None,
            assume_clean: false,
            write_mostly: Vec::new(),
            force: false,
            dry_run: false,
        }
    }
}

/// What was made, or would be.
#[derive(Clone, Debug)]
pub struct Created {
    /// Bytes and places, member by member.
    pub plan: CreatePlan,
    /// The array's UUID.
    pub array_id: ArrayId,
    /// The level.
    pub level: Level,
    /// The layout.
    pub layout: Layout,
    /// The chunk; 0 where there is none.
    pub chunk: SectorCount,
    /// The array's size.
    pub capacity: SectorCount,
    /// Members it may lose once it is in sync, whichever they are.
    pub max_failures: usize,
    /// Each member: its name, slot (`None` for a spare), data offset and data size.
    pub members: Vec<CreatedMember>,
    /// What `force` overwrote.
    pub overwritten: Vec<(String, Signature)>,
    /// Was it written, or only planned?
    pub written: bool,
}

/// One member of a new array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedMember {
    /// Its name; `missing` for a slot without one.
    pub name: String,
    /// Its slot; `None` for a spare.
    pub slot: Option<Slot>,
    /// First data sector.
    pub data_offset: Sector,
    /// Data sectors that fit.
    pub data_size: SectorCount,
}

/// Why no array was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A wish that cannot be granted. Nothing was written.
    #[error("{}", names_for(.error, .names))]
    Plan {
        /// What is wrong; it counts members from 0.
        error: uraid_format::CreateError,
        /// The members' names in that order.
        names: Vec<String>,
    },
    /// Members that carry something. Nothing was written.
    #[error("{}; --force overwrites it, or wipe it first", .0.iter().map(|(name, what)| format!("{name} carries {what}")).collect::<Vec<_>>().join(", "))]
    Carries(Vec<(String, String)>),
    /// One medium under two names. Nothing was written.
    #[error("{first} and {second} are the same medium")]
    SameMedium {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// Open for reading only. Nothing was written.
    #[error("{0} is open for reading only")]
    ReadOnly(String),
    /// Could not be looked at. Nothing was written.
    #[error("{0}")]
    Unreadable(#[source] DeviceError),
    /// The shape is impossible. Nothing was written.
    #[error("{0}")]
    Shape(#[source] uraid_geometry::GeometryError),
    /// Writing failed half way.
    #[error("{error}; the array was not made: {}", half_way(.begun))]
    Write {
        /// The member, the operation and the cause.
        error: DeviceError,
        /// Members on which something was written.
        begun: Vec<String>,
    },
}

fn names_for(error: &uraid_format::CreateError, names: &[String]) -> String {
    let _ = names;
    error.to_string()
}

fn half_way(begun: &[String]) -> String {
    begun.join(", ")
}

/// Makes an array: `devices` by slot, `None` for a missing one, then the spares.
///
/// Nothing is written before every member has passed every check.
///
/// # Errors
/// [`CreateError`] says what is wrong and with which member.
pub fn create(
    devices: &[Option<Arc<dyn Device>>],
    spares: &[Arc<dyn Device>],
    request: &CreateRequest,
) -> Result<Created, CreateError> {
    let _ = (devices, spares, request);
    todo!()
}
