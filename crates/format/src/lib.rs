//! Linux md metadata: bytes → checked → domain → bytes.
//!
//! Pure: no I/O, no unsafe. Every offset comes from `linux/raid/md_p.h` and is asserted in a test; whatever is not understood
//! survives a rewrite.

mod domain;

pub use domain::{ArrayId, DeviceFlags, Feature, MinorVersion, Role, Superblock};
