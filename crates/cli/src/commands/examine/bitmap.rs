//! `uraid examine --bitmap`: fields and labels are those of `mdadm --examine-bitmap`, and which regions are dirty.

use std::path::{Path, PathBuf};

use serde::Serialize;
use uraid_array::{Candidate, SeenBitmap, is_bitmap_file, look_at_bitmap};
use uraid_device::{Device, OpenOptions, RaggedFile};
use uraid_format::{Bitmap, BitmapFields, Superblock};
use uraid_types::{Layout, Sector, SectorCount};

use super::text::Lines;
use crate::output::{Exit, note, one_line, say, say_json};
use crate::present::{both_units, md_uuid};

/// Runs of dirty regions that are listed for people; JSON has all.
const LISTED: usize = 32;

/// The JSON report `examine-bitmap`.
#[derive(Serialize)]
struct Report {
    bitmaps: Vec<Shown>,
}

/// One bitmap.
#[derive(Serialize)]
struct Shown {
    /// The member, or the bitmap's file.
    name: String,
    /// `internal` to a member, or `external`: in a file of its own.
    kind: &'static str,
    /// Where it starts.
    start_byte: Option<u64>,
    /// Why it cannot be used.
    problem: Option<String>,
    #[serde(flatten)]
    head: Option<Head>,
    /// The events of the member that it lies on; a bitmap that is behind them is out of date.
    member_events: Option<u64>,
    bits_dirty: Option<u64>,
    /// Runs of dirty chunks, in order.
    dirty: Vec<Dirty>,
}

/// Its fields by md's names, as found.
#[derive(Serialize)]
struct Head {
    magic: u32,
    version: u32,
    uuid: String,
    events: u64,
    events_cleared: u64,
    /// 0, or 2 for bits that are out of date.
    state: u32,
    chunk_bytes: u32,
    daemon_sleep_seconds: u32,
    /// Writes that may be behind on write-mostly members.
    write_behind: u32,
    /// Of each member; of the array for RAID10.
    sync_size_sectors: u64,
    sectors_reserved: u32,
    nodes: u32,
    cluster_name: String,
    /// Chunks; `null` when the head's numbers give none.
    bits: Option<u64>,
}

/// A run of dirty chunks.
#[derive(Serialize)]
struct Dirty {
    first_bit: u64,
    bits: u64,
    /// In each member's data; not known for RAID10, nor from a file alone for certain.
    member: Option<Range>,
    /// In the array, where the member says what that is; for parity levels whole stripes.
    array: Option<Range>,
}

#[derive(Clone, Copy, Serialize)]
struct Range {
    start_sector: u64,
    sectors: u64,
}

/// Runs it.
pub fn run(paths: &[PathBuf], logical_block_bytes: Option<u32>, json: bool) -> anyhow::Result<Exit> {
    let mut bitmaps = Vec::new();
    let mut exit = Exit::Done;
    for path in paths {
        match look(path, logical_block_bytes) {
            Ok(found) => bitmaps.extend(found),
            Err(error) => {
                note(error);
                exit = Exit::Failed;
            }
        }
    }
    if bitmaps.iter().any(|shown| shown.problem.is_some()) {
        exit = Exit::Failed;
    }
    if json {
        say_json("examine-bitmap", &Report { bitmaps })?;
    } else {
        bitmaps.iter().map(text).try_for_each(say)?;
    }
    Ok(exit)
}

fn look(path: &Path, logical_block_bytes: Option<u32>) -> anyhow::Result<Vec<Shown>> {
    if is_bitmap_file(path)? {
        let file = RaggedFile::open(path, OpenOptions::look())?;
        let seen = look_at_bitmap(&file, Sector(0), file.len_bytes())?;
        let mut shown = Shown::new(file.info().name.clone(), "external", Sector(0), &seen, None);
        if let (None, None, Ok(found)) = (&shown.problem, &seen.bits, &seen.superblock)
            && found.version.is_usable()
        {
            let needed = found.area_bytes(1);
            shown.problem = Some(format!("the file of {} bytes is too short for the {needed} of its bitmap", file.len_bytes()));
        }
        return Ok(vec![shown]);
    }
    let examined = super::examine(path, logical_block_bytes)?;
    // A disk whose partitions hold members is none itself.
    let of_members = if examined.len() > 1 { &examined[1..] } else { &examined[..] };
    let show = |examined: &super::Examined| match &examined.scanned {
        Ok(candidate) => of_member(candidate),
        Err(why) => Ok(Shown::without(&examined.name, why.to_string())),
    };
    of_members.iter().map(show).collect()
}

fn of_member(candidate: &Candidate) -> anyhow::Result<Shown> {
    let superblock = candidate.superblock();
    let Some(start) = superblock.bitmap_start() else {
        let why = "its superblock names no bitmap; where the array keeps one in a file, give that file";
        return Ok(Shown::without(candidate.name(), why.to_owned()));
    };
    let seen = look_at_bitmap(&*candidate.device, start, candidate.device.info().size_bytes)?;
    let mut shown = Shown::new(candidate.name().to_owned(), "internal", start, &seen, Some(superblock));
    if let (None, Some(problem)) = (&shown.problem, &candidate.bitmap_problem) {
        shown.problem = Some(problem.to_string());
    }
    Ok(shown)
}

impl Shown {
    fn without(name: &str, problem: String) -> Shown {
        Shown {
            name: name.to_owned(),
            kind: "internal",
            start_byte: None,
            problem: Some(problem),
            head: None,
            member_events: None,
            bits_dirty: None,
            dirty: Vec::new(),
        }
    }

    fn new(name: String, kind: &'static str, start: Sector, seen: &SeenBitmap, superblock: Option<&Superblock>) -> Shown {
        let unusable = match &seen.superblock {
            Err(error) => Some(error.to_string()),
            Ok(found) if !found.version.is_usable() => Some(format!(
                "a bitmap of version {} ({}): uraid reads no more than its head, and does not write it",
                found.version.number(),
                found.version.words()
            )),
            Ok(_) => None,
        };
        let chunk = seen.superblock.as_ref().map_or(SectorCount(0), |found| found.chunk());
        let end = seen.superblock.as_ref().map_or(0, |found| found.sync_size.0);
        let dirty = |bits: &Bitmap| -> Vec<Dirty> {
            let runs = bits.dirty_ranges();
            runs.map(|run| Dirty::new(run, chunk, end, superblock)).collect()
        };
        Shown {
            name,
            kind,
            start_byte: Some(start.byte_offset()),
            problem: unusable,
            head: seen.fields.as_ref().map(|fields| Head::new(fields, superblock)),
            member_events: superblock.map(|superblock| superblock.events),
            bits_dirty: seen.bits.as_ref().map(Bitmap::count),
            dirty: seen.bits.as_ref().map(dirty).unwrap_or_default(),
        }
    }
}

impl Head {
    fn new(fields: &BitmapFields, superblock: Option<&Superblock>) -> Head {
        // Version 0.90 has its own order of the UUID's bytes: shown is what the array is called.
        let is_own = superblock.filter(|superblock| superblock.bitmap_id() == fields.uuid);
        let uuid = is_own.map_or(fields.uuid, |superblock| superblock.array_id);
        Head {
            magic: fields.magic,
            version: fields.version,
            uuid: uuid.to_string(),
            events: fields.events,
            events_cleared: fields.events_cleared,
            state: fields.state,
            chunk_bytes: fields.chunksize,
            daemon_sleep_seconds: fields.daemon_sleep,
            write_behind: fields.write_behind,
            sync_size_sectors: fields.sync_size,
            sectors_reserved: fields.sectors_reserved,
            nodes: fields.nodes,
            cluster_name: String::from_utf8_lossy(&fields.cluster_name).into_owned(),
            bits: fields.bits(),
        }
    }

    fn state_words(&self) -> &'static str {
        match self.state {
            0 => "OK",
            2 => "Out of date",
            _ => "Unknown",
        }
    }

    fn chunk_words(&self) -> String {
        let bytes = self.chunk_bytes;
        match bytes {
            0..1024 => format!("{bytes} B"),
            1024..1_048_576 => format!("{} KB", bytes / 1024),
            _ => format!("{} MB", bytes / 1_048_576),
        }
    }
}

impl Dirty {
    /// `bits` of `chunk` sectors each, of the `end` sectors that the bitmap covers.
    fn new(bits: std::ops::Range<u64>, chunk: SectorCount, end: u64, superblock: Option<&Superblock>) -> Dirty {
        let [from, to] = [bits.start, bits.end].map(|bit| bit.saturating_mul(chunk.0).min(end));
        let covered = Range { start_sector: from, sectors: to - from };
        let is_array = superblock.is_some_and(|superblock| matches!(superblock.layout, Layout::Raid10(_)));
        Dirty {
            first_bit: bits.start,
            bits: bits.end - bits.start,
            member: (!is_array).then_some(covered),
            array: superblock.and_then(|superblock| array_range(superblock, from, to)),
        }
    }
}

/// The array sectors that lie on the member data sectors from `from` to before `to`; for RAID10 those are array sectors.
fn array_range(superblock: &Superblock, from: u64, to: u64) -> Option<Range> {
    let level = superblock.level;
    if !level.has_parity() {
        return Some(Range { start_sector: from, sectors: to - from });
    }
    let data = u64::from(superblock.raid_disks).checked_sub(level.parity_members() as u64)?;
    let chunk = superblock.chunk.0.max(1);
    let end = superblock.used_size.0 / chunk * chunk;
    let start = (from / chunk * chunk).min(end);
    let sectors = (to.checked_next_multiple_of(chunk)?.min(end)).saturating_sub(start).checked_mul(data)?;
    Some(Range { start_sector: start.checked_mul(data)?, sectors })
}

fn text(shown: &Shown) -> String {
    let mut lines = Lines::empty();
    lines.put("Filename", one_line(&shown.name));
    if let Some(head) = &shown.head {
        lines.put("Magic", format!("{:08x}", head.magic));
        lines.put("Version", head.version);
        lines.put("UUID", uuid::Uuid::parse_str(&head.uuid).map_or_else(|_| head.uuid.clone(), md_uuid));
        lines.put("Events", head.events);
        lines.put("Events Cleared", head.events_cleared);
        lines.put("State", head.state_words());
        lines.put("Chunksize", head.chunk_words());
        lines.put("Daemon", format!("{}s flush period", head.daemon_sleep_seconds));
        let mode = match head.write_behind {
            0 => "Normal".to_owned(),
            many => format!("Allow write behind, max {many}"),
        };
        lines.put("Write Mode", mode);
        let size = head.sync_size_sectors;
        lines.put("Sync Size", format!("{}{}", size / 2, both_units(size.saturating_mul(512))));
        if head.nodes > 0 || !head.cluster_name.is_empty() {
            lines.put("Cluster", format!("{} nodes, '{}'", head.nodes, one_line(&head.cluster_name)));
        }
        if let (Some(bits), Some(dirty)) = (head.bits, shown.bits_dirty) {
            let percent = dirty as f64 * 100.0 / bits.max(1) as f64;
            lines.put("Bitmap", format!("{bits} bits (chunks), {dirty} dirty ({percent:.1}%)"));
        }
        if let Some(behind) = shown.member_events.filter(|events| *events > head.events) {
            lines.put("Behind", format!("the member is at {behind} events: the bits are out of date"));
        }
    }
    for dirty in shown.dirty.iter().take(LISTED) {
        lines.put("Dirty Region", dirty_words(dirty));
    }
    if let Some(more) = shown.dirty.len().checked_sub(LISTED).filter(|more| *more > 0) {
        lines.put("Dirty Region", format!("{more} runs more (--json has all)"));
    }
    if let Some(problem) = &shown.problem {
        lines.put("Problem", problem);
    }
    lines.text().trim_start_matches('\n').to_owned()
}

fn dirty_words(dirty: &Dirty) -> String {
    let words = |range: Range, of: &str| format!("{} sectors of {of} from {}", range.sectors, range.start_sector);
    let member = dirty.member.map(|range| words(range, "each member's data"));
    let array = dirty.array.map(|range| words(range, "the array"));
    [member, array].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
