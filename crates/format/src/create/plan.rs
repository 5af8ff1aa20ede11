//! From a wish to superblocks, bitmaps and places to wipe.

use core::ops::Range;

use uraid_types::{Layout, Level, Raid0Layout, SECTOR_BYTES, Sector, SectorCount, Slot};

use super::place::{BAD_BLOCK_SECTORS, Placement};
use super::{CreateError, CreateSpec, NewMember};
use crate::bitmap::{BITMAP_SUPER_BYTES, Bitmap, BitmapSuper, sync_size};
use crate::check::{chunk_fits, least_slots};
use crate::raw::{MAX_ROLES, SUPER_BYTES};
use crate::superblock::MAX_NAME_BYTES;
use crate::{ByteOrder, Feature, MetadataVersion, RawSuper, Role, Superblock, super_offsets};

/// Roles in a new superblock, at least: as mdadm.
const USUAL_ROLES: usize = 128;

/// RAID1's size is rounded down to this: 64 KiB.
const SIZE_UNIT: SectorCount = SectorCount(128);

/// Everything that makes the array, for each member.
#[derive(Clone, Debug)]
pub struct CreatePlan {
    /// In the order of [`CreateSpec::members`]; `None` for missing ones.
    pub members: Vec<Option<MemberPlan>>,
    /// Where the data begins on each member.
    pub data_offset: Sector,
    /// Sectors used of each member; 0 for linear and RAID0, which use each member's `data_size`.
    pub used_size: SectorCount,
    /// Bytes for each bit of the bitmap; `None` without one.
    pub bitmap_chunk_bytes: Option<u32>,
    /// Does the array begin with a resync?
    pub resync: bool,
}

/// What to write to one member: first `wipe`, then the bitmap and the bad-block log, the superblock last.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    /// What the member will do.
    pub role: Role,
    /// The superblock; [`RawSuper::to_bytes`] goes to `super_byte`.
    pub superblock: RawSuper,
    /// Where it goes, in bytes.
    pub super_byte: u64,
    /// The bitmap, if there is one.
    pub bitmap: Option<MemberArea>,
    /// The empty bad-block log; version 0.90 has none.
    pub bad_block_log: Option<MemberArea>,
    /// Bytes to fill with zeros, since an older superblock may lie there. None overlaps what is written.
    pub wipe: Vec<Range<u64>>,
}

/// Bytes for a place on a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberArea {
    /// Where they go, in bytes.
    pub start_byte: u64,
    /// The bytes: whole blocks of 4096.
    pub bytes: Vec<u8>,
}

impl MemberArea {
    fn range(&self) -> Range<u64> {
        self.start_byte..self.start_byte + self.bytes.len() as u64
    }
}

/// How consistent the new array is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Nothing to do.
    Clean,
    /// Resync from the start.
    Resync,
    /// The member in this slot is recovered from the others, which makes P and Q agree.
    Recover(Slot),
}

impl CreateSpec {
    /// What to write on which member.
    ///
    /// A degraded RAID4, RAID5 or RAID6 begins clean: there is nothing to compare with. RAID6 with one member missing has P and Q
    /// that may disagree, so its last present member begins as one to be recovered.
    ///
    /// # Errors
    /// [`CreateError`] says what is wrong with the wish.
    pub fn plan(&self) -> Result<CreatePlan, CreateError> {
        self.check()?;
        let present = || self.members.iter().enumerate().filter_map(|(index, member)| Some((index, member.as_ref()?)));
        let (smallest, smallest_member) =
            present().min_by_key(|(_, member)| member.sectors).ok_or_else(|| self.too_many_missing())?;
        let placement = Placement::choose(self, smallest, smallest_member.sectors)?;
        let room = placement.data_size(self, smallest, smallest_member.sectors)?;
        let used_size = self.used_size(smallest, room)?;
        let start = self.start();
        let roles = self.roles(start);
        let plan_member = |(index, member): (usize, &Option<NewMember>)| {
            let Some(member) = member else { return Ok(None) };
            let superblock = self.superblock(&placement, index, member, used_size, start, roles.clone())?;
            Ok(Some(self.member_plan(&placement, member, superblock, start)))
        };
        Ok(CreatePlan {
            members: self.members.iter().enumerate().map(plan_member).collect::<Result<_, CreateError>>()?,
            data_offset: placement.data_offset,
            used_size,
            bitmap_chunk_bytes: self.bitmap.map(|_| placement.bitmap_chunk_bytes),
            resync: start == Start::Resync,
        })
    }

    /// What the bits of a bitmap cover when `used` sectors of each member are used.
    pub(super) fn sync_size(&self, used: SectorCount) -> SectorCount {
        sync_size(self.layout, self.chunk, self.raid_disks, used)
    }

    /// What the used size is a multiple of.
    pub(super) fn size_unit(&self) -> SectorCount {
        if self.level.has_chunks() { self.chunk } else { SIZE_UNIT }
    }

    fn too_many_missing(&self) -> CreateError {
        let missing = self.members.iter().filter(|member| member.is_none()).count();
        CreateError::TooManyMissing { level: self.level, slots: usize::from(self.raid_disks), missing }
    }

    /// Whatever can be said without looking at sizes.
    fn check(&self) -> Result<(), CreateError> {
        let level = self.level;
        if Layout::from_md_number(level, self.layout.md_number(level)) != Ok(self.layout) {
            return Err(CreateError::Layout { level, layout: self.layout });
        }
        let (slots, spares, given) = (usize::from(self.raid_disks), usize::from(self.spare_disks), self.members.len());
        let needed = least_slots(level, self.layout);
        if slots < needed {
            return Err(CreateError::TooFewMembers { level, given: slots, needed });
        }
        let limit = self.version.max_devices();
        if slots + spares > limit {
            return Err(CreateError::TooManyMembers { given: slots + spares, limit });
        }
        if given != slots + spares {
            return Err(CreateError::MemberCount { given, slots, spares });
        }
        if spares > 0 && !level.is_redundant() {
            return Err(CreateError::NoSpares { level });
        }
        if let Some(index) = (slots..given).find(|&index| self.members[index].is_none()) {
            return Err(CreateError::MissingSpare { index });
        }
        if !self.can_do_without_missing() {
            return Err(self.too_many_missing());
        }
        chunk_fits(level, self.chunk).map_err(|takes| CreateError::Chunk { level, chunk: self.chunk, takes })?;
        // The superblock counts a chunk in 32 bits of sectors; half of that keeps twice a chunk within them.
        if self.chunk.0 > u64::from(u32::MAX / 2) {
            return Err(CreateError::Chunk { level, chunk: self.chunk, takes: "less than 1 TiB" });
        }
        if self.name.len() > MAX_NAME_BYTES {
            return Err(CreateError::Name { len: self.name.len() });
        }
        if self.version == MetadataVersion::V0_90 {
            self.check_090()?;
        }
        let blocks =
            self.members.iter().enumerate().filter_map(|(index, member)| Some((index, member.as_ref()?.logical_block_bytes)));
        let mut blocks = blocks.into_iter();
        if let Some((index, bytes)) = blocks.clone().find(|(_, bytes)| ![512, 4096].contains(bytes)) {
            return Err(CreateError::LogicalBlock { index, bytes });
        }
        let recorded = self.logical_block_bytes;
        if ![0, 512, 4096].contains(&recorded) {
            return Err(CreateError::RecordedBlock { bytes: recorded });
        }
        if let Some((index, bytes)) = blocks.find(|(_, bytes)| recorded != 0 && *bytes > recorded) {
            return Err(CreateError::LargerBlock { index, bytes, recorded });
        }
        Ok(())
    }

    /// What only version 0.90 does not do.
    fn check_090(&self) -> Result<(), CreateError> {
        let cannot = |what| Err(CreateError::Version090 { what });
        if self.level == Level::Raid0 {
            return cannot("has no place for the layout of RAID0's zones");
        }
        if self.data_offset.is_some_and(|offset| offset != Sector(0)) {
            return cannot("has its data at the start of each member");
        }
        if self.logical_block_bytes != 0 {
            return cannot("has no place for a logical block size");
        }
        if self.chunk.bytes() > u64::from(u32::MAX) {
            return cannot("counts chunks in 32 bits of bytes");
        }
        Ok(())
    }

    fn is_missing(&self, slot: usize) -> bool {
        self.members[slot].is_none()
    }

    fn missing_slots(&self) -> usize {
        (0..usize::from(self.raid_disks)).filter(|&slot| self.is_missing(slot)).count()
    }

    fn can_do_without_missing(&self) -> bool {
        let (slots, missing) = (usize::from(self.raid_disks), self.missing_slots());
        match (self.level, self.layout) {
            (Level::Linear | Level::Raid0, _) => missing == 0,
            (Level::Raid1, _) => missing < slots,
            (_, Layout::Raid10(layout)) if layout.far_sets => missing < layout.copies(),
            (_, Layout::Raid10(layout)) => {
                // Copies of chunk number k lie on `near` members from k * near on, and again `near` members further for each far copy.
                let near = usize::from(layout.near_copies);
                (0..slots).all(|chunk| (0..layout.copies()).any(|copy| !self.is_missing((chunk * near + copy) % slots)))
            }
            (level, _) => missing <= level.parity_members(),
        }
    }

    fn used_size(&self, smallest: usize, room: SectorCount) -> Result<SectorCount, CreateError> {
        let used = self.used_size_unlimited(smallest, room)?;
        if self.version == MetadataVersion::V0_90 && used.0 / 2 > u64::from(u32::MAX) {
            return Err(CreateError::Version090 { what: "uses less than 4 TiB of each member (ask for less with the size)" });
        }
        Ok(used)
    }

    fn used_size_unlimited(&self, smallest: usize, room: SectorCount) -> Result<SectorCount, CreateError> {
        let unit = self.size_unit();
        match self.size {
            Some(_) if !self.level.is_redundant() => Err(CreateError::SizeNotTaken { level: self.level }),
            None if !self.level.is_redundant() => Ok(SectorCount(0)),
            None => Ok(room.round_down(unit)),
            Some(asked) if asked > room => Err(CreateError::SizeTooBig { asked, index: smallest, room }),
            Some(asked) if asked < unit => Err(CreateError::SizeTooSmall { asked, unit }),
            Some(asked) => Ok(asked.round_down(unit)),
        }
    }

    fn start(&self) -> Start {
        let missing = self.missing_slots();
        let alone = self.level == Level::Raid1 && missing + 1 == usize::from(self.raid_disks);
        if self.assume_clean || !self.level.is_redundant() || alone {
            return Start::Clean;
        }
        let last_present = (0..usize::from(self.raid_disks)).rfind(|&slot| !self.is_missing(slot));
        match (self.level, missing, last_present) {
            (_, 0, _) | (Level::Raid1 | Level::Raid10, ..) => Start::Resync,
            (Level::Raid6, 1, Some(slot)) => Start::Recover(Slot::from_index(slot)),
            _ => Start::Clean,
        }
    }

    /// The table of roles: one entry for each member in order. Absent and unused ones are spare as mdadm leaves them; to version
    /// 0.90 they are nobody, and a member to be filled is a spare.
    fn roles(&self, start: Start) -> Vec<Role> {
        let slots = usize::from(self.raid_disks);
        let records_recovery = self.version.records_recovery();
        let nobody = if records_recovery { Role::Spare } else { Role::Faulty };
        let role = |index: usize| match self.members.get(index) {
            Some(Some(_)) if !records_recovery && start == Start::Recover(Slot::from_index(index)) => Role::Spare,
            Some(Some(_)) if index < slots => Role::Active(Slot::from_index(index)),
            Some(Some(_)) => Role::Spare,
            _ => nobody,
        };
        let given = self.members.len();
        let entries = if records_recovery { given.next_multiple_of(USUAL_ROLES).min(MAX_ROLES) } else { given };
        (0..entries).map(role).collect()
    }

    fn superblock(
        &self,
        placement: &Placement,
        index: usize,
        member: &NewMember,
        used_size: SectorCount,
        start: Start,
        roles: Vec<Role>,
    ) -> Result<Superblock, CreateError> {
        let recovers = matches!((start, roles[index]), (Start::Recover(slot), Role::Active(own)) if slot == own);
        let mut superblock = Superblock {
            version: self.version,
            byte_order: ByteOrder::Little,
            preferred_minor: if self.version == MetadataVersion::V0_90 { self.preferred_minor } else { 0 },
            features: 0,
            array_id: self.array_id,
            name: if self.version == MetadataVersion::V0_90 { Vec::new() } else { self.name.clone() },
            created_seconds: self.created_seconds,
            created_micros: self.created_micros,
            level: self.level,
            layout: self.layout,
            used_size,
            chunk: if self.level == Level::Raid1 { SectorCount(0) } else { self.chunk },
            raid_disks: self.raid_disks,
            bitmap_offset: placement.bitmap.map(|(offset, _)| offset),
            ppl: None,
            reshape: None,
            data_offset: placement.data_offset,
            data_size: placement.data_size(self, index, member.sectors)?,
            super_offset: Placement::super_offset(self, member.sectors),
            recovery_offset: recovers.then_some(Sector(0)),
            journal_tail: None,
            dev_number: index as u32,
            corrected_reads: 0,
            device_id: member.device_id,
            flags: member.flags,
            bad_block_shift: 0,
            bad_block_sectors: placement.bad_block_offset.map_or(0, |_| BAD_BLOCK_SECTORS),
            bad_block_offset: placement.bad_block_offset.unwrap_or(0),
            updated_seconds: self.created_seconds,
            updated_micros: self.created_micros,
            events: 1,
            resync_offset: (start == Start::Resync).then_some(Sector(0)),
            roles,
            logical_block_bytes: self.logical_block_bytes,
        };
        let zones_named = matches!(self.layout, Layout::Raid0(Raid0Layout::Original | Raid0Layout::Alternate));
        superblock.set_feature(Feature::Raid0Layout, zones_named);
        Ok(superblock)
    }

    fn member_plan(&self, placement: &Placement, member: &NewMember, superblock: Superblock, start: Start) -> MemberPlan {
        let super_byte = superblock.super_offset.byte_offset();
        let at = |offset: i32| {
            super_byte.checked_add_signed(i64::from(offset) * SECTOR_BYTES as i64).expect("every area was placed on the member")
        };
        let bitmap = placement.bitmap.map(|(offset, room)| MemberArea {
            start_byte: at(offset),
            bytes: self.bitmap_bytes(placement.bitmap_chunk_bytes, room, &superblock, start),
        });
        let bad_block_log = placement.bad_block_offset.map(|offset| MemberArea {
            start_byte: at(offset),
            bytes: vec![0xff; usize::from(BAD_BLOCK_SECTORS) * SECTOR_BYTES as usize],
        });
        let own = super_byte..super_byte + SUPER_BYTES as u64;
        let written: Vec<_> = std::iter::once(own).chain(bitmap.iter().chain(&bad_block_log).map(MemberArea::range)).collect();
        let wipe = super_offsets(member.sectors.bytes())
            .map(|(_, at)| at..at + SUPER_BYTES as u64)
            .filter(|old| written.iter().all(|new| old.end <= new.start || new.end <= old.start))
            .collect();
        MemberPlan {
            role: superblock.own_role(),
            superblock: RawSuper::from_new(superblock),
            super_byte,
            bitmap,
            bad_block_log,
            wipe,
        }
    }

    /// The bitmap, all dirty before a resync, else all clean, up to the end of its room.
    fn bitmap_bytes(&self, chunk_bytes: u32, room: SectorCount, superblock: &Superblock, start: Start) -> Vec<u8> {
        let mut head = BitmapSuper::new(superblock.bitmap_id(), self.sync_size(superblock.used_size), chunk_bytes);
        head.events = superblock.events;
        let bits = if start == Start::Resync { Bitmap::new_dirty(head.bits()) } else { Bitmap::new_clean(head.bits()) };
        let mut bytes = head.to_bytes().to_vec();
        bytes.extend(bits.bytes(0..room.len_bytes() - BITMAP_SUPER_BYTES));
        bytes
    }
}
