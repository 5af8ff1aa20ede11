//! RAID levels, by md's numbers and mdadm's names.

use core::fmt;
use core::str::FromStr;

/// A RAID level that uraid runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Members one after another (md level -1).
    Linear,
    /// Striping without redundancy.
    Raid0,
    /// Mirrors.
    Raid1,
    /// Striping with one dedicated parity member.
    Raid4,
    /// Striping with rotating parity.
    Raid5,
    /// Striping with rotating P and Q.
    Raid6,
    /// Striped copies: near, far or offset.
    Raid10,
}

impl Level {
    /// All levels, in md's order.
    pub const ALL: [Level; 7] =
        [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10];

    /// The number in the superblock (`linux/raid/md_p.h`, field `level`).
    #[must_use]
    pub const fn md_number(self) -> i32 {
        match self {
            Level::Linear => -1,
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid4 => 4,
            Level::Raid5 => 5,
            Level::Raid6 => 6,
            Level::Raid10 => 10,
        }
    }

    /// The level of a superblock's number; `None` for one that uraid does not run.
    #[must_use]
    pub const fn from_md_number(number: i32) -> Option<Level> {
        match number {
            -1 => Some(Level::Linear),
            0 => Some(Level::Raid0),
            1 => Some(Level::Raid1),
            4 => Some(Level::Raid4),
            5 => Some(Level::Raid5),
            6 => Some(Level::Raid6),
            10 => Some(Level::Raid10),
            _ => None,
        }
    }

    /// Parity members in each stripe: 0, 1 or 2.
    #[must_use]
    pub const fn parity_members(self) -> usize {
        match self {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            Level::Linear | Level::Raid0 | Level::Raid1 | Level::Raid10 => 0,
        }
    }

    /// Does this level have parity?
    #[must_use]
    pub const fn has_parity(self) -> bool {
        self.parity_members() > 0
    }

    /// Does any member's loss leave the data readable?
    #[must_use]
    pub const fn is_redundant(self) -> bool {
        !matches!(self, Level::Linear | Level::Raid0)
    }

    /// Is the data cut into chunks?
    #[must_use]
    pub const fn has_chunks(self) -> bool {
        !matches!(self, Level::Linear | Level::Raid1)
    }

    /// mdadm's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Linear => "linear",
            Level::Raid0 => "raid0",
            Level::Raid1 => "raid1",
            Level::Raid4 => "raid4",
            Level::Raid5 => "raid5",
            Level::Raid6 => "raid6",
            Level::Raid10 => "raid10",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A level name that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel(pub String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level '{}' is not one of linear, 0, 1, 4, 5, 6, 10 (also raid0, stripe, mirror, raid5, ...)", self.0)
    }
}

impl core::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// The names that `mdadm --level` takes.
    fn from_str(name: &str) -> Result<Level, UnknownLevel> {
        match name {
            "linear" | "-1" => Ok(Level::Linear),
            "raid0" | "0" | "stripe" => Ok(Level::Raid0),
            "raid1" | "1" | "mirror" => Ok(Level::Raid1),
            "raid4" | "4" => Ok(Level::Raid4),
            "raid5" | "5" => Ok(Level::Raid5),
            "raid6" | "6" => Ok(Level::Raid6),
            "raid10" | "10" => Ok(Level::Raid10),
            other => Err(UnknownLevel(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_round() {
        for level in Level::ALL {
            assert_eq!(level.name().parse(), Ok(level));
            assert_eq!(level.md_number().to_string().parse(), Ok(level));
            assert_eq!(Level::from_md_number(level.md_number()), Some(level));
        }
        assert_eq!(Level::from_md_number(2), None);
        assert!("raid7".parse::<Level>().is_err());
    }
}
