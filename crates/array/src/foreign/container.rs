//! Disks put together to a container.

use uraid_format::foreign::ddf::DdfMetadata;
use uraid_format::foreign::{DiskKey, ForeignVolume};

use super::{ForeignDisk, Metadata, serial};

/// A disk as the container lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerDisk {
    /// What the container knows it by.
    pub key: DiskKey,
    /// Serial number or reference, for people.
    pub label: String,
    /// Its state in words.
    pub state: String,
    /// Index into [`Container::disks`] of the disk that it is.
    pub given: Option<usize>,
}

/// A volume, or its name and why it cannot be read.
pub type Volume = Result<ForeignVolume, (String, String)>;

/// A container, as far as its disks are there.
pub struct Container {
    /// The disks that are there.
    pub disks: Vec<ForeignDisk>,
    /// All that it lists.
    pub listed: Vec<ContainerDisk>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Names of disks that missed changes: what they hold is not used.
    pub stale: Vec<String>,
    freshest: usize,
}

/// Disks that make no container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// There is none.
    #[error("no disk of a container was given")]
    Nothing,
    /// They are of two containers.
    #[error("{first} and {second} are of different containers")]
    Several {
        /// A disk of one.
        first: String,
        /// A disk of the other.
        second: String,
    },
    /// Two disks are the same one.
    #[error("{first} and {second} are both disk {label} of the container; leave out the one that is a copy")]
    Twice {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// The container's label.
        label: String,
    },
}

impl Container {
    /// The container of these disks; nobody is asked for anything.
    ///
    /// # Errors
    /// See [`ContainerError`].
    pub fn of(disks: Vec<ForeignDisk>) -> Result<Container, ContainerError> {
        let first = disks.first().ok_or(ContainerError::Nothing)?;
        let family = |disk: &ForeignDisk| (disk.metadata.format(), disk.metadata.family());
        if let Some(other) = disks.iter().find(|disk| family(disk) != family(first)) {
            return Err(ContainerError::Several { first: first.name().to_owned(), second: other.name().to_owned() });
        }
        let generation = |disk: &ForeignDisk| disk.metadata.generation();
        let newest = disks.iter().map(generation).max().unwrap_or(0);
        let freshest = disks.iter().position(|disk| generation(disk) == newest).unwrap_or(0);
        // A crash between two writes leaves disks one behind.
        let is_stale = |disk: &ForeignDisk| matches!(disk.metadata, Metadata::Imsm(_)) && generation(disk) + 1 < newest;
        let (volumes, mut listed) = match &disks[freshest].metadata {
            Metadata::Imsm(imsm) => {
                let listed = (0..).zip(&imsm.disks).map(|(index, disk)| ContainerDisk {
                    key: DiskKey::Index(index),
                    label: disk.serial.clone(),
                    state: disk.state_words(),
                    given: None,
                });
                (imsm.volumes.clone(), listed.collect::<Vec<_>>())
            }
            Metadata::Ddf(ddf) => {
                let all: Vec<DdfMetadata> = disks.iter().filter_map(ddf_of).cloned().collect();
                let volumes = DdfMetadata::volumes(&all).into_iter();
                let listed = ddf.disks.iter().map(|disk| ContainerDisk {
                    key: DiskKey::Reference(disk.reference),
                    label: format!("{:08x}", disk.reference),
                    state: disk.state_words(),
                    given: None,
                });
                (volumes.map(|volume| volume.map_err(|error| (error.name, error.why))).collect(), listed.collect())
            }
        };
        let mut stale = Vec::new();
        for (index, disk) in disks.iter().enumerate() {
            if is_stale(disk) {
                stale.push(disk.name().to_owned());
                continue;
            }
            let Some(entry) = listed.iter_mut().find(|entry| is_entry(disk, entry)) else { continue };
            if let Some(other) = entry.given {
                let (first, second) = (disks[other].name().to_owned(), disk.name().to_owned());
                return Err(ContainerError::Twice { first, second, label: entry.label.clone() });
            }
            entry.given = Some(index);
        }
        Ok(Container { disks, listed, volumes, stale, freshest })
    }

    /// mdadm's name for the format.
    #[must_use]
    pub fn format(&self) -> &'static str {
        self.disks[self.freshest].metadata.format()
    }

    /// What the freshest disk holds.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.disks[self.freshest].metadata
    }

    /// The disk that the container knows by `key`, as an index into [`Container::disks`].
    pub(super) fn given(&self, key: DiskKey) -> Option<usize> {
        self.listed.iter().find(|entry| entry.key == key)?.given
    }

    /// Disks that are there, and of which nothing says which they are.
    #[must_use]
    pub fn unplaced(&self) -> Vec<&str> {
        let is_placed = |index: &usize| self.listed.iter().any(|entry| entry.given == Some(*index));
        let unplaced = (0..self.disks.len()).filter(|index| !is_placed(index)).map(|index| self.disks[index].name());
        unplaced.filter(|name| !self.stale.iter().any(|stale| stale == name)).collect()
    }
}

fn ddf_of(disk: &ForeignDisk) -> Option<&DdfMetadata> {
    match &disk.metadata {
        Metadata::Ddf(ddf) => Some(ddf),
        Metadata::Imsm(_) => None,
    }
}

/// Is the disk the one that the container lists so?
fn is_entry(disk: &ForeignDisk, entry: &ContainerDisk) -> bool {
    match (&disk.metadata, entry.key, disk.place) {
        (Metadata::Ddf(ddf), DiskKey::Reference(reference), _) => ddf.own == reference,
        (Metadata::Imsm(_), DiskKey::Index(index), Some(place)) => index == place,
        (Metadata::Imsm(_), DiskKey::Index(_), None) => serial::matches(&*disk.device, &entry.label),
        _ => false,
    }
}
