//! A target that can be held, made to fail and watched; a small NBD client; a check for programs.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use uraid_serve::{MemoryTarget, Reply, Request, Target, TargetError};

/// How long anything may take before a test gives up; it never decides whether behaviour is right.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A memory target behind a gate.
pub struct Gated {
    pub memory: Arc<MemoryTarget>,
    state: Mutex<GateState>,
    changed: Condvar,
    /// Every request fails with this number.
    pub fail: Mutex<Option<i32>>,
    /// A zeroing that must be fast is refused.
    pub slow_zero: AtomicBool,
}

#[derive(Default)]
struct GateState {
    closed: bool,
    held: VecDeque<(Request, Reply)>,
    seen: Vec<Request>,
}

impl Gated {
    pub fn new(size_bytes: u64, block_bytes: u32) -> Arc<Gated> {
        Arc::new(Gated {
            memory: Arc::new(MemoryTarget::new(size_bytes, block_bytes)),
            state: Mutex::default(),
            changed: Condvar::new(),
            fail: Mutex::new(None),
            slow_zero: AtomicBool::new(false),
        })
    }

    /// From now on requests are held.
    pub fn close(&self) {
        self.state.lock().unwrap().closed = true;
    }

    /// Waits until `count` requests are held.
    pub fn wait_held(&self, count: usize) {
        let state = self.state.lock().unwrap();
        let (state, _) = self.changed.wait_timeout_while(state, PATIENCE, |state| state.held.len() < count).unwrap();
        assert!(state.held.len() >= count, "{} of {count} requests came", state.held.len());
    }

    pub fn held(&self) -> usize {
        self.state.lock().unwrap().held.len()
    }

    /// Runs one held request: the newest or the oldest.
    pub fn run_one(&self, newest: bool) {
        let mut state = self.state.lock().unwrap();
        let next = if newest { state.held.pop_back() } else { state.held.pop_front() };
        drop(state);
        let (request, reply) = next.expect("something is held");
        self.run(request, reply);
    }

    /// Forgets one held request without a reply.
    pub fn forget_one(&self) {
        drop(self.state.lock().unwrap().held.pop_front().expect("something is held"));
    }

    /// Runs all that is held, and holds no more.
    pub fn open(&self) {
        self.state.lock().unwrap().closed = false;
        while self.held() > 0 {
            self.run_one(false);
        }
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Request> {
        self.state.lock().unwrap().seen.clone()
    }

    fn run(&self, request: Request, reply: Reply) {
        if let Some(errno) = *self.fail.lock().unwrap() {
            return reply(Err(TargetError::new(errno, "made to fail")));
        }
        if matches!(request, Request::Zero { fast_only: true, .. }) && self.slow_zero.load(Ordering::SeqCst) {
            return reply(Err(TargetError::new(libc::EOPNOTSUPP, "zeroing is slow")));
        }
        self.memory.submit(request, reply);
    }
}

impl Target for Gated {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn read_only(&self) -> bool {
        self.memory.read_only()
    }

    fn block_bytes(&self) -> u32 {
        self.memory.block_bytes()
    }

    fn preferred_bytes(&self) -> u32 {
        self.memory.preferred_bytes()
    }

    fn submit(&self, request: Request, reply: Reply) {
        let mut state = self.state.lock().unwrap();
        state.seen.push(request.clone());
        if state.closed {
            state.held.push_back((request, reply));
            self.changed.notify_all();
        } else {
            drop(state);
            self.run(request, reply);
        }
    }
}

/// Bytes that are different at every place.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// The system's own programs first: nbdsh must find the Python that its module was installed for.
fn search_path() -> String {
    "/usr/bin:/bin:/usr/sbin:/sbin:".to_owned() + &std::env::var("PATH").unwrap_or_default()
}

/// Are all programs there? Says what is missing; fails instead where `URAID_REQUIRE_CLIENTS=1`.
pub fn have(programs: &[&str]) -> bool {
    let search = search_path();
    let missing: Vec<&&str> =
        programs.iter().filter(|program| !search.split(':').any(|dir| Path::new(dir).join(program).is_file())).collect();
    missing.is_empty() || skip(&format!("not installed: {missing:?}"))
}

/// Prints why a test is skipped and returns false; fails instead where `URAID_REQUIRE_CLIENTS=1`.
pub fn skip(reason: &str) -> bool {
    assert!(std::env::var_os("URAID_REQUIRE_CLIENTS").is_none_or(|value| value != "1"), "must not be skipped: {reason}");
    eprintln!("SKIPPED: {reason}");
    false
}

/// Runs a program to its end; its standard output, or a failed test with all it said.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let (status, said) = try_run(program, arguments);
    assert!(status, "{program} {arguments:?} failed: {said}");
    said
}

pub fn try_run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(arguments).env("PATH", search_path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

/// Waits until `done` is true.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "it never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client that sends what it is told to.
pub struct Raw(pub UnixStream);

/// A reply, simple or structured.
#[derive(Debug, PartialEq, Eq)]
pub struct RawReply {
    pub cookie: u64,
    pub errno: u32,
    /// A read's bytes, a status chunk's payload or an error's message.
    pub data: Vec<u8>,
}

impl Raw {
    pub fn connect(path: &Path) -> Raw {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Raw(stream)
    }

    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// The connection has ended, after at most some more bytes.
    pub fn ended(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub fn option(&mut self, option: u32, data: &[u8]) {
        let len = u32::try_from(data.len()).unwrap();
        self.send(&[b"IHAVEOPT".as_slice(), &option.to_be_bytes(), &len.to_be_bytes(), data].concat());
    }

    pub fn option_reply(&mut self) -> (u32, Vec<u8>) {
        let head = self.take(20);
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        assert_eq!(head[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let data = self.take(word(16) as usize);
        (word(12), data)
    }

    /// A whole handshake, ready for requests.
    pub fn ready(path: &Path, structured: bool) -> Raw {
        let mut raw = Raw::connect(path);
        assert_eq!(raw.take(18), b"NBDMAGICIHAVEOPT\0\x03");
        raw.send(&3u32.to_be_bytes());
        if structured {
            raw.option(8, b"");
            assert_eq!(raw.option_reply().0, 1);
            raw.option(10, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation");
            assert_eq!(raw.option_reply(), (4, b"\0\0\0\x01base:allocation".to_vec()));
            assert_eq!(raw.option_reply().0, 1);
        }
        raw.option(7, b"\0\0\0\0\0\0");
        while raw.option_reply().0 != 1 {}
        raw
    }

    pub fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        self.send(&bytes);
    }

    /// A simple reply; `data_len` bytes follow if it is a success.
    pub fn simple(&mut self, data_len: usize) -> RawReply {
        let head = self.take(16);
        assert_eq!(head[..4], [0x67, 0x44, 0x66, 0x98]);
        let errno = u32::from_be_bytes(head[4..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
        let data = if errno == 0 { self.take(data_len) } else { Vec::new() };
        RawReply { cookie, errno, data }
    }

    /// A structured reply of one chunk: its type beside the reply.
    pub fn structured(&mut self) -> (u16, RawReply) {
        let head = self.take(20);
        assert_eq!(head[..6], [0x66, 0x8e, 0x33, 0xef, 0, 1], "one chunk, the last");
        let kind = u16::from_be_bytes(head[6..8].try_into().unwrap());
        let cookie = u64::from_be_bytes(head[8..16].try_into().unwrap());
        let mut data = self.take(u32::from_be_bytes(head[16..].try_into().unwrap()) as usize);
        let mut errno = 0;
        if kind & 0x8000 != 0 {
            errno = u32::from_be_bytes(data[..4].try_into().unwrap());
            data.drain(..6);
        }
        (kind, RawReply { cookie, errno, data })
    }
}
