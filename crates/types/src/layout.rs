//! Layouts: where a level puts parity and copies. Numbers are the superblock's (`linux/raid/md_p.h`, md(4)).

use core::fmt;

use crate::Level;

/// Where RAID4, RAID5 and RAID6 put parity and data in a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParityLayout {
    /// Parity moves from the last member to the first; data starts at member 0 (number 0).
    LeftAsymmetric,
    /// Parity moves from the first member to the last; data starts at member 0 (number 1).
    RightAsymmetric,
    /// As left-asymmetric, but data starts after the parity (number 2, the default).
    LeftSymmetric,
    /// As right-asymmetric, but data starts after the parity (number 3).
    RightSymmetric,
    /// All parity on the first member or members (number 4).
    ParityFirst,
    /// All parity on the last member or members (number 5); RAID4 is this.
    ParityLast,
}

impl ParityLayout {
    /// All parity layouts, by number.
    pub const ALL: [ParityLayout; 6] = [
        ParityLayout::LeftAsymmetric,
        ParityLayout::RightAsymmetric,
        ParityLayout::LeftSymmetric,
        ParityLayout::RightSymmetric,
        ParityLayout::ParityFirst,
        ParityLayout::ParityLast,
    ];

    /// mdadm's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ParityLayout::LeftAsymmetric => "left-asymmetric",
            ParityLayout::RightAsymmetric => "right-asymmetric",
            ParityLayout::LeftSymmetric => "left-symmetric",
            ParityLayout::RightSymmetric => "right-symmetric",
            ParityLayout::ParityFirst => "parity-first",
            ParityLayout::ParityLast => "parity-last",
        }
    }

    /// The superblock's number.
    #[must_use]
    pub const fn md_number(self) -> u32 {
        self as u32
    }
}

/// How RAID0 places chunks once its smaller members are full (`MD_FEATURE_RAID0_LAYOUT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raid0Layout {
    /// Kernels before 3.14 (number 1): the chunk's member is counted from the start of the array.
    Original,
    /// Kernels since 3.14 (number 2): counted from the start of the zone.
    Alternate,
    /// Number 0: not recorded. The same as either while all members are of one size.
    Unspecified,
}

/// Where RAID10 puts the copies of a chunk.
///
/// The number holds near copies in bits 0..8, far copies in bits 8..16, "offset" in bit 16 and the newer sets in bits 17 and 18.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raid10Layout {
    /// Copies beside each other, 1 to 255.
    pub near_copies: u8,
    /// Copies far apart, 1 to 255.
    pub far_copies: u8,
    /// Far copies lie in the next stripes instead of the next part of each member.
    pub far_offset: bool,
    /// Far copies stay within sets of members (bit 17).
    pub far_sets: bool,
    /// Far sets as repaired later (bit 18); Linux takes either bit, never both.
    pub far_sets_improved: bool,
}

impl Raid10Layout {
    /// `n` near copies.
    #[must_use]
    pub const fn near(copies: u8) -> Raid10Layout {
        Raid10Layout { near_copies: copies, far_copies: 1, far_offset: false, far_sets: false, far_sets_improved: false }
    }

    /// `n` far copies.
    #[must_use]
    pub const fn far(copies: u8) -> Raid10Layout {
        Raid10Layout { near_copies: 1, far_copies: copies, far_offset: false, far_sets: false, far_sets_improved: false }
    }

    /// `n` copies at an offset of one stripe.
    #[must_use]
    pub const fn offset(copies: u8) -> Raid10Layout {
        Raid10Layout { near_copies: 1, far_copies: copies, far_offset: true, far_sets: false, far_sets_improved: false }
    }

    /// Copies of each chunk.
    #[must_use]
    pub const fn copies(self) -> usize {
        self.near_copies as usize * self.far_copies as usize
    }

    /// The superblock's number.
    #[must_use]
    pub const fn md_number(self) -> u32 {
        self.near_copies as u32
            | (self.far_copies as u32) << 8
            | (self.far_offset as u32) << 16
            | (self.far_sets as u32) << 17
            | (self.far_sets_improved as u32) << 18
    }
}

/// A layout of any level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Linear and RAID1 have none.
    None,
    /// RAID0's zones.
    Raid0(Raid0Layout),
    /// RAID4, RAID5, RAID6.
    Parity(ParityLayout),
    /// RAID10.
    Raid10(Raid10Layout),
}

/// A layout that does not fit its level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The superblock's number means nothing at this level.
    UnknownNumber {
        /// The level.
        level: Level,
        /// The number found.
        number: u32,
    },
    /// The name means nothing at this level.
    UnknownName {
        /// The level.
        level: Level,
        /// The name given.
        name: String,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::UnknownNumber { level, number } => write!(f, "layout number {number:#x} is unknown at level {level}"),
            LayoutError::UnknownName { level, name } => {
                write!(f, "layout '{name}' is unknown at level {level}; it takes {}", Layout::names(*level))
            }
        }
    }
}

impl core::error::Error for LayoutError {}

impl Layout {
    /// mdadm's default: left-symmetric, two near copies, RAID0's alternate zones.
    #[must_use]
    pub const fn default_for(level: Level) -> Layout {
        match level {
            Level::Linear | Level::Raid1 => Layout::None,
            Level::Raid0 => Layout::Raid0(Raid0Layout::Alternate),
            Level::Raid4 => Layout::Parity(ParityLayout::ParityLast),
            Level::Raid5 | Level::Raid6 => Layout::Parity(ParityLayout::LeftSymmetric),
            Level::Raid10 => Layout::Raid10(Raid10Layout::near(2)),
        }
    }

    /// The number that the superblock holds. RAID4 and unspecified layouts hold 0.
    #[must_use]
    pub const fn md_number(self, level: Level) -> u32 {
        match (level, self) {
            (Level::Raid4, _) | (_, Layout::None) => 0,
            (_, Layout::Raid0(Raid0Layout::Unspecified)) => 0,
            (_, Layout::Raid0(Raid0Layout::Original)) => 1,
            (_, Layout::Raid0(Raid0Layout::Alternate)) => 2,
            (_, Layout::Parity(layout)) => layout.md_number(),
            (_, Layout::Raid10(layout)) => layout.md_number(),
        }
    }

    /// The layout of a superblock's number.
    ///
    /// # Errors
    /// [`LayoutError::UnknownNumber`] for a number without a meaning at `level`.
    pub fn from_md_number(level: Level, number: u32) -> Result<Layout, LayoutError> {
        let unknown = LayoutError::UnknownNumber { level, number };
        match level {
            Level::Linear | Level::Raid1 => Ok(Layout::None),
            Level::Raid0 => match number {
                0 => Ok(Layout::Raid0(Raid0Layout::Unspecified)),
                1 => Ok(Layout::Raid0(Raid0Layout::Original)),
                2 => Ok(Layout::Raid0(Raid0Layout::Alternate)),
                _ => Err(unknown),
            },
            Level::Raid4 => Ok(Layout::Parity(ParityLayout::ParityLast)),
            Level::Raid5 | Level::Raid6 => {
                ParityLayout::ALL.get(number as usize).map(|&layout| Layout::Parity(layout)).ok_or(unknown)
            }
            Level::Raid10 => {
                let [near_copies, far_copies, flags, high] = number.to_le_bytes();
                let layout = Raid10Layout {
                    near_copies,
                    far_copies,
                    far_offset: flags & 1 != 0,
                    far_sets: flags & 2 != 0,
                    far_sets_improved: flags & 4 != 0,
                };
                let sets_make_sense = !(layout.far_sets && layout.far_sets_improved);
                if near_copies == 0 || far_copies == 0 || flags & !7 != 0 || high != 0 || !sets_make_sense {
                    return Err(unknown);
                }
                Ok(Layout::Raid10(layout))
            }
        }
    }

    /// The layout that `mdadm --layout` calls `name`: `left-symmetric` or `ls`, `n2`, `f3`, `o2`, `original`, `alternate`, ...
    ///
    /// # Errors
    /// [`LayoutError::UnknownName`] for a name that `level` does not take.
    pub fn from_name(level: Level, name: &str) -> Result<Layout, LayoutError> {
        let unknown = || LayoutError::UnknownName { level, name: name.to_owned() };
        match level {
            Level::Linear | Level::Raid1 | Level::Raid4 => Err(unknown()),
            Level::Raid0 => match name {
                "original" | "1" => Ok(Layout::Raid0(Raid0Layout::Original)),
                "alternate" | "2" => Ok(Layout::Raid0(Raid0Layout::Alternate)),
                "dangerous" | "0" => Ok(Layout::Raid0(Raid0Layout::Unspecified)),
                _ => Err(unknown()),
            },
            Level::Raid5 | Level::Raid6 => {
                let long = match name {
                    "la" | "0" => "left-asymmetric",
                    "ra" | "1" => "right-asymmetric",
                    "ls" | "default" | "2" => "left-symmetric",
                    "rs" | "3" => "right-symmetric",
                    "4" => "parity-first",
                    "5" => "parity-last",
                    other => other,
                };
                let found = ParityLayout::ALL.into_iter().find(|layout| layout.name() == long);
                found.map(Layout::Parity).ok_or_else(unknown)
            }
            Level::Raid10 => {
                let mut letters = name.chars();
                let kind = letters.next().ok_or_else(unknown)?;
                let copies: u8 = letters.as_str().parse().map_err(|_| unknown())?;
                match (kind, copies) {
                    (_, 0) => Err(unknown()),
                    ('n', _) => Ok(Layout::Raid10(Raid10Layout::near(copies))),
                    ('f', _) => Ok(Layout::Raid10(Raid10Layout::far(copies))),
                    ('o', _) => Ok(Layout::Raid10(Raid10Layout::offset(copies))),
                    _ => Err(unknown()),
                }
            }
        }
    }

    /// The names that [`Layout::from_name`] takes at `level`, for a message.
    #[must_use]
    pub const fn names(level: Level) -> &'static str {
        match level {
            Level::Linear | Level::Raid1 | Level::Raid4 => "none",
            Level::Raid0 => "original, alternate",
            Level::Raid5 | Level::Raid6 => {
                "left-asymmetric (la), right-asymmetric (ra), left-symmetric (ls), right-symmetric (rs), parity-first, parity-last"
            }
            Level::Raid10 => "nN, fN, oN (near, far, offset; N copies)",
        }
    }
}

impl fmt::Display for Layout {
    /// As mdadm prints it: `left-symmetric`, `near=2`, `far=2`, `near=2, offset=2`, `original`, `-` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::None => f.write_str("-"),
            Layout::Raid0(Raid0Layout::Original) => f.write_str("original"),
            Layout::Raid0(Raid0Layout::Alternate) => f.write_str("alternate"),
            Layout::Raid0(Raid0Layout::Unspecified) => f.write_str("unspecified"),
            Layout::Parity(layout) => f.write_str(layout.name()),
            Layout::Raid10(layout) => {
                let far = if layout.far_offset { "offset" } else { "far" };
                match (layout.near_copies, layout.far_copies) {
                    (near, 1) => write!(f, "near={near}"),
                    (1, copies) => write!(f, "{far}={copies}"),
                    (near, copies) => write!(f, "near={near}, {far}={copies}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_valid_number_goes_round() {
        for level in Level::ALL {
            for number in 0..0x8_0000 {
                if let Ok(layout) = Layout::from_md_number(level, number)
                    && !matches!(level, Level::Raid4 | Level::Linear | Level::Raid1)
                {
                    assert_eq!(layout.md_number(level), number, "{level} {layout:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_those_of_md() {
        assert_eq!(Layout::from_name(Level::Raid10, "n2").unwrap().md_number(Level::Raid10), 0x102);
        assert_eq!(Layout::from_name(Level::Raid10, "f2").unwrap().md_number(Level::Raid10), 0x201);
        assert_eq!(Layout::from_name(Level::Raid10, "o2").unwrap().md_number(Level::Raid10), 0x10201);
        assert_eq!(Layout::default_for(Level::Raid5).md_number(Level::Raid5), 2);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Layout::from_md_number(Level::Raid5, 6).is_err());
        assert!(Layout::from_md_number(Level::Raid10, 0x100).is_err());
        assert!(Layout::from_md_number(Level::Raid10, 0x60201).is_err(), "Linux: unsupported layout");
        assert!(Layout::from_md_number(Level::Raid10, 0x40201).is_ok() && Layout::from_md_number(Level::Raid10, 0x20201).is_ok());
        assert!(Layout::from_name(Level::Raid10, "n0").is_err());
        assert!(Layout::from_name(Level::Raid10, "").is_err());
        assert!(Layout::from_name(Level::Raid1, "ls").is_err());
    }
}
