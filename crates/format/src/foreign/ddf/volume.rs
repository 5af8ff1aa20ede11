//! Configuration records put together to volumes.

use std::collections::{BTreeMap, BTreeSet};

use uraid_types::{Layout, Level, ParityLayout, Raid0Layout, Raid10Layout, Sector, SectorCount};

use super::{DdfConfig, DdfMetadata};
use crate::foreign::{DiskKey, ForeignMember, ForeignVolume};

/// A volume that is there, and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("volume '{name}': {why}")]
pub struct VolumeError {
    /// Its name.
    pub name: String,
    /// Why not.
    pub why: String,
}

/// Elements of a volume, and disks of an element, at most: the specification knows no more.
const MAX_ELEMENTS: u8 = 16;
const MAX_WIDTH: usize = 4096;
/// The largest chunk that md's superblocks can name is of fewer than 2^32 sectors.
const MAX_CHUNK_SHIFT: u8 = 31;

/// See [`DdfMetadata::volumes`].
pub(super) fn volumes(disks: &[DdfMetadata]) -> Vec<Result<ForeignVolume, VolumeError>> {
    // The newest copy of each record, by volume and element.
    let mut newest: BTreeMap<([u8; 24], u8), &DdfConfig> = BTreeMap::new();
    for config in disks.iter().flat_map(|disk| &disk.configs) {
        let kept = newest.entry((config.guid, config.element)).or_insert(config);
        // Numbers go round.
        if config.sequence.wrapping_sub(kept.sequence).cast_signed() > 0 {
            *kept = config;
        }
    }
    let Some(freshest) = disks.iter().max_by_key(|disk| disk.header.sequence) else { return Vec::new() };
    let good: BTreeSet<u32> = freshest.disks.iter().filter(|disk| disk.is_good()).map(|disk| disk.reference).collect();
    let mut seen = BTreeSet::new();
    let listed = freshest.virtuals.iter().filter(|listed| listed.state & 7 != 2 && seen.insert(listed.guid));
    listed
        .map(|listed| {
            let elements = newest.range((listed.guid, 0)..=(listed.guid, u8::MAX)).map(|(_, config)| *config);
            volume(&good, listed, &elements.collect::<Vec<_>>()).map_err(|why| VolumeError { name: listed.name.clone(), why })
        })
        .collect()
}

fn volume(good: &BTreeSet<u32>, listed: &super::DdfVirtual, elements: &[&DdfConfig]) -> Result<ForeignVolume, String> {
    let first = *elements.first().ok_or("no disk that is there has its configuration record")?;
    let like_first = |other: &&&DdfConfig| {
        let part = |config: &DdfConfig| (config.level, config.qualifier, config.elements, config.blocks, config.chunk_shift);
        part(other) == part(first) && other.disks.len() == first.disks.len()
    };
    if elements.iter().any(|other| !like_first(&other)) {
        return Err("its configuration records contradict one another".to_owned());
    }
    if listed.state & 8 != 0 {
        return Err("it is being changed into another shape, and where that stands only its controller knows".to_owned());
    }
    let width = first.disks.len();
    if !(1..=MAX_WIDTH).contains(&width) {
        return Err(format!("it has {width} disks"));
    }
    let count = first.elements.max(1);
    if count > MAX_ELEMENTS {
        return Err(format!("it has {count} elements, more than {MAX_ELEMENTS}"));
    }
    let (level, layout) = arrangement(first, width)?;
    // An element whose record no disk brought has lost all its disks.
    let member = |slot: usize| {
        let found = elements.iter().find(|config| usize::from(config.element) == slot / width);
        let gone = ForeignMember { disk: None, start: Sector(0), in_sync: false };
        found.map_or(gone, |config| {
            let (reference, start) = config.disks[slot % width];
            let disk = (reference != 0 && reference != u32::MAX).then_some(DiskKey::Reference(reference));
            ForeignMember { disk, start: Sector(start), in_sync: disk.is_some() && good.contains(&reference) }
        })
    };
    let chunk = match level {
        Level::Raid1 | Level::Linear => 0,
        _ if first.chunk_shift > MAX_CHUNK_SHIFT => return Err("it has no chunk size".to_owned()),
        _ => 1 << first.chunk_shift,
    };
    Ok(ForeignVolume {
        name: listed.name.clone(),
        id: listed.guid.to_vec(),
        level,
        layout,
        chunk: SectorCount(chunk),
        member_sectors: SectorCount(first.blocks),
        size: SectorCount(size(first, level, width * usize::from(count))?),
        members: (0..width * usize::from(count)).map(member).collect(),
        dirty: level.is_redundant() && (listed.state & 0x10 != 0 || listed.init_state & 3 != 2),
        state: state_words(listed.state, listed.init_state),
    })
}

/// Sectors that the volume shows. Records of concatenations may leave that open.
fn size(config: &DdfConfig, level: Level, slots: usize) -> Result<u64, String> {
    match (config.array_blocks, level) {
        (0 | u64::MAX, Level::Linear) => {
            config.blocks.checked_mul(slots as u64).ok_or_else(|| "it is larger than any disk".to_owned())
        }
        (0 | u64::MAX, _) => Err("its size is not recorded".to_owned()),
        (size, _) => Ok(size),
    }
}

/// Level and layout in md's terms.
fn arrangement(config: &DdfConfig, width: usize) -> Result<(Level, Layout), String> {
    use ParityLayout::{DdfNContinue, DdfNRestart, DdfZeroRestart};
    use ParityLayout::{LeftAsymmetric, LeftSymmetric, ParityFirst, ParityLast, RightAsymmetric, RightSymmetric};
    let parity = |layout| Layout::Parity(layout);
    let simple = match (config.level, config.qualifier) {
        (0x00, 0) => Some((Level::Raid0, Layout::Raid0(Raid0Layout::Alternate))),
        (0x01, 0 | 1) => Some((Level::Raid1, Layout::None)),
        (0x04, 1) => Some((Level::Raid4, parity(ParityLast))),
        (0x04, 0) => Some((Level::Raid5, parity(ParityFirst))),
        (0x05, 0) => Some((Level::Raid5, parity(RightAsymmetric))),
        (0x05, 1) => Some((Level::Raid5, parity(RightSymmetric))),
        (0x05, 2) => Some((Level::Raid5, parity(LeftAsymmetric))),
        (0x05, 3) => Some((Level::Raid5, parity(LeftSymmetric))),
        (0x06, 1) => Some((Level::Raid6, parity(DdfZeroRestart))),
        (0x06, 2) => Some((Level::Raid6, parity(DdfNRestart))),
        (0x06, 3) => Some((Level::Raid6, parity(DdfNContinue))),
        (0x0f, _) if width == 1 => Some((Level::Linear, Layout::None)),
        (0x11, 0) => Some((Level::Raid10, Layout::Raid10(Raid10Layout::near(2)))),
        (0x11, 1) => Some((Level::Raid10, Layout::Raid10(Raid10Layout::offset(2)))),
        (0x1f, _) => Some((Level::Linear, Layout::None)),
        _ => None,
    };
    let named = format!("primary level {:#04x}, qualifier {}", config.level, config.qualifier);
    let simple = simple.ok_or_else(|| format!("{named} is not one that md has too"))?;
    if config.elements <= 1 {
        return Ok(simple);
    }
    // Mirrors side by side, striped: mdadm notes that as spanned.
    let near = u8::try_from(width).ok().filter(|&width| width >= 2);
    match (simple.0, config.secondary_level, near) {
        (Level::Raid1, 0 | 3, Some(copies)) => Ok((Level::Raid10, Layout::Raid10(Raid10Layout::near(copies)))),
        _ => Err(format!("{named} under secondary level {} is not one that md has too", config.secondary_level)),
    }
}

fn state_words(state: u8, init: u8) -> String {
    let name = ["optimal", "degraded", "deleted", "missing", "failed", "partially optimal"].get(usize::from(state & 7));
    let mut words = vec![*name.unwrap_or(&"in an unknown state")];
    if state & 8 != 0 {
        words.push("morphing");
    }
    if state & 16 != 0 {
        words.push("inconsistent");
    }
    words.push(match init & 3 {
        0 => "not initialised",
        1 => "being initialised",
        2 => "fully initialised",
        _ => "of unknown initialisation",
    });
    words.join(", ")
}
