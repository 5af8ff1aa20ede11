//! The partial parity log of a member: the newest one, and how much of it can be believed.

use uraid_device::{Device, DeviceError};
use uraid_format::{Feature, PPL_HEADER_BYTES, PplError, PplHeader, Superblock};
use uraid_parity::crc32c;
use uraid_types::Sector;

use crate::probe::bytes_at;

/// A member's newest partial parity log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPpl {
    /// Its header.
    pub header: PplHeader,
    /// The member sector where the area for logs starts.
    pub area: Sector,
    /// The member sector where this log starts.
    pub start: Sector,
    /// Entries (indices) whose partial parity does not have its checksum, or does not lie in the log's area.
    pub torn: Vec<usize>,
}

/// Reads the PPL that the superblock names; `None` without one.
///
/// # Errors
/// The member cannot be read. What is wrong with the log itself is in the result.
pub(super) fn read_ppl(device: &dyn Device, superblock: &Superblock) -> Result<Option<Result<FoundPpl, PplError>>, DeviceError> {
    let Some((start, sectors)) = superblock.ppl_area() else { return Ok(None) };
    let area_bytes = sectors.bytes();
    let header_at = |at: u64| -> Result<_, DeviceError> {
        let bytes = bytes_at(device, start.byte_offset() + at, PPL_HEADER_BYTES as u64)?;
        Ok(PplHeader::parse(&bytes, superblock.array_id, crc32c))
    };
    let (mut newest, mut at) = match header_at(0)? {
        Ok(first) => (first, 0),
        Err(error) => return Ok(Some(Err(error))),
    };
    // Each log lies behind the one before; the first that is not newer is of an earlier round.
    while superblock.has(Feature::MultiplePpls) {
        let next_at = at + newest.log_bytes();
        if next_at + PPL_HEADER_BYTES as u64 > area_bytes {
            break;
        }
        match header_at(next_at)? {
            Ok(next) if next.generation > newest.generation => (newest, at) = (next, next_at),
            _ => break,
        }
    }
    let mut torn = Vec::new();
    for (index, (entry, within)) in newest.partial_parities().enumerate() {
        let len = u64::from(entry.partial_bytes);
        let is_inside = at + within + len <= area_bytes;
        if !is_inside || crc32c(0, &bytes_at(device, start.byte_offset() + at + within, len)?) != entry.checksum {
            torn.push(index);
        }
    }
    // The area starts on a sector, and all that lies before the log is whole sectors.
    Ok(Some(Ok(FoundPpl { header: newest, area: start, start: Sector(start.0 + at / 512), torn })))
}
