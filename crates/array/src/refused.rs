//! Why a member is not taken into the array, in one sentence each.

use std::fmt;

use uraid_device::DeviceError;
use uraid_format::{BadBlocksError, SuperError};
use uraid_types::{SectorCount, Slot};
use uuid::Uuid;

use crate::Signature;

/// A member that is left out.
#[derive(Debug)]
pub struct Refused {
    /// The member's name, as it was given.
    pub name: String,
    /// Why.
    pub reason: RefusedReason,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

impl std::error::Error for Refused {}

/// Why a member is left out. The words say what to do next where there is something to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedReason {
    /// It could not be read.
    #[error("{}", without_name(.0))]
    Unreadable(#[source] DeviceError),
    /// None of md's superblocks at any of their places.
    #[error("no md superblock is on it; {}", found_instead(.found.as_ref()))]
    NoSuperblock {
        /// What is there instead.
        found: Option<Signature>,
    },
    /// A whole disk, whose partitions hold members.
    #[error("it is a whole disk with a partition table ({table}); {}", partition_hint(.members))]
    InPartitions {
        /// Which kind of table.
        table: &'static str,
        /// The names of the partitions that carry an array's metadata.
        members: Vec<String>,
    },
    /// A partition table that cannot be used.
    #[error("no md superblock is on it, and {0}")]
    PartitionTable(String),
    /// A container's metadata that cannot be used.
    #[error("{0}")]
    Foreign(String),
    /// A superblock that cannot be used.
    #[error("{0}")]
    Superblock(#[source] SuperError),
    /// Valid superblocks of different arrays at two places.
    #[error(
        "it carries superblocks of two arrays: {first} at byte {first_byte} and {second} at byte {second_byte}; wipe the one that is not meant"
    )]
    TwoSuperblocks {
        /// One array.
        first: Uuid,
        /// Where its superblock lies.
        first_byte: u64,
        /// The other.
        second: Uuid,
        /// Where its superblock lies.
        second_byte: u64,
    },
    /// The bad-block log makes no sense.
    #[error("{0}")]
    BadBlockLog(#[source] BadBlocksError),
    /// The same medium, given under two names.
    #[error("it is the same medium as {other}")]
    GivenTwice {
        /// The other name.
        other: String,
    },
    /// A copy of another member: the same device UUID on another medium.
    #[error("it has the device UUID of {other}, at {events} events against {newest}: an old copy of it")]
    Copy {
        /// The newer one.
        other: String,
        /// This one's events.
        events: u64,
        /// The newer one's.
        newest: u64,
    },
    /// Not of the array that was asked for.
    #[error("it belongs to array {found}, not to {wanted}")]
    OtherArray {
        /// Its array.
        found: Uuid,
        /// The array asked for.
        wanted: Uuid,
    },
    /// Its slot has a newer holder.
    #[error("{slot} is held by {by} at {newest} events; this one, at {events}, is older")]
    RoleTaken {
        /// The slot both claim.
        slot: Slot,
        /// The newer one.
        by: String,
        /// This one's events.
        events: u64,
        /// The newer one's.
        newest: u64,
    },
    /// Missed updates that the array has had since.
    #[error("it is stale: it stands at {events} events, {newest} at {freshest}; {}", stale_hint(*.readdable))]
    Stale {
        /// Its events.
        events: u64,
        /// The freshest member's.
        freshest: u64,
        /// The freshest member.
        newest: String,
        /// Does the bitmap know all that it missed?
        readdable: bool,
    },
    /// The freshest member's table of roles says that it is out.
    #[error("it claims {slot}, but {newest} recorded it as {recorded}; {}", stale_hint(*.readdable))]
    NotActive {
        /// What it claims.
        slot: Slot,
        /// The freshest member.
        newest: String,
        /// `faulty`, `spare`, another slot.
        recorded: String,
        /// Does the bitmap know all that it missed?
        readdable: bool,
    },
    /// It and the freshest member were each run without the other.
    #[error(
        "it was run without {newest} (which it recorded as failed) and both have changed since; add it as a new spare to overwrite it"
    )]
    Diverged {
        /// The freshest member.
        newest: String,
    },
    /// At the same events, it describes another array.
    #[error("its {field} is {found}, but {newest}, at the same events, says {expected}")]
    Disagrees {
        /// Which field.
        field: &'static str,
        /// What it says.
        found: String,
        /// What the freshest member says.
        expected: String,
        /// The freshest member.
        newest: String,
    },
    /// Not enough room for the array's data.
    #[error("it has room for {found} of data, the array uses {needed} of each member")]
    TooSmall {
        /// Its data size.
        found: SectorCount,
        /// The array's used size.
        needed: SectorCount,
    },
    /// A spare whose logical block the array does not fit.
    #[error("its logical block has {block_bytes} bytes, and the {field} of {found} sectors is no multiple of that")]
    Misaligned {
        /// Which field.
        field: &'static str,
        /// In sectors.
        found: u64,
        /// Its logical block.
        block_bytes: u64,
    },
    /// A replacement that was being filled while its original is there.
    #[error("it is a replacement for {slot}, which {original} still holds; add it as a spare once the array runs")]
    Replacement {
        /// The slot.
        slot: Slot,
        /// Who holds it.
        original: String,
    },
    /// Neither active nor spare.
    #[error("its own superblock has it as {role}")]
    NoUse {
        /// `faulty` or `journal`.
        role: &'static str,
    },
}

/// What failed, for a sentence that begins with the member's name already.
fn without_name(error: &DeviceError) -> String {
    let place =
        if error.len_bytes > 0 { format!(" {} bytes at byte {}", error.len_bytes, error.offset_bytes) } else { String::new() };
    format!("cannot {}{place}: {}", error.operation, error.source)
}

fn found_instead(found: Option<&Signature>) -> String {
    match found {
        Some(signature) => format!("it carries {signature}"),
        None => "nothing else was recognised either".to_owned(),
    }
}

fn partition_hint(members: &[String]) -> String {
    match members {
        [] => "none of its partitions carries an array's metadata".to_owned(),
        [one] => format!("the member is in a partition: give {one} instead"),
        several => format!("members are in its partitions: give {} instead", several.join(" or ")),
    }
}

fn stale_hint(readdable: bool) -> &'static str {
    if readdable {
        "the bitmap covers what it missed: re-add it once the array runs"
    } else {
        "add it as a spare once the array runs"
    }
}
