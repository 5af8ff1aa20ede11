//! The caller's side of the control socket.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Lines, MAX_ANSWER_BYTES, NoLine};
use crate::ServeError;
use crate::listen::{connect_unix, timed_out};

/// Calls a running array.
pub struct Client;

impl Client {
    /// Sends `call` and waits for the answer, at most `timeout` in all.
    ///
    /// # Errors
    /// Nobody listens at `path`, the answer does not come in time, or it is not a line of JSON.
    pub fn call(path: &Path, call: &Value, timeout: Duration) -> Result<Value, ServeError> {
        let deadline = Instant::now() + timeout;
        let not_running = |source| ServeError::NotRunning { path: path.to_owned(), source };
        let late = || ServeError::Timeout { path: path.to_owned(), seconds: timeout.as_secs() };
        let bad = |reason: String| ServeError::BadAnswer { path: path.to_owned(), reason };
        let mut stream = match connect_unix(path, Some(timeout)) {
            Err(error) if timed_out(&error) => return Err(late()),
            other => other.map_err(not_running)?,
        };
        let mut line = call.to_string().into_bytes();
        line.push(b'\n');
        match stream.write_all(&line) {
            Ok(()) => {}
            Err(error) if timed_out(&error) => return Err(late()),
            // A server that turns a caller away says why before it closes.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(not_running(error)),
        }
        let wait_no_longer = |stream: &mut &UnixStream| match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => stream.set_read_timeout(Some(left)).map_err(NoLine::Broken),
            _ => Err(NoLine::Silent),
        };
        match Lines::new(&stream, MAX_ANSWER_BYTES).next(wait_no_longer) {
            Ok(line) => serde_json::from_slice(&line).map_err(|error| bad(format!("the answer is not JSON: {error}"))),
            Err(NoLine::Silent) => Err(late()),
            Err(NoLine::End) => Err(bad("the connection ended without an answer".into())),
            Err(NoLine::TooLong) => Err(bad(format!("the answer is longer than {MAX_ANSWER_BYTES} bytes"))),
            Err(NoLine::Broken(error)) => Err(bad(format!("the connection broke: {error}"))),
        }
    }
}
