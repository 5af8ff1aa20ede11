//! The file system of one file: what the kernel asks becomes requests to the target.

use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, TimeOrNow,
    WriteFlags,
};
use uraid_device::{Pool, Shared};

use super::rewrites::Rewrites;
use crate::{Request, Target, TargetError, lock};

/// The kernel's largest request, in bytes.
const MAX_REQUEST_BYTES: u32 = 1 << 20;
/// Requests that the kernel may have on their way without a process waiting for them.
const MAX_BACKGROUND: u16 = 64;
/// How long the kernel may go without asking for the attributes again; they do not change.
const ATTRIBUTES_LAST: Duration = Duration::from_secs(1);
/// What the file says of its block size; a small one keeps loop devices free to choose theirs.
const BLOCK_BYTES: u32 = 4096;
/// Buffers kept for the next writes, in bytes.
const KEEP_BYTES: usize = 4 << 20;

/// The way to the target, which can be closed while the kernel still holds the file.
pub(super) struct Gate(RwLock<Option<Arc<dyn Target>>>);

impl Gate {
    pub(super) fn new(target: Arc<dyn Target>) -> Arc<Gate> {
        Arc::new(Gate(RwLock::new(Some(target))))
    }

    /// Lets go of the target; whatever comes later fails.
    pub(super) fn close(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn submit(&self, request: Request, reply: crate::Reply) {
        let target = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        match target {
            Some(target) => target.submit(request, reply),
            None => reply(Err(TargetError::new(libc::EIO, "the array has been stopped"))),
        }
    }

    /// Submits and waits for the end.
    fn run(&self, request: Request) -> Result<(), TargetError> {
        let (done, wait) = crossbeam_channel::bounded(1);
        self.submit(
            request,
            Box::new(move |outcome| {
                // The receiver waits below until this has come.
                let _ = done.send(outcome.map(|_| ()));
            }),
        );
        wait.recv().unwrap_or_else(|_| Err(TargetError::new(libc::EIO, "the request was lost")))
    }
}

/// One regular file of the target's size.
pub(super) struct ArrayFile {
    gate: Arc<Gate>,
    size_bytes: u64,
    read_only: bool,
    pool: Pool,
    rewrites: Mutex<Rewrites>,
    attributes: FileAttr,
}

impl ArrayFile {
    pub(super) fn new(target: &dyn Target, gate: Arc<Gate>) -> ArrayFile {
        let (size_bytes, read_only) = (target.size_bytes(), target.read_only());
        let now = SystemTime::now();
        let attributes = FileAttr {
            ino: INodeNo::ROOT,
            size: size_bytes,
            blocks: size_bytes.div_ceil(512),
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: FileType::RegularFile,
            perm: if read_only { 0o400 } else { 0o600 },
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        };
        let pool = Pool::new(KEEP_BYTES);
        ArrayFile { gate, size_bytes, read_only, pool, rewrites: Mutex::default(), attributes }
    }

    /// The part of `offset..offset + len` within the file.
    fn clip(&self, offset: u64, len: u64) -> u64 {
        len.min(self.size_bytes.saturating_sub(offset))
    }

    /// Zeroes what process `pid`, which truncated the file, skips over before it writes `start..end`.
    ///
    /// It waits: nothing that comes later may overtake the zeros.
    fn fill_gap(&self, pid: u32, start: u64, end: u64) -> Result<(), TargetError> {
        let gap = lock(&self.rewrites).write(pid, start..end);
        let Some(gap) = gap else { return Ok(()) };
        let len = gap.end - gap.start;
        self.gate.run(Request::Zero { offset: gap.start, len, fua: false, may_trim: true, fast_only: false })
    }

    /// What to do for fallocate(2): nothing, a request, or an error.
    fn fallocation(&self, offset: u64, len: u64, mode: i32) -> Result<Option<Request>, Errno> {
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let beyond = offset.checked_add(len).is_none_or(|end| end > self.size_bytes);
        let clipped = self.clip(offset, len);
        let zero = |may_trim, fast_only| {
            let request = Request::Zero { offset, len: clipped, fua: false, may_trim, fast_only };
            (clipped > 0).then_some(request)
        };
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            _ if self.read_only => Err(Errno::EROFS),
            _ if beyond && !keeps_size => Err(Errno::ENOSPC),
            0 => Ok(None),
            // A hole is worth making only where that is fast; callers fall back to nothing or to zeros.
            libc::FALLOC_FL_PUNCH_HOLE if keeps_size => Ok(zero(true, true)),
            libc::FALLOC_FL_ZERO_RANGE => Ok(zero(false, false)),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// What to do for a new size; the size itself never changes.
    fn resize(&self, pid: u32, size: u64, through_open_file: bool) -> Result<(), Errno> {
        if size == self.size_bytes {
            return Ok(());
        }
        if self.read_only {
            return Err(Errno::EROFS);
        }
        // O_TRUNC comes without the file handle.
        if size == 0 && !through_open_file {
            lock(&self.rewrites).start(pid);
            return Ok(());
        }
        // The end of a rewritten file that ends in a hole.
        if size < self.size_bytes && lock(&self.rewrites).knows(pid) {
            return self.fill_gap(pid, size, size).map_err(|error| number(&error));
        }
        Err(Errno::EINVAL)
    }
}

fn number(error: &TargetError) -> Errno {
    tracing::debug!("a request of the FUSE file failed: {error}");
    Errno::from_i32(error.errno)
}

fn answer(reply: ReplyEmpty, outcome: Result<(), TargetError>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(number(&error)),
    }
}

/// One piece goes as it is; several are joined, since the kernel's interface takes one.
fn send_pieces(reply: ReplyData, pieces: &[Shared]) {
    match pieces {
        [piece] => reply.data(piece),
        _ => reply.data(&pieces.iter().map(|piece| &**piece).collect::<Vec<_>>().concat()),
    }
}

impl Filesystem for ArrayFile {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each takes the nearest value that the kernel allows.
        let _ = config.set_max_write(MAX_REQUEST_BYTES);
        if let Err(nearest) = config.set_max_readahead(MAX_REQUEST_BYTES) {
            let _ = config.set_max_readahead(nearest);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        for wish in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            // Older kernels do without.
            let _ = config.add_capabilities(wish);
        }
        Ok(())
    }

    fn lookup(&self, _: &fuser::Request, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::ENOTDIR);
    }

    fn getattr(&self, _: &fuser::Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&ATTRIBUTES_LAST, &self.attributes);
    }

    fn setattr(
        &self,
        request: &fuser::Request,
        _: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = match size {
            _ if mode.is_some() || uid.is_some() || gid.is_some() => Err(Errno::EPERM),
            Some(size) => self.resize(request.pid(), size, handle.is_some()),
            // Times are taken and forgotten, so that copying with times works.
            None => Ok(()),
        };
        match resized {
            Ok(()) => reply.attr(&ATTRIBUTES_LAST, &self.attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &fuser::Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.read_only && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        // Past the page cache: other front ends change the bytes too, and a cached copy would not follow.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = u32::try_from(self.clip(offset, u64::from(size))).expect("no longer than asked for");
        if len == 0 {
            return reply.data(&[]);
        }
        let finish = move |outcome: Result<Vec<Shared>, TargetError>| match outcome {
            Ok(pieces) => send_pieces(reply, &pieces),
            Err(error) => reply.error(number(&error)),
        };
        self.gate.submit(Request::Read { offset, len }, Box::new(finish));
    }

    fn write(
        &self,
        request: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if self.read_only {
            return reply.error(Errno::EROFS);
        }
        let len = self.clip(offset, data.len() as u64);
        if len == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        if let Err(error) = self.fill_gap(request.pid(), offset, offset + len) {
            return reply.error(number(&error));
        }
        // As a block device does: what fits is written, and the rest finds no space.
        let len = u32::try_from(len).expect("no longer than the data");
        let mut buffer = self.pool.take(len as usize);
        buffer.copy_from_slice(&data[..len as usize]);
        let fua = flags.0 & libc::O_DSYNC != 0;
        let finish = move |outcome: Result<Vec<Shared>, TargetError>| match outcome {
            Ok(_) => reply.written(len),
            Err(error) => reply.error(number(&error)),
        };
        self.gate.submit(Request::Write { offset, data: buffer.share(), fua }, Box::new(finish));
    }

    fn flush(&self, request: &fuser::Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        lock(&self.rewrites).end(request.pid());
        reply.ok();
    }

    fn fsync(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.gate.submit(Request::Flush, Box::new(move |outcome| answer(reply, outcome.map(|_| ()))));
    }

    fn fallocate(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, offset: u64, len: u64, mode: i32, reply: ReplyEmpty) {
        match self.fallocation(offset, len, mode) {
            Err(errno) => reply.error(errno),
            Ok(None) => reply.ok(),
            Ok(Some(request)) => self.gate.submit(request, Box::new(move |outcome| answer(reply, outcome.map(|_| ())))),
        }
    }

    fn statfs(&self, _: &fuser::Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.size_bytes / u64::from(BLOCK_BYTES), 0, 0, 1, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
