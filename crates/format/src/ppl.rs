//! The partial parity log (PPL) of RAID5: what each stripe's parity would be made of, should a write to it be cut short.
//!
//! Source of the format: `struct ppl_header` and `struct ppl_header_entry` of `linux/raid/md_p.h`, and logs that Linux 6.1 wrote.
//! Each member has a log, for the stripes whose parity is on it: a header page, then the partial parities of its entries one after
//! another. Where the area has room for several ([`crate::Feature::MultiplePpls`]) each log follows the one before, from the
//! area's start again after its end; the newest is the last of those whose generations rise. Generations are counted over all
//! members.
//!
//! An entry tells of new data in some neighbouring data chunks of one stripe, the same rows of each. Its partial parity is the XOR of
//! the same rows of the *other* data chunks, which the write leaves alone; there is none when all are written. So the XOR of it
//! and of whatever the written chunks hold is the right parity, however far the write came.

use uraid_types::{SECTOR_BYTES, Sector};
use uuid::Uuid;

/// Bytes of a header.
pub const PPL_HEADER_BYTES: usize = 4096;

const SIGNATURE: usize = 512;
const GENERATION: usize = 520;
const COUNT: usize = 528;
const CHECKSUM: usize = 532;
const ENTRIES: usize = 536;
const ENTRY_BYTES: usize = 24;
/// Entries that fit a header.
const MAX_ENTRIES: usize = (PPL_HEADER_BYTES - ENTRIES) / ENTRY_BYTES;

/// CRC32C (RFC 3720) of bytes, continued from 0 or an earlier result: this crate computes none itself.
pub type Crc32c = fn(u32, &[u8]) -> u32;

/// A log's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PplHeader {
    /// Which array's it is: see [`PplHeader::signature_of`].
    pub signature: u32,
    /// Rises with each log, over all members.
    pub generation: u64,
    /// What was being written.
    pub entries: Vec<PplEntry>,
}

/// One write to some rows of one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PplEntry {
    /// The first array sector of the new data.
    pub data_sector: Sector,
    /// Bytes of the partial parity; 0 when all data chunks were written.
    pub partial_bytes: u32,
    /// Bytes of new data, of all chunks together.
    pub data_bytes: u32,
    /// The slot that has the parity.
    pub parity_disk: u32,
    /// CRC32C of the partial parity.
    pub checksum: u32,
}

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PplError {
    /// Fewer bytes than a header has.
    #[error("{0} bytes, and a PPL header has {PPL_HEADER_BYTES}")]
    TooShort(usize),
    /// The checksum is not that of the bytes.
    #[error("checksum {found:#010x} instead of {expected:#010x}: no PPL header, or a torn one")]
    Checksum {
        /// As found.
        found: u32,
        /// As computed.
        expected: u32,
    },
    /// More entries than a header holds.
    #[error("{0} entries, and a PPL header holds {MAX_ENTRIES}")]
    Entries(u32),
    /// Sizes that are no whole sectors, or nothing.
    #[error("entry {index} has {data_bytes} bytes of data and {partial_bytes} of partial parity, which are no whole sectors")]
    Sizes {
        /// Its place.
        index: usize,
        /// Its data.
        data_bytes: u32,
        /// Its partial parity.
        partial_bytes: u32,
    },
    /// The log of another array.
    #[error("signature {found:#010x} is another array's; this one's is {expected:#010x}")]
    Signature {
        /// As found.
        found: u32,
        /// This array's.
        expected: u32,
    },
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

impl PplHeader {
    /// The signature of the array's logs.
    #[must_use]
    pub fn signature_of(array_id: Uuid, crc32c: Crc32c) -> u32 {
        crc32c(0, array_id.as_bytes())
    }

    /// Reads the header that `bytes` begin with, of the array of `array_id`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8], array_id: Uuid, crc32c: Crc32c) -> Result<PplHeader, PplError> {
        let page = bytes.get(..PPL_HEADER_BYTES).ok_or(PplError::TooShort(bytes.len()))?;
        let (found, expected) = (u32_at(page, CHECKSUM), checksum(page, crc32c));
        if found != expected {
            return Err(PplError::Checksum { found, expected });
        }
        let (found, expected) = (u32_at(page, SIGNATURE), PplHeader::signature_of(array_id, crc32c));
        if found != expected {
            return Err(PplError::Signature { found, expected });
        }
        let count = u32_at(page, COUNT);
        if count as usize > MAX_ENTRIES {
            return Err(PplError::Entries(count));
        }
        let entries = page[ENTRIES..].chunks_exact(ENTRY_BYTES).take(count as usize).map(|entry| PplEntry {
            data_sector: Sector(u64_at(entry, 0)),
            partial_bytes: u32_at(entry, 8),
            data_bytes: u32_at(entry, 12),
            parity_disk: u32_at(entry, 16),
            checksum: u32_at(entry, 20),
        });
        let entries: Vec<PplEntry> = entries.collect();
        let whole = |bytes: u32| u64::from(bytes).is_multiple_of(SECTOR_BYTES);
        let bad = |entry: &PplEntry| entry.data_bytes == 0 || !whole(entry.data_bytes) || !whole(entry.partial_bytes);
        if let Some(index) = entries.iter().position(bad) {
            let PplEntry { data_bytes, partial_bytes, .. } = entries[index];
            return Err(PplError::Sizes { index, data_bytes, partial_bytes });
        }
        Ok(PplHeader { signature: u32_at(page, SIGNATURE), generation: u64_at(page, GENERATION), entries })
    }

    /// The header's page.
    ///
    /// # Panics
    /// When there are more entries than fit.
    #[must_use]
    pub fn to_bytes(&self, crc32c: Crc32c) -> Vec<u8> {
        assert!(self.entries.len() <= MAX_ENTRIES, "{} entries do not fit a PPL header", self.entries.len());
        let mut page = vec![0; PPL_HEADER_BYTES];
        page[..SIGNATURE].fill(0xff);
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(SIGNATURE, &self.signature.to_le_bytes());
        put(GENERATION, &self.generation.to_le_bytes());
        put(COUNT, &(self.entries.len() as u32).to_le_bytes());
        for (index, entry) in self.entries.iter().enumerate() {
            let at = ENTRIES + index * ENTRY_BYTES;
            put(at, &entry.data_sector.0.to_le_bytes());
            let words = [entry.partial_bytes, entry.data_bytes, entry.parity_disk, entry.checksum];
            words.iter().enumerate().for_each(|(word, value)| put(at + 8 + 4 * word, &value.to_le_bytes()));
        }
        let sum = checksum(&page, crc32c);
        page[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Bytes of the log: the header and all partial parities.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        PPL_HEADER_BYTES as u64 + self.entries.iter().map(|entry| u64::from(entry.partial_bytes)).sum::<u64>()
    }

    /// The entries, each with the bytes from the log's start to its partial parity.
    pub fn partial_parities(&self) -> impl Iterator<Item = (PplEntry, u64)> {
        self.entries.iter().scan(PPL_HEADER_BYTES as u64, |at, entry| {
            let own = *at;
            *at += u64::from(entry.partial_bytes);
            Some((*entry, own))
        })
    }
}

/// The checksum of a header, its own bytes counted as 0.
fn checksum(page: &[u8], crc32c: Crc32c) -> u32 {
    crc32c(crc32c(crc32c(0, &page[..CHECKSUM]), &[0; 4]), &page[CHECKSUM + 4..])
}
