//! Superblocks of version 0.90, in words and as JSON.

use serde::Serialize;
use uraid_array::Candidate;
use uraid_format::{ByteOrder, Descriptor, RawFields090, SUPER_MAGIC};
use uraid_types::{Layout, Level};

use super::text::{Lines, capacity};
use super::{Fields, Found};
use crate::present::{both_units, md_uuid, rfc3339, time};

/// Bits of `state`.
const CLEAN: u32 = 1;
const ERRORS: u32 = 1 << 1;
const BITMAP: u32 = 1 << 8;

/// All fields under mdadm's labels.
pub fn superblock(lines: &mut Lines, fields: &RawFields090, candidate: Option<&Candidate>, problem: Option<&str>) {
    let level = Level::from_md_number(fields.level);
    lines.put("Magic", format!("{SUPER_MAGIC:08x}"));
    lines.put("Version", format!("0.{}.{:02}", fields.minor_version, fields.patch_version));
    if fields.byte_order == ByteOrder::Big {
        lines.put("Byte Order", "big-endian: written by a machine of the other kind");
    }
    lines.put("UUID", md_uuid(fields.set_uuid));
    lines.put("Creation Time", time(u64::from(fields.ctime)));
    lines.put("Raid Level", level.map_or(fields.level.to_string(), |level| level.to_string()));
    if level.is_some_and(Level::is_redundant) {
        let bytes = u64::from(fields.size) << 10;
        lines.put("Used Dev Size", format!("{}{}", fields.size, both_units(bytes)));
    }
    if let Some(capacity) = candidate.and_then(|candidate| capacity(candidate.superblock())) {
        lines.put("Array Size", format!("{}{}", capacity.bytes() / 1024, both_units(capacity.bytes())));
    }
    lines.put("Raid Devices", fields.raid_disks);
    lines.put("Total Devices", fields.nr_disks);
    lines.put("Preferred Minor", fields.md_minor);
    if fields.not_persistent != 0 {
        lines.put("Not Persistent", fields.not_persistent);
    }
    lines.gap();
    if fields.is_reshaping() {
        reshape(lines, fields);
    }
    state(lines, fields);
    arrangement(lines, fields, level);
    devices(lines, fields);
    if let Some(problem) = problem {
        lines.put("Problem", problem);
    }
}

fn reshape(lines: &mut Lines, fields: &RawFields090) {
    let position = fields.reshape_position / 2;
    lines.put("Reshape pos'n", format!("{position}{}", both_units(position << 10)));
    let before = i64::from(fields.raid_disks) - i64::from(fields.delta_disks);
    lines.put("Delta Devices", format!("{} ({before}->{})", fields.delta_disks, fields.raid_disks));
    let level = Level::from_md_number(fields.new_level).map_or(fields.new_level.to_string(), |level| level.to_string());
    lines.put("New Level", level);
    lines.put("New Layout", fields.new_layout);
    lines.put("New Chunksize", format!("{}K", fields.new_chunk / 1024));
    lines.gap();
}

fn state(lines: &mut Lines, fields: &RawFields090) {
    lines.put("Update Time", time(u64::from(fields.utime)));
    let errors = if fields.state & ERRORS != 0 { ", errors" } else { "" };
    lines.put("State", format!("{}{errors}", if fields.state & CLEAN != 0 { "clean" } else { "active" }));
    if fields.state & CLEAN == 0 && fields.cp_events == fields.events {
        lines.put("Resync Offset", format!("{} sectors", fields.recovery_cp));
    }
    if fields.state & BITMAP != 0 {
        lines.put("Internal Bitmap", "present");
    }
    lines.put("Active Devices", fields.active_disks);
    lines.put("Working Devices", fields.working_disks);
    lines.put("Failed Devices", fields.failed_disks);
    lines.put("Spare Devices", fields.spare_disks);
    let (found, expected) = (fields.checksum_found, fields.checksum_expected);
    let right = if found == expected { "correct".to_owned() } else { format!("expected {expected:x}") };
    lines.put("Checksum", format!("{found:x} - {right}"));
    lines.put("Events", fields.events);
    lines.gap();
}

fn arrangement(lines: &mut Lines, fields: &RawFields090, level: Option<Level>) {
    if let Some(level) = level.filter(|level| matches!(level, Level::Raid5 | Level::Raid6 | Level::Raid10)) {
        let layout = Layout::from_md_number(level, fields.layout);
        lines.put("Layout", layout.map_or(format!("{:#x}, unknown at this level", fields.layout), |layout| layout.to_string()));
    }
    match level {
        Some(Level::Raid1) => {}
        Some(Level::Linear) => lines.put("Rounding", format!("{}K", fields.chunk_size / 1024)),
        _ => lines.put("Chunk Size", format!("{}K", fields.chunk_size / 1024)),
    }
    lines.gap();
}

fn devices(lines: &mut Lines, fields: &RawFields090) {
    lines.line("      Number   Major   Minor   RaidDevice State");
    lines.line(&device("this", &fields.this_disk));
    lines.gap();
    let last = fields.disks.iter().rposition(|disk| !disk.is_unused()).map_or(0, |last| last + 1);
    for (index, disk) in fields.disks.iter().enumerate().take(last.max(fields.raid_disks.min(27) as usize)) {
        lines.line(&device(&format!("{index:4}"), disk));
    }
}

fn device(name: &str, disk: &Descriptor) -> String {
    let Descriptor { number, major, minor, raid_disk, .. } = disk;
    format!("{name}  {number:>4}    {major:>4}     {minor:>4}     {raid_disk:>4}      {}", disk.state_words())
}

/// `KEY=value` lines with mdadm's keys.
pub fn export(fields: &RawFields090, problem: &str) -> String {
    let level = Level::from_md_number(fields.level).map_or(fields.level.to_string(), |level| level.to_string());
    let mut lines = vec![
        format!("MD_LEVEL={level}"),
        format!("MD_DEVICES={}", fields.raid_disks),
        format!("MD_UUID={}", md_uuid(fields.set_uuid)),
        format!("MD_UPDATE_TIME={}", fields.utime),
        format!("MD_EVENTS={}", fields.events),
    ];
    if !problem.is_empty() {
        lines.push(format!("MD_PROBLEM={problem}"));
    }
    lines.join("\n")
}

/// Fields by their names in `linux/raid/md_p.h`, in its units (KiB, bytes for chunks), as found.
#[derive(Serialize)]
pub struct Super<'a> {
    metadata: &'static str,
    big_endian: bool,
    /// Why it cannot be used.
    problem: Option<&'a str>,
    minor_version: u32,
    patch_version: u32,
    gvalid_words: u32,
    set_uuid: String,
    ctime: u32,
    /// `ctime` as RFC 3339 has it.
    created: String,
    level: i32,
    size: u32,
    nr_disks: u32,
    raid_disks: u32,
    md_minor: u32,
    not_persistent: u32,
    utime: u32,
    /// `utime` as RFC 3339 has it.
    updated: String,
    state: u32,
    active_disks: u32,
    working_disks: u32,
    failed_disks: u32,
    spare_disks: u32,
    sb_csum: u32,
    /// What `sb_csum` should be.
    sb_csum_expected: u32,
    events: u64,
    cp_events: u64,
    recovery_cp: u32,
    reshape_position: u64,
    new_level: i32,
    delta_disks: i32,
    new_layout: u32,
    new_chunk: u32,
    layout: u32,
    chunk_size: u32,
    this_disk: Disk,
    /// The descriptors that name a device or a slot.
    disks: Vec<Disk>,
}

#[derive(Serialize)]
struct Disk {
    number: u32,
    major: u32,
    minor: u32,
    raid_disk: u32,
    state: u32,
    state_words: String,
}

impl Disk {
    fn new(disk: &Descriptor) -> Disk {
        let Descriptor { number, major, minor, raid_disk, state } = *disk;
        Disk { number, major, minor, raid_disk, state, state_words: disk.state_words() }
    }
}

impl<'a> Super<'a> {
    pub fn new(found: &'a Found) -> Option<Super<'a>> {
        let Fields::V090(fields) = &found.fields else { return None };
        Some(Super {
            metadata: found.version.name(),
            big_endian: fields.byte_order == ByteOrder::Big,
            problem: found.problem.as_deref(),
            minor_version: fields.minor_version,
            patch_version: fields.patch_version,
            gvalid_words: fields.gvalid_words,
            set_uuid: fields.set_uuid.to_string(),
            ctime: fields.ctime,
            created: rfc3339(u64::from(fields.ctime)),
            level: fields.level,
            size: fields.size,
            nr_disks: fields.nr_disks,
            raid_disks: fields.raid_disks,
            md_minor: fields.md_minor,
            not_persistent: fields.not_persistent,
            utime: fields.utime,
            updated: rfc3339(u64::from(fields.utime)),
            state: fields.state,
            active_disks: fields.active_disks,
            working_disks: fields.working_disks,
            failed_disks: fields.failed_disks,
            spare_disks: fields.spare_disks,
            sb_csum: fields.checksum_found,
            sb_csum_expected: fields.checksum_expected,
            events: fields.events,
            cp_events: fields.cp_events,
            recovery_cp: fields.recovery_cp,
            reshape_position: fields.reshape_position,
            new_level: fields.new_level,
            delta_disks: fields.delta_disks,
            new_layout: fields.new_layout,
            new_chunk: fields.new_chunk,
            layout: fields.layout,
            chunk_size: fields.chunk_size,
            this_disk: Disk::new(&fields.this_disk),
            disks: fields.disks.iter().filter(|disk| !disk.is_unused()).map(Disk::new).collect(),
        })
    }
}
