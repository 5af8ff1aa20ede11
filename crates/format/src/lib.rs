//! Linux md metadata: bytes → checked → domain → bytes.
//!
//! Pure: no I/O, no unsafe. Every offset comes from `linux/raid/md_p.h` and is asserted when this compiles; whatever is not
//! understood survives a rewrite, and nothing is allocated by a count that was not checked.

mod bad_blocks;
mod bitmap;
mod check;
mod create;
mod domain;
mod error;
mod fields;
mod locate;
mod raw;
mod superblock;

pub use bad_blocks::{BadBlocksError, bad_blocks_to_bytes, parse_bad_blocks};
pub use bitmap::{BITMAP_SUPER_BYTES, Bitmap, BitmapError, BitmapSuper, BitmapVersion, bits_for};
pub use create::{BitmapSpec, CreateError, CreatePlan, CreateSpec, MemberArea, MemberPlan, NewMember};
pub use domain::{ArrayId, DeviceFlags, Feature, MinorVersion, Role, Superblock};
pub use error::{SuperError, SuperErrorKind};
pub use fields::RawFields;
pub use locate::{looks_like_md, super_offsets, super_sector, v090_offset};
pub use raw::{MAX_ROLES, SUPER_BYTES, SUPER_MAGIC};
pub use superblock::{MAX_NAME_BYTES, RawSuper};
