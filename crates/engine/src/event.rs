//! What goes into the engine and what comes out of it.

use std::fmt;

use uraid_device::{DeviceError, IoOp, Shared};
use uraid_types::{Sector, SectorCount, Slot};

use crate::SyncSpeed;

/// A front end's name for its request; handed back in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// What a front end asks of the array. Addresses are array sectors and multiples of the logical block.
#[derive(Clone, Debug)]
pub enum Request {
    /// Read `len` sectors.
    Read {
        /// First array sector.
        start: Sector,
        /// How many.
        len: SectorCount,
    },
    /// Write all of `data`.
    Write {
        /// First array sector.
        start: Sector,
        /// The bytes.
        data: Shared,
        /// Reply only once the data and all that it needs is durable.
        fua: bool,
    },
    /// Make every write that was replied to durable.
    Flush,
    /// Make the range read as zeros.
    Zero {
        /// First array sector.
        start: Sector,
        /// How many.
        len: SectorCount,
        /// Space may be given back.
        hole: bool,
        /// As for `Write`.
        fua: bool,
    },
    /// The contents of the range no longer matter.
    Trim {
        /// First array sector.
        start: Sector,
        /// How many.
        len: SectorCount,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The members could not do it and redundancy could not help (EIO).
    Io,
    /// A member's file system is full (ENOSPC).
    NoSpace,
    /// The array is read-only (EROFS).
    ReadOnly,
    /// The range is not within the array, or not in whole logical blocks (EINVAL).
    OutOfRange,
    /// The array is stopping (ESHUTDOWN).
    Stopping,
}

/// A failed request: the kind for programs, the words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The kind.
    pub kind: FailureKind,
    /// What failed, and where.
    pub message: String,
    /// The slots that it names.
    pub slots: Vec<Slot>,
}

impl RequestError {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> RequestError {
        RequestError { kind, message: message.into(), slots: Vec::new() }
    }

    /// The same, naming these slots.
    pub(crate) fn of(self, slots: Vec<Slot>) -> RequestError {
        RequestError { slots, ..self }
    }

    /// The error of a request that comes too late.
    #[must_use]
    pub fn stopping() -> RequestError {
        RequestError::new(FailureKind::Stopping, "the array is stopping")
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

/// What a request came to: for a read the parts in order, for others nothing.
pub type Outcome = Result<Vec<Shared>, RequestError>;

/// How good a slot's contents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// All of it.
    InSync,
    /// What lies before `recovered` (member data sectors); the rest is being rebuilt.
    Rebuilding {
        /// Member data sectors before this one are right.
        recovered: Sector,
    },
    /// Nothing: no member, or a failed one.
    Missing,
}

/// What a run over the whole array does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// After an unclean stop: parity is recomputed, copies are made equal.
    Resync,
    /// Members being rebuilt get their contents.
    Recovery,
    /// Mismatches are counted, nothing is written.
    Check,
    /// Mismatches are counted and mended.
    Repair,
}

impl SyncKind {
    /// md's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SyncKind::Resync => "resync",
            SyncKind::Recovery => "recovery",
            SyncKind::Check => "check",
            SyncKind::Repair => "repair",
        }
    }
}

/// How a run over the array ended, or where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    /// What it does.
    pub kind: SyncKind,
    /// Everything before this is done (array sectors for RAID10's resync, check and repair; else member data sectors).
    pub done: Sector,
    /// Where it ends.
    pub end: Sector,
    /// Sectors found not to match, in steps of 8 (md's `mismatch_cnt`).
    pub mismatch_sectors: u64,
    /// Sectors that could be neither read nor rebuilt.
    pub unreadable_sectors: u64,
}

/// The state that the superblocks must show. The newest one replaces any that has not been written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Counts up; echoed in [`Event::MetadataDone`].
    pub generation: u64,
    /// No write is or may be under way.
    pub clean: bool,
    /// Where a resync still has to go on; `None` when all is in sync.
    pub resync_from: Option<Sector>,
    /// Every slot.
    pub slots: Vec<MemberState>,
    /// A member has been lost since the last snapshot.
    pub failure: bool,
}

/// What happens to the engine.
#[derive(Debug)]
pub enum Event {
    /// The array starts: the superblocks show who is there, runs that are due begin.
    Start,
    /// A front end asks.
    Request {
        /// Its name for it.
        id: RequestId,
        /// What it asks.
        request: Request,
    },
    /// A member operation has ended.
    IoDone {
        /// From [`Effect::Io`].
        token: u64,
        /// With its buffers.
        op: IoOp,
        /// How it ended.
        result: Result<(), DeviceError>,
    },
    /// The superblocks of this generation, or a newer one, are durable.
    MetadataDone {
        /// From [`Snapshot`].
        generation: u64,
    },
    /// The bitmap change of this generation is durable.
    BitmapDone {
        /// From [`Effect::Bitmap`].
        generation: u64,
    },
    /// The member is to be used no more.
    FailMember {
        /// Where it was.
        slot: Slot,
        /// For the log.
        why: String,
    },
    /// A member takes an empty slot.
    AddMember {
        /// Where.
        slot: Slot,
        /// Member data sectors that are right already.
        recovered: Sector,
        /// Its contents are right wherever the bitmap is clear.
        trust_bitmap: bool,
    },
    /// Members that hold no slot have come or gone: the superblocks are to show it.
    PutMetadata,
    /// Run over the whole array.
    StartSync(SyncKind),
    /// Break off a check or a repair.
    StopSync,
    /// Set how fast runs over the array may go, the one under way too.
    SetSyncSpeed(SyncSpeed),
    /// Time has passed.
    Tick {
        /// Milliseconds from any start, never going back.
        now_ms: u64,
    },
    /// Finish what is under way, make it durable, mark the array clean.
    Shutdown,
}

/// What the engine wants done.
#[derive(Debug)]
pub enum Effect {
    /// A member operation; its offset counts from the member's data offset.
    Io {
        /// Echoed in [`Event::IoDone`].
        token: u64,
        /// Which member.
        slot: Slot,
        /// What.
        op: IoOp,
    },
    /// A request has ended.
    Reply {
        /// The front end's name for it.
        id: RequestId,
        /// How.
        outcome: Outcome,
    },
    /// Write the superblocks, durably.
    Metadata(Snapshot),
    /// Set and clear bits of the write-intent bitmap, durably; one change at a time.
    Bitmap {
        /// Echoed in [`Event::BitmapDone`].
        generation: u64,
        /// Bits to set.
        set: Vec<u64>,
        /// Bits to clear.
        clear: Vec<u64>,
    },
    /// A member was lost.
    MemberLost {
        /// Where it was.
        slot: Slot,
        /// What it did.
        why: String,
    },
    /// An unreadable block was rebuilt and rewritten.
    Corrected {
        /// Where.
        slot: Slot,
        /// First member data sector.
        start: Sector,
        /// How many.
        len: SectorCount,
    },
    /// A run over the array has ended.
    SyncEnded {
        /// What it did and found.
        progress: SyncProgress,
        /// It went to the end.
        complete: bool,
        /// Why it could not go on.
        why: Option<String>,
    },
    /// Everything is durable and the array marked clean; nothing more will come.
    Stopped,
}
