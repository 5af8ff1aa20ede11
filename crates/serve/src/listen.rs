//! Listening sockets: Unix (mode 0600) and TCP, one thread that accepts, and streams of either kind.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::ServeError;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// How long another process may hold the lock on the socket's directory before we go on without it.
const DIRECTORY_LOCK_WAIT: Duration = Duration::from_secs(2);
/// A pause after an accept that failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a TCP client may be silent before the system asks whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Asked of the system for a Unix socket; its default holds no more than one large request.
const UNIX_BUFFER_BYTES: usize = 2 << 20;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket, made with mode 0600.
    Unix(PathBuf),
    /// `HOST:PORT`; port 0 takes any free one.
    Tcp(String),
}

impl FromStr for Listen {
    type Err = ServeError;

    /// `unix:PATH` or `HOST:PORT`; `[::1]:PORT` for IPv6.
    fn from_str(text: &str) -> Result<Listen, ServeError> {
        let bad = || ServeError::BadAddress { text: text.to_owned() };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(bad()) } else { Ok(Listen::Unix(PathBuf::from(path))) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(bad());
        }
        Ok(Listen::Tcp(text.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
            Listen::Tcp(address) => f.write_str(address),
        }
    }
}

/// A connected socket of either kind.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(crate) fn shutdown(&self) {
        // The peer may be gone already; either way nothing more comes or goes.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Ends reading, here and now; what is being written still goes out.
    pub(crate) fn stop_reading(&self) {
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Read),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// How long one call may wait: for reading and for writing.
    pub(crate) fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(read).and_then(|()| stream.set_write_timeout(write)),
            Stream::Tcp(stream) => stream.set_read_timeout(read).and_then(|()| stream.set_write_timeout(write)),
        }
    }

    fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                // A client whose machine has gone away must not keep its place for ever.
                rustix::net::sockopt::set_socket_keepalive(stream, true)?;
                rustix::net::sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
                Ok(())
            }
            Stream::Unix(stream) => {
                // A wish: the system's limit may be lower, and the connection works with any size.
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(stream, UNIX_BUFFER_BYTES);
                let _ = rustix::net::sockopt::set_socket_recv_buffer_size(stream, UNIX_BUFFER_BYTES);
                Ok(())
            }
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(into),
            Stream::Tcp(stream) => (&mut &*stream).read(into),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).write_vectored(from),
            Stream::Tcp(stream) => (&mut &*stream).write_vectored(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Did a socket call end because its timeout passed?
pub(crate) fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

enum Kind {
    Unix { listener: UnixListener, path: PathBuf, device: u64, inode: u64 },
    Tcp { listener: TcpListener, address: SocketAddr },
}

/// A bound socket. A Unix socket is unlinked when this is dropped, if it is still ours.
pub(crate) struct Listener {
    kind: Kind,
    /// Becomes readable when accepting is to end.
    wake: UnixStream,
}

/// Ends [`Listener::accept_each`] from another thread.
pub(crate) struct StopAccepting(UnixStream);

impl StopAccepting {
    pub(crate) fn stop(&self) {
        // A full pipe or a closed peer means that it has been told already.
        let _ = (&self.0).write(&[1]);
    }
}

impl Listener {
    pub(crate) fn bind(listen: &Listen, allow_remote: bool) -> Result<(Listener, StopAccepting), ServeError> {
        let kind = match listen {
            Listen::Unix(path) => bind_unix(path)?,
            Listen::Tcp(address) => bind_tcp(address, allow_remote)?,
        };
        let failed = |source| ServeError::Listen { address: listen.to_string(), source };
        match &kind {
            Kind::Unix { listener, .. } => listener.set_nonblocking(true).map_err(failed)?,
            Kind::Tcp { listener, .. } => listener.set_nonblocking(true).map_err(failed)?,
        }
        let (wake, stop) = UnixStream::pair().map_err(failed)?;
        Ok((Listener { kind, wake }, StopAccepting(stop)))
    }

    /// The address as clients give it: the path, or host and port with the port that was taken.
    pub(crate) fn address(&self) -> Listen {
        match &self.kind {
            Kind::Unix { path, .. } => Listen::Unix(path.clone()),
            Kind::Tcp { address, .. } => Listen::Tcp(address.to_string()),
        }
    }

    /// Hands each new connection to `take` until told to stop.
    pub(crate) fn accept_each(&self, mut take: impl FnMut(Stream)) {
        while self.wait() {
            match self.accept() {
                Ok(stream) => match stream.prepare() {
                    Ok(()) => take(stream),
                    Err(error) => tracing::debug!("a connection ended at once: {error}"),
                },
                Err(error) if timed_out(&error) || error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!("{}: cannot accept: {error}", self.address());
                    std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// True when there may be a connection to accept, false when accepting is to end.
    fn wait(&self) -> bool {
        let socket: BorrowedFd<'_> = match &self.kind {
            Kind::Unix { listener, .. } => listener.as_fd(),
            Kind::Tcp { listener, .. } => listener.as_fd(),
        };
        loop {
            let mut fds = [PollFd::new(&self.wake, PollFlags::IN), PollFd::from_borrowed_fd(socket, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) => return fds[0].revents().is_empty(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::error!("{}: cannot wait for connections: {error}", self.address());
                    return false;
                }
            }
        }
    }

    /// Accepted sockets block again: on Linux they do not take that over from the listener.
    fn accept(&self) -> io::Result<Stream> {
        match &self.kind {
            Kind::Unix { listener, .. } => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Kind::Tcp { listener, .. } => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Kind::Unix { path, device, inode, .. } = &self.kind else { return };
        let ours = std::fs::symlink_metadata(path).is_ok_and(|found| found.dev() == *device && found.ino() == *inode);
        if ours && let Err(error) = std::fs::remove_file(path) {
            tracing::warn!("{}: cannot remove the socket: {error}", path.display());
        }
    }
}

fn bind_tcp(text: &str, allow_remote: bool) -> Result<Kind, ServeError> {
    let failed = |source| ServeError::Listen { address: text.to_owned(), source };
    let addresses: Vec<SocketAddr> = text.to_socket_addrs().map_err(failed)?.collect();
    if !allow_remote && let Some(remote) = addresses.iter().find(|address| !address.ip().is_loopback()) {
        return Err(ServeError::RemoteRefused { address: remote.to_string() });
    }
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Kind::Tcp { listener, address })
}

/// What answers at a Unix socket's path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// Nothing is there.
    Nobody,
    /// A socket that nobody listens on.
    Stale,
    /// A socket that somebody listens on.
    Live,
    /// Something that is no socket.
    Other,
}

pub(crate) fn occupant(path: &Path) -> io::Result<Occupant> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Occupant::Nobody),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => return Ok(Occupant::Other),
        Ok(_) => {}
    }
    // A server that is too busy to accept is alive.
    match connect_unix(path, None) {
        Ok(_) => Ok(Occupant::Live),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(Occupant::Live),
            io::ErrorKind::ConnectionRefused => Ok(Occupant::Stale),
            io::ErrorKind::NotFound => Ok(Occupant::Nobody),
            _ => Err(error),
        },
    }
}

/// Connects, waiting no longer than `patience` for a server that is slow to accept; not at all without it.
pub(crate) fn connect_unix(path: &Path, patience: Option<Duration>) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    match patience {
        Some(patience) => {
            let patience = patience.max(Duration::from_millis(1));
            rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(patience))?;
            rustix::net::connect(&socket, &address)?;
        }
        None => {
            rustix::io::ioctl_fionbio(&socket, true)?;
            rustix::net::connect(&socket, &address)?;
            rustix::io::ioctl_fionbio(&socket, false)?;
        }
    }
    Ok(UnixStream::from(socket))
}

/// Keeps everybody else who binds or clears away sockets in `path`'s directory out until it is dropped.
///
/// Between binding and listening a socket looks stale; without this lock it could be cleared away in that moment.
pub(crate) fn lock_directory_of(path: &Path) -> Result<Option<OwnedFd>, ServeError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let open = rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let fd = open.map_err(|error| ServeError::file(directory, "open")(error.into()))?;
    let deadline = Instant::now() + DIRECTORY_LOCK_WAIT;
    while let Err(error) = rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        // Somebody else may use locks on this directory for a purpose of his own, and not every file system has them.
        if error != rustix::io::Errno::WOULDBLOCK || Instant::now() >= deadline {
            tracing::debug!("{}: going on without a lock: {error}", directory.display());
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Some(fd))
}

fn bind_unix(path: &Path) -> Result<Kind, ServeError> {
    let failed = |source: io::Error| ServeError::Listen { address: format!("unix:{}", path.display()), source };
    let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    let _guard = lock_directory_of(path)?;
    match occupant(path).map_err(failed)? {
        Occupant::Nobody => {}
        Occupant::Stale => std::fs::remove_file(path).map_err(ServeError::file(path, "remove the stale socket"))?,
        Occupant::Live => return Err(ServeError::SocketInUse { path: path.to_owned() }),
        Occupant::Other => return Err(ServeError::NotASocket { path: path.to_owned() }),
    }
    let bind = || -> rustix::io::Result<OwnedFd> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The file takes its mode from the socket, so there is no moment at which others could connect.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &address)?;
        rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    let listener = UnixListener::from(bind().map_err(|error| failed(error.into()))?);
    let found = std::fs::symlink_metadata(path).map_err(failed)?;
    Ok(Kind::Unix { listener, path: path.to_owned(), device: found.dev(), inode: found.ino() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_nonsense_is_refused() {
        assert_eq!("unix:/run/a".parse::<Listen>().unwrap(), Listen::Unix("/run/a".into()));
        assert_eq!("[::1]:10809".parse::<Listen>().unwrap(), Listen::Tcp("[::1]:10809".into()));
        for bad in ["", "unix:", "localhost", ":10809", "localhost:", "localhost:70000", "/run/a"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad}");
        }
    }
}
