//! The engine on such members: events in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use uraid_device::{IoOp, Pool, Shared};
use uraid_engine::planner::Preference;
use uraid_engine::{Config, Effect, Engine, Event, MemberState, Request, RequestId};
use uraid_geometry::Geometry;
use uraid_types::{SECTOR_BYTES, Sector, Slot};

use crate::disk::{Disk, DiskModel, Wanted};

/// Memory is not what is measured: no write waits for it.
const CACHE_BYTES: usize = 1 << 30;

/// An array.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where everything is.
    pub geometry: Geometry,
    /// How writes are planned.
    pub preference: Preference,
    /// Every member.
    pub disk: DiskModel,
}

/// Threads that each write a block somewhere, wait for it, and write the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many threads.
    pub threads: usize,
    /// Bytes of a write, a multiple of 512; it starts at a multiple of its length.
    pub block_bytes: usize,
    /// After so many writes the clock is stopped.
    pub writes: u64,
    /// Where the writes go.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Writes that ended.
    pub writes: u64,
    /// Bytes of one.
    pub block_bytes: usize,
    /// Virtual time.
    pub elapsed: Duration,
    /// Reads of old data and parity by the members.
    pub member_reads: u64,
    /// Writes by the members.
    pub member_writes: u64,
}

impl Measured {
    /// KiB written a second.
    #[must_use]
    pub fn kib_per_second(&self) -> f64 {
        self.writes as f64 * self.block_bytes as f64 / 1024.0 / self.elapsed.as_secs_f64()
    }

    /// Member I/Os a write.
    #[must_use]
    pub fn member_ios(&self) -> f64 {
        (self.member_reads + self.member_writes) as f64 / self.writes as f64
    }
}

/// Has the threads write until so many writes have ended. Those then under way are finished, so that member I/Os are counted whole,
/// but the clock has stopped.
///
/// # Panics
/// When the block is no multiple of 512 bytes, or not one fits the array; when there are no threads or no writes.
#[must_use]
pub fn random_writes(setup: &Setup, load: &Load) -> Measured {
    assert!(load.threads > 0 && load.writes > 0, "{} threads and {} writes measure nothing", load.threads, load.writes);
    let block_sectors = load.block_bytes as u64 / SECTOR_BYTES;
    assert!(block_sectors > 0 && (load.block_bytes as u64).is_multiple_of(SECTOR_BYTES), "blocks of {} bytes", load.block_bytes);
    let places = setup.geometry.capacity().0 / block_sectors;
    assert!(places > 0, "a block of {} bytes does not fit the array", load.block_bytes);
    let members = setup.geometry.shape().raid_disks;
    let pool = Pool::new(64 << 20);
    let config = Config {
        preference: setup.preference,
        pool: pool.clone(),
        cache_bytes: CACHE_BYTES,
        ..Config::new(setup.geometry.clone(), vec![MemberState::InSync; usize::from(members)])
    };
    let mut run = Run {
        engine: Engine::new(config),
        disks: (0..members).map(|_| Disk::new(setup.disk)).collect(),
        under_way: Vec::new(),
        free: Vec::new(),
        ends: BinaryHeap::new(),
        begun: 0,
        now: Duration::ZERO,
        random: fastrand::Rng::with_seed(load.seed),
        data: pool.take(load.block_bytes).share(),
        block_sectors,
        places,
        started: 0,
        ended: 0,
        wanted: load.writes,
        stopped: None,
    };
    run.tell(Event::Start);
    for _ in 0..load.threads {
        let write = run.write();
        run.tell(write);
    }
    run.finish();
    let ios = run.engine.counters().ios;
    Measured {
        writes: run.ended,
        block_bytes: load.block_bytes,
        // The rate is that of the writes up to the stop: the rest is counted at the same one.
        elapsed: run.stopped.unwrap_or(run.now).mul_f64(run.ended as f64 / load.writes as f64),
        member_reads: ios.write_reads,
        member_writes: ios.request_writes,
    }
}

struct Run {
    engine: Engine,
    disks: Vec<Disk>,
    /// The operations that the members have, by key.
    under_way: Vec<Option<(u64, Slot, IoOp)>>,
    free: Vec<usize>,
    /// When which operation ends; the second part keeps the order of those that end together.
    ends: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    begun: u64,
    now: Duration,
    random: fastrand::Rng,
    data: Shared,
    block_sectors: u64,
    places: u64,
    started: u64,
    ended: u64,
    wanted: u64,
    stopped: Option<Duration>,
}

impl Run {
    /// One more write, somewhere.
    fn write(&mut self) -> Event {
        let start = Sector(self.random.u64(..self.places) * self.block_sectors);
        let id = RequestId(self.started);
        self.started += 1;
        Event::Request { id, request: Request::Write { start, data: self.data.clone(), fua: false } }
    }

    fn finish(&mut self) {
        while let Some(Reverse((at, _, key))) = self.ends.pop() {
            self.now = at;
            let (token, slot, op) = self.under_way[key].take().expect("what ends was under way");
            self.free.push(key);
            self.disks[slot.index()].ended();
            self.begin(slot);
            self.tell(Event::IoDone { token, op, result: Ok(()) });
        }
    }

    fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        let mut effects = Vec::new();
        while let Some(event) = events.pop() {
            self.engine.handle(event, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    Effect::Io { token, slot, op } => self.submit(token, slot, op),
                    // The superblocks are written once, when the array becomes active: nothing beside the load.
                    Effect::Metadata(snapshot) => events.push(Event::MetadataDone { generation: snapshot.generation }),
                    Effect::Bitmap { generation, .. } => events.push(Event::BitmapDone { generation }),
                    Effect::Reply { outcome, .. } => {
                        outcome.expect("members that answer lose nothing");
                        events.extend(self.reply());
                    }
                    Effect::MemberLost { .. } | Effect::Corrected { .. } | Effect::SyncEnded { .. } | Effect::Stopped => {}
                }
            }
        }
    }

    /// A write has ended: its thread writes again, until there were enough.
    fn reply(&mut self) -> Option<Event> {
        self.ended += 1;
        if self.ended >= self.wanted {
            self.stopped.get_or_insert(self.now);
            return None;
        }
        Some(self.write())
    }

    fn submit(&mut self, token: u64, slot: Slot, op: IoOp) {
        let (start, len) = match &op {
            IoOp::Read { offset_bytes, into } => (*offset_bytes, into.len() as u64),
            IoOp::Write { offset_bytes, from } => (*offset_bytes, from.iter().map(|part| part.len() as u64).sum()),
            IoOp::Zero { offset_bytes, len_bytes, .. } => (*offset_bytes, *len_bytes),
            IoOp::Flush => (0, 0),
        };
        let key = self.free.pop().unwrap_or(self.under_way.len());
        if key == self.under_way.len() {
            self.under_way.push(None);
        }
        self.under_way[key] = Some((token, slot, op));
        self.disks[slot.index()].submit(Wanted { key, start, len });
        self.begin(slot);
    }

    fn begin(&mut self, slot: Slot) {
        if let Some((wanted, time)) = self.disks[slot.index()].begin(self.now) {
            self.begun += 1;
            self.ends.push(Reverse((self.now + time, self.begun, wanted.key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use uraid_engine::planner::RmwPolicy;
    use uraid_geometry::Shape;
    use uraid_types::{Layout, Level, SectorCount};

    use super::*;

    /// Ten members, RAID6, chunks of 64 KiB: the geometry of the published figures.
    fn published(rmw: RmwPolicy, disk: DiskModel, threads: usize, block_bytes: usize) -> Measured {
        let shape = Shape {
            level: Level::Raid6,
            layout: Layout::default_for(Level::Raid6),
            raid_disks: 10,
            chunk: SectorCount(128),
            member_sectors: vec![SectorCount(1_900_000_000); 10],
        };
        let geometry = Geometry::new(&shape).unwrap();
        let setup = Setup { geometry, preference: Preference { rmw, ..Preference::default() }, disk };
        random_writes(&setup, &Load { threads, block_bytes, writes: 60 * threads as u64, seed: 7 })
    }

    /// With more threads than the published 64, with which the members are idle for a twentieth of the time, see docs/performance.md.
    fn gain_percent(disk: DiskModel, threads: usize, block_bytes: usize) -> f64 {
        let rate = |rmw| published(rmw, disk, threads, block_bytes).kib_per_second();
        (rate(RmwPolicy::Auto) / rate(RmwPolicy::Never) - 1.0) * 100.0
    }

    #[test]
    fn member_ios_are_exactly_those_of_the_arithmetic() {
        for (kib, with, without) in
            [(4, 6.0, 10.0), (16, 6.0, 10.0), (64, 6.0, 10.0), (128, 8.0, 10.0), (256, 10.0, 10.0), (512, 10.0, 10.0)]
        {
            let ios = |rmw| published(rmw, DiskModel::ssd(), 64, kib << 10).member_ios();
            assert_eq!((ios(RmwPolicy::Auto), ios(RmwPolicy::Never)), (with, without), "{kib} KiB");
        }
    }

    #[test]
    fn fixed_costs_give_the_gain_that_the_arithmetic_promises() {
        for (kib, promised) in [(4, 200.0 / 3.0), (64, 200.0 / 3.0), (128, 25.0), (256, 0.0)] {
            let gain = gain_percent(DiskModel::ssd(), 256, kib << 10);
            assert!((gain - promised).abs() <= 5.0, "{kib} KiB: {gain:.1} % of {promised:.1} %");
        }
    }

    #[test]
    fn turning_disks_gain_no_less_than_was_published() {
        for (kib, published) in [(4, 32.0), (64, 38.0), (128, 15.0)] {
            let gain = gain_percent(DiskModel::hdd(), 128, kib << 10);
            assert!(gain >= published, "{kib} KiB: {gain:.1} %, published {published} %");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_figures() {
        let again = || published(RmwPolicy::Auto, DiskModel::hdd(), 64, 4096);
        assert_eq!(again(), again());
    }
}
