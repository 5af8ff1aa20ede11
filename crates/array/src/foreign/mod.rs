//! Containers of other makers' RAID (IMSM, DDF): which volumes their disks make, and an array of one of them that is only read.
//!
//! [`look`] reads what one disk holds, [`Container::of`] puts disks together, [`Container::assemble`] gives an [`Assembly`] like
//! any other, except that nothing can be written: its members are [`uraid_device::ReadOnly`], and its superblocks are made up
//! here to say where the data is.

mod container;
mod read;
mod serial;
mod volume;

pub use container::{Container, ContainerDisk, ContainerError};
pub use read::look;
pub use volume::{VolumeOptions, VolumeProblem};

use std::sync::Arc;

use uraid_device::Device;
use uraid_format::foreign::ddf::DdfMetadata;
use uraid_format::foreign::imsm::ImsmMetadata;

/// What a disk of a container holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// Intel's.
    Imsm(ImsmMetadata),
    /// The SNIA's.
    Ddf(DdfMetadata),
}

impl Metadata {
    /// mdadm's name for the format.
    #[must_use]
    pub fn format(&self) -> &'static str {
        match self {
            Metadata::Imsm(_) => "imsm",
            Metadata::Ddf(_) => "ddf",
        }
    }

    /// What tells containers apart.
    fn family(&self) -> Vec<u8> {
        match self {
            Metadata::Imsm(imsm) => imsm.original_family.to_le_bytes().to_vec(),
            Metadata::Ddf(ddf) => ddf.header.guid.to_vec(),
        }
    }

    /// Goes up with each change.
    fn generation(&self) -> u32 {
        match self {
            Metadata::Imsm(imsm) => imsm.generation,
            Metadata::Ddf(ddf) => ddf.header.sequence,
        }
    }
}

/// A disk with what it holds.
#[derive(Clone)]
pub struct ForeignDisk {
    /// The disk.
    pub device: Arc<dyn Device>,
    /// What it holds.
    pub metadata: Metadata,
    /// Its place in the table of disks, where whoever names it says so: IMSM's disks do not know it.
    pub place: Option<u8>,
}

impl ForeignDisk {
    /// The disk's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.info().name
    }
}
