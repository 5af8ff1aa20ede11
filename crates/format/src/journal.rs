//! The journal of RAID4, RAID5 and RAID6 (`raid5-cache`): writes on a device of their own, before they go to the members.
//!
//! Source of the format: `struct r5l_meta_block` and its payloads in `linux/raid/md_p.h`, and journals that Linux 6.1 wrote. The
//! journal's data area is a ring of blocks of 4 KiB. A meta block names the blocks that follow it: data, with its array sector;
//! parity of a stripe, with its member data sector; or stripes whose data is on the members by now. The superblock's
//! `journal_tail` is the first meta block that may be needed, and each of the following has the next number; the first that is not
//! whole ends the journal. Checksums are CRC32C registers (nothing inverted at the end) that start from the register of the
//! array's UUID.

use uraid_types::Sector;
use uuid::Uuid;

/// Bytes of a block.
pub const JOURNAL_BLOCK_BYTES: usize = 4096;

/// Sectors of a block.
pub const JOURNAL_BLOCK_SECTORS: u64 = 8;

const MAGIC: u32 = 0x6433_c509;
const VERSION: u8 = 1;
const CHECKSUM: usize = 4;
const VERSION_AT: usize = 8;
const SIZE: usize = 12;
const SEQ: usize = 16;
const POSITION: usize = 24;
const PAYLOADS: usize = 32;

/// The raw register of CRC32C after some bytes, from a seed: this crate computes none itself.
pub type Crc32cRaw = fn(u32, &[u8]) -> u32;

/// The seed of all checksums of the array's journal.
#[must_use]
pub fn journal_seed(array_id: Uuid, crc32c: Crc32cRaw) -> u32 {
    crc32c(!0, array_id.as_bytes())
}

/// A meta block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalMeta {
    /// Its number.
    pub seq: u64,
    /// Its sector, from the journal's data offset.
    pub position: Sector,
    /// What it names, in order.
    pub payloads: Vec<JournalPayload>,
}

/// Something that a meta block names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalPayload {
    /// New data; a block for each checksum follows the meta block.
    Data {
        /// Its array sector.
        array: Sector,
        /// The checksum of each block.
        checksums: Vec<u32>,
    },
    /// New parity of a stripe's rows: P, and Q at RAID6.
    Parity {
        /// Its member data sector.
        member: Sector,
        /// The checksum of each block.
        checksums: Vec<u32>,
    },
    /// Data of these rows has gone to the members: what came before is not needed.
    Flushed {
        /// Member data sectors.
        members: Vec<Sector>,
    },
}

impl JournalPayload {
    /// The checksums of the blocks that it has behind the meta block.
    #[must_use]
    pub fn checksums(&self) -> &[u32] {
        match self {
            JournalPayload::Data { checksums, .. } | JournalPayload::Parity { checksums, .. } => checksums,
            JournalPayload::Flushed { .. } => &[],
        }
    }
}

/// Why a block is no meta block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Not a block.
    #[error("{0} bytes, and a journal's block has {JOURNAL_BLOCK_BYTES}")]
    Length(usize),
    /// Another magic or version.
    #[error("magic {magic:#010x} and version {version}: no meta block")]
    NoMeta {
        /// As found.
        magic: u32,
        /// As found.
        version: u8,
    },
    /// The checksum is not that of the bytes.
    #[error("checksum {found:#010x} instead of {expected:#010x}: torn, or of another array")]
    Checksum {
        /// As found.
        found: u32,
        /// As computed.
        expected: u32,
    },
    /// A payload that goes beyond the block, or makes no sense.
    #[error("the payload at byte {at} is of type {kind} with size {size}, which does not fit")]
    Payload {
        /// Where in the block.
        at: usize,
        /// Its type.
        kind: u16,
        /// Its size field.
        size: u32,
    },
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from(bytes[at]) | u16::from(bytes[at + 1]) << 8
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

impl JournalMeta {
    /// Reads a meta block; `seed` is the array's ([`journal_seed`]).
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(block: &[u8], seed: u32, crc32c: Crc32cRaw) -> Result<JournalMeta, JournalError> {
        if block.len() != JOURNAL_BLOCK_BYTES {
            return Err(JournalError::Length(block.len()));
        }
        let (magic, version) = (u32_at(block, 0), block[VERSION_AT]);
        if magic != MAGIC || version != VERSION {
            return Err(JournalError::NoMeta { magic, version });
        }
        let found = u32_at(block, CHECKSUM);
        let expected = crc32c(crc32c(crc32c(seed, &block[..CHECKSUM]), &[0; 4]), &block[CHECKSUM + 4..]);
        if found != expected {
            return Err(JournalError::Checksum { found, expected });
        }
        let end = u32_at(block, SIZE) as usize;
        let mut payloads = Vec::new();
        let mut at = PAYLOADS;
        while at < end.min(JOURNAL_BLOCK_BYTES) {
            let (payload, len) = payload(&block[..end.min(JOURNAL_BLOCK_BYTES)], at)?;
            payloads.push(payload);
            at += len;
        }
        if end > JOURNAL_BLOCK_BYTES {
            return Err(JournalError::Payload { at, kind: 0, size: end as u32 });
        }
        Ok(JournalMeta { seq: u64_at(block, SEQ), position: Sector(u64_at(block, POSITION)), payloads })
    }

    /// Blocks that follow it.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.payloads.iter().map(|payload| payload.checksums().len() as u64).sum()
    }
}

/// The payload at `at`, and its length in bytes.
fn payload(block: &[u8], at: usize) -> Result<(JournalPayload, usize), JournalError> {
    const DATA: u16 = 0;
    const PARITY: u16 = 1;
    const FLUSH: u16 = 2;
    let head = block.get(at..at + 8).ok_or(JournalError::Payload { at, kind: 0, size: 0 })?;
    let (kind, size) = (u16_at(head, 0), u32_at(head, 4));
    let wrong = JournalError::Payload { at, kind, size };
    let rest = &block[at + 8..];
    if kind == FLUSH {
        let list = rest.get(..size as usize).filter(|list| list.len().is_multiple_of(8)).ok_or(wrong)?;
        let members = list.chunks_exact(8).map(|sector| Sector(u64_at(sector, 0))).collect();
        return Ok((JournalPayload::Flushed { members }, 8 + size as usize));
    }
    let blocks = u64::from(size) / JOURNAL_BLOCK_SECTORS;
    let whole = u64::from(size).is_multiple_of(JOURNAL_BLOCK_SECTORS) && blocks > 0 && blocks <= JOURNAL_BLOCK_BYTES as u64;
    let list = rest.get(8..8 + 4 * blocks as usize).filter(|_| whole && (kind == DATA || kind == PARITY)).ok_or(wrong.clone())?;
    let checksums: Vec<u32> = list.chunks_exact(4).map(|sum| u32_at(sum, 0)).collect();
    let place = Sector(u64_at(rest, 0));
    let len = 16 + list.len();
    if kind == DATA {
        return Ok((JournalPayload::Data { array: place, checksums }, len));
    }
    // P alone, or P and Q.
    if checksums.len() > 2 {
        return Err(wrong);
    }
    Ok((JournalPayload::Parity { member: place, checksums }, len))
}
