//! The backup file of `mdadm --grow --backup-file`: array data of the section that a reshape is about to rewrite in place.
//!
//! Not documented; read off files that mdadm 4.2 wrote. All numbers are little-endian 64-bit, but for the two sums.
//!
//! | byte | |
//! |---|---|
//! | 0 | `md_backup_data-1`, or `-2` where there may be a second section |
//! | 16 | the array's UUID |
//! | 32 | when it was written, seconds since 1970 |
//! | 40 | sector of the file where sections begin |
//! | 48, 56 | array sector and length in sectors of the first section |
//! | 64 | 32-bit sum of the bytes before it |
//! | 72 | where the second section begins, in sectors from where the first does |
//! | 80, 88 | array sector and length in sectors of the second section |
//! | 96 | 32-bit sum of the bytes before it |

use core::fmt;

use uraid_types::{Sector, SectorCount};
use uuid::Uuid;

use crate::ArrayId;

/// Bytes that the head of a backup file takes.
pub const BACKUP_HEAD_BYTES: usize = 512;

const MAGIC: &[u8] = b"md_backup_data-";

/// A part of the array that was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSection {
    /// Where in the file, from its start.
    pub file: Sector,
    /// Where in the array.
    pub array: Sector,
    /// How much.
    pub len: SectorCount,
}

/// The head of a backup file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupHead {
    /// Of the array that it belongs to.
    pub array_id: ArrayId,
    /// Seconds since 1970.
    pub written_seconds: u64,
    /// One or two, none of them empty; none at all once the reshape needs none.
    pub sections: Vec<BackupSection>,
}

/// A backup file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupError {
    /// What is wrong.
    pub field: &'static str,
    /// Where, in bytes of the file.
    pub byte: u64,
    /// What was found.
    pub found: String,
    /// What should have been there.
    pub expected: String,
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BackupError { field, byte, found, expected } = self;
        write!(
            f,
            "{field} at byte {byte} of the backup file is {found}, expected {expected}; give the file that mdadm --grow wrote"
        )
    }
}

impl core::error::Error for BackupError {}

impl BackupHead {
    /// Reads the head that `bytes` begin with, of a file of `file_bytes`.
    ///
    /// # Errors
    /// The field that is wrong. Sections lie within the file.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<BackupHead, BackupError> {
        let fail = |field, byte, found: String, expected: &str| {
            Err(BackupError { field, byte: byte as u64, found, expected: expected.to_owned() })
        };
        let Some(head) = bytes.first_chunk::<BACKUP_HEAD_BYTES>() else {
            return fail("magic", 0, format!("one of {} bytes", bytes.len()), "a file of at least 512 bytes");
        };
        let sections = match (head.starts_with(MAGIC), head[MAGIC.len()]) {
            (true, b'1') => 1,
            (true, b'2') => 2,
            _ => return fail("magic", 0, format!("{:?}", String::from_utf8_lossy(&head[..16])), "md_backup_data-1 or -2"),
        };
        for sum_at in [64, 96].into_iter().take(sections) {
            let (found, expected) = (u32::from_le_bytes(number(head, sum_at)), sum(&head[..sum_at]));
            if found != expected {
                return fail("sum", sum_at, format!("{found:#010x}"), &format!("{expected:#010x}"));
            }
        }
        let start = u64::from_le_bytes(number(head, 40));
        let ends = |at: u64, len: u64| at.checked_add(len).is_some_and(|end| end <= file_bytes / 512);
        let mut found = Vec::new();
        for (at, from, array) in [(40, 0, 48), (72, u64::from_le_bytes(number(head, 72)), 80)].into_iter().take(sections) {
            let (array_start, len) = (u64::from_le_bytes(number(head, array)), u64::from_le_bytes(number(head, array + 8)));
            if len == 0 {
                continue;
            }
            let file = start.checked_add(from).filter(|&file| file > 0 && ends(file, len));
            let (Some(file), Some(_)) = (file, array_start.checked_add(len)) else {
                let text = format!("{len} sectors of array sector {array_start}, {from} sectors after {start}");
                return fail("section", at, text, &format!("sectors 1 to {} of the file", file_bytes / 512));
            };
            found.push(BackupSection { file: Sector(file), array: Sector(array_start), len: SectorCount(len) });
        }
        let array_id = Uuid::from_bytes(number(head, 16));
        Ok(BackupHead { array_id, written_seconds: u64::from_le_bytes(number(head, 32)), sections: found })
    }
}

fn number<const N: usize>(head: &[u8; BACKUP_HEAD_BYTES], at: usize) -> [u8; N] {
    core::array::from_fn(|index| head[at + index])
}

/// mdadm's sum: it was meant to go over all of `bytes`, but takes the first of them each time, so it depends on no other.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0_u32, |sum, _| (sum << 3).wrapping_add(u32::from(bytes[0])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As mdadm 4.2 wrote it, up to the last byte that is not 0.
    const TWO: &str = "6d645f6261636b75705f646174612d3250aa08908d8ffa9637f38ea1a8c7de69f8180e6b00000000080000000000000000400000000000000008000000000000\
                       15499224000000000008000000000000003800000000000000080000000000001549922400000000";

    fn head() -> Vec<u8> {
        let digits: Vec<u8> = TWO.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
        let mut bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
        bytes.resize(BACKUP_HEAD_BYTES, 0);
        bytes
    }

    #[test]
    fn both_sections_are_found() {
        let found = BackupHead::parse(&head(), 2_101_248).unwrap();
        let section = |file, array| BackupSection { file: Sector(file), array: Sector(array), len: SectorCount(2048) };
        assert_eq!(found.sections, [section(8, 16384), section(2056, 14336)]);
        assert_eq!(found.array_id.to_string(), "50aa0890-8d8f-fa96-37f3-8ea1a8c7de69");
    }

    #[test]
    fn nonsense_is_named() {
        for (at, value, len_bytes, field) in [
            (3, 9, 4 << 20, "magic"),
            (96, 9, 4 << 20, "sum"),
            (47, 0xff, 4 << 20, "section"),
            (79, 0xff, 4 << 20, "section"),
            (40, 8, 4096, "section"),
        ] {
            let mut bytes = head();
            bytes[at] = value;
            assert_eq!(BackupHead::parse(&bytes, len_bytes).unwrap_err().field, field, "byte {at}");
        }
        assert_eq!(BackupHead::parse(b"md", 2).unwrap_err().field, "magic");
    }
}
