//! The stripe engine: how requests to an array become operations on its members, and how members are kept in agreement.
//!
//! A state machine without I/O, clock, threads or randomness: [`Event`]s go in, [`Effect`]s come out. The same events give the same
//! effects, so a simulator can replay a run and stop it at any effect, and the same code then runs on real disks.
//!
//! It may not know what metadata looks like on disk, nor where a member's data begins: effects name slots and member data sectors.
//!
//! ```
//! use uraid_engine::{Config, Effect, Engine, Event, MemberState, Request, RequestId};
//! use uraid_geometry::{Geometry, Shape};
//! use uraid_types::{Layout, Level, Sector, SectorCount};
//!
//! let shape = Shape {
//!     level: Level::Raid5,
//!     layout: Layout::default_for(Level::Raid5),
//!     raid_disks: 3,
//!     chunk: SectorCount(128),
//!     member_sectors: vec![SectorCount(1024); 3],
//! };
//! let mut engine = Engine::new(Config::new(Geometry::new(&shape).unwrap(), vec![MemberState::InSync; 3]));
//! let mut effects = Vec::new();
//! let request = Request::Read { start: Sector(0), len: SectorCount(8) };
//! engine.handle(Event::Request { id: RequestId(1), request }, &mut effects);
//! assert!(matches!(effects[..], [Effect::Io { .. }]), "one member answers");
//! ```

pub mod codec;
mod copies;
mod counters;
mod event;
mod extents;
mod flush;
mod intent;
mod lock;
mod members;
mod meta;
mod ops;
mod pace;
pub mod planner;
mod requests;
mod stripe_read;
mod stripe_write;
mod sync;
mod window_copies;
mod window_parity;

use std::collections::VecDeque;

use slab::Slab;
use uraid_device::{Pool, Shared};
use uraid_geometry::{Copies, Geometry, Parity};
use uraid_types::{Sector, SectorCount};

pub use counters::{Counters, MemberIos};
pub use event::{
    Effect, Event, FailureKind, MemberState, Outcome, Request, RequestError, RequestId, Snapshot, SyncKind, SyncProgress,
};
pub use pace::SyncSpeed;

use flush::FlushQueue;
use intent::Intent;
use lock::Locks;
use members::Members;
use meta::Meta;
use ops::{IoRef, Op};
use pace::Pace;
use planner::Preference;
use requests::{Parked, Pending};
use sync::SyncRun;

/// The write-intent bitmap as found on the members.
#[derive(Clone, Debug)]
pub struct BitmapConfig {
    /// Sectors under one bit, in the unit of [`Geometry::resync_sectors`].
    pub sectors_per_bit: u64,
    /// How many bits.
    pub bits: u64,
    /// The bits that are set.
    pub set: Vec<u64>,
    /// May it be believed? A stale one is taken to be all set.
    pub current: bool,
}

/// What an engine starts from.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where everything is.
    pub geometry: Geometry,
    /// The largest logical block of the members: 1 or 8 sectors.
    pub block: SectorCount,
    /// Every slot.
    pub members: Vec<MemberState>,
    /// Every slot: is it read only when nothing else can answer?
    pub write_mostly: Vec<bool>,
    /// Where a resync has to start; `None` for an array in sync.
    pub resync_from: Option<Sector>,
    /// The write-intent bitmap, if there is one.
    pub bitmap: Option<BitmapConfig>,
    /// Nothing is written.
    pub read_only: bool,
    /// Resync and recovery start by themselves.
    pub auto_sync: bool,
    /// Sectors of each member in one window of a run over the array.
    pub window: SectorCount,
    /// Windows under way at once.
    pub windows: usize,
    /// How fast runs over the array may go.
    pub sync_speed: SyncSpeed,
    /// Bytes that writes to stripes may hold at once; one alone may hold more.
    pub cache_bytes: usize,
    /// How writes to stripes are planned.
    pub preference: Preference,
    /// Where buffers come from.
    pub pool: Pool,
}

impl Config {
    /// Members of 512-byte blocks, in sync but for what `members` says, without a bitmap.
    #[must_use]
    pub fn new(geometry: Geometry, members: Vec<MemberState>) -> Config {
        Config {
            geometry,
            block: SectorCount(1),
            write_mostly: vec![false; members.len()],
            members,
            resync_from: None,
            bitmap: None,
            read_only: false,
            auto_sync: true,
            window: SectorCount(256),
            windows: 4,
            sync_speed: SyncSpeed::default(),
            cache_bytes: 32 << 20,
            preference: Preference::default(),
            pool: Pool::new(64 << 20),
        }
    }
}

/// See the crate.
#[derive(Debug)]
pub struct Engine {
    geometry: Geometry,
    block: SectorCount,
    pool: Pool,
    members: Members,
    locks: Locks,
    ops: Slab<Op>,
    ios: Slab<IoRef>,
    requests: Slab<Pending>,
    intent: Option<Intent>,
    meta: Meta,
    flushes: FlushQueue,
    sync: Option<SyncRun>,
    sync_wants_pump: bool,
    blocked: Vec<SyncKind>,
    auto_sync: bool,
    window: SectorCount,
    windows: usize,
    pace: Pace,
    requests_seen: u64,
    /// Where parity or copies may differ from: `None` when they agree everywhere.
    resync_from: Option<Sector>,
    /// Where writes were torn since the resync under way, if any, began.
    torn_from: Option<Sector>,
    /// The same as `resync_from` as far as it is durable.
    safe_resync_from: Option<Sector>,
    writes_under_way: usize,
    /// Writes that wait for the dirty mark or for bitmap bits.
    waiting_intent: Vec<(usize, extents::Rows)>,
    parked: Vec<Parked>,
    cache_bytes: usize,
    preference: Preference,
    held_bytes: usize,
    /// Writes to stripes that have their lock and wait for room.
    starved: VecDeque<(usize, usize)>,
    /// New writes that have yet to ask for their lock.
    to_lock: Vec<(u64, usize)>,
    read_only: bool,
    broken: Option<String>,
    stopping: bool,
    stopped: bool,
    started: bool,
    final_checkpoint: bool,
    now_ms: u64,
    counters: Counters,
    out: Vec<Effect>,
}

impl Engine {
    /// An engine at rest; resync and recovery start with [`Event::Start`].
    ///
    /// # Panics
    /// When `members` and `write_mostly` are not as many as the geometry's slots.
    #[must_use]
    pub fn new(config: Config) -> Engine {
        assert_eq!(config.members.len(), usize::from(config.geometry.shape().raid_disks), "one state a slot");
        let members = Members::new(&config.members, &config.write_mostly);
        let rebuilding = !members.rebuilding().is_empty();
        let intent = config.bitmap.map(|bitmap| {
            // After a clean stop bits that are still set only say what a missing member may have missed.
            let due = config.resync_from.is_some();
            let mut intent = Intent::new(bitmap.sectors_per_bit, bitmap.bits, &bitmap.set, due);
            if due && !bitmap.current || rebuilding {
                intent.need_everything();
            } else if let Some(from) = config.resync_from {
                intent.synced(&(0..from.0), config.geometry.resync_sectors().0);
            }
            intent
        });
        let missing = members.incomplete();
        let broken = (!config.geometry.survives(&missing)).then(|| "too few members to hold all data".to_owned());
        Engine {
            geometry: config.geometry,
            block: config.block,
            pool: config.pool,
            members,
            locks: Locks::default(),
            ops: Slab::new(),
            ios: Slab::new(),
            requests: Slab::new(),
            intent,
            meta: Meta::default(),
            flushes: FlushQueue::default(),
            sync: None,
            sync_wants_pump: false,
            blocked: Vec::new(),
            auto_sync: config.auto_sync,
            window: config.window,
            windows: config.windows,
            pace: Pace::new(config.sync_speed),
            requests_seen: 0,
            resync_from: config.resync_from,
            torn_from: None,
            safe_resync_from: config.resync_from,
            writes_under_way: 0,
            waiting_intent: Vec::new(),
            parked: Vec::new(),
            cache_bytes: config.cache_bytes,
            preference: config.preference,
            held_bytes: 0,
            starved: VecDeque::new(),
            to_lock: Vec::new(),
            read_only: config.read_only,
            broken,
            stopping: false,
            stopped: false,
            started: false,
            final_checkpoint: false,
            now_ms: 0,
            counters: Counters::default(),
            out: Vec::new(),
        }
    }

    /// Takes an event; what is to be done about it is appended to `effects`.
    ///
    /// # Panics
    /// When an event breaks the contract: an I/O that was not sent, a bitmap change out of order.
    pub fn handle(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Start => self.start(),
            Event::Request { id, request } => {
                self.requests_seen += 1;
                self.request(id, request);
            }
            Event::IoDone { token, op, result } => self.io_done(token, op, result),
            Event::MetadataDone { generation } => self.metadata_done(generation),
            Event::BitmapDone { generation } => self.bitmap_done(generation),
            Event::FailMember { slot, why } => self.lose_member(slot, &why),
            Event::AddMember { slot, recovered, trust_bitmap } => self.add_member(slot, recovered, trust_bitmap),
            Event::PutMetadata => {
                self.put_metadata();
            }
            Event::StartSync(kind) => self.start_sync(kind),
            Event::StopSync => self.stop_sync(),
            Event::SetSyncSpeed(speed) => self.set_sync_speed(speed),
            Event::Tick { now_ms } => self.tick(now_ms),
            Event::Shutdown => {
                self.stopping = true;
                self.stop_sync();
            }
        }
        self.start_needed_sync();
        loop {
            self.start_writes();
            if !std::mem::take(&mut self.sync_wants_pump) {
                break;
            }
            self.pump_sync();
        }
        self.continue_shutdown();
        effects.append(&mut self.out);
    }

    /// Where everything is.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Is the array on its way to a stop?
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Do the superblocks show every member that was lost?
    #[must_use]
    pub fn losses_recorded(&self) -> bool {
        !self.meta.lost && self.meta.failure <= self.meta.durable
    }

    /// Must a loss wait to be recorded? Until then no superblock may be written: without the lost member's, what the others said
    /// before would leave too few that are whole.
    #[must_use]
    pub fn holds_metadata(&self) -> bool {
        self.meta.is_held() && self.broken.is_none()
    }

    /// Array sectors.
    #[must_use]
    pub fn capacity(&self) -> SectorCount {
        self.geometry.capacity()
    }

    /// Every slot.
    #[must_use]
    pub fn members(&self) -> Vec<MemberState> {
        self.members.states()
    }

    /// Why no request can be answered any more.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Where parity or copies may differ from; `None` when they agree everywhere.
    #[must_use]
    pub fn resync_from(&self) -> Option<Sector> {
        self.resync_from
    }

    /// Bits set in the write-intent bitmap, of how many.
    #[must_use]
    pub fn bitmap_usage(&self) -> Option<(u64, u64)> {
        self.intent.as_ref().map(|intent| (intent.count_on_disk(), intent.len()))
    }

    /// How often which path was taken.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Are there writes that the superblocks show as under way?
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.meta.dirty
    }

    fn parity(&self) -> &Parity {
        match &self.geometry {
            Geometry::Parity(parity) => parity,
            Geometry::Copies(_) => panic!("a level without parity has no stripes"),
        }
    }

    fn copies(&self) -> &Copies {
        match &self.geometry {
            Geometry::Copies(copies) => copies,
            Geometry::Parity(_) => panic!("a level with parity has no copies"),
        }
    }

    /// Writes from `array` on as far as one piece reaches; returns how far.
    fn write_at(
        &mut self,
        array: Sector,
        max: SectorCount,
        request: usize,
        data: impl FnOnce(SectorCount) -> Shared,
    ) -> SectorCount {
        let Geometry::Parity(parity) = &self.geometry else { return self.write_copies(array, max, request, data) };
        let place = parity.stripe_of(array);
        let len = SectorCount(max.0.min(parity.chunk().0 - place.offset.0));
        let rows = requests::rows_at(place.offset.0, len);
        self.write_stripe(place.stripe, place.index, rows, data(len), request);
        len
    }

    fn start(&mut self) {
        self.started = true;
        if self.geometry.shape().level.is_redundant() {
            // Members that are not here fall behind for good, so that they cannot come back as if nothing had happened.
            self.meta.lost = !self.members.incomplete().is_empty();
            self.put_metadata();
        }
    }

    fn add_member(&mut self, slot: uraid_types::Slot, recovered: Sector, trust_bitmap: bool) {
        assert!(!self.members.writable(slot), "{slot} is taken");
        self.members.replace(slot, recovered);
        if let Some(intent) = &mut self.intent {
            if trust_bitmap {
                intent.need_all_set();
            } else {
                intent.need_everything();
            }
        }
        self.blocked.retain(|kind| *kind != SyncKind::Recovery);
        self.put_metadata();
        // A recovery under way begins again, now for both: what the first has by then is read, not rebuilt.
        if self.sync_progress().is_some_and(|run| run.kind == SyncKind::Recovery) {
            self.stop_sync();
        }
    }
}
