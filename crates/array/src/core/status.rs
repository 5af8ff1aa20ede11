//! What a running array says of itself.

use serde::{Deserialize, Serialize};
use uraid_engine::{Counters, MemberState, SyncProgress};

use super::Core;
use super::roles::Place;

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its path or name.
    pub name: String,
    /// `dev_number` of its superblock.
    pub number: u32,
    /// The slot that it holds.
    pub slot: Option<u16>,
    /// `in_sync`, `rebuilding`, `spare` or `faulty`.
    pub state: String,
    /// Is it read only when nothing else can answer?
    pub write_mostly: bool,
}

/// A run over the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncStatus {
    /// `resync`, `recovery`, `check` or `repair`.
    pub kind: String,
    /// Sectors done, of each member.
    pub done_sectors: u64,
    /// Sectors in all.
    pub end_sectors: u64,
    /// md's `mismatch_cnt`.
    pub mismatch_sectors: u64,
    /// Sectors that could be neither read nor rebuilt.
    pub unreadable_sectors: u64,
    /// It went to the end (of the last run; a run under way has not).
    pub complete: bool,
}

/// The write-intent bitmap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BitmapStatus {
    /// Bits set.
    pub set: u64,
    /// Bits in all.
    pub bits: u64,
    /// Bytes under one bit.
    pub chunk_bytes: u64,
}

/// Member I/Os since the array started, by what they were for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoStatus {
    /// Reads that answered requests.
    pub request_reads: u64,
    /// Reads of old data and parity, for writes.
    pub write_reads: u64,
    /// Writes of data, copies and parity.
    pub request_writes: u64,
    /// Reads of resync, recovery, check and repair.
    pub sync_reads: u64,
    /// Writes of the same.
    pub sync_writes: u64,
    /// Reads and writes that put back what could not be read.
    pub corrections: u64,
    /// Flushes, each member's.
    pub flushes: u64,
    /// Runs of rows whose parity was changed by the difference.
    pub read_modify_writes: u64,
    /// Runs of rows whose parity was computed from all data.
    pub reconstruct_writes: u64,
}

impl IoStatus {
    fn of(counters: Counters) -> IoStatus {
        let ios = counters.ios;
        IoStatus {
            request_reads: ios.request_reads,
            write_reads: ios.write_reads,
            request_writes: ios.request_writes,
            sync_reads: ios.sync_reads,
            sync_writes: ios.sync_writes,
            corrections: ios.corrections,
            flushes: ios.flushes,
            read_modify_writes: counters.read_modify_writes,
            reconstruct_writes: counters.reconstructs,
        }
    }
}

/// One of the two shapes of an array that is being reshaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeStatus {
    /// Slots.
    pub raid_disks: u16,
    /// As mdadm names it.
    pub layout: String,
    /// The superblock's layout number.
    pub layout_number: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
}

/// A reshape that is part way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReshapeStatus {
    /// The array sector that it has reached.
    pub position_sectors: u64,
    /// Array sectors in all.
    pub size_sectors: u64,
    /// From the array's end to its start? Then what lies from the position on is done, else what lies before it.
    pub backwards: bool,
    /// The shape of what is not done.
    pub before: ShapeStatus,
    /// The shape of what is done.
    pub after: ShapeStatus,
    /// Does it go on over data that it has not moved yet? Then what it was about to overwrite is in a backup file.
    pub in_place: bool,
}

impl ReshapeStatus {
    /// Hundredths of it that are done.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let (size, position) = (self.size_sectors.max(1), self.position_sectors.min(self.size_sectors));
        let done = if self.backwards { self.size_sectors - position } else { position };
        done as f64 * 100.0 / size as f64
    }

    /// In one line.
    #[must_use]
    pub fn words(&self) -> String {
        let shape = |shape: &ShapeStatus| {
            format!("{} members, {}, chunk {} KiB", shape.raid_disks, shape.layout, shape.chunk_bytes / 1024)
        };
        format!(
            "its reshape from {} to {} has come to {:.1} % (array sector {}{})",
            shape(&self.before),
            shape(&self.after),
            self.percent(),
            self.position_sectors,
            if self.backwards { ", backwards" } else { "" }
        )
    }
}

/// The whole array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// `raid6`, ...
    pub level: String,
    /// As mdadm names it.
    pub layout: String,
    /// The superblock's layout number.
    pub layout_number: u32,
    /// Bytes that the array holds.
    pub size_bytes: u64,
    /// Bytes of a chunk; 0 where there are none.
    pub chunk_bytes: u64,
    /// Bytes used on each member; the smallest member's where they differ.
    pub member_bytes: u64,
    /// Slots.
    pub raid_disks: u16,
    /// `1.2`, ..., or `imsm`, `ddf`.
    pub metadata: String,
    /// The array's UUID.
    pub uuid: String,
    /// The array's name in its superblock.
    pub name: String,
    /// The superblocks' event count.
    pub events: u64,
    /// `clean`, `active`, `degraded`, `failed`, with `read-only` where it is so.
    pub state: String,
    /// Slots without complete contents.
    pub degraded: usize,
    /// A resync is due or under way.
    pub resync_pending: bool,
    /// Nothing is written.
    pub read_only: bool,
    /// Why no request can be answered.
    pub broken: Option<String>,
    /// Members in order of their numbers.
    pub members: Vec<MemberStatus>,
    /// The slots from first to last: `U` for one that is complete, `_` for one that is not.
    pub up: String,
    /// The run under way.
    pub sync: Option<SyncStatus>,
    /// The last run that ended.
    pub last_sync: Option<SyncStatus>,
    /// The speed in KiB/s of each member that runs keep while requests come in; without it they go a window at a time.
    #[serde(default)]
    pub sync_speed_min_kib: Option<u64>,
    /// The speed in KiB/s of each member that runs do not exceed.
    #[serde(default)]
    pub sync_speed_max_kib: Option<u64>,
    /// The write-intent bitmap.
    pub bitmap: Option<BitmapStatus>,
    /// The reshape that it is in; nobody carries it on while the array runs here.
    #[serde(default)]
    pub reshape: Option<ReshapeStatus>,
    /// What its members were asked.
    #[serde(default)]
    pub ios: IoStatus,
}

fn sync_status(progress: SyncProgress, complete: bool) -> SyncStatus {
    SyncStatus {
        kind: progress.kind.name().to_owned(),
        done_sectors: progress.done.0,
        end_sectors: progress.end.0,
        mismatch_sectors: progress.mismatch_sectors,
        unreadable_sectors: progress.unreadable_sectors,
        complete,
    }
}

impl Core {
    /// How often the engine took which path.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// See [`Status`].
    ///
    /// # Panics
    /// When the array has no member at all, which no array has that was started.
    #[must_use]
    pub fn status(&self) -> Status {
        let shape = self.engine.geometry().shape();
        let states = self.engine.members();
        let sb = self.attached.first().expect("a running array has a member").raw.superblock();
        let degraded = states.iter().filter(|state| **state != MemberState::InSync).count();
        Status {
            level: shape.level.name().to_owned(),
            layout: shape.layout.to_string(),
            layout_number: shape.layout.md_number(shape.level),
            size_bytes: self.engine.capacity().bytes(),
            chunk_bytes: shape.chunk.bytes(),
            member_bytes: shape.member_sectors.iter().map(|len| len.bytes()).min().unwrap_or(0),
            raid_disks: shape.raid_disks,
            metadata: self.foreign.unwrap_or(sb.version.name()).to_owned(),
            uuid: sb.array_id.to_string(),
            name: String::from_utf8_lossy(&sb.name).into_owned(),
            events: self.events,
            state: self.state_words(degraded),
            degraded,
            resync_pending: self.engine.resync_from().is_some(),
            read_only: self.read_only,
            broken: self.engine.broken().map(str::to_owned),
            members: self.member_status(&states),
            up: states.iter().map(|state| if *state == MemberState::InSync { 'U' } else { '_' }).collect(),
            sync: self.engine.sync_progress().map(|progress| sync_status(progress, false)),
            last_sync: self.last_sync.map(|(progress, complete)| sync_status(progress, complete)),
            reshape: None,
            sync_speed_min_kib: self.engine.sync_speed().min_kib,
            sync_speed_max_kib: self.engine.sync_speed().max_kib,
            ios: IoStatus::of(self.engine.counters()),
            bitmap: self.engine.bitmap_usage().zip(self.bitmap.as_ref()).map(|((set, bits), (superblock, _))| BitmapStatus {
                set,
                bits,
                chunk_bytes: u64::from(superblock.chunk_bytes),
            }),
        }
    }

    fn state_words(&self, degraded: usize) -> String {
        let activity = if self.engine.broken().is_some() {
            "failed"
        } else if self.engine.is_dirty() {
            "active"
        } else {
            "clean"
        };
        let mut words = vec![activity];
        if degraded > 0 && self.engine.broken().is_none() {
            words.push("degraded");
        }
        if self.read_only {
            words.push("read-only");
        }
        if let Some(run) = self.engine.sync_progress() {
            words.push(run.kind.name());
        }
        words.join(", ")
    }

    fn member_status(&self, states: &[MemberState]) -> Vec<MemberStatus> {
        let mut members: Vec<MemberStatus> = self
            .attached
            .iter()
            .map(|member| {
                let (slot, state) = match member.place {
                    Place::Slot(slot) => match states[slot.index()] {
                        MemberState::InSync => (Some(slot.0), "in_sync"),
                        MemberState::Rebuilding { .. } => (Some(slot.0), "rebuilding"),
                        MemberState::Missing => (None, "faulty"),
                    },
                    Place::Spare => (None, "spare"),
                    Place::Faulty => (None, "faulty"),
                };
                MemberStatus {
                    name: member.name.clone(),
                    number: member.raw.superblock().dev_number,
                    slot,
                    state: state.to_owned(),
                    write_mostly: member.raw.superblock().flags.write_mostly,
                }
            })
            .collect();
        members.sort_by_key(|member| member.number);
        members
    }
}
