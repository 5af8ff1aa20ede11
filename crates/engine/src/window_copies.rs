//! A window of a run over RAID1 or RAID10: copies are read and made equal, or a member being rebuilt gets its share.

use uraid_device::{Buf, IoOp};
use uraid_geometry::Place;
use uraid_types::{Sector, SectorCount, Slot};

use crate::Engine;
use crate::copies::{Places, member_rows};
use crate::event::SyncKind;
use crate::extents::Rows;
use crate::lock::Mode;
use crate::ops::{Done, Op};
use crate::planner::ROW;
use crate::window_parity::{Found, join_writes};

/// Sectors with all their copies.
#[derive(Debug)]
struct Item {
    array: u64,
    len: u64,
    copies: Places,
    /// By copy.
    blocks: Vec<Option<Buf>>,
    failed: Vec<Slot>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CopyWindow {
    kind: SyncKind,
    /// In the run's unit: member data sectors when rebuilding, else array sectors.
    rows: Rows,
    items: Vec<Item>,
    /// Ascending, so that two windows never wait for each other.
    regions: Vec<u64>,
    locked: usize,
    outstanding: usize,
    writing: bool,
    found: Found,
}

impl Engine {
    pub(crate) fn start_copy_window(&mut self, kind: SyncKind, rows: Rows) {
        let items = match kind {
            SyncKind::Recovery => self.items_of_members(&rows),
            SyncKind::Resync | SyncKind::Check | SyncKind::Repair => self.items_of_array(&rows),
        };
        let mut regions: Vec<u64> =
            items.iter().flat_map(|item| self.region_of(item.array)..=self.region_of(item.array + item.len - 1)).collect();
        regions.sort_unstable();
        regions.dedup();
        let first = regions.first().copied();
        let op = CopyWindow { kind, rows, items, regions, locked: 0, outstanding: 0, writing: false, found: Found::default() };
        let key = self.ops.insert(Op::Busy);
        match first {
            None => self.end_copy_window(key, op),
            Some(region) => {
                self.ops[key] = Op::CopyWindow(op);
                if self.locks.acquire(region, key, Mode::Sync) {
                    self.granted(key);
                }
            }
        }
    }

    fn item(array: u64, len: u64, copies: &[Place]) -> Item {
        Item {
            array,
            len,
            copies: copies.iter().copied().collect(),
            blocks: copies.iter().map(|_| None).collect(),
            failed: Vec::new(),
        }
    }

    fn items_of_array(&self, rows: &Rows) -> Vec<Item> {
        let mut items = Vec::new();
        let mut at = rows.start;
        while at < rows.end {
            let extent = self.copies().locate(Sector(at), SectorCount(rows.end - at));
            items.push(Self::item(at, extent.len.0, &extent.copies));
            at += extent.len.0;
        }
        items
    }

    /// What the members being rebuilt hold in `rows` (member data sectors), as far as it has to be rebuilt.
    fn items_of_members(&mut self, rows: &Rows) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        for slot in self.members.rebuilding() {
            let mut at = rows.start;
            while at < rows.end {
                let held = self.copies().at_member(slot, Sector(at), SectorCount(rows.end - at));
                if let Some(array) = held.array {
                    items.extend(self.items_of_array(&(array.0..array.0 + held.len.0)));
                }
                at += held.len.0;
            }
        }
        items.sort_by_key(|item| item.array);
        items.dedup_by_key(|item| item.array);
        match &mut self.intent {
            Some(intent) => items.into_iter().filter(|item| intent.needs_sync(&(item.array..item.array + item.len))).collect(),
            None => items,
        }
    }

    pub(crate) fn copy_window_locked(&mut self, key: usize, mut op: CopyWindow) {
        op.locked += 1;
        if let Some(&next) = op.regions.get(op.locked) {
            self.ops[key] = Op::CopyWindow(op);
            if self.locks.acquire(next, key, Mode::Sync) {
                self.granted(key);
            }
            return;
        }
        self.read_copies_of_window(key, op);
    }

    fn read_copies_of_window(&mut self, key: usize, mut op: CopyWindow) {
        if self.broken.is_some() {
            return self.end_copy_window(key, op);
        }
        let mut reads = Vec::new();
        for item in &op.items {
            reads.extend(self.wanted_reads(op.kind, item).into_iter().map(|place| (place.slot, member_rows(place, item.len))));
        }
        if reads.is_empty() {
            return self.compare_copies(key, op);
        }
        op.outstanding = reads.len();
        self.ops[key] = Op::CopyWindow(op);
        for (slot, rows) in reads {
            self.send_read(key, slot, rows);
        }
    }

    /// Copies that have yet to be read: all of them to compare, any one of them to rebuild from.
    fn wanted_reads(&self, kind: SyncKind, item: &Item) -> Vec<Place> {
        let have = item.blocks.iter().any(Option::is_some);
        if kind == SyncKind::Recovery {
            let choice = self.choose_copy(&item.copies, item.len, &item.failed, false);
            return choice.filter(|_| !have).into_iter().collect();
        }
        let unread = item.copies.iter().zip(&item.blocks).filter(|(_, block)| block.is_none()).map(|(place, _)| *place);
        let end = |place: &Place| Sector(place.sector.0 + item.len);
        unread.filter(|place| self.members.readable(place.slot, end(place)) && !item.failed.contains(&place.slot)).collect()
    }

    pub(crate) fn copy_window_done(&mut self, key: usize, mut op: CopyWindow, done: Done) {
        op.outstanding -= 1;
        match (done.op, done.error) {
            (IoOp::Read { into, .. }, error) => {
                let at = |place: &Place| place.slot == done.slot && place.sector.0 == done.rows.start;
                let found = op.items.iter_mut().find_map(|item| Some((item.copies.iter().position(at)?, item)));
                let (copy, item) = found.expect("a window's read belongs to one of its items");
                match error {
                    None => item.blocks[copy] = Some(into),
                    Some(_) => item.failed.push(done.slot),
                }
            }
            (_, None) => {}
            (_, Some(failure)) if failure.no_space => op.found.abort = Some(failure.why),
            (_, Some(failure)) => self.lose_member(done.slot, &failure.why),
        }
        if op.outstanding > 0 {
            self.ops[key] = Op::CopyWindow(op);
        } else if op.writing {
            self.end_copy_window(key, op);
        } else {
            // Nothing new to read means that all is there, or has failed.
            self.read_copies_of_window(key, op);
        }
    }

    fn compare_copies(&mut self, key: usize, mut op: CopyWindow) {
        let mut writes = Vec::new();
        for item in &op.items {
            let readable = |copy: &usize| item.blocks[*copy].is_some();
            let source =
                (0..item.copies.len()).filter(readable).min_by_key(|&copy| self.members.get(item.copies[copy].slot).write_mostly);
            let Some(source) = source.and_then(|copy| item.blocks[copy].as_deref()) else {
                op.found.unreadable_sectors += item.len;
                if op.kind == SyncKind::Recovery {
                    let message = format!("array sectors {}..{} cannot be read from any copy", item.array, item.array + item.len);
                    op.found.abort.get_or_insert(message);
                }
                continue;
            };
            for (place, block) in item.copies.iter().zip(&item.blocks) {
                let rewrite = match block {
                    Some(block) if op.kind != SyncKind::Recovery => {
                        let differing = differing_sectors(source, block);
                        op.found.mismatch_sectors += differing;
                        differing > 0 && op.kind != SyncKind::Check
                    }
                    Some(_) => false,
                    None => item.failed.contains(&place.slot) || op.kind == SyncKind::Recovery && self.wants(*place, item.len),
                };
                if rewrite && self.members.writable(place.slot) && !self.read_only {
                    let mut bytes = self.pool.take(source.len());
                    bytes.copy_from_slice(source);
                    writes.push((place.slot, member_rows(*place, item.len), bytes));
                }
            }
        }
        for item in &op.items {
            for place in item.copies.iter().filter(|place| item.failed.contains(&place.slot)) {
                let rows = member_rows(*place, item.len);
                let (start, len) = (Sector(rows.start), SectorCount(item.len));
                self.out.push(crate::event::Effect::Corrected { slot: place.slot, start, len });
            }
        }
        let writes = join_writes(writes);
        if writes.is_empty() {
            return self.end_copy_window(key, op);
        }
        op.writing = true;
        op.outstanding = writes.len();
        self.ops[key] = Op::CopyWindow(op);
        for (slot, rows, bytes) in writes {
            self.send_write(key, slot, rows, bytes);
        }
    }

    /// Is this copy on a member being rebuilt that does not have it yet?
    fn wants(&self, place: Place, len: u64) -> bool {
        self.members.writable(place.slot) && !self.members.readable(place.slot, Sector(place.sector.0 + len))
    }

    fn end_copy_window(&mut self, key: usize, op: CopyWindow) {
        self.ops.remove(key);
        for &region in &op.regions {
            self.unlock(region);
        }
        self.window_done(&op.rows, op.found);
    }
}

/// Sectors in rows that differ, as md counts them.
fn differing_sectors(a: &[u8], b: &[u8]) -> u64 {
    if a == b {
        return 0;
    }
    let rows = a.chunks(ROW.len_bytes()).zip(b.chunks(ROW.len_bytes()));
    rows.filter(|(a, b)| a != b).map(|(a, _)| SectorCount::floor_bytes(a.len() as u64).0).sum()
}
