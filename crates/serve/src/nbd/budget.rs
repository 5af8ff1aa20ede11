//! How much may be in flight: a count of requests and of bytes that readers wait for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lock;

/// Requests and bytes that may be in flight at once.
pub(super) struct Budget {
    max_requests: usize,
    max_bytes: usize,
    used: Mutex<Used>,
    changed: Condvar,
}

#[derive(Default)]
struct Used {
    requests: usize,
    bytes: usize,
}

/// One request's part of a budget; given back when dropped.
pub(super) struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(max_requests: usize, max_bytes: usize) -> Arc<Budget> {
        Arc::new(Budget { max_requests, max_bytes, used: Mutex::default(), changed: Condvar::new() })
    }

    /// Waits until one more request of `bytes` fits. A request larger than the whole budget goes when it is alone.
    pub(super) fn take(self: &Arc<Budget>, bytes: usize) -> Permit {
        let full = |used: &mut Used| {
            used.requests > 0 && (used.requests >= self.max_requests || used.bytes.saturating_add(bytes) > self.max_bytes)
        };
        let mut used = self.changed.wait_while(lock(&self.used), full).unwrap_or_else(PoisonError::into_inner);
        used.requests += 1;
        used.bytes += bytes;
        Permit { budget: Arc::clone(self), bytes }
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
}
