//! Volumes of IMSM and DDF containers, named by the disks that hold them. They are only read.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;
use uraid_array::foreign::{Container, ForeignDisk, Metadata, VolumeOptions, look};
use uraid_array::{AssembleOptions, Assembly, open_member};
use uraid_device::OpenOptions;
use uraid_format::foreign::ForeignVolume;
use uraid_report::human_bytes;

use crate::members::{WhichArgs, read_alone, refuse_repeated};
use crate::output::{note, one_line, usage};

/// Which volume of a container.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct VolumeArgs {
    /// The volume of an IMSM or DDF container, by its name, where there is more than one
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// The members are the disks of an IMSM container in the order of its own list, 'missing' standing for one that is not there
    #[arg(long)]
    pub in_order: bool,
}

/// The word for a disk that is not there.
fn is_missing(path: &Path) -> bool {
    path == Path::new("missing") && !path.exists()
}

/// The container that the disks at `paths` make; `None` where the first of them holds none.
///
/// # Errors
/// Metadata is damaged, or the disks are not of one container.
pub fn container(paths: &[PathBuf], which: &WhichArgs, open: OpenOptions) -> anyhow::Result<Option<Container>> {
    let open = OpenOptions { logical_block_bytes: which.member_block_size, ..open };
    let mut disks = Vec::new();
    for (place, path) in paths.iter().enumerate().filter(|(_, path)| !is_missing(path)) {
        let probe = OpenOptions { logical_block_bytes: open.logical_block_bytes, ..OpenOptions::look() };
        let metadata = open_member(path, probe).ok().map(|device| look(&*device));
        let metadata = match metadata {
            None if disks.is_empty() => return Ok(None),
            None => bail!("{}: cannot be opened", path.display()),
            Some(found) => found.with_context(|| path.display().to_string())?,
        };
        let Some(metadata) = metadata else {
            if disks.is_empty() {
                return Ok(None);
            }
            bail!("{}: holds no container's metadata", path.display());
        };
        let place = if which.volume.in_order { u8::try_from(place).ok() } else { None };
        disks.push(ForeignDisk { device: open_member(path, open)?, metadata, place });
    }
    if disks.is_empty() { Ok(None) } else { Ok(Some(Container::of(disks)?)) }
}

/// The volume that is asked for, as an array that is only read; `None` where the members are of no container.
///
/// # Errors
/// It cannot be read, or, with `writes`, something else was wanted.
pub fn assemble(
    paths: &[PathBuf],
    which: &WhichArgs,
    options: &AssembleOptions,
    writes: bool,
) -> anyhow::Result<Option<Assembly>> {
    let named: Vec<PathBuf> = paths.iter().filter(|path| !is_missing(path)).cloned().collect();
    refuse_repeated(&named)?;
    let volume = &which.volume;
    let Some(container) = container(paths, which, read_alone())? else {
        return Ok(None);
    };
    if writes {
        bail!("the members are of an {} container, which uraid only reads: 'export' or 'assemble' it", container.format());
    }
    if volume.in_order && paths.len() != container.listed.len() {
        let listed = container.listed.len();
        return Err(usage(format!("--in-order takes all {listed} disks of the container, or 'missing' in their place")));
    }
    let wanted = VolumeOptions { name: volume.volume.clone(), force: options.force, run: options.run };
    let assembly = container.assemble(&wanted).context("the array cannot be started")?;
    assembly.warnings.iter().for_each(note);
    Ok(Some(assembly))
}

/// A container in reports.
#[derive(Serialize)]
pub struct Report {
    /// `imsm`, `ddf`.
    format: &'static str,
    version: String,
    id: String,
    generation: u32,
    disks: Vec<Disk>,
    volumes: Vec<Volume>,
}

#[derive(Serialize)]
struct Disk {
    /// Serial number or reference number.
    label: String,
    state: String,
    /// The member that is this disk, as far as that is known.
    member: Option<String>,
}

#[derive(Serialize)]
struct Volume {
    name: String,
    /// Why it cannot be read; then there is nothing else of it.
    problem: Option<String>,
    #[serde(flatten)]
    shape: Option<Shape>,
}

#[derive(Serialize)]
struct Shape {
    level: &'static str,
    layout: String,
    chunk_bytes: u64,
    size_bytes: u64,
    member_bytes: u64,
    state: String,
    /// Redundancy may disagree.
    dirty: bool,
    slots: Vec<SlotReport>,
    /// Why it does not start with the members that were given.
    obstacle: Option<String>,
}

#[derive(Serialize)]
struct SlotReport {
    /// The disk's label; `null` for one that the container has given up.
    disk: Option<String>,
    start_sector: u64,
    in_sync: bool,
}

impl Report {
    /// Of this container.
    pub fn new(container: &Container) -> Report {
        let (version, id, generation) = match container.metadata() {
            Metadata::Imsm(imsm) => (imsm.version.clone(), format!("{:08x}", imsm.original_family), imsm.generation),
            Metadata::Ddf(ddf) => (ddf.header.revision.clone(), hex(&ddf.header.guid), ddf.header.sequence),
        };
        let disks = container.listed.iter().map(|entry| Disk {
            label: one_line(&entry.label),
            state: entry.state.clone(),
            member: entry.given.map(|index| container.disks[index].name().to_owned()),
        });
        let volumes = container.volumes.iter().map(|volume| match volume {
            Ok(volume) => Volume { name: one_line(&volume.name), problem: None, shape: Some(shape(container, volume)) },
            Err((name, why)) => Volume { name: one_line(name), problem: Some(why.clone()), shape: None },
        });
        let (disks, volumes) = (disks.collect(), volumes.collect());
        Report { format: container.format(), version: one_line(&version), id, generation, disks, volumes }
    }

    /// Can every volume be started with the members that were given?
    pub fn is_startable(&self) -> bool {
        self.volumes.iter().all(|volume| volume.shape.as_ref().is_some_and(|shape| shape.obstacle.is_none()))
    }

    /// In words; `whole` where all disks of the container were asked for.
    pub fn text(&self, name: &str, whole: bool) -> String {
        let mut lines = Lines(format!("{name}:"));
        lines.put("Container", format!("{} {}", self.format, self.version));
        lines.put("Container ID", &self.id);
        lines.put("Generation", self.generation);
        for (index, disk) in self.disks.iter().enumerate() {
            let member = disk.member.as_ref().map_or_else(String::new, |member| format!(": {member}"));
            lines.put("Disk", format!("{index} '{}' ({}){member}", disk.label, disk.state));
        }
        for volume in &self.volumes {
            lines.0 += "\n";
            lines.put("Volume", &volume.name);
            match (&volume.problem, &volume.shape) {
                (Some(why), _) => lines.put("Problem", why),
                (None, Some(shape)) => shape.put(&mut lines, whole),
                (None, None) => {}
            }
        }
        lines.0 + "\n"
    }
}

impl Shape {
    fn put(&self, lines: &mut Lines, whole: bool) {
        lines.put("Raid Level", self.level);
        lines.put("Raid Devices", self.slots.len());
        lines.put("Layout", &self.layout);
        if self.chunk_bytes > 0 {
            lines.put("Chunk Size", human_bytes(self.chunk_bytes));
        }
        lines.put("Array Size", format!("{} KiB ({})", self.size_bytes / 1024, human_bytes(self.size_bytes)));
        lines.put("Used Dev Size", format!("{} KiB ({})", self.member_bytes / 1024, human_bytes(self.member_bytes)));
        lines.put("State", &self.state);
        for (slot, place) in self.slots.iter().enumerate() {
            let disk = place
                .disk
                .as_ref()
                .map_or_else(|| "a disk that is gone or that only other disks know,".to_owned(), |disk| format!("disk '{disk}'"));
            let sync = if place.in_sync { "in sync" } else { "not in sync" };
            lines.put("Slot", format!("{slot} {disk} from sector {} on, {sync}", place.start_sector));
        }
        match &self.obstacle {
            _ if !whole => {}
            None => lines.put("Startable", "yes, read-only"),
            Some(why) => lines.put("Startable", format!("no: {why}")),
        }
    }
}

/// Labels and values below one another, as mdadm lays them out.
struct Lines(String);

impl Lines {
    fn put(&mut self, label: &str, value: impl std::fmt::Display) {
        self.0 += &format!("\n{label:>15} : {value}");
    }
}

fn shape(container: &Container, volume: &ForeignVolume) -> Shape {
    let label = |key| container.listed.iter().find(|entry| entry.key == key).map(|entry| one_line(&entry.label));
    let slots = volume.members.iter().map(|member| SlotReport {
        disk: member.disk.and_then(label),
        start_sector: member.start.0,
        in_sync: member.in_sync,
    });
    let wanted = VolumeOptions { name: Some(volume.name.clone()), ..VolumeOptions::default() };
    Shape {
        level: volume.level.name(),
        layout: volume.layout.to_string(),
        chunk_bytes: volume.chunk.bytes(),
        size_bytes: volume.size.bytes(),
        member_bytes: volume.member_sectors.bytes(),
        state: volume.state.clone(),
        dirty: volume.dirty,
        slots: slots.collect(),
        obstacle: container.assemble(&wanted).err().map(|problem| problem.to_string()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
