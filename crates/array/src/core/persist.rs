//! Metadata on its way to the members: one change at a time, each durable before the next begins.
//!
//! The bitmap's superblock is written and flushed before the members' superblocks: md takes a bitmap whose events are older than
//! the array's for stale, never one that is newer. A change counts as durable once every member that is left has it.

use std::collections::VecDeque;
use std::ops::Range;

use uraid_device::{DeviceError, IoOp, Pool, Shared};
use uraid_engine::{Event, Snapshot};
use uraid_format::{BITMAP_SUPER_BYTES, RawSuper};

use super::bad_blocks::Ranges;
use super::roles::{Place, role_table};
use super::{Attached, Core, Notice, Output, Owner};

/// A change to be made.
#[derive(Debug)]
enum Change {
    Superblocks(Snapshot),
    /// Members that a crash left one event behind get what the others have, or a second crash could leave them two behind.
    CatchUp(Vec<usize>),
    /// The bitmap's file is lost: the superblocks go beyond its events, so that nobody takes it for current. The change of the
    /// bitmap that could not be made counts as made then.
    WithoutBitmap {
        generation: Option<u64>,
    },
    Bitmap {
        generation: u64,
        set: Vec<u64>,
        clear: Vec<u64>,
    },
    /// What is left in the bad-block log of the member with this key, as it was when the change began.
    BadBlocks {
        key: usize,
        left: Ranges,
    },
}

/// What has to be durable before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Data that was written over bad blocks.
    FlushData,
    WriteBadBlocks,
    WriteBitmap,
    FlushBitmap,
    /// Members that have become whole, before the others: what these say of a loss may count on them.
    WritePromoted,
    FlushPromoted,
    WriteSuperblocks,
    FlushSuperblocks,
    Done,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Persist {
    queue: VecDeque<Change>,
    current: Option<(Change, Step)>,
    outstanding: usize,
    /// The superblocks before the change of superblocks that was begun, by the members' keys; and did the member hold a slot?
    before: Vec<(usize, RawSuper, bool)>,
    /// Why the bitmap's file could not be written.
    file_failed: Option<String>,
}

impl Persist {
    /// The newest state of the superblocks; one that has not been begun is replaced.
    pub fn put_superblocks(&mut self, snapshot: Snapshot) {
        let waiting = self.queue.iter_mut().find_map(|change| match change {
            Change::Superblocks(waiting) => Some(waiting),
            Change::CatchUp(_) | Change::WithoutBitmap { .. } | Change::Bitmap { .. } | Change::BadBlocks { .. } => None,
        });
        match waiting {
            Some(waiting) => {
                let failure = waiting.failure || snapshot.failure;
                *waiting = Snapshot { failure, ..snapshot };
            }
            None => self.queue.push_back(Change::Superblocks(snapshot)),
        }
    }

    /// A member that is one behind counts as current, and a lost one must not: its loss takes two updates. In one step of two, a
    /// crash half way would leave members behind that were never lost.
    fn once_more(&mut self, snapshot: Snapshot) {
        if !self.queue.iter().any(|change| matches!(change, Change::Superblocks(_))) {
            self.queue.push_front(Change::Superblocks(Snapshot { failure: false, ..snapshot }));
        }
    }

    /// Brings the members with these keys, whose superblocks have been changed already, up to date first of all.
    pub fn catch_up(&mut self, keys: Vec<usize>) {
        self.queue.push_front(Change::CatchUp(keys));
    }

    pub fn put_bitmap(&mut self, generation: u64, set: Vec<u64>, clear: Vec<u64>) {
        self.queue.push_back(Change::Bitmap { generation, set, clear });
    }

    /// Sectors have left the bad blocks of the member with this key.
    pub fn put_bad_blocks(&mut self, key: usize) {
        let is_due = |change: &Change| matches!(change, Change::BadBlocks { key: due, .. } if *due == key);
        if !self.queue.iter().any(is_due) {
            self.queue.push_back(Change::BadBlocks { key, left: Ranges::new() });
        }
    }

    pub fn is_idle(&self) -> bool {
        self.current.is_none() && self.queue.is_empty()
    }
}

/// The bad blocks that `change` writes, if it writes those of the member with `key`.
fn bad_blocks_of(change: &Change, key: usize) -> Option<&Ranges> {
    match change {
        Change::BadBlocks { key: own, left } if *own == key => Some(left),
        _ => None,
    }
}

/// Does it count the events up, and so leave behind who does not take part?
fn is_held_back(change: &Change) -> bool {
    matches!(change, Change::Superblocks(_) | Change::WithoutBitmap { .. })
}

impl Core {
    /// Goes on with metadata as far as nothing has to be waited for.
    pub(super) fn pump_persist(&mut self) {
        while self.persist.outstanding == 0 {
            if self.engine.broken().is_some() {
                // Whatever was to be written is about an array that has failed: the members keep what they have.
                self.persist.queue.clear();
                self.persist.current = None;
                return;
            }
            match self.persist.current.take() {
                None => {
                    let Some(change) = self.next_change() else { return };
                    self.begin_change(change);
                }
                Some((change, step)) => self.next_step(change, step),
            }
        }
    }

    fn next_change(&mut self) -> Option<Change> {
        let held = self.engine.holds_metadata();
        let at = self.persist.queue.iter().position(|change| !(held && is_held_back(change)))?;
        self.persist.queue.remove(at)
    }

    fn begin_change(&mut self, mut change: Change) {
        if is_held_back(&change) {
            let holds_slot = |member: &Attached| matches!(member.place, Place::Slot(_));
            self.persist.before =
                self.attached.iter().map(|member| (member.key, member.raw.clone(), holds_slot(member))).collect();
        }
        let step = match &mut change {
            Change::Superblocks(snapshot) => {
                self.events += 1;
                let roles = role_table(&self.attached, snapshot);
                for member in self.attached.iter_mut().filter(|member| member.is_usable()) {
                    member.enrolled = true;
                    member.update(snapshot, &roles, self.events, self.wall_seconds);
                }
                self.bitmap_first()
            }
            Change::CatchUp(keys) => {
                for member in self.attached.iter_mut() {
                    member.enrolled = keys.contains(&member.key);
                }
                self.bitmap_first()
            }
            Change::WithoutBitmap { .. } => {
                self.events += 1;
                let events = self.events;
                for member in self.attached.iter_mut().filter(|member| member.is_usable()) {
                    member.enrolled = true;
                    member.raw.update(|superblock| superblock.events = events);
                }
                Step::WritePromoted
            }
            Change::BadBlocks { key, left } => {
                let member = self.attached.iter().find(|member| member.key == *key);
                *left = member.map(|member| member.bad_blocks.clone()).unwrap_or_default();
                Step::FlushData
            }
            Change::Bitmap { set, clear, .. } => {
                if let Some((superblock, bits)) = &mut self.bitmap {
                    set.iter().for_each(|&bit| {
                        bits.set(bit);
                    });
                    clear.iter().for_each(|&bit| {
                        bits.clear(bit);
                    });
                    if !clear.is_empty() {
                        superblock.events_cleared = self.events;
                    }
                }
                if self.bitmap.is_some() { Step::WriteBitmap } else { Step::Done }
            }
        };
        self.persist.current = Some((change, step));
    }

    /// The first step of a change of superblocks: a bitmap goes before them, with their events.
    fn bitmap_first(&mut self) -> Step {
        let Some((superblock, _)) = &mut self.bitmap else { return Step::WritePromoted };
        superblock.events = self.events;
        Step::WriteBitmap
    }

    fn next_step(&mut self, change: Change, step: Step) {
        let only_bitmap = matches!(change, Change::Bitmap { .. });
        let next = match step {
            Step::FlushData => {
                self.send_to_all(
                    |member| if bad_blocks_of(&change, member.key).is_some() { vec![IoOp::Flush] } else { Vec::new() },
                );
                Step::WriteBadBlocks
            }
            Step::WriteBadBlocks => {
                if let Change::BadBlocks { key, left } = &change {
                    self.write_bad_blocks(*key, left);
                }
                Step::FlushSuperblocks
            }
            Step::WriteBitmap => {
                self.write_bitmap(&change);
                Step::FlushBitmap
            }
            Step::FlushBitmap => {
                self.flush_bitmap();
                if only_bitmap { Step::Done } else { Step::WritePromoted }
            }
            Step::WritePromoted if is_held_back(&change) && self.has_lost_since_begun() => return self.put_back(change),
            Step::WritePromoted => {
                let promoted = self.promoted(&change);
                self.write_superblocks(|key| promoted.is_empty() || promoted.contains(&key));
                if promoted.is_empty() { Step::FlushSuperblocks } else { Step::FlushPromoted }
            }
            Step::FlushPromoted => {
                let promoted = self.promoted(&change);
                self.send_to_all(|member| if promoted.contains(&member.key) { vec![IoOp::Flush] } else { Vec::new() });
                Step::WriteSuperblocks
            }
            Step::WriteSuperblocks => {
                let promoted = self.promoted(&change);
                self.write_superblocks(|key| !promoted.contains(&key));
                Step::FlushSuperblocks
            }
            Step::FlushSuperblocks => {
                self.send_to_all(|_| vec![IoOp::Flush]);
                Step::Done
            }
            Step::Done => return self.end_change(change),
        };
        self.persist.current = Some((change, next));
    }

    /// Was a member lost that the change under way counts on?
    fn has_lost_since_begun(&self) -> bool {
        let is_there = |key: usize| self.attached.iter().any(|member| member.key == key && member.is_usable());
        self.persist.before.iter().any(|(key, _, held_slot)| *held_slot && !is_there(*key))
    }

    /// A change of superblocks that was begun before a loss is not made: it would leave the lost member behind before what stands in
    /// for it is recorded. The update that records the loss covers it.
    fn put_back(&mut self, change: Change) {
        self.events -= 1;
        for (key, raw, _) in std::mem::take(&mut self.persist.before) {
            if let Some(member) = self.attached.iter_mut().find(|member| member.key == key) {
                member.raw = raw;
            }
        }
        let newer = self.persist.queue.iter_mut().find_map(|waiting| match waiting {
            Change::Superblocks(snapshot) => Some(snapshot),
            _ => None,
        });
        match (newer, &change) {
            (Some(newer), Change::Superblocks(snapshot)) => newer.failure |= snapshot.failure,
            _ => self.persist.queue.push_front(change),
        }
    }

    fn end_change(&mut self, change: Change) {
        let mut bitmap_lost = false;
        if let Some(why) = self.persist.file_failed.take()
            && let Some(file) = self.bitmap_file.take()
        {
            self.bitmap = None;
            bitmap_lost = true;
            self.out.push(Output::Release { key: file.key });
            self.out.push(Output::Notice(Notice::BitmapLost { name: file.name, why }));
        }
        if bitmap_lost {
            let generation = if let Change::Bitmap { generation, .. } = change { Some(generation) } else { None };
            self.persist.queue.push_front(Change::WithoutBitmap { generation });
        }
        match change {
            Change::Superblocks(snapshot) if snapshot.failure => self.persist.once_more(snapshot),
            Change::CatchUp(_) | Change::BadBlocks { .. } | Change::WithoutBitmap { generation: None } => {}
            Change::Bitmap { .. } if bitmap_lost => {}
            Change::Superblocks(snapshot) => self.tell(Event::MetadataDone { generation: snapshot.generation }),
            Change::Bitmap { generation, .. } | Change::WithoutBitmap { generation: Some(generation) } => {
                self.tell(Event::BitmapDone { generation })
            }
        }
    }

    fn metadata_failed(&mut self, key: usize, why: String) {
        let Some(member) = self.attached.iter_mut().find(|member| member.key == key) else { return };
        match member.place {
            Place::Slot(slot) => self.tell(Event::FailMember { slot, why: format!("its metadata could not be written: {why}") }),
            Place::Spare => {
                member.place = Place::Faulty;
                let name = member.name.clone();
                self.out.push(Output::Notice(Notice::SpareLost { name, why }));
            }
            Place::Faulty => {}
        }
    }

    /// Sends operations to every member that takes metadata.
    pub(super) fn send_to_all(&mut self, mut ops: impl FnMut(&super::Attached) -> Vec<IoOp>) {
        let mut all = Vec::new();
        for member in self.attached.iter().filter(|member| member.takes_metadata()) {
            all.extend(ops(member).into_iter().map(|op| (member.key, op)));
        }
        self.persist.outstanding += all.len();
        for (key, op) in all {
            self.send(key, op, Owner::Persist { key });
        }
    }

    fn write_superblocks(&mut self, is_due: impl Fn(usize) -> bool) {
        let pool = Pool::new(0);
        self.send_to_all(|member| {
            if !is_due(member.key) {
                return Vec::new();
            }
            let offset_bytes = member.raw.superblock().super_offset.byte_offset();
            vec![IoOp::Write { offset_bytes, from: vec![pool.copy(&member.raw.to_bytes())] }]
        });
    }

    /// The members that the change is the first to show as whole.
    fn promoted(&self, change: &Change) -> Vec<usize> {
        if !matches!(change, Change::Superblocks(_)) {
            return Vec::new();
        }
        let is_whole = |raw: &RawSuper| raw.superblock().recovery_offset.is_none();
        let was_whole = |key: usize| self.persist.before.iter().any(|(of, raw, _)| *of == key && is_whole(raw));
        let promoted = self.attached.iter().filter(|member| is_whole(&member.raw) && !was_whole(member.key));
        promoted.map(|member| member.key).collect()
    }

    fn write_bitmap(&mut self, change: &Change) {
        let Some((superblock, bits)) = &self.bitmap else { return };
        let block_bytes = self.block.len_bytes();
        let bit_byte = |bit: u64| BITMAP_SUPER_BYTES + (bit / 8) as usize;
        let mut blocks: Vec<usize> = match change {
            Change::Superblocks(_) | Change::CatchUp(_) | Change::WithoutBitmap { .. } | Change::BadBlocks { .. } => vec![0],
            Change::Bitmap { set, clear, .. } => {
                let header = (!clear.is_empty()).then_some(0);
                set.iter().chain(clear).map(|&bit| bit_byte(bit) / block_bytes).chain(header).collect()
            }
        };
        blocks.sort_unstable();
        blocks.dedup();
        let head = superblock.to_bytes();
        let image = |block: usize| -> Vec<u8> {
            let bytes = block * block_bytes..(block + 1) * block_bytes;
            let of_bits = |bytes: Range<usize>| bits.bytes(bytes.start - BITMAP_SUPER_BYTES..bytes.end - BITMAP_SUPER_BYTES);
            if bytes.start >= BITMAP_SUPER_BYTES {
                return of_bits(bytes);
            }
            [&head[..], &of_bits(BITMAP_SUPER_BYTES..bytes.end)].concat()
        };
        let pool = Pool::new(0);
        let changed: Vec<(usize, Shared)> =
            blocks.into_iter().map(|block| (block * block_bytes, pool.copy(&image(block)))).collect();
        let due = match &self.bitmap_file {
            Some(file) => file.due,
            None => self.attached.iter().any(|member| member.takes_metadata() && member.bitmap_due),
        };
        let whole: Option<Shared> = due.then(|| {
            let blocks = superblock.area_bytes(block_bytes as u64) as usize / block_bytes;
            pool.copy(&(0..blocks).flat_map(&image).collect::<Vec<u8>>())
        });
        if let Some(file) = &mut self.bitmap_file {
            file.due = false;
            let write = |offset: usize, bytes: Shared| IoOp::Write { offset_bytes: offset as u64, from: vec![bytes] };
            let ops = match whole {
                Some(whole) => vec![write(0, whole)],
                None => changed.into_iter().map(|(offset, bytes)| write(offset, bytes)).collect(),
            };
            let key = file.key;
            return self.send_to_file(key, ops);
        }
        self.send_to_all(|member| {
            let Some(start) = member.raw.superblock().bitmap_start() else { return Vec::new() };
            let write = |offset: usize, bytes: &Shared| IoOp::Write {
                offset_bytes: start.byte_offset() + offset as u64,
                from: vec![bytes.clone()],
            };
            match &whole {
                Some(whole) if member.bitmap_due => vec![write(0, whole)],
                _ => changed.iter().map(|(offset, bytes)| write(*offset, bytes)).collect(),
            }
        });
        self.attached.iter_mut().filter(|member| member.takes_metadata()).for_each(|member| member.bitmap_due = false);
    }

    fn flush_bitmap(&mut self) {
        match &self.bitmap_file {
            Some(file) => self.send_to_file(file.key, vec![IoOp::Flush]),
            None => self.send_to_all(|_| vec![IoOp::Flush]),
        }
    }

    fn send_to_file(&mut self, key: usize, ops: Vec<IoOp>) {
        self.persist.outstanding += ops.len();
        for op in ops {
            self.send(key, op, Owner::Persist { key });
        }
    }

    pub(super) fn persist_io_done(&mut self, key: usize, result: Result<(), DeviceError>) {
        self.persist.outstanding -= 1;
        let Err(error) = result else { return };
        if self.bitmap_file.as_ref().is_some_and(|file| file.key == key) {
            self.persist.file_failed = Some(error.to_string());
        } else {
            // At once: it is told of a failed flush only here, and one that a request waits for may end well beside it.
            self.metadata_failed(key, error.to_string());
        }
    }
}
