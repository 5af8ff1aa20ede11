//! The transmission phase as bytes: requests in, checked commands and replies out. No I/O.
//!
//! Source of the format: the NetworkBlockDevice project's `proto.md`.

/// Starts every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Starts a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Starts a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;

/// Transmission flags that the export sends.
pub mod export_flag {
    /// The other flags mean something.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The flag DF of READ is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// Several connections see each other's flushed writes.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The flag FAST_ZERO of WRITE_ZEROES is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Flags of a request.
pub mod command_flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1 << 0;
    /// Zeros must stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The reply comes in one chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zeroing fails where it is no faster than writing.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Commands.
pub mod command {
    /// Bytes out.
    pub const READ: u16 = 0;
    /// Bytes in.
    pub const WRITE: u16 = 1;
    /// The end.
    pub const DISC: u16 = 2;
    /// Make durable.
    pub const FLUSH: u16 = 3;
    /// Give up.
    pub const TRIM: u16 = 4;
    /// Read ahead.
    pub const CACHE: u16 = 5;
    /// Zero.
    pub const WRITE_ZEROES: u16 = 6;
    /// What is where.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Error numbers of the protocol. They are Linux's.
pub mod error {
    /// Not permitted.
    pub const EPERM: u32 = 1;
    /// Input or output failed.
    pub const EIO: u32 = 5;
    /// No memory.
    pub const ENOMEM: u32 = 12;
    /// Bad request.
    pub const EINVAL: u32 = 22;
    /// No space.
    pub const ENOSPC: u32 = 28;
    /// Too much for one chunk.
    pub const EOVERFLOW: u32 = 75;
    /// Not fast.
    pub const ENOTSUP: u32 = 95;
    /// Going down.
    pub const ESHUTDOWN: u32 = 108;
}

const CHUNK_DONE: u16 = 1;
const CHUNK_NONE: u16 = 0;
const CHUNK_OFFSET_DATA: u16 = 1;
const CHUNK_BLOCK_STATUS: u16 = 5;
const CHUNK_ERROR: u16 = 1 << 15 | 1;
/// Longest message in an error chunk; the protocol's limit for strings is 4096.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The id that SET_META_CONTEXT gives `base:allocation`.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// What the handshake agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Replies to reads are structured, errors carry messages.
    pub structured: bool,
    /// `base:allocation` was chosen.
    pub base_allocation: bool,
}

/// What the transmission phase knows of the export.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Length in bytes.
    pub size_bytes: u64,
    /// Are writes refused?
    pub read_only: bool,
    /// Most bytes that one READ or WRITE carries.
    pub max_payload_bytes: u32,
}

/// A request as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRequest {
    /// Command flags.
    pub flags: u16,
    /// Command.
    pub command: u16,
    /// The client's name for it.
    pub cookie: u64,
    /// Start in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

impl RawRequest {
    /// Reads the fixed part of a request; `None` when the magic number is wrong, after which nothing can be understood.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<RawRequest> {
        if be32(bytes, 0) != REQUEST_MAGIC {
            return None;
        }
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4));
        Some(RawRequest { flags: word(4), command: word(6), cookie: long(8), offset: long(16), len: be32(bytes, 24) })
    }
}

/// Reads a big-endian number; the caller has seen to the length.
pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A request that may be carried out. Ranges lie within the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send bytes.
    Read,
    /// Take bytes; the payload of `len` bytes follows on the wire.
    Write {
        /// Durable before the reply.
        fua: bool,
    },
    /// Make durable.
    Flush,
    /// Give up.
    Trim {
        /// Durable before the reply.
        fua: bool,
    },
    /// Zero.
    WriteZeroes {
        /// Durable before the reply.
        fua: bool,
        /// The space may be given back.
        may_trim: bool,
        /// Only if fast.
        fast_only: bool,
    },
    /// Read and drop.
    Cache,
    /// Tell what is allocated.
    BlockStatus,
    /// End the connection once what is in flight has ended.
    Disconnect,
}

/// A request that gets an error without being carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The protocol's number.
    pub errno: u32,
    /// For people.
    pub message: &'static str,
    /// Bytes of payload that follow on the wire all the same.
    pub payload_bytes: u32,
}

/// Judges a request.
///
/// # Errors
/// The error to reply with; the connection can go on once the payload has been read and dropped.
pub fn check(raw: &RawRequest, session: Session, bounds: Bounds) -> Result<Command, Refusal> {
    use command_flag::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
    let payload_bytes = if raw.command == command::WRITE { raw.len } else { 0 };
    let refuse = |errno, message| Err(Refusal { errno, message, payload_bytes });
    let fua = raw.flags & FUA != 0;
    let (command, more_flags) = match raw.command {
        command::READ => (Command::Read, DF),
        command::WRITE => (Command::Write { fua }, 0),
        command::DISC => return Ok(Command::Disconnect),
        command::FLUSH => (Command::Flush, 0),
        command::TRIM => (Command::Trim { fua }, 0),
        command::CACHE => (Command::Cache, 0),
        command::WRITE_ZEROES => {
            let may_trim = raw.flags & NO_HOLE == 0;
            (Command::WriteZeroes { fua, may_trim, fast_only: raw.flags & FAST_ZERO != 0 }, NO_HOLE | FAST_ZERO)
        }
        command::BLOCK_STATUS => (Command::BlockStatus, REQ_ONE),
        _ => return refuse(error::EINVAL, "unknown command"),
    };
    if raw.flags & !(FUA | more_flags) != 0 {
        return refuse(error::EINVAL, "unknown flag for this command");
    }
    let writes = matches!(command, Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. });
    if writes && bounds.read_only {
        return refuse(error::EPERM, "the export is read-only");
    }
    match command {
        Command::Flush if raw.offset != 0 || raw.len != 0 => return refuse(error::EINVAL, "a flush has no range"),
        Command::Flush => return Ok(command),
        Command::Read if raw.flags & DF != 0 && !session.structured => {
            return refuse(error::EINVAL, "DF without structured replies");
        }
        Command::BlockStatus if !session.base_allocation => return refuse(error::EINVAL, "no meta context was chosen"),
        Command::BlockStatus if raw.len == 0 => return refuse(error::EINVAL, "block status of nothing"),
        _ => {}
    }
    let carries = matches!(command, Command::Read | Command::Write { .. });
    if carries && raw.len > bounds.max_payload_bytes {
        let errno = if raw.flags & DF != 0 { error::EOVERFLOW } else { error::EINVAL };
        return refuse(errno, "longer than the maximum block size");
    }
    if raw.offset.checked_add(u64::from(raw.len)).is_none_or(|end| end > bounds.size_bytes) {
        return refuse(if writes { error::ENOSPC } else { error::EINVAL }, "beyond the end of the export");
    }
    Ok(command)
}

/// The protocol's number for a system's one.
///
/// ENOTSUP has one meaning only, so it is kept for a zeroing that had to be fast.
#[must_use]
pub fn wire_errno(errno: i32, fast_zero: bool) -> u32 {
    match errno {
        libc::EPERM | libc::EROFS | libc::EACCES => error::EPERM,
        libc::ENOMEM => error::ENOMEM,
        libc::EINVAL => error::EINVAL,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => error::ENOSPC,
        libc::EOVERFLOW => error::EOVERFLOW,
        libc::EOPNOTSUPP if fast_zero => error::ENOTSUP,
        libc::EOPNOTSUPP => error::EINVAL,
        libc::ESHUTDOWN => error::ESHUTDOWN,
        _ => error::EIO,
    }
}

/// The reply to a request that succeeded and sends nothing.
#[must_use]
pub fn success(cookie: u64) -> Vec<u8> {
    simple(cookie, 0)
}

fn simple(cookie: u64, errno: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend(errno.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out
}

fn chunk(cookie: u64, kind: u16, payload_bytes: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(36);
    out.extend(STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out.extend(CHUNK_DONE.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(payload_bytes.to_be_bytes());
    out
}

/// What goes before the `len` bytes of a read's reply. `len` is at most the maximum payload, so one chunk holds it all.
#[must_use]
pub fn read_head(cookie: u64, session: Session, offset: u64, len: u32) -> Vec<u8> {
    if !session.structured {
        return simple(cookie, 0);
    }
    if len == 0 {
        return chunk(cookie, CHUNK_NONE, 0);
    }
    let mut out = chunk(cookie, CHUNK_OFFSET_DATA, len + 8);
    out.extend(offset.to_be_bytes());
    out
}

/// The reply that the whole range is allocated data.
#[must_use]
pub fn all_allocated(cookie: u64, len: u32) -> Vec<u8> {
    let mut out = chunk(cookie, CHUNK_BLOCK_STATUS, 12);
    out.extend(BASE_ALLOCATION_ID.to_be_bytes());
    out.extend(len.to_be_bytes());
    out.extend(0u32.to_be_bytes());
    out
}

/// The reply to a request that failed. The message goes along where replies are structured.
#[must_use]
pub fn failure(cookie: u64, session: Session, errno: u32, message: &str) -> Vec<u8> {
    if !session.structured {
        return simple(cookie, errno);
    }
    let mut end = message.len().min(MAX_MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let message = &message.as_bytes()[..end];
    let len = u16::try_from(end).expect("a message is at most 4096 bytes");
    let mut out = chunk(cookie, CHUNK_ERROR, u32::from(len) + 6);
    out.extend(errno.to_be_bytes());
    out.extend(len.to_be_bytes());
    out.extend(message);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { size_bytes: 1 << 20, read_only: false, max_payload_bytes: 1 << 16 };
    const PLAIN: Session = Session { structured: false, base_allocation: false };
    const FULL: Session = Session { structured: true, base_allocation: true };

    fn raw(command: u16, flags: u16, offset: u64, len: u32) -> RawRequest {
        RawRequest { flags, command, cookie: 7, offset, len }
    }

    fn errno(raw: RawRequest, session: Session, bounds: Bounds) -> u32 {
        check(&raw, session, bounds).unwrap_err().errno
    }

    #[test]
    fn a_request_is_read_as_proto_md_lays_it_out() {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        bytes[4..8].copy_from_slice(&[0, 1, 0, 6]);
        bytes[8..16].copy_from_slice(b"abcdefgh");
        bytes[16..24].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2]);
        bytes[24..].copy_from_slice(&[0, 0, 2, 0]);
        let expected = RawRequest { flags: 1, command: 6, cookie: 0x6162_6364_6566_6768, offset: 0x1_0000_0002, len: 512 };
        assert_eq!(RawRequest::parse(&bytes), Some(expected));
        bytes[0] = 0;
        assert_eq!(RawRequest::parse(&bytes), None);
    }

    #[test]
    fn ranges_and_rights_have_the_errors_of_the_specification() {
        let end = BOUNDS.size_bytes;
        assert_eq!(errno(raw(command::READ, 0, end - 1, 2), PLAIN, BOUNDS), error::EINVAL);
        assert_eq!(errno(raw(command::READ, 0, u64::MAX, 2), PLAIN, BOUNDS), error::EINVAL);
        assert_eq!(errno(raw(command::WRITE, 0, end, 1), PLAIN, BOUNDS), error::ENOSPC);
        assert_eq!(errno(raw(command::WRITE_ZEROES, 0, end, 1), PLAIN, BOUNDS), error::ENOSPC);
        assert_eq!(errno(raw(command::TRIM, 0, 0, 1), PLAIN, Bounds { read_only: true, ..BOUNDS }), error::EPERM);
        assert_eq!(errno(raw(99, 0, 0, 1), PLAIN, BOUNDS), error::EINVAL);
        assert_eq!(errno(raw(command::READ, command_flag::DF, 0, 1), PLAIN, BOUNDS), error::EINVAL);
        assert_eq!(errno(raw(command::READ, command_flag::DF, 0, 1 << 17), FULL, BOUNDS), error::EOVERFLOW);
        assert_eq!(errno(raw(command::READ, 0, 0, 1 << 17), FULL, BOUNDS), error::EINVAL);
        assert_eq!(errno(raw(command::BLOCK_STATUS, 0, 0, 1), PLAIN, BOUNDS), error::EINVAL);
        let too_long = check(&raw(command::WRITE, 0, 0, 1 << 17), FULL, BOUNDS).unwrap_err();
        assert_eq!((too_long.errno, too_long.payload_bytes), (error::EINVAL, 1 << 17));
        assert!(check(&raw(command::WRITE_ZEROES, 0, 0, 1 << 17), FULL, BOUNDS).is_ok());
    }

    #[test]
    fn replies_have_the_bytes_of_the_specification() {
        assert_eq!(success(1), [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let head = read_head(1, FULL, 512, 4);
        assert_eq!(head[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1]);
        assert_eq!(head[16..], [0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 2, 0]);
        let failed = failure(1, FULL, error::EIO, "gone");
        assert_eq!(failed[4..8], [0, 1, 0x80, 1]);
        assert_eq!(failed[16..], [0, 0, 0, 10, 0, 0, 0, 5, 0, 4, b'g', b'o', b'n', b'e']);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failed = failure(1, FULL, error::EIO, &"ä".repeat(5000));
        assert!(failed.len() <= 20 + 6 + 4096);
        assert!(std::str::from_utf8(&failed[26..]).is_ok());
    }

    proptest! {
        #[test]
        fn whatever_passes_lies_within_the_export(command in 0u16..10, flags in 0u16..64, offset: u64, len: u32,
                                                  near_end: bool, structured: bool, base_allocation: bool) {
            let offset = if near_end { BOUNDS.size_bytes - offset % 4096 } else { offset };
            let raw = raw(command, flags, offset, if near_end { len % 8192 } else { len });
            let session = Session { structured, base_allocation };
            if let Ok(command) = check(&raw, session, BOUNDS)
                && !matches!(command, Command::Flush | Command::Disconnect)
            {
                prop_assert!(u128::from(raw.offset) + u128::from(raw.len) <= u128::from(BOUNDS.size_bytes));
                let carries = matches!(command, Command::Read | Command::Write { .. });
                prop_assert!(!carries || raw.len <= BOUNDS.max_payload_bytes);
            }
        }
    }
}
