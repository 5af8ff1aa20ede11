//! The words of a 0.90 superblock, where each lies, and their checksum.

use crate::ByteOrder;
use crate::raw::{SUPER_BYTES, SUPER_MAGIC};

/// `MD_SB_WORDS`.
const WORDS: usize = SUPER_BYTES / 4;

/// Where words lie, by the header's names.
pub mod at {
    pub const MAGIC: usize = 0;
    pub const MAJOR_VERSION: usize = 1;
    pub const MINOR_VERSION: usize = 2;
    pub const PATCH_VERSION: usize = 3;
    pub const GVALID_WORDS: usize = 4;
    pub const SET_UUID0: usize = 5;
    pub const CTIME: usize = 6;
    pub const LEVEL: usize = 7;
    pub const SIZE: usize = 8;
    pub const NR_DISKS: usize = 9;
    pub const RAID_DISKS: usize = 10;
    pub const MD_MINOR: usize = 11;
    pub const NOT_PERSISTENT: usize = 12;
    pub const SET_UUID1: usize = 13;
    pub const UTIME: usize = 32;
    pub const STATE: usize = 33;
    pub const ACTIVE_DISKS: usize = 34;
    pub const WORKING_DISKS: usize = 35;
    pub const FAILED_DISKS: usize = 36;
    pub const SPARE_DISKS: usize = 37;
    pub const SB_CSUM: usize = 38;
    /// Two words, as [`super::Words::get_u64`] reads them.
    pub const EVENTS: usize = 39;
    /// Two words.
    pub const CP_EVENTS: usize = 41;
    pub const RECOVERY_CP: usize = 43;
    /// Two words.
    pub const RESHAPE_POSITION: usize = 44;
    pub const NEW_LEVEL: usize = 46;
    pub const DELTA_DISKS: usize = 47;
    pub const NEW_LAYOUT: usize = 48;
    pub const NEW_CHUNK: usize = 49;
    pub const LAYOUT: usize = 64;
    pub const CHUNK_SIZE: usize = 65;
    /// `disks`, each of [`super::DESCRIPTOR_WORDS`].
    pub const DISKS: usize = 128;
    pub const THIS_DISK: usize = 992;
}

/// `MD_SB_DESCRIPTOR_WORDS`.
pub const DESCRIPTOR_WORDS: usize = 32;

/// Words of a descriptor: `number`, `major`, `minor`, `raid_disk`, `state`.
pub const IN_USE_WORDS: usize = 5;

/// Bits of the superblock's `state`.
pub mod state {
    pub const CLEAN: u32 = 1;
    pub const CLUSTERED: u32 = 1 << 5;
    pub const BITMAP_PRESENT: u32 = 1 << 8;
}

/// Bits of a descriptor's `state`.
pub mod disk {
    pub const FAULTY: u32 = 1;
    pub const ACTIVE: u32 = 1 << 1;
    pub const SYNC: u32 = 1 << 2;
    pub const REMOVED: u32 = 1 << 3;
    pub const WRITE_MOSTLY: u32 = 1 << 9;
    pub const FAIL_FAST: u32 = 1 << 10;
}

/// A superblock's words as numbers, and the order that their bytes had.
#[derive(Clone, Debug)]
pub struct Words {
    pub order: ByteOrder,
    words: Vec<u32>,
}

impl Words {
    /// A superblock of nothing but zeros.
    pub fn new(order: ByteOrder) -> Words {
        Words { order, words: vec![0; WORDS] }
    }

    /// The words of `bytes`, in the order that the magic shows; `None` without the magic or with too few bytes.
    pub fn read(bytes: &[u8]) -> Option<Words> {
        let bytes = bytes.get(..SUPER_BYTES)?;
        let first: [u8; 4] = *bytes.first_chunk()?;
        let order = match first {
            _ if u32::from_le_bytes(first) == SUPER_MAGIC => ByteOrder::Little,
            _ if u32::from_be_bytes(first) == SUPER_MAGIC => ByteOrder::Big,
            _ => return None,
        };
        let word = |word: &[u8]| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(word);
            match order {
                ByteOrder::Little => u32::from_le_bytes(bytes),
                ByteOrder::Big => u32::from_be_bytes(bytes),
            }
        };
        Some(Words { order, words: bytes.chunks_exact(4).map(word).collect() })
    }

    /// Is this version 0.90, as far as that can be told? Version 1 is little-endian only.
    pub fn is_v090(&self) -> bool {
        self.order == ByteOrder::Big || self.words[at::MAJOR_VERSION] == 0
    }

    /// As they lie on the member, with the checksum that they should have.
    pub fn to_bytes(&self) -> Vec<u8> {
        let word = |(index, &word): (usize, &u32)| {
            let word = if index == at::SB_CSUM { self.checksum() } else { word };
            match self.order {
                ByteOrder::Little => word.to_le_bytes(),
                ByteOrder::Big => word.to_be_bytes(),
            }
        };
        self.words.iter().enumerate().flat_map(word).collect()
    }

    pub fn get(&self, index: usize) -> u32 {
        self.words[index]
    }

    pub fn set(&mut self, index: usize, value: u32) {
        self.words[index] = value;
    }

    /// Two words as one number: the machine's own 64 bits.
    pub fn get_u64(&self, index: usize) -> u64 {
        let (low, high) = self.halves(index);
        u64::from(self.words[high]) << 32 | u64::from(self.words[low])
    }

    pub fn set_u64(&mut self, index: usize, value: u64) {
        let (low, high) = self.halves(index);
        self.words[low] = value as u32;
        self.words[high] = (value >> 32) as u32;
    }

    fn halves(&self, index: usize) -> (usize, usize) {
        match self.order {
            ByteOrder::Little => (index, index + 1),
            ByteOrder::Big => (index + 1, index),
        }
    }

    /// The five words of a descriptor that have a meaning.
    pub fn descriptor(&self, start: usize) -> [u32; IN_USE_WORDS] {
        std::array::from_fn(|word| self.words[start + word])
    }

    pub fn set_descriptor(&mut self, start: usize, values: [u32; IN_USE_WORDS]) {
        self.words[start..start + IN_USE_WORDS].copy_from_slice(&values);
    }

    /// The sum of all words but the checksum's own, the upper half of the sum folded onto the lower.
    pub fn checksum(&self) -> u32 {
        let words = self.words.iter().enumerate().filter(|(index, _)| *index != at::SB_CSUM);
        let sum: u64 = words.map(|(_, &word)| u64::from(word)).sum();
        (sum as u32).wrapping_add((sum >> 32) as u32)
    }
}

/// Where the descriptor of device `number` begins.
pub fn disk_at(number: usize) -> usize {
    at::DISKS + number * DESCRIPTOR_WORDS
}
