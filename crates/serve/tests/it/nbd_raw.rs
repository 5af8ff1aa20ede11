//! The NBD server against hand-made bytes: the odd cases that real clients do not send.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use uraid_serve::{Listen, MemoryTarget, NbdLimits, NbdOptions, NbdServer, Request, ServeError, Target};

use crate::support::{Gated, Raw, RawReply, eventually, pattern};

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const ZERO: u16 = 6;
const STATUS: u16 = 7;
const FUA: u16 = 1;

struct Served {
    gated: Arc<Gated>,
    server: NbdServer,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

fn served_with(limits: NbdLimits) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd");
    let gated = Gated::new(4 << 20, 512);
    let options = NbdOptions { name: "md0".into(), limits, ..NbdOptions::default() };
    let server = NbdServer::start(Arc::clone(&gated) as Arc<dyn Target>, Listen::Unix(path.clone()), options).unwrap();
    Served { gated, server, path, _dir: dir }
}

fn served() -> Served {
    served_with(NbdLimits { stop: Duration::from_secs(20), ..NbdLimits::default() })
}

fn ok(cookie: u64) -> RawReply {
    RawReply { cookie, errno: 0, data: Vec::new() }
}

fn failed(cookie: u64, errno: u32) -> RawReply {
    RawReply { cookie, errno, data: Vec::new() }
}

#[test]
fn bytes_go_in_and_come_out_at_any_offset() {
    let served = served();
    let mut raw = Raw::ready(&served.path, false);
    let bytes = pattern(3000, 1);
    raw.request(WRITE, FUA, 1, 12345, 3000);
    raw.send(&bytes);
    assert_eq!(raw.simple(0), ok(1));
    raw.request(READ, 0, 2, 12345, 3000);
    assert_eq!(raw.simple(3000).data, bytes);
    assert_eq!(served.gated.memory.contents()[12345..15345], bytes);
    assert!(served.gated.seen().iter().any(|request| matches!(request, Request::Write { fua: true, .. })));
}

#[test]
fn replies_come_as_they_are_ready() {
    let served = served();
    let mut raw = Raw::ready(&served.path, false);
    served.gated.close();
    (0..4).for_each(|cookie| raw.request(READ, 0, cookie, cookie * 512, 512));
    served.gated.wait_held(4);
    served.gated.run_one(true);
    assert_eq!(raw.simple(512).cookie, 3);
    served.gated.run_one(false);
    assert_eq!(raw.simple(512).cookie, 0);
    served.gated.open();
    assert_eq!([raw.simple(512).cookie, raw.simple(512).cookie], [1, 2]);
}

#[test]
fn a_request_that_the_target_loses_fails() {
    let served = served();
    let mut raw = Raw::ready(&served.path, false);
    served.gated.close();
    raw.request(WRITE, 0, 1, 0, 512);
    raw.send(&[1; 512]);
    served.gated.wait_held(1);
    served.gated.forget_one();
    assert_eq!(raw.simple(0), failed(1, 5));
    // Nothing of it is left in the way of the next.
    served.gated.open();
    raw.request(WRITE, 0, 2, 100, 10);
    raw.send(&[2; 10]);
    assert_eq!(raw.simple(0), ok(2));
}

#[test]
fn structured_replies_carry_offsets_extents_and_messages() {
    let served = served();
    let mut raw = Raw::ready(&served.path, true);
    raw.request(READ, 4, 1, 1024, 512);
    let (kind, reply) = raw.structured();
    assert_eq!((kind, reply.cookie, reply.data.len()), (1, 1, 520));
    assert_eq!(reply.data[..8], 1024u64.to_be_bytes());
    raw.request(STATUS, 8, 2, 0, 1 << 20);
    assert_eq!(raw.structured(), (5, RawReply { cookie: 2, errno: 0, data: [0, 0, 0, 1, 0, 0x10, 0, 0, 0, 0, 0, 0].into() }));
    *served.gated.fail.lock().unwrap() = Some(libc::ENOSPC);
    raw.request(READ, 0, 3, 0, 512);
    assert_eq!(raw.structured(), (0x8001, RawReply { cookie: 3, errno: 28, data: b"made to fail".into() }));
}

#[test]
fn errors_have_their_numbers_and_the_connection_lives_on() {
    let served = served();
    let mut raw = Raw::ready(&served.path, false);
    let end = 4 << 20;
    for (command, flags, offset, len, errno) in [
        (READ, 0, end - 1, 2, 22),
        (ZERO, 0, end, 1, 28),
        (TRIM, 0, u64::MAX, 1, 28),
        (99, 0, 0, 0, 22),
        (READ, 1 << 9, 0, 512, 22),
        (FLUSH, 0, 0, 512, 22),
        (STATUS, 0, 0, 512, 22),
        (READ, 0, 0, (32 << 20) + 1, 22),
    ] {
        raw.request(command, flags, 5, offset, len);
        assert_eq!(raw.simple(0), failed(5, errno), "{command} {flags} {offset} {len}");
    }
    raw.request(WRITE, 0, 6, end - 512, 1024);
    raw.send(&[1; 1024]);
    assert_eq!(raw.simple(0), failed(6, 28));
    for (errno, on_wire) in [(libc::EIO, 5), (libc::EROFS, 1), (libc::ENXIO, 5), (libc::EOPNOTSUPP, 22)] {
        *served.gated.fail.lock().unwrap() = Some(errno);
        raw.request(FLUSH, 0, 7, 0, 0);
        assert_eq!(raw.simple(0), failed(7, on_wire));
    }
    *served.gated.fail.lock().unwrap() = None;
    raw.request(READ, 0, 8, 0, 512);
    assert_eq!(raw.simple(512).errno, 0);
}

#[test]
fn an_oversize_write_is_refused_and_its_payload_is_not_taken_for_requests() {
    let served = served_with(NbdLimits { payload_bytes: 4096, ..NbdLimits::default() });
    let mut raw = Raw::ready(&served.path, false);
    raw.request(WRITE, 0, 1, 0, 8192);
    raw.send(&[0xff; 8192]);
    assert_eq!(raw.simple(0), failed(1, 22));
    raw.request(WRITE, 0, 2, 0, 1 << 30);
    assert!(raw.ended(), "a payload far beyond the limit ends the connection");
    assert_eq!(served.gated.memory.contents()[..8192], [0; 8192]);
}

#[test]
fn zeroing_trimming_caching_and_flushing_reach_the_target() {
    let served = served();
    let mut raw = Raw::ready(&served.path, false);
    raw.request(ZERO, FUA | 2, 1, 0, 4096);
    assert_eq!(raw.simple(0), ok(1));
    raw.request(TRIM, 0, 2, 0, 4096);
    assert_eq!(raw.simple(0), ok(2));
    raw.request(FLUSH, 0, 3, 0, 0);
    assert_eq!(raw.simple(0), ok(3));
    raw.request(CACHE, 0, 4, 0, 4 << 20);
    assert_eq!(raw.simple(0), ok(4));
    let seen = served.gated.seen();
    assert!(matches!(seen[0], Request::Zero { offset: 0, len: 4096, fua: true, may_trim: false, fast_only: false }));
    assert!(matches!(seen[1], Request::Trim { offset: 0, len: 4096, fua: false }));
    assert!(matches!(seen[2], Request::Flush));
    let cached: u64 = seen[3..].iter().map(|seen| if let Request::Read { len, .. } = seen { u64::from(*len) } else { 0 }).sum();
    assert_eq!(cached, 4 << 20);
    served.gated.slow_zero.store(true, Ordering::SeqCst);
    raw.request(ZERO, 16, 5, 0, 4096);
    assert_eq!(raw.simple(0), failed(5, 95));
    *served.gated.fail.lock().unwrap() = Some(libc::EOPNOTSUPP);
    raw.request(TRIM, 0, 6, 0, 4096);
    assert_eq!(raw.simple(0), ok(6));
}

#[test]
fn a_read_only_target_refuses_writes_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd");
    let target = Arc::new(MemoryTarget::new(1 << 20, 4096).into_read_only());
    let _server = NbdServer::start(target, Listen::Unix(path.clone()), NbdOptions::default()).unwrap();
    let mut raw = Raw::connect(&path);
    raw.take(18);
    raw.send(&3u32.to_be_bytes());
    raw.option(1, b"");
    let export = raw.take(10);
    assert_eq!(export[..8], (1u64 << 20).to_be_bytes());
    assert_eq!(export[9] & 2, 2, "the flag READ_ONLY");
    raw.request(WRITE, 0, 1, 0, 512);
    raw.send(&[1; 512]);
    assert_eq!(raw.simple(0), failed(1, 1));
    raw.request(ZERO, 0, 2, 0, 512);
    assert_eq!(raw.simple(0), failed(2, 1));
}

#[test]
fn a_dropped_connection_leaves_nothing_half_done() {
    let served = served();
    served.gated.close();
    let mut raw = Raw::ready(&served.path, false);
    for at in 0..8 {
        raw.request(WRITE, 0, at, at * 1024, 1024);
        raw.send(&[at as u8 + 1; 1024]);
    }
    served.gated.wait_held(8);
    // A ninth one breaks off in its payload.
    raw.request(WRITE, 0, 9, 8192, 1024);
    raw.send(&[9; 700]);
    drop(raw);
    served.gated.open();
    eventually("the connection ends", || served.server.connections() == 0);
    let contents = served.gated.memory.contents();
    for at in 0..8 {
        assert_eq!(contents[at * 1024..][..1024], [at as u8 + 1; 1024]);
    }
    assert_eq!(contents[8192..9216], [0; 1024], "what did not come whole was not begun");
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let served = served();
    served.gated.close();
    let mut raw = Raw::ready(&served.path, false);
    raw.request(READ, 0, 1, 0, 512);
    raw.request(DISC, 0, 2, 0, 0);
    raw.0.shutdown(std::net::Shutdown::Write).unwrap();
    served.gated.wait_held(1);
    served.gated.open();
    assert_eq!(raw.simple(512).cookie, 1);
    assert!(raw.ended());
}

#[test]
fn more_requests_than_may_be_in_flight_wait_in_the_socket() {
    let limits = NbdLimits { requests_per_connection: 4, ..NbdLimits::default() };
    let served = served_with(limits);
    served.gated.close();
    let mut raw = Raw::ready(&served.path, false);
    (0..50).for_each(|cookie| raw.request(READ, 0, cookie, 0, 512));
    served.gated.wait_held(4);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(served.gated.held(), 4, "the fifth is not taken");
    served.gated.run_one(false);
    assert_eq!(raw.simple(512).cookie, 0);
    served.gated.wait_held(4);
    served.gated.open();
    (1..50).for_each(|cookie| assert_eq!(raw.simple(512).cookie, cookie));
}

#[test]
fn bytes_in_flight_are_limited_over_all_connections() {
    let limits = NbdLimits { bytes: 2 << 20, ..NbdLimits::default() };
    let served = served_with(limits);
    served.gated.close();
    let mut clients: Vec<Raw> = (0..4).map(|_| Raw::ready(&served.path, false)).collect();
    clients.iter_mut().for_each(|raw| raw.request(READ, 0, 1, 0, 1 << 20));
    served.gated.wait_held(2);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(served.gated.held(), 2);
    served.gated.open();
    clients.iter_mut().for_each(|raw| assert_eq!(raw.simple(1 << 20).errno, 0));
}

#[test]
fn garbage_ends_the_connection_and_not_the_server() {
    let served = served();
    for wrong in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0xff; 64], b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff"]
    {
        let mut raw = Raw::connect(&served.path);
        raw.take(18);
        raw.send(wrong);
        assert!(raw.ended());
    }
    let mut raw = Raw::ready(&served.path, false);
    raw.send(&[0x42; 28]);
    assert!(raw.ended(), "a request without its magic number");
    let mut raw = Raw::ready(&served.path, false);
    raw.request(READ, 0, 1, 0, 512);
    assert_eq!(raw.simple(512).errno, 0);
}

#[test]
fn a_client_that_says_nothing_is_dropped_after_the_handshake_time() {
    let limits = NbdLimits { handshake: Duration::from_millis(50), stall: Duration::from_millis(50), ..NbdLimits::default() };
    let served = served_with(limits);
    let mut silent = Raw::connect(&served.path);
    let mut ready = Raw::ready(&served.path, false);
    silent.take(18);
    assert!(silent.ended());
    // Between requests silence is allowed; within one it is not.
    std::thread::sleep(Duration::from_millis(120));
    ready.request(READ, 0, 1, 0, 512);
    assert_eq!(ready.simple(512).errno, 0);
    ready.send(&[0x25, 0x60]);
    assert!(ready.ended());
}

#[test]
fn one_connection_too_many_is_closed() {
    let served = served_with(NbdLimits { connections: 2, ..NbdLimits::default() });
    let first = Raw::ready(&served.path, false);
    let _second = Raw::ready(&served.path, false);
    assert!(Raw::connect(&served.path).ended());
    assert_eq!(served.server.connections(), 2);
    drop(first);
    eventually("a place is free", || served.server.connections() == 1);
    Raw::ready(&served.path, false);
}

#[test]
fn stopping_lets_what_is_in_flight_end_and_refuses_what_comes_later() {
    let Served { gated, mut server, path, _dir } = served();
    gated.close();
    let mut raw = Raw::ready(&path, true);
    raw.request(WRITE, 0, 1, 0, 512);
    raw.send(&[7; 512]);
    gated.wait_held(1);
    let stopping = std::thread::spawn(move || server.stop());
    eventually("the socket is unlinked", || !path.exists());
    raw.request(READ, 0, 2, 0, 512);
    let (_, refused) = raw.structured();
    assert_eq!((refused.cookie, refused.errno), (2, 108));
    assert!(!stopping.is_finished(), "the write is still held");
    gated.open();
    assert_eq!(raw.simple(0), ok(1));
    assert!(raw.ended());
    assert!(stopping.join().unwrap());
    assert_eq!(gated.memory.contents()[..512], [7; 512]);
}

#[test]
fn stopping_does_not_wait_for_ever() {
    let Served { gated, mut server, path, _dir } =
        served_with(NbdLimits { stop: Duration::from_millis(50), ..NbdLimits::default() });
    gated.close();
    let mut raw = Raw::ready(&path, false);
    raw.request(READ, 0, 1, 0, 512);
    gated.wait_held(1);
    assert!(!server.stop());
    assert!(raw.ended());
    gated.open();
}

#[test]
fn sockets_are_private_replace_dead_ones_and_spare_living_ones() {
    let served = served();
    let path = served.path.clone();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let start = |path: &PathBuf| {
        NbdServer::start(Arc::new(MemoryTarget::new(4096, 512)), Listen::Unix(path.clone()), NbdOptions::default())
    };
    assert!(matches!(start(&path), Err(ServeError::SocketInUse { .. })));
    drop(served.server);
    assert!(!path.exists());
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists() && UnixStream::connect(&path).is_err(), "a dead socket");
    drop(start(&path).unwrap());
    std::fs::write(&path, "mine").unwrap();
    assert!(matches!(start(&path), Err(ServeError::NotASocket { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    let long = path.join("x".repeat(120));
    assert!(matches!(start(&long), Err(ServeError::Listen { .. })));
}

#[test]
fn other_machines_are_refused_without_leave() {
    let start = |address: &str, allow_remote| {
        let options = NbdOptions { allow_remote, ..NbdOptions::default() };
        NbdServer::start(Arc::new(MemoryTarget::new(4096, 512)), address.parse().unwrap(), options)
    };
    assert!(matches!(start("0.0.0.0:0", false), Err(ServeError::RemoteRefused { .. })));
    let local = start("localhost:0", false).unwrap();
    let Listen::Tcp(address) = local.address() else { panic!("it is TCP") };
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    assert!(start("0.0.0.0:0", true).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_bytes_after_the_handshake_never_stop_the_server(bytes in prop::collection::vec(any::<u8>(), 0..400),
                                                              commands in prop::collection::vec(0u16..12, 0..6)) {
        let served = served_with(NbdLimits { connections: 4, ..NbdLimits::default() });
        let mut raw = Raw::ready(&served.path, true);
        for command in commands {
            if command != WRITE && command != DISC {
                raw.request(command, 0, 1, 0, 64);
            }
        }
        // The server may have closed already.
        let _ = raw.0.write_all(&bytes);
        drop(raw);
        let mut raw = Raw::ready(&served.path, false);
        raw.request(READ, 0, 1, 0, 512);
        prop_assert_eq!(raw.simple(512).errno, 0);
    }
}
