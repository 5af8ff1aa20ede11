//! Superblocks in words: fields and labels are those of `mdadm --examine`, times are in UTC.

use std::fmt::Display;

use uraid_array::{Candidate, RefusedReason};
use uraid_format::{Feature, MetadataVersion, PartitionTable, RawFields, Role, SUPER_MAGIC, Superblock};
use uraid_geometry::{Geometry, Shape};
use uraid_report::human_bytes;
use uraid_types::{Layout, Level, SectorCount};
use uuid::Uuid;

use super::{Examined, Fields, Found, fields090};
use crate::output::one_line;
use crate::present::{both_units, decimal, md_uuid, time};

/// Ranges of a bad-block log that are listed.
const LISTED: usize = 16;

/// Sectors after a superblock at the start that md keeps for metadata: 4 KiB for it and 32 KiB besides.
const KEPT_SECTORS: u64 = 72;

/// Everything on one member.
pub fn full(examined: &Examined) -> String {
    if let Some(container) = &examined.foreign {
        return container.text(&examined.name, false);
    }
    let mut lines = Lines(format!("{}:", examined.name));
    for found in &examined.superblocks {
        let candidate = examined.scanned.as_ref().ok().filter(|candidate| candidate.superblock().version == found.version);
        superblock(&mut lines, found, candidate);
    }
    match (&examined.scanned, &examined.table) {
        (Ok(candidate), _) => whole_member(&mut lines, candidate),
        (Err(RefusedReason::InPartitions { members, .. }), Some(table)) => partition_table(&mut lines, examined, table, members),
        (Err(why), _) => lines.put("Problem", why),
    }
    lines.0
}

/// What is in a disk's partitions; the members among them are shown on their own.
fn partition_table(lines: &mut Lines, examined: &Examined, table: &PartitionTable, members: &[String]) {
    lines.put("Partition Table", table.kind.name());
    for partition in &table.partitions {
        let member = format!("{}#{}", examined.name, partition.number);
        let what = if members.contains(&member) { format!("a member: {member}") } else { format!("type {}", partition.kind) };
        let (start, size) = (partition.start_bytes, human_bytes(partition.len_bytes));
        let name = if partition.name.is_empty() { String::new() } else { format!(" '{}'", one_line(&partition.name)) };
        lines.put("Partition", format!("{} of {size} at byte {start}{name}, {what}", partition.number));
    }
    if members.is_empty() {
        lines.put("Problem", "none of its partitions carries an array's metadata");
    }
}

fn superblock(lines: &mut Lines, found: &Found, candidate: Option<&Candidate>) {
    let fields = match &found.fields {
        Fields::V1(fields) => fields,
        Fields::V090(fields) => {
            let problem = found.problem.as_deref();
            return fields090::superblock(lines, fields, candidate, problem);
        }
    };
    let level = Level::from_md_number(fields.level);
    lines.put("Magic", format!("{SUPER_MAGIC:08x}"));
    lines.put("Version", found.version.name());
    lines.put("Feature Map", format!("{:#x}", fields.feature_map));
    lines.put("Array UUID", md_uuid(fields.set_uuid));
    lines.put("Name", one_line(&String::from_utf8_lossy(&fields.set_name)));
    lines.put("Creation Time", time(seconds(fields.ctime)));
    lines.put("Raid Level", level.map_or(fields.level.to_string(), |level| level.to_string()));
    lines.put("Raid Devices", fields.raid_disks);
    lines.gap();
    places(lines, fields, candidate);
    lines.put("State", if fields.resync_offset == u64::MAX { "clean" } else { "active" });
    if fields.resync_offset != u64::MAX {
        lines.put("Resync Offset", format!("{} sectors", fields.resync_offset));
    }
    lines.put("Device UUID", md_uuid(fields.device_uuid));
    lines.gap();
    if has(fields, Feature::Bitmap) {
        lines.put("Internal Bitmap", format!("{} sectors from superblock", fields.bitmap_offset));
    }
    features(lines, fields);
    lines.put("Update Time", time(seconds(fields.utime)));
    if fields.bblog_size > 0 {
        let entries = u64::from(fields.bblog_size) * 512 / 8;
        let bad = if has(fields, Feature::BadBlocks) { " - bad blocks present." } else { "" };
        lines.put("Bad Block Log", format!("{entries} entries available at offset {} sectors{bad}", fields.bblog_offset));
    }
    lines.put("Checksum", checksum(fields));
    lines.put("Events", fields.events);
    lines.gap();
    arrangement(lines, fields, level);
    lines.put("Device Role", role(fields));
    lines.put("Array State", format!("{} ('A' == active, '.' == missing, 'R' == replacing)", array_state(fields)));
    if let Some(problem) = &found.problem {
        lines.put("Problem", problem);
    }
}

/// Of a time of the superblock: seconds since 1970 are its low 40 bits, microseconds lie above.
pub fn seconds(time: u64) -> u64 {
    time & ((1 << 40) - 1)
}

fn has(fields: &RawFields, feature: Feature) -> bool {
    fields.feature_map & feature as u32 != 0
}

fn places(lines: &mut Lines, fields: &RawFields, candidate: Option<&Candidate>) {
    let size = |sectors: u64| both_units(sectors.saturating_mul(512));
    lines.put("Avail Dev Size", format!("{} sectors{}", fields.data_size, size(fields.data_size)));
    if let Some(capacity) = candidate.and_then(|candidate| capacity(candidate.superblock())) {
        lines.put("Array Size", format!("{} KiB{}", capacity.bytes() / 1024, both_units(capacity.bytes())));
    }
    // RAID0 alone has no such number.
    if fields.size != fields.data_size && fields.level != 0 {
        lines.put("Used Dev Size", format!("{} sectors{}", fields.size, size(fields.size)));
    }
    lines.put("Data Offset", format!("{} sectors", fields.data_offset));
    if has(fields, Feature::NewOffset) {
        lines.put("New Offset", format!("{} sectors", fields.data_offset.wrapping_add_signed(i64::from(fields.new_offset))));
    }
    lines.put("Super Offset", format!("{} sectors", fields.super_offset));
    if let Some((before, after)) = candidate.and_then(unused) {
        lines.put("Unused Space", format!("before={before} sectors, after={after} sectors"));
    }
    if has(fields, Feature::RecoveryOffset) {
        lines.put("Recovery Offset", format!("{} sectors", fields.recovery_offset));
    }
}

/// The array's size where one member knows it.
pub fn capacity(superblock: &Superblock) -> Option<SectorCount> {
    let shape = Shape {
        level: superblock.level,
        layout: superblock.layout,
        raid_disks: superblock.raid_disks,
        chunk: superblock.chunk,
        member_sectors: vec![superblock.used_size; usize::from(superblock.raid_disks)],
    };
    Geometry::new(&shape).ok().filter(|_| superblock.level.is_redundant()).map(|geometry| geometry.capacity())
}

/// Sectors that nothing uses before and after the data.
fn unused(candidate: &Candidate) -> Option<(u64, u64)> {
    let superblock = candidate.superblock();
    let (data, at) = (superblock.data_offset.0, superblock.super_offset.0);
    let used = if superblock.used_size.is_zero() { superblock.data_size } else { superblock.used_size };
    let block = u64::from(candidate.device.info().logical_block_bytes);
    let bitmap_sectors = candidate.bitmap.as_ref().map_or(0, |found| found.superblock.area_bytes(block) / 512);
    let bitmap = superblock.bitmap_start().map(|start| (start.0, bitmap_sectors));
    let logs = superblock.bad_block_log().into_iter().chain(superblock.ppl_area()).map(|(start, len)| (start.0, len.0));
    let areas = bitmap.into_iter().chain(logs);
    if at < data {
        let metadata_end = areas.map(|(start, len)| start + len).chain([at + KEPT_SECTORS]).max()?;
        Some((data.saturating_sub(metadata_end), superblock.data_size.0.checked_sub(used.0)?))
    } else {
        let metadata_start = areas.map(|(start, _)| start).chain([at]).min()?;
        Some((data, metadata_start.checked_sub(data + used.0)?))
    }
}

fn features(lines: &mut Lines, fields: &RawFields) {
    if has(fields, Feature::Ppl) || has(fields, Feature::MultiplePpls) {
        lines.put("PPL", format!("{} sectors at offset {} sectors from superblock", fields.ppl_size, fields.ppl_offset));
    }
    if has(fields, Feature::ReshapeActive) {
        lines.put("Reshape pos'n", format!("{} KiB", fields.reshape_position / 2));
        lines.put("Delta Devices", fields.delta_disks);
        lines.put("New Level", fields.new_level);
        lines.put("New Layout", fields.new_layout);
        lines.put("New Chunksize", format!("{}K", fields.new_chunk / 2));
    }
    if fields.devflags != 0 {
        let names = [(1, "write-mostly"), (2, "failfast")].iter().filter(|(bit, _)| fields.devflags & bit != 0);
        lines.put("Flags", names.map(|(_, name)| *name).collect::<Vec<_>>().join(" "));
    }
    if fields.logical_block_size != 0 {
        lines.put("Logical Block", format!("{} bytes", fields.logical_block_size));
    }
    if fields.cnt_corrected_read != 0 {
        lines.put("Corrected Reads", fields.cnt_corrected_read);
    }
}

fn checksum(fields: &RawFields) -> String {
    let found = fields.checksum_found;
    match fields.checksum_expected {
        Some(expected) if expected == found => format!("{found:x} - correct"),
        Some(expected) => format!("{found:x} - expected {expected:x}"),
        None => format!("{found:x} - cannot be checked: {} roles do not fit", fields.max_dev),
    }
}

fn arrangement(lines: &mut Lines, fields: &RawFields, level: Option<Level>) {
    let Some(level) = level else {
        lines.put("Layout", format!("{:#x}", fields.layout));
        return;
    };
    if matches!(level, Level::Raid0 | Level::Raid5 | Level::Raid6 | Level::Raid10) {
        let layout = Layout::from_md_number(level, fields.layout);
        lines.put("Layout", layout.map_or(format!("{:#x}, unknown at this level", fields.layout), |layout| layout.to_string()));
    }
    match level {
        Level::Linear => lines.put("Rounding", format!("{}K", fields.chunksize / 2)),
        Level::Raid1 => {}
        _ => lines.put("Chunk Size", format!("{}K", fields.chunksize / 2)),
    }
    lines.gap();
}

fn role(fields: &RawFields) -> String {
    match fields.roles.get(fields.dev_number as usize) {
        Some(0xfffd) => "Journal".to_owned(),
        Some(slot @ 0..0xfffd) if has(fields, Feature::Replacement) => format!("Replacement device {slot}"),
        Some(slot @ 0..0xfffd) => format!("Active device {slot}"),
        Some(0xfffe..=0xffff) | None => "spare".to_owned(),
    }
}

/// A letter for each slot; slots beyond the table of roles are not shown.
fn array_state(fields: &RawFields) -> String {
    let slots = fields.raid_disks.min(u32::try_from(fields.roles.len()).unwrap_or(u32::MAX));
    let letter = |slot: u32| match fields.roles.iter().filter(|&&role| u32::from(role) == slot).count() {
        0 => '.',
        1 => 'A',
        _ => 'R',
    };
    (0..slots).map(letter).collect()
}

/// The bitmap and the bad blocks.
fn whole_member(lines: &mut Lines, candidate: &Candidate) {
    if let Some(found) = &candidate.bitmap {
        let bitmap = &found.superblock;
        let (set, bits, chunk) = (found.bits.count(), found.bits.len(), human_bytes(u64::from(bitmap.chunk_bytes)));
        let stale = if bitmap.is_stale() { ", stale" } else { "" };
        lines.gap();
        lines.put("Bitmap", format!("{set} of {bits} bits set, {chunk} a bit{stale}"));
        lines.put("Bitmap Events", format!("{}, cleared {}", bitmap.events, bitmap.events_cleared));
    }
    if let Some(problem) = &candidate.bitmap_problem {
        lines.put("Bitmap Problem", problem);
    }
    match &candidate.ppl {
        Some(Ok(found)) => {
            let (entries, torn) = (found.header.entries.len(), found.torn.len());
            let torn = if torn > 0 { format!(", {torn} torn") } else { String::new() };
            lines.put("PPL Entries", format!("{entries}{torn}, generation {}", found.header.generation));
        }
        Some(Err(problem)) => lines.put("PPL Problem", problem),
        None => {}
    }
    if let Some(tail) = candidate.superblock().journal_tail {
        lines.put("Journal Tail", format!("{} sectors from data", tail.0));
    }
    for (start, len) in candidate.bad_blocks.iter().take(LISTED) {
        lines.put("Bad Blocks", format!("{len} at {start}"));
    }
    if let Some(more) = candidate.bad_blocks.len().checked_sub(LISTED).filter(|&more| more > 0) {
        lines.put("Bad Blocks", format!("{more} ranges more"));
    }
}

/// `KEY=value` lines with mdadm's keys.
pub fn export(examined: &Examined) -> String {
    let Some(found) = chosen(examined) else { return format!("MD_PROBLEM={}", problem(examined)) };
    let fields = match &found.fields {
        Fields::V1(fields) => fields,
        Fields::V090(fields) => return fields090::export(fields, &problem(examined)),
    };
    let level = Level::from_md_number(fields.level).map_or(fields.level.to_string(), |level| level.to_string());
    let mut lines = vec![format!("MD_LEVEL={level}"), format!("MD_DEVICES={}", fields.raid_disks)];
    lines.push(format!("MD_NAME={}", String::from_utf8_lossy(&fields.set_name).escape_default()));
    if let Some(size) = examined.scanned.as_ref().ok().and_then(|candidate| capacity(candidate.superblock())) {
        lines.push(format!("MD_ARRAY_SIZE={}", decimal(size.bytes())));
    }
    lines.push(format!("MD_UUID={}", md_uuid(fields.set_uuid)));
    lines.push(format!("MD_UPDATE_TIME={}", seconds(fields.utime)));
    lines.push(format!("MD_DEV_UUID={}", md_uuid(fields.device_uuid)));
    lines.push(format!("MD_EVENTS={}", fields.events));
    if examined.scanned.is_err() {
        lines.push(format!("MD_PROBLEM={}", problem(examined)));
    }
    lines.join("\n")
}

fn problem(examined: &Examined) -> String {
    examined.scanned.as_ref().err().map(ToString::to_string).unwrap_or_default().replace('\n', " ")
}

/// The superblock that counts: the one that the array would use, else the first.
fn chosen(examined: &Examined) -> Option<&Found> {
    let used = examined.scanned.as_ref().ok().map(|candidate| candidate.superblock().version);
    let found = examined.superblocks.iter().find(|found| Some(found.version) == used);
    found.or(examined.superblocks.first())
}

/// A line for each array, as mdadm.conf has them.
pub fn brief(all: &[Examined]) -> Vec<String> {
    let mut lines: Vec<(Uuid, String, usize)> = Vec::new();
    for candidate in all.iter().filter_map(|examined| examined.scanned.as_ref().ok()) {
        let superblock = candidate.superblock();
        // Whatever is beyond the slots is a spare to mdadm.
        let is_beyond = !matches!(superblock.own_role(), Role::Active(_)) || superblock.has(Feature::Replacement);
        let is_spare = usize::from(is_beyond);
        match lines.iter_mut().find(|(id, ..)| *id == superblock.array_id) {
            Some((_, _, spares)) => *spares += is_spare,
            None => {
                if superblock.version == MetadataVersion::V0_90 {
                    // Known by its number, as mdadm has it.
                    let (minor, uuid) = (superblock.preferred_minor, md_uuid(superblock.array_id));
                    lines.push((superblock.array_id, format!("ARRAY /dev/md{minor} UUID={uuid}"), is_spare));
                    continue;
                }
                let name = one_line(&String::from_utf8_lossy(&superblock.name));
                let short = name.rsplit_once(':').map_or(&*name, |(_, short)| short);
                let (metadata, uuid) = (superblock.version.name(), md_uuid(superblock.array_id));
                let line = format!("ARRAY /dev/md/{short}  metadata={metadata} UUID={uuid} name={name}");
                lines.push((superblock.array_id, line, is_spare));
            }
        }
    }
    let with_spares = |(_, line, spares): (Uuid, String, usize)| match spares {
        0 => line,
        spares => format!("{line}\n   spares={spares}"),
    };
    lines.into_iter().map(with_spares).collect()
}

/// Labels and values below one another, as mdadm lays them out.
pub struct Lines(String);

impl Lines {
    pub fn empty() -> Lines {
        Lines(String::new())
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn put(&mut self, label: &str, value: impl Display) {
        self.0 += &format!("\n{label:>15} : {value}");
    }

    /// A line as it is.
    pub fn line(&mut self, line: &str) {
        self.0.push('\n');
        self.0 += line;
    }

    pub fn gap(&mut self) {
        self.0.push('\n');
    }
}
