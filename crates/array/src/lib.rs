

pub mod core;
mod choose;
mod create;
mod refused;
mod scan;
mod signature;

pub use choose::{
    AssembleError, AssembleOptions, AssembleProblem, Assembly, ArraySurvey, SlotPlan, SlotStanding, SlotSurvey, choose, survey,
};
pub use create::{CreateError, CreateRequest, Created, CreatedMember, create};
pub use refused::{Refused, RefusedReason};
pub use scan::{Candidate, FoundBitmap, scan};
pub use signature::{Signature, signature};
