//! Why an array cannot be made so.

use uraid_types::{Layout, Level, Sector, SectorCount};

use crate::MAX_NAME_BYTES;

/// A wish that cannot be granted. Members are counted from 0, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Fewer slots than the level and layout need.
    #[error("{level} needs at least {needed} members, not {given}")]
    TooFewMembers {
        /// The level.
        level: Level,
        /// Slots wanted.
        given: usize,
        /// Slots needed.
        needed: usize,
    },
    /// More members than a superblock holds.
    #[error("{given} members are too many: a superblock of this version holds {limit}")]
    TooManyMembers {
        /// Slots and spares wanted.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// The list of members does not have one entry for each slot and spare.
    #[error("{given} members are given (missing ones included), but {slots} slots and {spares} spares are asked for")]
    MemberCount {
        /// Entries given.
        given: usize,
        /// Slots.
        slots: usize,
        /// Spares.
        spares: usize,
    },
    /// So many members are missing that data would be.
    #[error("{level} of {slots} cannot do without the {missing} missing members")]
    TooManyMissing {
        /// The level.
        level: Level,
        /// Slots.
        slots: usize,
        /// Missing ones.
        missing: usize,
    },
    /// A spare that is missing.
    #[error("member {index} would be a spare: a spare cannot be missing; ask for fewer spares")]
    MissingSpare {
        /// Which.
        index: usize,
    },
    /// Spares where nothing can be recovered.
    #[error("{level} has no redundancy: spares are of no use to it")]
    NoSpares {
        /// The level.
        level: Level,
    },
    /// Not enough room on a member.
    #[error("member {index} has {sectors} sectors, {short} fewer than this array needs ({needed}, metadata included)")]
    MemberTooSmall {
        /// Which.
        index: usize,
        /// Its size.
        sectors: u64,
        /// Sectors needed.
        needed: u64,
        /// The difference.
        short: u64,
    },
    /// `size` is more than a member holds.
    #[error("size {asked} is too big: member {index} has room for {room}")]
    SizeTooBig {
        /// The size asked for.
        asked: SectorCount,
        /// The smallest member.
        index: usize,
        /// What it has room for.
        room: SectorCount,
    },
    /// `size` rounds down to nothing.
    #[error("size {asked} is less than the {unit} that sizes are rounded down to")]
    SizeTooSmall {
        /// The size asked for.
        asked: SectorCount,
        /// The rounding.
        unit: SectorCount,
    },
    /// `size` where each member gives all it has.
    #[error("{level} uses all of each member: it takes no size")]
    SizeNotTaken {
        /// The level.
        level: Level,
    },
    /// A chunk that the level does not take.
    #[error("{level} takes no chunk of {chunk}: it must be {takes}")]
    Chunk {
        /// The level.
        level: Level,
        /// The chunk.
        chunk: SectorCount,
        /// What would do.
        takes: &'static str,
    },
    /// A layout of another level.
    #[error("layout {layout} does not belong to {level}; it takes {}", Layout::names(*level))]
    Layout {
        /// The level.
        level: Level,
        /// The layout.
        layout: Layout,
    },
    /// A bitmap where nothing is resynced.
    #[error("{level} has no redundancy: a bitmap is of no use to it")]
    BitmapLevel {
        /// The level.
        level: Level,
    },
    /// A bitmap chunk that is no power of two, or leaves too many bits.
    #[error("a bitmap chunk of {chunk_bytes} bytes will not do: it must be a power of two, here of at least {least}")]
    BitmapChunk {
        /// The chunk.
        chunk_bytes: u32,
        /// The least that would do.
        least: u64,
    },
    /// A data offset within the metadata or not on a 4 KiB boundary.
    #[error("data cannot begin at {asked}: it must be a multiple of 8 sectors, at least {least}")]
    DataOffset {
        /// The offset asked for.
        asked: Sector,
        /// The least.
        least: Sector,
    },
    /// A name that does not fit.
    #[error("the name has {len} bytes; a superblock holds {MAX_NAME_BYTES}")]
    Name {
        /// Its length.
        len: usize,
    },
    /// Blocks that md does not do.
    #[error("member {index} has logical blocks of {bytes} bytes; only 512 and 4096 will do")]
    LogicalBlock {
        /// Which.
        index: usize,
        /// Its block.
        bytes: u32,
    },
    /// A logical block to record that uraid could not serve.
    #[error("a logical block of {bytes} bytes cannot be recorded; only 512 and 4096 will do")]
    RecordedBlock {
        /// The size asked for.
        bytes: u32,
    },
    /// A member with larger blocks than the array is to have.
    #[error("member {index} has logical blocks of {bytes} bytes; the array's cannot be of {recorded}")]
    LargerBlock {
        /// Which.
        index: usize,
        /// Its block.
        bytes: u32,
        /// The array's.
        recorded: u32,
    },
    /// What version 0.90 cannot record.
    #[error("metadata 0.90 {what}; use 1.2, or 1.0 to keep the superblock at the end")]
    Version090 {
        /// In words.
        what: &'static str,
    },
}
