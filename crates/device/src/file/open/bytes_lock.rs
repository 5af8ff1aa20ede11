//! Locks on a part of a file that belong to the open file, not to the process (fcntl(2), "open file description locks").

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Locks the bytes from the first to before the second; for a file open for reading only, against writers only. The lock ends
/// with the descriptor.
///
/// # Errors
/// `WouldBlock` when someone has a lock in the way; `InvalidInput` for places that no file has.
pub(super) fn take(file: &File, part: (u64, u64), write: bool) -> io::Result<()> {
    let place = |byte: u64| i64::try_from(byte).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let len = part.1.checked_sub(part.0).filter(|&len| len > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: `flock` is plain numbers, for which zeros are valid.
    let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
    wanted.l_type = if write { libc::F_WRLCK } else { libc::F_RDLCK } as libc::c_short;
    wanted.l_whence = libc::SEEK_SET as libc::c_short;
    wanted.l_start = place(part.0)?;
    wanted.l_len = place(len)?;
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call reads `wanted`, which outlives it.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) };
    match taken {
        -1 => {
            let error = io::Error::last_os_error();
            // POSIX lets a lock in the way be told by either.
            let in_the_way = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAGAIN));
            Err(if in_the_way { io::ErrorKind::WouldBlock.into() } else { error })
        }
        _ => Ok(()),
    }
}
