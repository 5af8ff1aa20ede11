//! How uraid shows things: tables, bar charts, sizes, progress, JSON reports, and running arrays laid out as `/proc/mdstat` does.
//!
//! Only text is made here; what it says comes in as plain values, so this crate uses none of the others. The one thing
//! that writes by itself is [`Progress`], to standard error.
//!
//! ```
//! use uraid_report::{Table, human_bytes};
//!
//! let mut table = Table::new(&["member", "size"]);
//! table.right(1).row(["disk0", &human_bytes(10 << 30)]);
//! assert_eq!(table.to_string(), "member       size\ndisk0   10.00 GiB");
//! ```

mod json;
mod mdstat;
mod plot;
mod progress;
mod rate;
mod status;
mod table;
mod units;

pub use json::{SCHEMA, json_envelope};
pub use mdstat::{mdstat, sync_line};
pub use plot::{Bar, BarChart, html_page, svg};
pub use progress::Progress;
pub use rate::Rate;
pub use status::{ArrayStatus, BitmapStatus, MemberState, MemberStatus, RunState, SyncKind, SyncPhase, SyncStatus};
pub use table::Table;
pub use units::{human_bytes, human_duration, human_minutes, human_speed};
