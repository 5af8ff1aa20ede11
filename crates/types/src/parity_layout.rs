//! The layouts of the levels with parity.

use crate::Level;

/// Where RAID4, RAID5 and RAID6 put parity and data in a stripe.
///
/// RAID6 has all of them, RAID5 the first six. In those Q lies behind P, and both move together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ParityLayout {
    /// Parity moves from the last member to the first; data starts at member 0 (number 0).
    LeftAsymmetric = 0,
    /// Parity moves from the first member to the last; data starts at member 0 (number 1).
    RightAsymmetric = 1,
    /// As left-asymmetric, but data starts after the parity (number 2, the default).
    LeftSymmetric = 2,
    /// As right-asymmetric, but data starts after the parity (number 3).
    RightSymmetric = 3,
    /// All parity on the first member or members (number 4).
    ParityFirst = 4,
    /// All parity on the last member or members (number 5); RAID4 is this.
    ParityLast = 5,
    /// DDF's: places as right-asymmetric, Q counted by slots (number 8).
    DdfZeroRestart = 8,
    /// DDF's: places as left-asymmetric a stripe further on, so that Q starts on the last member; Q counted by slots (number 9).
    DdfNRestart = 9,
    /// DDF's: places as left-symmetric, but Q before P; Q counted by slots (number 10).
    DdfNContinue = 10,
    /// RAID5's left-asymmetric on all members but the last, which holds Q (number 16): what growing a RAID5 leaves, as the
    /// following ones.
    LeftAsymmetric6 = 16,
    /// RAID5's right-asymmetric, and Q on the last member (number 17).
    RightAsymmetric6 = 17,
    /// RAID5's left-symmetric, and Q on the last member (number 18).
    LeftSymmetric6 = 18,
    /// RAID5's right-symmetric, and Q on the last member (number 19).
    RightSymmetric6 = 19,
    /// P on the first member, Q on the last (number 20).
    ParityFirst6 = 20,
}

/// By number; RAID5's come first.
const ALL: [ParityLayout; 14] = [
    ParityLayout::LeftAsymmetric,
    ParityLayout::RightAsymmetric,
    ParityLayout::LeftSymmetric,
    ParityLayout::RightSymmetric,
    ParityLayout::ParityFirst,
    ParityLayout::ParityLast,
    ParityLayout::DdfZeroRestart,
    ParityLayout::DdfNRestart,
    ParityLayout::DdfNContinue,
    ParityLayout::LeftAsymmetric6,
    ParityLayout::RightAsymmetric6,
    ParityLayout::LeftSymmetric6,
    ParityLayout::RightSymmetric6,
    ParityLayout::ParityFirst6,
];

impl ParityLayout {
    /// Those of `level`, by number; none for a level without parity.
    #[must_use]
    pub fn of_level(level: Level) -> &'static [ParityLayout] {
        match level {
            Level::Raid4 => &[ParityLayout::ParityLast],
            Level::Raid5 => &ALL[..6],
            Level::Raid6 => &ALL,
            Level::Linear | Level::Raid0 | Level::Raid1 | Level::Raid10 => &[],
        }
    }

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
            ParityLayout::DdfZeroRestart => "ddf-zero-restart",
            ParityLayout::DdfNRestart => "ddf-N-restart",
            ParityLayout::DdfNContinue => "ddf-N-continue",
            ParityLayout::LeftAsymmetric6 => "left-asymmetric-6",
            ParityLayout::RightAsymmetric6 => "right-asymmetric-6",
            ParityLayout::LeftSymmetric6 => "left-symmetric-6",
            ParityLayout::RightSymmetric6 => "right-symmetric-6",
            ParityLayout::ParityFirst6 => "parity-first-6",
        }
    }

    /// The superblock's number.
    #[must_use]
    pub const fn md_number(self) -> u32 {
        self as u32
    }

    /// Is a data block's exponent in Q the number of its slot?
    #[must_use]
    pub const fn counts_slots(self) -> bool {
        matches!(self, ParityLayout::DdfZeroRestart | ParityLayout::DdfNRestart | ParityLayout::DdfNContinue)
    }

    /// The layout that mdadm calls `name` at `level`, long or short, or whose number it is.
    pub(crate) fn from_name(level: Level, name: &str) -> Option<ParityLayout> {
        let long = match name {
            "la" => "left-asymmetric",
            "ra" => "right-asymmetric",
            "ls" | "default" => "left-symmetric",
            "rs" => "right-symmetric",
            // With one parity DDF's places are those of layouts that have a name already.
            "ddf-zero-restart" if level == Level::Raid5 => "right-asymmetric",
            "ddf-N-restart" if level == Level::Raid5 => "left-asymmetric",
            "ddf-N-continue" if level == Level::Raid5 => "left-symmetric",
            other => other,
        };
        let is_it = |layout: &&ParityLayout| layout.name() == long || name == layout.md_number().to_string();
        ParityLayout::of_level(level).iter().find(is_it).copied()
    }
}
