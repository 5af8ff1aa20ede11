//! What the simulator makes of the disks that a crash left: its own reading of the rules, apart from the one under test.
//!
//! The freshest member (most events) has the say. A member more than one event behind is stale; a role is what the freshest says.

use uraid_array::core::{CoreConfig, CoreMember};
use uraid_device::Pool;
use uraid_engine::{BitmapConfig, MemberState};
use uraid_format::{Bitmap, BitmapSuper, RawSuper, Role, SUPER_BYTES, super_offsets};
use uraid_geometry::{Geometry, Shape};
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

/// The superblock on a disk's durable image.
#[must_use]
pub fn read_super(bytes: &[u8]) -> Option<RawSuper> {
    let size = bytes.len() as u64;
    super_offsets(size).find_map(|(_, at)| {
        let place = bytes.get(at as usize..at as usize + SUPER_BYTES)?;
        RawSuper::parse(place, Sector(at / 512), SectorCount(size / 512)).ok()
    })
}

fn read_bitmap(bytes: &[u8], raw: &RawSuper) -> Option<(BitmapSuper, Bitmap)> {
    let start = raw.superblock().bitmap_start()?;
    let area = &bytes[start.byte_offset() as usize..];
    let superblock = BitmapSuper::parse(area, start).ok()?;
    superblock.check_usable(raw.superblock(), SectorCount(bytes.len() as u64 / 512)).ok()?;
    let bits = Bitmap::from_bytes(superblock.bits(), &area[uraid_format::BITMAP_SUPER_BYTES..]).ok()?;
    Some((superblock, bits))
}

/// Assembles the array from `disks`, leaving out those for which `usable` is false.
///
/// # Errors
/// Why it cannot start.
pub fn assemble(disks: &[Disk], usable: impl Fn(usize) -> bool, read_only: bool, pool: &Pool) -> Result<Assembled, String> {
    let found: Vec<(usize, RawSuper)> = (0..disks.len())
        .filter(|&key| usable(key))
        .filter_map(|key| Some((key, read_super(disks[key].durable())?)))
        .collect();
    // A spare has no say: it may come from anywhere.
    let active = |raw: &RawSuper| matches!(raw.superblock().own_role(), Role::Active(_));
    let deciding = found.iter().max_by_key(|(_, raw)| (active(raw), raw.superblock().events));
    let (freshest_key, freshest) = deciding.ok_or("no superblock at all")?;
    let newest = freshest.superblock();
    let slots = usize::from(newest.raid_disks);
    let mut states = vec![MemberState::Missing; slots];
    let (mut members, mut left_out, mut write_mostly) = (Vec::new(), Vec::new(), vec![false; slots]);
    let (mut sizes, mut bits_of) = (vec![newest.used_size; slots], Vec::new());
    for (key, raw) in &found {
        let own = raw.superblock();
        let role = newest.roles.get(own.dev_number as usize).copied().unwrap_or(Role::Spare);
        let current = own.events + 1 >= newest.events;
        let slot = match role {
            Role::Active(slot) if current => Some(slot),
            Role::Spare if current && own.own_role() == Role::Spare => None,
            _ => {
                left_out.push(*key);
                continue;
            }
        };
        if let Some(slot) = slot {
            if states[slot.index()] != MemberState::Missing {
                return Err(format!("two members claim {slot}: disk {key} is the second"));
            }
            states[slot.index()] = own.recovery_offset.map_or(MemberState::InSync, |recovered| MemberState::Rebuilding { recovered });
            write_mostly[slot.index()] = own.flags.write_mostly;
            if !newest.level.is_redundant() {
                sizes[slot.index()] = own.data_size;
            }
            bits_of.extend(read_bitmap(disks[*key].durable(), raw).map(|(_, bits)| bits));
        }
        members.push(CoreMember { key: *key, name: disks[*key].name.clone(), raw: raw.clone(), slot });
    }
    let shape =
        Shape { level: newest.level, layout: newest.layout, raid_disks: newest.raid_disks, chunk: newest.chunk, member_sectors: sizes };
    let geometry = Geometry::new(&shape).map_err(|error| error.to_string())?;
    let incomplete: Vec<Slot> =
        (0..slots).filter(|&slot| states[slot] != MemberState::InSync).map(Slot::from_index).collect();
    if !geometry.survives(&incomplete) {
        let events: Vec<_> = found.iter().map(|(key, raw)| (*key, raw.superblock().events, raw.superblock().own_role())).collect();
        return Err(format!("too few members: {states:?}; found {events:?}; the freshest is disk {freshest_key} with {:?}", roles(newest)));
    }
    let bitmap = read_bitmap(disks[*freshest_key].durable(), freshest).map(|(superblock, mut bits)| {
        let set: Vec<u64> = (0..bits.len()).filter(|&bit| bits_of.iter().any(|other: &Bitmap| other.get(bit))).collect();
        set.iter().for_each(|&bit| {
            bits.set(bit);
        });
        let current = superblock.events >= newest.events && !superblock.is_stale();
        let config = BitmapConfig { sectors_per_bit: superblock.chunk().0, bits: superblock.bits(), set, current };
        (config, superblock, bits)
    });
    Ok(Assembled {
        dirty: newest.resync_offset.is_some(),
        left_out,
        config: CoreConfig {
            geometry,
            block: SectorCount(disks[*freshest_key].block_bytes() / 512),
            slots: states,
            write_mostly,
            resync_from: newest.resync_offset,
            bitmap,
            members,
            events: newest.events,
            read_only,
            auto_sync: true,
            cache_bytes: 1 << 20,
            pool: pool.clone(),
        },
    })
}

fn roles(superblock: &uraid_format::Superblock) -> Vec<Role> {
    superblock.roles.iter().copied().take(12).collect()
}
