//! Arrays: scan members, choose the freshest, create, assemble, manage, run.
//!
//! Metadata decisions are pure (`choose`, [`core`]); the thread that pumps them ([`Array`]) does the I/O. It may not know of front
//! ends, nor of how blocks are computed.

mod backup;
mod bitmap_file;
mod choose;
mod convert;
pub mod core;
mod create;
pub mod foreign;
mod handle;
mod layers;
mod member;
mod probe;
mod pump;
mod refused;
mod replay;
mod scan;
mod signature;
#[cfg(test)]
mod testing;
mod undo;
mod update;

pub use backup::{Backup, BackupProblem};
pub use bitmap_file::{BitmapFile, BitmapFileError, SeenBitmap, is_bitmap_file, look_at_bitmap};
pub use choose::{
    ArraySurvey, AssembleError, AssembleOptions, AssembleProblem, Assembly, OtherStanding, OtherSurvey, Replay, ReshapePart,
    ReshapeSource, Reshaping, SlotPlan, SlotStanding, SlotSurvey, choose, survey,
};
pub use convert::{ConvertError, ConvertReport, ConvertRequest, ConvertedMember, convert};
pub use create::{CreateError, CreateRequest, Created, CreatedMember, create, create_with};
pub use member::{MemberPath, open_member, partition_members, partitions};
pub use refused::{Refused, RefusedReason};
pub use replay::assemble;
pub use scan::{Candidate, FoundBitmap, FoundPpl, scan};
pub use signature::{Signature, signature};
pub use undo::{
    After, Change, Changed, ReadAfter, UNDO_ENDING, UndoChange, UndoError, UndoFile, UndoHeader, UndoMember, UndoState,
    save_undo, undo_of_start,
};

pub use handle::{Array, DEFAULT_CACHE_BYTES, JoinError, RunOptions};
pub use pump::Reply;
// What a running array takes and answers, for whoever may not know the engine.
pub use uraid_engine::planner::{IoCosts, Preference, RmwPolicy};
pub use uraid_engine::{FailureKind, Outcome, Request, RequestError, SyncKind, SyncSpeed};
