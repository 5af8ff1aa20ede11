//! The real Linux md as a referee for tests.
//!
//! A test hands over a shell script and some image files; the script runs as root of a user-mode Linux guest, where
//! mdadm and the kernel's md driver do to the images what they do to disks. That answers the only question that counts
//! for a format made elsewhere: does the other side agree? It takes no privileges and no virtualisation, and about
//! three seconds for the guest to start. Guests are independent, so tests may run them side by side.
//!
//! This crate knows nothing of the rest of the project and is used by tests only.
//!
//! ```
//! use uraid_referee::{Guest, require};
//!
//! # fn main() -> Result<(), uraid_referee::RefereeError> {
//! let Some(referee) = require() else { return Ok(()) };
//! let output = referee.run(&Guest::new("uname -s; exit 7"))?;
//! assert_eq!((output.stdout.as_str(), output.status), ("Linux\n", 7));
//! # Ok(())
//! # }
//! ```

mod boot;
mod find;
mod guest;
mod modules;
mod need;
mod pattern;
mod text;

pub use find::{Missing, Referee};
pub use guest::{GUEST_ROOT, Guest, Output, RefereeError, guest_path};
pub use need::{require, require_images, require_programs, skipped};
pub use pattern::pattern;
pub use text::{Report, parse_detail, parse_examine};
