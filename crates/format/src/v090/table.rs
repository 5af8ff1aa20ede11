//! The table of devices: descriptors of 0.90, roles of the domain.
//!
//! Version 1 gives a device a number for good; 0.90 numbers the active devices by their slots and the spares from there on, anew
//! at each update. So a table is put into that order when it is written, and numbers that nobody has read as faulty.

use uraid_types::Slot;

use super::words::{Words, at, disk, disk_at};
use crate::{MAX_DEVICES_090, Role, Superblock};

/// What device `number` does by its descriptor; `Err` with the slot when that is none of the array's.
pub fn role(words: &Words, number: usize, raid_disks: u16) -> Result<Role, u32> {
    let [own_number, _, _, slot, state] = words.descriptor(disk_at(number));
    if state & (disk::FAULTY | disk::REMOVED) != 0 || state == 0 && own_number == 0 && !is_own_spare(words, number) {
        return Ok(Role::Faulty);
    }
    // Active but not in sync: a member being rebuilt, of which no more is recorded.
    if state & disk::SYNC == 0 {
        return Ok(Role::Spare);
    }
    match u16::try_from(slot) {
        Ok(slot) if slot < raid_disks => Ok(Role::Active(Slot(slot))),
        _ => Err(slot),
    }
}

/// A spare with number 0 looks like nobody, but to itself.
fn is_own_spare(words: &Words, number: usize) -> bool {
    let [own, _, _, _, state] = words.descriptor(at::THIS_DISK);
    own as usize == number && state == 0
}

/// Entries of the table up to the last that names a device, all slots included. The kernel lists faulty devices behind the
/// spares as long as it has them.
pub fn entries(words: &Words, raid_disks: u16) -> usize {
    let is_named = |&number: &usize| {
        let descriptor = words.descriptor(disk_at(number));
        descriptor.iter().any(|&word| word != 0) && descriptor[4] & (disk::FAULTY | disk::REMOVED) == 0
    };
    let named = (0..MAX_DEVICES_090).rev().find(is_named).map_or(0, |last| last + 1);
    let own = words.get(at::THIS_DISK) as usize;
    named.max(usize::from(raid_disks)).max(if own < MAX_DEVICES_090 { own + 1 } else { 0 })
}

/// Where each number of `superblock`'s roles goes in the order of 0.90; `None` for those that name nobody.
pub fn places(superblock: &Superblock) -> Vec<Option<usize>> {
    let slots = usize::from(superblock.raid_disks);
    let mut taken = [false; MAX_DEVICES_090];
    let mut places = vec![None; superblock.roles.len()];
    for (number, role) in superblock.roles.iter().enumerate() {
        if let Role::Active(slot) = role
            && !is_rebuilt(superblock, number)
            && taken.get(slot.index()) == Some(&false)
        {
            taken[slot.index()] = true;
            places[number] = Some(slot.index());
        }
    }
    for (number, role) in superblock.roles.iter().enumerate() {
        if *role == Role::Spare || is_rebuilt(superblock, number) {
            // An array that has all numbers in its slots leaves a spare nothing but the slot that waits for it.
            let place = (slots..MAX_DEVICES_090).chain((0..slots.min(MAX_DEVICES_090)).rev()).find(|&place| !taken[place]);
            if let Some(place) = place {
                taken[place] = true;
                places[number] = Some(place);
            }
        }
    }
    places
}

/// Is this the member itself, and being rebuilt?
fn is_rebuilt(superblock: &Superblock, number: usize) -> bool {
    number == superblock.dev_number as usize && superblock.recovery_offset.is_some()
}

/// Writes the table, the counts and the member's own descriptor. Devices that stay where they were keep their block device.
pub fn write(words: &mut Words, superblock: &Superblock) {
    let slots = usize::from(superblock.raid_disks);
    let old: Vec<_> = (0..MAX_DEVICES_090).map(|place| words.descriptor(disk_at(place))).collect();
    let places = places(superblock);
    let mut table = [[0; 5]; MAX_DEVICES_090];
    for (place, descriptor) in table.iter_mut().enumerate().take(slots) {
        // As the kernel leaves them: the first slot is removed, but never faulty.
        let state = if place == 0 { disk::REMOVED } else { disk::FAULTY | disk::REMOVED };
        *descriptor = [place as u32, 0, 0, place as u32, state];
    }
    let (mut active, mut spare) = (0, 0);
    for (number, place) in places.iter().enumerate().filter_map(|(number, place)| Some((number, (*place)?))) {
        let is_active = matches!(superblock.roles[number], Role::Active(_)) && !is_rebuilt(superblock, number);
        let role = if is_active { disk::ACTIVE | disk::SYNC } else { 0 };
        let [_, major, minor, _, old_state] = old[place];
        let stays = old_state & (disk::ACTIVE | disk::SYNC | disk::FAULTY | disk::REMOVED) == role;
        let (major, minor) = if stays { (major, minor) } else { (0, 0) };
        let flags = if stays { old_state & (disk::WRITE_MOSTLY | disk::FAIL_FAST) } else { 0 };
        table[place] = [place as u32, major, minor, place as u32, role | flags];
        if is_active { active += 1 } else { spare += 1 }
    }
    let own_place = places.get(superblock.dev_number as usize).copied().flatten();
    let mut own = own_place.map_or([superblock.dev_number, 0, 0, superblock.dev_number, disk::FAULTY], |place| table[place]);
    let flag = |on: bool, bit: u32| if on { bit } else { 0 };
    own[4] = own[4] & !(disk::WRITE_MOSTLY | disk::FAIL_FAST)
        | flag(superblock.flags.write_mostly, disk::WRITE_MOSTLY)
        | flag(superblock.flags.fail_fast, disk::FAIL_FAST);
    if let Some(place) = own_place {
        table[place] = own;
    }
    for (place, descriptor) in table.into_iter().enumerate() {
        words.set_descriptor(disk_at(place), descriptor);
    }
    words.set_descriptor(at::THIS_DISK, own);
    let failed = slots.saturating_sub(active as usize) as u32;
    words.set(at::NR_DISKS, active + spare);
    words.set(at::ACTIVE_DISKS, active);
    words.set(at::WORKING_DISKS, active + spare);
    words.set(at::SPARE_DISKS, spare);
    words.set(at::FAILED_DISKS, failed);
}
