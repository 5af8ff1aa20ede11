//! What must hold of every output, whatever happens.

use std::collections::BTreeSet;

use uraid_device::{Io, IoOp, Shared};
use uraid_format::BITMAP_SUPER_BYTES;
use uraid_geometry::{Geometry, ParityRole};
use uraid_types::{Sector, SectorCount, Slot, StripeNo};

use crate::assemble::read_super;
use crate::model;
use crate::setup::data_sector;
use crate::world::{Asked, Stop, World};

/// Byte offsets within a version-1 superblock (`linux/raid/md_p.h`).
const EVENTS_AT: u64 = 200;
const RESYNC_OFFSET_AT: u64 = 208;
const FEATURES_AT: u64 = 8;
/// The feature bit of a member that is being rebuilt.
const RECOVERY_OFFSET: u64 = 1 << 1;
const RECOVERY_OFFSET_AT: u64 = 152;
const NUMBER_AT: u64 = 160;
/// Roles from here on are no slots.
const FIRST_NON_SLOT: u16 = 0xfff0;
const ROLES_AT: u64 = 256;
/// Byte offset within a bitmap's superblock (`drivers/md/md-bitmap.h`).
pub(crate) const BITMAP_EVENTS_AT: u64 = 24;

impl World {
    /// A member operation is sent.
    pub(crate) fn check_io(&mut self, io: &Io) -> Result<(), Stop> {
        let bug = |what: String| Err(Stop::Bug(format!("{}: {what}", io.member)));
        if !self.attached.contains(&io.member) {
            return bug(format!("an operation was sent to a disk that was lost or let go: {}", self.describe(&io.op)));
        }
        let changes = matches!(io.op, IoOp::Write { .. } | IoOp::Zero { .. });
        if !changes {
            return Ok(());
        }
        if self.broken {
            return bug(format!("a write after the array has failed: {}", self.describe(&io.op)));
        }
        if self.read_only {
            return bug(format!("a write to a read-only array: {}", self.describe(&io.op)));
        }
        self.check_place(io)?;
        if !self.in_data(io.op.offset_bytes()) {
            if let IoOp::Write { from, .. } = &io.op
                && io.op.offset_bytes() == self.areas.super_byte
            {
                self.check_superblock_write(io.member, &from[0])?;
            }
            self.check_cleared_bits(io)?;
            return Ok(());
        }
        Ok(self.check_intent(io)?)
    }

    /// A write lies wholly within one of the areas that belong to the array.
    fn check_place(&self, io: &Io) -> Result<(), String> {
        let (start, end) = (io.op.offset_bytes(), io.op.offset_bytes() + io.op.len_bytes());
        let areas = [
            Some((self.areas.super_byte, self.areas.super_byte + 4096)),
            self.areas.bitmap.map(|(start, len)| (start, start + len)),
            Some((self.areas.data_byte, self.areas.data_end_byte)),
        ];
        let inside = areas.into_iter().flatten().any(|(first, past)| first <= start && end <= past);
        if inside {
            Ok(())
        } else {
            Err(format!("disk {}: a write to bytes {start}..{end} is in no area of the array", io.member))
        }
    }

    /// Events only grow.
    fn check_superblock_write(&mut self, member: usize, bytes: &[u8]) -> Result<(), String> {
        let events = word(bytes, EVENTS_AT);
        let before = word(self.disks[member].view(), self.areas.super_byte + EVENTS_AT);
        if events < self.newest_events || (!self.joining.contains(&member) && events <= before) {
            return Err(format!(
                "disk {member}: events {events} are written over {before}, the newest are {}",
                self.newest_events
            ));
        }
        self.newest_events = events;
        self.introduced.insert(member);
        if let Some((start, _)) = self.areas.bitmap {
            let of_bitmap = word(self.disks[member].durable(), start + BITMAP_EVENTS_AT);
            // One that failed to take it is on its way to be lost.
            if of_bitmap < events && !self.metadata_failed.contains(&member) {
                return Err(format!("disk {member}: events {events} are written while its bitmap's are durably {of_bitmap}"));
            }
        }
        // 'Dirty' is said as a resync from 0. Whatever else is recorded is said of all that a resync will not come by.
        let resync = word(bytes, RESYNC_OFFSET_AT);
        if resync > 0 {
            let words = superblock_words(bytes);
            self.check_settled(&words, |slot, sector| self.unit_of(slot, sector).is_none_or(|unit| unit < resync))?;
        }
        self.check_filled(member, bytes)?;
        self.sent_supers.insert(member, bytes.to_vec());
        Ok(())
    }

    /// What a superblock says of its own member's recovery is durable data.
    fn check_filled(&mut self, member: usize, bytes: &[u8]) -> Result<(), String> {
        let is_filling = word(bytes, FEATURES_AT) & RECOVERY_OFFSET != 0;
        let recovered = if is_filling { word(bytes, RECOVERY_OFFSET_AT) } else { u64::MAX };
        if own_slot(bytes).is_none() || self.slot_of.get(&member).map(|slot| slot.0) != own_slot(bytes) {
            return Ok(());
        }
        let data = self.disks[member].not_filled_durably().filter(|&byte| self.in_data(byte));
        let sectors: Vec<u64> = data.map(|byte| data_sector(&self.areas, byte)).filter(|&sector| sector < recovered).collect();
        if let Some(sector) = sectors.first() {
            let words = format!("disk {member} says that it is recovered up to {recovered}");
            return Err(format!("{words}, and nothing of its data sector {sector} is durable"));
        }
        if !is_filling {
            self.disks[member].end_filling();
        }
        Ok(())
    }

    /// The superblocks never show a state from which the array cannot start.
    pub(crate) fn check_startable(&mut self) -> Result<(), String> {
        let sent = std::mem::take(&mut self.sent_supers);
        let Some(newest) = sent.values().map(|bytes| word(bytes, EVENTS_AT)).max().filter(|_| self.redundant()) else {
            return Ok(());
        };
        let Some(table) = sent.values().find(|bytes| word(bytes, EVENTS_AT) == newest) else { return Ok(()) };
        let mut whole = BTreeSet::new();
        for (key, disk) in self.disks.iter().enumerate() {
            let on_disk = || read_super(disk.view()).map(|raw| raw.to_bytes());
            let Some(own) = sent.get(&key).cloned().or_else(on_disk) else { continue };
            // A member that is one event behind counts.
            let counts = word(&own, EVENTS_AT) + 1 >= newest && word(&own, FEATURES_AT) & RECOVERY_OFFSET == 0;
            whole.extend(role_of(table, word(&own, NUMBER_AT) as u32).filter(|slot| counts && own_slot(&own) == Some(*slot)));
        }
        let incomplete: Vec<Slot> = (0..self.setup.slots).filter(|slot| !whole.contains(slot)).map(Slot).collect();
        if self.geometry.survives(&incomplete) {
            return Ok(());
        }
        Err(format!("events {newest} are recorded with {incomplete:?} incomplete, from which the array cannot start"))
    }

    /// Where no resync will come by after a power cut, it must not be able to change anything: `is_in` chooses.
    fn check_settled(&self, why: &str, is_in: impl Fn(Slot, u64) -> bool) -> Result<(), String> {
        if self.status().sync.is_some_and(|sync| sync.kind == "repair") {
            // What it makes equal differed before, durably, and nothing was said of that.
            return Ok(());
        }
        // One that is being rebuilt, or was until a moment ago, has not been told so by its superblock yet.
        let counts = |key: &usize, slot: &Slot| {
            let own = &self.disks[*key].view()[self.areas.super_byte as usize..];
            let is_told = own_slot(own) == Some(slot.0) && word(own, FEATURES_AT) & RECOVERY_OFFSET == 0;
            is_told && !self.rebuilding.contains(key) && !self.joining.contains(key)
        };
        for (&key, &slot) in self.slot_of.iter().filter(|(key, slot)| counts(key, slot)) {
            let under_way = self.under_way.iter().filter(|way| way.io.member == key).filter_map(|way| match &way.io.op {
                IoOp::Write { offset_bytes, from } if !self.is_there_already(key, *offset_bytes, from) => Some(*offset_bytes),
                _ => None,
            });
            for byte in self.disks[key].unsettled().chain(under_way).filter(|&byte| self.in_data(byte)) {
                let sector = data_sector(&self.areas, byte);
                if is_in(slot, sector) {
                    return Err(format!("{why}: written while what disk {key} has at data sector {sector} is not durable"));
                }
            }
        }
        Ok(())
    }

    fn is_there_already(&self, key: usize, offset_bytes: u64, from: &[Shared]) -> bool {
        let bytes = from.iter().flat_map(|part| part.iter());
        self.disks[key].view()[offset_bytes as usize..].iter().zip(bytes).all(|(old, new)| old == new)
    }

    /// What resync and bitmap count a member's data sector as; `None` for sectors that hold nothing.
    fn unit_of(&self, slot: Slot, sector: u64) -> Option<u64> {
        let is_raid10 = matches!(self.setup.layout, uraid_types::Layout::Raid10(_));
        if is_raid10 { self.array_sector(slot, sector) } else { Some(sector) }
    }

    /// The bit of a member's data sector; `None` without a bitmap, and for sectors that hold nothing.
    fn bit_of(&self, slot: Slot, sector: u64) -> Option<u64> {
        Some(self.unit_of(slot, sector)? / (u64::from(self.setup.bitmap_chunk?) / 512))
    }

    /// Bits are cleared only where all is durable and nobody has missed anything.
    fn check_cleared_bits(&self, io: &Io) -> Result<(), String> {
        let (Some((start, _)), IoOp::Write { offset_bytes, from }) = (self.areas.bitmap, &io.op) else { return Ok(()) };
        if self.joining.contains(&io.member) {
            return Ok(());
        }
        let old = &self.disks[io.member].view()[*offset_bytes as usize..];
        let bytes = from.iter().flat_map(|part| part.iter()).zip(old).enumerate();
        let first = start + BITMAP_SUPER_BYTES as u64;
        for (index, (new, old)) in bytes {
            let Some(byte) = (offset_bytes + index as u64).checked_sub(first).filter(|_| old & !new != 0) else { continue };
            for bit in (0..8).filter(|bit| old & !new & 1 << bit != 0).map(|bit| byte * 8 + bit) {
                if self.missed_bits.contains(&bit) {
                    return Err(format!("bit {bit} is cleared on disk {}, and a missing member needs it", io.member));
                }
                let words = format!("bit {bit} is cleared");
                self.check_settled(&words, |slot, sector| self.bit_of(slot, sector) == Some(bit))?;
            }
        }
        Ok(())
    }

    /// New data is written only where the bitmap and the dirty mark say so, durably, on every member that takes metadata.
    fn check_intent(&mut self, io: &Io) -> Result<(), String> {
        if !self.redundant() {
            return Ok(());
        }
        let Some(&slot) = self.slot_of.get(&io.member) else {
            return Err(format!("disk {}: a data write to a disk without a slot", io.member));
        };
        let IoOp::Write { from, .. } = &io.op else { return Ok(()) };
        if self.rebuilding.contains(&io.member) {
            return Ok(());
        }
        let bytes: Vec<u8> = from.iter().flat_map(|part| part.iter().copied()).collect();
        let first = (io.op.offset_bytes() - self.areas.data_byte) / 512;
        for (index, sector_bytes) in bytes.chunks_exact(512).enumerate() {
            let at = first + index as u64;
            let Some(array) = self.array_sector(slot, at) else { continue };
            let Some(value) = model::decode(sector_bytes, array) else { continue };
            let here = io.op.offset_bytes() as usize + index * 512;
            if self.disks[io.member].view()[here..here + 512] == *sector_bytes {
                // An unreadable block is rewritten with what it held. The request may still be waiting, for another of its stripes,
                // while the array is marked clean: this part of it was written under the marks, and nothing is at risk.
                continue;
            }
            let new = self.waiting.values().any(|waiting| {
                matches!(waiting.asked, Asked::Write { value: asked, .. } if asked == value) && waiting.range.contains(&array)
            });
            if new {
                self.check_marked(array, at)?;
                if self.status().degraded > 0 {
                    self.missed_bits.extend(self.bit_of(slot, at));
                }
            }
        }
        Ok(())
    }

    fn check_marked(&self, array: u64, member_sector: u64) -> Result<(), String> {
        for &key in self.attached.difference(&self.joining) {
            let durable = self.disks[key].durable();
            if word(durable, self.areas.super_byte + RESYNC_OFFSET_AT) == u64::MAX {
                return Err(format!("array sector {array} is written while disk {key} durably says 'clean'"));
            }
            let (Some((start, _)), Some(chunk_bytes)) = (self.areas.bitmap, self.setup.bitmap_chunk) else { continue };
            let unit = if matches!(self.setup.layout, uraid_types::Layout::Raid10(_)) { array } else { member_sector };
            let bit = unit / (u64::from(chunk_bytes) / 512);
            let byte = durable[(start + BITMAP_SUPER_BYTES as u64 + bit / 8) as usize];
            if byte & 1 << (bit % 8) == 0 {
                return Err(format!("array sector {array} is written while bit {bit} is not durable on disk {key}"));
            }
        }
        Ok(())
    }

    /// Which array sector a member data sector holds; `None` for parity and gaps.
    pub(crate) fn array_sector(&self, slot: Slot, sector: u64) -> Option<u64> {
        match &self.geometry {
            Geometry::Copies(copies) => copies.at_member(slot, Sector(sector), SectorCount(1)).array.map(|array| array.0),
            Geometry::Parity(parity) => {
                let stripe = StripeNo(sector / parity.chunk().0);
                match parity.role(stripe, slot) {
                    ParityRole::Data(index) => Some(parity.array_sector(stripe, index, SectorCount(sector % parity.chunk().0)).0),
                    ParityRole::P | ParityRole::Q => None,
                }
            }
        }
    }

    /// Whoever is told that a write is done must find it after the loss of the members that were lost: the others say so durably.
    pub(crate) fn check_acknowledgement(&mut self, id: u64) -> Result<(), String> {
        for loss in &self.losses {
            for &key in self.attached.difference(&self.joining) {
                let at = self.areas.super_byte + ROLES_AT + 2 * loss.number as u64;
                let durable = &self.disks[key].durable()[at as usize..at as usize + 2];
                if durable == loss.slot.0.to_le_bytes() && !self.slot_of.values().any(|slot| self.holds(loss, *slot)) {
                    return Err(format!(
                        "request {id} was acknowledged while disk {key} durably counts number {} as active in {}",
                        loss.number, loss.slot
                    ));
                }
                // A member that is one event behind counts as current to md.
                let own = word(self.disks[key].durable(), self.areas.super_byte + EVENTS_AT);
                let lost = read_super(self.disks[loss.key].view()).map_or(0, |raw| raw.superblock().events);
                if lost > 0 && own < lost + 2 && !self.attached.contains(&loss.key) {
                    return Err(format!(
                        "request {id} was acknowledged while disk {key} durably has events {own}, and disk {}, which was lost, {lost}",
                        loss.key
                    ));
                }
            }
        }
        if !self.losses.is_empty() {
            self.marks.hit("ack after loss");
        }
        Ok(())
    }

    /// Has the number of a lost member been given to another in the same slot?
    fn holds(&self, loss: &crate::world::Loss, slot: Slot) -> bool {
        slot == loss.slot
            && self.status().members.iter().any(|member| member.number as usize == loss.number && member.slot == Some(slot.0))
    }

    /// A disk's flush has ended: if its first superblock is durable now, it counts as a member.
    pub(crate) fn joined(&mut self, key: usize) {
        if self.joining.contains(&key) && self.introduced.contains(&key) {
            let events = word(self.disks[key].durable(), self.areas.super_byte + EVENTS_AT);
            if events == self.newest_events {
                self.joining.remove(&key);
            }
        }
    }
}

/// The slot that a superblock gives its own member.
fn own_slot(bytes: &[u8]) -> Option<u16> {
    role_of(bytes, word(bytes, NUMBER_AT) as u32)
}

/// The slot that a superblock's table gives a number.
fn role_of(bytes: &[u8], number: u32) -> Option<u16> {
    let at = (ROLES_AT + 2 * u64::from(number)) as usize;
    let role = u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]);
    (role < FIRST_NON_SLOT).then_some(role)
}

/// What a superblock says, for the trace.
pub(crate) fn superblock_words(bytes: &[u8]) -> String {
    let resync = match word(bytes, RESYNC_OFFSET_AT) {
        u64::MAX => "clean".to_owned(),
        from => format!("resync from {from}"),
    };
    let role = own_slot(bytes).map_or_else(|| "no slot".to_owned(), |slot| format!("slot {slot}"));
    let is_filling = word(bytes, FEATURES_AT) & RECOVERY_OFFSET != 0;
    let recovered = if is_filling { format!(" up to {}", word(bytes, RECOVERY_OFFSET_AT)) } else { String::new() };
    format!("with events {}, {resync}, {role}{recovered}", word(bytes, EVENTS_AT))
}

/// The 64-bit number at `at`.
pub(crate) fn word(bytes: &[u8], at: u64) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at as usize..at as usize + 8]);
    u64::from_le_bytes(word)
}
