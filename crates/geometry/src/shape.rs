//! What describes an array, and the rules that hold for every level.

use uraid_types::{Layout, Level, ParityLayout, Sector, SectorCount, Slot};

use crate::GeometryError;

/// The largest member or array, in sectors: the last byte must have a positive signed 64-bit offset, as `pread` takes it.
pub const MAX_SECTORS: u64 = i64::MAX as u64 / 512;

/// The most members: roles are 16 bits wide and follow the 256-byte header of a 4096-byte 1.x superblock.
pub const MAX_MEMBERS: usize = (4096 - 256) / 2;

/// The most members of an array with parity: Linux gives up in the middle of a RAID6 that is wider, Q has no more than 255 different
/// factors, and our parity code is made for 254 data blocks.
pub const MAX_PARITY_MEMBERS: usize = 255;

/// As [`MAX_PARITY_MEMBERS`] where the slots of P and Q count too: those that the highest exponent that Q has, 253, leaves room for.
const MAX_SLOT_COUNTING_MEMBERS: usize = 254;

/// Sectors in 4 KiB, the page that md's chunks are multiples of.
const PAGE_SECTORS: u64 = 8;

/// What decides where data lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The level.
    pub level: Level,
    /// The layout; [`Layout::None`] for linear and RAID1.
    pub layout: Layout,
    /// Members, working or missing, without spares.
    pub raid_disks: u16,
    /// Sectors in a chunk. RAID1 has none and ignores it; linear rounds its members down to it when it is not 0.
    pub chunk: SectorCount,
    /// Usable data sectors by slot; `raid_disks` entries, all equal (the superblock's `size`) at redundant levels.
    pub member_sectors: Vec<SectorCount>,
}

impl Shape {
    /// The rules for every level; what depends on the layout is left to the level's own arithmetic.
    pub(crate) fn check(&self) -> Result<(), GeometryError> {
        self.check_member_count()?;
        self.check_layout()?;
        self.check_chunk()?;
        self.check_member_sizes()
    }

    fn check_member_count(&self) -> Result<(), GeometryError> {
        let found = usize::from(self.raid_disks);
        let least = match self.level {
            Level::Linear | Level::Raid0 | Level::Raid1 => 1,
            Level::Raid4 | Level::Raid5 | Level::Raid10 => 2,
            Level::Raid6 => 4,
        };
        if found < least {
            return Err(GeometryError::TooFewMembers { level: self.level, least, found });
        }
        if found > MAX_MEMBERS {
            return Err(GeometryError::TooManyMembers { most: MAX_MEMBERS, found });
        }
        let counts_slots = matches!(self.layout, Layout::Parity(layout) if layout.counts_slots());
        let most = if counts_slots { MAX_SLOT_COUNTING_MEMBERS } else { MAX_PARITY_MEMBERS };
        if self.level.has_parity() && found > most {
            return Err(GeometryError::TooWide { level: self.level, most, found });
        }
        if self.member_sectors.len() != found {
            return Err(GeometryError::SizesMissing { sizes: self.member_sectors.len(), raid_disks: found });
        }
        Ok(())
    }

    fn check_layout(&self) -> Result<(), GeometryError> {
        let fits = match self.layout {
            Layout::None => matches!(self.level, Level::Linear | Level::Raid1),
            Layout::Raid0(_) => self.level == Level::Raid0,
            Layout::Parity(layout) => ParityLayout::of_level(self.level).contains(&layout),
            Layout::Raid10(_) => self.level == Level::Raid10,
        };
        if fits { Ok(()) } else { Err(GeometryError::ForeignLayout { level: self.level, layout: self.layout.to_string() }) }
    }

    fn check_chunk(&self) -> Result<(), GeometryError> {
        let chunk = self.chunk.0;
        let bad = |rule| Err(GeometryError::Chunk { level: self.level, chunk: self.chunk, rule });
        match self.level {
            Level::Raid1 | Level::Linear => Ok(()),
            _ if chunk > MAX_SECTORS => Err(GeometryError::TooLarge { what: "a chunk" }),
            // Linux runs smaller ones, but misplaces what it writes in pages; mdadm does not make them.
            Level::Raid0 if chunk < PAGE_SECTORS => bad("at least 4 KiB"),
            Level::Raid0 => Ok(()),
            _ if chunk < PAGE_SECTORS || !chunk.is_power_of_two() => bad("a power of two of at least 4 KiB"),
            _ => Ok(()),
        }
    }

    fn check_member_sizes(&self) -> Result<(), GeometryError> {
        let least = SectorCount(if self.level == Level::Raid1 { 1 } else { self.chunk.0.max(1) });
        let first = self.member_sectors[0];
        for (index, &found) in self.member_sectors.iter().enumerate() {
            let slot = Slot::from_index(index);
            if found.0 > MAX_SECTORS {
                return Err(GeometryError::TooLarge { what: "a member" });
            }
            if found < least {
                return Err(GeometryError::MemberTooSmall { slot, found, least });
            }
            if self.level.is_redundant() && found != first {
                return Err(GeometryError::UnequalMembers { level: self.level, slot, found, first });
            }
        }
        Ok(())
    }
}

/// `a * b` as a capacity.
pub(crate) fn checked_capacity(a: u64, b: u64) -> Result<SectorCount, GeometryError> {
    match a.checked_mul(b) {
        Some(sectors) if sectors <= MAX_SECTORS => Ok(SectorCount(sectors)),
        _ => Err(GeometryError::TooLarge { what: "the array" }),
    }
}

/// The sectors from `at` to the next chunk boundary, `max` at most.
pub(crate) fn to_chunk_end(at: Sector, chunk: SectorCount, max: SectorCount) -> SectorCount {
    SectorCount(chunk.0 - at.0 % chunk.0).min(max)
}
