//! GPT: a header in the second block and one in the last, each with a checksum over itself and over its entries.

use uuid::Uuid;

use super::{Disk, MAX_ENTRY_BYTES, Partition, PartitionError, PartitionTable, PartitionType, TableKind, u32_at, u64_at};
use crate::crc32::crc32;

const TABLE: &str = "GPT";
const MAGIC: &[u8] = b"EFI PART";
const LEAST_HEADER: u32 = 92;
const LEAST_ENTRY: u32 = 128;
/// A name has 36 UTF-16 units.
const NAME: std::ops::Range<usize> = 56..128;

/// The table; `None` where there is none. The copy at the end counts only where the first one is damaged or, as
/// `is_protective` says, must have been there: a whole disk that was made into something else may still carry it.
pub(super) fn read<E>(
    disk: &mut Disk<'_, '_, E>,
    block_bytes: u32,
    is_protective: bool,
) -> Result<Option<PartitionTable>, PartitionError<E>> {
    let mut broken = None;
    let other = if block_bytes == 512 { 4096 } else { 512 };
    for block_bytes in [block_bytes, other] {
        let block = u64::from(block_bytes);
        match copy(disk, block_bytes, block, TableKind::Gpt) {
            Ok(Some(table)) => return Ok(Some(table)),
            Ok(None) => {}
            Err(PartitionError::Read(error)) => return Err(PartitionError::Read(error)),
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    if !is_protective && broken.is_none() {
        return Ok(None);
    }
    for block_bytes in [block_bytes, other] {
        let block = u64::from(block_bytes);
        let Some(last) = (disk.size_bytes / block).checked_sub(1) else { continue };
        if let Ok(Some(table)) = copy(disk, block_bytes, last * block, TableKind::GptBackup) {
            return Ok(Some(table));
        }
    }
    let missing = || PartitionError::Damaged {
        table: TABLE,
        what: "neither its header nor the backup is there, only the MBR that protects it,".to_owned(),
        byte: u64::from(block_bytes),
    };
    Err(broken.unwrap_or_else(missing))
}

/// One copy of the table, whose header is at `byte`.
fn copy<E>(
    disk: &mut Disk<'_, '_, E>,
    block_bytes: u32,
    byte: u64,
    kind: TableKind,
) -> Result<Option<PartitionTable>, PartitionError<E>> {
    let block = u64::from(block_bytes);
    let header = (disk.read)(byte, block_bytes as usize).map_err(PartitionError::Read)?;
    if header.len() < block_bytes as usize || !header.starts_with(MAGIC) {
        return Ok(None);
    }
    let damaged = |what: String, at: u64| Err(PartitionError::Damaged { table: TABLE, what, byte: byte + at });
    let len = u32_at(&header, 12);
    if !(LEAST_HEADER..=block_bytes).contains(&len) {
        return damaged(format!("a header of {len} bytes"), 12);
    }
    let header = &header[..len as usize];
    let (found, expected) = (u32_at(header, 16), crc32([&header[..16], &[0; 4], &header[20..]]));
    if found != expected {
        return damaged(format!("the header's checksum is {found:#010x}, not {expected:#010x},"), 16);
    }
    let own = u64_at(header, 24);
    if Some(byte) != own.checked_mul(block) {
        return damaged(format!("the header says that it is block {own}, with blocks of {block_bytes} bytes,"), 24);
    }
    let (first, count, size) = (u64_at(header, 72), u32_at(header, 80), u32_at(header, 84));
    let entry_bytes = u64::from(count) * u64::from(size);
    if size < LEAST_ENTRY || !size.is_multiple_of(8) || entry_bytes > MAX_ENTRY_BYTES {
        return damaged(format!("{count} entries of {size} bytes"), 80);
    }
    let entries_byte = first.checked_mul(block).filter(|&start| start.saturating_add(entry_bytes) <= disk.size_bytes);
    let Some(entries_byte) = entries_byte else {
        return damaged(format!("the entries in block {first} are beyond the disk's end"), 72);
    };
    // No more than MAX_ENTRY_BYTES.
    let entries = disk.bytes(TABLE, entries_byte, entry_bytes as usize)?;
    let (found, expected) = (u32_at(header, 88), crc32([&entries[..]]));
    if found != expected {
        return damaged(format!("the entries' checksum is {found:#010x}, not {expected:#010x},"), 88);
    }
    let mut partitions = Vec::new();
    for (number, entry) in (1..).zip(entries.chunks_exact(size as usize)) {
        match partition(number, entry, block) {
            Some(Some(partition)) => partitions.push(partition),
            Some(None) => {}
            None => {
                let what = format!("partition {number} ends before it starts, or beyond all disks,");
                let byte = entries_byte + u64::from(number - 1) * u64::from(size);
                return Err(PartitionError::Damaged { table: TABLE, what, byte });
            }
        }
    }
    Ok(Some(PartitionTable { kind, block_bytes, partitions }))
}

/// The partition of an entry: none where it is not in use; `None` where it makes no sense.
fn partition(number: u32, entry: &[u8], block: u64) -> Option<Option<Partition>> {
    let Some(guid) = entry.first_chunk().map(|bytes| Uuid::from_bytes_le(*bytes)).filter(|guid| !guid.is_nil()) else {
        return Some(None);
    };
    let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
    let blocks = last.checked_sub(first)?.checked_add(1)?;
    let (start_bytes, len_bytes) = (first.checked_mul(block)?, blocks.checked_mul(block)?);
    start_bytes.checked_add(len_bytes)?;
    let units: Vec<u16> = entry[NAME].chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    let name = units.split(|&unit| unit == 0).next().map(String::from_utf16_lossy).unwrap_or_default();
    Some(Some(Partition { number, start_bytes, len_bytes, kind: PartitionType::Gpt(guid), name }))
}
