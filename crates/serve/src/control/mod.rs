//! The control socket of a running array: one line of JSON in, one line of JSON out.
//!
//! A running array named `md0` listens on `md0.sock` in the [`run_dir`], a Unix socket of mode 0600 in a directory of mode 0700:
//! whoever may open it may do everything. A connection carries any number of calls, one after another.
//!
//! ```
//! use std::time::Duration;
//! use serde_json::json;
//! use uraid_serve::control;
//!
//! let dir = tempfile::tempdir().unwrap();
//! let path = dir.path().join("md0.sock");
//! let mut server = control::Server::start(&path, std::sync::Arc::new(|call| json!({ "you said": call })))?;
//! let answer = control::Client::call(&path, &json!("status"), Duration::from_secs(5))?;
//! assert_eq!(answer, json!({ "you said": "status" }));
//! server.stop();
//! # Ok::<(), uraid_serve::ServeError>(())
//! ```

mod client;
mod run_dir;
mod server;

pub use client::Client;
pub use run_dir::{list, list_in, run_dir, socket_path};
pub use server::{Handler, Server};

use std::io::{self, Read};

use crate::listen::timed_out;

/// Longest line that a server takes, in bytes with its end.
pub const MAX_CALL_BYTES: usize = 1 << 20;
/// Longest line that a client takes, in bytes with its end.
pub const MAX_ANSWER_BYTES: usize = 16 << 20;

/// What a line is read in at a time.
const READ_BYTES: usize = 16 << 10;

/// Reads lines of limited length.
struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    max_bytes: usize,
}

/// Why there is no next line.
enum NoLine {
    /// The other side has ended the connection between lines.
    End,
    /// The line is longer than allowed.
    TooLong,
    /// The other side has been silent for too long.
    Silent,
    /// The connection broke.
    Broken(io::Error),
}

impl<R: Read> Lines<R> {
    fn new(from: R, max_bytes: usize) -> Lines<R> {
        Lines { from, buffer: Vec::new(), max_bytes }
    }

    /// The next line without its end. `before_read` runs before each wait.
    fn next(&mut self, mut before_read: impl FnMut(&mut R) -> Result<(), NoLine>) -> Result<Vec<u8>, NoLine> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let rest = self.buffer.split_off(searched + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(line);
            }
            searched = self.buffer.len();
            if searched >= self.max_bytes {
                return Err(NoLine::TooLong);
            }
            before_read(&mut self.from)?;
            let mut more = [0; READ_BYTES];
            match self.from.read(&mut more) {
                Ok(0) if self.buffer.is_empty() => return Err(NoLine::End),
                Ok(0) => return Err(NoLine::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(got) => self.buffer.extend_from_slice(&more[..got]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if timed_out(&error) => return Err(NoLine::Silent),
                Err(error) => return Err(NoLine::Broken(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_and_limited() {
        let mut lines = Lines::new(&b"one\n\ntwo\nrest"[..], 4);
        let mut next = || lines.next(|_| Ok(()));
        assert_eq!(next().ok().unwrap(), b"one");
        assert_eq!(next().ok().unwrap(), b"");
        assert_eq!(next().ok().unwrap(), b"two");
        assert!(matches!(next(), Err(NoLine::TooLong)));
        assert!(matches!(Lines::new(&b"cut"[..], 4).next(|_| Ok(())), Err(NoLine::Broken(_))));
        assert!(matches!(Lines::new(&b""[..], 4).next(|_| Ok(())), Err(NoLine::End)));
    }
}
