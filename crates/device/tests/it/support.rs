//! What several tests need: places, numbers, and queues of both kinds.

use std::io;
use std::path::Path;
use std::process::Command;

use uraid_device::{Backend, DeviceError, Queue, QueueOptions, RingQueue, queue};

/// A directory on the file system of `/tmp`, which is a disk's on most machines.
pub fn disk() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("uraid-device-").tempdir().unwrap()
}

/// A directory on tmpfs.
pub fn memory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("uraid-device-").tempdir_in("/dev/shm").unwrap()
}

/// Both kinds of queue, with names. Where the system has no ring the ring's tests are skipped, and it says so.
pub fn queues() -> Vec<(&'static str, Box<dyn Queue>)> {
    let threads = queue(&QueueOptions { backend: Backend::Threads, ..QueueOptions::default() });
    let mut queues: Vec<(&'static str, Box<dyn Queue>)> = vec![("threads", threads)];
    match RingQueue::new(64) {
        Ok(ring) => queues.push(("ring", Box::new(ring))),
        Err(error) => eprintln!("SKIPPED: io_uring: {error}"),
    }
    queues
}

pub fn kind(result: Result<(), DeviceError>) -> io::ErrorKind {
    result.unwrap_err().source.kind()
}

/// Does the command end with status 0?
pub fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// 512-byte blocks that the file system has given a file.
pub fn allocated_blocks(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap())
}

/// A small generator of numbers (splitmix64): the same seed, the same run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
