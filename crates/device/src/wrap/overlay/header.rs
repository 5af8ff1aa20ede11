//! The first page of an overlay file, and the pages of its map.
//!
//! ```text
//! page 0          magic, CRC32C, state, the member's size, array and device UUID, events, its superblock's place and CRC32C,
//!                 its path
//! page 1...       the map: each page has a CRC32C, its number and the device UUID, then a bit for each block of the member
//! then            the blocks, each at its place; holes where the map has no bit
//! ```

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crc_fast::CrcAlgorithm;

/// Unit of copying in bytes, and the length of a page of header and map.
pub const OVERLAY_BLOCK_BYTES: u64 = 4096;
pub(super) const PAGE: usize = OVERLAY_BLOCK_BYTES as usize;

/// How a file of ours begins.
const MAGIC: &[u8; 16] = b"uraid overlay 1\n";
const CRC: usize = 16;
const STATE: usize = 20;
const SIZE: usize = 24;
const ARRAY_ID: usize = 32;
const DEVICE_ID: usize = 48;
const EVENTS: usize = 64;
const SUPER_BYTE: usize = 72;
const SUPER_CRC: usize = 80;
const PATH_LEN: usize = 84;
const PATH: usize = 88;

/// A page of the map: CRC, number, device UUID, then bits.
const MAP_NUMBER: usize = 8;
const MAP_ID: usize = 16;
const MAP_BITS: usize = 32;
/// Blocks that one page of the map tells of.
const BLOCKS_PER_PAGE: u64 = ((PAGE - MAP_BITS) * 8) as u64;

/// The member that an overlay lies over, as it was when the overlay was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayOrigin {
    /// Its path, absolute.
    pub path: PathBuf,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// The array's UUID; nil without a superblock.
    pub array_id: [u8; 16],
    /// Its own UUID; nil without a superblock.
    pub device_id: [u8; 16],
    /// Its events.
    pub events: u64,
    /// Where its superblock lies, in bytes.
    pub super_byte: u64,
    /// CRC32C of the 4 KiB there.
    pub super_crc: u32,
}

/// How far an overlay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayState {
    /// It takes changes; its member is as it was.
    Open,
    /// It is being written to its member, which may have some of it.
    Committing,
}

/// CRC32C of `parts`, one after another.
pub(super) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

impl OverlayOrigin {
    /// The CRC32C that [`OverlayOrigin::super_crc`] is to have for these bytes.
    #[must_use]
    pub fn crc_of(superblock: &[u8]) -> u32 {
        crc32c(&[superblock])
    }

    /// The header's page; `None` when the path is too long for it.
    pub(super) fn to_page(&self, state: OverlayState) -> Option<[u8; PAGE]> {
        let mut page = [0; PAGE];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        let path = self.path.as_os_str().as_bytes();
        if PATH + path.len() > PAGE {
            return None;
        }
        put(0, MAGIC);
        put(STATE, &u32::from(state == OverlayState::Committing).to_le_bytes());
        put(SIZE, &self.size_bytes.to_le_bytes());
        put(ARRAY_ID, &self.array_id);
        put(DEVICE_ID, &self.device_id);
        put(EVENTS, &self.events.to_le_bytes());
        put(SUPER_BYTE, &self.super_byte.to_le_bytes());
        put(SUPER_CRC, &self.super_crc.to_le_bytes());
        put(PATH_LEN, &(path.len() as u32).to_le_bytes());
        put(PATH, path);
        let crc = crc32c(&[&page]);
        page[CRC..CRC + 4].copy_from_slice(&crc.to_le_bytes());
        Some(page)
    }

    /// What the header's page says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn from_page(page: &[u8; PAGE]) -> Result<(OverlayOrigin, OverlayState), String> {
        if page[..16] != *MAGIC {
            return Err("this is no overlay of uraid's, or its making was cut short".to_owned());
        }
        if word(page, CRC) != crc32c(&[&page[..CRC], &[0; 4], &page[CRC + 4..]]) {
            return Err("its header is torn: the checksum does not fit".to_owned());
        }
        let state = match word(page, STATE) {
            0 => OverlayState::Open,
            1 => OverlayState::Committing,
            other => return Err(format!("its state is {other}, which this version does not know")),
        };
        let path = (word(page, PATH_LEN) as usize).checked_add(PATH).and_then(|end| page.get(PATH..end));
        let path = path.ok_or_else(|| "its path is longer than its header".to_owned())?;
        let origin = OverlayOrigin {
            path: PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())),
            size_bytes: long(page, SIZE),
            array_id: id(page, ARRAY_ID),
            device_id: id(page, DEVICE_ID),
            events: long(page, EVENTS),
            super_byte: long(page, SUPER_BYTE),
            super_crc: word(page, SUPER_CRC),
        };
        Ok((origin, state))
    }

    /// Blocks of the member, the last one perhaps cut short.
    pub(super) fn blocks(&self) -> u64 {
        self.size_bytes.div_ceil(OVERLAY_BLOCK_BYTES)
    }

    /// Pages of the map.
    pub(super) fn map_pages(&self) -> u64 {
        self.blocks().div_ceil(BLOCKS_PER_PAGE)
    }

    /// Where the blocks start in the file.
    pub(super) fn data_byte(&self) -> u64 {
        (1 + self.map_pages()) * OVERLAY_BLOCK_BYTES
    }
}

fn word(page: &[u8; PAGE], at: usize) -> u32 {
    page[at..at + 4].iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

fn long(page: &[u8; PAGE], at: usize) -> u64 {
    page[at..at + 8].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn id(page: &[u8; PAGE], at: usize) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&page[at..at + 16]);
    id
}

/// The page of the map, and the bit in it, that tell of a block.
pub(super) fn place_in_map(block: u64) -> (u64, usize) {
    (block / BLOCKS_PER_PAGE, (block % BLOCKS_PER_PAGE) as usize)
}

/// A page of the map from its bits.
pub(super) fn map_page(number: u64, device_id: &[u8; 16], bits: &[u8]) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page[MAP_NUMBER..MAP_NUMBER + 8].copy_from_slice(&number.to_le_bytes());
    page[MAP_ID..MAP_ID + 16].copy_from_slice(device_id);
    page[MAP_BITS..].copy_from_slice(bits);
    let crc = crc32c(&[&page]);
    page[..4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// The bits of a page of the map; `None` when it is torn or of another overlay.
pub(super) fn map_bits(page: &[u8; PAGE], number: u64, device_id: &[u8; 16]) -> Option<Vec<u8>> {
    let whole = word(page, 0) == crc32c(&[&[0; 4], &page[4..]]) && long(page, MAP_NUMBER) == number;
    (whole && id(page, MAP_ID) == *device_id).then(|| page[MAP_BITS..].to_vec())
}

/// A page of bits, none set.
pub(super) fn no_bits() -> Vec<u8> {
    vec![0; PAGE - MAP_BITS]
}
