//! Calls at the speed of memory: members on tmpfs or in memory never wait for a disk, only for a processor.
//!
//! Their operations lie in one heap. A few threads work it off, and so does whoever waits for it: nothing sleeps while there is
//! work, all processors take part, and with one processor there is no other thread at all. Reading 16 members on tmpfs this
//! way is faster than leaving it to the kernel's own workers behind the ring, which is what the ring does for tmpfs.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};

use super::Io;
use super::lanes::{Deliver, run};
use crate::Device;

/// More threads than this do not make one memory faster.
const MAX_THREADS: usize = 4;

type Job = (Arc<dyn Device>, Io);

/// The heap and its threads, which begin with the first operation. Dropped, it ends what was sent first.
pub(super) struct Helpers {
    deliver: Deliver,
    /// `None` while dropping, which ends the threads.
    jobs: Option<Sender<Job>>,
    heap: Receiver<Job>,
    threads: Vec<JoinHandle<()>>,
    started: bool,
}

impl Helpers {
    pub fn new(deliver: Deliver) -> Helpers {
        let (jobs, heap) = crossbeam_channel::unbounded();
        Helpers { deliver, jobs: Some(jobs), heap, threads: Vec::new(), started: false }
    }

    pub fn send(&mut self, device: Arc<dyn Device>, io: Io) {
        if !self.started {
            self.started = true;
            self.start();
        }
        let jobs = self.jobs.as_ref().expect("helpers take operations until they are dropped");
        jobs.send((device, io)).expect("this side holds both ends");
    }

    /// Does one operation of the heap on the caller's thread, if there is one that no thread has taken. Whoever does not want
    /// to wait (`must` is false) leaves it to the threads, if there are any.
    pub fn help(&self, must: bool) -> bool {
        if !must && !self.threads.is_empty() {
            return false;
        }
        let Ok((device, io)) = self.heap.try_recv() else { return false };
        run(device.as_ref(), io, &self.deliver);
        true
    }

    /// A thread for each processor but the caller's.
    fn start(&mut self) {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        for _ in 0..MAX_THREADS.min(processors - 1) {
            let (heap, deliver) = (self.heap.clone(), Arc::clone(&self.deliver));
            let work = move || heap.iter().for_each(|(device, io)| run(device.as_ref(), io, &deliver));
            match std::thread::Builder::new().name("uraid-helper".to_owned()).spawn(work) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => tracing::warn!(%error, "no thread to help with members in memory"),
            }
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.jobs = None;
        while self.help(true) {}
        for thread in self.threads.drain(..) {
            // The panics of members are caught, so nothing is left to report here.
            let _ = thread.join();
        }
    }
}
