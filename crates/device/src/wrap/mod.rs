//! Wrappers: a member laid over another, which keeps its name.

mod counting;
mod faulty;
mod overlay;
mod read_only;
mod slow;
mod window;

pub use counting::{Counters, Counting, Counts};
pub use faulty::{Fault, FaultControl, Faulty};
pub use overlay::{OVERLAY_BLOCK_BYTES, Overlay, OverlayFile, OverlayOrigin, OverlayState};
pub use read_only::ReadOnly;
pub use slow::Slow;
pub use window::Window;
