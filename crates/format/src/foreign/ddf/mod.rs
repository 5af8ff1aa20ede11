//! DDF, the SNIA's "Common RAID Disk Data Format": an anchor in the last block points to a header, and that to sections.
//! All numbers are big-endian; each structure has a CRC over itself in which its own four bytes count as 0xff.

mod volume;

use std::ops::Range;

use super::{ForeignVolume, text};
use crate::crc32;

pub use volume::VolumeError;

/// The signature of a header.
pub const DDF_MAGIC: [u8; 4] = [0xde, 0x11, 0xde, 0x11];

/// Bytes of a header, and the unit of its places.
pub const DDF_BLOCK: usize = 512;

/// Bytes of a section that are read, at most: the largest tables that the specification allows are smaller.
pub const MAX_SECTION_BYTES: u64 = 4 << 20;

const PHYSICAL_MAGIC: u32 = 0x2222_2222;
const VIRTUAL_MAGIC: u32 = 0xdddd_dddd;
const CONFIG_MAGIC: u32 = 0xeeee_eeee;
const DISK_DATA_MAGIC: u32 = 0x3333_3333;

/// Metadata that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its DDF {what} at byte {byte}: {why}")]
pub struct DdfError {
    /// Which structure.
    pub what: &'static str,
    /// Where it lies.
    pub byte: u64,
    /// What is wrong with it.
    pub why: String,
}

/// Where a section lies on the disk, in bytes.
pub type Section = Range<u64>;

/// A header, and where its sections lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdfHeader {
    /// The container's identity.
    pub guid: [u8; 24],
    /// The revision, as text.
    pub revision: String,
    /// Goes up with each change.
    pub sequence: u32,
    /// Was it left open by whoever wrote it last?
    pub open: bool,
    /// First blocks of the primary and the secondary header.
    pub headers: [u64; 2],
    /// Physical disk records.
    physical: Section,
    /// Virtual disk records.
    virtuals: Section,
    /// Configuration records.
    config: Section,
    /// What the disk says of itself.
    disk_data: Section,
    /// Bytes of a configuration record.
    record_bytes: usize,
    /// Disks that a record has room for.
    record_disks: usize,
}

/// A disk of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdfDisk {
    /// Its reference number.
    pub reference: u32,
    /// Its identity: vendor and serial number.
    pub guid: [u8; 24],
    /// Bits: 1 forced GUID, 2 in a volume, 4 global spare, 8 spare, 16 foreign.
    pub kind: u16,
    /// Bits: 1 online, 2 failed, 4 rebuilding, 8 in transition, 16 SMART errors, 32 read errors, 64 missing.
    pub state: u16,
    /// Sectors that volumes may use.
    pub usable_sectors: u64,
}

impl DdfDisk {
    /// Has it been seen to work, and is it whole?
    fn is_good(&self) -> bool {
        self.state & 1 != 0 && self.state & (2 | 4 | 64) == 0
    }

    /// The state in words.
    #[must_use]
    pub fn state_words(&self) -> String {
        let names = ["online", "failed", "rebuilding", "in transition", "SMART errors", "read errors", "missing"];
        let set: Vec<&str> =
            names.iter().enumerate().filter(|(bit, _)| self.state & 1 << bit != 0).map(|(_, name)| *name).collect();
        if set.is_empty() { "offline".to_owned() } else { set.join(", ") }
    }
}

/// A record of the table of virtual disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdfVirtual {
    /// The volume's identity.
    pub guid: [u8; 24],
    /// Its name.
    pub name: String,
    /// 0 optimal, 1 degraded, 2 deleted, 3 missing, 4 failed, 5 partially optimal; bit 3 morphing, bit 4 inconsistent.
    pub state: u8,
    /// 0 not initialised, 1 being so, 2 fully; above them who may access it.
    pub init_state: u8,
}

/// A configuration record: one element of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdfConfig {
    /// The volume's identity.
    pub guid: [u8; 24],
    /// Goes up with each change.
    pub sequence: u32,
    /// Sectors in a chunk, as a power of two; 255 for none.
    pub chunk_shift: u8,
    /// The primary level.
    pub level: u8,
    /// Its qualifier.
    pub qualifier: u8,
    /// How many elements the volume has.
    pub elements: u8,
    /// Which of them this is.
    pub element: u8,
    /// How elements are put together.
    pub secondary_level: u8,
    /// Sectors used on each disk.
    pub blocks: u64,
    /// Sectors of the whole volume.
    pub array_blocks: u64,
    /// Reference and first sector of each disk.
    pub disks: Vec<(u32, u64)>,
}

/// What one disk holds of its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdfMetadata {
    /// The header.
    pub header: DdfHeader,
    /// The disk's own reference number.
    pub own: u32,
    /// All disks of the container.
    pub disks: Vec<DdfDisk>,
    /// All its volumes.
    pub virtuals: Vec<DdfVirtual>,
    /// What this disk knows of them.
    pub configs: Vec<DdfConfig>,
}

/// The four sections' bytes, in the order of [`DdfHeader::sections`].
pub type SectionBytes = [Vec<u8>; 4];

impl DdfHeader {
    /// A header of which `bytes` are the block at `byte`, on a disk of `disk_bytes`.
    ///
    /// # Errors
    /// It is none, its checksum is wrong, or a section is not on the disk.
    pub fn parse(bytes: &[u8], byte: u64, disk_bytes: u64) -> Result<DdfHeader, DdfError> {
        const WHAT: &str = "header";
        let refuse = |why: String| Err(DdfError { what: WHAT, byte, why });
        if bytes.len() < DDF_BLOCK || !bytes.starts_with(&DDF_MAGIC) {
            return refuse("there is none".to_owned());
        }
        let bytes = &bytes[..DDF_BLOCK];
        check_crc(WHAT, bytes, byte)?;
        let primary = u64_at(bytes, 96);
        let section = |at: usize| {
            let (start, len) = (u64::from(u32_at(bytes, at)), u64::from(u32_at(bytes, at + 4)));
            let start = primary.checked_add(start)?.checked_mul(DDF_BLOCK as u64)?;
            let len = len * DDF_BLOCK as u64;
            let end = start.checked_add(len)?;
            (end <= disk_bytes && len <= MAX_SECTION_BYTES).then_some(start..end)
        };
        let sections =
            [(200, "physical disk records"), (208, "virtual disk records"), (216, "configuration records"), (224, "disk data")];
        let mut found = Vec::new();
        for (at, name) in sections {
            match section(at) {
                Some(section) => found.push(section),
                None => {
                    return refuse(format!("the section of {name} is not on the disk, or longer than {MAX_SECTION_BYTES} bytes"));
                }
            }
        }
        let (record_blocks, record_disks) = (u16_at(bytes, 134), usize::from(u16_at(bytes, 136)));
        let record_bytes = usize::from(record_blocks) * DDF_BLOCK;
        if record_bytes < DDF_BLOCK + 12 * record_disks {
            return refuse(format!("configuration records of {record_blocks} blocks do not hold {record_disks} disks"));
        }
        let [physical, virtuals, config, disk_data] = <[Section; 4]>::try_from(found).unwrap_or_default();
        Ok(DdfHeader {
            guid: array_at(bytes, 8),
            revision: text(&bytes[32..40]),
            sequence: u32_at(bytes, 40),
            open: bytes[48] != 0,
            headers: [primary, u64_at(bytes, 104)],
            physical,
            virtuals,
            config,
            disk_data,
            record_bytes,
            record_disks,
        })
    }

    /// Where to read what [`DdfMetadata::parse`] takes.
    #[must_use]
    pub fn sections(&self) -> [Section; 4] {
        [self.physical.clone(), self.virtuals.clone(), self.config.clone(), self.disk_data.clone()]
    }
}

impl DdfMetadata {
    /// All that the sections say.
    ///
    /// # Errors
    /// A section is not what it should be, or its checksum is wrong. A configuration record with a wrong checksum is left out,
    /// for other disks may have it.
    pub fn parse(header: DdfHeader, sections: &SectionBytes) -> Result<DdfMetadata, DdfError> {
        let [physical, virtuals, config, disk_data] = sections;
        let disks = records("physical disk records", physical, header.physical.start, PHYSICAL_MAGIC)?
            .map(|record| DdfDisk {
                guid: array_at(record, 0),
                reference: u32_at(record, 24),
                kind: u16_at(record, 28),
                state: u16_at(record, 30),
                usable_sectors: u64_at(record, 32),
            })
            .collect();
        let virtuals = records("virtual disk records", virtuals, header.virtuals.start, VIRTUAL_MAGIC)?
            .map(|record| DdfVirtual {
                guid: array_at(record, 0),
                state: record[32],
                init_state: record[33],
                name: text(&record[48..64]),
            })
            .collect();
        let own = checked("disk data", disk_data, header.disk_data.start, DISK_DATA_MAGIC)?;
        let own = u32_at(own, 32);
        let records = config.chunks_exact(header.record_bytes).filter(|record| u32_at(record, 0) == CONFIG_MAGIC);
        let configs =
            records.filter(|record| crc_is_right(record)).filter_map(|record| config_record(record, header.record_disks));
        let configs = configs.collect();
        Ok(DdfMetadata { header, own, disks, virtuals, configs })
    }

    /// The volumes of a container of which these are the disks that are there, in the order of their names in the table; each as
    /// md's arithmetic can read it, or why it cannot be read.
    #[must_use]
    pub fn volumes(disks: &[DdfMetadata]) -> Vec<Result<ForeignVolume, VolumeError>> {
        volume::volumes(disks)
    }
}

/// A configuration record, unless it has more disks than it has room for.
fn config_record(record: &[u8], room: usize) -> Option<DdfConfig> {
    let count = usize::from(u16_at(record, 64));
    let places = DDF_BLOCK + 4 * room;
    (count <= room).then(|| DdfConfig {
        guid: array_at(record, 8),
        sequence: u32_at(record, 36),
        chunk_shift: record[66],
        level: record[67],
        qualifier: record[68],
        elements: record[69],
        element: record[70],
        secondary_level: record[71],
        blocks: u64_at(record, 72),
        array_blocks: u64_at(record, 80),
        disks: (0..count).map(|index| (u32_at(record, DDF_BLOCK + 4 * index), u64_at(record, places + 8 * index))).collect(),
    })
}

/// The entries of 64 bytes of a table that are in use: a GUID of ones is none.
fn records<'a>(what: &'static str, bytes: &'a [u8], byte: u64, magic: u32) -> Result<impl Iterator<Item = &'a [u8]>, DdfError> {
    let bytes = checked(what, bytes, byte, magic)?;
    Ok(bytes[64..].chunks_exact(64).filter(|record| record[..24] != [0xff; 24] && record[..24] != [0; 24]))
}

/// The bytes of a structure, its signature and checksum being right.
fn checked<'a>(what: &'static str, bytes: &'a [u8], byte: u64, magic: u32) -> Result<&'a [u8], DdfError> {
    let found = u32_at(bytes, 0);
    if bytes.len() < DDF_BLOCK || found != magic {
        return Err(DdfError { what, byte, why: format!("the signature is {found:#010x}, not {magic:#010x}") });
    }
    check_crc(what, bytes, byte)?;
    Ok(bytes)
}

fn check_crc(what: &'static str, bytes: &[u8], byte: u64) -> Result<(), DdfError> {
    if crc_is_right(bytes) {
        return Ok(());
    }
    let (found, [expected, _]) = (u32_at(bytes, 4), crcs(bytes));
    Err(DdfError { what, byte: byte + 4, why: format!("the checksum is {found:#010x}, not {expected:#010x}") })
}

fn crc_is_right(bytes: &[u8]) -> bool {
    crcs(bytes).contains(&u32_at(bytes, 4))
}

/// The checksum as the specification has it, and as mdadm writes it: from 0 on, and not inverted.
fn crcs(bytes: &[u8]) -> [u32; 2] {
    let parts = [bytes.get(..4).unwrap_or_default(), &[0xff; 4], bytes.get(8..).unwrap_or_default()];
    [crc32::crc32(parts), crc32::register(0, parts)]
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array_at(bytes, at))
}
