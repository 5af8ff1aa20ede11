//! Partition tables: what lies where inside an image of a whole disk.
//!
//! GPT as in the UEFI specification, and the table of PCs (MBR) with its chain of logical partitions. Tables are only read.
//! The work is bounded whatever they say: a chain has [`MAX_LOGICAL`] links at most, an array of entries [`MAX_ENTRY_BYTES`].

mod gpt;
mod mbr;

use std::fmt;

use uuid::Uuid;

/// Logical partitions that are followed, at most.
pub const MAX_LOGICAL: usize = 128;

/// Bytes of a GPT's entries that are read, at most: eight times what is usual.
pub const MAX_ENTRY_BYTES: u64 = 128 << 10;

/// What a partition is for, in its table's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionType {
    /// The type byte of an MBR.
    Mbr(u8),
    /// The type GUID of a GPT.
    Gpt(Uuid),
}

impl PartitionType {
    /// Is it marked as a member of a Linux array?
    #[must_use]
    pub fn is_linux_raid(self) -> bool {
        const LINUX_RAID: Uuid = Uuid::from_u128(0xa19d_880f_05fc_4d3b_a006_743f_0f84_911e);
        self == PartitionType::Mbr(0xfd) || self == PartitionType::Gpt(LINUX_RAID)
    }
}

impl fmt::Display for PartitionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionType::Mbr(byte) => write!(f, "{byte:#04x}"),
            PartitionType::Gpt(guid) => write!(f, "{guid}"),
        }
    }
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// As Linux counts: entries from 1; logical partitions of an MBR from 5.
    pub number: u32,
    /// Its first byte on the disk.
    pub start_bytes: u64,
    /// Its length in bytes, as the table has it: it may go beyond the disk's end.
    pub len_bytes: u64,
    /// What it is for.
    pub kind: PartitionType,
    /// Its name; an MBR has none.
    pub name: String,
}

impl Partition {
    /// The byte after its last one.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.start_bytes.saturating_add(self.len_bytes)
    }
}

/// Which kind of table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// The old table of PCs.
    Mbr,
    /// GPT.
    Gpt,
    /// GPT whose first copy is broken: read from the copy at the disk's end.
    GptBackup,
}

impl TableKind {
    /// `MBR`, `GPT`, `GPT (from its backup)`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TableKind::Mbr => "MBR",
            TableKind::Gpt => "GPT",
            TableKind::GptBackup => "GPT (from its backup)",
        }
    }
}

/// A table that is valid as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// Which kind.
    pub kind: TableKind,
    /// The disk's logical block that the table counts in, in bytes.
    pub block_bytes: u32,
    /// In order of their numbers.
    pub partitions: Vec<Partition>,
}

/// A table that cannot be used, or not be read (`E`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError<E> {
    /// Reading failed.
    #[error("{0}")]
    Read(E),
    /// A field makes no sense.
    #[error("its {table} is damaged: {what} at byte {byte}")]
    Damaged {
        /// Which table: `GPT`, `chain of logical partitions`.
        table: &'static str,
        /// What is wrong.
        what: String,
        /// Where the field lies.
        byte: u64,
    },
}

/// Reads bytes of a disk: up to so many (the second number) from a byte on; fewer where the disk ends.
pub type ReadBytes<'a, E> = dyn FnMut(u64, usize) -> Result<Vec<u8>, E> + 'a;

/// The disk whose table is looked for.
struct Disk<'a, 'r, E> {
    size_bytes: u64,
    read: &'a mut ReadBytes<'r, E>,
}

impl<E> Disk<'_, '_, E> {
    /// `len` bytes from `byte` on.
    fn bytes(&mut self, table: &'static str, byte: u64, len: usize) -> Result<Vec<u8>, PartitionError<E>> {
        let found = (self.read)(byte, len).map_err(PartitionError::Read)?;
        if found.len() < len {
            let what = format!("{len} bytes are not all on the disk of {} bytes", self.size_bytes);
            return Err(PartitionError::Damaged { table, what, byte });
        }
        Ok(found)
    }
}

/// The partition table of a disk of `size_bytes`, `None` where there is none. `block_bytes` is the disk's logical block; an image
/// in a file is tried with the other usual size too, since nothing tells of which disk it was.
///
/// # Errors
/// There is a table, but it is damaged; or what `read` gives.
pub fn read_partitions<E>(
    size_bytes: u64,
    block_bytes: u32,
    read: &mut ReadBytes<'_, E>,
) -> Result<Option<PartitionTable>, PartitionError<E>> {
    let mut disk = Disk { size_bytes, read };
    let first = (disk.read)(0, 512).map_err(PartitionError::Read)?;
    let mbr = mbr::entries(&first);
    let is_protective = mbr.is_some_and(|entries| entries.iter().any(|entry| entry.kind == mbr::PROTECTIVE));
    let gpt = gpt::read(&mut disk, block_bytes, is_protective)?;
    match (gpt, mbr) {
        (Some(table), _) => Ok(Some(table)),
        (None, Some(entries)) => mbr::read(&mut disk, block_bytes, &entries).map(Some),
        (None, None) => Ok(None),
    }
}

/// A little-endian number of 32 bits.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u32::from_le_bytes(*field))
}

/// A little-endian number of 64 bits.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u64::from_le_bytes(*field))
}
