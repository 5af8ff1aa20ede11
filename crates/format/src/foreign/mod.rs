//! Containers of other makers' RAID: what their metadata says of volumes, in one form that md's arithmetic can read.
//!
//! Everything here is read and nothing ever written. The parsers take bytes and give checked values; [`ForeignVolume`] is what
//! both kinds come to. Sources: the SNIA "Common RAID Disk Data Format Specification" 2.0 and, for Intel's format, which has no
//! public specification, what mdadm writes into containers and says of them.

pub mod ddf;
pub mod imsm;

use uraid_types::{Layout, Level, Sector, SectorCount};

/// What tells a disk of a container from its others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskKey {
    /// DDF: the reference number that each disk holds of itself.
    Reference(u32),
    /// IMSM: the place in the table of disks; no disk says which one it is.
    Index(u8),
}

/// Where the data of one slot lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignMember {
    /// The disk; `None` where the container itself says that it is gone.
    pub disk: Option<DiskKey>,
    /// The first sector of the slot's data on that disk.
    pub start: Sector,
    /// Are its contents complete?
    pub in_sync: bool,
}

/// A volume of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignVolume {
    /// Its name, made printable; empty where it has none.
    pub name: String,
    /// What tells it from others: 24 bytes of DDF, or IMSM's family and number.
    pub id: Vec<u8>,
    /// The level in md's terms.
    pub level: Level,
    /// The layout in md's terms.
    pub layout: Layout,
    /// Sectors in a chunk; 0 where there are none.
    pub chunk: SectorCount,
    /// Data sectors of each slot.
    pub member_sectors: SectorCount,
    /// Sectors that the volume shows, as the container has it.
    pub size: SectorCount,
    /// By slot.
    pub members: Vec<ForeignMember>,
    /// Redundant contents may disagree: initialisation has not ended, or it was not stopped cleanly.
    pub dirty: bool,
    /// The state in words, as the container has it.
    pub state: String,
}

/// Text of fixed length, ended by a NUL, without what steers a terminal.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text)
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}
