//! Who may touch a stripe (parity levels) or a region (copies): first come, first served, readers and sync windows together.

use std::collections::{HashMap, VecDeque};

/// What a holder does, and with whom it can be together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Rebuilds data for reading: together with its like.
    Read,
    /// A window of a run over the array: together with its like, for windows never overlap.
    Sync,
    /// Writes: alone.
    Exclusive,
}

#[derive(Debug)]
struct Entry {
    mode: Mode,
    holders: usize,
    queue: VecDeque<(usize, Mode)>,
}

/// Locks by stripe or region number; the waiters are operation keys.
#[derive(Debug, Default)]
pub(crate) struct Locks(HashMap<u64, Entry>);

impl Locks {
    /// Takes the lock for `op`, or queues it. True when it was taken.
    pub fn acquire(&mut self, key: u64, op: usize, mode: Mode) -> bool {
        let Some(entry) = self.0.get_mut(&key) else {
            self.0.insert(key, Entry { mode, holders: 1, queue: VecDeque::new() });
            return true;
        };
        if entry.queue.is_empty() && entry.mode == mode && mode != Mode::Exclusive {
            entry.holders += 1;
            return true;
        }
        entry.queue.push_back((op, mode));
        false
    }

    /// The operation that came last and still waits: a write may join it.
    pub fn last_waiting(&self, key: u64) -> Option<usize> {
        self.0.get(&key)?.queue.back().map(|&(op, _)| op)
    }

    /// Gives the lock back and returns those who have it now.
    ///
    /// # Panics
    /// When nobody holds it.
    pub fn release(&mut self, key: u64) -> Vec<usize> {
        let entry = self.0.get_mut(&key).expect("a lock that is released is held");
        entry.holders -= 1;
        if entry.holders > 0 {
            return Vec::new();
        }
        let Some((first, mode)) = entry.queue.pop_front() else {
            self.0.remove(&key);
            return Vec::new();
        };
        let mut granted = vec![first];
        while mode != Mode::Exclusive && entry.queue.front().is_some_and(|&(_, next)| next == mode) {
            granted.extend(entry.queue.pop_front().map(|(op, _)| op));
        }
        entry.mode = mode;
        entry.holders = granted.len();
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_alone_and_nobody_overtakes_it() {
        let mut locks = Locks::default();
        assert!(locks.acquire(7, 1, Mode::Read));
        assert!(locks.acquire(7, 2, Mode::Read));
        assert!(!locks.acquire(7, 3, Mode::Exclusive));
        assert!(!locks.acquire(7, 4, Mode::Read));
        assert_eq!(locks.last_waiting(7), Some(4));
        assert!(locks.release(7).is_empty());
        assert_eq!(locks.release(7), [3]);
        assert_eq!(locks.release(7), [4]);
        assert!(locks.release(7).is_empty());
        assert!(locks.0.is_empty());
    }

    #[test]
    fn windows_share_but_not_with_readers() {
        let mut locks = Locks::default();
        assert!(locks.acquire(1, 1, Mode::Sync));
        assert!(locks.acquire(1, 2, Mode::Sync));
        assert!(!locks.acquire(1, 3, Mode::Read));
        assert!(!locks.acquire(1, 4, Mode::Read));
        locks.release(1);
        assert_eq!(locks.release(1), [3, 4]);
    }
}
