//! Wrappers: a member laid over another, which keeps its name.

mod counting;
mod faulty;
mod read_only;
mod slow;

pub use counting::{Counters, Counting, Counts};
pub use faulty::{Fault, FaultControl, Faulty};
pub use read_only::ReadOnly;
pub use slow::Slow;
