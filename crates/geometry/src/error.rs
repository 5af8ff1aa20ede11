//! What makes a shape impossible.

use thiserror::Error;
use uraid_types::{Level, SectorCount, Slot};

/// A shape that md would not run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// Fewer members than the level can work with.
    #[error("{level} needs at least {least} members; this array has {found}")]
    TooFewMembers {
        /// The level.
        level: Level,
        /// What it needs.
        least: usize,
        /// `raid_disks` of the shape.
        found: usize,
    },
    /// More members than md's superblock can name.
    #[error("{found} members; md's superblock has room for {most}")]
    TooManyMembers {
        /// The most that fit.
        most: usize,
        /// `raid_disks` of the shape.
        found: usize,
    },
    /// More members than parity is computed of.
    #[error("{found} members; a {level} array takes at most {most}")]
    TooWide {
        /// The level.
        level: Level,
        /// The most that it takes.
        most: usize,
        /// `raid_disks` of the shape.
        found: usize,
    },
    /// The table of sizes is not as long as the array is wide.
    #[error("sizes of {sizes} members given for an array of {raid_disks}")]
    SizesMissing {
        /// Sizes given.
        sizes: usize,
        /// `raid_disks` of the shape.
        raid_disks: usize,
    },
    /// A redundant level whose members differ in data size.
    #[error("{slot} holds {found}, slot 0 holds {first}; the members of a {level} array are of one size")]
    UnequalMembers {
        /// The level.
        level: Level,
        /// The first member that differs.
        slot: Slot,
        /// Its data sectors.
        found: SectorCount,
        /// Slot 0's data sectors.
        first: SectorCount,
    },
    /// A member without room for a single chunk (or, at levels without chunks, for a sector).
    #[error("{slot} holds {found}; at least {least} are needed")]
    MemberTooSmall {
        /// The member.
        slot: Slot,
        /// Its data sectors.
        found: SectorCount,
        /// The least that makes sense.
        least: SectorCount,
    },
    /// A member or the whole array is beyond 2^63 bytes.
    #[error("{what} is larger than 2^63 bytes")]
    TooLarge {
        /// What is too large.
        what: &'static str,
    },
    /// A chunk length that the level cannot use.
    #[error("a chunk of {chunk} does not suit {level}: it must be {rule}")]
    Chunk {
        /// The level.
        level: Level,
        /// The chunk length.
        chunk: SectorCount,
        /// What it must be.
        rule: &'static str,
    },
    /// A layout of another level.
    #[error("layout {layout} does not belong to {level}")]
    ForeignLayout {
        /// The level.
        level: Level,
        /// The layout, as mdadm prints it.
        layout: String,
    },
    /// A RAID0 of unequal members whose superblock does not say which of the two layouts it has. Guessing would give
    /// wrong data.
    #[error(
        "the members differ in size and the layout is not recorded: say 'original' (written by Linux before 3.14) or 'alternate' (since 3.14)"
    )]
    LayoutUnspecified,
    /// A RAID10 layout with fewer than two copies, or more than there are members.
    #[error("{copies} copies on {members} members; it takes at least 2 copies and a member for each")]
    Copies {
        /// Copies of each chunk.
        copies: usize,
        /// Members of the array.
        members: usize,
    },
    /// A RAID10 layout in which md itself would put two chunks into one place, or two copies of a chunk on one member.
    /// Linux runs such arrays, mdadm does not make them.
    #[error("layout {layout} on {members} members would put two chunks into one place or two copies on one member")]
    Overlap {
        /// The layout, as mdadm prints it.
        layout: String,
        /// Members of the array.
        members: usize,
    },
}
