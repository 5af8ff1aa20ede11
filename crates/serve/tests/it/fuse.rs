//! The FUSE file, mounted.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use uraid_serve::{ByteTarget, FuseFile, FuseOptions, Listen, MemoryTarget, NbdOptions, NbdServer, Request, ServeError, Target};

use crate::support::{Gated, Raw, have, pattern, run, skip, try_run};

fn can_mount() -> bool {
    if !std::path::Path::new("/dev/fuse").exists() {
        return skip("/dev/fuse is missing");
    }
    let root = is_root();
    root || have(&["fusermount3"])
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0)
}

struct Mounted {
    gated: Arc<Gated>,
    file: FuseFile,
    path: PathBuf,
    dir: tempfile::TempDir,
}

fn mounted(size_bytes: u64, block_bytes: u32) -> Mounted {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let gated = Gated::new(size_bytes, block_bytes);
    let file = FuseFile::start(Arc::clone(&gated) as Arc<dyn Target>, &path, &FuseOptions::default()).unwrap();
    Mounted { gated, file, path, dir }
}

fn open(path: &PathBuf) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn it_is_a_file_of_the_targets_size_and_goes_again() {
    if !can_mount() {
        return;
    }
    let mut mounted = mounted(1 << 20, 512);
    let found = std::fs::metadata(&mounted.path).unwrap();
    assert!(found.is_file());
    assert_eq!((found.len(), found.mode() & 0o777), (1 << 20, 0o600));
    let again = FuseFile::start(Arc::clone(&mounted.gated) as Arc<dyn Target>, &mounted.path, &FuseOptions::default());
    assert!(matches!(again, Err(ServeError::MountPoint { .. })), "something is mounted there");
    mounted.file.stop().unwrap();
    assert!(!mounted.path.exists(), "a mount point that was made is removed");
    // One that was there stays, with its contents.
    std::fs::write(&mounted.path, "below").unwrap();
    let second = FuseFile::start(Arc::clone(&mounted.gated) as Arc<dyn Target>, &mounted.path, &FuseOptions::default()).unwrap();
    assert_eq!(std::fs::metadata(&mounted.path).unwrap().len(), 1 << 20);
    drop(second);
    assert_eq!(std::fs::read(&mounted.path).unwrap(), b"below");
    let directory = FuseFile::start(Arc::clone(&mounted.gated) as Arc<dyn Target>, mounted.dir.path(), &FuseOptions::default());
    assert!(matches!(directory, Err(ServeError::MountPoint { .. })));
}

#[test]
fn reads_and_writes_are_those_of_a_file_that_cannot_grow() {
    if !can_mount() {
        return;
    }
    let mounted = mounted(1 << 20, 4096);
    let file = open(&mounted.path);
    let bytes = pattern(300_000, 3);
    file.write_all_at(&bytes, 12_345).unwrap();
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 12_345).unwrap();
    assert_eq!(back, bytes);
    assert_eq!(mounted.gated.memory.contents()[12_345..312_345], bytes);
    file.sync_all().unwrap();
    assert!(mounted.gated.seen().iter().any(|request| matches!(request, Request::Flush)));
    let end = 1 << 20;
    assert_eq!(file.write_at(&[1; 1000], end - 100).unwrap(), 100);
    assert_eq!(file.write_at(&[1; 1000], end).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(file.read_at(&mut [0; 1000], end - 100).unwrap(), 100);
    assert_eq!(file.read_at(&mut [0; 1000], end).unwrap(), 0);
    assert_eq!(file.set_len(end + 1).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert_eq!(file.set_len(5).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    file.set_len(end).unwrap();
    assert_eq!(file.metadata().unwrap().len(), end);
    *mounted.gated.fail.lock().unwrap() = Some(libc::EIO);
    assert_eq!(file.read_at(&mut [0; 512], 0).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(file.write_at(&[0; 512], 0).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(libc::EIO));
    *mounted.gated.fail.lock().unwrap() = None;
}

#[test]
fn a_synchronous_write_is_durable_when_it_returns() {
    if !can_mount() {
        return;
    }
    let mounted = mounted(1 << 20, 512);
    let file = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(&mounted.path).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    let durable = |request: &Request| matches!(request, Request::Write { fua: true, .. } | Request::Flush);
    assert!(mounted.gated.seen().iter().any(durable));
}

#[test]
fn holes_and_zero_ranges_read_as_zeros() {
    if !can_mount() || !have(&["fallocate"]) {
        return;
    }
    let mounted = mounted(1 << 20, 512);
    let path = mounted.path.to_str().unwrap();
    open(&mounted.path).write_all_at(&[5; 65536], 0).unwrap();
    run("fallocate", &["--punch-hole", "--offset", "1000", "--length", "3000", path]);
    run("fallocate", &["--zero-range", "--offset", "10000", "--length", "100", path]);
    run("fallocate", &["--offset", "0", "--length", "1048576", path]);
    let mut expected = vec![5; 65536];
    expected[1000..4000].fill(0);
    expected[10000..10100].fill(0);
    assert_eq!(mounted.gated.memory.contents()[..65536], expected);
    assert!(!try_run("fallocate", &["--offset", "0", "--length", "1048577", path]).0, "it cannot grow");
    // A target that is slow at zeroing says so to whoever wants a hole.
    mounted.gated.slow_zero.store(true, Ordering::SeqCst);
    assert!(!try_run("fallocate", &["--punch-hole", "--offset", "0", "--length", "4096", path]).0);
}

#[test]
fn two_front_ends_of_one_array_see_each_other() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, socket) = (dir.path().join("array"), dir.path().join("nbd"));
    let target: Arc<dyn Target> = Arc::new(ByteTarget::new(Arc::new(MemoryTarget::new(1 << 20, 4096))));
    let _server = NbdServer::start(Arc::clone(&target), Listen::Unix(socket.clone()), NbdOptions::default()).unwrap();
    let _mounted = FuseFile::start(target, &path, &FuseOptions::default()).unwrap();
    let file = open(&path);
    let mut raw = Raw::ready(&socket, false);
    for round in 0..3u8 {
        let mut back = [9; 100];
        file.read_exact_at(&mut back, 50).unwrap();
        assert_eq!(back, [round; 100], "nothing stale is kept");
        raw.request(1, 0, 1, 50, 100);
        raw.send(&[round + 1; 100]);
        assert_eq!(raw.simple(0).errno, 0);
    }
}

#[test]
fn dd_and_cp_copy_in_and_out() {
    if !can_mount() || !have(&["dd", "cp", "truncate"]) {
        return;
    }
    let mounted = mounted(4 << 20, 512);
    let text = |name: &str| mounted.dir.path().join(name).to_str().unwrap().to_owned();
    let (array, source, out) = (text("array"), text("source"), text("out"));
    let old = pattern(4 << 20, 1);
    std::fs::write(&source, &old).unwrap();
    run("cp", &[&source, &array]);
    assert_eq!(mounted.gated.memory.contents(), old);
    run("cp", &[&array, &out]);
    assert_eq!(std::fs::read(&out).unwrap(), old);
    run("dd", &[&format!("if={array}"), &format!("of={out}"), "bs=64k", "skip=1", "count=2"]);
    assert_eq!(std::fs::read(&out).unwrap(), old[65536..3 * 65536]);
    // A sparse source over old bytes: its holes must read as zeros, in the middle and at its end.
    std::fs::write(&source, "").unwrap();
    run("truncate", &["-s", "2M", &source]);
    let sparse = open(&PathBuf::from(&source));
    sparse.write_all_at(&[7; 4096], 0).unwrap();
    sparse.write_all_at(&[8; 4096], 1 << 20).unwrap();
    run("cp", &["--sparse=auto", &source, &array]);
    let mut expected = old;
    expected[..2 << 20].fill(0);
    expected[..4096].fill(7);
    expected[1 << 20..][..4096].fill(8);
    assert!(mounted.gated.memory.contents() == expected, "beyond the source's end the old bytes stay");
    run("dd", &["if=/dev/zero", &format!("of={array}"), "bs=4k", "count=4", "seek=500", "conv=notrunc,fsync"]);
    expected[500 * 4096..504 * 4096].fill(0);
    assert!(mounted.gated.memory.contents() == expected);
}

#[test]
fn ext4_lives_on_a_loop_device() {
    if !can_mount() || !have(&["losetup", "mkfs.ext4", "mount", "umount", "fsck.ext4"]) {
        return;
    }
    if !is_root() || !std::path::Path::new("/dev/loop-control").exists() {
        skip("loop devices need root and /dev/loop-control");
        return;
    }
    for direct in [false, true] {
        let mut mounted = mounted(32 << 20, 4096);
        let path = mounted.path.to_str().unwrap().to_owned();
        let direct_io = format!("--direct-io={}", if direct { "on" } else { "off" });
        let device = run("losetup", &["--find", "--show", &direct_io, &path]).trim().to_owned();
        run("mkfs.ext4", &["-q", &device]);
        let point = mounted.dir.path().join("fs");
        std::fs::create_dir(&point).unwrap();
        run("mount", &[&device, point.to_str().unwrap()]);
        for name in 0..20u64 {
            std::fs::write(point.join(name.to_string()), pattern(200_000, name)).unwrap();
        }
        assert!(matches!(mounted.file.stop(), Err(ServeError::Busy { .. })), "it is in use, and stays");
        run("umount", &[point.to_str().unwrap()]);
        run("fsck.ext4", &["-fn", &device]);
        run("mount", &["-o", "ro", &device, point.to_str().unwrap()]);
        for name in 0..20u64 {
            assert!(std::fs::read(point.join(name.to_string())).unwrap() == pattern(200_000, name));
        }
        run("umount", &[point.to_str().unwrap()]);
        run("losetup", &["--detach", &device]);
        // The kernel lets go of the file a moment after it has detached the device.
        crate::support::eventually("it can be unmounted", || mounted.file.stop().is_ok());
    }
}

#[test]
fn a_read_only_array_is_a_read_only_file() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let target = Arc::new(MemoryTarget::new(1 << 20, 512).into_read_only());
    let _mounted = FuseFile::start(target, &path, &FuseOptions::default()).unwrap();
    assert_eq!(OpenOptions::new().write(true).open(&path).unwrap_err().raw_os_error(), Some(libc::EROFS));
    assert_eq!(std::fs::read(&path).unwrap().len(), 1 << 20);
}

#[test]
fn dropped_in_use_it_fails_later_requests_and_leaves_no_mount() {
    if !can_mount() {
        return;
    }
    let mounted = mounted(1 << 20, 512);
    let file = open(&mounted.path);
    drop(mounted.file);
    assert!(!mounted.path.exists());
    assert_eq!(file.read_at(&mut [0; 512], 0).unwrap_err().raw_os_error(), Some(libc::EIO));
}

#[test]
fn a_dead_mount_is_recognised() {
    if !can_mount() || !have(&["mount", "umount"]) {
        return;
    }
    if !is_root() {
        skip("only root may mount fusectl");
        return;
    }
    let mounted = mounted(1 << 20, 512);
    // The kernel's own switch for a server that has died.
    let switches = mounted.dir.path().join("fusectl");
    std::fs::create_dir(&switches).unwrap();
    let switches_text = switches.to_str().unwrap();
    run("mount", &["-t", "fusectl", "fusectl", switches_text]);
    let device = std::fs::metadata(&mounted.path).unwrap().dev();
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    let thrown = std::fs::write(switches.join(minor.to_string()).join("abort"), "1");
    run("umount", &[switches_text]);
    thrown.unwrap();
    let again = FuseFile::start(Arc::clone(&mounted.gated) as Arc<dyn Target>, &mounted.path, &FuseOptions::default());
    let Err(ServeError::MountPoint { reason, .. }) = again else { panic!("a dead mount was taken") };
    assert!(reason.contains("umount"), "{reason}");
}
