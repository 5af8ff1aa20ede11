//! How fast something goes, and when it will be done.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// As far back as a rate looks. Long enough to even out bursts, short enough to follow a change.
const WINDOW: Duration = Duration::from_secs(30);
/// Marks are no closer than this, which bounds their number.
const SPACING: Duration = Duration::from_millis(500);

/// A rate over the last half minute, from positions noted now and then. Time is given from outside.
#[derive(Debug, Clone)]
pub struct Rate {
    /// Oldest first; the last one is the newest note, wherever it lies.
    marks: VecDeque<(Instant, u64)>,
    last: (Instant, u64),
}

impl Rate {
    /// Starts at a position in bytes.
    #[must_use]
    pub fn new(now: Instant, done_bytes: u64) -> Self {
        Self { marks: VecDeque::from([(now, done_bytes)]), last: (now, done_bytes) }
    }

    /// Notes that the work has come to a position in bytes.
    pub fn note(&mut self, now: Instant, done_bytes: u64) {
        self.last = (now, done_bytes);
        if self.marks.back().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= SPACING) {
            self.marks.push_back(self.last);
        }
        // The oldest mark stays while it is the only one as old as the window.
        while self.marks.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.marks.pop_front();
        }
    }

    /// KiB per second, 0 when nothing is known yet.
    #[must_use]
    pub fn kib_per_s(&self) -> u64 {
        let Some((from, start)) = self.marks.front() else { return 0 };
        let micros = self.last.0.saturating_duration_since(*from).as_micros();
        let bytes = u128::from(self.last.1.saturating_sub(*start));
        (bytes * 1_000_000 / 1024).checked_div(micros).and_then(|speed| u64::try_from(speed).ok()).unwrap_or(0)
    }

    /// Seconds until `total_bytes` are done at this rate; `None` while it stands still.
    #[must_use]
    pub fn remaining_s(&self, total_bytes: u64) -> Option<u64> {
        (total_bytes.saturating_sub(self.last.1) / 1024).checked_div(self.kib_per_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_last_half_minute() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let mut rate = Rate::new(start, 0);
        assert_eq!((rate.kib_per_s(), rate.remaining_s(1 << 20)), (0, None));
        // One minute at 1 MiB/s, then one at 3 MiB/s.
        for s in 1..=60 {
            rate.note(at(s), s << 20);
        }
        assert_eq!(rate.kib_per_s(), 1024);
        assert_eq!(rate.remaining_s(160 << 20), Some(100));
        for s in 1..=60 {
            rate.note(at(60 + s), (60 + 3 * s) << 20);
        }
        assert_eq!(rate.kib_per_s(), 3072);
        assert!(rate.marks.len() <= 61, "{}", rate.marks.len());
    }
}
