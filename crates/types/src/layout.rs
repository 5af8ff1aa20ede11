//! Layouts: where a level puts parity and copies. Numbers are the superblock's (`linux/raid/md_p.h`, md(4)).

use core::fmt;

use crate::{Level, ParityLayout, Raid10Layout};

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
                let found = ParityLayout::of_level(level).iter().find(|layout| layout.md_number() == number);
                found.map(|&layout| Layout::Parity(layout)).ok_or(unknown)
            }
            Level::Raid10 => Raid10Layout::from_md_number(number).map(Layout::Raid10).ok_or(unknown),
        }
    }

    /// The layout that `mdadm --layout` calls `name`: `left-symmetric` or `ls`, `n2`, `f3`, `o2`, `original`, `alternate`, ...
    /// Whatever a layout is shown as (`near=2, far=2`) is its name too, and so is its number (RAID0, RAID5, RAID6).
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
                "dangerous" | "unspecified" | "0" => Ok(Layout::Raid0(Raid0Layout::Unspecified)),
                _ => Err(unknown()),
            },
            Level::Raid5 | Level::Raid6 => ParityLayout::from_name(level, name).map(Layout::Parity).ok_or_else(unknown),
            Level::Raid10 => Raid10Layout::from_name(name).map(Layout::Raid10).ok_or_else(unknown),
        }
    }

    /// The names that [`Layout::from_name`] takes at `level`, for a message.
    #[must_use]
    pub const fn names(level: Level) -> &'static str {
        match level {
            Level::Linear | Level::Raid1 | Level::Raid4 => "none",
            Level::Raid0 => "original, alternate",
            Level::Raid5 => {
                "left-asymmetric (la), right-asymmetric (ra), left-symmetric (ls), right-symmetric (rs), parity-first, parity-last"
            }
            Level::Raid6 => {
                "left-asymmetric (la), right-asymmetric (ra), left-symmetric (ls), right-symmetric (rs), parity-first, parity-last, \
                 ddf-zero-restart, ddf-N-restart, ddf-N-continue, left-asymmetric-6, right-asymmetric-6, left-symmetric-6, \
                 right-symmetric-6, parity-first-6"
            }
            Level::Raid10 => "nN, fN, oN (near, far, offset; N copies), near=N,far=M, near=N,offset=M, and any of these,far-sets",
        }
    }
}

impl fmt::Display for Layout {
    /// As mdadm prints it: `left-symmetric`, `near=2`, `far=2`, `near=2, offset=2`, `original`, `-` for none. The far sets of RAID10, of
    /// which mdadm says nothing, are added.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::None => f.write_str("-"),
            Layout::Raid0(Raid0Layout::Original) => f.write_str("original"),
            Layout::Raid0(Raid0Layout::Alternate) => f.write_str("alternate"),
            Layout::Raid0(Raid0Layout::Unspecified) => f.write_str("unspecified"),
            Layout::Parity(layout) => f.write_str(layout.name()),
            Layout::Raid10(layout) => layout.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
