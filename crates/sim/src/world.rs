//! One run: an array's disks, the core that runs them, and everything that is known about what should be there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uraid_array::core::{Command, CommandError, Core, Input, Notice, Output, Status};
use uraid_device::{DeviceError, Io, IoOp, Operation, Pool};
use uraid_engine::{FailureKind, Outcome, Request, RequestId, SyncKind, SyncProgress};
use uraid_geometry::{Geometry, ParityRole};
use uraid_types::{Level, Sector, SectorCount, Slot, StripeNo};

use crate::disk::Disk;
use crate::marks::Marks;
use crate::model::{self, Model, SECTOR, Value};
use crate::rng::Rng;
use crate::rules::superblock_words;
use crate::setup::{Areas, Setup, data_sector};

/// How a run is made to go wrong, so that the simulator proves that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// One disk acknowledges flushes and does not do them.
    FlushLies,
    /// Bitmap writes are acknowledged and dropped.
    NoBitmap,
    /// One data write in forty is acknowledged and dropped.
    LostWrites,
    /// Superblocks are acknowledged and dropped on one disk.
    NoSuperblock,
    /// Metadata is acknowledged before it is written.
    EarlyMetadata,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 5] =
        [Mutation::FlushLies, Mutation::NoBitmap, Mutation::LostWrites, Mutation::NoSuperblock, Mutation::EarlyMetadata];
}

/// What a life begins with in some seeds: chance alone seldom comes that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Episode {
    /// A resync that nothing disturbs, with time for its position to be recorded.
    Resync,
    /// A member is replaced, and it or its replacement comes back.
    Swap,
}

/// Why a life ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The power goes now.
    Crash,
    /// What comes next is no fault: the run ends here.
    GivenUp,
    /// A rule was broken.
    Bug(String),
}

impl From<String> for Stop {
    fn from(bug: String) -> Stop {
        Stop::Bug(bug)
    }
}

/// What a request asked for.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Read,
    Write { value: Value, fua: bool },
    Flush,
    Trim,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub asked: Asked,
    pub range: std::ops::Range<u64>,
    pub submitted: u64,
    /// The model's then.
    pub epoch: u32,
}

/// A member operation under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub io: Io,
    /// For a flush: what it covers.
    mark: u64,
}

/// A member that was lost, and is to be recorded as lost on the others.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub key: usize,
    pub number: usize,
    pub slot: Slot,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct World {
    pub rng: Rng,
    pub setup: Setup,
    pub areas: Areas,
    pub geometry: Geometry,
    pub disks: Vec<Disk>,
    pub pool: Pool,
    pub model: Model,
    pub marks: Marks,
    pub mutation: Option<Mutation>,
    /// Prints what happens.
    pub trace: bool,
    /// Counts everything that happens; the model's time.
    pub now: u64,
    /// The array's clock.
    pub now_ms: u64,
    pub core: Option<Core>,
    pub under_way: Vec<UnderWay>,
    pub waiting: BTreeMap<u64, Waiting>,
    pub next_request: u64,
    pub next_value: Value,
    pub commands: VecDeque<&'static str>,
    pub results: VecDeque<Result<(), CommandError>>,
    /// Outputs until the power goes.
    pub crash_in: Option<u64>,
    pub stopped: bool,
    pub read_only: bool,
    /// Slots by disk, as told by the core.
    pub slot_of: BTreeMap<usize, Slot>,
    /// Disks that take metadata.
    pub attached: BTreeSet<usize>,
    /// Of those, the ones whose first superblock is not durable yet.
    pub joining: BTreeSet<usize>,
    /// Of those, the ones to which one has been sent: one that comes back has an old one, which may look like the newest.
    pub introduced: BTreeSet<usize>,
    /// Disks that are being rebuilt: what is written to them may be older than the marks.
    pub rebuilding: BTreeSet<usize>,
    pub released: BTreeSet<usize>,
    pub losses: Vec<Loss>,
    pub broken: bool,
    /// Stripes in which parity and data may disagree since a crash or a torn write.
    pub holes: BTreeSet<u64>,
    /// What could make a request fail with an I/O error.
    pub io_errors_excused: bool,
    /// The disk that got unreadable blocks in this life.
    pub spoiled: Option<usize>,
    /// Disks fill up in this life.
    pub space_tight: bool,
    pub out_of_space: bool,
    pub ended_runs: Vec<(SyncProgress, bool)>,
    pub newest_events: u64,
    /// The last superblock sent to each disk, until it has been looked at.
    pub sent_supers: BTreeMap<usize, Vec<u8>>,
    /// Disks that failed to take metadata in this life.
    pub metadata_failed: BTreeSet<usize>,
    /// Bits of regions that were written while a member was missing.
    pub missed_bits: BTreeSet<u64>,
    pub episode: Option<Episode>,
    /// A recovery has just ended, and a loss is to follow.
    pub loss_due: bool,
    /// Before the last power cut a member was lost while another was being recorded as whole.
    pub filled_in_vain: bool,
}

impl World {
    pub fn core(&mut self) -> &mut Core {
        self.core.as_mut().expect("an array is running")
    }

    pub fn status(&self) -> Status {
        self.core.as_ref().expect("an array is running").status()
    }

    pub fn say(&self, words: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>6} {}", self.now, words());
        }
    }

    pub fn redundant(&self) -> bool {
        self.setup.level.is_redundant()
    }

    /// Gives the core an input and carries out what it wants.
    pub fn handle(&mut self, input: Input) -> Result<(), Stop> {
        self.now += 1;
        let mut outputs = Vec::new();
        self.core().handle(input, &mut outputs);
        if self.mutation == Some(Mutation::EarlyMetadata) {
            self.acknowledge_early(&mut outputs);
        }
        for output in outputs {
            if let Some(left) = &mut self.crash_in {
                if *left == 0 {
                    return Err(Stop::Crash);
                }
                *left -= 1;
            }
            if self.stopped {
                return Err(Stop::Bug(format!("after 'stopped' came {output:?}")));
            }
            self.carry_out(output)?;
        }
        Ok(self.check_startable()?)
    }

    /// The mutation: metadata writes end at once and are written later, if ever.
    fn acknowledge_early(&mut self, outputs: &mut Vec<Output>) {
        let mut at = 0;
        while at < outputs.len() {
            let early = match &outputs[at] {
                Output::Io(Io { op: IoOp::Write { offset_bytes, .. }, .. }) => !self.in_data(*offset_bytes),
                _ => false,
            };
            if !early {
                at += 1;
                continue;
            }
            let Output::Io(io) = outputs.remove(at) else { continue };
            self.core().handle(Input::Completion { token: io.token, op: io.op, result: Ok(()) }, outputs);
        }
    }

    pub fn in_data(&self, byte: u64) -> bool {
        (self.areas.data_byte..self.areas.data_end_byte).contains(&byte)
    }

    fn carry_out(&mut self, output: Output) -> Result<(), Stop> {
        match output {
            Output::Io(io) => {
                self.say(|| format!("  {} {}", self.disks[io.member].name, self.describe(&io.op)));
                self.check_io(&io)?;
                let mark = self.disks[io.member].flush_mark();
                self.under_way.push(UnderWay { io, mark });
            }
            Output::Reply { id, outcome } => self.reply(id, &outcome)?,
            Output::CommandDone(result) => {
                self.say(|| format!("  command done: {result:?}"));
                let name = self.commands.pop_front().ok_or_else(|| "a command was answered that nobody gave".to_owned())?;
                if result.is_ok() {
                    self.marks.hit(name);
                }
                self.results.push_back(result);
            }
            Output::Release { key } => {
                self.say(|| format!("  released {}", self.disks[key].name));
                self.attached.remove(&key);
                self.released.insert(key);
            }
            Output::Notice(notice) => self.notice(notice)?,
            Output::Stopped => {
                self.say(|| "  stopped".to_owned());
                self.stopped = true;
            }
        }
        Ok(())
    }

    pub fn describe(&self, op: &IoOp) -> String {
        let (byte, len) = (op.offset_bytes(), op.len_bytes() / 512);
        let place = if self.in_data(byte) {
            format!("data {}", (byte - self.areas.data_byte) / 512)
        } else if byte == self.areas.super_byte {
            "superblock".to_owned()
        } else {
            format!("byte {byte}")
        };
        match op {
            IoOp::Flush => "flush".to_owned(),
            IoOp::Write { from, .. } if byte == self.areas.super_byte => {
                format!("write superblock {}", superblock_words(&from[0]))
            }
            op => format!("{} {place} +{len}", op.operation()),
        }
    }

    fn key_of(&self, name: &str) -> Result<usize, String> {
        self.disks.iter().position(|disk| disk.name == name).ok_or_else(|| format!("no disk is called {name}"))
    }

    fn notice(&mut self, notice: Notice) -> Result<(), Stop> {
        self.say(|| format!("  notice {notice:?}"));
        match notice {
            Notice::MemberLost { name, slot, .. } => {
                self.marks.hit("lost member");
                let key = self.key_of(&name)?;
                self.attached.remove(&key);
                self.slot_of.remove(&key);
                let number = self.number_of(&name).ok_or_else(|| format!("{name} is lost and has no number"))?;
                self.losses.push(Loss { key, number, slot });
                self.open_hole_for(slot);
                self.model.copies_may_differ();
                self.broken = self.status().broken.is_some();
                if self.broken {
                    self.marks.hit("broken");
                    self.io_errors_excused = true;
                }
                self.note_excuses();
            }
            Notice::SpareLost { name, .. } => {
                let key = self.key_of(&name)?;
                self.attached.remove(&key);
            }
            Notice::SpareActivated { name, slot } => {
                self.marks.hit("spare takeover");
                let key = self.key_of(&name)?;
                self.slot_of.insert(key, slot);
                self.rebuilding.insert(key);
                self.disks[key].begin_filling(0);
            }
            Notice::BitmapLost { name, .. } => return Err(Stop::Bug(format!("no bitmap is in a file, but {name} was lost"))),
            Notice::Corrected { .. } => self.marks.hit("read repaired"),
            Notice::SyncEnded { progress, complete, .. } => {
                if complete {
                    self.marks.hit(progress.kind.name());
                    let rebuilding = self.status().members.into_iter().filter(|member| member.state == "rebuilding");
                    let names: Vec<String> = rebuilding.map(|member| member.name).collect();
                    self.rebuilding.retain(|&key| names.contains(&self.disks[key].name));
                    if progress.kind == SyncKind::Resync && !self.status().resync_pending {
                        self.holes.clear();
                    }
                    if self.status().degraded == 0 {
                        self.missed_bits.clear();
                    }
                }
                if complete && progress.kind == SyncKind::Recovery && self.episode == Some(Episode::Swap) {
                    self.loss_due = true;
                }
                self.ended_runs.push((progress, complete));
            }
        }
        Ok(())
    }

    /// Requests may fail once more is lost, dying or unreadable than redundancy makes up for.
    pub fn note_excuses(&mut self) {
        let failing = |key: &&usize| self.disks[**key].dead || self.spoiled == Some(**key);
        let failing = self.slot_of.keys().filter(failing).count();
        self.io_errors_excused |= self.status().degraded + failing > self.geometry.max_failures();
    }

    pub fn number_of(&self, name: &str) -> Option<usize> {
        self.status().members.iter().find(|member| member.name == name).map(|member| member.number as usize)
    }

    /// A write hole shows where a member is missing whose data only parity gives: those sectors may be anything.
    pub fn open_hole_for(&mut self, slot: Slot) {
        let Geometry::Parity(parity) = &self.geometry else { return };
        for &stripe in &self.holes {
            if let ParityRole::Data(index) = parity.role(StripeNo(stripe), slot) {
                let start = parity.array_sector(StripeNo(stripe), index, SectorCount(0)).0;
                self.model.forget(&(start..start + parity.chunk().0), self.now);
            }
        }
    }

    /// The stripes of an array range (levels with parity).
    pub fn stripes_of(&self, range: &std::ops::Range<u64>) -> Vec<u64> {
        let Geometry::Parity(parity) = &self.geometry else { return Vec::new() };
        let stripe = |sector: u64| parity.stripe_of(Sector(sector)).stripe.0;
        if range.is_empty() { Vec::new() } else { (stripe(range.start)..=stripe(range.end - 1)).collect() }
    }

    pub fn oldest_read(&self) -> u64 {
        let reads = self.waiting.values().filter(|waiting| matches!(waiting.asked, Asked::Read));
        reads.map(|waiting| waiting.submitted).min().unwrap_or(self.now)
    }

    fn reply(&mut self, id: RequestId, outcome: &Outcome) -> Result<(), Stop> {
        self.now += 1;
        let waiting = self.waiting.remove(&id.0).ok_or_else(|| format!("request {} was answered twice, or never asked", id.0))?;
        self.say(|| format!("  reply {} {:?}", id.0, outcome.as_ref().map(|_| ()).map_err(|error| error.to_string())));
        if let Err(error) = outcome {
            let excused = match error.kind {
                FailureKind::Io => self.io_errors_excused,
                FailureKind::NoSpace => self.out_of_space,
                FailureKind::Stopping => true,
                FailureKind::ReadOnly => self.read_only,
                FailureKind::OutOfRange => false,
            };
            if !excused {
                return Err(Stop::Bug(format!("request {} {:?} failed without a reason: {error}", id.0, waiting.asked)));
            }
        } else if !matches!(waiting.asked, Asked::Read | Asked::Trim) {
            self.check_acknowledgement(id.0)?;
        }
        let (now, range) = (self.now, waiting.range.clone());
        match waiting.asked {
            Asked::Read => {
                if let Ok(parts) = outcome {
                    self.check_read(&range, parts, waiting.submitted, waiting.epoch)?;
                }
            }
            Asked::Write { value, fua } => self.model.end(&range, value, outcome.is_ok(), fua, now),
            Asked::Flush if outcome.is_ok() => {
                let oldest_read = self.oldest_read();
                self.model.flushed(waiting.submitted, oldest_read);
            }
            Asked::Flush | Asked::Trim => {}
        }
        Ok(())
    }

    fn check_read(
        &mut self,
        range: &std::ops::Range<u64>,
        parts: &[uraid_device::Shared],
        submitted: u64,
        epoch: u32,
    ) -> Result<(), String> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        if bytes.len() != (range.end - range.start) as usize * SECTOR {
            return Err(format!("a read of {range:?} brought {} bytes", bytes.len()));
        }
        // Around an unreadable block another copy answers, which may be of another time.
        let stable = self.spoiled.is_none() && epoch == self.model.epoch();
        for (sector, bytes) in range.clone().zip(bytes.chunks_exact(SECTOR)) {
            self.model
                .check_read(sector, bytes, submitted, self.now, stable)
                .map_err(|why| format!("read of {range:?}: {why}"))?;
        }
        Ok(())
    }

    /// Ends one member operation.
    pub fn complete(&mut self, index: usize) -> Result<(), Stop> {
        let UnderWay { io, mark } = self.under_way.swap_remove(index);
        let Io { token, member, mut op } = io;
        let result = self.perform(member, &mut op, mark);
        self.say(|| {
            format!(
                "{} {} ended {:?}",
                self.disks[member].name,
                self.describe(&op),
                result.as_ref().err().map(|e| e.source.kind())
            )
        });
        if result.is_ok() && matches!(op, IoOp::Flush) {
            self.joined(member);
        }
        let failed = result.is_err();
        if failed && (matches!(op, IoOp::Flush) || !self.in_data(op.offset_bytes())) {
            self.metadata_failed.insert(member);
        }
        self.handle(Input::Completion { token, op, result })?;
        if failed && !self.broken {
            self.broken = self.status().broken.is_some();
        }
        Ok(())
    }

    fn perform(&mut self, member: usize, op: &mut IoOp, mark: u64) -> Result<(), DeviceError> {
        let in_data = self.in_data(op.offset_bytes());
        let dropped = self.drops(member, op, in_data);
        let (marks, disk) = (&mut self.marks, &mut self.disks[member]);
        let (offset, len) = (op.offset_bytes(), op.len_bytes());
        let name = disk.name.clone();
        let fault = |operation: Operation, kind: std::io::ErrorKind| {
            Err(DeviceError::at(name, operation, offset, len, std::io::Error::from(kind)))
        };
        if disk.dead {
            return fault(op.operation(), std::io::ErrorKind::Other);
        }
        match op {
            IoOp::Read { offset_bytes, into } => {
                if !disk.read(*offset_bytes, into) {
                    // Another copy answers, and will be taken for the right one.
                    self.model.copies_may_differ();
                    return fault(Operation::Read, std::io::ErrorKind::Other);
                }
            }
            IoOp::Write { .. } | IoOp::Zero { .. } if disk.failing_writes > 0 => {
                disk.failing_writes -= 1;
                return fault(Operation::Write, std::io::ErrorKind::Other);
            }
            IoOp::Write { .. } if disk.full > 0 && in_data => {
                disk.full -= 1;
                marks.hit("no space");
                if let Geometry::Parity(parity) = &self.geometry {
                    let chunk = parity.chunk().bytes();
                    let (first, past) = (offset - self.areas.data_byte, offset - self.areas.data_byte + len);
                    self.holes.extend(first / chunk..past.div_ceil(chunk));
                }
                self.out_of_space = true;
                return fault(Operation::Write, std::io::ErrorKind::StorageFull);
            }
            IoOp::Write { offset_bytes, from } => {
                if !dropped && in_data {
                    disk.write_silently_wrong(*offset_bytes, from, self.areas.data_end_byte);
                } else if !dropped {
                    disk.write(*offset_bytes, from, || true);
                }
            }
            IoOp::Zero { offset_bytes, len_bytes, .. } => {
                let zeros = self.pool.zeroed(*len_bytes as usize).share();
                disk.write(*offset_bytes, &[zeros], || true);
            }
            IoOp::Flush if disk.failing_flush => {
                let dropped = disk.fail_flush(mark);
                marks.hit("flush failed");
                let failed = fault(Operation::Flush, std::io::ErrorKind::Other);
                self.forget_dropped(member, &dropped);
                return failed;
            }
            IoOp::Flush => disk.flush(mark),
        }
        Ok(())
    }

    /// What a disk dropped that nothing else can answer for may be anything.
    fn forget_dropped(&mut self, member: usize, dropped: &[u64]) {
        let Some(&slot) = self.slot_of.get(&member) else { return };
        let marks = self.status().up;
        let missing: Vec<Slot> =
            marks.chars().enumerate().filter(|(_, mark)| *mark != 'U').map(|(slot, _)| Slot::from_index(slot)).collect();
        if self.geometry.survives(&missing.iter().copied().chain([slot]).collect::<Vec<_>>()) {
            return;
        }
        let dropped: Vec<u64> = dropped.iter().copied().filter(|&byte| self.in_data(byte)).collect();
        for byte in dropped {
            let first = data_sector(&self.areas, byte);
            for sector in first..first + self.block_sectors() {
                if let Some(array) = self.array_sector(slot, sector) {
                    self.model.forget(&(array..array + 1), self.now);
                }
                if let Geometry::Parity(parity) = &self.geometry {
                    self.holes.insert(sector / parity.chunk().0);
                }
            }
        }
        missing.into_iter().for_each(|slot| self.open_hole_for(slot));
    }

    /// Does a mutation drop this write?
    fn drops(&mut self, member: usize, op: &IoOp, in_data: bool) -> bool {
        if !matches!(op, IoOp::Write { .. }) {
            return false;
        }
        let is_super = op.offset_bytes() == self.areas.super_byte;
        match self.mutation {
            Some(Mutation::NoBitmap) => !in_data && !is_super,
            Some(Mutation::LostWrites) => in_data && self.rng.chance(3),
            Some(Mutation::NoSuperblock) => is_super && member == 0,
            Some(Mutation::FlushLies | Mutation::EarlyMetadata) | None => false,
        }
    }

    /// Asks the array for something.
    pub fn ask(&mut self, asked: Asked, range: std::ops::Range<u64>) -> Result<(), Stop> {
        self.now += 1;
        let id = self.next_request;
        self.next_request += 1;
        let (start, len) = (Sector(range.start), SectorCount(range.end - range.start));
        let request = match asked {
            Asked::Read => Request::Read { start, len },
            Asked::Flush => Request::Flush,
            Asked::Trim => Request::Trim { start, len },
            Asked::Write { value: model::ZERO, fua } => Request::Zero { start, len, hole: self.rng.chance(50), fua },
            Asked::Write { value, fua } => {
                let mut data = self.pool.take(len.len_bytes());
                for (sector, bytes) in range.clone().zip(data.chunks_exact_mut(SECTOR)) {
                    model::fill(value, sector, bytes);
                }
                Request::Write { start, data: data.share(), fua }
            }
        };
        self.say(|| format!("ask {id} {asked:?} {range:?}"));
        match asked {
            Asked::Write { value, .. } => self.model.submit(&range, value, self.now),
            Asked::Trim => self.model.forget(&range, self.now),
            Asked::Read | Asked::Flush => {}
        }
        self.waiting.insert(id, Waiting { asked, range, submitted: self.now, epoch: self.model.epoch() });
        self.handle(Input::Request { id: RequestId(id), request })
    }

    /// Lets time pass.
    pub fn tick(&mut self, ms: u64) -> Result<(), Stop> {
        self.now_ms += ms;
        let (now_ms, wall_seconds) = (self.now_ms, 1_700_000_000 + self.now_ms / 1000);
        self.handle(Input::Tick { now_ms, wall_seconds })
    }

    /// Gives a command and returns its answer.
    pub fn command(&mut self, name: &'static str, command: Command) -> Result<Result<(), CommandError>, Stop> {
        self.say(|| format!("command {name} {command:?}"));
        self.commands.push_back(name);
        self.results.clear();
        self.handle(Input::Command(command))?;
        self.results.pop_front().ok_or_else(|| Stop::Bug(format!("the command {name} was not answered at once")))
    }

    /// RAID0 and the like.
    pub fn level(&self) -> Level {
        self.setup.level
    }
}
