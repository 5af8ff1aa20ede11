//! The one error of this crate.

use std::io;
use std::path::PathBuf;

/// A front end that cannot start, stop or be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address that is neither `unix:PATH` nor `HOST:PORT`.
    #[error("'{text}' is no address to listen on; it takes unix:PATH or HOST:PORT")]
    BadAddress {
        /// What was given.
        text: String,
    },
    /// An address beyond this machine without leave.
    #[error("{address} is reachable from other machines and NBD has no login; give --nbd-allow-remote if that is meant")]
    RemoteRefused {
        /// The address.
        address: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The system's cause.
        source: io::Error,
    },
    /// An export's name or description is too long.
    #[error("an NBD export's name and description take at most {limit_bytes} bytes each")]
    BadExport {
        /// The protocol's limit, in bytes.
        limit_bytes: usize,
    },
    /// Another process answers on this socket.
    #[error("{}: another process is serving on this socket; stop it or choose another path", path.display())]
    SocketInUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket is in the socket's place.
    #[error("{}: this exists and is no socket; it was left alone, choose another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A file-system operation failed.
    #[error("{}: cannot {operation}: {source}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// What was tried, as in "cannot ...".
        operation: &'static str,
        /// The system's cause.
        source: io::Error,
    },
    /// A path that cannot carry a FUSE file.
    #[error("{}: cannot become the FUSE file: {reason}", path.display())]
    MountPoint {
        /// The path.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The FUSE file is open somewhere.
    #[error("{}: still in use (an open file, a loop device or a mount on top); end that and stop again", path.display())]
    Busy {
        /// The FUSE file.
        path: PathBuf,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// The system's cause.
        source: io::Error,
    },
    /// An array's name that cannot be a file's name.
    #[error("'{name}' is no array name; it takes 1 to 64 of A-Z a-z 0-9 . _ - and does not start with a dot")]
    BadName {
        /// What was given.
        name: String,
    },
    /// No array answers on this control socket.
    #[error("{}: no running array answers here: {source}", path.display())]
    NotRunning {
        /// The control socket.
        path: PathBuf,
        /// The system's cause.
        source: io::Error,
    },
    /// The control socket's answer did not come in time.
    #[error("{}: no answer within {seconds} s", path.display())]
    Timeout {
        /// The control socket.
        path: PathBuf,
        /// How long was waited, in seconds.
        seconds: u64,
    },
    /// The control socket's answer is not one line of JSON.
    #[error("{}: {reason}", path.display())]
    BadAnswer {
        /// The control socket.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl ServeError {
    /// A [`ServeError::File`], for `map_err`.
    pub(crate) fn file(path: &std::path::Path, operation: &'static str) -> impl FnOnce(io::Error) -> ServeError {
        let path = path.to_owned();
        move |source| ServeError::File { path, operation, source }
    }
}
