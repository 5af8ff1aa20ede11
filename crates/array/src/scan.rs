//! Looking at a member: its superblock, bitmap and bad-block log. Never writes.

use std::fmt;
use std::sync::Arc;

use uraid_device::Device;
use uraid_format::{Bitmap, BitmapError, BitmapSuper, RawSuper, Superblock};
use uraid_types::{Sector, SectorCount};

use crate::Refused;

/// A member with a valid superblock.
#[derive(Clone)]
pub struct Candidate {
    /// The member.
    pub device: Arc<dyn Device>,
    /// Its superblock.
    pub raw: RawSuper,
    /// Its bitmap, where the superblock names one and it can be used.
    pub bitmap: Option<FoundBitmap>,
    /// Why the bitmap that the superblock names cannot be used.
    pub bitmap_problem: Option<BitmapError>,
    /// Member sectors (from the member's start, not its data) whose data is lost.
    pub bad_blocks: Vec<(Sector, SectorCount)>,
}

/// A bitmap of a version that uraid reads and writes.
#[derive(Clone, Debug)]
pub struct FoundBitmap {
    /// Its superblock.
    pub superblock: BitmapSuper,
    /// Its bits.
    pub bits: Bitmap,
}

impl Candidate {
    /// The member's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.info().name
    }

    /// What its superblock says.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.raw.superblock()
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let superblock = self.superblock();
        write!(f, "Candidate({}, {:?}, {} events)", self.name(), superblock.own_role(), superblock.events)
    }
}

/// Reads the metadata of one member.
///
/// # Errors
/// [`Refused`] says why this is no member that can be used.
pub fn scan(device: Arc<dyn Device>) -> Result<Candidate, Refused> {
    let _ = device;
    todo!()
}
