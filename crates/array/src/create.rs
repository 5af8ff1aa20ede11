//! Making an array: checks on every member first, then writes.

use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use uraid_device::{Device, DeviceError, Pool};
use uraid_format::{
    ArrayId, BitmapSpec, CreatePlan, CreateSpec, DeviceFlags, MemberPlan, MetadataVersion, NewMember, SUPER_BYTES,
};
use uraid_geometry::{Geometry, GeometryError, Shape};
use uraid_types::{Layout, Level, Sector, SectorCount, Slot};
use uuid::Uuid;

use crate::undo::{Change, Changed};
use crate::{Signature, signature};

/// md's usual chunk: 512 KiB.
const USUAL_CHUNK: SectorCount = SectorCount(1024);

/// What array to make. Members are given beside it.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// The level.
    pub level: Level,
    /// `None` for the level's default.
    pub layout: Option<Layout>,
    /// `None` for 512 KiB where the level has chunks.
    pub chunk: Option<SectorCount>,
    /// Sectors used of each member; `None` for as many as fit.
    pub size: Option<SectorCount>,
    /// Where superblocks go.
    pub version: MetadataVersion,
    /// Where data begins; `None` for a good place.
    pub data_offset: Option<Sector>,
    /// An internal bitmap.
    pub bitmap: Option<BitmapSpec>,
    /// The array's name, with the home host before a colon as mdadm has it.
    pub name: String,
    /// `None` for a random one.
    pub array_id: Option<ArrayId>,
    /// No resync: what lies on the members is consistent.
    pub assume_clean: bool,
    /// By member in the order given, spares last; missing entries are false.
    pub write_mostly: Vec<bool>,
    /// Logical block to record, 512 or 4096 bytes; `None` for none, as all kernels take it.
    pub logical_block_bytes: Option<u32>,
    /// Overwrite what the members carry.
    pub force: bool,
    /// Check and plan, but write nothing.
    pub dry_run: bool,
}

impl CreateRequest {
    /// An array of `level` with everything else as usual: version 1.2, no bitmap, default layout and chunk.
    #[must_use]
    pub fn new(level: Level) -> CreateRequest {
        CreateRequest {
            level,
            layout: None,
            chunk: None,
            size: None,
            version: MetadataVersion::V1_2,
            data_offset: None,
            bitmap: None,
            name: String::new(),
            array_id: None,
            assume_clean: false,
            write_mostly: Vec::new(),
            logical_block_bytes: None,
            force: false,
            dry_run: false,
        }
    }
}

/// What was made, or would be.
#[derive(Clone, Debug)]
pub struct Created {
    /// Bytes and places, member by member.
    pub plan: CreatePlan,
    /// The array's UUID.
    pub array_id: ArrayId,
    /// The level.
    pub level: Level,
    /// The layout.
    pub layout: Layout,
    /// The chunk; 0 where there is none.
    pub chunk: SectorCount,
    /// The array's size.
    pub capacity: SectorCount,
    /// Members it may lose once it is in sync, whichever they are.
    pub max_failures: usize,
    /// The members that are there: slots in order, then spares.
    pub members: Vec<CreatedMember>,
    /// What `force` overwrote.
    pub overwritten: Vec<(String, Signature)>,
    /// Was it written, or only planned?
    pub written: bool,
}

/// One member of a new array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedMember {
    /// Its name.
    pub name: String,
    /// Its slot; `None` for a spare.
    pub slot: Option<Slot>,
    /// First data sector.
    pub data_offset: Sector,
    /// Data sectors that fit.
    pub data_size: SectorCount,
}

/// Why no array was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A wish that cannot be granted. Nothing was written.
    #[error("{}", with_name(.error, .names))]
    Plan {
        /// What is wrong; it counts members from 0.
        error: uraid_format::CreateError,
        /// The members' names in that order.
        names: Vec<String>,
    },
    /// Members that carry something. Nothing was written.
    #[error("{}; --force overwrites it, or wipe it first", .0.iter().map(|(name, what)| format!("{name} carries {what}")).collect::<Vec<_>>().join(", "))]
    Carries(Vec<(String, Signature)>),
    /// One medium under two names. Nothing was written.
    #[error("{first} and {second} are the same medium")]
    SameMedium {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// Open for reading only. Nothing was written.
    #[error("{0} is open for reading only")]
    ReadOnly(String),
    /// Could not be looked at. Nothing was written.
    #[error("{0}")]
    Unreadable(#[source] DeviceError),
    /// The shape is impossible. Nothing was written.
    #[error("{0}")]
    Shape(#[source] GeometryError),
    /// What would be overwritten cannot be saved. Nothing was written.
    #[error("{0}")]
    Undo(String),
    /// Writing failed half way.
    #[error(
        "{error}; the array was not made, and {} carry parts of its metadata: create it again with --force, or wipe them",
        .begun.join(", ")
    )]
    Write {
        /// The member, the operation and the cause.
        error: DeviceError,
        /// Members on which something was written.
        begun: Vec<String>,
    },
}

/// The error with the name of the member that it counts.
fn with_name(error: &uraid_format::CreateError, names: &[String]) -> String {
    use uraid_format::CreateError as Plan;
    let index = match *error {
        Plan::MissingSpare { index }
        | Plan::MemberTooSmall { index, .. }
        | Plan::SizeTooBig { index, .. }
        | Plan::LogicalBlock { index, .. }
        | Plan::LargerBlock { index, .. } => Some(index),
        _ => None,
    };
    match index.and_then(|index| names.get(index)) {
        Some(name) => format!("{error} (member {} is {name})", index.unwrap_or_default()),
        None => error.to_string(),
    }
}

/// Makes an array: `devices` by slot, `None` for a missing one, then the spares.
///
/// Nothing is written before every member has passed every check. Then, on all members, the places of superblocks are wiped and
/// bitmap and bad-block log written; once all of that is durable, the superblocks. So a member with a superblock has all that
/// the superblock speaks of, and no member keeps one of an older array.
///
/// # Errors
/// [`CreateError`] says what is wrong and with which member.
pub fn create(
    devices: &[Option<Arc<dyn Device>>],
    spares: &[Arc<dyn Device>],
    request: &CreateRequest,
) -> Result<Created, CreateError> {
    create_with(devices, spares, request, &mut |_| Ok(()))
}

/// As [`create`]; `save` gets what will be written before anything is, and may refuse.
///
/// # Errors
/// As [`create`], and what `save` says.
pub fn create_with(
    devices: &[Option<Arc<dyn Device>>],
    spares: &[Arc<dyn Device>],
    request: &CreateRequest,
    save: &mut dyn FnMut(&[Changed]) -> Result<(), String>,
) -> Result<Created, CreateError> {
    let members: Vec<Option<&dyn Device>> =
        devices.iter().map(Option::as_deref).chain(spares.iter().map(|spare| Some(&**spare))).collect();
    let names: Vec<String> = members.iter().map(|member| member.map_or("missing".to_owned(), name)).collect();
    let overwritten = check_members(&members, request)?;
    let spec = spec(devices.len(), spares.len(), &members, request);
    let plan = spec.plan().map_err(|error| CreateError::Plan { error, names: names.clone() })?;
    let geometry = geometry(&spec, &plan).map_err(CreateError::Shape)?;
    if !request.dry_run {
        save_old(&members, &plan, save)?;
        write(&members, &plan)?;
    }
    let member = |(index, name): (usize, String)| {
        let superblock = plan.members.get(index)?.as_ref()?.superblock.superblock();
        let slot = (index < devices.len()).then(|| Slot::from_index(index));
        Some(CreatedMember { name, slot, data_offset: superblock.data_offset, data_size: superblock.data_size })
    };
    Ok(Created {
        array_id: spec.array_id,
        level: spec.level,
        layout: spec.layout,
        chunk: spec.chunk,
        capacity: geometry.capacity(),
        max_failures: geometry.max_failures(),
        members: names.into_iter().enumerate().filter_map(member).collect(),
        overwritten,
        written: !request.dry_run,
        plan,
    })
}

fn name(device: &dyn Device) -> String {
    device.info().name.clone()
}

/// Everything that can be wrong with the members themselves; what `force` is to overwrite.
fn check_members(members: &[Option<&dyn Device>], request: &CreateRequest) -> Result<Vec<(String, Signature)>, CreateError> {
    let present: Vec<&dyn Device> = members.iter().flatten().copied().collect();
    for (index, second) in present.iter().enumerate() {
        if let Some(first) = present[..index].iter().find(|first| same_medium(**first, *second)) {
            return Err(CreateError::SameMedium { first: name(*first), second: name(*second) });
        }
    }
    if let Some(device) = present.iter().find(|device| device.info().read_only && !request.dry_run) {
        return Err(CreateError::ReadOnly(name(*device)));
    }
    let mut carried = Vec::new();
    for &device in &present {
        if let Some(found) = signature(device).map_err(CreateError::Unreadable)? {
            carried.push((name(device), found));
        }
    }
    if request.force || carried.is_empty() { Ok(carried) } else { Err(CreateError::Carries(carried)) }
}

/// Are these the same medium, under whatever names?
pub(crate) fn same_medium(first: &dyn Device, second: &dyn Device) -> bool {
    std::ptr::addr_eq(first, second) || first.identity().is_some_and(|identity| Some(identity) == second.identity())
}

fn spec(slots: usize, spares: usize, members: &[Option<&dyn Device>], request: &CreateRequest) -> CreateSpec {
    let usual_chunk = if request.level.has_chunks() { USUAL_CHUNK } else { SectorCount(0) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let new_member = |(index, device): (usize, &Option<&dyn Device>)| {
        let info = (*device)?.info();
        let write_mostly = request.write_mostly.get(index).copied().unwrap_or(false);
        Some(NewMember {
            sectors: SectorCount::floor_bytes(info.size_bytes),
            device_id: Uuid::new_v4(),
            flags: DeviceFlags { write_mostly, ..DeviceFlags::default() },
            logical_block_bytes: info.logical_block_bytes,
        })
    };
    CreateSpec {
        level: request.level,
        layout: request.layout.unwrap_or(Layout::default_for(request.level)),
        // More than 65535 is far beyond what a plan accepts.
        raid_disks: u16::try_from(slots).unwrap_or(u16::MAX),
        spare_disks: u16::try_from(spares).unwrap_or(u16::MAX),
        chunk: request.chunk.unwrap_or(usual_chunk),
        size: request.size,
        version: request.version,
        data_offset: request.data_offset,
        bitmap: request.bitmap,
        name: request.name.clone().into_bytes(),
        preferred_minor: preferred_minor(&request.name),
        array_id: request.array_id.unwrap_or_else(Uuid::new_v4),
        created_seconds: now.as_secs(),
        // Linux takes the whole field for seconds, and then refuses to change an array whose creation lies millennia ahead.
        created_micros: 0,
        assume_clean: request.assume_clean,
        logical_block_bytes: request.logical_block_bytes.unwrap_or(0),
        members: members.iter().enumerate().map(new_member).collect(),
    }
}

/// N of the name `mdN` or `N`, which may follow a home host; 0 for others.
fn preferred_minor(name: &str) -> u32 {
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    name.strip_prefix("md").unwrap_or(name).parse().unwrap_or(0)
}

/// The arithmetic of the planned array. A missing member holds as much as the others must.
fn geometry(spec: &CreateSpec, plan: &CreatePlan) -> Result<Geometry, GeometryError> {
    let slots = plan.members.iter().take(usize::from(spec.raid_disks));
    let data_size = |member: &Option<MemberPlan>| match member {
        Some(member) if !spec.level.is_redundant() => member.superblock.superblock().data_size,
        _ => plan.used_size,
    };
    Geometry::new(&Shape {
        level: spec.level,
        layout: spec.layout,
        raid_disks: spec.raid_disks,
        chunk: spec.chunk,
        member_sectors: slots.map(data_size).collect(),
    })
}

/// Hands over what the plan will write.
fn save_old(
    members: &[Option<&dyn Device>],
    plan: &CreatePlan,
    save: &mut dyn FnMut(&[Changed]) -> Result<(), String>,
) -> Result<(), CreateError> {
    let pairs = members.iter().zip(&plan.members).filter_map(|(device, member)| Some(((*device)?, member.as_ref()?)));
    let supers: Vec<Vec<u8>> = plan.members.iter().flatten().map(|member| whole_super(&member.superblock.to_bytes())).collect();
    let changed = pairs.zip(&supers).map(|((device, member), superblock)| {
        let areas = member.bitmap.iter().chain(&member.bad_block_log).map(|area| Change::bytes(area.start_byte, &area.bytes));
        let changes = member.wipe.iter().map(Change::zeros).chain(areas).chain([Change::bytes(member.super_byte, superblock)]);
        Changed { device, changes: changes.collect() }
    });
    save(&changed.collect::<Vec<_>>()).map_err(CreateError::Undo)
}

/// A superblock up to the end of its place, as [`write_areas`] leaves that.
fn whole_super(bytes: &[u8]) -> Vec<u8> {
    let mut whole = bytes.to_vec();
    whole.resize(SUPER_BYTES, 0);
    whole
}

/// Writes the plan, in two rounds with everything durable between them.
fn write(members: &[Option<&dyn Device>], plan: &CreatePlan) -> Result<(), CreateError> {
    let pairs = || members.iter().zip(&plan.members).filter_map(|(device, member)| Some(((*device)?, member.as_ref()?)));
    let mut begun: Vec<String> = Vec::new();
    for (device, member) in pairs() {
        begun.push(name(device));
        write_areas(device, member).map_err(|error| CreateError::Write { error, begun: begun.clone() })?;
    }
    for (device, member) in pairs() {
        let bytes = Pool::new(0).copy(&member.superblock.to_bytes());
        let done = device.write_at(member.super_byte, &bytes).and_then(|()| device.flush());
        done.map_err(|error| CreateError::Write { error, begun: begun.clone() })?;
    }
    Ok(())
}

/// Everything but the superblock, whose place is wiped: until all members have come this far there is no array.
fn write_areas(device: &dyn Device, member: &MemberPlan) -> Result<(), DeviceError> {
    let zero = |range: &Range<u64>| device.zero(range.start, range.end - range.start, false);
    member.wipe.iter().try_for_each(zero)?;
    zero(&(member.super_byte..member.super_byte + SUPER_BYTES as u64))?;
    for area in member.bitmap.iter().chain(&member.bad_block_log) {
        device.write_at(area.start_byte, &Pool::new(0).copy(&area.bytes))?;
    }
    device.flush()
}

#[cfg(test)]
mod tests;
