//! Why an array cannot be started.

use std::fmt;

use uraid_geometry::GeometryError;
use uraid_types::{Layout, Level, Sector, Slot};

use crate::Refused;

/// An array that cannot be started, and the members that were left out on the way there.
#[derive(Debug)]
pub struct AssembleError {
    /// The reason.
    pub problem: AssembleProblem,
    /// Members that were left out, each with its own reason.
    pub refused: Vec<Refused>,
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem)?;
        for refused in &self.refused {
            write!(f, "\n  left out: {refused}")?;
        }
        Ok(())
    }
}

impl std::error::Error for AssembleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.problem)
    }
}

/// What stands against starting an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleProblem {
    /// Nothing to start.
    #[error("no member of any array was given")]
    NoMembers,
    /// None of the members is of the array asked for.
    #[error("no member of array {0} was given")]
    NoneOfArray(uuid::Uuid),
    /// Members of more than one array.
    #[error("the members belong to more than one array: {}; name one with --uuid, or give its members only", .0.join("; "))]
    SeveralArrays(Vec<String>),
    /// Only spares.
    #[error("only spares were given ({}); give the members that hold data", .0.join(", "))]
    OnlySpares(Vec<String>),
    /// Two members claim one slot and neither is older.
    #[error("{first} and {second} both claim {slot}, at {first_events} and {second_events} events; leave one of them out")]
    TwoForSlot {
        /// The slot.
        slot: Slot,
        /// One of them.
        first: String,
        /// Its events.
        first_events: u64,
        /// The other.
        second: String,
        /// Its events.
        second_events: u64,
    },
    /// Two members, each of which was run without the other.
    #[error(
        "{first} and {second} were each run without the other, and have drifted apart; leave one of them out, start the array, and add \
         it again as a spare"
    )]
    SplitBrain {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A bitmap's file that is not this array's.
    #[error("--bitmap {name}: {why}")]
    BitmapFile {
        /// The file.
        name: String,
        /// Why it cannot be used.
        why: String,
    },
    /// Data is missing.
    #[error("not enough members hold the data ({in_sync} of {slots} slots are in sync): {}{}", .story.join("; "), .hint)]
    NotEnough {
        /// Slots in sync.
        in_sync: usize,
        /// Slots.
        slots: usize,
        /// Each slot: who holds it, or what is missing.
        story: Vec<String>,
        /// What would help.
        hint: String,
    },
    /// Members that were active last time are not there.
    #[error("{present} of {recorded} members that were active last time are here: {}; --run starts the array degraded", .story.join("; "))]
    FewerThanLastTime {
        /// How many are.
        present: usize,
        /// How many were.
        recorded: usize,
        /// The slots that lack theirs.
        story: Vec<String>,
    },
    /// The write hole.
    #[error(
        "the {level} array was not stopped cleanly and is degraded (slots not in sync: {missing}): where a write was under way, parity and \
         data may disagree, and what parity then gives for a missing member is wrong without notice (the write hole); give the missing \
         members, or --force takes the parity for good"
    )]
    DirtyDegraded {
        /// The level.
        level: Level,
        /// Slots not in sync.
        missing: usize,
    },
    /// An array with a journal, without it.
    #[error(
        "the array has a journal, {}: it holds the last writes; give it among the members or with --write-journal, or --force takes the \
         array without it, for reading only", journal_words(.stale.as_ref(), *.events)
    )]
    Journal {
        /// A journal that is too old: its name and its events.
        stale: Option<(String, u64)>,
        /// The freshest member's events.
        events: u64,
    },
    /// A log of writes that cannot be replayed.
    #[error("its {what} cannot be replayed: {why}")]
    Replay {
        /// Which log.
        what: &'static str,
        /// What failed.
        why: String,
    },
    /// Superblocks that could not be written.
    #[error("--update could not be carried out: {why}; give it again once that is mended")]
    Update {
        /// What failed.
        why: String,
    },
    /// A RAID0 that can be read in two ways.
    #[error(
        "the members differ in size and the superblock does not say which layout it has: 'original' (chunks counted from the array's \
         start, Linux before 3.14) or 'alternate' (counted from each zone's start, since 3.14); the wrong one gives wrong data: read it \
         with --layout=original and with --layout=alternate, keep to the one that makes sense, and record that with \
         `mdadm --assemble --update=layout-original` or `layout-alternate`"
    )]
    Raid0Layout,
    /// A choice where there is none.
    #[error(
        "--layout chooses how to read a RAID0 that does not record its layout; this {level} array has the layout {recorded}: leave it out"
    )]
    LayoutRecorded {
        /// The level.
        level: Level,
        /// What is recorded.
        recorded: Layout,
    },
    /// One of the two shapes of an array that is being reshaped cannot be read.
    #[error("in its shape {which} the reshape that is part way: {problem}")]
    InShape {
        /// `before` or `after`.
        which: &'static str,
        /// Why.
        problem: Box<AssembleProblem>,
    },
    /// What a reshape in place has overwritten last is not there.
    #[error(
        "the array was being reshaped in place, and has come to array {position}: what lies there may be half overwritten, and {}; \
         --invalid-backup reads it without, for when the reshape was stopped in peace", backup_words(*.given)
    )]
    NeedsBackup {
        /// Array sector.
        position: Sector,
        /// Was a backup given, which does not have it?
        given: bool,
    },
    /// A backup of something else.
    #[error("the backup file cannot be used: {why}")]
    Backup {
        /// Why.
        why: String,
    },
    /// Numbers that make no array.
    #[error("{newest} describes an array that cannot be: {error}")]
    Shape {
        /// The member that decided.
        newest: String,
        /// What is wrong.
        error: GeometryError,
    },
    /// A logical block that uraid does not do, or that the array does not fit.
    #[error(
        "{field} of {found} sectors does not fit the array's logical block of {block_bytes} bytes (512 and 4096 are supported)"
    )]
    Block {
        /// What does not fit, and whose it is.
        field: String,
        /// Its value in sectors.
        found: u64,
        /// The block.
        block_bytes: u64,
    },
}

fn backup_words(given: bool) -> &'static str {
    match given {
        true => "the backup file does not have it",
        false => "it is in the backup file of mdadm --grow: give that by --backup-file",
    }
}

fn journal_words(stale: Option<&(String, u64)>, events: u64) -> String {
    match stale {
        Some((name, own)) => format!("and {name} is an old state of it (at {own} events, the members at {events})"),
        None => "which was not given".to_owned(),
    }
}
