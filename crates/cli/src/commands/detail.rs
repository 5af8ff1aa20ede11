//! `uraid detail`: an array as a whole, of members at rest or running.

use std::path::PathBuf;

use anyhow::bail;
use serde::Serialize;
use uraid_array::core::{ReshapeStatus, Status};
use uraid_array::{ArraySurvey, AssembleOptions, Backup, OtherStanding, OtherSurvey, SlotStanding, SlotSurvey, survey};
use uraid_device::OpenOptions;
use uraid_format::MetadataVersion;
use uraid_report::{Table, human_bytes};
use uraid_types::Level;

use crate::control;
use crate::foreign;
use crate::members::{WhichArgs, scan_all};
use crate::output::{Exit, one_line, say, say_json};
use crate::present::{kib, md_uuid, rfc3339, time};

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name of a running array, or members of arrays at rest
    #[arg(value_name = "NAME|MEMBER", required = true)]
    targets: Vec<PathBuf>,
    #[command(flatten)]
    which: WhichArgs,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.targets[..] {
        [name] if !name.exists() && !name.display().to_string().contains('/') => of_running(args, &name.display().to_string()),
        _ => of_members(args),
    }
}

fn of_running(args: &Args, name: &str) -> anyhow::Result<Exit> {
    let status = control::status(name)?;
    if args.json {
        say_json("detail-running", &Running { running: name, array: &status })?;
    } else {
        say(running_text(name, &status))?;
    }
    Ok(if status.degraded > 0 || status.broken.is_some() { Exit::Degraded } else { Exit::Done })
}

/// The JSON report `detail-running`.
#[derive(Serialize)]
struct Running<'a> {
    running: &'a str,
    #[serde(flatten)]
    array: &'a Status,
}

fn running_text(name: &str, status: &Status) -> String {
    let mut lines = Lines::new(format!("{name} (running):"));
    lines.put("Version", &status.metadata);
    lines.put("Raid Level", &status.level);
    lines.put("Array Size", kib(status.size_bytes));
    lines.put("Used Dev Size", kib(status.member_bytes));
    lines.put("Raid Devices", status.raid_disks);
    lines.put("Total Devices", status.members.len());
    lines.put("State", &status.state);
    lines.put("Active Devices", usize::from(status.raid_disks) - status.degraded);
    for (label, state) in [("Failed Devices", "faulty"), ("Spare Devices", "spare"), ("Rebuilding", "rebuilding")] {
        lines.put(label, status.members.iter().filter(|member| member.state == state).count());
    }
    lines.put("Layout", &status.layout);
    if status.chunk_bytes > 0 {
        lines.put("Chunk Size", human_bytes(status.chunk_bytes));
    }
    if let Some(bitmap) = &status.bitmap {
        lines.put("Bitmap", format!("{} of {} bits set, {} a bit", bitmap.set, bitmap.bits, human_bytes(bitmap.chunk_bytes)));
    }
    if let Some(reshape) = &status.reshape {
        lines.reshape(reshape);
    }
    lines.put("Name", one_line(&status.name));
    lines.put("UUID", uuid::Uuid::parse_str(&status.uuid).map_or(status.uuid.clone(), md_uuid));
    lines.put("Events", status.events);
    if let Some(sync) = &status.sync {
        let percent = sync.done_sectors as f64 * 100.0 / sync.end_sectors.max(1) as f64;
        lines.put("Under Way", format!("{} {percent:.1}%", sync.kind));
    }
    if let Some(why) = &status.broken {
        lines.put("Failed", why);
    }
    let mut table = Table::new(&["number", "slot", "state", "member"]);
    table.right(0).right(1);
    for member in &status.members {
        let slot = member.slot.map_or("-".to_owned(), |slot| slot.to_string());
        let mostly = if member.write_mostly { " write-mostly" } else { "" };
        table.row([member.number.to_string(), slot, format!("{}{mostly}", member.state.replace('_', " ")), member.name.clone()]);
    }
    format!("{}\n\n{table}", lines.text)
}

fn of_members(args: &Args) -> anyhow::Result<Exit> {
    let mut found = scan_all(&args.which.all(&args.targets), &args.which, OpenOptions::look());
    let unusable: Vec<Unusable> =
        found.refused.iter().map(|refused| Unusable { member: refused.name.clone(), why: refused.reason.to_string() }).collect();
    found.candidates.retain(|candidate| args.which.uuid.is_none_or(|uuid| uuid == candidate.superblock().array_id));
    if found.candidates.is_empty()
        && let Some(container) = foreign::container(&args.targets, &args.which, OpenOptions::look())?
    {
        return of_container(args, &foreign::Report::new(&container));
    }
    let backup = args.which.backup()?;
    let options = args.which.options(&AssembleOptions::default(), &args.targets, OpenOptions::look())?;
    let arrays = survey(&found.candidates, &options, backup.as_ref().map(Backup::head));
    if args.json {
        say_json("detail", &Report { arrays: arrays.iter().map(AtRest::new).collect(), unusable })?;
        return exit(&arrays);
    }
    for array in &arrays {
        say(at_rest_text(array))?;
    }
    for Unusable { member, why } in &unusable {
        say(format_args!("{member}: {why}"))?;
    }
    exit(&arrays)
}

fn of_container(args: &Args, report: &foreign::Report) -> anyhow::Result<Exit> {
    if args.json {
        say_json("detail-container", report)?;
    } else {
        say(report.text("container (at rest)", true))?;
    }
    Ok(if report.is_startable() { Exit::Done } else { Exit::Degraded })
}

fn exit(arrays: &[ArraySurvey]) -> anyhow::Result<Exit> {
    if arrays.is_empty() {
        bail!("no member of any array was given");
    }
    let whole = arrays.iter().all(|array| array.degraded == 0 && array.obstacle.is_none());
    Ok(if whole { Exit::Done } else { Exit::Degraded })
}

fn at_rest_text(array: &ArraySurvey) -> String {
    let name = if array.name.is_empty() { "array".to_owned() } else { one_line(&array.name) };
    let mut lines = Lines::new(format!("{name} (at rest):"));
    lines.put("Version", array.version.name());
    lines.put("Creation Time", time(array.created_seconds));
    lines.put("Raid Level", array.level);
    lines.put("Array Size", array.capacity.map_or("not known from these members".to_owned(), |size| kib(size.bytes())));
    if !array.used_size.is_zero() {
        lines.put("Used Dev Size", kib(array.used_size.bytes()));
    }
    lines.put("Raid Devices", array.raid_disks);
    counts(&mut lines, array);
    lines.put("Update Time", time(array.updated_seconds));
    lines.put("State", state(array));
    lines.put("Layout", array.layout);
    if array.level == Level::Linear {
        lines.put("Rounding", format!("{}K", array.chunk.bytes() / 1024));
    } else if !array.chunk.is_zero() {
        lines.put("Chunk Size", format!("{}K", array.chunk.bytes() / 1024));
    }
    if array.logical_block_bytes != 0 {
        lines.put("Logical Block", format!("{} bytes", array.logical_block_bytes));
    }
    lines.put("Consistency Policy", array.consistency_policy);
    if let Some((set, bits)) = array.bitmap_bits {
        lines.put("Bitmap", format!("{set} of {bits} bits set"));
    }
    if let Some(from) = array.resync_from {
        lines.put("Resync From", from);
    }
    if let Some(reshape) = &array.reshape {
        lines.reshape(reshape);
    }
    if array.version != MetadataVersion::V0_90 {
        lines.put("Name", one_line(&array.name));
    }
    lines.put("UUID", md_uuid(array.array_id));
    lines.put("Events", format!("{} ({})", array.events, array.freshest));
    match &array.obstacle {
        None => lines.put("Startable", "yes"),
        Some(why) => lines.put("Startable", format!("no: {why}")),
    }
    lines.put("Can Lose", can_lose(array));
    lines.put("Next Step", &array.next_step);
    for warning in &array.warnings {
        lines.put("Warning", warning);
    }
    for name in &array.readdable {
        lines.put("Can Re-add", name);
    }
    for (name, why) in &array.left_out {
        lines.put("Left Out", format!("{name}: {why}"));
    }
    format!("{}\n\n{}\n", lines.text, slot_table(array))
}

/// Members by what they are, as mdadm counts them: what is being filled is a spare still.
fn counts(lines: &mut Lines, array: &ArraySurvey) {
    let in_slots = |is: fn(&SlotStanding) -> bool| array.slots.iter().filter(|slot| is(&slot.standing)).count();
    let beyond = |standing| array.others.iter().filter(|other| other.standing == standing).count();
    let active = in_slots(|standing| *standing == SlotStanding::InSync);
    let filled = in_slots(|standing| matches!(standing, SlotStanding::Rebuilding(_))) + beyond(OtherStanding::Replacement);
    let spare = beyond(OtherStanding::Spare) + filled;
    let failed = in_slots(|standing| *standing == SlotStanding::LeftOut) + beyond(OtherStanding::LeftOut);
    let working = active + spare + beyond(OtherStanding::Journal);
    lines.put("Total Devices", working + failed);
    lines.put("Active Devices", active);
    lines.put("Working Devices", working);
    lines.put("Failed Devices", failed);
    lines.put("Spare Devices", spare);
}

/// What the array would survive.
fn can_lose(array: &ArraySurvey) -> String {
    match (array.survives, &array.obstacle) {
        (Some(0), None) => "no member more".to_owned(),
        (Some(survives), None) => format!("{survives} more, whichever they are"),
        (Some(survives), Some(_)) => format!("{survives} more, whichever they are, once it has been started"),
        (None, _) => "nothing that is known, until what keeps it from starting is mended".to_owned(),
    }
}

fn state(array: &ArraySurvey) -> String {
    let mut words = vec![if array.resync_from.is_some() { "dirty" } else { "clean" }];
    if array.degraded > 0 {
        words.push("degraded");
    }
    if array.obstacle.is_some() {
        words.push("not startable");
    }
    words.join(", ")
}

fn slot_table(array: &ArraySurvey) -> Table {
    let mut table = Table::new(&["slot", "state", "member", "events", "updated"]);
    table.right(0).right(3);
    for slot in &array.slots {
        table.row([
            slot.slot.0.to_string(),
            standing(slot),
            slot.member.clone().unwrap_or("-".to_owned()),
            slot.events.map_or("-".to_owned(), |events| events.to_string()),
            slot.updated_seconds.map_or("-".to_owned(), time),
        ]);
    }
    for other in &array.others {
        let state = other_standing(other).replace('_', " ");
        table.row(["-".to_owned(), state, other.member.clone(), other.events.to_string(), time(other.updated_seconds)]);
    }
    table
}

fn standing(slot: &SlotSurvey) -> String {
    match slot.standing {
        SlotStanding::InSync => "in sync".to_owned(),
        SlotStanding::Rebuilding(to) => format!("rebuilding from {to} on"),
        SlotStanding::LeftOut => "left out".to_owned(),
        SlotStanding::Missing if slot.recorded_active => "missing (was active)".to_owned(),
        SlotStanding::Missing => "missing".to_owned(),
    }
}

/// As the JSON report has it.
fn other_standing(other: &OtherSurvey) -> &'static str {
    match other.standing {
        OtherStanding::Spare => "spare",
        OtherStanding::Journal => "journal",
        OtherStanding::Replacement => "replacement",
        OtherStanding::LeftOut => "left_out",
    }
}

/// Labels and values below one another, as mdadm lays them out.
struct Lines {
    text: String,
}

impl Lines {
    fn new(heading: String) -> Lines {
        Lines { text: heading }
    }

    fn reshape(&mut self, reshape: &ReshapeStatus) {
        let ReshapeStatus { before, after, position_sectors, backwards, .. } = reshape;
        let direction = if *backwards { ", backwards" } else { "" };
        self.put("Reshape", format!("{:.1}% done, at array sector {position_sectors}{direction}", reshape.percent()));
        if before.raid_disks != after.raid_disks {
            self.put("Delta Devices", format!("{} -> {}", before.raid_disks, after.raid_disks));
        }
        if before.layout != after.layout {
            self.put("New Layout", format!("{} -> {}", before.layout, after.layout));
        }
        if before.chunk_bytes != after.chunk_bytes {
            self.put("New Chunksize", format!("{} -> {}", human_bytes(before.chunk_bytes), human_bytes(after.chunk_bytes)));
        }
    }

    fn put(&mut self, label: &str, value: impl std::fmt::Display) {
        self.text += &format!("\n{label:>15} : {value}");
    }
}

/// The JSON report `detail`.
#[derive(Serialize)]
struct Report<'a> {
    arrays: Vec<AtRest<'a>>,
    /// Members without a superblock that can be used.
    unusable: Vec<Unusable>,
}

#[derive(Serialize)]
struct Unusable {
    member: String,
    why: String,
}

#[derive(Serialize)]
struct AtRest<'a> {
    uuid: String,
    name: &'a str,
    metadata: &'static str,
    level: &'static str,
    layout: String,
    layout_number: u32,
    chunk_bytes: u64,
    raid_disks: u16,
    used_bytes_per_member: u64,
    /// As the superblocks record it; 0 for none.
    logical_block_bytes: u32,
    /// `null` when it cannot be known from these members.
    size_bytes: Option<u64>,
    created_seconds: u64,
    /// `created_seconds` as RFC 3339 has it.
    created: String,
    updated_seconds: u64,
    updated: String,
    events: u64,
    freshest: &'a str,
    /// Where a resync would start; `null` for a clean array.
    resync_from_sector: Option<u64>,
    /// The reshape that is part way.
    reshape: Option<&'a ReshapeStatus>,
    slots: Vec<SlotReport<'a>>,
    /// Members in no slot.
    others: Vec<OtherReport<'a>>,
    consistency_policy: &'static str,
    spares: &'a [String],
    readdable: &'a [String],
    left_out: Vec<Unusable>,
    /// Slots that are not in sync.
    degraded: usize,
    bitmap_bits_set: Option<u64>,
    bitmap_bits: Option<u64>,
    startable: bool,
    /// Why it does not start as it is.
    obstacle: Option<&'a str>,
    /// Members that it could still lose, whichever they are; `null` when too many are gone or its shape is not known.
    survives: Option<usize>,
    next_step: &'a str,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct SlotReport<'a> {
    slot: u16,
    member: Option<&'a str>,
    /// `in_sync`, `rebuilding`, `left_out`, `missing`.
    state: &'static str,
    /// Member data sectors that are right, while it is being rebuilt.
    recovered_sectors: Option<u64>,
    events: Option<u64>,
    updated_seconds: Option<u64>,
    updated: Option<String>,
    recorded_active: bool,
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct OtherReport<'a> {
    member: &'a str,
    /// `spare`, `journal`, `replacement`, `left_out`.
    state: &'static str,
    events: u64,
    updated_seconds: u64,
    updated: String,
    note: Option<&'a str>,
}

impl<'a> OtherReport<'a> {
    fn new(other: &'a OtherSurvey) -> OtherReport<'a> {
        OtherReport {
            member: &other.member,
            state: other_standing(other),
            events: other.events,
            updated_seconds: other.updated_seconds,
            updated: rfc3339(other.updated_seconds),
            note: other.note.as_deref(),
        }
    }
}

impl<'a> AtRest<'a> {
    fn new(array: &'a ArraySurvey) -> AtRest<'a> {
        AtRest {
            uuid: array.array_id.to_string(),
            name: &array.name,
            metadata: array.version.name(),
            level: array.level.name(),
            layout: array.layout.to_string(),
            layout_number: array.layout.md_number(array.level),
            chunk_bytes: array.chunk.bytes(),
            raid_disks: array.raid_disks,
            used_bytes_per_member: array.used_size.bytes(),
            logical_block_bytes: array.logical_block_bytes,
            size_bytes: array.capacity.map(|size| size.bytes()),
            created_seconds: array.created_seconds,
            created: rfc3339(array.created_seconds),
            updated_seconds: array.updated_seconds,
            updated: rfc3339(array.updated_seconds),
            events: array.events,
            freshest: &array.freshest,
            resync_from_sector: array.resync_from.map(|sector| sector.0),
            reshape: array.reshape.as_ref(),
            slots: array.slots.iter().map(SlotReport::new).collect(),
            others: array.others.iter().map(OtherReport::new).collect(),
            consistency_policy: array.consistency_policy,
            spares: &array.spares,
            readdable: &array.readdable,
            left_out: array.left_out.iter().map(|(member, why)| Unusable { member: member.clone(), why: why.clone() }).collect(),
            degraded: array.degraded,
            bitmap_bits_set: array.bitmap_bits.map(|(set, _)| set),
            bitmap_bits: array.bitmap_bits.map(|(_, bits)| bits),
            startable: array.obstacle.is_none(),
            obstacle: array.obstacle.as_deref(),
            survives: array.survives,
            next_step: &array.next_step,
            warnings: &array.warnings,
        }
    }
}

impl<'a> SlotReport<'a> {
    fn new(slot: &'a SlotSurvey) -> SlotReport<'a> {
        let (state, recovered_sectors) = match slot.standing {
            SlotStanding::InSync => ("in_sync", None),
            SlotStanding::Rebuilding(to) => ("rebuilding", Some(to.0)),
            SlotStanding::LeftOut => ("left_out", None),
            SlotStanding::Missing => ("missing", None),
        };
        SlotReport {
            slot: slot.slot.0,
            member: slot.member.as_deref(),
            state,
            recovered_sectors,
            events: slot.events,
            updated_seconds: slot.updated_seconds,
            updated: slot.updated_seconds.map(rfc3339),
            recorded_active: slot.recorded_active,
            note: slot.note.as_deref(),
        }
    }
}
