//! The table of PCs: four entries in the first sector, and a chain of tables in an extended one.

use super::{Disk, MAX_LOGICAL, Partition, PartitionError, PartitionTable, PartitionType, TableKind, u32_at};

/// The type of the entry that covers a GPT.
pub(super) const PROTECTIVE: u8 = 0xee;

/// Types whose entry holds a chain of further tables: of DOS, of Windows (LBA), of Linux, and the hidden ones.
const EXTENDED: [u8; 5] = [0x05, 0x0f, 0x85, 0x15, 0x1f];

const TABLE: &str = "chain of logical partitions";
const ENTRIES: usize = 446;
const MARK: usize = 510;

/// An entry that is in use or not; in logical blocks.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub kind: u8,
    start: u32,
    len: u32,
}

impl Entry {
    fn is_used(self) -> bool {
        self.kind != 0 && self.len != 0
    }

    fn is_extended(self) -> bool {
        self.is_used() && EXTENDED.contains(&self.kind)
    }
}

/// The entries of a sector: signed, each active (0x80) or not (0), and at least one of them in use.
pub(super) fn entries(sector: &[u8]) -> Option<[Entry; 4]> {
    let entries = any_entries(sector)?;
    entries.iter().any(|entry| entry.is_used()).then_some(entries)
}

/// The same; none of them need be in use.
fn any_entries(sector: &[u8]) -> Option<[Entry; 4]> {
    if sector.get(MARK..MARK + 2)? != [0x55, 0xaa] {
        return None;
    }
    let field = |index: usize| &sector[ENTRIES + 16 * index..][..16];
    let is_sane = (0..4).all(|index| field(index)[0] & 0x7f == 0);
    is_sane.then(|| {
        std::array::from_fn(|index| {
            let entry = field(index);
            Entry { kind: entry[4], start: u32_at(entry, 8), len: u32_at(entry, 12) }
        })
    })
}

/// All partitions; an extended entry itself is none.
pub(super) fn read<E>(
    disk: &mut Disk<'_, '_, E>,
    block_bytes: u32,
    entries: &[Entry; 4],
) -> Result<PartitionTable, PartitionError<E>> {
    let block = u64::from(block_bytes);
    let mut partitions = Vec::new();
    for (number, entry) in (1..).zip(entries).filter(|(_, entry)| entry.is_used() && !entry.is_extended()) {
        partitions.push(partition(number, u64::from(entry.start) * block, *entry, block));
    }
    for extended in entries.iter().filter(|entry| entry.is_extended()) {
        logical(disk, block, *extended, &mut partitions)?;
    }
    Ok(PartitionTable { kind: TableKind::Mbr, block_bytes, partitions })
}

fn partition(number: u32, start_bytes: u64, entry: Entry, block: u64) -> Partition {
    let len_bytes = u64::from(entry.len) * block;
    Partition { number, start_bytes, len_bytes, kind: PartitionType::Mbr(entry.kind), name: String::new() }
}

/// Follows the chain. Each link holds one partition, counted from the link, and the next link, counted from the chain's start.
fn logical<E>(
    disk: &mut Disk<'_, '_, E>,
    block: u64,
    extended: Entry,
    partitions: &mut Vec<Partition>,
) -> Result<(), PartitionError<E>> {
    let base = u64::from(extended.start);
    let mut visited = Vec::new();
    let mut link = base;
    loop {
        let byte = link * block;
        let damaged = |what: String, byte| Err(PartitionError::Damaged { table: TABLE, what, byte });
        if visited.contains(&link) {
            return damaged(format!("a loop: its link {} comes back", visited.len()), byte);
        }
        if visited.len() == MAX_LOGICAL {
            return damaged(format!("more than {MAX_LOGICAL} links"), byte);
        }
        visited.push(link);
        let sector = disk.bytes(TABLE, byte, 512)?;
        let Some(entries) = any_entries(&sector) else {
            return damaged(format!("link {} is no table", visited.len()), byte);
        };
        for entry in entries.iter().filter(|entry| entry.is_used() && !entry.is_extended()) {
            let number = 5 + partitions.iter().filter(|partition| partition.number > 4).count() as u32;
            partitions.push(partition(number, (link + u64::from(entry.start)) * block, *entry, block));
        }
        let Some(next) = entries.iter().find(|entry| entry.is_extended()) else { return Ok(()) };
        if next.start >= extended.len {
            return damaged(format!("link {} leads out of the extended partition", visited.len()), byte);
        }
        link = base + u64::from(next.start);
    }
}
