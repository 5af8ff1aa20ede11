//! A queue without a ring: threads make blocking calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::helpers::Helpers;
use super::lanes::{Deliver, Lanes};
use super::members::Members;
use super::{Completion, Io, Queue, Waker};
use crate::Device;

enum Event {
    Done(Completion),
    Wake,
}

/// Does every member's I/O with blocking calls, on a thread for each member; members in memory share a few, and the caller helps.
/// For systems without io_uring, and for comparison.
pub struct ThreadQueue {
    members: Members,
    lanes: Lanes,
    helpers: Helpers,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// A wake is under way; more of them would add nothing.
    waking: Arc<AtomicBool>,
    in_flight: usize,
}

impl ThreadQueue {
    /// A queue without members. Threads begin with the first operation of each member.
    #[must_use]
    pub fn new() -> ThreadQueue {
        let (sender, events) = crossbeam_channel::unbounded();
        let deliver: Deliver = {
            let sender = sender.clone();
            // The queue is gone while its last operations end: nobody is left to be told.
            Arc::new(move |completion| drop(sender.send(Event::Done(completion))))
        };
        ThreadQueue {
            members: Members::default(),
            lanes: Lanes::new(Arc::clone(&deliver)),
            helpers: Helpers::new(deliver),
            events,
            sender,
            waking: Arc::new(AtomicBool::new(false)),
            in_flight: 0,
        }
    }

    /// Takes in one event; says whether it ends a wait, which each does.
    fn take(&mut self, event: Event, done: &mut Vec<Completion>) {
        match event {
            Event::Wake => self.waking.store(false, Ordering::Release),
            Event::Done(completion) => {
                self.in_flight -= 1;
                done.push(completion);
            }
        }
    }
}

impl Default for ThreadQueue {
    fn default() -> ThreadQueue {
        ThreadQueue::new()
    }
}

impl Queue for ThreadQueue {
    fn add(&mut self, device: Arc<dyn Device>) -> usize {
        self.members.add(device)
    }

    fn remove(&mut self, member: usize) {
        self.members.remove(member);
        self.lanes.retire(member);
    }

    fn submit(&mut self, io: Io) {
        self.in_flight += 1;
        match self.members.admit(io) {
            Ok((device, io)) if device.in_memory() => self.helpers.send(device, io),
            Ok((device, io)) => self.lanes.send(&device, io),
            Err(refused) => self.sender.send(Event::Done(refused)).expect("the queue holds both ends"),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Completion>) {
        if self.events.is_empty() {
            self.helpers.help(timeout.is_none_or(|timeout| !timeout.is_zero()));
        }
        // A timeout too far away to have an end is none.
        let first = match timeout.map(|timeout| Instant::now().checked_add(timeout)) {
            Some(Some(deadline)) => self.events.recv_deadline(deadline).ok(),
            Some(None) | None => self.events.recv().ok(),
        };
        let Some(first) = first else { return };
        self.take(first, done);
        while let Ok(event) = self.events.try_recv() {
            self.take(event, done);
        }
    }

    fn waker(&self) -> Waker {
        let (waking, sender) = (Arc::clone(&self.waking), self.sender.clone());
        Waker::new(move || {
            if !waking.swap(true, Ordering::AcqRel) {
                // A waker may outlive its queue.
                drop(sender.send(Event::Wake));
            }
        })
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}
