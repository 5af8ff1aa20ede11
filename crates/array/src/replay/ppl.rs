//! Replaying partial parity logs: see `uraid_format::PplHeader` for what an entry says.

use uraid_format::{PplEntry, PplHeader};
use uraid_geometry::Parity;
use uraid_parity::{crc32c, xor_into};
use uraid_types::{SECTOR_BYTES, Sector, SectorCount, Slot, StripeNo};

use super::Rows;
use crate::probe::bytes_at;
use crate::scan::FoundPpl;

/// Bytes of parity made at once.
const PIECE_BYTES: u64 = 64 << 10;

/// The rows of a stripe that an entry is about.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    stripe: StripeNo,
    /// First member data sector.
    start: Sector,
    bytes: u64,
    /// Who was being written.
    written: Vec<Slot>,
    /// Does its partial parity count?
    has_partial: bool,
}

/// Where `entry`, found on the member of `slot`, belongs.
fn place(parity: &Parity, entry: &PplEntry, slot: Slot) -> Result<Place, String> {
    let (data, partial) = (u64::from(entry.data_bytes), u64::from(entry.partial_bytes));
    let chunks = parity.data_members() as u64;
    // Where a chunk that is written in part takes part in a write of all of them, there may be a partial parity for some rows: it is
    // of nothing.
    let (written, bytes) = match data.checked_div(partial) {
        Some(count) if count <= chunks && data.is_multiple_of(partial) => (count, partial),
        _ if data.is_multiple_of(chunks * SECTOR_BYTES) => (chunks, data / chunks),
        _ => return Err(format!("{data} bytes of data with {partial} of partial parity are no rows of {chunks} chunks")),
    };
    let first = entry.data_sector;
    let chunk = parity.chunk();
    let last = (written - 1).checked_mul(chunk.0).and_then(|sectors| first.0.checked_add(sectors));
    let Some(last) = last.filter(|&last| last < parity.capacity().0) else {
        return Err(format!("array sector {} is beyond the array", first.0));
    };
    let begin = parity.stripe_of(first);
    let fits = begin.offset.bytes() + bytes <= chunk.bytes() && parity.stripe_of(Sector(last)).stripe == begin.stripe;
    if !fits {
        return Err(format!("{data} bytes at array sector {} are not within a stripe", first.0));
    }
    let holder = parity.p_slot(begin.stripe);
    if holder != slot || entry.parity_disk != u32::from(slot.0) {
        return Err(format!("the parity for array sector {} is on {holder}, not on {slot}", first.0));
    }
    Ok(Place {
        stripe: begin.stripe,
        start: parity.member_sector(begin.stripe, begin.offset),
        bytes,
        written: (0..written).map(|index| parity.stripe_of(Sector(first.0 + index * chunk.0)).slot).collect(),
        has_partial: bytes == partial,
    })
}

/// Entries of a log, found on the member of `slot`, that cannot be replayed: torn ones, and those that are about nothing there is.
pub(crate) fn useless_entries(parity: &Parity, found: &FoundPpl, slot: Slot) -> usize {
    let is_useless = |(number, entry): &(usize, &PplEntry)| found.torn.contains(number) || place(parity, entry, slot).is_err();
    found.header.entries.iter().enumerate().filter(is_useless).count()
}

/// Replays the log of every member, then empties those that may be written. Gives a sentence on it.
pub(super) fn replay(rows: &mut Rows) -> Result<String, String> {
    let (mut done, mut left) = (0, 0);
    for index in 0..rows.slots.len() {
        let slot = Slot::from_index(index);
        let Some(found) = log_of(rows, slot) else { continue };
        let entries: Vec<(PplEntry, u64)> = found.header.partial_parities().collect();
        for (number, (entry, within)) in entries.into_iter().enumerate() {
            // What makes no sense was counted when it was decided how the array starts.
            let Some(place) = place(&rows.parity, &entry, slot).ok().filter(|_| !found.torn.contains(&number)) else { continue };
            let partial = SectorCount::floor_bytes(within);
            if replay_entry(rows, slot, &place, found.start + partial)? { done += 1 } else { left += 1 }
        }
    }
    rows.flush().map_err(|error| error.to_string())?;
    empty_logs(rows)?;
    let kept = if rows.in_memory { " in memory, the members are as they were" } else { "" };
    let lost =
        if left > 0 { format!("; of {left} the data cannot be read, and their parity is as it was") } else { String::new() };
    Ok(format!("it was not stopped cleanly: {done} writes were completed from its PPL{kept}{lost}"))
}

fn log_of(rows: &Rows, slot: Slot) -> Option<FoundPpl> {
    rows.members[rows.slots[slot.index()].member?].ppl.clone()?.ok()
}

/// Makes the parity of `place` on `slot` right; false when a block that it takes cannot be had. `partial`: the member sector of the
/// partial parity.
fn replay_entry(rows: &mut Rows, slot: Slot, place: &Place, partial: Sector) -> Result<bool, String> {
    let mut all = true;
    let mut at = 0;
    while at < place.bytes {
        let len = PIECE_BYTES.min(place.bytes - at);
        let skip = SectorCount::floor_bytes(at);
        let start = place.start + skip;
        match make_parity(rows, slot, place, (start, partial + skip), len as usize)? {
            Some(parity) => rows.write(slot, start, &parity).map_err(|error| error.to_string())?,
            None => all = false,
        }
        at += len;
    }
    Ok(all)
}

fn make_parity(
    rows: &Rows,
    slot: Slot,
    place: &Place,
    (start, partial): (Sector, Sector),
    len: usize,
) -> Result<Option<Vec<u8>>, String> {
    let mut parity = vec![0; len];
    if place.has_partial
        && let Some(index) = rows.slots[slot.index()].member
    {
        let found = bytes_at(&*rows.members[index].device, partial.byte_offset(), len as u64);
        parity = found.map_err(|error| error.to_string())?;
    }
    for &written in &place.written {
        let Some(data) = rows.read(written, start, len) else { return Ok(None) };
        xor_into(&mut parity, &data);
    }
    Ok(Some(parity))
}

/// What was replayed is not replayed again: after later writes without a log it would be wrong.
fn empty_logs(rows: &mut Rows) -> Result<(), String> {
    if rows.in_memory {
        return Ok(());
    }
    for plan in rows.slots {
        let Some(index) = plan.member else { continue };
        let member = &rows.members[index];
        let Some(Ok(found)) = &member.ppl else { continue };
        let header = PplHeader { generation: found.header.generation + 1, entries: Vec::new(), ..found.header.clone() };
        let page = rows.pool.copy(&header.to_bytes(crc32c));
        member.device.write_at(found.area.byte_offset(), &page).map_err(|error| error.to_string())?;
    }
    rows.flush().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use uraid_geometry::{Geometry, Shape};
    use uraid_types::{Layout, Level};

    use super::*;

    fn parity() -> Parity {
        let (level, chunk) = (Level::Raid5, SectorCount(128));
        let layout = Layout::default_for(level);
        let shape = Shape { level, layout, raid_disks: 4, chunk, member_sectors: vec![SectorCount(16384); 4] };
        let Geometry::Parity(parity) = Geometry::new(&shape).unwrap() else { panic!("RAID5 has parity") };
        parity
    }

    fn entry(data_sector: u64, data_bytes: u32, partial_bytes: u32, parity_disk: u32) -> PplEntry {
        PplEntry { data_sector: Sector(data_sector), data_bytes, partial_bytes, parity_disk, checksum: 0 }
    }

    /// Entries as Linux 6.1 wrote them for 4 members, left-symmetric, chunks of 64 KiB.
    #[test]
    fn the_kernels_entries_are_placed() {
        // 4 KiB at 384 KiB: the first chunk of stripe 2, whose parity is on the second member.
        let one = place(&parity(), &entry(768, 4096, 4096, 1), Slot(1)).unwrap();
        let expected = Place { stripe: StripeNo(2), start: Sector(256), bytes: 4096, written: vec![Slot(2)], has_partial: true };
        assert_eq!(one, expected);
        // 128 KiB at 256 KiB, the second half of the rows: the second and third chunk of stripe 1.
        let two = place(&parity(), &entry(576, 65536, 32768, 2), Slot(2)).unwrap();
        assert_eq!((two.start, two.bytes, two.written), (Sector(192), 32768, vec![Slot(0), Slot(1)]));
        // A whole stripe.
        let whole = place(&parity(), &entry(384, 3 << 15, 0, 2), Slot(2)).unwrap();
        assert_eq!((whole.bytes, whole.written.len(), whole.has_partial), (1 << 15, 3, false));
    }

    #[test]
    fn entries_that_make_no_sense_are_refused() {
        let bad = [
            entry(u64::MAX, 4096, 4096, 1),
            entry(parity().capacity().0, 4096, 4096, 1),
            entry(768, 4096, 4096, 2),
            entry(0, 4096, 4096, 1),
            entry(768 + 124, 4096, 4096, 1),
            entry(768 + 128, 3 * 4096, 4096, 1),
            entry(768, 1024, 0, 1),
        ];
        for entry in bad {
            assert!(place(&parity(), &entry, Slot(1)).is_err(), "{entry:?}");
        }
    }
}
