//! What is wrong with a superblock, where, and what to do about it.

use core::fmt;

/// What kind of thing is wrong with a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SuperErrorKind {
    /// Nothing of md's here: another magic.
    NoMagic,
    /// Fewer bytes than the superblock needs.
    TooShort,
    /// A major version that nobody knows.
    MajorVersion,
    /// `max_dev` is beyond what 4 KiB hold.
    RoleCount,
    /// The checksum is not that of the bytes.
    Checksum,
    /// A bit of `feature_map` without a meaning to uraid.
    UnknownFeature,
    /// A known feature that this version of uraid does not carry out (cluster).
    NeedsLaterVersion,
    /// Padding that should be 0: a newer feature.
    Padding,
    /// `super_offset` is not where the superblock was found.
    SuperOffset,
    /// A level that uraid does not run.
    Level,
    /// A layout number without a meaning at this level.
    Layout,
    /// `raid_disks` is impossible at this level and layout.
    RaidDisks,
    /// A chunk that the level does not take.
    Chunk,
    /// The data area is beyond the member's end or over the superblock.
    DataArea,
    /// `size` is beyond the data area.
    UsedSize,
    /// The bitmap is beyond the member's ends or over something else.
    BitmapPlace,
    /// The bad-block log is beyond the member's ends, over something else, or too long.
    BadBlockLog,
    /// The PPL or the journal is of no use at this level, beside another log, or where it lies.
    WriteLog,
    /// A reshape that md does not do, beyond the data, or of which only a part is recorded.
    Reshape,
    /// `recovery_offset` is beyond the data area.
    RecoveryOffset,
    /// `resync_offset` is beyond the array.
    ResyncOffset,
    /// A role that is neither a slot of the array nor spare, faulty or journal.
    Role,
    /// `dev_number` is beyond the table of roles.
    DevNumber,
    /// A logical block size that is no power of two of 512 bytes to 64 KiB.
    LogicalBlock,
}

/// A superblock that cannot be used.
///
/// [`SuperError::is_absent`] tells "there is none" from "there is one, but". [`crate::RawFields`] shows the numbers of the latter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperError {
    /// The kind, to decide by.
    pub kind: SuperErrorKind,
    /// The field's name in `linux/raid/md_p.h`.
    pub field: &'static str,
    /// Where the field lies on the member, in bytes.
    pub member_byte: u64,
    /// What was found.
    pub found: String,
    /// What should have been there.
    pub expected: String,
}

impl SuperError {
    /// Is there simply no superblock of md's?
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.kind, SuperErrorKind::NoMagic | SuperErrorKind::TooShort)
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        use SuperErrorKind as Kind;
        match self.kind {
            Kind::NoMagic | Kind::TooShort => {
                "this is no md member, or its superblock is elsewhere: examine looks at every place"
            }
            Kind::MajorVersion | Kind::UnknownFeature | Kind::Padding => {
                "a newer md wrote this; assemble it with the kernel that made it, or a newer uraid"
            }
            Kind::NeedsLaterVersion => "let the kernel's md finish with this array first, or use a later version of uraid",
            Kind::Checksum => {
                "the superblock is damaged or half written; leave this member out and let it recover from the others"
            }
            Kind::SuperOffset => {
                "the member was moved, resized or copied; check that this is the whole device and not a part of it"
            }
            Kind::DataArea | Kind::UsedSize | Kind::BitmapPlace | Kind::BadBlockLog => {
                "the member may have been cut short; compare its size with the other members'"
            }
            Kind::RoleCount
            | Kind::Level
            | Kind::Layout
            | Kind::RaidDisks
            | Kind::Chunk
            | Kind::WriteLog
            | Kind::Reshape
            | Kind::RecoveryOffset
            | Kind::ResyncOffset
            | Kind::Role
            | Kind::DevNumber
            | Kind::LogicalBlock => "examine shows every field; leave this member out if the others agree without it",
        }
    }
}

impl fmt::Display for SuperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SuperError { field, member_byte, found, expected, .. } = self;
        write!(f, "{field} at byte {member_byte} of the member is {found}, expected {expected}; {}", self.hint())
    }
}

impl core::error::Error for SuperError {}
