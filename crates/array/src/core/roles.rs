//! Members of a running array, and what the superblocks say of each.

use uraid_engine::{MemberState, Snapshot};
use uraid_format::{Feature, RawSuper, Role};
use uraid_types::{Sector, SectorCount, Slot};

use super::CoreMember;

/// What a member does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Slot(Slot),
    Spare,
    /// Lost; nothing is written to it any more.
    Faulty,
}

impl Place {
    /// As the table of roles has it.
    fn role(self) -> Role {
        match self {
            Place::Slot(slot) => Role::Active(slot),
            Place::Spare => Role::Spare,
            Place::Faulty => Role::Faulty,
        }
    }
}

/// A member of a running array.
#[derive(Debug)]
pub(super) struct Attached {
    pub key: usize,
    pub name: String,
    pub raw: RawSuper,
    pub place: Place,
    /// `place` when the newest snapshot was taken: what it says of a slot is of the member that had the slot then.
    pub noted: Place,
    pub corrected_sectors: u64,
    /// Sectors from its start whose data is lost.
    pub bad_blocks: Vec<(Sector, SectorCount)>,
    /// Its bitmap may differ from the others' and has to be written whole.
    pub bitmap_due: bool,
    /// Takes part in the metadata changes begun so far; one that comes in the middle of a change waits for the next.
    pub enrolled: bool,
}

impl Attached {
    pub fn new(member: CoreMember) -> Attached {
        let place = member.slot.map_or(Place::Spare, Place::Slot);
        Attached {
            key: member.key,
            name: member.name,
            raw: member.raw,
            place,
            noted: place,
            corrected_sectors: 0,
            bad_blocks: member.bad_blocks,
            bitmap_due: true,
            enrolled: false,
        }
    }

    /// Is it of use?
    pub fn is_usable(&self) -> bool {
        self.place != Place::Faulty
    }

    /// Takes metadata?
    pub fn takes_metadata(&self) -> bool {
        self.is_usable() && self.enrolled
    }

    /// Puts `snapshot` into this member's superblock.
    pub fn update(&mut self, snapshot: &Snapshot, roles: &[Role], events: u64, now_seconds: u64) {
        let state = match self.noted {
            Place::Slot(slot) => snapshot.slots[slot.index()],
            Place::Spare | Place::Faulty => MemberState::Missing,
        };
        let corrected = self.corrected_sectors;
        self.raw.update(|sb| {
            sb.events = events;
            sb.updated_seconds = now_seconds.max(sb.updated_seconds);
            sb.updated_micros = 0;
            // A clean array records how far a resync has come; one that is being written starts over.
            sb.resync_offset = if snapshot.clean { snapshot.resync_from } else { Some(Sector(0)) };
            sb.roles = roles.to_vec();
            sb.recovery_offset = match state {
                MemberState::Rebuilding { recovered } => Some(recovered),
                MemberState::InSync | MemberState::Missing => None,
            };
            sb.set_feature(Feature::RecoveryBitmap, false);
            sb.corrected_reads = u32::try_from(corrected).unwrap_or(u32::MAX).max(sb.corrected_reads);
        });
    }
}

/// Gives every member a number of its own: version 0.90 counts its spares anew at each update, and after a crash half way two
/// superblocks may say the same.
pub(super) fn number_apart(attached: &mut [Attached]) {
    for index in 0..attached.len() {
        let number = |member: &Attached| member.raw.superblock().dev_number;
        let own = number(&attached[index]);
        if attached[..index].iter().all(|other| number(other) != own) {
            continue;
        }
        let is_free = |wish: &u32| attached.iter().all(|other| number(other) != *wish);
        // Beyond all tables: what they say of a number was not meant for this member.
        let longest = attached.iter().map(|other| other.raw.superblock().roles.len()).max().unwrap_or(0) as u32;
        let free = (longest..).find(is_free).expect("there are more numbers than members");
        attached[index].raw.update(|sb| sb.dev_number = free);
    }
}

/// Gives members that are one event behind what the newest say of the array; returns their keys.
pub(super) fn catch_up(attached: &mut [Attached], events: u64) -> Vec<usize> {
    let events_of = |member: &Attached| member.raw.superblock().events;
    let newest = attached.iter().find(|member| matches!(member.place, Place::Slot(_)) && events_of(member) == events);
    let Some(newest) = newest.map(|member| member.raw.superblock().clone()) else { return Vec::new() };
    // Not a spare that the newest count as active: it would take its empty slot for a full one.
    let as_before = |member: &Attached| {
        // Version 0.90 counts its spares anew each time: who a number meant cannot be told, and it can wait for the next update.
        if member.place == Place::Spare && !newest.version.records_recovery() {
            return false;
        }
        let role = newest.roles.get(member.raw.superblock().dev_number as usize);
        role == Some(&member.place.role())
    };
    let late = attached.iter_mut().filter(|member| events_of(member) + 1 == events && as_before(member));
    late.map(|member| {
        member.raw.update(|sb| {
            sb.events = events;
            sb.resync_offset = newest.resync_offset;
            sb.roles.clone_from(&newest.roles);
            sb.updated_seconds = newest.updated_seconds;
            sb.updated_micros = newest.updated_micros;
        });
        member.key
    })
    .collect()
}

/// The role table that all superblocks get. Numbers that nobody has are spare; to version 0.90 that would be a device, and one
/// that is being rebuilt is a spare to it.
pub(super) fn role_table(attached: &[Attached], snapshot: &Snapshot) -> Vec<Role> {
    let number = |member: &Attached| member.raw.superblock().dev_number as usize;
    let longest = attached.iter().map(|member| member.raw.superblock().roles.len().max(number(member) + 1)).max();
    let records_recovery = attached.first().is_none_or(|member| member.raw.superblock().version.records_recovery());
    let nobody = if records_recovery { Role::Spare } else { Role::Faulty };
    let mut roles = vec![nobody; longest.unwrap_or(0)];
    for member in attached {
        roles[number(member)] = match member.noted {
            Place::Slot(slot) => match snapshot.slots[slot.index()] {
                MemberState::Missing => Role::Faulty,
                MemberState::Rebuilding { .. } if !records_recovery => Role::Spare,
                MemberState::Rebuilding { .. } | MemberState::InSync => Role::Active(slot),
            },
            Place::Faulty => Role::Faulty,
            Place::Spare => Role::Spare,
        };
    }
    roles
}
