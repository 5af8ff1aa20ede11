//! What must hold of every output, whatever happens.

use uraid_device::{Io, IoOp};
use uraid_format::BITMAP_SUPER_BYTES;
use uraid_geometry::{Geometry, ParityRole};
use uraid_types::{Sector, SectorCount, Slot, StripeNo};

use crate::model;
use crate::world::{Asked, Stop, World};

/// Byte offsets within a version-1 superblock (`linux/raid/md_p.h`).
const EVENTS_AT: u64 = 200;
const RESYNC_OFFSET_AT: u64 = 208;
const ROLES_AT: u64 = 256;

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
            let new = self.waiting.values().any(|waiting| {
                matches!(waiting.asked, Asked::Write { value: asked, .. } if asked == value) && waiting.range.contains(&array)
            });
            if new {
                self.check_marked(array, at)?;
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
        if self.joining.contains(&key) {
            let events = word(self.disks[key].durable(), self.areas.super_byte + EVENTS_AT);
            if events == self.newest_events {
                self.joining.remove(&key);
            }
        }
    }
}

/// The 64-bit number at `at`.
pub(crate) fn word(bytes: &[u8], at: u64) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at as usize..at as usize + 8]);
    u64::from_le_bytes(word)
}
