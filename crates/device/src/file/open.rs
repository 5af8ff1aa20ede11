//! Opening a member: what it is, who else has it, and whether the page cache can be left out.

#[allow(unsafe_code)]
mod bytes_lock;

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, OFlags, StatxFlags};

use crate::{Buf, DeviceInfo, Identity, Pool};

/// `f_type` of tmpfs (statfs(2)): it accepts O_DIRECT and then goes through the page cache, which is all it has.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Times that a block device's claim and lock are tried. udev holds a lock for a moment whenever it probes a disk, and a child
/// of ours holds the claim that we gave up until it has started its program.
const BLOCK_TRIES: u32 = 10;
const BLOCK_PAUSE: Duration = Duration::from_millis(20);

/// Whether to bypass the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Where the file system and its alignment allow it.
    #[default]
    Auto,
    /// Always; opening fails where it is impossible.
    Yes,
    /// Never.
    No,
}

/// How to open a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// For writing too; otherwise the descriptor is really read-only.
    pub write: bool,
    /// Bypass the page cache?
    pub direct: Direct,
    /// Own the member: an exclusive lock that refuses a second owner, and for block devices also a claim that refuses what the
    /// kernel uses. Whoever only looks takes no lock and is refused by none.
    pub lock: bool,
    /// Logical block of a regular file in bytes: 512 (also when `None`) or 4096. A block device has its own, and is refused
    /// when another is asked for.
    pub logical_block_bytes: Option<u32>,
    /// Own only these bytes of a regular file, from the first to before the second, so that other parts of it may have other
    /// owners; nobody can own the whole meanwhile. Whoever owns a part to read it does not keep out others who read it. A block
    /// device is always owned as a whole.
    pub part: Option<(u64, u64)>,
}

impl OpenOptions {
    /// To look at: read-only, not locked.
    #[must_use]
    pub fn look() -> OpenOptions {
        OpenOptions::default()
    }

    /// To own: writable and locked.
    #[must_use]
    pub fn own() -> OpenOptions {
        OpenOptions { write: true, lock: true, ..OpenOptions::default() }
    }
}

/// What opening found out.
pub(super) struct Opened {
    pub file: File,
    pub info: DeviceInfo,
    pub identity: Identity,
    /// Alignment that a direct transfer needs of its memory, in bytes; 1 for buffered ones.
    pub memory_align_bytes: usize,
    /// On a file system that is nothing but memory?
    pub in_memory: bool,
}

pub(super) fn open(path: &Path, options: OpenOptions) -> io::Result<Opened> {
    // Looked at before opening: to open a fifo blocks, and to open a tape rewinds it.
    let is_block = is_block_device(&fs::metadata(path)?)?;
    let file = open_file(path, options, is_block)?;
    let metadata = file.metadata()?;
    if is_block_device(&metadata)? != is_block {
        return Err(io::Error::other("changed its type while it was opened"));
    }
    if options.lock {
        match options.part.filter(|_| !is_block) {
            Some(part) => lock_part(&file, part, options.write)?,
            None => lock(&file, is_block)?,
        }
    }
    let logical_block_bytes = logical_block(&file, is_block, options.logical_block_bytes)?;
    let end_bytes = if is_block { rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))? } else { metadata.len() };
    let in_memory = !is_block && rustix::fs::fstatfs(&file)?.f_type as i64 == TMPFS_MAGIC;
    let memory_align_bytes = match options.direct {
        Direct::Auto if in_memory => None,
        Direct::Yes if in_memory => {
            return Err(io::Error::new(ErrorKind::Unsupported, "O_DIRECT is impossible: tmpfs has nothing but the page cache"));
        }
        Direct::No => None,
        Direct::Auto => go_direct(&file, logical_block_bytes).ok(),
        Direct::Yes => Some(go_direct(&file, logical_block_bytes)?),
    };
    let identity = match is_block {
        true => Identity::Block { device: metadata.rdev() },
        false => Identity::File { device: metadata.dev(), inode: metadata.ino() },
    };
    let info = DeviceInfo {
        name: path.display().to_string(),
        path: Some(path.to_owned()),
        size_bytes: end_bytes - end_bytes % u64::from(logical_block_bytes),
        logical_block_bytes,
        read_only: !options.write,
        direct: memory_align_bytes.is_some(),
        rotational: rotational(if is_block { metadata.rdev() } else { metadata.dev() }),
    };
    Ok(Opened { file, info, identity, memory_align_bytes: memory_align_bytes.unwrap_or(1), in_memory })
}

/// Block device or regular file; anything else is refused by name.
pub(super) fn is_block_device(metadata: &fs::Metadata) -> io::Result<bool> {
    let kind = metadata.file_type();
    let what = match kind {
        _ if kind.is_block_device() => return Ok(true),
        _ if kind.is_file() => return Ok(false),
        _ if kind.is_dir() => return Err(io::Error::new(ErrorKind::IsADirectory, "is a directory")),
        _ if kind.is_fifo() => "a fifo",
        _ if kind.is_char_device() => "a character device",
        _ if kind.is_socket() => "a socket",
        _ => "of an unknown type",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("is {what}; a member is a regular file or a block device")))
}

pub(super) fn open_file(path: &Path, options: OpenOptions, is_block: bool) -> io::Result<File> {
    let mut open = fs::OpenOptions::new();
    open.read(true).write(options.write);
    if is_block && options.lock {
        // On a block device, without O_CREAT, this claims the device and fails when anyone else has it claimed (open(2)).
        open.custom_flags(libc::O_EXCL);
    }
    for _ in 1..BLOCK_TRIES {
        match open.open(path) {
            Err(error) if is_block && error.kind() == ErrorKind::ResourceBusy => std::thread::sleep(BLOCK_PAUSE),
            opened => return opened,
        }
    }
    open.open(path).map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => busy_block_device(path, error),
        _ => error,
    })
}

/// Who has a claimed block device: an owner of ours holds the lock as well, the kernel does not.
fn busy_block_device(path: &Path, error: io::Error) -> io::Error {
    let Ok(file) = File::open(path) else { return error };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => in_use(),
        _ => io::Error::new(ErrorKind::ResourceBusy, "in use by the kernel (mounted, or part of a running array or volume)"),
    }
}

fn in_use() -> io::Error {
    io::Error::new(ErrorKind::ResourceBusy, "in use: another process, or this one, holds its lock")
}

/// Takes the exclusive lock; it ends with the descriptor, however the process ends, or with [`unlock`].
pub(super) fn lock(file: &File, is_block: bool) -> io::Result<()> {
    take_lock(file, is_block, FlockOperation::NonBlockingLockExclusive)
}

/// Takes a part: the lock that keeps out owners of the whole, and one on the part's bytes.
fn lock_part(file: &File, part: (u64, u64), write: bool) -> io::Result<()> {
    take_lock(file, false, FlockOperation::NonBlockingLockShared)?;
    bytes_lock::take(file, part, write).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => in_use(),
        _ => error,
    })
}

fn take_lock(file: &File, is_block: bool, operation: FlockOperation) -> io::Result<()> {
    let tries = if is_block { BLOCK_TRIES } else { 1 };
    for left in (0..tries).rev() {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) if left > 0 => std::thread::sleep(BLOCK_PAUSE),
            Err(rustix::io::Errno::WOULDBLOCK) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Err(in_use())
}

/// Gives the lock up even while a copy of the descriptor lives on in a child that has not started its program yet.
pub(super) fn unlock(file: &File) {
    // There is nothing to do about a lock that does not go; it goes with the last copy.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

fn logical_block(file: &File, is_block: bool, asked: Option<u32>) -> io::Result<u32> {
    let refuse = |text| Err(io::Error::new(ErrorKind::InvalidInput, text));
    if let Some(asked) = asked
        && !matches!(asked, 512 | 4096)
    {
        return refuse(format!("a logical block of {asked} bytes is neither 512 nor 4096"));
    }
    if !is_block {
        return Ok(asked.unwrap_or(512));
    }
    match rustix::fs::ioctl_blksszget(file)? {
        found if asked.is_some_and(|asked| asked != found) => {
            refuse(format!("its logical block is {found} bytes, not {}", asked.unwrap_or(found)))
        }
        found @ (512 | 4096) => Ok(found),
        found => refuse(format!("its logical block of {found} bytes is neither 512 nor 4096")),
    }
}

/// Turns the page cache off for `file` and gives the alignment in bytes that memory then needs.
///
/// # Errors
/// Why it is impossible; the file is then as it was.
fn go_direct(file: &File, logical_block_bytes: u32) -> io::Result<usize> {
    let refuse = |text: String| io::Error::new(ErrorKind::Unsupported, format!("O_DIRECT is impossible: {text}"));
    let mut memory_align_bytes = logical_block_bytes;
    let stated = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    if let Some(stated) = stated.filter(|stated| StatxFlags::from_bits_retain(stated.stx_mask).contains(StatxFlags::DIOALIGN)) {
        let (memory, offset) = (stated.stx_dio_mem_align, stated.stx_dio_offset_align);
        if memory == 0 || offset == 0 {
            return Err(refuse("the file system does not support it for this file".to_owned()));
        }
        if memory.max(offset) > logical_block_bytes {
            return Err(refuse(format!("it needs blocks of {} bytes, not {logical_block_bytes}", memory.max(offset))));
        }
        memory_align_bytes = memory;
    }
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).map_err(|error| refuse(io::Error::from(error).to_string()))?;
    // What was stated is proven: one block, at an odd block of file and memory.
    let block = logical_block_bytes as usize;
    let mut buf: Buf = Pool::new(0).take(2 * block);
    if let Err(error) = rustix::io::pread(file, &mut buf[block..], u64::from(logical_block_bytes)) {
        rustix::fs::fcntl_setfl(file, flags)?;
        return Err(refuse(format!("a read of {block} bytes says {}", io::Error::from(error))));
    }
    Ok(memory_align_bytes as usize)
}

/// Does the disk with device number `device`, or the disk that this partition is on, turn?
fn rotational(device: u64) -> Option<bool> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let node = format!("/sys/dev/block/{major}:{minor}");
    let text = ["queue/rotational", "../queue/rotational"]
        .into_iter()
        .find_map(|rest| fs::read_to_string(format!("{node}/{rest}")).ok())?;
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}
