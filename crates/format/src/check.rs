//! From bytes to a [`Superblock`]: every number checked against the member and the others.

use core::fmt::Display;
use core::ops::{Range, RangeInclusive};

use uraid_types::{Layout, Level, SECTOR_BYTES, Sector, SectorCount, Slot};
use uuid::Uuid;

use crate::domain::split_time;
use crate::error::{SuperError, SuperErrorKind as Kind};
use crate::fields::until_nul;
use crate::locate::super_sector;
use crate::raw::{HEAD_BYTES, Head, MAX_ROLES, SUPER_MAGIC, checksum};
use crate::{ByteOrder, DeviceFlags, Feature, MetadataVersion, PplArea, Role, Superblock};

/// The kernel refuses members with less room for data.
const MIN_DATA_SECTORS: u64 = 10;

/// The kernel reads no longer bad-block log than a page.
const MAX_BAD_BLOCK_SECTORS: u16 = 8;

/// A PPL's header alone takes 4 KiB.
const MIN_PPL_SECTORS: u16 = 8;

/// A journal consists of blocks of 4 KiB.
const JOURNAL_BLOCK_SECTORS: u64 = 8;

/// Largest `bblog_shift` that makes sense: units of 32 MiB.
const MAX_BAD_BLOCK_SHIFT: u8 = 16;

/// Logical blocks that a kernel may have recorded: up to its own page, which is 64 KiB at most (admin-guide/md.rst).
const LOGICAL_BLOCKS: RangeInclusive<u32> = 512..=64 << 10;

/// `MD_DISK_ROLE_*` of the header.
const ROLE_SPARE: u16 = 0xffff;
const ROLE_FAULTY: u16 = 0xfffe;
const ROLE_JOURNAL: u16 = 0xfffd;

/// A field's name and its offset in the superblock.
macro_rules! field {
    ($name:ident) => {
        (stringify!($name), core::mem::offset_of!($crate::raw::Head, $name))
    };
}

pub(crate) use field;

/// The start of a superblock, and where it was found.
pub(crate) struct Checker<'a> {
    pub head: &'a Head,
    pub table: &'a [u8],
    pub at: Sector,
    pub member: SectorCount,
}

impl Checker<'_> {
    /// All checks, in an order that names the first thing that went wrong and not what follows from it.
    pub(crate) fn check(&self) -> Result<Superblock, SuperError> {
        self.check_identity()?;
        self.check_features()?;
        let version = self.version()?;
        let (level, layout) = self.shape()?;
        self.check_data_area(version, level)?;
        let reshape = self.reshape(version, level, layout)?;
        self.check_positions(level)?;
        self.check_write_logs(level)?;
        let roles = self.roles()?;
        let head = self.head;
        let bitmap_offset = self.has(Feature::Bitmap).then(|| head.bitmap_offset.get());
        if let Some(offset) = bitmap_offset {
            self.check_place(offset, 1, Kind::BitmapPlace, field!(bitmap_offset))?;
        }
        let ppl = self.ppl_area()?;
        self.check_bad_block_log()?;
        let (created_seconds, created_micros) = split_time(head.ctime.get());
        let (updated_seconds, updated_micros) = split_time(head.utime.get());
        Ok(Superblock {
            version,
            byte_order: ByteOrder::Little,
            preferred_minor: 0,
            features: head.feature_map.get(),
            array_id: Uuid::from_bytes(head.set_uuid),
            name: until_nul(&head.set_name),
            created_seconds,
            created_micros,
            level,
            layout,
            used_size: SectorCount(head.size.get()),
            chunk: SectorCount(u64::from(head.chunksize.get())),
            raid_disks: head.raid_disks.get() as u16,
            reshape,
            bitmap_offset,
            ppl,
            data_offset: Sector(head.data_offset.get()),
            data_size: SectorCount(head.data_size.get()),
            super_offset: self.at,
            recovery_offset: self.has(Feature::RecoveryOffset).then(|| Sector(head.recovery_offset.get())),
            journal_tail: self.is_journal().then(|| Sector(head.recovery_offset.get())),
            dev_number: head.dev_number.get(),
            corrected_reads: head.cnt_corrected_read.get(),
            device_id: Uuid::from_bytes(head.device_uuid),
            flags: DeviceFlags::from_byte(head.devflags),
            bad_block_shift: head.bblog_shift,
            bad_block_sectors: head.bblog_size.get(),
            bad_block_offset: head.bblog_offset.get(),
            updated_seconds,
            updated_micros,
            events: head.events.get(),
            resync_offset: (head.resync_offset.get() != u64::MAX).then(|| Sector(head.resync_offset.get())),
            roles,
            logical_block_bytes: head.logical_block_size.get(),
        })
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.head.feature_map.get() & feature as u32 != 0
    }

    pub(crate) fn fail(
        &self,
        kind: Kind,
        field: (&'static str, usize),
        found: impl Display,
        expected: impl Display,
    ) -> SuperError {
        SuperError {
            kind,
            field: field.0,
            member_byte: self.at.0.saturating_mul(SECTOR_BYTES).saturating_add(field.1 as u64),
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    /// Magic, version, checksum.
    fn check_identity(&self) -> Result<(), SuperError> {
        let head = self.head;
        let magic = head.magic.get();
        if magic != SUPER_MAGIC {
            return Err(self.fail(
                Kind::NoMagic,
                field!(magic),
                format_args!("{magic:#010x}"),
                format_args!("{SUPER_MAGIC:#010x}"),
            ));
        }
        if head.major_version.get() != 1 {
            return Err(self.fail(Kind::MajorVersion, field!(major_version), head.major_version, 1));
        }
        let max_dev = head.max_dev.get() as usize;
        if max_dev > MAX_ROLES {
            return Err(self.fail(Kind::RoleCount, field!(max_dev), max_dev, format_args!("at most {MAX_ROLES}")));
        }
        let Some(table) = self.table.get(..2 * max_dev) else {
            let (found, needed) = (HEAD_BYTES + self.table.len(), HEAD_BYTES + 2 * max_dev);
            let found = format_args!("{max_dev}, for which {found} bytes were read");
            return Err(self.fail(Kind::TooShort, field!(max_dev), found, format_args!("{needed} bytes")));
        };
        let expected = checksum(&[zerocopy::IntoBytes::as_bytes(head), table].concat());
        let found = head.sb_csum.get();
        if found != expected {
            return Err(self.fail(
                Kind::Checksum,
                field!(sb_csum),
                format_args!("{found:#010x}"),
                format_args!("{expected:#010x}"),
            ));
        }
        Ok(())
    }

    /// Feature bits, and the padding that newer features come from.
    fn check_features(&self) -> Result<(), SuperError> {
        let features = self.head.feature_map.get();
        let unknown = features & !Feature::all_bits();
        if unknown != 0 {
            let expected = format_args!("no bits beyond {:#x}", Feature::all_bits());
            return Err(self.fail(Kind::UnknownFeature, field!(feature_map), format_args!("{features:#x}"), expected));
        }
        if self.head.pad0.get() != 0 {
            return Err(self.fail(Kind::Padding, field!(pad0), self.head.pad0, 0));
        }
        if let Some(index) = self.head.pad3.iter().position(|&byte| byte != 0) {
            let (name, offset) = field!(pad3);
            return Err(self.fail(Kind::Padding, (name, offset + index), self.head.pad3[index], 0));
        }
        let logical_block = self.head.logical_block_size.get();
        if logical_block != 0 && !(logical_block.is_power_of_two() && LOGICAL_BLOCKS.contains(&logical_block)) {
            let expected = format_args!("0 or a power of two from {} to {}", LOGICAL_BLOCKS.start(), LOGICAL_BLOCKS.end());
            return Err(self.fail(Kind::LogicalBlock, field!(logical_block_size), logical_block, expected));
        }
        Ok(())
    }

    /// The version version, from where the superblock was found.
    fn version(&self) -> Result<MetadataVersion, SuperError> {
        let found = self.head.super_offset.get();
        if found != self.at.0 {
            return Err(self.fail(Kind::SuperOffset, field!(super_offset), found, self.at.0));
        }
        [MetadataVersion::V1_2, MetadataVersion::V1_1, MetadataVersion::V1_0]
            .into_iter()
            .find(|&version| super_sector(version, self.member) == Some(self.at))
            .ok_or_else(|| self.fail(Kind::SuperOffset, field!(super_offset), found, "a place of version 1.0, 1.1 or 1.2"))
    }

    /// Level, layout, number of slots and chunk, as they fit each other.
    fn shape(&self) -> Result<(Level, Layout), SuperError> {
        let head = self.head;
        let level = Level::from_md_number(head.level.get())
            .ok_or_else(|| self.fail(Kind::Level, field!(level), head.level, "-1 (linear), 0, 1, 4, 5, 6 or 10"))?;
        // Without its feature bit, RAID0's layout number means nothing: the kernel and mdadm leave 0 or 1 there.
        let number = if level == Level::Raid0 && !self.has(Feature::Raid0Layout) { 0 } else { head.layout.get() };
        let layout = Layout::from_md_number(level, number).map_err(|_| {
            let expected = format_args!("one of {}", Layout::names(level));
            self.fail(Kind::Layout, field!(layout), format_args!("{number:#x} at level {level}"), expected)
        })?;
        let (least, raid_disks) = (least_slots(level, layout), head.raid_disks.get() as usize);
        if raid_disks < least || raid_disks > MAX_ROLES {
            let found = format_args!("{raid_disks} at level {level}");
            return Err(self.fail(Kind::RaidDisks, field!(raid_disks), found, format_args!("{least} to {MAX_ROLES}")));
        }
        chunk_fits(level, SectorCount(u64::from(head.chunksize.get())))
            .map_err(|expected| self.fail(Kind::Chunk, field!(chunksize), head.chunksize, expected))?;
        Ok((level, layout))
    }

    /// Data within the member, clear of the superblock, and enough of it.
    fn check_data_area(&self, version: MetadataVersion, level: Level) -> Result<(), SuperError> {
        let head = self.head;
        let (offset, size) = (head.data_offset.get(), head.data_size.get());
        let Range { start: start_limit, end: end_limit } = self.room_for_data(version);
        if offset < start_limit {
            return Err(self.fail(Kind::DataArea, field!(data_offset), offset, format_args!("at least {start_limit}")));
        }
        if size < MIN_DATA_SECTORS || offset.checked_add(size).is_none_or(|end| end > end_limit) {
            let room = end_limit.saturating_sub(offset);
            let expected = format_args!("{MIN_DATA_SECTORS} to {room} sectors after data_offset {offset}");
            return Err(self.fail(Kind::DataArea, field!(data_size), size, expected));
        }
        let used = head.size.get();
        if level.is_redundant() && (used == 0 || used > size && !self.is_journal()) {
            return Err(self.fail(Kind::UsedSize, field!(size), used, format_args!("1 to {size} (data_size)")));
        }
        let chunk = u64::from(head.chunksize.get());
        let room = if level.is_redundant() { used } else { size };
        if level.has_chunks() && chunk > room {
            return Err(self.fail(
                Kind::Chunk,
                field!(chunksize),
                chunk,
                format_args!("at most {room} (the data of one member)"),
            ));
        }
        Ok(())
    }

    /// Sectors of the member where data may lie.
    pub(crate) fn room_for_data(&self, version: MetadataVersion) -> Range<u64> {
        if version == MetadataVersion::V1_0 { 0..self.at.0 } else { self.own_sectors().end..self.member.0 }
    }

    /// Slots of the array, or of the larger of its two shapes.
    pub(crate) fn slots(&self) -> u32 {
        let raid_disks = self.head.raid_disks.get();
        let fewer = self.head.delta_disks.get().min(0).unsigned_abs();
        if self.has(Feature::ReshapeActive) { raid_disks.saturating_add(fewer) } else { raid_disks }
    }

    /// Recovery and resync positions within what they count.
    fn check_positions(&self, level: Level) -> Result<(), SuperError> {
        let head = self.head;
        let data_size = head.data_size.get();
        if self.has(Feature::RecoveryOffset) && head.recovery_offset.get() > data_size {
            let expected = format_args!("at most {data_size} (data_size)");
            return Err(self.fail(Kind::RecoveryOffset, field!(recovery_offset), head.recovery_offset, expected));
        }
        // RAID10 resyncs by array sectors, the others by member sectors.
        let slots = if level == Level::Raid10 { u64::from(self.slots()) } else { 1 };
        let limit = data_size.saturating_mul(slots);
        let resync = head.resync_offset.get();
        if level.is_redundant() && resync != u64::MAX && resync > limit {
            return Err(self.fail(
                Kind::ResyncOffset,
                field!(resync_offset),
                resync,
                format_args!("at most {limit}, or all ones"),
            ));
        }
        Ok(())
    }

    /// Is this member the array's journal, by its own number in the table of roles?
    fn is_journal(&self) -> bool {
        let place = 2 * self.head.dev_number.get() as usize;
        self.table.get(place..place + 2).is_some_and(|pair| pair == ROLE_JOURNAL.to_le_bytes())
    }

    /// Logs of writes: at the levels that can have them, one kind at most, the journal's tail within the journal.
    fn check_write_logs(&self, level: Level) -> Result<(), SuperError> {
        let features = self.head.feature_map.get();
        let has_ppl = self.has(Feature::Ppl) || self.has(Feature::MultiplePpls);
        let fail = |expected: &str| {
            Err(self.fail(Kind::WriteLog, field!(feature_map), format_args!("{features:#x} at level {level}"), expected))
        };
        if has_ppl && level != Level::Raid5 {
            return fail("a PPL at level 5 only");
        }
        if self.has(Feature::Journal) && !level.has_parity() {
            return fail("a journal at levels 4, 5 and 6 only");
        }
        if [has_ppl, self.has(Feature::Journal), self.has(Feature::Bitmap)].into_iter().filter(|&on| on).count() > 1 {
            return fail("one of bitmap, PPL and journal");
        }
        let (tail, data_size) = (self.head.recovery_offset.get(), self.head.data_size.get());
        if self.is_journal() && (tail >= data_size || !tail.is_multiple_of(JOURNAL_BLOCK_SECTORS)) {
            let expected = format_args!("a multiple of {JOURNAL_BLOCK_SECTORS} less than {data_size} (data_size)");
            return Err(self.fail(
                Kind::WriteLog,
                ("journal_tail", core::mem::offset_of!(Head, recovery_offset)),
                tail,
                expected,
            ));
        }
        Ok(())
    }

    /// Where the PPL is; it lies in the bytes that `bitmap_offset` has otherwise.
    fn ppl_area(&self) -> Result<Option<PplArea>, SuperError> {
        if !self.has(Feature::Ppl) && !self.has(Feature::MultiplePpls) {
            return Ok(None);
        }
        let area = PplArea::from_word(self.head.bitmap_offset.get());
        let (_, at) = field!(bitmap_offset);
        if area.sectors < MIN_PPL_SECTORS {
            let expected = format_args!("at least {MIN_PPL_SECTORS} sectors");
            return Err(self.fail(Kind::WriteLog, ("ppl.size", at + 2), area.sectors, expected));
        }
        self.check_place(i32::from(area.offset), u64::from(area.sectors), Kind::WriteLog, ("ppl.offset", at))?;
        Ok(Some(area))
    }

    fn roles(&self) -> Result<Vec<Role>, SuperError> {
        let max_dev = self.head.max_dev.get();
        if self.head.dev_number.get() >= max_dev {
            let expected = format_args!("less than {max_dev} (max_dev)");
            return Err(self.fail(Kind::DevNumber, field!(dev_number), self.head.dev_number, expected));
        }
        let raid_disks = self.slots();
        let table = self.table.chunks_exact(2).take(max_dev as usize).enumerate();
        table
            .map(|(index, pair)| match u16::from_le_bytes([pair[0], pair[1]]) {
                ROLE_SPARE => Ok(Role::Spare),
                ROLE_FAULTY => Ok(Role::Faulty),
                ROLE_JOURNAL => Ok(Role::Journal),
                slot if u32::from(slot) < raid_disks => Ok(Role::Active(Slot(slot))),
                number => {
                    let expected = format_args!("less than {raid_disks} (raid_disks), or 0xfffd to 0xffff");
                    let found = format_args!("{number:#x} for device {index}");
                    Err(self.fail(Kind::Role, ("dev_roles", HEAD_BYTES + 2 * index), found, expected))
                }
            })
            .collect()
    }

    fn check_bad_block_log(&self) -> Result<(), SuperError> {
        let head = self.head;
        let sectors = head.bblog_size.get();
        let recorded = self.has(Feature::BadBlocks);
        if recorded && !(1..=MAX_BAD_BLOCK_SECTORS).contains(&sectors) {
            let expected = format_args!("1 to {MAX_BAD_BLOCK_SECTORS}");
            return Err(self.fail(Kind::BadBlockLog, field!(bblog_size), sectors, expected));
        }
        if recorded && head.bblog_shift > MAX_BAD_BLOCK_SHIFT {
            let expected = format_args!("at most {MAX_BAD_BLOCK_SHIFT}");
            return Err(self.fail(Kind::BadBlockLog, field!(bblog_shift), head.bblog_shift, expected));
        }
        if sectors != 0 && (recorded || head.bblog_offset.get() != 0) {
            self.check_place(head.bblog_offset.get(), u64::from(sectors), Kind::BadBlockLog, field!(bblog_offset))?;
        }
        Ok(())
    }

    /// Sectors of the superblock itself, its last one counted whole.
    fn own_sectors(&self) -> Range<u64> {
        let bytes = HEAD_BYTES as u64 + 2 * u64::from(self.head.max_dev.get());
        self.at.0..self.at.0.saturating_add(bytes.div_ceil(SECTOR_BYTES))
    }

    /// An area of `sectors` at `offset` from the superblock must lie on the member, and over neither superblock nor data.
    fn check_place(&self, offset: i32, sectors: u64, kind: Kind, field: (&'static str, usize)) -> Result<(), SuperError> {
        let data = self.head.data_offset.get()..self.head.data_offset.get() + self.head.data_size.get();
        let clear = |area: &Range<u64>, other: &Range<u64>| area.end <= other.start || area.start >= other.end;
        let area = self.at.0.checked_add_signed(i64::from(offset)).map(|start| start..start.saturating_add(sectors));
        match area {
            Some(area) if area.end <= self.member.0 && clear(&area, &data) && clear(&area, &self.own_sectors()) => Ok(()),
            _ => {
                let expected = format_args!(
                    "a place on the member of {} sectors, outside the superblock and the data ({} to {})",
                    self.member.0, data.start, data.end
                );
                Err(self.fail(kind, field, offset, expected))
            }
        }
    }
}

/// Fewest slots of an array of this level.
pub(crate) fn least_slots(level: Level, layout: Layout) -> usize {
    match (level, layout) {
        (_, Layout::Raid10(layout)) => layout.copies(),
        (Level::Raid6, _) => 4,
        (Level::Raid4 | Level::Raid5, _) => 2,
        _ => 1,
    }
}

/// Does `level` take this chunk? If not: what it takes.
pub(crate) fn chunk_fits(level: Level, chunk: SectorCount) -> Result<(), &'static str> {
    match level {
        Level::Linear | Level::Raid1 => Ok(()),
        Level::Raid0 if chunk.0 > 0 && chunk.0.is_multiple_of(8) => Ok(()),
        Level::Raid0 => Err("a multiple of 8 sectors"),
        Level::Raid4 | Level::Raid5 | Level::Raid6 | Level::Raid10 if chunk.0.is_power_of_two() && chunk.0 >= 8 => Ok(()),
        Level::Raid4 | Level::Raid5 | Level::Raid6 | Level::Raid10 => Err("a power of two of at least 8 sectors"),
    }
}
