//! Addresses, lengths and indices.

use core::fmt;
use core::ops::{Add, AddAssign, Range, Sub};

/// Bytes in one sector: md counts in 512-byte sectors whatever the members' logical block size is.
pub const SECTOR_BYTES: u64 = 512;

/// An address in 512-byte sectors; of what (member, member data, array) the name of the value says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sector(pub u64);

/// A length in 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectorCount(pub u64);

/// The position of a member in the array: md's role number, from 0 to `raid_disks - 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

/// The number of a chunk row across all members: member data sector divided by chunk length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeNo(pub u64);

impl Sector {
    /// The byte address of this sector.
    ///
    /// # Panics
    /// When the address does not fit 64 bits: such a sector must have been refused when it was read.
    #[must_use]
    pub const fn byte_offset(self) -> u64 {
        match self.0.checked_mul(SECTOR_BYTES) {
            Some(bytes) => bytes,
            None => panic!("sector address beyond 2^64 bytes"),
        }
    }

    /// The distance from `earlier` to this sector; `None` when `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Sector) -> Option<SectorCount> {
        match self.0.checked_sub(earlier.0) {
            Some(n) => Some(SectorCount(n)),
            None => None,
        }
    }

    /// The half-open range of `len` sectors that starts here.
    #[must_use]
    pub fn range(self, len: SectorCount) -> Range<Sector> {
        self..self + len
    }
}

impl SectorCount {
    /// The length in bytes.
    ///
    /// # Panics
    /// When the length does not fit 64 bits.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self.0.checked_mul(SECTOR_BYTES) {
            Some(bytes) => bytes,
            None => panic!("length beyond 2^64 bytes"),
        }
    }

    /// The length in bytes as an index into memory.
    ///
    /// # Panics
    /// When it does not fit the address space.
    #[must_use]
    pub fn len_bytes(self) -> usize {
        usize::try_from(self.bytes()).expect("a buffer length fits the address space")
    }

    /// `bytes` as whole sectors; `None` when it is no multiple of a sector.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Option<SectorCount> {
        if bytes.is_multiple_of(SECTOR_BYTES) { Some(SectorCount(bytes / SECTOR_BYTES)) } else { None }
    }

    /// The whole sectors in `bytes`, the rest cut off.
    #[must_use]
    pub const fn floor_bytes(bytes: u64) -> SectorCount {
        SectorCount(bytes / SECTOR_BYTES)
    }

    /// This length rounded down to a multiple of `unit` (not 0).
    #[must_use]
    pub const fn round_down(self, unit: SectorCount) -> SectorCount {
        SectorCount(self.0 - self.0 % unit.0)
    }

    /// Is this length 0?
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Slot {
    /// The slot as an index into a table of members.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot of table index `index`.
    ///
    /// # Panics
    /// When `index` is beyond 65535; md has no more roles than that.
    #[must_use]
    pub fn from_index(index: usize) -> Slot {
        Slot(u16::try_from(index).expect("md has fewer than 65536 roles"))
    }
}

impl Add<SectorCount> for Sector {
    type Output = Sector;
    fn add(self, len: SectorCount) -> Sector {
        Sector(self.0 + len.0)
    }
}

impl AddAssign<SectorCount> for Sector {
    fn add_assign(&mut self, len: SectorCount) {
        self.0 += len.0;
    }
}

impl Sub<Sector> for Sector {
    type Output = SectorCount;
    fn sub(self, earlier: Sector) -> SectorCount {
        SectorCount(self.0 - earlier.0)
    }
}

impl Add for SectorCount {
    type Output = SectorCount;
    fn add(self, other: SectorCount) -> SectorCount {
        SectorCount(self.0 + other.0)
    }
}

impl AddAssign for SectorCount {
    fn add_assign(&mut self, other: SectorCount) {
        self.0 += other.0;
    }
}

impl Sub for SectorCount {
    type Output = SectorCount;
    fn sub(self, other: SectorCount) -> SectorCount {
        SectorCount(self.0 - other.0)
    }
}

impl fmt::Display for Sector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {}", self.0)
    }
}

impl fmt::Display for SectorCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sectors", self.0)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_convert_only_when_whole() {
        assert_eq!(SectorCount::from_bytes(1024), Some(SectorCount(2)));
        assert_eq!(SectorCount::from_bytes(1025), None);
        assert_eq!(SectorCount::floor_bytes(1025), SectorCount(2));
        assert_eq!(SectorCount(1025).round_down(SectorCount(1024)), SectorCount(1024));
    }

    #[test]
    fn distance_has_a_direction() {
        assert_eq!(Sector(5).since(Sector(3)), Some(SectorCount(2)));
        assert_eq!(Sector(3).since(Sector(5)), None);
    }

    #[test]
    #[should_panic(expected = "beyond 2^64")]
    fn byte_offset_never_wraps() {
        let _ = Sector(u64::MAX / 2).byte_offset();
    }
}
