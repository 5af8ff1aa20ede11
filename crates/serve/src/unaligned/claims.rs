//! Who may write which blocks now: pure bookkeeping, no I/O and no threads.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// The blocks that a write touches, and those of them that it reads first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// All blocks, by number.
    pub(super) span: Range<u64>,
    /// The blocks that are only partly overwritten: the first, the last, both or none.
    pub(super) edges: [Option<u64>; 2],
}

impl Claim {
    fn has_edges(&self) -> bool {
        self.edges.iter().any(Option::is_some)
    }

    /// Writes of whole blocks may overlap as they like; a block that one of the two reads first must be left alone by the other.
    fn conflicts(&self, other: &Claim) -> bool {
        let reads_what_is_written = |a: &Claim, b: &Claim| a.edges.iter().flatten().any(|edge| b.span.contains(edge));
        reads_what_is_written(self, other) || reads_what_is_written(other, self)
    }
}

/// Names a granted claim.
pub(super) type Ticket = u64;

/// Granted claims, and jobs that wait for theirs, first come first served among those in conflict.
pub(super) struct Claims<J> {
    held: HashMap<Ticket, Claim>,
    held_with_edges: usize,
    waiting: VecDeque<(Claim, J)>,
    next: Ticket,
}

impl<J> Claims<J> {
    pub(super) fn new() -> Claims<J> {
        Claims { held: HashMap::new(), held_with_edges: 0, waiting: VecDeque::new(), next: 0 }
    }

    /// Hands the job back with its ticket if it may run now; else keeps it.
    pub(super) fn acquire(&mut self, claim: Claim, job: J) -> Option<(Ticket, J)> {
        let free = if self.waiting.is_empty() && self.held_with_edges == 0 && !claim.has_edges() {
            true
        } else {
            !self.conflicts_with_held(&claim) && !self.waiting.iter().any(|(earlier, _)| earlier.conflicts(&claim))
        };
        if free {
            Some((self.grant(claim), job))
        } else {
            self.waiting.push_back((claim, job));
            None
        }
    }

    /// Ends a claim; the jobs that may run now are appended to `ready`.
    pub(super) fn release(&mut self, ticket: Ticket, ready: &mut VecDeque<(Ticket, J)>) {
        let released = self.held.remove(&ticket).expect("a ticket is released once");
        self.held_with_edges -= usize::from(released.has_edges());
        let mut still_waiting: VecDeque<(Claim, J)> = VecDeque::with_capacity(self.waiting.len());
        for (claim, job) in std::mem::take(&mut self.waiting) {
            let free = claim.conflicts(&released)
                && !self.conflicts_with_held(&claim)
                && !still_waiting.iter().any(|(earlier, _)| earlier.conflicts(&claim));
            if free {
                ready.push_back((self.grant(claim), job));
            } else {
                still_waiting.push_back((claim, job));
            }
        }
        self.waiting = still_waiting;
    }

    fn conflicts_with_held(&self, claim: &Claim) -> bool {
        self.held.values().any(|held| held.conflicts(claim))
    }

    fn grant(&mut self, claim: Claim) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.held_with_edges += usize::from(claim.has_edges());
        self.held.insert(ticket, claim);
        ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(span: Range<u64>) -> Claim {
        Claim { span, edges: [None, None] }
    }

    fn edge(block: u64) -> Claim {
        Claim { span: block..block + 1, edges: [Some(block), None] }
    }

    fn names(ready: &VecDeque<(Ticket, &'static str)>) -> Vec<&'static str> {
        ready.iter().map(|(_, name)| *name).collect()
    }

    #[test]
    fn whole_blocks_never_wait_for_each_other() {
        let mut claims = Claims::new();
        assert!(claims.acquire(whole(0..8), "a").is_some());
        assert!(claims.acquire(whole(4..12), "b").is_some());
    }

    #[test]
    fn an_edge_waits_for_whoever_writes_its_block_and_is_waited_for() {
        let mut claims = Claims::new();
        let (a, _) = claims.acquire(whole(0..8), "a").unwrap();
        assert!(claims.acquire(edge(7), "b").is_none());
        assert!(claims.acquire(whole(7..9), "c").is_none(), "b came first");
        assert!(claims.acquire(whole(8..9), "d").is_some());
        let mut ready = VecDeque::new();
        claims.release(a, &mut ready);
        assert_eq!(names(&ready), ["b"]);
        let (b, _) = ready.pop_front().unwrap();
        claims.release(b, &mut ready);
        assert_eq!(names(&ready), ["c"]);
    }

    #[test]
    fn several_independent_waiters_start_at_once() {
        let mut claims = Claims::new();
        let (a, _) = claims.acquire(whole(0..8), "a").unwrap();
        for (block, name) in [(1, "b"), (2, "c"), (1, "d")] {
            assert!(claims.acquire(edge(block), name).is_none());
        }
        let mut ready = VecDeque::new();
        claims.release(a, &mut ready);
        assert_eq!(names(&ready), ["b", "c"]);
    }
}
