//! A running array without its threads: the engine, the members' metadata, and the order in which it is written.
//!
//! Pure like the engine: [`Input`]s go in, [`Output`]s come out, so the simulator drives exactly what runs on real disks. Members
//! are known by keys that the caller chooses (its queue's indices).

mod bad_blocks;
mod command;
mod persist;
mod roles;
mod status;

use std::collections::HashMap;

use uraid_device::{DeviceError, Io, IoOp, Pool};
use uraid_engine::planner::Preference;
use uraid_engine::{
    BitmapConfig, Config, Effect, Engine, Event, MemberState, Outcome, Request, RequestError, RequestId, SyncProgress, SyncSpeed,
};
use uraid_format::{Bitmap, BitmapSuper, RawSuper};
use uraid_geometry::Geometry;
use uraid_types::{Sector, SectorCount, Slot};

pub use command::{Command, CommandError, NewMember};
pub use status::{BitmapStatus, IoStatus, MemberStatus, ReshapeStatus, ShapeStatus, Status, SyncStatus};

use persist::Persist;
use roles::{Attached, Place};

/// A member that an array starts with.
#[derive(Clone, Debug)]
pub struct CoreMember {
    /// The caller's key for its I/O.
    pub key: usize,
    /// For messages.
    pub name: String,
    /// Its superblock.
    pub raw: RawSuper,
    /// The slot it holds; `None` for a spare.
    pub slot: Option<Slot>,
    /// Sectors from its start whose data is lost. That reads of them fail is its owner's business: here it is noted what has been
    /// written again.
    pub bad_blocks: Vec<(Sector, SectorCount)>,
}

/// What an array starts from: what assembling found.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// Where everything is.
    pub geometry: Geometry,
    /// The largest logical block of the members.
    pub block: SectorCount,
    /// The state of every slot.
    pub slots: Vec<MemberState>,
    /// Every slot: is it read only when nothing else can answer?
    pub write_mostly: Vec<bool>,
    /// Where a resync has to start.
    pub resync_from: Option<Sector>,
    /// The write-intent bitmap: how it was found, and its image.
    pub bitmap: Option<(BitmapConfig, BitmapSuper, Bitmap)>,
    /// The caller's key for the file that the bitmap is kept in, and its name; `None` when the members have it.
    pub bitmap_file: Option<(usize, String)>,
    /// Members, active ones and spares.
    pub members: Vec<CoreMember>,
    /// The events of the freshest member.
    pub events: u64,
    /// Nothing is written.
    pub read_only: bool,
    /// Resync and recovery start by themselves.
    pub auto_sync: bool,
    /// What the members' metadata is, where it is not md's: then their superblocks here only describe it.
    pub foreign: Option<&'static str>,
    /// Bytes for stripe buffers.
    pub cache_bytes: usize,
    /// How writes to stripes are planned.
    pub preference: Preference,
    /// How fast runs over the array may go.
    pub sync_speed: SyncSpeed,
    /// Where buffers come from.
    pub pool: Pool,
}

/// What happens to a running array.
#[derive(Debug)]
pub enum Input {
    /// It starts.
    Start,
    /// A front end asks.
    Request {
        /// Its name for it.
        id: RequestId,
        /// What it asks.
        request: Request,
    },
    /// A member operation has ended.
    Completion {
        /// From [`Output::Io`].
        token: u64,
        /// With its buffers.
        op: IoOp,
        /// How it ended.
        result: Result<(), DeviceError>,
    },
    /// An administrator asks.
    Command(Command),
    /// Time has passed.
    Tick {
        /// Milliseconds from any start, never going back.
        now_ms: u64,
        /// Seconds since 1970, for the superblocks.
        wall_seconds: u64,
    },
    /// Finish, make durable, mark clean.
    Shutdown,
}

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A member was lost.
    MemberLost {
        /// Its name.
        name: String,
        /// Its slot.
        slot: Slot,
        /// What it did.
        why: String,
    },
    /// A spare could not be written and was dropped.
    SpareLost {
        /// Its name.
        name: String,
        /// What it did.
        why: String,
    },
    /// The bitmap's file could not be written: from now on there is no bitmap.
    BitmapLost {
        /// The file.
        name: String,
        /// What it did.
        why: String,
    },
    /// A spare takes over a slot.
    SpareActivated {
        /// Its name.
        name: String,
        /// The slot.
        slot: Slot,
    },
    /// An unreadable block was rebuilt and rewritten.
    Corrected {
        /// The member's name.
        name: String,
        /// First member data sector.
        start: Sector,
        /// How many.
        len: SectorCount,
    },
    /// A run over the array has ended.
    SyncEnded {
        /// What it did and found.
        progress: SyncProgress,
        /// It went to the end.
        complete: bool,
        /// Why it could not go on.
        why: Option<String>,
    },
}

/// What a running array wants done.
#[derive(Debug)]
pub enum Output {
    /// A member operation; `member` is the caller's key, the offset counts from the member's start.
    Io(Io),
    /// A request has ended.
    Reply {
        /// The front end's name for it.
        id: RequestId,
        /// How.
        outcome: Outcome,
    },
    /// The answer to a command; one for each, in order.
    CommandDone(Result<(), CommandError>),
    /// The member is not used any more once its operations have ended.
    Release {
        /// The caller's key.
        key: usize,
    },
    /// Something worth telling.
    Notice(Notice),
    /// Everything is durable and marked clean; nothing more will come.
    Stopped,
}

/// Where a bitmap is that the members do not have.
#[derive(Clone, Debug)]
struct KeptInFile {
    key: usize,
    name: String,
    /// It has to be written whole.
    due: bool,
}

/// To whom a member operation belongs.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Engine { token: u64, key: usize },
    Persist { key: usize },
}

/// See the module.
#[derive(Debug)]
pub struct Core {
    engine: Engine,
    attached: Vec<Attached>,
    block: SectorCount,
    foreign: Option<&'static str>,
    read_only: bool,
    events: u64,
    wall_seconds: u64,
    bitmap: Option<(BitmapSuper, Bitmap)>,
    bitmap_file: Option<KeptInFile>,
    persist: Persist,
    owners: HashMap<u64, Owner>,
    next_token: u64,
    effects: Vec<Effect>,
    out: Vec<Output>,
    engine_stopped: bool,
    stopped: bool,
    last_sync: Option<(SyncProgress, bool)>,
    /// Numbers of members that were let go: nobody gets one while superblocks may still show its old holder as active.
    retired: Vec<u32>,
}

/// Largest window of a run over the array, in sectors of each member: 128 KiB keeps all members' windows in the cache.
const WINDOW: SectorCount = SectorCount(256);
/// Windows under way at once, at most.
const WINDOWS: usize = 8;

impl Core {
    /// An array at rest; it starts with [`Input::Start`].
    ///
    /// # Panics
    /// When two members claim a slot, or a slot with contents has no member.
    #[must_use]
    pub fn new(config: CoreConfig) -> Core {
        let mut attached: Vec<Attached> = config.members.into_iter().map(Attached::new).collect();
        for (index, state) in config.slots.iter().enumerate() {
            let holders = attached.iter().filter(|member| member.place == Place::Slot(Slot::from_index(index))).count();
            assert_eq!(holders, usize::from(*state != MemberState::Missing), "slot {index} has one member, or none when missing");
        }
        let window_bytes = WINDOW.len_bytes() * config.slots.len().max(1);
        let windows = (config.cache_bytes / 2 / window_bytes).clamp(1, WINDOWS);
        let bitmap = config.bitmap.map(|(mut found, superblock, mut bits)| {
            if !found.current {
                // On the members too, or a crash would leave a bitmap that looks current and has forgotten what is due.
                bits.set_range(0..found.bits);
                found.set = (0..found.bits).collect();
            }
            (found, (superblock, bits))
        });
        let (bitmap_config, bitmap) = bitmap.unzip();
        let engine = Engine::new(Config {
            block: config.block,
            write_mostly: config.write_mostly,
            resync_from: config.resync_from,
            bitmap: bitmap_config,
            read_only: config.read_only,
            auto_sync: config.auto_sync,
            window: WINDOW,
            windows,
            cache_bytes: config.cache_bytes,
            preference: config.preference,
            sync_speed: config.sync_speed,
            pool: config.pool,
            ..Config::new(config.geometry, config.slots)
        });
        // A crash may leave a spare one event ahead of all others: to go on from its count would leave them two behind the next update.
        let newest = |is_it: fn(Place) -> bool| {
            let those = attached.iter().filter(|member| is_it(member.place));
            those.map(|member| member.raw.superblock().events).max()
        };
        let in_slots = newest(|place| matches!(place, Place::Slot(_)));
        let is_spares = newest(|place| place == Place::Spare) == Some(config.events);
        let events = in_slots.filter(|events| is_spares && events + 1 == config.events).unwrap_or(config.events);
        let mut persist = Persist::default();
        if !config.read_only {
            let late = roles::catch_up(&mut attached, events);
            if !late.is_empty() {
                persist.catch_up(late);
            }
        }
        roles::number_apart(&mut attached);
        Core {
            engine,
            attached,
            block: config.block,
            foreign: config.foreign,
            read_only: config.read_only,
            events,
            wall_seconds: 0,
            bitmap_file: config.bitmap_file.filter(|_| bitmap.is_some()).map(|(key, name)| KeptInFile { key, name, due: true }),
            bitmap,
            persist,
            owners: HashMap::new(),
            next_token: 0,
            effects: Vec::new(),
            out: Vec::new(),
            engine_stopped: false,
            stopped: false,
            last_sync: None,
            retired: Vec::new(),
        }
    }

    /// Takes an input; what is to be done about it is appended to `outputs`.
    ///
    /// # Panics
    /// When an input breaks the contract: a completion of an operation that was not sent.
    pub fn handle(&mut self, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Start => self.tell(Event::Start),
            Input::Request { id, request } => self.tell(Event::Request { id, request }),
            Input::Completion { token, op, result } => match self.owners.remove(&token) {
                Some(Owner::Engine { token, key }) => {
                    if result.is_ok() {
                        self.note_good(key, &op);
                    }
                    self.tell(Event::IoDone { token, op, result });
                }
                Some(Owner::Persist { key }) => self.persist_io_done(key, result),
                None => panic!("operation {token} was not sent, or ended twice"),
            },
            Input::Command(command) => {
                let answer = self.command(command);
                self.out.push(Output::CommandDone(answer));
            }
            Input::Tick { now_ms, wall_seconds } => {
                self.wall_seconds = wall_seconds;
                self.tell(Event::Tick { now_ms });
            }
            Input::Shutdown => self.tell(Event::Shutdown),
        }
        self.use_spares();
        self.pump_persist();
        if self.persist.is_idle() && self.engine.losses_recorded() {
            self.retired.clear();
        }
        if self.engine_stopped && self.persist.is_idle() && !self.stopped {
            self.stopped = true;
            self.out.push(Output::Stopped);
        }
        outputs.append(&mut self.out);
    }

    /// Passes an event to the engine and carries out what it wants, as far as that is metadata.
    fn tell(&mut self, event: Event) {
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.handle(event, &mut effects);
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Io { token, slot, op } => {
                let member = self.holder(slot).expect("the engine uses slots that have members");
                let (key, base) = (member.key, member.raw.superblock().data_offset);
                self.send(key, at_offset(op, base), Owner::Engine { token, key });
            }
            Effect::Reply { id, outcome } => {
                let outcome = outcome.map_err(|error| self.with_names(error));
                self.out.push(Output::Reply { id, outcome });
            }
            Effect::Metadata(snapshot) => {
                self.attached.iter_mut().for_each(|member| member.noted = member.place);
                self.persist.put_superblocks(snapshot);
            }
            Effect::Bitmap { generation, set, clear } => self.persist.put_bitmap(generation, set, clear),
            Effect::MemberLost { slot, why } => {
                let member = self.holder_mut(slot).expect("a member that is lost was there");
                member.place = Place::Faulty;
                let name = member.name.clone();
                self.out.push(Output::Notice(Notice::MemberLost { name, slot, why }));
            }
            Effect::Corrected { slot, start, len } => {
                if let Some(member) = self.holder_mut(slot) {
                    member.corrected_sectors += len.0;
                    let name = member.name.clone();
                    self.out.push(Output::Notice(Notice::Corrected { name, start, len }));
                }
            }
            Effect::SyncEnded { progress, complete, why } => {
                self.last_sync = Some((progress, complete));
                self.out.push(Output::Notice(Notice::SyncEnded { progress, complete, why }));
            }
            Effect::Stopped => self.engine_stopped = true,
        }
    }

    /// The error with the members' names behind the slots that it names.
    fn with_names(&self, mut error: RequestError) -> RequestError {
        let name = |slot: &Slot| Some(format!("{slot} is {}", self.holder(*slot)?.name));
        let names: Vec<String> = error.slots.iter().filter_map(name).collect();
        if !names.is_empty() {
            error.message += &format!(" ({})", names.join(", "));
        }
        error
    }

    fn send(&mut self, key: usize, op: IoOp, owner: Owner) {
        let token = self.next_token;
        self.next_token += 1;
        self.owners.insert(token, owner);
        self.out.push(Output::Io(Io { token, member: key, op }));
    }

    fn holder(&self, slot: Slot) -> Option<&Attached> {
        self.attached.iter().find(|member| member.place == Place::Slot(slot))
    }

    fn holder_mut(&mut self, slot: Slot) -> Option<&mut Attached> {
        self.attached.iter_mut().find(|member| member.place == Place::Slot(slot))
    }

    /// Gives every empty slot a spare, while there are any.
    fn use_spares(&mut self) {
        // Asked at every input: without a spare, which is the rule, nothing more is looked at.
        let has_spare = self.attached.iter().any(|member| member.place == Place::Spare);
        if !has_spare || self.read_only || self.engine_stopped || self.engine.is_stopping() || self.engine.broken().is_some() {
            return;
        }
        for (index, state) in self.engine.members().into_iter().enumerate() {
            let slot = Slot::from_index(index);
            if state != MemberState::Missing {
                continue;
            }
            let Some(spare) = self.attached.iter_mut().find(|member| member.place == Place::Spare) else { return };
            spare.place = Place::Slot(slot);
            let name = spare.name.clone();
            self.out.push(Output::Notice(Notice::SpareActivated { name, slot }));
            self.tell(Event::AddMember { slot, recovered: Sector(0), trust_bitmap: false });
        }
    }
}

/// The operation with its offset counted from the member's start instead of its data's.
fn at_offset(op: IoOp, base: Sector) -> IoOp {
    let base = base.byte_offset();
    match op {
        IoOp::Read { offset_bytes, into } => IoOp::Read { offset_bytes: offset_bytes + base, into },
        IoOp::Write { offset_bytes, from } => IoOp::Write { offset_bytes: offset_bytes + base, from },
        IoOp::Zero { offset_bytes, len_bytes, hole } => IoOp::Zero { offset_bytes: offset_bytes + base, len_bytes, hole },
        IoOp::Flush => IoOp::Flush,
    }
}
