//! XOR, P and Q: making them, bringing them up to date, checking them, and recovering data from them.
//!
//! P is the sum (XOR) of the data blocks, Q the sum of each block times 2 to the power of its index, over GF(2^8) with polynomial
//! 0x11d: md's RAID4, RAID5 and RAID6. Every call goes to the kernel (instruction set and unrolling) that measured fastest on
//! this processor for that operation, number of disks and block length; the first call of a kind measures, for a millisecond or
//! three (longer for large blocks), and the winner is remembered in the user's cache directory (`$URAID_CACHE_DIR`, else
//! `$XDG_CACHE_HOME/uraid`, else `~/.cache/uraid`) until [`remeasure`]. The environment variable
//! `URAID_PARITY` names one kernel to be used for everything instead, or `cycle` for another one at each call; [`check_override`] says
//! whether it makes sense.
//!
//! This crate knows nothing of arrays, layouts or devices: a block is a slice, and the caller has put the data in syndrome order.
//! It is the only crate with SIMD. Without the feature `std` there is no measuring and no CRC32C, and the best kernel that
//! the target's compile-time features allow is used.
//!
//! All blocks of a call have one length, a multiple of [`UNIT_BYTES`]; there are at most [`MAX_DATA_DISKS`] data disks; alignment
//! does not matter. Anything else is a bug of the caller and panics.
//!
//! ```
//! let disks = [[1_u8; 512], [2; 512], [3; 512]];
//! let data: Vec<&[u8]> = disks.iter().map(|disk| &disk[..]).collect();
//! let (mut p, mut q) = ([0; 512], [0; 512]);
//! uraid_parity::gen_pq(&data, &mut p, &mut q);
//! assert_eq!((p[0], q[0]), (1 ^ 2 ^ 3, 1 ^ 2 * 2 ^ 4 * 3));
//!
//! let left = [None, Some(data[1]), None];
//! let (mut first, mut last) = ([0; 512], [0; 512]);
//! uraid_parity::recover_two_data(&left, &p, &q, &mut first, &mut last);
//! assert_eq!((first, last), (disks[0], disks[2]));
//! ```
#![cfg_attr(not(feature = "std"), no_std)]

mod arch;
mod feature;
mod field;
mod jobs;
mod kernel;
mod operation;
mod present;
#[cfg(feature = "std")]
mod rival;
mod style;
mod vector;

#[cfg(feature = "std")]
mod choose;
#[cfg(not(feature = "std"))]
#[path = "choose_fixed.rs"]
mod choose;
#[cfg(feature = "std")]
mod crc;
#[cfg(feature = "std")]
pub mod measure;
#[cfg(feature = "std")]
mod memory;
#[cfg(feature = "std")]
mod processor;
#[cfg(feature = "std")]
mod remember;
#[cfg(feature = "std")]
mod shape;
#[cfg(feature = "std")]
mod trial;

#[cfg(feature = "std")]
#[cfg(test)]
mod tests;

pub use feature::Feature;
pub use operation::Operation;

#[cfg(feature = "std")]
pub use choose::{UnknownOverride, check_override, remeasure};
#[cfg(feature = "std")]
pub use crc::{UnknownCrc32c, check_crc32c_override, crc_fast_target, crc32c, crc32c_raw};

use jobs::{Changes, CheckP, CheckPq, FromQ, GenPq, GenQ, IsZero, Left, TwoLost, Xor, XorInto};
use present::Present;

/// The length of a block is a multiple of this: a sector.
pub const UNIT_BYTES: usize = 512;

/// The most data disks that Q can tell apart within md's limits: 2^0 to 2^253.
pub const MAX_DATA_DISKS: usize = 254;

/// What a write changes in one data disk.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'a> {
    /// The disk's place in the syndrome: its coefficient is 2^index. 0 to 253.
    pub index: usize,
    /// What the parity was made from.
    pub old: &'a [u8],
    /// What it shall be made from.
    pub new: &'a [u8],
}

/// Which parities are not those of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differs {
    /// P is not.
    pub p: bool,
    /// Q is not.
    pub q: bool,
}

impl Differs {
    /// Is any of them not?
    #[must_use]
    pub const fn any(self) -> bool {
        self.p || self.q
    }
}

/// The names of the kernels that this processor can run, best last as far as that can be said without measuring.
pub fn kernel_names() -> impl Iterator<Item = &'static str> {
    // The recovery table holds every name of the other one.
    arch::RECOVERY_KERNELS.iter().filter_map(kernel::Ready::new).map(kernel::Ready::name)
}

#[track_caller]
fn assert_count(disks: usize) {
    assert!((1..=MAX_DATA_DISKS).contains(&disks), "parity is of 1 to {MAX_DATA_DISKS} data disks, not of {disks}");
}

/// `dst ^= src`.
///
/// # Panics
/// When the lengths differ or are no multiple of [`UNIT_BYTES`].
#[track_caller]
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    choose::kernel(Operation::XorInto, 1, dst.len()).xor_into(XorInto { dst, src });
}

/// P of the data, in any order.
///
/// # Panics
/// When the lengths differ or are no multiple of [`UNIT_BYTES`], or for no or too many disks.
#[track_caller]
pub fn xor_gen(data: &[&[u8]], p: &mut [u8]) {
    assert_count(data.len());
    choose::kernel(Operation::GenP, data.len(), p.len()).xor(Xor { blocks: data, out: p });
}

/// P and Q of the data; `data[i]` has the coefficient 2^i.
///
/// # Panics
/// As [`xor_gen`].
#[track_caller]
pub fn gen_pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    assert_count(data.len());
    choose::kernel(Operation::GenPq, data.len(), p.len()).gen_pq(GenPq { data, p, q });
}

/// Q of the data without P.
///
/// # Panics
/// As [`xor_gen`].
#[track_caller]
pub fn gen_q(data: &[&[u8]], q: &mut [u8]) {
    assert_count(data.len());
    choose::kernel(Operation::GenQ, data.len(), q.len()).gen_q(GenQ { data, q });
}

/// Read-modify-write: `p` and `q` hold the parity of the old data and get that of the new; either may be absent.
///
/// `deltas` come in any order, each disk once.
///
/// # Panics
/// As [`xor_gen`], and when an index is too high or given twice.
#[track_caller]
pub fn update(deltas: &[Delta<'_>], p: Option<&mut [u8]>, q: Option<&mut [u8]>) {
    let mut order = [0; MAX_DATA_DISKS];
    let order = jobs::highest_first(deltas, &mut order);
    let changes = Changes { changes: deltas, order, p, q };
    let len_bytes = changes.parity_len_bytes().unwrap_or(0);
    choose::kernel(Operation::Update, deltas.len(), len_bytes).update(changes);
}

/// As [`update`], for differences (old XOR new) that are there already: each the disk's index and the difference.
///
/// # Panics
/// As [`update`].
#[track_caller]
pub fn update_by_difference(differences: &[(usize, &[u8])], p: Option<&mut [u8]>, q: Option<&mut [u8]>) {
    let mut order = [0; MAX_DATA_DISKS];
    let order = jobs::highest_first(differences, &mut order);
    let changes = Changes { changes: differences, order, p, q };
    let len_bytes = changes.parity_len_bytes().unwrap_or(0);
    choose::kernel(Operation::UpdateByDifference, differences.len(), len_bytes).add(changes);
}

/// The one lost data block from the others and P.
///
/// # Panics
/// As [`xor_gen`], and unless exactly one entry of `data` is `None`.
#[track_caller]
pub fn recover_data_from_p(data: &[Option<&[u8]>], p: &[u8], out: &mut [u8]) {
    let mut present = Present::new(data);
    let [_] = present.lost();
    choose::recovery(Operation::RecoverFromP, data.len(), p.len()).one_by_p(Xor { blocks: present.with(p), out });
}

/// The one lost data block from the others and Q, P being lost too.
///
/// # Panics
/// As [`recover_data_from_p`].
#[track_caller]
pub fn recover_data_from_q(data: &[Option<&[u8]>], q: &[u8], out: &mut [u8]) {
    let present = Present::new(data);
    let [lost] = present.lost();
    let left = Left { blocks: present.blocks(), low: lost, high: None };
    choose::recovery(Operation::RecoverFromQ, data.len(), q.len()).one_by_q(FromQ { left, q, out });
}

/// The two lost data blocks from the others, P and Q; the one with the lower index goes to `out_low`.
///
/// # Panics
/// As [`xor_gen`], and unless exactly two entries of `data` are `None`.
#[track_caller]
pub fn recover_two_data(data: &[Option<&[u8]>], p: &[u8], q: &[u8], out_low: &mut [u8], out_high: &mut [u8]) {
    let present = Present::new(data);
    let job = TwoLost::two_data(present.blocks(), present.lost(), (p, q), (out_low, out_high));
    choose::recovery(Operation::RecoverTwoData, data.len(), p.len()).two_lost(job);
}

/// The one lost data block and P, which is lost too, from the other data and Q, in one pass.
///
/// # Panics
/// As [`recover_data_from_p`].
#[track_caller]
pub fn recover_data_and_p(data: &[Option<&[u8]>], q: &[u8], out: &mut [u8], out_p: &mut [u8]) {
    let present = Present::new(data);
    let [lost] = present.lost();
    let job = TwoLost::data_and_p(present.blocks(), lost, q, (out, out_p));
    choose::recovery(Operation::RecoverDataAndP, data.len(), q.len()).two_lost(job);
}

/// The one lost data block and Q, which is lost too, from the other data and P, in one pass.
///
/// # Panics
/// As [`recover_data_from_p`].
#[track_caller]
pub fn recover_data_and_q(data: &[Option<&[u8]>], p: &[u8], out: &mut [u8], out_q: &mut [u8]) {
    let present = Present::new(data);
    let [lost] = present.lost();
    let job = TwoLost::data_and_q(present.blocks(), lost, p, (out, out_q));
    choose::recovery(Operation::RecoverDataAndQ, data.len(), p.len()).two_lost(job);
}

/// Is `p` the P of the data? Nothing is written.
///
/// # Panics
/// As [`xor_gen`].
#[must_use]
#[track_caller]
pub fn check_p(data: &[&[u8]], p: &[u8]) -> bool {
    assert_count(data.len());
    choose::kernel(Operation::CheckP, data.len(), p.len()).check_p(CheckP { data, p })
}

/// Which of `p` and `q` are not those of the data? Nothing is written.
///
/// # Panics
/// As [`xor_gen`].
#[must_use]
#[track_caller]
pub fn check_pq(data: &[&[u8]], p: &[u8], q: &[u8]) -> Differs {
    assert_count(data.len());
    choose::kernel(Operation::CheckPq, data.len(), p.len()).check_pq(CheckPq { data, p, q })
}

/// Is every byte of the block 0?
///
/// # Panics
/// When the length is no multiple of [`UNIT_BYTES`].
#[must_use]
#[track_caller]
pub fn is_zero(block: &[u8]) -> bool {
    choose::kernel(Operation::IsZero, 1, block.len()).is_zero(IsZero { block })
}
