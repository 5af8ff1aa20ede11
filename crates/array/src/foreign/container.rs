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
        let is_stale =
            |disk: &ForeignDisk| matches!(disk.metadata, Metadata::Imsm(_)) && generation(disk).saturating_add(1) < newest;
        let (volumes, mut listed) = match &disks[freshest].metadata {
            Metadata::Imsm(imsm) => {
                // Their number is of 8 bits.
                let listed = (0..=u8::MAX).zip(&imsm.disks).map(|(index, disk)| ContainerDisk {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uraid_device::MemoryDevice;
    use uraid_format::foreign::imsm::{ImsmDisk, ImsmMetadata};
    use uraid_types::SectorCount;

    use super::*;

    /// A disk of an IMSM container of so many, named `name`.
    fn disk(name: &str, count: usize, generation: u32, family: u32, place: Option<u8>) -> ForeignDisk {
        let of = |index| ImsmDisk { serial: format!("/dev/{index}"), sectors: SectorCount(8192), status: 2 };
        let metadata = ImsmMetadata {
            version: "1.3.00".to_owned(),
            family,
            original_family: family,
            generation,
            attributes: 0,
            disks: (0..count).map(of).collect(),
            volumes: Vec::new(),
        };
        ForeignDisk { device: Arc::new(MemoryDevice::new(name, 4 << 20, 512)), metadata: Metadata::Imsm(metadata), place }
    }

    #[test]
    fn disks_are_placed_by_name_or_as_they_are_told() {
        let container = Container::of(vec![disk("/dev/2", 3, 7, 1, None), disk("x", 3, 7, 1, None)]).unwrap();
        let given: Vec<_> = container.listed.iter().map(|entry| entry.given).collect();
        assert_eq!((given, container.unplaced()), (vec![None, None, Some(0)], vec!["x"]));
        let container = Container::of(vec![disk("y", 3, 7, 1, Some(1)), disk("x", 3, 7, 1, Some(0))]).unwrap();
        assert_eq!(container.listed.iter().map(|entry| entry.given).collect::<Vec<_>>(), [Some(1), Some(0), None]);
    }

    #[test]
    fn who_missed_changes_is_stale_and_one_write_is_none() {
        let of = |generations: [u32; 2]| {
            Container::of(vec![disk("a", 2, generations[0], 1, Some(0)), disk("b", 2, generations[1], 1, Some(1))]).unwrap().stale
        };
        assert_eq!((of([7, 9]), of([9, 7])), (vec!["a".to_owned()], vec!["b".to_owned()]));
        assert!(of([8, 9]).is_empty() && of([u32::MAX, u32::MAX]).is_empty());
    }

    #[test]
    fn what_makes_no_container_is_told() {
        let refused = |disks| Container::of(disks).err().unwrap().to_string();
        let other = vec![disk("a", 2, 1, 1, Some(0)), disk("b", 2, 1, 2, Some(1))];
        assert_eq!(refused(other), "a and b are of different containers");
        let twice = vec![disk("a", 2, 1, 1, Some(1)), disk("b", 2, 1, 1, Some(1))];
        assert!(refused(twice).starts_with("a and b are both disk /dev/1 of the container"));
        assert_eq!(Container::of(Vec::new()).err(), Some(ContainerError::Nothing));
        assert_eq!(Container::of(vec![disk("a", 255, 1, 1, Some(254))]).unwrap().listed[254].given, Some(0));
    }
}
