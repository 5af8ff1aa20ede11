//! How much may be in flight: a count of requests and of bytes that readers wait for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lock;

/// Requests and bytes that may be in flight at once.
pub(super) struct Budget {
    max_requests: usize,
    max_bytes: usize,
    part_bytes: usize,
    used: Mutex<Used>,
    changed: Condvar,
}

#[derive(Default)]
struct Used {
    requests: usize,
    bytes: usize,
}

/// What one of those who share a budget has in flight of it. Changed only while the budget is locked.
#[derive(Default)]
pub(super) struct Part {
    bytes: AtomicUsize,
}

/// One request's place in a budget; given back when dropped.
pub(super) struct Permit {
    budget: Arc<Budget>,
    part: Arc<Part>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(max_requests: usize, max_bytes: usize) -> Arc<Budget> {
        Budget::shared(max_requests, max_bytes, 0)
    }

    /// One that is shared: a part of `part_bytes` is free for everybody, whatever the others hold.
    pub(super) fn shared(max_requests: usize, max_bytes: usize, part_bytes: usize) -> Arc<Budget> {
        Arc::new(Budget { max_requests, max_bytes, part_bytes, used: Mutex::default(), changed: Condvar::new() })
    }

    /// Waits until one more request of `bytes` fits. A request larger than the whole budget goes when it is alone.
    pub(super) fn take(self: &Arc<Budget>, bytes: usize) -> Permit {
        self.take_part(bytes, &Arc::default())
    }

    /// As [`Budget::take`], for one of those who share it.
    pub(super) fn take_part(self: &Arc<Budget>, bytes: usize, part: &Arc<Part>) -> Permit {
        let full = |used: &mut Used| {
            used.requests > 0 && (used.requests >= self.max_requests || used.bytes.saturating_add(bytes) > self.max_bytes)
        };
        let fits_part = || part.bytes.load(Ordering::Relaxed).saturating_add(bytes) <= self.part_bytes;
        let must_wait = |used: &mut Used| full(used) && !fits_part();
        let mut used = self.changed.wait_while(lock(&self.used), must_wait).unwrap_or_else(PoisonError::into_inner);
        used.requests += 1;
        used.bytes += bytes;
        part.bytes.fetch_add(bytes, Ordering::Relaxed);
        Permit { budget: Arc::clone(self), part: Arc::clone(part), bytes }
    }

    /// Requests and bytes in flight.
    pub(super) fn used(&self) -> (usize, usize) {
        let used = lock(&self.used);
        (used.requests, used.bytes)
    }

    /// Waits until nothing is in flight; false when `deadline` comes first.
    pub(super) fn wait_idle(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let waited = self.changed.wait_timeout_while(lock(&self.used), left, |used| used.requests > 0);
        let (used, _) = waited.unwrap_or_else(PoisonError::into_inner);
        used.requests == 0
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = lock(&self.budget.used);
        used.requests -= 1;
        used.bytes -= self.bytes;
        self.part.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_budget_makes_the_next_wait_and_an_outsize_request_goes_alone() {
        let budget = Budget::new(2, 100);
        let (a, b) = (budget.take(1000), Arc::clone(&budget));
        let waiting = std::thread::spawn(move || drop(b.take(1)));
        assert!(!budget.wait_idle(Instant::now()));
        assert!(!waiting.is_finished());
        drop(a);
        waiting.join().unwrap();
        assert!(budget.wait_idle(Instant::now()));
    }

    #[test]
    fn what_others_hold_leaves_everybody_his_part() {
        let budget = Budget::shared(10, 100, 30);
        let all = budget.take(100);
        let part = Arc::default();
        let first = budget.take_part(30, &part);
        let (shared, own) = (Arc::clone(&budget), Arc::clone(&part));
        let waiting = std::thread::spawn(move || drop(shared.take_part(30, &own)));
        assert!(!waiting.is_finished());
        // Its own going is enough.
        drop(first);
        waiting.join().unwrap();
        drop(all);
        assert_eq!(budget.used(), (0, 0));
    }
}
