//! What a new array is, or would be, in words and as JSON.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use uraid_array::{Created, CreatedMember};
use uraid_format::MemberPlan;
use uraid_geometry::{Geometry, Shape};
use uraid_report::{Table, human_bytes};
use uraid_types::Slot;

use crate::present::{kib, md_uuid};

/// More combinations of lost members than this are not tried one by one.
const MAX_COMBINATIONS: u64 = 100_000;

/// The JSON report `create`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Was it written, or only planned?
    written: bool,
    name: String,
    uuid: String,
    metadata: &'static str,
    level: &'static str,
    /// As mdadm names it.
    layout: String,
    chunk_bytes: u64,
    size_bytes: u64,
    used_bytes_per_member: u64,
    raid_disks: usize,
    /// Bytes under one bit of the bitmap.
    bitmap_chunk_bytes: Option<u32>,
    resync_needed: bool,
    /// Members that may be lost, whichever they are.
    survives_any: usize,
    /// Which losses leave all data, by the number of members lost.
    survives: Vec<Survival>,
    members: Vec<MemberReport>,
    overwritten: Vec<Overwritten>,
    /// The logical block that the superblocks record; 0 for none.
    logical_block_bytes: u32,
    /// What the administrator should know.
    warnings: Vec<String>,
    /// What puts back what was overwritten; `null` when nothing was.
    undo_file: Option<PathBuf>,
}

/// So many members lost.
#[derive(Debug, Serialize)]
struct Survival {
    lost: usize,
    surviving: u64,
    combinations: u64,
}

#[derive(Debug, Serialize)]
struct MemberReport {
    member: String,
    /// `null` for a spare.
    slot: Option<u16>,
    super_offset_bytes: u64,
    data_offset_bytes: u64,
    data_bytes: u64,
    bitmap_offset_bytes: Option<u64>,
    bad_block_log_offset_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Overwritten {
    member: String,
    what: String,
}

impl Report {
    /// Of an array with that name.
    pub fn new(created: &Created, name: &str, undo_file: Option<PathBuf>) -> Report {
        let pairs = created.members.iter().zip(created.plan.members.iter().flatten());
        Report {
            written: created.written,
            name: name.to_owned(),
            uuid: created.array_id.to_string(),
            metadata: metadata_name(created),
            level: created.level.name(),
            layout: created.layout.to_string(),
            chunk_bytes: created.chunk.bytes(),
            size_bytes: created.capacity.bytes(),
            used_bytes_per_member: created.plan.used_size.bytes(),
            raid_disks: slots(created),
            bitmap_chunk_bytes: created.plan.bitmap_chunk_bytes,
            resync_needed: created.plan.resync,
            survives_any: created.max_failures,
            survives: survivals(created),
            members: pairs.map(|(member, plan)| member_report(member, plan)).collect(),
            overwritten: created
                .overwritten
                .iter()
                .map(|(member, what)| Overwritten { member: member.clone(), what: what.to_string() })
                .collect(),
            logical_block_bytes: logical_block_bytes(created),
            warnings: warnings(created),
            undo_file,
        }
    }
}

fn logical_block_bytes(created: &Created) -> u32 {
    created.plan.members.iter().flatten().next().map_or(0, |member| member.superblock.superblock().logical_block_bytes)
}

/// What the administrator should know of the new array.
pub fn warnings(created: &Created) -> Vec<String> {
    let recorded = logical_block_bytes(created);
    let warning = format!(
        "the superblocks record a logical block of {recorded} bytes: Linux before 6.19 refuses such members, since it takes \
         their byte 224 for padding that must be zero"
    );
    if recorded > 0 { vec![warning] } else { Vec::new() }
}

fn member_report(member: &CreatedMember, plan: &MemberPlan) -> MemberReport {
    MemberReport {
        member: member.name.clone(),
        slot: member.slot.map(|slot| slot.0),
        super_offset_bytes: plan.super_byte,
        data_offset_bytes: member.data_offset.byte_offset(),
        data_bytes: member.data_size.bytes(),
        bitmap_offset_bytes: plan.bitmap.as_ref().map(|area| area.start_byte),
        bad_block_log_offset_bytes: plan.bad_block_log.as_ref().map(|area| area.start_byte),
    }
}

fn metadata_name(created: &Created) -> &'static str {
    created.plan.members.iter().flatten().next().map_or("1.2", |member| member.superblock.superblock().version.name())
}

fn slots(created: &Created) -> usize {
    let first = created.plan.members.iter().flatten().next();
    first.map_or(0, |member| usize::from(member.superblock.superblock().raid_disks))
}

/// The plan in words.
pub fn text(created: &Created, name: &str) -> String {
    let done = if created.written { "made" } else { "would be made (dry run: nothing is written)" };
    let mut text = format!("array {name} {done}\n");
    let mut line = |label: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{label:>15} : {value}");
    };
    line("Raid Level", created.level.to_string());
    line("Layout", created.layout.to_string());
    if !created.chunk.is_zero() {
        line("Chunk Size", human_bytes(created.chunk.bytes()));
    }
    line("Raid Devices", slots(created).to_string());
    line("Array Size", kib(created.capacity.bytes()));
    if created.plan.used_size.0 > 0 {
        line("Used Dev Size", kib(created.plan.used_size.bytes()));
    }
    if logical_block_bytes(created) > 0 {
        line("Logical Block", format!("{} bytes", logical_block_bytes(created)));
    }
    line("Version", metadata_name(created).to_owned());
    line("Array UUID", md_uuid(created.array_id));
    let bitmap =
        created.plan.bitmap_chunk_bytes.map_or("none".to_owned(), |chunk| format!("{} a bit", human_bytes(u64::from(chunk))));
    line("Bitmap", bitmap);
    line("Resync", if created.plan.resync { "starts when it is assembled" } else { "not needed" }.to_owned());
    for survival in survival_words(created) {
        line("Survives", survival);
    }
    text.push('\n');
    text + &member_table(created).to_string()
}

fn member_table(created: &Created) -> Table {
    let mut table = Table::new(&["member", "slot", "superblock at", "bitmap at", "bad-block log at", "data at", "data"]);
    for column in 1..7 {
        table.right(column);
    }
    for (member, plan) in created.members.iter().zip(created.plan.members.iter().flatten()) {
        table.row([
            member.name.clone(),
            member.slot.map_or("spare".to_owned(), |slot| slot.0.to_string()),
            plan.super_byte.to_string(),
            plan.bitmap.as_ref().map_or("-".to_owned(), |area| area.start_byte.to_string()),
            plan.bad_block_log.as_ref().map_or("-".to_owned(), |area| area.start_byte.to_string()),
            member.data_offset.byte_offset().to_string(),
            kib(member.data_size.bytes()),
        ]);
    }
    table
}

fn survival_words(created: &Created) -> Vec<String> {
    let any = match created.max_failures {
        0 => "no lost member".to_owned(),
        1 => "any 1 lost member".to_owned(),
        many => format!("any {many} lost members"),
    };
    let some = survivals(created).into_iter().filter(|survival| survival.surviving < survival.combinations);
    let words = some.map(|Survival { lost, surviving, combinations }| {
        format!("{lost} lost members in {surviving} of {combinations} combinations")
    });
    std::iter::once(any).chain(words).collect()
}

/// How many combinations of lost members leave all data there, as long as any does.
fn survivals(created: &Created) -> Vec<Survival> {
    let slots = slots(created);
    let shape = Shape {
        level: created.level,
        layout: created.layout,
        raid_disks: u16::try_from(slots).unwrap_or(u16::MAX),
        chunk: created.chunk,
        member_sectors: vec![created.plan.used_size; slots],
    };
    let Some(geometry) = Geometry::new(&shape).ok().filter(|_| created.level.is_redundant()) else { return Vec::new() };
    let mut all = Vec::new();
    for lost in 1..slots {
        let combinations = combinations(slots as u64, lost as u64);
        let surviving = match combinations {
            many if lost <= geometry.max_failures() => many,
            ..=MAX_COMBINATIONS => count_surviving(&geometry, slots, lost),
            _ => break,
        };
        if surviving == 0 {
            break;
        }
        all.push(Survival { lost, surviving, combinations });
    }
    all
}

fn combinations(of: u64, taken: u64) -> u64 {
    (0..taken).fold(1_u64, |product, index| product.saturating_mul(of - index) / (index + 1))
}

fn count_surviving(geometry: &Geometry, slots: usize, lost: usize) -> u64 {
    let mut chosen: Vec<usize> = (0..lost).collect();
    let mut surviving = 0;
    loop {
        let missing: Vec<Slot> = chosen.iter().map(|&slot| Slot::from_index(slot)).collect();
        surviving += u64::from(geometry.survives(&missing));
        // The next combination: the last place that can go on does, those after it follow closely.
        let Some(place) = (0..lost).rev().find(|&place| chosen[place] < slots - lost + place) else { return surviving };
        chosen[place] += 1;
        for later in place + 1..lost {
            chosen[later] = chosen[later - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uraid_types::{Layout, Level, Raid10Layout, SectorCount};

    #[test]
    fn losses_of_near_copies_pair_up() {
        let shape = Shape {
            level: Level::Raid10,
            layout: Layout::Raid10(Raid10Layout::near(2)),
            raid_disks: 6,
            chunk: SectorCount(8),
            member_sectors: vec![SectorCount(800); 6],
        };
        let geometry = Geometry::new(&shape).unwrap();
        // Three pairs: both of a pair must not go. C(6,2) - 3, and 2^3.
        assert_eq!(
            (count_surviving(&geometry, 6, 2), count_surviving(&geometry, 6, 3), count_surviving(&geometry, 6, 4)),
            (12, 8, 0)
        );
        assert_eq!((combinations(6, 2), combinations(16, 2), combinations(16, 8)), (15, 120, 12870));
    }
}
