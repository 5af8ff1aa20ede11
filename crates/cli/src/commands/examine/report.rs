//! The JSON report `examine`.

use serde::Serialize;
use uraid_array::{Candidate, FoundPpl};
use uraid_format::{Feature, PartitionTable, RawFields};

use super::text::seconds;
use super::{Examined, Fields, Found, fields090};
use crate::foreign;
use crate::present::rfc3339;

/// See the module.
#[derive(Serialize)]
pub struct Report<'a> {
    members: Vec<Member<'a>>,
}

#[derive(Serialize)]
struct Member<'a> {
    member: &'a str,
    size_bytes: u64,
    /// Can it be used?
    usable: bool,
    /// Why not.
    problem: Option<String>,
    /// Every superblock found.
    superblocks: Vec<Super>,
    /// Every superblock of version 0.90 found.
    superblocks_090: Vec<fields090::Super<'a>>,
    bitmap: Option<Bitmap>,
    /// Why the bitmap that the superblock names cannot be used.
    bitmap_problem: Option<String>,
    /// The newest partial parity log.
    ppl: Option<Ppl>,
    /// Why the partial parity log cannot be used.
    ppl_problem: Option<String>,
    /// Of a journal: where it starts, in sectors from `data_offset`.
    journal_tail: Option<u64>,
    /// Member sectors whose data is lost.
    bad_blocks: Vec<Range>,
    /// The container of another maker's RAID that it is a disk of.
    container: Option<&'a foreign::Report>,
    /// The partition table of a disk whose partitions hold members; those follow as members of their own.
    partition_table: Option<Table>,
}

#[derive(Serialize)]
struct Table {
    /// `MBR`, `GPT`, `GPT (from its backup)`.
    kind: &'static str,
    block_bytes: u32,
    partitions: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    number: u32,
    start_bytes: u64,
    size_bytes: u64,
    /// The type: a byte or a GUID.
    r#type: String,
    name: String,
}

impl Table {
    fn new(table: &PartitionTable) -> Table {
        let partitions = table.partitions.iter().map(|partition| Part {
            number: partition.number,
            start_bytes: partition.start_bytes,
            size_bytes: partition.len_bytes,
            r#type: partition.kind.to_string(),
            name: partition.name.clone(),
        });
        Table { kind: table.kind.name(), block_bytes: table.block_bytes, partitions: partitions.collect() }
    }
}

/// Fields by their names in `linux/raid/md_p.h`, in its units (sectors of 512 bytes), as found.
#[derive(Serialize)]
struct Super {
    metadata: &'static str,
    /// Why it cannot be used.
    problem: Option<String>,
    feature_map: u32,
    /// The names of the bits of `feature_map`.
    features: Vec<&'static str>,
    set_uuid: String,
    set_name: String,
    ctime: u64,
    /// The seconds of `ctime` as RFC 3339 has them.
    created: String,
    level: i32,
    layout: u32,
    size: u64,
    chunksize: u32,
    raid_disks: u32,
    bitmap_offset: i32,
    new_level: i32,
    reshape_position: u64,
    delta_disks: i32,
    new_layout: u32,
    new_chunk: u32,
    new_offset: i32,
    data_offset: u64,
    data_size: u64,
    super_offset: u64,
    recovery_offset: u64,
    dev_number: u32,
    cnt_corrected_read: u32,
    device_uuid: String,
    devflags: u8,
    bblog_shift: u8,
    bblog_size: u16,
    bblog_offset: i32,
    utime: u64,
    /// The seconds of `utime` as RFC 3339 has them.
    updated: String,
    events: u64,
    resync_offset: u64,
    sb_csum: u32,
    /// What `sb_csum` should be; `null` when that cannot be said.
    sb_csum_expected: Option<u32>,
    max_dev: u32,
    logical_block_size: u32,
    dev_roles: Vec<u16>,
}

#[derive(Serialize)]
struct Bitmap {
    version: u32,
    events: u64,
    events_cleared: u64,
    chunk_bytes: u32,
    bits: u64,
    bits_set: u64,
    stale: bool,
}

#[derive(Serialize)]
struct Ppl {
    /// The member sector where it starts.
    start_sector: u64,
    generation: u64,
    entries: Vec<PplWrite>,
}

/// A write that was under way.
#[derive(Serialize)]
struct PplWrite {
    /// First array sector.
    data_sector: u64,
    data_bytes: u32,
    partial_parity_bytes: u32,
    parity_slot: u32,
    /// The partial parity does not have its checksum.
    torn: bool,
}

impl Ppl {
    fn new(found: &FoundPpl) -> Ppl {
        let entries = found.header.entries.iter().enumerate().map(|(index, entry)| PplWrite {
            data_sector: entry.data_sector.0,
            data_bytes: entry.data_bytes,
            partial_parity_bytes: entry.partial_bytes,
            parity_slot: entry.parity_disk,
            torn: found.torn.contains(&index),
        });
        Ppl { start_sector: found.start.0, generation: found.header.generation, entries: entries.collect() }
    }
}

#[derive(Serialize)]
struct Range {
    start_sector: u64,
    sectors: u64,
}

impl<'a> Report<'a> {
    /// Of these members.
    pub fn new(all: &'a [Examined]) -> Report<'a> {
        Report { members: all.iter().map(Member::new).collect() }
    }
}

impl<'a> Member<'a> {
    fn new(examined: &'a Examined) -> Member<'a> {
        let candidate = examined.scanned.as_ref().ok();
        let bad_blocks = candidate.map(|candidate| &candidate.bad_blocks[..]).unwrap_or_default();
        Member {
            member: &examined.name,
            size_bytes: examined.size_bytes,
            usable: candidate.is_some() || examined.foreign.is_some(),
            problem: examined.scanned.as_ref().err().filter(|_| examined.foreign.is_none()).map(ToString::to_string),
            superblocks: examined.superblocks.iter().filter_map(Super::new).collect(),
            superblocks_090: examined.superblocks.iter().filter_map(fields090::Super::new).collect(),
            bitmap: candidate.and_then(bitmap),
            bitmap_problem: candidate.and_then(|candidate| candidate.bitmap_problem.as_ref()).map(ToString::to_string),
            ppl: candidate.and_then(|candidate| candidate.ppl.as_ref()?.as_ref().ok()).map(Ppl::new),
            ppl_problem: candidate.and_then(|candidate| candidate.ppl.as_ref()?.as_ref().err()).map(ToString::to_string),
            journal_tail: candidate.and_then(|candidate| candidate.superblock().journal_tail).map(|tail| tail.0),
            container: examined.foreign.as_ref(),
            partition_table: examined.table.as_ref().map(Table::new),
            bad_blocks: bad_blocks.iter().map(|(start, len)| Range { start_sector: start.0, sectors: len.0 }).collect(),
        }
    }
}

fn bitmap(candidate: &Candidate) -> Option<Bitmap> {
    let found = candidate.bitmap.as_ref()?;
    Some(Bitmap {
        version: found.superblock.version.number(),
        events: found.superblock.events,
        events_cleared: found.superblock.events_cleared,
        chunk_bytes: found.superblock.chunk_bytes,
        bits: found.bits.len(),
        bits_set: found.bits.count(),
        stale: found.superblock.is_stale(),
    })
}

impl Super {
    fn new(found: &Found) -> Option<Super> {
        let Fields::V1(fields) = &found.fields else { return None };
        let fields: RawFields = (**fields).clone();
        let set = Feature::ALL.into_iter().filter(|&feature| fields.feature_map & feature as u32 != 0);
        Some(Super {
            metadata: found.version.name(),
            problem: found.problem.clone(),
            feature_map: fields.feature_map,
            features: set.map(Feature::name).collect(),
            set_uuid: fields.set_uuid.to_string(),
            set_name: String::from_utf8_lossy(&fields.set_name).into_owned(),
            ctime: fields.ctime,
            created: rfc3339(seconds(fields.ctime)),
            level: fields.level,
            layout: fields.layout,
            size: fields.size,
            chunksize: fields.chunksize,
            raid_disks: fields.raid_disks,
            bitmap_offset: fields.bitmap_offset,
            new_level: fields.new_level,
            reshape_position: fields.reshape_position,
            delta_disks: fields.delta_disks,
            new_layout: fields.new_layout,
            new_chunk: fields.new_chunk,
            new_offset: fields.new_offset,
            data_offset: fields.data_offset,
            data_size: fields.data_size,
            super_offset: fields.super_offset,
            recovery_offset: fields.recovery_offset,
            dev_number: fields.dev_number,
            cnt_corrected_read: fields.cnt_corrected_read,
            device_uuid: fields.device_uuid.to_string(),
            devflags: fields.devflags,
            bblog_shift: fields.bblog_shift,
            bblog_size: fields.bblog_size,
            bblog_offset: fields.bblog_offset,
            utime: fields.utime,
            updated: rfc3339(seconds(fields.utime)),
            events: fields.events,
            resync_offset: fields.resync_offset,
            sb_csum: fields.checksum_found,
            sb_csum_expected: fields.checksum_expected,
            max_dev: fields.max_dev,
            logical_block_size: fields.logical_block_size,
            dev_roles: fields.roles,
        })
    }
}
