//! The one error of this crate: kind and context (member, operation, offset) and the system's cause.

use std::fmt;
use std::io;

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
#[derive(Debug)]
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
    pub source: io::Error,
}

impl DeviceError {
    /// `operation` on the whole of the member `name` failed: opening or flushing.
    pub fn whole(name: impl Into<String>, operation: Operation, source: impl Into<io::Error>) -> DeviceError {
        DeviceError::at(name, operation, 0, 0, source)
    }

    /// `operation` on a range of the member `name` failed.
    pub fn at(
        name: impl Into<String>,
        operation: Operation,
        offset_bytes: u64,
        len_bytes: u64,
        source: impl Into<io::Error>,
    ) -> DeviceError {
        DeviceError { name: name.into(), operation, offset_bytes, len_bytes, source: source.into() }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceError { name, operation, offset_bytes, len_bytes, source } = self;
        match operation {
            Operation::Open | Operation::Flush => write!(f, "{name}: cannot {operation}: {source}"),
            Operation::Read | Operation::Write | Operation::Zero => {
                write!(f, "{name}: cannot {operation} {len_bytes} bytes at byte {offset_bytes}: {source}")
            }
        }
    }
}

impl std::error::Error for DeviceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_member_operation_place_and_cause() {
        let at = DeviceError::at("a.img", Operation::Read, 4096, 512, io::Error::from_raw_os_error(libc::EIO));
        assert_eq!(at.to_string(), "a.img: cannot read 512 bytes at byte 4096: Input/output error (os error 5)");
        let whole = DeviceError::whole("a.img", Operation::Open, io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(whole.to_string(), "a.img: cannot open: No such file or directory (os error 2)");
    }
}
