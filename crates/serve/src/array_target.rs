//! An array as a [`Target`].

use uraid_array::{Array, FailureKind, Outcome, RequestError};
use uraid_device::Shared;
use uraid_types::{SECTOR_BYTES, Sector, SectorCount};

use crate::{Reply, Request, Target, TargetError};

/// Zeroing is passed on in pieces of this many bytes, one after another, so that no request needs more zeros in memory than that.
const ZERO_PIECE_BYTES: u64 = 4 << 20;
/// Requests larger than this gain nothing any more, however wide the stripes are.
const MAX_PREFERRED_BYTES: u64 = 1 << 20;

/// A running array, as front ends see it.
#[derive(Clone)]
pub struct ArrayTarget(Array);

impl ArrayTarget {
    /// Serves `array`, which goes on for as long as the target does.
    #[must_use]
    pub fn new(array: Array) -> ArrayTarget {
        ArrayTarget(array)
    }

    fn zero(&self, offset: u64, len: u64, fua: bool, hole: bool, reply: Reply) {
        let this = self.clone();
        let piece = len.min(ZERO_PIECE_BYTES);
        let last = piece == len;
        let request = uraid_array::Request::Zero {
            start: sector(offset),
            len: SectorCount::floor_bytes(piece),
            hole,
            // Whatever was zeroed before is durable with it.
            fua: fua && last,
        };
        self.0.submit(
            request,
            Box::new(move |outcome| match outcome {
                Ok(_) if !last => this.zero(offset + piece, len - piece, fua, hole, reply),
                outcome => reply(done(outcome)),
            }),
        );
    }
}

impl Target for ArrayTarget {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_only(&self) -> bool {
        self.0.read_only()
    }

    fn block_bytes(&self) -> u32 {
        self.0.block_bytes()
    }

    fn told_block_bytes(&self) -> u32 {
        self.0.recorded_block_bytes().max(1)
    }

    fn preferred_bytes(&self) -> u32 {
        let largest = self.0.stripe_bytes().clamp(u64::from(self.block_bytes()), MAX_PREFERRED_BYTES);
        1 << largest.ilog2()
    }

    fn submit(&self, request: Request, reply: Reply) {
        let request = match request {
            Request::Read { offset, len } => {
                uraid_array::Request::Read { start: sector(offset), len: SectorCount::floor_bytes(u64::from(len)) }
            }
            Request::Write { offset, data, fua } => uraid_array::Request::Write { start: sector(offset), data, fua },
            Request::Flush => uraid_array::Request::Flush,
            // The array forgets nothing when trimmed, so there is nothing that could be made durable.
            Request::Trim { offset, len, .. } => {
                uraid_array::Request::Trim { start: sector(offset), len: SectorCount::floor_bytes(len) }
            }
            // Parity has to follow: zeroing is a write of zeros and never faster.
            Request::Zero { fast_only: true, .. } => {
                return reply(Err(TargetError::new(libc::EOPNOTSUPP, "zeroing is no faster than writing zeros")));
            }
            Request::Zero { offset, len, fua, may_trim, .. } => return self.zero(offset, len, fua, may_trim, reply),
        };
        self.0.submit(request, Box::new(move |outcome| reply(done(outcome))));
    }
}

fn sector(offset_bytes: u64) -> Sector {
    Sector(offset_bytes / SECTOR_BYTES)
}

fn done(outcome: Outcome) -> Result<Vec<Shared>, TargetError> {
    outcome.map_err(|error| TargetError::new(errno(&error), error.message))
}

/// The number that a program knows the failure by.
fn errno(error: &RequestError) -> i32 {
    match error.kind {
        FailureKind::Io => libc::EIO,
        FailureKind::NoSpace => libc::ENOSPC,
        FailureKind::ReadOnly => libc::EROFS,
        FailureKind::OutOfRange => libc::EINVAL,
        FailureKind::Stopping => libc::ESHUTDOWN,
    }
}
