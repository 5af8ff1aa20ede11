//! Which array a seed gets, and its disks as they are right after it was created.

use uraid_format::{BitmapSpec, CreateSpec, DeviceFlags, MetadataVersion, NewMember, Superblock};
use uraid_types::{Layout, Level, ParityLayout, Raid10Layout, SECTOR_BYTES, SectorCount};
use uuid::Uuid;

use crate::disk::Disk;
use crate::rng::Rng;

/// An array's description.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The level.
    pub level: Level,
    /// The layout.
    pub layout: Layout,
    /// Slots.
    pub slots: u16,
    /// Spares at creation.
    pub spares: u16,
    /// The chunk; 0 at RAID1.
    pub chunk: SectorCount,
    /// Bytes of each disk's logical block.
    pub block_bytes: u32,
    /// Bytes for each bit of the bitmap.
    pub bitmap_chunk: Option<u32>,
    /// Sectors of each disk.
    pub disk_sectors: u64,
    /// Where the superblock is.
    pub version: MetadataVersion,
    /// No resync at the start: the disks hold zeros.
    pub assume_clean: bool,
}

/// Where things are on every disk, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// The superblock.
    pub super_byte: u64,
    /// The bitmap's superblock, and its length with its bits.
    pub bitmap: Option<(u64, u64)>,
    /// The data.
    pub data_byte: u64,
    /// The end of what is used of it.
    pub data_end_byte: u64,
}

impl Areas {
    /// From a superblock.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Areas {
        let used = if superblock.level.is_redundant() { superblock.used_size } else { superblock.data_size };
        let data_byte = superblock.data_offset.byte_offset();
        Areas {
            super_byte: superblock.super_offset.byte_offset(),
            bitmap: superblock.bitmap_start().map(|start| (start.byte_offset(), 4096)),
            data_byte,
            data_end_byte: data_byte + used.bytes(),
        }
    }
}

impl Setup {
    /// Chooses one.
    pub fn choose(rng: &mut Rng) -> Setup {
        use Level::{Raid0, Raid1, Raid4, Raid5, Raid6, Raid10};
        let level = rng.pick(&[Raid0, Raid1, Raid1, Raid4, Raid5, Raid5, Raid5, Raid6, Raid6, Raid6, Raid10, Raid10]);
        let least = match level {
            Raid6 => 4,
            Raid4 | Raid5 => 3,
            _ => 2,
        };
        let slots = least + rng.below(if level == Raid1 { 3 } else { 4 }) as u16;
        let layout = match level {
            Raid5 | Raid6 => Layout::Parity(rng.pick(ParityLayout::of_level(level))),
            Raid10 if slots == 2 => Layout::Raid10(rng.pick(&[Raid10Layout::near(2), Raid10Layout::far(2)])),
            Raid10 => {
                let copies = if slots > 3 && rng.chance(20) { 3 } else { 2 };
                let mut layouts = vec![Raid10Layout::near(copies), Raid10Layout::far(copies), Raid10Layout::offset(copies)];
                if slots > 3 {
                    layouts.push(Raid10Layout { near_copies: 2, ..Raid10Layout::far(2) });
                    layouts.push(Raid10Layout { far_sets_improved: true, ..Raid10Layout::far(2) });
                }
                Layout::Raid10(rng.pick(&layouts))
            }
            level => Layout::default_for(level),
        };
        let data_sectors = rng.pick(&[256, 256, 384, 640, 1024]);
        let bitmap = level.is_redundant() && rng.chance(60);
        Setup {
            level,
            layout,
            slots,
            spares: if level.is_redundant() && rng.chance(25) { 1 } else { 0 },
            chunk: SectorCount(if level == Raid1 { 0 } else { rng.pick(&[8, 8, 16, 32, 64]) }),
            block_bytes: rng.pick(&[512, 512, 4096]),
            bitmap_chunk: bitmap.then(|| rng.pick(&[4096, 8192, 16384, 65536])),
            disk_sectors: 192 + data_sectors,
            // The rules know where version 1 keeps what they look at.
            version: rng.pick(&[MetadataVersion::V1_0, MetadataVersion::V1_1, MetadataVersion::V1_2]),
            assume_clean: rng.chance(60),
        }
    }

    /// A mirror whose bitmap does not fit the block of its superblock.
    #[must_use]
    pub fn with_many_bits(self) -> Setup {
        Setup {
            level: Level::Raid1,
            layout: Layout::default_for(Level::Raid1),
            slots: 2,
            spares: 0,
            chunk: SectorCount(0),
            block_bytes: 512,
            bitmap_chunk: Some(4096),
            disk_sectors: 192 + 8 * 2300,
            assume_clean: true,
            ..self
        }
    }

    /// A disk of this array's kind with nothing on it.
    pub fn blank_disk(&self, key: usize, noise: Option<&mut Rng>) -> Disk {
        let len_bytes = SectorCount(self.disk_sectors).len_bytes();
        Disk::new(format!("disk{key}"), len_bytes, self.block_bytes as usize, noise)
    }

    /// The disks of the new array: slots first, then spares.
    ///
    /// # Errors
    /// The plan's refusal, which is a fault of the choice.
    pub fn create(&self, rng: &mut Rng) -> Result<Vec<Disk>, String> {
        let count = self.slots + self.spares;
        let member = |key: u16| {
            Some(NewMember {
                sectors: SectorCount(self.disk_sectors),
                device_id: Uuid::from_u128(0x1000 + u128::from(key)),
                flags: DeviceFlags {
                    write_mostly: self.level == Level::Raid1 && key == 1 && self.slots > 2,
                    ..DeviceFlags::default()
                },
                logical_block_bytes: self.block_bytes,
            })
        };
        let spec = CreateSpec {
            level: self.level,
            layout: self.layout,
            raid_disks: self.slots,
            spare_disks: self.spares,
            chunk: self.chunk,
            size: None,
            version: self.version,
            data_offset: None,
            bitmap: self.bitmap_chunk.map(|chunk_bytes| BitmapSpec { chunk_bytes: Some(chunk_bytes) }),
            name: b"sim:0".to_vec(),
            preferred_minor: 0,
            array_id: Uuid::from_u128(0xa),
            created_seconds: 1_700_000_000,
            created_micros: 0,
            assume_clean: self.assume_clean,
            logical_block_bytes: 0,
            members: (0..count).map(member).collect(),
        };
        let plan = spec.plan().map_err(|error| format!("no plan for {self:?}: {error}"))?;
        let mut disks = Vec::new();
        for (key, member) in plan.members.iter().enumerate() {
            let member = member.as_ref().ok_or("a member is missing from the plan")?;
            let mut disk = self.blank_disk(key, (!self.assume_clean).then_some(&mut *rng));
            let mut put = |start_byte: u64, bytes: &[u8]| disk.place(start_byte, bytes);
            for area in member.bitmap.iter().chain(&member.bad_block_log) {
                put(area.start_byte, &area.bytes);
            }
            for range in &member.wipe {
                put(range.start, &vec![0; (range.end - range.start) as usize]);
            }
            put(member.super_byte, &member.superblock.to_bytes());
            disks.push(disk);
        }
        Ok(disks)
    }
}

/// The member data sector of a byte of a disk.
#[must_use]
pub fn data_sector(areas: &Areas, byte: u64) -> u64 {
    (byte - areas.data_byte) / SECTOR_BYTES
}
