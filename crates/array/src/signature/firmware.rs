//! RAID of controllers' firmware, and DRBD: they keep their metadata at the end of a disk, some with no more than a short magic,
//! which a checksum then confirms.

use uraid_device::{Device, DeviceError};

use super::Signature;
use crate::probe::bytes_at;

const SECTOR: u64 = 512;

/// A kind: how many sectors from the end its metadata begins, its magic, and where in it that is.
type AtEnd = (&'static str, u64, usize, &'static [u8]);

const MAGICS: [AtEnd; 8] = [
    ("LSI MegaRAID", 1, 0, b"$XIDE$"),
    ("NVIDIA RAID", 2, 0, b"NVIDIA  "),
    ("HighPoint HPT45x RAID", 11, 0, &[0xf3, 0x16, 0x78, 0x5a]),
    ("HighPoint HPT45x RAID", 11, 0, &[0xfd, 0x16, 0x78, 0x5a]),
    // DRBD 8.3, 8.4 and 9.
    ("DRBD", 8, 60, &[0x83, 0x74, 0x02, 0x6b]),
    ("DRBD", 8, 60, &[0x83, 0x74, 0x02, 0x6c]),
    ("DRBD", 8, 60, &[0x83, 0x74, 0x02, 0x6d]),
    ("Adaptec HostRAID", 1, 256, b"DPTM"),
];

/// Sectors from the end where Promise's controllers put it, by their model.
const PROMISE: [u64; 13] = [63, 255, 256, 16, 399, 591, 675, 735, 911, 951, 974, 991, 3087];

const ADAPTEC: [u8; 4] = [0x37, 0xfc, 0x4d, 0x1e];

/// The first one found.
pub(super) fn find(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let sectors = device.info().size_bytes / SECTOR;
    let at = |from_end: u64| sectors.checked_sub(from_end).map(|sector| sector * SECTOR);
    for (kind, from_end, place, magic) in MAGICS {
        let Some(offset) = at(from_end) else { continue };
        let sector = bytes_at(device, offset, SECTOR)?;
        let confirmed = kind != "Adaptec HostRAID" || sector.starts_with(&ADAPTEC);
        if confirmed && sector.get(place..).is_some_and(|rest| rest.starts_with(magic)) {
            return Ok(Some(Signature { kind, offset: offset + place as u64 }));
        }
    }
    for offset in PROMISE.into_iter().filter_map(at) {
        if bytes_at(device, offset, 24)? == b"Promise Technology, Inc." {
            return Ok(Some(Signature { kind: "Promise FastTrack RAID", offset }));
        }
    }
    let Some(offset) = at(1) else { return Ok(None) };
    let last = bytes_at(device, offset, SECTOR)?;
    let confirmed =
        [("Silicon Image Medley RAID", 0x60, silicon(&last)), ("VIA RAID", 0, via(&last)), ("JMicron RAID", 0, jmicron(&last))];
    let found = confirmed.into_iter().find(|(_, _, is_it)| *is_it);
    Ok(found.map(|(kind, place, _)| Signature { kind, offset: offset + place }))
}

/// The first `count` numbers of 16 bits, added up.
fn sum(sector: &[u8], count: usize) -> u16 {
    sector.chunks_exact(2).take(count).fold(0_u16, |sum, pair| sum.wrapping_add(u16::from_le_bytes([pair[0], pair[1]])))
}

/// 160 numbers add up to 0.
fn silicon(sector: &[u8]) -> bool {
    sector.get(0x60..0x64) == Some(&[0, 0, 0, 0x2f]) && sum(sector, 160) == 0
}

/// 50 bytes add up to the next one.
fn via(sector: &[u8]) -> bool {
    let sum = sector.iter().take(50).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    sector.starts_with(&[0x55, 0xaa]) && sector.get(50) == Some(&sum) && sector.get(2).is_some_and(|&version| version <= 2)
}

/// 64 numbers add up to 0 or 1.
fn jmicron(sector: &[u8]) -> bool {
    sector.starts_with(b"JM") && sum(sector, 64) <= 1
}
