//! Regular files: what opening finds, refuses and locks, and that bytes arrive.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use uraid_device::{Device, Direct, FileDevice, Io, IoOp, OpenOptions, Operation, Pool};

use crate::support::{allocated_blocks, disk, kind, memory, queues, succeeds};

const MIB: u64 = 1 << 20;

fn owned(path: &Path) -> FileDevice {
    FileDevice::open(path, OpenOptions::own()).unwrap()
}

/// Asks the kernel, without our code, whether it reads this file with O_DIRECT.
fn kernel_reads_directly(path: &Path) -> bool {
    let mut memory = Pool::new(0).take(4096);
    File::options().read(true).custom_flags(libc::O_DIRECT).open(path).is_ok_and(|mut file| file.read(&mut memory).is_ok())
}

#[test]
fn bytes_arrive_in_the_file_whatever_the_cache_and_the_alignment() {
    for (place, direct) in [(disk(), Direct::Auto), (disk(), Direct::No), (memory(), Direct::Auto)] {
        let path = place.path().join("m");
        FileDevice::create_sparse(&path, 4 * MIB, false).unwrap();
        let member = FileDevice::open(&path, OpenOptions { direct, ..OpenOptions::own() }).unwrap();
        let data: Vec<u8> = (0..MIB as usize + 3 * 512 + 1).map(|i| (i % 249) as u8).collect();
        let odd = &data[1..];
        member.write_at(512, odd).unwrap();
        let parts: Vec<&[u8]> = odd.chunks(512).collect();
        member.write_parts_at(2 * MIB, &parts).unwrap();
        member.flush().unwrap();

        let mut back = vec![0; odd.len() + 1];
        member.read_at(512, &mut back[1..]).unwrap();
        assert_eq!(&back[1..], odd);
        let file = fs::read(&path).unwrap();
        assert_eq!(file.len() as u64, 4 * MIB);
        assert_eq!(&file[512..512 + odd.len()], odd);
        assert_eq!(&file[2 * MIB as usize..][..odd.len()], odd);
    }
}

#[test]
fn parts_beyond_what_one_call_takes_arrive_in_order() {
    let place = disk();
    let path = place.path().join("m");
    FileDevice::create_sparse(&path, 4 * MIB, false).unwrap();
    let pool = Pool::new(0);
    let blocks: Vec<_> = (0..2500_usize).map(|i| pool.copy(&[(i % 241) as u8; 512])).collect();
    let parts: Vec<&[u8]> = blocks.iter().map(|block| &block[..]).collect();
    owned(&path).write_parts_at(0, &parts).unwrap();
    let file = fs::read(&path).unwrap();
    assert!(file.chunks(512).take(2500).enumerate().all(|(i, block)| block == [(i % 241) as u8; 512]));
}

#[test]
fn the_page_cache_is_left_out_where_the_kernel_allows_it() {
    let (disk, memory) = (disk(), memory());
    for place in [&disk, &memory] {
        FileDevice::create_sparse(place.path().join("m"), MIB, false).unwrap();
    }
    let on_disk = owned(&disk.path().join("m"));
    assert_eq!(on_disk.info().direct, kernel_reads_directly(&disk.path().join("m")));
    let flags = rustix::fs::fcntl_getfl(on_disk.descriptor().unwrap()).unwrap();
    assert_eq!(flags.contains(rustix::fs::OFlags::DIRECT), on_disk.info().direct);
    let on_tmpfs = owned(&memory.path().join("m"));
    assert!(!on_tmpfs.info().direct && on_tmpfs.in_memory());
    drop(on_tmpfs);
    let demanded = OpenOptions { direct: Direct::Yes, ..OpenOptions::look() };
    assert_eq!(kind(FileDevice::open(memory.path().join("m"), demanded).map(drop)), ErrorKind::Unsupported);
}

#[test]
fn an_owner_keeps_others_out_and_lookers_in() {
    let place = memory();
    let path = place.path().join("m");
    FileDevice::create_sparse(&path, MIB, false).unwrap();
    let owner = owned(&path);
    let refused = FileDevice::open(&path, OpenOptions::own()).map(drop).unwrap_err();
    assert_eq!((refused.operation, refused.source.kind()), (Operation::Open, ErrorKind::ResourceBusy));
    assert!(refused.to_string().contains("m: cannot open: in use"), "{refused}");
    assert_eq!(kind(FileDevice::create_sparse(&path, MIB, true)), ErrorKind::ResourceBusy);
    FileDevice::open(&path, OpenOptions::look()).unwrap();
    let name = path.to_str().unwrap();
    assert!(!succeeds("flock", &["--nonblock", name, "true"]), "another process sees the lock");
    drop(owner);
    assert!(succeeds("flock", &["--nonblock", name, "true"]));
    owned(&path);
}

#[test]
fn to_look_is_to_be_unable_to_write() {
    let place = disk();
    let path = place.path().join("m");
    FileDevice::create_sparse(&path, MIB, false).unwrap();
    let member = FileDevice::open(&path, OpenOptions::look()).unwrap();
    assert!(member.info().read_only);
    assert_eq!(kind(member.write_at(0, &[1; 512])), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(kind(member.write_parts_at(0, &[&[1; 512], &[1; 512]])), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(kind(member.zero(0, 512, true)), ErrorKind::ReadOnlyFilesystem);
    member.flush().unwrap();
    let flags = rustix::fs::fcntl_getfl(member.descriptor().unwrap()).unwrap();
    assert!(!flags.intersects(rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::RDWR));
    assert_eq!(allocated_blocks(&path), 0);
}

#[test]
fn what_is_no_member_is_refused_by_what_it_is() {
    let place = memory();
    let open = |path: &Path| FileDevice::open(path, OpenOptions::own()).map(drop).unwrap_err();
    let directory = open(place.path());
    assert_eq!(directory.source.kind(), ErrorKind::IsADirectory);
    let fifo = place.path().join("fifo");
    assert!(succeeds("mkfifo", &[fifo.to_str().unwrap()]));
    let socket = place.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let character = Path::new("/dev/null");
    for (path, what) in [(&*fifo, "a fifo"), (&*socket, "a socket"), (character, "a character device")] {
        let error = open(path);
        assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(what), "{error}");
        assert!(FileDevice::create_sparse(path, MIB, true).is_err());
    }
    assert_eq!(open(&place.path().join("none")).source.kind(), ErrorKind::NotFound);
}

#[test]
fn one_file_under_several_names_has_one_identity() {
    let place = memory();
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    let (hard, soft) = (place.path().join("hard"), place.path().join("soft"));
    FileDevice::create_sparse(&one, MIB, false).unwrap();
    FileDevice::create_sparse(&other, MIB, false).unwrap();
    fs::hard_link(&one, &hard).unwrap();
    std::os::unix::fs::symlink(&one, &soft).unwrap();
    let identity = |path: &Path| FileDevice::open(path, OpenOptions::look()).unwrap().identity().unwrap();
    assert_eq!(identity(&one), identity(&hard));
    assert_eq!(identity(&one), identity(&soft));
    assert_ne!(identity(&one), identity(&other));
}

#[test]
fn a_sparse_file_is_made_once() {
    let place = disk();
    let path = place.path().join("m");
    FileDevice::create_sparse(&path, 10 << 30, false).unwrap();
    assert_eq!((fs::metadata(&path).unwrap().len(), allocated_blocks(&path)), (10 << 30, 0));
    fs::write(&path, [7; 4096]).unwrap();
    assert_eq!(kind(FileDevice::create_sparse(&path, MIB, false)), ErrorKind::AlreadyExists);
    assert_eq!(fs::metadata(&path).unwrap().len(), 4096, "refused and untouched");
    FileDevice::create_sparse(&path, MIB, true).unwrap();
    assert!(fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn a_sparse_file_that_is_too_large_is_not_left_behind() {
    let place = disk();
    let path = place.path().join("m");
    for size_bytes in [i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(kind(FileDevice::create_sparse(&path, size_bytes, false)), ErrorKind::FileTooLarge);
        assert!(!path.exists());
    }
}

#[test]
fn sizes_are_whole_logical_blocks() {
    let place = disk();
    let path = place.path().join("m");
    fs::write(&path, vec![0; 3 * 4096 + 1000]).unwrap();
    let open = |logical_block_bytes| FileDevice::open(&path, OpenOptions { logical_block_bytes, ..OpenOptions::look() });
    let sizes = |member: FileDevice| (member.info().size_bytes, member.info().logical_block_bytes);
    assert_eq!(sizes(open(None).unwrap()), (3 * 4096 + 512, 512));
    assert_eq!(sizes(open(Some(4096)).unwrap()), (3 * 4096, 4096));
    assert_eq!(kind(open(Some(1024)).map(drop)), ErrorKind::InvalidInput);
    assert_eq!(kind(open(Some(4096)).unwrap().read_at(512, &mut [0; 4096])), ErrorKind::InvalidInput);
}

#[test]
fn a_file_cut_short_behind_our_back_is_an_error() {
    for direct in [Direct::Auto, Direct::No] {
        let place = disk();
        let path = place.path().join("m");
        FileDevice::create_sparse(&path, MIB, false).unwrap();
        let member = FileDevice::open(&path, OpenOptions { direct, ..OpenOptions::own() }).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(4096 + 700).unwrap();
        assert_eq!(kind(member.read_at(0, &mut [0; 8192])), ErrorKind::UnexpectedEof);
        assert_eq!(kind(member.read_at(8192, &mut [0; 512])), ErrorKind::UnexpectedEof);
        member.read_at(0, &mut [0; 4096]).unwrap();
    }
}

/// A write behind the new end would make a hole of what was lost, and a hole reads as zeros.
#[test]
fn a_file_cut_short_takes_no_changes_however_that_is_found_out() {
    for (place, by_flush) in [(disk(), true), (disk(), false), (memory(), true), (memory(), false)] {
        for (name, mut queue) in queues() {
            let path = place.path().join(name);
            FileDevice::create_sparse(&path, MIB, false).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            let member = queue.add(Arc::new(owned(&path)));
            let pool = Pool::new(0);
            let write = |offset_bytes| IoOp::Write { offset_bytes, from: vec![pool.zeroed(4096).share()] };
            let read = |offset_bytes| IoOp::Read { offset_bytes, into: pool.take(4096) };
            let mut done = |op| {
                let mut completions = Vec::new();
                queue.submit(Io { token: 0, member, op });
                while completions.is_empty() {
                    queue.wait(None, &mut completions);
                }
                completions.remove(0).result
            };
            done(write(MIB - 4096)).unwrap();
            file.set_len(8192).unwrap();
            if by_flush {
                // Before anything is noticed a write may pass, and leaves a hole.
                done(write(65536)).unwrap();
                assert_eq!(kind(done(IoOp::Flush)), ErrorKind::Other, "{name}");
            } else {
                assert_eq!(kind(done(read(65536))), ErrorKind::UnexpectedEof, "{name}");
                assert_eq!(kind(done(IoOp::Flush)), ErrorKind::Other, "{name}");
            }
            assert_eq!(kind(done(write(MIB - 4096))), ErrorKind::Other, "{name}");
            assert_eq!(kind(done(IoOp::Zero { offset_bytes: 0, len_bytes: 4096, hole: true })), ErrorKind::Other, "{name}");
            assert_eq!(kind(done(read(512 << 10))), ErrorKind::UnexpectedEof, "{name}");
            done(read(0)).unwrap();
            file.set_len(MIB).unwrap();
            assert_eq!(kind(done(read(512 << 10))), ErrorKind::UnexpectedEof, "{name}: what came back is not what was lost");
        }
    }
}

#[test]
fn zeroing_zeroes_and_a_hole_gives_space_back() {
    for place in [disk(), memory()] {
        let path = place.path().join("m");
        FileDevice::create_sparse(&path, 4 * MIB, false).unwrap();
        let member = owned(&path);
        member.write_at(0, &vec![7; 4 * MIB as usize]).unwrap();
        member.flush().unwrap();
        let full = allocated_blocks(&path);
        member.zero(MIB, 2 * MIB, true).unwrap();
        member.flush().unwrap();
        assert!(allocated_blocks(&path) <= full - 2 * MIB / 512, "{full} blocks, then {}", allocated_blocks(&path));
        member.zero(0, 1536, false).unwrap();
        let file = fs::read(&path).unwrap();
        assert_eq!(file.len() as u64, 4 * MIB);
        let zero = |at: usize| at < 1536 || (MIB..3 * MIB).contains(&(at as u64));
        assert!(file.iter().enumerate().all(|(at, &byte)| byte == if zero(at) { 0 } else { 7 }));
    }
}

#[test]
fn a_full_disk_says_so() {
    let place = disk();
    let mount = place.path().join("small");
    fs::create_dir(&mount).unwrap();
    let name = mount.to_str().unwrap();
    if !succeeds("mount", &["-t", "tmpfs", "-o", "size=1m", "none", name]) {
        eprintln!("SKIPPED: a full disk: no right to mount a small tmpfs");
        return;
    }
    let path = mount.join("m");
    FileDevice::create_sparse(&path, 4 * MIB, false).unwrap();
    let member = owned(&path);
    let error = member.write_at(0, &vec![1; 4 * MIB as usize]).unwrap_err();
    drop(member);
    // Lazily: a child of another test may hold a copy of the descriptor for a moment.
    assert!(succeeds("umount", &["--lazy", name]));
    assert_eq!(error.source.kind(), ErrorKind::StorageFull);
    assert_eq!((error.operation, error.len_bytes), (Operation::Write, 4 * MIB));
}
