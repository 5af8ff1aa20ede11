//! NBD clients that mean no good, many at once: the server stays up, others are served meanwhile, and nothing is left behind.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use uraid_serve::{ByteTarget, Listen, MemoryTarget, NbdLimits, NbdOptions, NbdServer, Request, Target};

use crate::support::{PATIENCE, Raw, eventually, pattern};

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

const SIZE: u64 = 8 << 20;
/// What well-behaved clients have for themselves: the last MiB.
const OWN: u64 = 7 << 20;

/// Long enough that a test which waits for it never ends.
const FOR_EVER: Duration = Duration::from_secs(3600);

struct Served {
    server: NbdServer,
    target: Arc<MemoryTarget>,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

fn served(limits: NbdLimits) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd");
    let target = Arc::new(MemoryTarget::new(SIZE, 4096));
    let options = NbdOptions { name: "md0".into(), limits, ..NbdOptions::default() };
    let server = NbdServer::start(Arc::clone(&target) as Arc<dyn Target>, Listen::Unix(path.clone()), options).unwrap();
    Served { server, target, path, _dir: dir }
}

impl Served {
    /// Everybody is gone, and all that they held is free.
    fn is_left_alone(&self) -> bool {
        self.server.connections() == 0 && self.server.in_flight() == (0, 0) && self.server.payload_bytes() == 0
    }
}

/// Writes and reads back, all of it right.
fn behave(raw: &mut Raw, round: u64) {
    let bytes = pattern(5000, round + 1);
    let offset = OWN + (round * 4999) % (SIZE - OWN - 5000);
    raw.request(WRITE, 0, 1, offset, 5000);
    raw.send(&bytes);
    assert_eq!(raw.simple(0).errno, 0);
    raw.request(READ, 0, 2, offset, 5000);
    assert_eq!(raw.simple(5000).data, bytes);
}

/// Makes room for `count` more open files.
fn allow_files(count: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.current.max(Some(count)).min(limit.maximum.or(Some(u64::MAX)));
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn a_thousand_connections_that_say_nothing_keep_nobody_out() {
    allow_files(4096);
    let served = served(NbdLimits { handshake: FOR_EVER, stall: FOR_EVER, ..NbdLimits::default() });
    let mut early = Raw::ready(&served.path, false);
    let silent: Vec<UnixStream> = (0..1000).map(|_| UnixStream::connect(&served.path).unwrap()).collect();
    behave(&mut early, 0);
    behave(&mut Raw::ready(&served.path, false), 1);
    drop((silent, early));
    eventually("all are forgotten", || served.is_left_alone());
}

#[test]
fn those_who_take_no_replies_keep_nobody_waiting() {
    let limits = NbdLimits { bytes: 16 << 20, stall: FOR_EVER, stop: FOR_EVER, ..NbdLimits::default() };
    let mut served = served(NbdLimits { last_replies: Duration::from_millis(10), ..limits });
    let mut greedy: Vec<Raw> = (0..4).map(|_| Raw::ready(&served.path, false)).collect();
    for raw in &mut greedy {
        (0..32).for_each(|cookie| raw.request(READ, 0, cookie, 0, 4 << 20));
    }
    eventually("all that may be in flight is", || served.server.in_flight().1 >= 16 << 20);
    let mut good = Raw::ready(&served.path, false);
    (0..20).for_each(|round| behave(&mut good, round));
    assert!(served.server.stop(), "what the target was asked for has ended, and nobody is waited for");
    assert!(served.is_left_alone());
}

#[test]
fn a_payload_that_never_comes_keeps_nobody_waiting() {
    let limits = NbdLimits { bytes: 16 << 20, stall: FOR_EVER, stop: FOR_EVER, ..NbdLimits::default() };
    let mut served = served(NbdLimits { last_replies: Duration::from_millis(10), ..limits });
    let mut stuck: Vec<Raw> = (0..4).map(|_| Raw::ready(&served.path, false)).collect();
    for raw in &mut stuck {
        raw.request(WRITE, 0, 1, 0, 4 << 20);
        raw.send(&[7; 1000]);
    }
    eventually("all wait for their payloads", || served.server.payload_bytes() >= 16 << 20);
    let mut good = Raw::ready(&served.path, false);
    (0..20).for_each(|round| behave(&mut good, round));
    assert!(served.server.stop());
    assert_eq!(served.target.contents()[..4 << 20], vec![0; 4 << 20], "what did not come whole was not begun");
}

/// One hostile client, as `dice` has it.
fn misbehave(path: &Path, mut dice: fastrand::Rng) {
    let Ok(mut stream) = UnixStream::connect(path) else { return };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let noise = |dice: &mut fastrand::Rng, len: usize| -> Vec<u8> { (0..len).map(|_| dice.u8(..)).collect() };
    let option = |number: u32, data: &[u8]| -> Vec<u8> {
        let len = u32::try_from(data.len()).unwrap();
        [b"IHAVEOPT".as_slice(), &number.to_be_bytes(), &len.to_be_bytes(), data].concat()
    };
    let mut bytes = vec![0, 0, 0, dice.u8(0..4)];
    match dice.u8(0..6) {
        0 => return,
        1 => bytes = noise(&mut dice, 100),
        2 => (0..dice.u32(..300)).for_each(|_| bytes.extend(option(3, b""))),
        3 => bytes.extend([option(10, &noise(&mut Clone::clone(&dice), 60)), option(dice.u32(..), b"x")].concat()),
        4 => bytes.extend([b"IHAVEOPT".as_slice(), &7u32.to_be_bytes(), &u32::MAX.to_be_bytes()].concat()),
        _ => {
            bytes = vec![0, 0, 0, 3];
            bytes.extend(option(7, b"\0\0\0\0\0\0"));
            for cookie in 0..dice.u64(1..40) {
                let (command, len) = (dice.u16(0..9), dice.choice([0, 1, 511, 512, 4096, 70_000, 1 << 20, 1 << 30, u32::MAX]));
                // The last MiB is not theirs.
                let (offset, len) = match dice.choice([0, 1, 4096, 1 << 20, u64::MAX, SIZE]) {
                    Some(offset) if offset >= SIZE => (offset, len.unwrap_or(0)),
                    offset => (offset.unwrap_or(0), len.unwrap_or(0).min((OWN - (1 << 20)) as u32)),
                };
                bytes.extend(0x2560_9513_u32.to_be_bytes());
                bytes.extend(dice.choice([0u16, 1, 2, 1 << 9, u16::MAX]).unwrap_or(0).to_be_bytes());
                bytes.extend(command.to_be_bytes());
                bytes.extend(cookie.to_be_bytes());
                bytes.extend(offset.to_be_bytes());
                bytes.extend(len.to_be_bytes());
                if command == WRITE && dice.bool() {
                    bytes.extend(vec![cookie as u8; len.min(1 << 20) as usize]);
                }
            }
        }
    }
    if dice.bool() {
        bytes.truncate(dice.usize(..=bytes.len()));
    }
    // The server may end it at any byte.
    let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
    let _ = stream.write_all(&bytes);
    match dice.u8(0..4) {
        0 => drop(stream),
        1 => {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut (&stream).take(1 << 20), &mut std::io::sink());
        }
        2 => {
            let _ = stream.shutdown(std::net::Shutdown::Read);
        }
        _ => {
            let _ = (&stream).read(&mut [0; 100]);
        }
    }
}

#[test]
fn a_storm_of_hostile_clients_harms_nobody() {
    let mut served = served(NbdLimits { connections: 48, stall: Duration::from_secs(5), ..NbdLimits::default() });
    let done = AtomicBool::new(false);
    let mut good: Vec<Raw> = (0..2).map(|_| Raw::ready(&served.path, false)).collect();
    std::thread::scope(|scope| {
        let path = &served.path;
        let storm: Vec<_> = (0..8)
            .map(|thread| {
                scope.spawn(move || (0..150).for_each(|round| misbehave(path, fastrand::Rng::with_seed(thread << 32 | round))))
            })
            .collect();
        let (first, second) = good.split_at_mut(1);
        let done = &done;
        let behaving = scope
            .spawn(move || (0..).take_while(|_| !done.load(Ordering::SeqCst)).for_each(|round| behave(&mut first[0], round)));
        let flushing = scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                second[0].request(FLUSH, 0, 1, 0, 0);
                assert_eq!(second[0].simple(0).errno, 0);
            }
        });
        storm.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::SeqCst);
        behaving.join().unwrap();
        flushing.join().unwrap();
    });
    drop(good);
    eventually("all are forgotten", || served.is_left_alone());
    assert!(served.server.stop());
}

/// Writes that overlap at any byte, from many connections at once: each sector ends as one of them left it.
#[test]
fn overlapping_writes_leave_whole_ones() {
    let served = served(NbdLimits::default());
    const LEN: usize = 3000;
    std::thread::scope(|scope| {
        for writer in 0..8u8 {
            let path = &served.path;
            scope.spawn(move || {
                let mut raw = Raw::ready(path, false);
                for round in 0..40 {
                    raw.request(WRITE, 0, round, 1000, LEN as u32);
                    raw.send(&[writer + 1; LEN]);
                    assert_eq!(raw.simple(0).errno, 0);
                }
            });
        }
    });
    let contents = served.target.contents();
    let first = contents[1000];
    assert!((1..=8).contains(&first));
    assert_eq!(contents[1000..1000 + LEN], [first; LEN], "one write came last");
    assert!(contents[..1000].iter().chain(&contents[1000 + LEN..OWN as usize]).all(|&byte| byte == 0));
}

/// Reading all of a large target ahead goes piece by piece, without a stack that grows with it.
#[test]
fn reading_ahead_without_end_needs_no_stack() {
    struct Endless;
    impl Target for Endless {
        fn size_bytes(&self) -> u64 {
            1 << 40
        }
        fn read_only(&self) -> bool {
            true
        }
        fn block_bytes(&self) -> u32 {
            512
        }
        fn preferred_bytes(&self) -> u32 {
            4096
        }
        fn submit(&self, _: Request, reply: uraid_serve::Reply) {
            reply(Ok(Vec::new()));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd");
    let target = ByteTarget::over(Arc::new(Endless));
    let _server = NbdServer::start(target, Listen::Unix(path.clone()), NbdOptions::default()).unwrap();
    let mut raw = Raw::ready(&path, false);
    raw.request(5, 0, 1, 0, 0xffff_fe00);
    assert_eq!(raw.simple(0).errno, 0);
}

/// Open files and threads of this process.
fn held() -> (usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    (count("fd"), count("task"))
}

/// In a process of its own, for others would open files meanwhile.
#[test]
fn no_file_and_no_thread_is_left_behind() {
    const ALONE: &str = "URAID_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "hostile::no_file_and_no_thread_is_left_behind"]).env(ALONE, "1");
        let output = alone.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let mut served = served(NbdLimits { stall: Duration::from_secs(5), ..NbdLimits::default() });
    let before = held();
    for round in 0..400 {
        misbehave(&served.path, fastrand::Rng::with_seed(round));
    }
    eventually("all are forgotten", || served.is_left_alone() && held() == before);
    assert!(served.server.stop());
}
