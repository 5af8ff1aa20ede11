//! A running array as others use it: requests from any thread, commands, status, stop.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};
use uraid_device::{Device, DeviceError, Fault, Faulty, OpenOptions, Pool, QueueOptions, Shared, Waker};
use uraid_engine::planner::Preference;
use uraid_engine::{Outcome, Request, RequestError, SyncKind, SyncSpeed};
use uraid_types::{Sector, SectorCount, Slot};
use uuid::Uuid;

use crate::core::{Command, CommandError, Core, CoreConfig, CoreMember, NewMember, Status};
use crate::layers::Layers;
use crate::pump::{Message, Pump, Reply};
use crate::{Assembly, Candidate, RefusedReason, Reshaping, open_member, scan, signature};

/// Default for [`RunOptions::cache_bytes`]: 32 MiB.
pub const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// How an array is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Nothing is written.
    pub read_only: bool,
    /// Resync and recovery start by themselves.
    pub auto_sync: bool,
    /// Bytes of buffers kept for stripes.
    pub cache_bytes: usize,
    /// How writes to stripes are planned.
    pub preference: Preference,
    /// How fast runs over the array may go.
    pub sync_speed: SyncSpeed,
    /// How member I/O is done.
    pub queue: QueueOptions,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            read_only: false,
            auto_sync: true,
            cache_bytes: DEFAULT_CACHE_BYTES,
            preference: Preference::default(),
            sync_speed: SyncSpeed::default(),
            queue: QueueOptions::default(),
        }
    }
}

/// Why a member could not be added.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// It could not be opened, or its contents not looked at.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It carries something.
    #[error("{name}: carries {what}; 'add --force' overwrites it")]
    Occupied {
        /// The member.
        name: String,
        /// What was found.
        what: String,
    },
    /// The array would not have it.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// See the module. Cheap to clone; the array stops when [`Array::stop`] is called or the last handle is dropped.
#[derive(Clone)]
pub struct Array(Arc<Inner>);

struct Inner {
    messages: Sender<Message>,
    waker: Waker,
    thread: Mutex<Option<JoinHandle<()>>>,
    capacity: SectorCount,
    block: SectorCount,
    stripe_bytes: u64,
    recorded_block_bytes: u32,
    read_only: bool,
    pool: Pool,
    /// Where its parts are, while it is being reshaped.
    layers: Option<Layers>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _stopped = self.messages.send(Message::Shutdown);
        self.waker.wake();
        join(&self.thread);
    }
}

fn join(thread: &Mutex<Option<JoinHandle<()>>>) {
    let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The last handle may be dropped on the array's own thread, by a reply that held it.
    let others = thread.filter(|thread| thread.thread().id() != std::thread::current().id());
    if others.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("the array's thread panicked: its superblocks show it as not cleanly stopped");
    }
}

impl Array {
    /// Runs what assembling has found.
    ///
    /// # Panics
    /// When the system has no thread left.
    #[must_use]
    pub fn start(assembly: Assembly, options: &RunOptions) -> Array {
        let layers = assembly.reshape.map(|reshaping| {
            let Reshaping { other, parts, status } = *reshaping;
            let degraded = other.degraded;
            let pool = Pool::new(0);
            Layers { other: Array::start(other, options), parts, backup: assembly.backup, status, degraded, pool }
        });
        let read_only = options.read_only || assembly.read_only_because.is_some();
        let pool = Pool::new(options.cache_bytes);
        let mut queue = uraid_device::queue(&options.queue);
        let shape = assembly.geometry.shape().clone();
        let slot_of = |index: usize| assembly.slots.iter().position(|slot| slot.member == Some(index)).map(Slot::from_index);
        let mut members = Vec::new();
        for (index, candidate) in assembly.members.iter().enumerate() {
            let (slot, is_spare) = (slot_of(index), assembly.spares.contains(&index));
            if slot.is_none() && !is_spare {
                continue;
            }
            let key = queue.add(without_bad_blocks(candidate));
            members.push(CoreMember {
                key,
                name: candidate.name().to_owned(),
                raw: candidate.raw.clone(),
                slot,
                bad_blocks: candidate.bad_blocks.clone(),
            });
        }
        let bitmap = match (assembly.bitmap, assembly.bitmap_super, assembly.bitmap_bits) {
            (Some(config), Some(superblock), Some(bits)) => Some((config, superblock, bits)),
            _ => None,
        };
        let bitmap_file = assembly.bitmap_file.map(|file| {
            let name = file.name().to_owned();
            (queue.add(file.device), name)
        });
        let capacity = assembly.geometry.capacity();
        let recorded_block_bytes = assembly.logical_block_bytes;
        let core = Core::new(CoreConfig {
            geometry: assembly.geometry,
            block: assembly.block,
            slots: assembly.slots.iter().map(|slot| slot.state).collect(),
            write_mostly: assembly.write_mostly,
            resync_from: assembly.resync_from,
            bitmap,
            bitmap_file,
            members,
            events: assembly.events,
            foreign: assembly.foreign,
            read_only,
            auto_sync: options.auto_sync,
            cache_bytes: options.cache_bytes,
            preference: options.preference,
            sync_speed: options.sync_speed,
            pool: pool.clone(),
        });
        let data_members = usize::from(shape.raid_disks).saturating_sub(shape.level.parity_members()).max(1);
        let stripe_bytes = if shape.level.has_chunks() { shape.chunk.bytes() * data_members as u64 } else { 64 << 10 };
        let (messages, inbox) = unbounded();
        let waker = queue.waker();
        let pump = Pump::new(core, queue, inbox);
        let thread = std::thread::Builder::new()
            .name("uraid-array".to_owned())
            .spawn(move || pump.run())
            .expect("the system has a thread left for the array");
        Array(Arc::new(Inner {
            messages,
            waker,
            thread: Mutex::new(Some(thread)),
            capacity,
            block: assembly.block,
            stripe_bytes,
            recorded_block_bytes,
            read_only,
            pool,
            layers,
        }))
    }

    /// Bytes that the array holds.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.capacity.bytes()
    }

    /// Smallest unit of requests in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        u32::try_from(self.0.block.bytes()).expect("a logical block is 512 or 4096 bytes")
    }

    /// The logical block size that the superblocks record, in bytes; 0 for none.
    #[must_use]
    pub fn recorded_block_bytes(&self) -> u32 {
        self.0.recorded_block_bytes
    }

    /// Bytes of data in one stripe: writes of whole stripes read nothing.
    #[must_use]
    pub fn stripe_bytes(&self) -> u64 {
        self.0.stripe_bytes
    }

    /// Are writes refused?
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.0.read_only
    }

    /// Where buffers for writes come from.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Takes a request; `reply` is called once, on the array's thread.
    pub fn submit(&self, request: Request, reply: Reply) {
        match (&self.0.layers, request) {
            (Some(layers), Request::Read { start, len }) => {
                layers.read(start, len, reply, |request, reply| self.send(request, reply));
            }
            (_, request) => self.send(request, reply),
        }
    }

    fn send(&self, request: Request, reply: Reply) {
        match self.0.messages.send(Message::Request { request, reply }) {
            Ok(()) => self.0.waker.wake(),
            Err(unsent) => {
                if let Message::Request { reply, .. } = unsent.0 {
                    reply(Err(RequestError::stopping()));
                }
            }
        }
    }

    /// A request, waited for.
    ///
    /// # Errors
    /// As the request's.
    pub fn call(&self, request: Request) -> Outcome {
        let (told, outcome) = bounded(1);
        self.submit(
            request,
            Box::new(move |outcome| {
                let _gone = told.send(outcome);
            }),
        );
        outcome.recv().unwrap_or_else(|_| Err(RequestError::stopping()))
    }

    /// Reads `len_bytes` at `offset_bytes`, both multiples of [`Array::block_bytes`].
    ///
    /// # Errors
    /// As the request's.
    pub fn read(&self, offset_bytes: u64, len_bytes: u64) -> Outcome {
        self.call(Request::Read { start: sector(offset_bytes), len: SectorCount::floor_bytes(len_bytes) })
    }

    /// Writes `data` at `offset_bytes`, both multiples of [`Array::block_bytes`].
    ///
    /// # Errors
    /// As the request's.
    pub fn write(&self, offset_bytes: u64, data: Shared, fua: bool) -> Result<(), RequestError> {
        self.call(Request::Write { start: sector(offset_bytes), data, fua }).map(|_| ())
    }

    /// Makes all writes that were acknowledged durable.
    ///
    /// # Errors
    /// As the request's.
    pub fn flush(&self) -> Result<(), RequestError> {
        self.call(Request::Flush).map(|_| ())
    }

    /// The array as a whole; `None` once it has stopped.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        let (answer, status) = bounded(1);
        self.0.messages.send(Message::Status { answer }).ok()?;
        self.0.waker.wake();
        let status = status.recv().ok()?;
        let Some(layers) = &self.0.layers else { return Some(status) };
        // What is not there in one of the shapes is not there.
        let degraded = status.degraded.max(layers.degraded);
        Some(Status { reshape: Some(layers.status.clone()), degraded, ..status })
    }

    /// Carries a command out.
    ///
    /// # Errors
    /// Why it was refused; nothing has been changed then.
    pub fn command(&self, command: Command) -> Result<(), CommandError> {
        if self.0.layers.is_some() && matches!(command, Command::StartSync(_)) {
            return Err(CommandError::Reshaping);
        }
        let (answer, result) = bounded(1);
        self.ask(Message::Command { command, answer });
        result.recv().unwrap_or(Err(CommandError::Broken))
    }

    /// Adds the member at `path`, as a spare or (`again`) where it was before.
    ///
    /// # Errors
    /// It cannot be opened, carries something (unless `force`), or the array will not have it.
    pub fn join(&self, path: &Path, again: bool, force: bool) -> Result<(), JoinError> {
        let device = open_member(path, OpenOptions::own())?;
        self.join_device(device, again, force)
    }

    /// As [`Array::join`], for a member that has been opened.
    ///
    /// # Errors
    /// As [`Array::join`].
    pub fn join_device(&self, device: Arc<dyn Device>, again: bool, force: bool) -> Result<(), JoinError> {
        let info = device.info().clone();
        let found = scan(Arc::clone(&device));
        let array_id = self.status().map(|status| status.uuid);
        let (mut own, mut bad_blocks, mut device) = (None, Vec::new(), device);
        match found {
            Ok(candidate) => {
                let same = Some(candidate.superblock().array_id.to_string()) == array_id;
                if !same && !force {
                    let what = format!("a member of array {}", candidate.superblock().array_id);
                    return Err(JoinError::Occupied { name: info.name, what });
                }
                if same {
                    // What it still has to be filled with heals it.
                    device = without_bad_blocks(&candidate);
                    (own, bad_blocks) = (Some(candidate.raw), candidate.bad_blocks);
                }
            }
            Err(refused) => {
                let carries = signature(&*device)?;
                if !force && let Some(found) = carries {
                    return Err(JoinError::Occupied { name: info.name, what: found.to_string() });
                }
                if !force && !matches!(refused.reason, RefusedReason::NoSuperblock { .. }) {
                    return Err(JoinError::Occupied { name: info.name, what: refused.reason.to_string() });
                }
            }
        }
        let member = NewMember {
            key: 0,
            name: info.name,
            sectors: SectorCount::floor_bytes(info.size_bytes).0,
            block_bytes: u64::from(info.logical_block_bytes),
            own,
            bad_blocks,
            device_id: Uuid::new_v4(),
        };
        let (answer, result) = bounded(1);
        self.ask(Message::Join { device, member: Box::new(member), again, answer });
        Ok(result.recv().unwrap_or(Err(CommandError::Broken))?)
    }

    fn ask(&self, message: Message) {
        // Whether the thread is still there shows when the answer is waited for.
        let _stopped = self.0.messages.send(message);
        self.0.waker.wake();
    }

    /// Waits until no resync, recovery, check or repair runs or is due, calling `seen` with the status now and then.
    pub fn wait_idle(&self, mut seen: impl FnMut(&Status)) -> Option<Status> {
        loop {
            let status = self.status()?;
            seen(&status);
            let due = (status.resync_pending || status.members.iter().any(|member| member.state == "rebuilding"))
                && !status.read_only
                && status.broken.is_none()
                && status.last_sync.as_ref().is_none_or(|last| last.complete);
            if status.sync.is_none() && !due {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs over the array to the end: see [`Array::wait_idle`].
    ///
    /// # Errors
    /// Why the run was refused.
    pub fn run_sync(&self, kind: SyncKind, seen: impl FnMut(&Status)) -> Result<Option<Status>, CommandError> {
        self.command(Command::StartSync(kind))?;
        Ok(self.wait_idle(seen))
    }

    /// Finishes what is under way, makes it durable, marks the array clean and ends its thread.
    pub fn stop(&self) {
        if let Some(layers) = &self.0.layers {
            layers.other.stop();
        }
        self.ask(Message::Shutdown);
        join(&self.0.thread);
    }
}

/// The member, failing reads of what its bad-block log names until it has been written again: the engine then rebuilds it.
fn without_bad_blocks(candidate: &Candidate) -> Arc<dyn Device> {
    if candidate.bad_blocks.is_empty() {
        return Arc::clone(&candidate.device);
    }
    let device = Faulty::new(Arc::clone(&candidate.device));
    for (start, len) in &candidate.bad_blocks {
        device.control().add(Fault::bad_sectors(start.byte_offset()..(*start + *len).byte_offset()));
    }
    Arc::new(device)
}

fn sector(offset_bytes: u64) -> Sector {
    Sector(SectorCount::floor_bytes(offset_bytes).0)
}
