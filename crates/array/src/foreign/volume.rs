//! One volume as an array that is only read.

use std::sync::Arc;

use uraid_device::ReadOnly;
use uraid_engine::MemberState;
use uraid_format::foreign::ForeignVolume;
use uraid_format::{ByteOrder, DeviceFlags, MetadataVersion, RawSuper, Role, Superblock};
use uraid_geometry::{Geometry, GeometryError, Shape};
use uraid_types::{SECTOR_BYTES, Sector, SectorCount, Slot};
use uuid::Uuid;

use super::{Container, ForeignDisk};
use crate::{Assembly, Candidate, Replay, SlotPlan};

/// Which volume, and how far to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Its name, or its number in the container where it has none; needed where there is more than one.
    pub name: Option<String>,
    /// Take redundancy that may disagree for good.
    pub force: bool,
    /// Start without disks that the container counts on.
    pub run: bool,
}

/// Why a volume cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeProblem {
    /// The container has none.
    #[error("the {format} container has no volume")]
    None {
        /// The format.
        format: &'static str,
    },
    /// None was chosen, or not one that is there.
    #[error("the {format} container has the volumes {names}; choose one with --volume")]
    Which {
        /// The format.
        format: &'static str,
        /// Their names.
        names: String,
    },
    /// Its description cannot be used.
    #[error("volume '{name}': {why}")]
    Unusable {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// Its numbers make no array.
    #[error("volume '{name}': {source}")]
    Geometry {
        /// Its name.
        name: String,
        /// What is wrong.
        source: GeometryError,
    },
    /// No disk says which it is.
    #[error(
        "nothing on {disks} says which disk of the container each is (their drives' serial numbers would); give all of them in the \
         order of 'uraid examine', the word 'missing' for one that is not there, and --in-order"
    )]
    Unplaced {
        /// Names of the disks.
        disks: String,
    },
    /// Too much is missing.
    #[error("volume '{name}': not enough members: {missing} of {of} are missing or not in sync ({which})")]
    NotEnough {
        /// Its name.
        name: String,
        /// How many.
        missing: usize,
        /// Of how many.
        of: usize,
        /// Their labels.
        which: String,
    },
    /// Disks that should be there were not given.
    #[error("volume '{name}': {which} should be there and was not given; give it, or start without it by --run")]
    NotGiven {
        /// Its name.
        name: String,
        /// Their labels.
        which: String,
    },
    /// Rebuilt data could be wrong.
    #[error(
        "volume '{name}' is {state} and not all members are there: what would be rebuilt from parity may be wrong; --force reads \
         it all the same"
    )]
    DirtyDegraded {
        /// Its name.
        name: String,
        /// Its state.
        state: String,
    },
}

impl Container {
    /// The volume that `options` ask for, as an array that is only read.
    ///
    /// # Errors
    /// See [`VolumeProblem`].
    pub fn assemble(&self, options: &VolumeOptions) -> Result<Assembly, VolumeProblem> {
        let volume = self.choose(options.name.as_deref())?;
        let name = volume.name.clone();
        let geometry = geometry(volume)?;
        let unplaced = self.unplaced();
        if !unplaced.is_empty() {
            return Err(VolumeProblem::Unplaced { disks: unplaced.join(", ") });
        }
        let mut members = Vec::new();
        let mut slots = Vec::new();
        let (mut absent, mut not_given) = (Vec::new(), Vec::new());
        for (index, member) in volume.members.iter().enumerate() {
            let slot = Slot::from_index(index);
            let label = member.disk.and_then(|key| self.listed.iter().find(|entry| entry.key == key));
            let label = label.map_or_else(|| slot.to_string(), |entry| format!("{slot} (disk {})", entry.label));
            let disk = member.disk.filter(|_| member.in_sync).map(|key| self.given(key));
            match disk {
                Some(Some(disk)) => {
                    let disk = &self.disks[disk];
                    check_room(disk, member.start, volume)?;
                    slots.push(SlotPlan { member: Some(members.len()), state: MemberState::InSync });
                    members.push(candidate(disk, volume, slot, member.start, self.metadata().generation()));
                }
                other => {
                    slots.push(SlotPlan { member: None, state: MemberState::Missing });
                    not_given.extend(other.is_some().then(|| label.clone()));
                    absent.push((slot, label));
                }
            }
        }
        let lost: Vec<Slot> = absent.iter().map(|(slot, _)| *slot).collect();
        if !geometry.survives(&lost) || members.is_empty() {
            let which = absent.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(", ");
            return Err(VolumeProblem::NotEnough { name, missing: lost.len(), of: slots.len(), which });
        }
        if !not_given.is_empty() && !options.run && !options.force {
            return Err(VolumeProblem::NotGiven { name, which: not_given.join(", ") });
        }
        if volume.dirty && volume.level.has_parity() && !lost.is_empty() && !options.force {
            return Err(VolumeProblem::DirtyDegraded { name, state: volume.state.clone() });
        }
        Ok(self.assembly(volume, geometry, slots, members, lost.len()))
    }

    fn choose(&self, name: Option<&str>) -> Result<&ForeignVolume, VolumeProblem> {
        let format = self.format();
        let own_name = |index: usize| match &self.volumes[index] {
            Ok(ForeignVolume { name, .. }) | Err((name, _)) if name.is_empty() => index.to_string(),
            Ok(ForeignVolume { name, .. }) | Err((name, _)) => name.clone(),
        };
        let names: Vec<String> = (0..self.volumes.len()).map(own_name).collect();
        let index = match (name, &names[..]) {
            (_, []) => return Err(VolumeProblem::None { format }),
            (None, [_]) => Some(0),
            (None, _) => None,
            (Some(name), names) => names.iter().position(|own| own == name),
        };
        let Some(index) = index else { return Err(VolumeProblem::Which { format, names: names.join(", ") }) };
        self.volumes[index].as_ref().map_err(|(name, why)| VolumeProblem::Unusable { name: name.clone(), why: why.clone() })
    }

    fn assembly(
        &self,
        volume: &ForeignVolume,
        geometry: Geometry,
        slots: Vec<SlotPlan>,
        members: Vec<Candidate>,
        degraded: usize,
    ) -> Assembly {
        let mut warnings: Vec<String> =
            self.stale.iter().map(|name| format!("{name} missed changes of the container; it is not used")).collect();
        if degraded > 0 {
            warnings.push(format!("{degraded} of {} members are missing or not in sync", slots.len()));
        }
        let largest = members.iter().map(|member| member.device.info().logical_block_bytes).max().unwrap_or(512);
        Assembly {
            geometry,
            block: SectorCount(u64::from(largest) / SECTOR_BYTES),
            logical_block_bytes: 0,
            write_mostly: vec![false; slots.len()],
            slots,
            events: self.metadata().generation().into(),
            members,
            spares: Vec::new(),
            readdable: Vec::new(),
            refused: Vec::new(),
            journal: None,
            replay: Replay::None,
            freshest: 0,
            foreign: Some(self.format()),
            resync_from: None,
            bitmap: None,
            bitmap_super: None,
            bitmap_bits: None,
            bitmap_file: None,
            superblocks_due: false,
            read_only_because: Some(format!("it is a volume of an {} container, which uraid only reads", self.format())),
            warnings,
            degraded,
            dirty: volume.dirty,
            name: volume.name.clone(),
            array_id: array_id(volume),
            reshape: None,
            backup: None,
        }
    }
}

/// The arithmetic of a volume.
fn geometry(volume: &ForeignVolume) -> Result<Geometry, VolumeProblem> {
    let geometry = u16::try_from(volume.members.len()).ok().map(|raid_disks| {
        let ForeignVolume { level, layout, chunk, member_sectors, .. } = *volume;
        let member_sectors = vec![member_sectors; usize::from(raid_disks)];
        Geometry::new(&Shape { level, layout, raid_disks, chunk, member_sectors })
    });
    let unusable = |why: String| VolumeProblem::Unusable { name: volume.name.clone(), why };
    let geometry = geometry.ok_or_else(|| unusable(format!("it has {} members", volume.members.len())))?;
    let geometry = geometry.map_err(|source| VolumeProblem::Geometry { name: volume.name.clone(), source })?;
    let (size, room) = (volume.size, geometry.capacity());
    if size > room || size.is_zero() {
        return Err(unusable(format!("it shows {size}, and its members have room for {room}")));
    }
    Ok(geometry.limited_to(size))
}

/// Is all of the member's data on the disk that was given?
fn check_room(disk: &ForeignDisk, start: Sector, volume: &ForeignVolume) -> Result<(), VolumeProblem> {
    let has = SectorCount::floor_bytes(disk.device.info().size_bytes);
    match start.0.checked_add(volume.member_sectors.0) {
        Some(end) if end <= has.0 => Ok(()),
        _ => {
            let why = format!("{} has {has}; its {} from {start} on are not all there", disk.name(), volume.member_sectors);
            Err(VolumeProblem::Unusable { name: volume.name.clone(), why })
        }
    }
}

/// The volume's identity as md's are.
fn array_id(volume: &ForeignVolume) -> Uuid {
    let mut id = [0; 16];
    for (index, byte) in volume.id.iter().enumerate() {
        id[index % 16] ^= byte;
    }
    Uuid::from_bytes(id)
}

/// A member that says, in md's terms, where the volume's data is. This superblock is on no disk.
fn candidate(disk: &ForeignDisk, volume: &ForeignVolume, slot: Slot, start: Sector, events: u32) -> Candidate {
    let roles = (0..volume.members.len()).map(|index| Role::Active(Slot::from_index(index))).collect();
    let superblock = Superblock {
        version: MetadataVersion::V1_2,
        byte_order: ByteOrder::Little,
        preferred_minor: 0,
        features: 0,
        array_id: array_id(volume),
        name: Vec::new(),
        created_seconds: 0,
        created_micros: 0,
        level: volume.level,
        layout: volume.layout,
        used_size: volume.member_sectors,
        chunk: volume.chunk,
        raid_disks: slot_count(volume),
        reshape: None,
        bitmap_offset: None,
        ppl: None,
        data_offset: start,
        data_size: volume.member_sectors,
        super_offset: Sector(0),
        recovery_offset: None,
        journal_tail: None,
        dev_number: u32::from(slot.0),
        corrected_reads: 0,
        device_id: Uuid::nil(),
        flags: DeviceFlags::default(),
        bad_block_shift: 0,
        bad_block_sectors: 0,
        bad_block_offset: 0,
        updated_seconds: 0,
        updated_micros: 0,
        events: events.into(),
        resync_offset: None,
        roles,
        logical_block_bytes: 0,
    };
    Candidate {
        device: Arc::new(ReadOnly::new(Arc::clone(&disk.device))),
        raw: RawSuper::from_new(superblock),
        bitmap: None,
        bitmap_problem: None,
        bad_blocks: Vec::new(),
        ppl: None,
    }
}

/// No more than the geometry takes, which was asked before.
fn slot_count(volume: &ForeignVolume) -> u16 {
    u16::try_from(volume.members.len()).unwrap_or(u16::MAX)
}
