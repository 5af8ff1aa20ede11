//! One member's timing: how long an I/O takes, and which of those that wait comes next.

use std::collections::VecDeque;
use std::time::Duration;

/// A kind of member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskModel {
    /// Every I/O takes the same time.
    SolidState(SolidState),
    /// Seek, rotation, transfer; an elevator picks what comes next.
    Rotating(Rotating),
}

/// A member of fixed cost: the arithmetic of member I/Os and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SolidState {
    /// Time of one I/O, whatever its length.
    pub each: Duration,
}

/// A disk that turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotating {
    /// Time of one turn.
    pub turn: Duration,
    /// Time to the next track.
    pub shortest_seek: Duration,
    /// Time from the first track to the last; between the two it grows with the root of the distance.
    pub longest_seek: Duration,
    /// Bytes of a track, which pass in one turn.
    pub track_bytes: u64,
    /// Bytes from the first track to the last.
    pub capacity_bytes: u64,
}

impl DiskModel {
    /// 100 µs an I/O, one at a time.
    #[must_use]
    pub fn ssd() -> DiskModel {
        DiskModel::SolidState(SolidState { each: Duration::from_micros(100) })
    }

    /// A disk of 1 TB at 7200 turns a minute: 126 MB/s, seeks of 0.8 to 16 ms.
    #[must_use]
    pub fn hdd() -> DiskModel {
        DiskModel::Rotating(Rotating {
            turn: Duration::from_nanos(60_000_000_000 / 7200),
            shortest_seek: Duration::from_micros(800),
            longest_seek: Duration::from_millis(16),
            track_bytes: 1 << 20,
            capacity_bytes: 1_000_000_000_000,
        })
    }
}

/// So late, in nanoseconds, the head still catches a sector.
const CAUGHT_NS: u64 = 1000;

impl Rotating {
    fn seek(&self, from_track: u64, to_track: u64) -> Duration {
        let distance = from_track.abs_diff(to_track);
        if distance == 0 {
            return Duration::ZERO;
        }
        let tracks = (self.capacity_bytes / self.track_bytes).max(1);
        let share = (distance as f64 / tracks as f64).min(1.0).sqrt();
        self.shortest_seek + (self.longest_seek - self.shortest_seek).mul_f64(share)
    }

    /// The time of an I/O of `len` bytes at `start` that begins at `now` with the head over `track`.
    fn time(&self, now: Duration, track: u64, start: u64, len: u64) -> Duration {
        let there = now + self.seek(track, start / self.track_bytes);
        let turn = self.turn.as_nanos() as u64;
        let angle_of = |byte: u64| (byte % self.track_bytes) * turn / self.track_bytes;
        let (head, wanted) = (there.as_nanos() as u64 % turn, angle_of(start));
        // A sector that begins where the last one ended is not missed for a rounding error.
        let wait = ((wanted + turn + CAUGHT_NS - head) % turn).saturating_sub(CAUGHT_NS);
        let transfer = Duration::from_nanos(turn).mul_f64(len as f64 / self.track_bytes as f64);
        there + Duration::from_nanos(wait) + transfer - now
    }
}

/// An I/O that waits or is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Where the caller keeps the operation.
    pub key: usize,
    pub start: u64,
    pub len: u64,
}

/// One member: at most one I/O is under way.
#[derive(Debug)]
pub(crate) struct Disk {
    model: DiskModel,
    waiting: VecDeque<Wanted>,
    busy: bool,
    /// Where the head is: the end of the last I/O.
    head: u64,
}

impl Disk {
    pub(crate) fn new(model: DiskModel) -> Disk {
        Disk { model, waiting: VecDeque::new(), busy: false, head: 0 }
    }

    pub(crate) fn submit(&mut self, wanted: Wanted) {
        self.waiting.push_back(wanted);
    }

    /// The one under way has ended.
    pub(crate) fn ended(&mut self) {
        self.busy = false;
    }

    /// Begins the next I/O, if the member is free and one waits: which, and how long it takes.
    pub(crate) fn begin(&mut self, now: Duration) -> Option<(Wanted, Duration)> {
        if self.busy {
            return None;
        }
        let next = self.waiting.remove(self.choose()?)?;
        let time = match self.model {
            DiskModel::SolidState(SolidState { each }) => each,
            DiskModel::Rotating(disk) => disk.time(now, self.head / disk.track_bytes, next.start, next.len),
        };
        self.busy = true;
        self.head = next.start + next.len;
        Some((next, time))
    }

    /// The next in turn; with a moving head the next one ahead of it, else the lowest: an elevator that goes one way.
    fn choose(&self) -> Option<usize> {
        if matches!(self.model, DiskModel::SolidState(_)) {
            return (!self.waiting.is_empty()).then_some(0);
        }
        let behind = |wanted: &Wanted| wanted.start < self.head;
        let waiting = self.waiting.iter().enumerate();
        waiting.min_by_key(|(place, wanted)| (behind(wanted), wanted.start, *place)).map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hdd() -> Rotating {
        let DiskModel::Rotating(disk) = DiskModel::hdd() else { unreachable!("it turns") };
        disk
    }

    #[test]
    fn a_sector_just_read_comes_by_again_after_one_turn() {
        let disk = hdd();
        let now = Duration::from_micros(1234);
        let read = disk.time(now, 5, 5 * disk.track_bytes + 8192, 4096);
        let written_back = disk.time(now + read, 5, 5 * disk.track_bytes + 8192, 4096);
        let off = written_back.abs_diff(disk.turn);
        assert!(off < Duration::from_nanos(100), "{written_back:?} for a turn of {:?}", disk.turn);
    }

    #[test]
    fn reading_on_takes_no_seek_and_no_wait() {
        let disk = hdd();
        let first = disk.time(Duration::ZERO, 0, 0, 1 << 19);
        assert!(first.abs_diff(disk.turn / 2) < Duration::from_nanos(100), "half a track from angle 0 on");
        let second = disk.time(first, 0, 1 << 19, 1 << 19);
        assert!(second.abs_diff(disk.turn / 2) < Duration::from_nanos(100));
    }

    #[test]
    fn the_elevator_goes_one_way() {
        let mut disk = Disk::new(DiskModel::hdd());
        for (key, start) in [(0, 500 << 20), (1, 100 << 20), (2, 300 << 20)] {
            disk.submit(Wanted { key, start, len: 4096 });
        }
        let mut order = Vec::new();
        let mut now = Duration::ZERO;
        while let Some((wanted, time)) = disk.begin(now) {
            if order.is_empty() {
                disk.submit(Wanted { key: 3, start: 50 << 20, len: 4096 });
            }
            order.push(wanted.key);
            now += time;
            disk.ended();
        }
        assert_eq!(order, [1, 2, 0, 3]);
    }
}
