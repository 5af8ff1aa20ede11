//! The one error of this crate: kind and context (member, operation, offset) and the system's cause.

use std::fmt;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening or asking for size and block size.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making durable.
    Flush,
    /// Zeroing a range.
    Zero,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Zero => "zero",
        })
    }
}

/// An operation on a member that failed.
#[derive(Debug, thiserror::Error)]
#[error("{name}: cannot {operation} {len_bytes} bytes at byte {offset_bytes}: {source}")]
pub struct DeviceError {
    /// The member's name.
    pub name: String,
    /// What was tried.
    pub operation: Operation,
    /// Where, in bytes from the member's start.
    pub offset_bytes: u64,
    /// How much, in bytes.
    pub len_bytes: u64,
    /// The system's cause.
    pub source: std::io::Error,
}
