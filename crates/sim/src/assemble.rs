//! What a power cut left, put together again: by the code under test, and by the simulator's own reading of the rules; the two
//! must agree.
//!
//! The rules: of the members with a slot the freshest (most events) has the say. A member more than one event behind is stale. A
//! role holds when both the member and the freshest say so.

use std::sync::Arc;

use uraid_array::core::{CoreConfig, CoreMember};
use uraid_array::{AssembleOptions, AssembleProblem, Assembly, Candidate, choose, scan};
use uraid_device::{Device, DeviceError, DeviceInfo, Pool};
use uraid_engine::MemberState;
use uraid_format::{RawSuper, Role, SUPER_BYTES, super_offsets};
use uraid_types::{Sector, SectorCount, Slot};

use crate::disk::Disk;

/// An array put together again.
#[derive(Debug)]
pub struct Assembled {
    /// For the core.
    pub config: CoreConfig,
    /// Disks with a superblock that are no part of it.
    pub left_out: Vec<usize>,
    /// It was not stopped cleanly.
    pub dirty: bool,
}

/// The superblock on a disk's image.
#[must_use]
pub fn read_super(bytes: &[u8]) -> Option<RawSuper> {
    let size = bytes.len() as u64;
    super_offsets(size).find_map(|(_, at)| {
        let place = bytes.get(at as usize..at as usize + SUPER_BYTES)?;
        RawSuper::parse(place, Sector(at / 512), SectorCount(size / 512)).ok()
    })
}

/// A disk as it is found after a power cut, to be looked at.
struct Image {
    info: DeviceInfo,
    bytes: Vec<u8>,
}

impl Device for Image {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let start = offset_bytes as usize;
        into.copy_from_slice(&self.bytes[start..start + into.len()]);
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, _: &[u8]) -> Result<(), DeviceError> {
        panic!("assembling wrote to {} at byte {offset_bytes}", self.info.name)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        panic!("assembling flushed {}", self.info.name)
    }

    fn zero(&self, offset_bytes: u64, _: u64, _: bool) -> Result<(), DeviceError> {
        panic!("assembling zeroed {} at byte {offset_bytes}", self.info.name)
    }
}

fn image(disk: &Disk) -> Arc<dyn Device> {
    Arc::new(Image {
        info: DeviceInfo {
            name: disk.name.clone(),
            path: None,
            size_bytes: disk.len_bytes(),
            logical_block_bytes: disk.block_bytes() as u32,
            read_only: false,
            direct: false,
            rotational: None,
        },
        bytes: disk.durable().to_vec(),
    })
}

/// What the rules say of the slots: who holds each, and how good it is.
type Reading = Vec<(Option<usize>, MemberState)>;

/// As the rules have it; and whether the array was not stopped cleanly.
fn read_rules(found: &[(usize, RawSuper)]) -> Option<(Reading, bool)> {
    let active = |raw: &RawSuper| matches!(raw.superblock().own_role(), Role::Active(_));
    let freshest = found.iter().map(|(_, raw)| raw).filter(|raw| active(raw));
    let newest = freshest.max_by_key(|raw| raw.superblock().events)?.superblock().clone();
    let mut reading = vec![(None, MemberState::Missing); usize::from(newest.raid_disks)];
    for (key, raw) in found {
        let own = raw.superblock();
        let role = newest.roles.get(own.dev_number as usize).copied().unwrap_or(Role::Spare);
        if let Role::Active(slot) = role
            && own.events + 1 >= newest.events
            && own.own_role() == role
        {
            let state = own.recovery_offset.map_or(MemberState::InSync, |recovered| MemberState::Rebuilding { recovered });
            reading[slot.index()] = (Some(*key), state);
        }
    }
    Some((reading, newest.resync_offset.is_some()))
}

/// Assembles the array from those of `disks` that are `usable`.
///
/// # Errors
/// Why it cannot start.
pub fn assemble(disks: &[Disk], usable: impl Fn(usize) -> bool, read_only: bool, pool: &Pool) -> Result<Assembled, String> {
    let found: Vec<(usize, RawSuper)> =
        (0..disks.len()).filter(|&key| usable(key)).filter_map(|key| Some((key, read_super(disks[key].durable())?))).collect();
    let candidates: Vec<Candidate> = found.iter().filter_map(|(key, _)| scan(image(&disks[*key])).ok()).collect();
    let options = AssembleOptions { run: true, read_only, ..AssembleOptions::default() };
    let assembly = match choose(candidates.clone(), &options, None) {
        Err(error) if matches!(error.problem, AssembleProblem::DirtyDegraded { .. }) => {
            choose(candidates, &AssembleOptions { force: true, ..options }, None)
        }
        result => result,
    };
    let assembly = assembly.map_err(|error| {
        let roles = |raw: &RawSuper| raw.superblock().roles.iter().copied().take(12).collect::<Vec<_>>();
        let story: Vec<String> =
            found.iter().map(|(key, raw)| format!("disk {key}: events {}, {:?}", raw.superblock().events, roles(raw))).collect();
        format!("{error}; {story:?}")
    })?;
    let key_of = |candidate: &Candidate| disks.iter().position(|disk| disk.name == candidate.name()).ok_or("an unknown disk");
    let mut slots: Reading = Vec::new();
    for slot in &assembly.slots {
        let key = slot.member.map(|member| key_of(&assembly.members[member])).transpose()?;
        slots.push((key, slot.state));
    }
    let dirty = match read_rules(&found) {
        Some((reading, dirty)) if reading == slots => dirty,
        reading => return Err(format!("the rules give the slots {reading:?}, assembling gave {slots:?}")),
    };
    let config = config_of(assembly, slots, read_only, pool, key_of)?;
    let left_out =
        found.iter().map(|(key, _)| *key).filter(|key| !config.members.iter().any(|member| member.key == *key)).collect();
    Ok(Assembled { config, left_out, dirty })
}

fn config_of(
    assembly: Assembly,
    slots: Reading,
    read_only: bool,
    pool: &Pool,
    key_of: impl Fn(&Candidate) -> Result<usize, &'static str>,
) -> Result<CoreConfig, String> {
    if let Some(why) = assembly.read_only_because.as_ref().filter(|_| !read_only) {
        return Err(format!("read-only without having been asked for: {why}"));
    }
    let mut members = Vec::new();
    for (index, candidate) in assembly.members.iter().enumerate() {
        let key = key_of(candidate)?;
        let slot = slots.iter().position(|(holder, _)| *holder == Some(key)).map(Slot::from_index);
        if slot.is_some() || assembly.spares.contains(&index) {
            members.push(CoreMember {
                key,
                name: candidate.name().to_owned(),
                raw: candidate.raw.clone(),
                slot,
                bad_blocks: Vec::new(),
            });
        }
    }
    let bitmap = match (assembly.bitmap, assembly.bitmap_super, assembly.bitmap_bits) {
        (Some(config), Some(superblock), Some(bits)) => Some((config, superblock, bits)),
        _ => None,
    };
    Ok(CoreConfig {
        geometry: assembly.geometry,
        block: assembly.block,
        slots: slots.iter().map(|(_, state)| *state).collect(),
        write_mostly: assembly.write_mostly,
        resync_from: assembly.resync_from,
        bitmap,
        bitmap_file: None,
        members,
        events: assembly.events,
        foreign: assembly.foreign,
        read_only,
        auto_sync: true,
        cache_bytes: 1 << 20,
        preference: Default::default(),
        sync_speed: Default::default(),
        pool: pool.clone(),
    })
}
