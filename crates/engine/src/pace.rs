//! How fast a run over the array may go, and how much of that it has used up: credit that ticks bring and windows cost.

/// Most milliseconds whose credit is kept: what was not used by then is lost.
const KEPT_MS: u64 = 200;

/// Speed limits of runs over the array, in KiB/s of each member, as md's `sync_speed_min` and `sync_speed_max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncSpeed {
    /// While requests come in a run goes at this speed, whatever they suffer, and no faster; without it one window at a time.
    pub min_kib: Option<u64>,
    /// Never faster than this.
    pub max_kib: Option<u64>,
}

/// What a run may do now.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    pub speed: SyncSpeed,
    busy: bool,
    last_ms: u64,
    min: Credit,
    max: Credit,
}

/// Thousandths of sectors that may be begun; what was begun beyond is owed.
#[derive(Debug, Default)]
struct Credit(i64);

impl Credit {
    fn grow(&mut self, kib_per_second: Option<u64>, elapsed_ms: u64) {
        // Two sectors a KiB, a thousandth of a second each.
        let earned = |ms: u64| i64::try_from(u128::from(kib_per_second.unwrap_or(0)) * 2 * u128::from(ms)).unwrap_or(i64::MAX);
        self.0 = self.0.saturating_add(earned(elapsed_ms)).min(earned(KEPT_MS));
    }

    fn take(&mut self, sectors: u64) {
        self.0 = self.0.saturating_sub_unsigned(sectors.saturating_mul(1000));
    }
}

impl Pace {
    pub fn new(speed: SyncSpeed) -> Pace {
        Pace { speed, ..Pace::default() }
    }

    /// Time has passed; `busy`: requests came in meanwhile. True when a run that had to wait may go on.
    pub fn tick(&mut self, now_ms: u64, busy: bool) -> bool {
        let elapsed_ms = now_ms.saturating_sub(self.last_ms);
        self.last_ms = now_ms;
        self.busy = busy;
        self.min.grow(self.speed.min_kib, elapsed_ms);
        self.max.grow(self.speed.max_kib, elapsed_ms);
        self.speed != SyncSpeed::default()
    }

    /// How many windows may be out, of the `most` that the members take.
    pub fn depth(&self, most: usize) -> usize {
        if self.speed.max_kib.is_some() && self.max.0 <= 0 {
            return 0;
        }
        match (self.busy, self.speed.min_kib) {
            (false, _) => most,
            (true, None) => most.min(1),
            (true, Some(_)) if self.min.0 > 0 => most,
            (true, Some(_)) => 0,
        }
    }

    /// A window of so many sectors of each member has begun.
    pub fn begun(&mut self, sectors: u64) {
        self.min.take(sectors);
        self.max.take(sectors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sectors begun in ten seconds of ticks, windows of 256 sectors, eight at once, each back by the next tick.
    fn begun(speed: SyncSpeed, busy: bool) -> u64 {
        let mut pace = Pace::new(speed);
        let mut sectors = 0;
        for now_ms in (50..=10_000).step_by(50) {
            pace.tick(now_ms, busy);
            // Windows come back one after another until the next tick: there is time for a thousand.
            for _ in 0..1000 {
                if pace.depth(8) == 0 {
                    break;
                }
                pace.begun(256);
                sectors += 256;
            }
        }
        sectors
    }

    #[test]
    fn a_run_goes_no_faster_than_its_limit() {
        for kib in [1, 7, 100, 1000, 50_000, 400_000] {
            for busy in [false, true] {
                let speed = SyncSpeed { min_kib: busy.then_some(u64::MAX), max_kib: Some(kib) };
                let (found, limit) = (begun(speed, busy), kib * 20);
                assert!(found <= limit + 256 && found >= limit - limit / 50, "{kib} KiB/s: {found} of {limit} sectors");
            }
        }
    }

    #[test]
    fn a_run_keeps_its_least_speed_while_requests_come_in() {
        let speed = SyncSpeed { min_kib: Some(1000), max_kib: None };
        let found = begun(speed, true);
        assert!((20_000 - 400..=20_000 + 256).contains(&found), "{found} sectors in ten seconds");
        assert_eq!(begun(speed, false), 200 * 1000 * 256, "nobody to make way for");
    }

    #[test]
    fn without_limits_a_run_makes_way_by_going_one_window_at_a_time() {
        let mut pace = Pace::new(SyncSpeed::default());
        assert_eq!(pace.depth(8), 8);
        pace.tick(50, true);
        assert_eq!(pace.depth(8), 1);
        pace.tick(100, false);
        assert_eq!(pace.depth(8), 8);
    }

    #[test]
    fn a_run_that_waited_does_not_make_up_for_it() {
        let mut pace = Pace::new(SyncSpeed { min_kib: None, max_kib: Some(1000) });
        pace.tick(3_600_000, false);
        let mut sectors = 0;
        while pace.depth(8) > 0 {
            pace.begun(256);
            sectors += 256;
        }
        assert!(sectors <= 2 * KEPT_MS + 256, "{sectors} sectors at once");
    }
}
