//! IMSM, the metadata of Intel's Matrix and Rapid Storage RAID: one table on each disk of a container, the same on all of them.
//!
//! It ends in the last block but one; what does not fit that block lies before it. Numbers are little-endian; places and
//! lengths count in the disk's logical blocks. Nothing in it says which disk it is on: that is told by the disk's serial number.

use uraid_types::{Layout, Level, ParityLayout, Raid0Layout, Raid10Layout, Sector, SectorCount};

use super::{DiskKey, ForeignMember, ForeignVolume, text};

/// What the metadata begins with; a version follows.
pub const IMSM_MAGIC: &[u8] = b"Intel Raid ISM Cfg Sig. ";

/// Bytes of metadata that are read, at most.
pub const MAX_IMSM_BYTES: u32 = 1 << 20;

const HEAD_BYTES: usize = 216;
const DISK_BYTES: usize = 48;
/// A volume up to its map, and a map up to its table of disks.
const VOLUME_BYTES: usize = 112;
const MAP_BYTES: usize = 48;

/// Metadata that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its IMSM metadata is damaged: {what} at byte {at} of it")]
pub struct ImsmError {
    /// What is wrong.
    pub what: String,
    /// Where, in bytes from its start.
    pub at: usize,
}

/// A disk of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImsmDisk {
    /// Its serial number, as far as it fits 16 bytes.
    pub serial: String,
    /// Its sectors.
    pub sectors: SectorCount,
    /// Bits: 1 spare, 2 configured, 4 failed.
    pub status: u32,
}

impl ImsmDisk {
    /// Spare, configured, failed.
    #[must_use]
    pub fn state_words(&self) -> String {
        let names = ["spare", "active", "failed"];
        let set: Vec<&str> =
            names.iter().enumerate().filter(|(bit, _)| self.status & 1 << bit != 0).map(|(_, name)| *name).collect();
        if set.is_empty() { "unused".to_owned() } else { set.join(", ") }
    }
}

/// What each disk of a container holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImsmMetadata {
    /// The version behind the signature.
    pub version: String,
    /// The container's number now.
    pub family: u32,
    /// The number that it was made with.
    pub original_family: u32,
    /// Goes up with each change.
    pub generation: u32,
    /// What firmware must know to use it.
    pub attributes: u32,
    /// All disks.
    pub disks: Vec<ImsmDisk>,
    /// Each volume as md's arithmetic can read it, or its name and why it cannot be read.
    pub volumes: Vec<Result<ForeignVolume, (String, String)>>,
}

/// How many bytes the metadata has, by its first block.
///
/// # Errors
/// The block is none of IMSM's, or the length makes no sense.
pub fn imsm_bytes(anchor: &[u8]) -> Result<u32, ImsmError> {
    if !anchor.starts_with(IMSM_MAGIC) || anchor.len() < HEAD_BYTES {
        return Err(ImsmError { what: "there is no signature".to_owned(), at: 0 });
    }
    let len = u32_at(anchor, 36);
    if len as usize >= HEAD_BYTES && len <= MAX_IMSM_BYTES && len.is_multiple_of(4) {
        return Ok(len);
    }
    Err(ImsmError { what: format!("a length of {len} bytes"), at: 36 })
}

impl ImsmMetadata {
    /// The metadata: its first block, and then what lies before it on the disk. `block_bytes` is the disk's logical block.
    ///
    /// # Errors
    /// The checksum is wrong, or a table does not fit.
    pub fn parse(bytes: &[u8], block_bytes: u32) -> Result<ImsmMetadata, ImsmError> {
        let len = imsm_bytes(bytes)? as usize;
        let Some(bytes) = bytes.get(..len) else {
            return Err(ImsmError { what: format!("it ends before its {len} bytes"), at: bytes.len() });
        };
        let found = u32_at(bytes, 32);
        let sum = |sum: u32, at: usize| sum.wrapping_add(u32_at(bytes, at));
        let expected = (0..len).step_by(4).fold(0, sum).wrapping_sub(found);
        if found != expected {
            return Err(ImsmError { what: format!("the checksum is {found:#010x}, not {expected:#010x},"), at: 32 });
        }
        // Places of disks with larger blocks count in those.
        let scale = u64::from(block_bytes / 512).max(1);
        let (disk_count, volume_count) = (usize::from(bytes[56]), usize::from(bytes[57]));
        let mut at = HEAD_BYTES;
        let mut disks = Vec::new();
        for _ in 0..disk_count {
            let disk = take(bytes, &mut at, DISK_BYTES, "a disk")?;
            disks.push(ImsmDisk {
                serial: text(&disk[..16]),
                sectors: SectorCount(wide(disk, 16, 32).saturating_mul(scale)),
                status: u32_at(disk, 24),
            });
        }
        let family = [u32_at(bytes, 64), u32_at(bytes, 40)];
        let mut volumes = Vec::new();
        for _ in 0..volume_count {
            let raw = RawVolume::take(bytes, &mut at)?;
            let id = [&bytes[64..68], &raw.head[40..42]].concat();
            volumes.push(raw.volume(id, &disks, scale).map_err(|why| (text(&raw.head[..16]), why)));
        }
        Ok(ImsmMetadata {
            version: text(&bytes[IMSM_MAGIC.len()..32]),
            family: family[1],
            original_family: family[0],
            generation: u32_at(bytes, 44),
            attributes: u32_at(bytes, 52),
            disks,
            volumes,
        })
    }
}

/// A volume's bytes.
struct RawVolume<'a> {
    head: &'a [u8],
    map: RawMap<'a>,
    /// What it migrates from.
    before: Option<RawMap<'a>>,
}

/// Where a volume's data lies.
struct RawMap<'a> {
    head: &'a [u8],
    /// By slot: the disk's place in the table, and bits above it.
    order: &'a [u8],
}

/// The slot is not in sync.
const REBUILD: u32 = 1 << 24;

/// Kinds of migration.
const INIT: u8 = 0;
const REBUILDING: u8 = 1;
const VERIFY: u8 = 2;
const REPAIR: u8 = 5;

impl<'a> RawVolume<'a> {
    fn take(bytes: &'a [u8], at: &mut usize) -> Result<RawVolume<'a>, ImsmError> {
        let head = take(bytes, at, VOLUME_BYTES, "a volume")?;
        let map = RawMap::take(bytes, at)?;
        let before = if head[88] != 0 { Some(RawMap::take(bytes, at)?) } else { None };
        Ok(RawVolume { head, map, before })
    }

    fn volume(&self, id: Vec<u8>, disks: &[ImsmDisk], scale: u64) -> Result<ForeignVolume, String> {
        let (is_migrating, migration) = (self.head[88] != 0, self.head[89]);
        if is_migrating && !matches!(migration, INIT | REBUILDING | VERIFY | REPAIR) {
            return Err("it is being changed into another shape; let its firmware or mdadm finish that".to_owned());
        }
        let map = &self.map;
        if map.state() == 3 {
            return Err("it has failed: more disks are gone than it can lose".to_owned());
        }
        let (level, layout, data) = map.arrangement()?;
        let size = SectorCount(wide(self.head, 16, 20).checked_mul(scale).ok_or("it is larger than any disk")?);
        let chunk = if level == Level::Raid1 { 0 } else { u64::from(u16_at(map.head, 12)) * scale };
        let whole = size.0.div_ceil(data);
        let member_sectors = if chunk == 0 { whole } else { whole.div_ceil(chunk).saturating_mul(chunk) };
        let room = wide(map.head, 4, 24).saturating_mul(scale);
        if member_sectors > room {
            return Err(format!("its {} do not fit the {room} sectors that it has on each disk", size));
        }
        let start = Sector(wide(map.head, 0, 20).checked_mul(scale).ok_or("it begins beyond any disk")?);
        let member = |slot: usize| {
            let maps = [Some(map), self.before.as_ref()];
            let rebuilding = maps.into_iter().flatten().any(|map| map.order_at(slot) & REBUILD != 0);
            let index = u8::try_from(map.order_at(slot) & (REBUILD - 1)).ok().filter(|&index| usize::from(index) < disks.len());
            let is_there = |index: u8| disks[usize::from(index)].status & (2 | 4) == 2;
            let disk = index.filter(|&index| is_there(index)).map(DiskKey::Index);
            ForeignMember { disk, start, in_sync: disk.is_some() && !rebuilding }
        };
        let is_new = map.state() == 1 || is_migrating && migration == INIT;
        Ok(ForeignVolume {
            name: text(&self.head[..16]),
            id,
            level,
            layout,
            chunk: SectorCount(chunk),
            member_sectors: SectorCount(member_sectors),
            size,
            members: (0..map.order.len() / 4).map(member).collect(),
            dirty: level.is_redundant() && (is_new || self.head[90] & 1 != 0),
            state: self.state_words(is_migrating.then_some(migration)),
        })
    }

    fn state_words(&self, migration: Option<u8>) -> String {
        let name = ["normal", "uninitialised", "degraded", "failed"].get(usize::from(self.map.state()));
        let mut words = vec![*name.unwrap_or(&"in an unknown state")];
        words.push(if self.head[90] & 1 != 0 { "dirty" } else { "clean" });
        words.extend(migration.map(|migration| match migration {
            INIT => "being initialised",
            REBUILDING => "being rebuilt",
            VERIFY => "being verified",
            _ => "being repaired",
        }));
        words.join(", ")
    }
}

impl<'a> RawMap<'a> {
    fn take(bytes: &'a [u8], at: &mut usize) -> Result<RawMap<'a>, ImsmError> {
        let head = take(bytes, at, MAP_BYTES, "a map")?;
        let order = take(bytes, at, 4 * usize::from(head[16]), "a map's table of disks")?;
        Ok(RawMap { head, order })
    }

    /// 0 normal, 1 not initialised, 2 degraded, 3 failed.
    fn state(&self) -> u8 {
        self.head[14]
    }

    fn order_at(&self, slot: usize) -> u32 {
        u32_at(self.order, 4 * slot)
    }

    /// Level and layout in md's terms, and how many members' worth of data there is.
    fn arrangement(&self) -> Result<(Level, Layout, u64), String> {
        let (level, members, domains) = (self.head[15], u64::from(self.head[16]), u64::from(self.head[17]));
        if members == 0 {
            return Err("it has no disks".to_owned());
        }
        match level {
            0 => Ok((Level::Raid0, Layout::Raid0(Raid0Layout::Alternate), members)),
            1 if domains == members || members == 2 => Ok((Level::Raid1, Layout::None, 1)),
            1 | 10 if members.is_multiple_of(2) && members > 2 => {
                Ok((Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), members / 2))
            }
            5 if members > 2 => Ok((Level::Raid5, Layout::Parity(ParityLayout::LeftAsymmetric), members - 1)),
            level => Err(format!("level {level} of {members} disks is not known")),
        }
    }
}

/// The next `len` bytes.
fn take<'a>(bytes: &'a [u8], at: &mut usize, len: usize, what: &str) -> Result<&'a [u8], ImsmError> {
    match bytes.get(*at..).and_then(|rest| rest.get(..len)) {
        Some(taken) => {
            *at += len;
            Ok(taken)
        }
        None => Err(ImsmError { what: format!("{what} goes beyond the end"), at: *at }),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u16::from_le_bytes(*field))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u32::from_le_bytes(*field))
}

/// A number of 64 bits in two halves.
fn wide(bytes: &[u8], low: usize, high: usize) -> u64 {
    u64::from(u32_at(bytes, high)) << 32 | u64::from(u32_at(bytes, low))
}
