//! What a front end serves.

use std::fmt;

use uraid_device::Shared;

/// Something that holds bytes: an array, or memory in a test.
pub trait Target: Send + Sync {
    /// Length in bytes, a multiple of [`Target::block_bytes`]. It does not change while the target is served.
    fn size_bytes(&self) -> u64;

    /// Does it refuse everything that writes?
    fn read_only(&self) -> bool;

    /// The smallest unit that [`Target::submit`] takes: 512 or 4096; 1 for a [`ByteTarget`](crate::ByteTarget).
    fn block_bytes(&self) -> u32;

    /// What clients are told to keep to: the logical block size that the array records, else 1. Smaller requests are served too.
    fn told_block_bytes(&self) -> u32 {
        1
    }

    /// The size of request that it serves best, a power of two: a chunk or a stripe.
    fn preferred_bytes(&self) -> u32;

    /// Takes a request and returns, if it can, before it has ended.
    ///
    /// Offsets and lengths are multiples of [`Target::block_bytes`] and lie within [`Target::size_bytes`]. `reply` is called
    /// exactly once, from any thread, possibly before `submit` returns. Requests in flight at the same time have no order.
    fn submit(&self, request: Request, reply: Reply);
}

/// What a front end asks for. Offsets and lengths are in bytes.
#[derive(Clone, Debug)]
pub enum Request {
    /// The reply holds pieces of together `len` bytes.
    Read {
        /// From where.
        offset: u64,
        /// How much.
        len: u32,
    },
    /// Writes all of `data`.
    Write {
        /// To where.
        offset: u64,
        /// What.
        data: Shared,
        /// Durable before the reply, with everything needed to find it again.
        fua: bool,
    },
    /// Every write that was replied to before this request is durable before its reply.
    Flush,
    /// The range is no longer needed; afterwards it reads as anything. `EOPNOTSUPP` is a valid answer.
    Trim {
        /// From where.
        offset: u64,
        /// How much.
        len: u64,
        /// As for a write.
        fua: bool,
    },
    /// The range reads as zeros afterwards.
    Zero {
        /// From where.
        offset: u64,
        /// How much.
        len: u64,
        /// As for a write.
        fua: bool,
        /// May the space be given back?
        may_trim: bool,
        /// Answer `EOPNOTSUPP`, having done nothing, where this is no faster than writing zeros.
        fast_only: bool,
    },
}

/// Takes the outcome of a request: for a read the pieces in order, whose lengths add up; for the others nothing.
pub type Reply = Box<dyn FnOnce(Result<Vec<Shared>, TargetError>) + Send>;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    /// The system's number, as in errno(3); front ends pass on what their protocol knows of it.
    pub errno: i32,
    /// For people: what failed, and where.
    pub message: String,
}

impl TargetError {
    /// An error with its number and its message.
    #[must_use]
    pub fn new(errno: i32, message: impl Into<String>) -> TargetError {
        TargetError { errno, message: message.into() }
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (errno {})", self.message, self.errno)
    }
}

impl std::error::Error for TargetError {}
