//! From the words of a 0.90 superblock to a [`Superblock`]: every number checked against the member and the others.

use core::fmt::Display;

use uraid_types::{Layout, Level, SECTOR_BYTES, Sector, SectorCount};
use uuid::Uuid;

use super::fields::set_uuid;
use super::table;
use super::words::{Words, at, disk, disk_at, state};
use crate::check::{chunk_fits, least_slots};
use crate::error::{SuperError, SuperErrorKind as Kind};
use crate::locate::super_sector;
use crate::reshape::{Fault, Numbers};
use crate::{DeviceFlags, Feature, MAX_DEVICES_090, MetadataVersion, Reshape, Role, Superblock};

/// The superblock ends 4 KiB after its start; so long is it before the bitmap begins, when there is one.
const BITMAP_OFFSET: i32 = 8;

/// The highest minor version that is known: 90, and 91 during a reshape.
const RESHAPING: u32 = 91;

/// All checks, in an order that names the first thing that went wrong and not what follows from it.
pub(crate) fn check(words: &Words, at: Sector, member: SectorCount) -> Result<Superblock, SuperError> {
    Checker { words, at, member }.check()
}

struct Checker<'a> {
    words: &'a Words,
    at: Sector,
    member: SectorCount,
}

impl Checker<'_> {
    fn fail(&self, kind: Kind, field: (&'static str, usize), found: impl Display, expected: impl Display) -> SuperError {
        let (field, word) = field;
        SuperError {
            kind,
            field,
            member_byte: self.at.0.saturating_mul(SECTOR_BYTES).saturating_add(4 * word as u64),
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    fn check(&self) -> Result<Superblock, SuperError> {
        self.check_identity()?;
        let words = self.words;
        let (level, layout, chunk) = self.shape()?;
        let used_size = self.used_size(level)?;
        let raid_disks = words.get(at::RAID_DISKS) as u16;
        let reshape = self.reshape(level, layout, used_size)?;
        let slots = reshape.map_or(raid_disks, |reshape| raid_disks.max(reshape.slots_before(raid_disks)));
        let roles = self.roles(slots)?;
        let bitmap = words.get(at::STATE) & state::BITMAP_PRESENT != 0;
        let dev_number = words.get(at::THIS_DISK);
        let own_state = words.descriptor(disk_at(dev_number as usize))[4];
        Ok(Superblock {
            journal_tail: None,
            ppl: None,
            version: MetadataVersion::V0_90,
            byte_order: words.order,
            preferred_minor: words.get(at::MD_MINOR),
            features: if bitmap { Feature::Bitmap as u32 } else { 0 }
                | if reshape.is_some() { Feature::ReshapeActive as u32 } else { 0 },
            reshape,
            array_id: set_uuid(words),
            name: Vec::new(),
            created_seconds: u64::from(words.get(at::CTIME)),
            created_micros: 0,
            level,
            layout,
            used_size,
            chunk,
            raid_disks,
            bitmap_offset: bitmap.then_some(BITMAP_OFFSET),
            data_offset: Sector(0),
            data_size: SectorCount(self.at.0),
            super_offset: self.at,
            recovery_offset: None,
            dev_number,
            corrected_reads: 0,
            device_id: Uuid::nil(),
            flags: DeviceFlags {
                write_mostly: own_state & disk::WRITE_MOSTLY != 0,
                fail_fast: own_state & disk::FAIL_FAST != 0,
                unknown: 0,
            },
            bad_block_shift: 0,
            bad_block_sectors: 0,
            bad_block_offset: 0,
            updated_seconds: u64::from(words.get(at::UTIME)),
            updated_micros: 0,
            events: words.get_u64(at::EVENTS),
            resync_offset: self.resync_offset(level, used_size)?,
            roles,
            logical_block_bytes: 0,
        })
    }

    /// Version, checksum, place, and what makes it another kind of array.
    fn check_identity(&self) -> Result<(), SuperError> {
        let words = self.words;
        let (major, minor) = (words.get(at::MAJOR_VERSION), words.get(at::MINOR_VERSION));
        if major != 0 {
            return Err(self.fail(Kind::MajorVersion, ("major_version", at::MAJOR_VERSION), major, 0));
        }
        if !(90..=RESHAPING).contains(&minor) {
            return Err(self.fail(Kind::MajorVersion, ("minor_version", at::MINOR_VERSION), minor, "90, or 91 during a reshape"));
        }
        let (found, expected) = (words.get(at::SB_CSUM), words.checksum());
        if found != expected {
            let found = format_args!("{found:#010x}");
            return Err(self.fail(Kind::Checksum, ("sb_csum", at::SB_CSUM), found, format_args!("{expected:#010x}")));
        }
        if super_sector(MetadataVersion::V0_90, self.member) != Some(self.at) {
            let expected = "the last multiple of 64 KiB that leaves 64 KiB before the member's end";
            return Err(self.fail(Kind::SuperOffset, ("md_magic", at::MAGIC), format_args!("at {}", self.at), expected));
        }
        if words.get(at::STATE) & state::CLUSTERED != 0 {
            let found = format_args!("{:#x}, with clustered", words.get(at::STATE));
            return Err(self.fail(Kind::NeedsLaterVersion, ("state", at::STATE), found, "no bit 5"));
        }
        Ok(())
    }

    fn shape(&self) -> Result<(Level, Layout, SectorCount), SuperError> {
        let words = self.words;
        let number = words.get(at::LEVEL).cast_signed();
        let level = Level::from_md_number(number)
            .ok_or_else(|| self.fail(Kind::Level, ("level", at::LEVEL), number, "-1 (linear), 0, 1, 4, 5, 6 or 10"))?;
        // There is no place for RAID0's layout: which one a kernel used is not recorded.
        let number = if level == Level::Raid0 { 0 } else { words.get(at::LAYOUT) };
        let layout = Layout::from_md_number(level, number).map_err(|_| {
            let found = format_args!("{number:#x} at level {level}");
            self.fail(Kind::Layout, ("layout", at::LAYOUT), found, format_args!("one of {}", Layout::names(level)))
        })?;
        let (least, raid_disks) = (least_slots(level, layout), words.get(at::RAID_DISKS) as usize);
        if raid_disks < least || raid_disks > MAX_DEVICES_090 {
            let found = format_args!("{raid_disks} at level {level}");
            let expected = format_args!("{least} to {MAX_DEVICES_090}");
            return Err(self.fail(Kind::RaidDisks, ("raid_disks", at::RAID_DISKS), found, expected));
        }
        let bytes = words.get(at::CHUNK_SIZE);
        let chunk = SectorCount(u64::from(bytes) / SECTOR_BYTES);
        let fits = if u64::from(bytes).is_multiple_of(SECTOR_BYTES) { chunk_fits(level, chunk) } else { Err("whole sectors") };
        fits.map_err(|expected| self.fail(Kind::Chunk, ("chunk_size", at::CHUNK_SIZE), format_args!("{bytes} bytes"), expected))?;
        Ok((level, layout, chunk))
    }

    /// `size` within the data area, which ends where the superblock begins.
    fn used_size(&self, level: Level) -> Result<SectorCount, SuperError> {
        let kib = self.words.get(at::SIZE);
        let used = SectorCount(u64::from(kib) * 2);
        let room = self.at.0;
        if level.is_redundant() && (used.is_zero() || used.0 > room) {
            let found = format_args!("{kib} KiB");
            return Err(self.fail(Kind::UsedSize, ("size", at::SIZE), found, format_args!("1 to {} KiB", room / 2)));
        }
        let chunk = u64::from(self.words.get(at::CHUNK_SIZE)) / SECTOR_BYTES;
        let most = if level.is_redundant() { used.0 } else { room };
        if level.has_chunks() && chunk > most {
            let expected = format_args!("at most {most} sectors (the data of one member)");
            return Err(self.fail(Kind::Chunk, ("chunk_size", at::CHUNK_SIZE), format_args!("{chunk} sectors"), expected));
        }
        Ok(used)
    }

    /// The reshape under way, which the minor version tells.
    fn reshape(&self, level: Level, layout: Layout, used_size: SectorCount) -> Result<Option<Reshape>, SuperError> {
        let words = self.words;
        if words.get(at::MINOR_VERSION) != RESHAPING {
            return Ok(None);
        }
        let bytes = words.get(at::NEW_CHUNK);
        let numbers = Numbers {
            level,
            layout,
            raid_disks: words.get(at::RAID_DISKS),
            used_size: used_size.0,
            new_level: words.get(at::NEW_LEVEL).cast_signed(),
            position: words.get_u64(at::RESHAPE_POSITION),
            delta_disks: words.get(at::DELTA_DISKS).cast_signed(),
            new_layout: words.get(at::NEW_LAYOUT),
            // What is no multiple of a sector is none of 4 KiB either, which is refused as that.
            new_chunk: if u64::from(bytes).is_multiple_of(SECTOR_BYTES) { u64::from(bytes) / SECTOR_BYTES } else { 1 },
            max_slots: MAX_DEVICES_090,
        };
        let (new_layout, new_chunk) = numbers.check().map_err(|Fault { kind, field, found, expected }| {
            let fields = [
                ("new_level", at::NEW_LEVEL),
                ("new_layout", at::NEW_LAYOUT),
                ("new_chunk", at::NEW_CHUNK),
                ("delta_disks", at::DELTA_DISKS),
            ];
            let place = fields.into_iter().find(|(name, _)| *name == field);
            self.fail(kind, place.unwrap_or(("reshape_position", at::RESHAPE_POSITION)), found, expected)
        })?;
        Ok(Some(Reshape {
            position: Sector(numbers.position),
            backwards: numbers.is_backwards(false),
            delta_disks: numbers.delta_disks,
            new_layout,
            new_chunk,
            new_offset: 0,
        }))
    }

    /// `recovery_cp` counts only when nothing happened since it was recorded.
    fn resync_offset(&self, level: Level, used: SectorCount) -> Result<Option<Sector>, SuperError> {
        let words = self.words;
        if words.get(at::STATE) & state::CLEAN != 0 {
            return Ok(None);
        }
        if words.get_u64(at::CP_EVENTS) != words.get_u64(at::EVENTS) {
            return Ok(Some(Sector(0)));
        }
        let found = u64::from(words.get(at::RECOVERY_CP));
        let slots = if level == Level::Raid10 { MAX_DEVICES_090 as u64 } else { 1 };
        let limit = used.0.saturating_mul(slots);
        if level.is_redundant() && found > limit {
            let expected = format_args!("at most {limit}");
            return Err(self.fail(Kind::ResyncOffset, ("recovery_cp", at::RECOVERY_CP), found, expected));
        }
        Ok(Some(Sector(found)))
    }

    fn roles(&self, raid_disks: u16) -> Result<Vec<Role>, SuperError> {
        let own = self.words.get(at::THIS_DISK);
        if own as usize >= MAX_DEVICES_090 {
            let expected = format_args!("less than {MAX_DEVICES_090}");
            return Err(self.fail(Kind::DevNumber, ("this_disk.number", at::THIS_DISK), own, expected));
        }
        let role = |number: usize| {
            table::role(self.words, number, raid_disks).map_err(|slot| {
                let found = format_args!("{slot} for device {number}");
                self.fail(
                    Kind::Role,
                    ("raid_disk", disk_at(number) + 3),
                    found,
                    format_args!("less than {raid_disks} (raid_disks)"),
                )
            })
        };
        (0..table::entries(self.words, raid_disks)).map(role).collect()
    }
}
