//! What queues promise beyond moving bytes: continuing, failing, waking, letting go, and ending safely.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use uraid_device::{
    Completion, Counting, Device, DeviceError, DeviceInfo, Fault, Faulty, FileDevice, Io, IoOp, MemoryDevice, OpenOptions,
    Operation, Pool, Queue, ReadOnly, RingQueue,
};

use crate::support::{disk, kind, memory, queues};

const MIB: u64 = 1 << 20;

/// A member that is a pipe: it gives what was written to it, in pieces as they come, and makes a reader wait.
struct Pipe {
    info: DeviceInfo,
    reader: PipeReader,
}

fn pipe() -> (Arc<Pipe>, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let info = MemoryDevice::new("pipe", MIB, 512).info().clone();
    (Arc::new(Pipe { info, reader }), writer)
}

impl Device for Pipe {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn read_at(&self, _: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        std::io::Read::read_exact(&mut &self.reader, into)
            .map_err(|source| DeviceError::at("pipe", Operation::Read, 0, into.len() as u64, source))
    }
    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        panic!("this back end is broken")
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn zero(&self, _: u64, _: u64, _: bool) -> Result<(), DeviceError> {
        panic!("this back end is broken")
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.reader.as_fd())
    }
}

fn ring() -> Option<RingQueue> {
    RingQueue::new(16).map_err(|error| eprintln!("SKIPPED: io_uring: {error}")).ok()
}

fn read(token: u64, member: usize, offset_bytes: u64, pool: &Pool, len: usize) -> Io {
    Io { token, member, op: IoOp::Read { offset_bytes, into: pool.take(len) } }
}

fn write(token: u64, member: usize, offset_bytes: u64, pool: &Pool, bytes: &[u8]) -> Io {
    Io { token, member, op: IoOp::Write { offset_bytes, from: vec![pool.copy(bytes)] } }
}

fn wait_for(queue: &mut dyn Queue, count: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    while done.len() < count {
        queue.wait(None, &mut done);
    }
    done
}

fn one(queue: &mut dyn Queue, io: Io) -> Completion {
    queue.submit(io);
    wait_for(queue, 1).remove(0)
}

#[test]
fn a_short_transfer_is_continued() {
    let Some(mut ring) = ring() else { return };
    let (member, mut writer) = pipe();
    let member = ring.add(member);
    let pool = Pool::new(0);
    ring.submit(read(1, member, 0, &pool, 4096));
    let mut done = Vec::new();
    for piece in 0..8_u8 {
        ring.wait(Some(Duration::ZERO), &mut done);
        assert!(done.is_empty(), "{piece} of 8 pieces are not all");
        writer.write_all(&[piece; 512]).unwrap();
    }
    let Completion { op: IoOp::Read { into, .. }, result: Ok(()), .. } = wait_for(&mut ring, 1).remove(0) else { panic!() };
    assert!(into.chunks(512).enumerate().all(|(number, piece)| piece == [number as u8; 512]));

    ring.submit(read(2, member, 0, &pool, 4096));
    writer.write_all(&[1; 1000]).unwrap();
    drop(writer);
    assert_eq!(kind(wait_for(&mut ring, 1).remove(0).result), ErrorKind::UnexpectedEof);
}

#[test]
fn what_the_kernel_has_outlives_the_queue() {
    let Some(mut ring) = ring() else { return };
    let (device, mut writer) = pipe();
    let member = ring.add(Arc::clone(&device) as Arc<dyn Device>);
    let pool = Pool::new(0);
    ring.submit(read(1, member, 0, &pool, 4096));
    ring.wait(Some(Duration::ZERO), &mut Vec::new());
    let dropping = std::thread::spawn(move || drop(ring));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!dropping.is_finished() && pool.outstanding_bytes() == 4096, "the kernel may still write this buffer");
    writer.write_all(&[1; 4096]).unwrap();
    dropping.join().unwrap();
    assert_eq!((pool.outstanding_bytes(), Arc::strong_count(&device)), (0, 1));
}

#[test]
fn a_dropped_queue_ends_what_it_took() {
    let place = disk();
    for (name, mut queue) in queues() {
        let path = place.path().join(name);
        FileDevice::create_sparse(&path, 4 * MIB, false).unwrap();
        let file = Arc::new(FileDevice::open(&path, OpenOptions::own()).unwrap());
        let under = Arc::new(MemoryDevice::new("m", 4 * MIB, 512));
        let members = [queue.add(file), queue.add(Arc::clone(&under) as Arc<dyn Device>)];
        let pool = Pool::new(0);
        for number in 0..512_u64 {
            let member = members[number as usize % 2];
            queue.submit(write(number, member, number / 2 * 4096, &pool, &[1 + (number / 2 % 255) as u8; 4096]));
        }
        drop(queue);
        assert_eq!(pool.outstanding_bytes(), 0);
        let mut back = vec![0; MIB as usize];
        under.read_at(0, &mut back).unwrap();
        let whole =
            |bytes: &[u8]| bytes.chunks(4096).enumerate().all(|(number, block)| block == [1 + (number % 255) as u8; 4096]);
        assert!(whole(&back), "{name}");
        assert!(whole(&std::fs::read(&path).unwrap()[..MIB as usize]), "{name}");
    }
}

#[test]
fn a_queue_goes_on_when_the_thread_that_began_has_ended() {
    let Some(mut ring) = ring() else { return };
    let (member, mut writer) = pipe();
    let member = ring.add(member);
    let pool = Pool::new(0);
    let io = read(1, member, 0, &pool, 512);
    let begin = std::thread::spawn(move || {
        ring.submit(io);
        ring.wait(Some(Duration::ZERO), &mut Vec::new());
        ring
    });
    let mut ring = begin.join().unwrap();
    writer.write_all(&[5; 512]).unwrap();
    let done = wait_for(&mut ring, 1).remove(0);
    assert!(done.result.is_ok() && matches!(done.op, IoOp::Read { into, .. } if into[..] == [5; 512]));
    let waker = ring.waker();
    waker.wake();
    ring.wait(None, &mut Vec::new());
}

#[test]
fn wakers_end_a_wait_and_timeouts_too() {
    for (name, mut queue) in queues() {
        let waker = queue.waker();
        let mut done = Vec::new();
        queue.wait(Some(Duration::ZERO), &mut done);
        queue.wait(Some(Duration::from_millis(1)), &mut done);
        waker.wake();
        queue.wait(None, &mut done);
        for _ in 0..50 {
            let waker = waker.clone();
            let thread = std::thread::spawn(move || waker.wake());
            queue.wait(None, &mut done);
            thread.join().unwrap();
        }
        assert!(done.is_empty(), "{name}");
        drop(queue);
        waker.wake();
    }
}

#[test]
fn a_removed_member_ends_what_it_has_and_takes_no_more() {
    let place = memory();
    for (name, mut queue) in queues() {
        let path = place.path().join(name);
        FileDevice::create_sparse(&path, MIB, false).unwrap();
        let file = Arc::new(FileDevice::open(&path, OpenOptions::own()).unwrap());
        let counted = Arc::new(Counting::new(Arc::new(MemoryDevice::new("counted", MIB, 512))));
        let pool = Pool::new(0);
        let first = queue.add(Arc::clone(&file) as Arc<dyn Device>);
        let second = queue.add(Arc::clone(&counted) as Arc<dyn Device>);
        for number in 0..32 {
            queue.submit(write(number, first, number * 512, &pool, &[1; 512]));
            queue.submit(write(number, second, number * 512, &pool, &[1; 512]));
        }
        queue.remove(first);
        queue.remove(second);
        assert_eq!(queue.in_flight(), 64);
        assert!(wait_for(queue.as_mut(), 64).iter().all(|done| done.result.is_ok()), "{name}");
        for member in [first, second, 99] {
            let refused = one(queue.as_mut(), read(7, member, 0, &pool, 512));
            assert_eq!((refused.token, refused.member), (7, member));
            assert_eq!(kind(refused.result), ErrorKind::NotConnected);
            assert!(matches!(refused.op, IoOp::Read { into, .. } if into.len() == 512), "the buffer comes back");
        }
        let third = queue.add(Arc::new(MemoryDevice::new("m", MIB, 512)));
        assert!(third != first && third != second, "indices are not used again");
        drop(queue);
        assert_eq!((Arc::strong_count(&file), Arc::strong_count(&counted)), (1, 1), "{name} lets go of its members");
    }
}

#[test]
fn failures_come_back_with_their_member_and_place() {
    let place = disk();
    for (name, mut queue) in queues() {
        let path = place.path().join(name);
        FileDevice::create_sparse(&path, MIB, false).unwrap();
        let file: Arc<dyn Device> = Arc::new(FileDevice::open(&path, OpenOptions::own()).unwrap());
        let faulty = Faulty::new(Arc::new(MemoryDevice::new("faulty", MIB, 512)));
        faulty.control().add(Fault::bad_sectors(4096..4608));
        let pool = Pool::new(0);
        let looked = queue.add(Arc::new(ReadOnly::new(Arc::clone(&file))));
        let cut = queue.add(file);
        let faulty = queue.add(Arc::new(faulty));
        File::options().write(true).open(&path).unwrap().set_len(8192).unwrap();

        let queue = queue.as_mut();
        assert!(one(queue, read(0, cut, 4096, &pool, 4096)).result.is_ok());
        let error = one(queue, read(1, cut, 4096, &pool, 65536)).result.unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::UnexpectedEof);
        assert_eq!((error.offset_bytes, error.len_bytes, error.name.as_str()), (4096, 65536, path.to_str().unwrap()));
        assert_eq!(kind(one(queue, read(2, cut, MIB, &pool, 512)).result), ErrorKind::UnexpectedEof);
        assert_eq!(kind(one(queue, read(3, cut, 100, &pool, 512)).result), ErrorKind::InvalidInput);
        assert_eq!(kind(one(queue, write(4, looked, 0, &pool, &[0; 512])).result), ErrorKind::ReadOnlyFilesystem);
        assert!(one(queue, Io { token: 5, member: looked, op: IoOp::Flush }).result.is_ok());
        let error = one(queue, read(6, faulty, 0, &pool, 8192)).result.unwrap_err();
        assert_eq!((error.source.raw_os_error(), error.name.as_str()), (Some(libc::EIO), "faulty"));
        assert!(one(queue, write(7, faulty, 4096, &pool, &[1; 512])).result.is_ok());
        assert!(one(queue, read(8, faulty, 0, &pool, 8192)).result.is_ok());
        assert!(one(queue, read(9, cut, 0, &pool, 0)).result.is_ok(), "nothing is soon done");
    }
}

#[test]
fn a_back_end_that_panics_is_a_member_that_fails() {
    for (name, mut queue) in queues() {
        let (member, _writer) = pipe();
        let member = queue.add(member);
        let done = one(queue.as_mut(), Io { token: 1, member, op: IoOp::Zero { offset_bytes: 0, len_bytes: 512, hole: true } });
        assert!(done.result.unwrap_err().to_string().contains("panicked"), "{name}");
    }
}

#[test]
fn a_write_of_many_parts_is_one_write() {
    let place = disk();
    for (name, mut queue) in queues() {
        let path = place.path().join(name);
        FileDevice::create_sparse(&path, 4 * MIB, false).unwrap();
        let counted = Counting::new(Arc::new(MemoryDevice::new("counted", 4 * MIB, 512)));
        let counters = counted.counters();
        let pool = Pool::new(0);
        let counted = queue.add(Arc::new(counted));
        let file = queue.add(Arc::new(FileDevice::open(&path, OpenOptions::own()).unwrap()));
        // More parts than the kernel takes at once.
        let from: Vec<_> = (0..2500_usize).map(|number| pool.copy(&[(number % 253) as u8; 512])).collect();
        for member in [counted, file] {
            assert!(
                one(queue.as_mut(), Io { token: 0, member, op: IoOp::Write { offset_bytes: 512, from: from.clone() } })
                    .result
                    .is_ok()
            );
        }
        assert_eq!((counters.get().writes, counters.get().written_bytes), (1, 2500 * 512));
        let bytes = std::fs::read(&path).unwrap();
        let right = |(number, block): (usize, &[u8])| block == [(number % 253) as u8; 512];
        assert!(bytes[512..].chunks(512).take(2500).enumerate().all(right), "{name}");
    }
}

#[test]
fn one_buffer_goes_to_several_members_and_comes_back() {
    for (name, mut queue) in queues() {
        let devices: Vec<_> = (0..4).map(|number| Arc::new(MemoryDevice::new(format!("m{number}"), MIB, 512))).collect();
        let pool = Pool::new(0);
        let shared = pool.copy(&[6; 4096]);
        for device in &devices {
            let member = queue.add(Arc::clone(device) as Arc<dyn Device>);
            queue.submit(Io { token: 0, member, op: IoOp::Write { offset_bytes: 0, from: vec![shared.clone()] } });
        }
        let done = wait_for(queue.as_mut(), 4);
        let shared = shared.into_buf().expect_err("the completions hold parts");
        drop(done);
        assert!(shared.into_buf().is_ok(), "{name}");
        for device in devices {
            let mut back = [0; 4096];
            device.read_at(0, &mut back).unwrap();
            assert_eq!(back, [6; 4096]);
        }
    }
}
