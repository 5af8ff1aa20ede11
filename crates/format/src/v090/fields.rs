//! Every number of a 0.90 superblock as found, whether or not it makes sense: for `examine`.

use uuid::Uuid;

use super::words::{Words, at, disk_at};
use crate::{ByteOrder, MAX_DEVICES_090};

/// The fields of a 0.90 superblock, unchecked, by the names of `linux/raid/md_p.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFields090 {
    /// Of all its numbers.
    pub byte_order: ByteOrder,
    /// 90, or 91 while the array is reshaped.
    pub minor_version: u32,
    /// Patch level.
    pub patch_version: u32,
    /// Used words of the first section.
    pub gvalid_words: u32,
    /// `set_uuid0` to `set_uuid3`, as mdadm shows them.
    pub set_uuid: Uuid,
    /// Creation, seconds since 1970.
    pub ctime: u32,
    /// Level.
    pub level: i32,
    /// KiB used of each member.
    pub size: u32,
    /// Devices in the table.
    pub nr_disks: u32,
    /// Slots.
    pub raid_disks: u32,
    /// Preferred minor: N of /dev/mdN.
    pub md_minor: u32,
    /// Not 0: there should be no superblock at all.
    pub not_persistent: u32,
    /// Last update, seconds since 1970.
    pub utime: u32,
    /// Bit 0 clean, 1 errors, 5 clustered, 8 bitmap present.
    pub state: u32,
    /// Devices that are active.
    pub active_disks: u32,
    /// Devices that are active or spare.
    pub working_disks: u32,
    /// Devices that are faulty or missing.
    pub failed_disks: u32,
    /// Spares.
    pub spare_disks: u32,
    /// `sb_csum` as found.
    pub checksum_found: u32,
    /// What it should be.
    pub checksum_expected: u32,
    /// Event count.
    pub events: u64,
    /// Events at which `recovery_cp` was recorded.
    pub cp_events: u64,
    /// Sectors in sync of an array that was stopped in its resync.
    pub recovery_cp: u32,
    /// Array sector that the reshape has reached; meaningful, as the next four, with minor version 91.
    pub reshape_position: u64,
    /// Level after the reshape.
    pub new_level: i32,
    /// Members gained, or lost.
    pub delta_disks: i32,
    /// Layout after the reshape.
    pub new_layout: u32,
    /// Chunk after the reshape in bytes.
    pub new_chunk: u32,
    /// Layout.
    pub layout: u32,
    /// Chunk in bytes.
    pub chunk_size: u32,
    /// All 27 descriptors.
    pub disks: Vec<Descriptor>,
    /// This member's own.
    pub this_disk: Descriptor,
}

/// What a superblock says of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number in the array.
    pub number: u32,
    /// Of the block device that it was.
    pub major: u32,
    /// Of the block device that it was.
    pub minor: u32,
    /// The slot.
    pub raid_disk: u32,
    /// Bit 0 faulty, 1 active, 2 sync, 3 removed, 9 write-mostly, 10 failfast.
    pub state: u32,
}

impl Descriptor {
    /// The state in mdadm's words, `spare` when no bit says otherwise.
    #[must_use]
    pub fn state_words(&self) -> String {
        const WORDS: [(u32, &str); 6] =
            [(0, "faulty"), (1, "active"), (2, "sync"), (3, "removed"), (9, "write-mostly"), (10, "failfast")];
        let set: Vec<&str> = WORDS.iter().filter(|(bit, _)| self.state & 1 << bit != 0).map(|(_, word)| *word).collect();
        if self.state & 0xf == 0 { [&["spare"], &set[..]].concat().join(" ") } else { set.join(" ") }
    }

    /// Does it name no device at all?
    #[must_use]
    pub const fn is_unused(&self) -> bool {
        self.number == 0 && self.state == 0
    }

    pub(super) fn of([number, major, minor, raid_disk, state]: [u32; 5]) -> Descriptor {
        Descriptor { number, major, minor, raid_disk, state }
    }
}

impl RawFields090 {
    /// Reads the fields of the 4096 bytes of a superblock, in either byte order; `None` when the magic is missing, the major
    /// version is not 0 or there are fewer bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<RawFields090> {
        let words = Words::read(bytes)?;
        if words.get(at::MAJOR_VERSION) != 0 {
            return None;
        }
        Some(RawFields090 {
            byte_order: words.order,
            minor_version: words.get(at::MINOR_VERSION),
            patch_version: words.get(at::PATCH_VERSION),
            gvalid_words: words.get(at::GVALID_WORDS),
            set_uuid: set_uuid(&words),
            ctime: words.get(at::CTIME),
            level: words.get(at::LEVEL).cast_signed(),
            size: words.get(at::SIZE),
            nr_disks: words.get(at::NR_DISKS),
            raid_disks: words.get(at::RAID_DISKS),
            md_minor: words.get(at::MD_MINOR),
            not_persistent: words.get(at::NOT_PERSISTENT),
            utime: words.get(at::UTIME),
            state: words.get(at::STATE),
            active_disks: words.get(at::ACTIVE_DISKS),
            working_disks: words.get(at::WORKING_DISKS),
            failed_disks: words.get(at::FAILED_DISKS),
            spare_disks: words.get(at::SPARE_DISKS),
            checksum_found: words.get(at::SB_CSUM),
            checksum_expected: words.checksum(),
            events: words.get_u64(at::EVENTS),
            cp_events: words.get_u64(at::CP_EVENTS),
            recovery_cp: words.get(at::RECOVERY_CP),
            reshape_position: words.get_u64(at::RESHAPE_POSITION),
            new_level: words.get(at::NEW_LEVEL).cast_signed(),
            delta_disks: words.get(at::DELTA_DISKS).cast_signed(),
            new_layout: words.get(at::NEW_LAYOUT),
            new_chunk: words.get(at::NEW_CHUNK),
            layout: words.get(at::LAYOUT),
            chunk_size: words.get(at::CHUNK_SIZE),
            disks: (0..MAX_DEVICES_090).map(|number| Descriptor::of(words.descriptor(disk_at(number)))).collect(),
            this_disk: Descriptor::of(words.descriptor(at::THIS_DISK)),
        })
    }

    /// Is it being reshaped?
    #[must_use]
    pub const fn is_reshaping(&self) -> bool {
        self.minor_version == 91
    }
}

/// The UUID in the order in which mdadm shows it: four words, the highest byte of each first.
pub(super) fn set_uuid(words: &Words) -> Uuid {
    let word = |index: usize| if index == 0 { words.get(at::SET_UUID0) } else { words.get(at::SET_UUID1 + index - 1) };
    let value = (0..4).fold(0u128, |value, index| value << 32 | u128::from(word(index)));
    Uuid::from_u128(value)
}
