//! Superblocks that the options of assembling have changed, written before the array starts.

use uraid_device::{DeviceError, Pool};

use crate::{Assembly, Candidate};

/// Writes the superblocks of all members, where they are due and may be written, and makes them durable.
///
/// # Errors
/// A member cannot be written. Those before it have their new superblocks, which is as good as a crash in between: md goes by
/// either.
pub(crate) fn write_superblocks(assembly: &mut Assembly) -> Result<(), DeviceError> {
    if !assembly.superblocks_due || assembly.read_only_because.is_some() {
        return Ok(());
    }
    let pool = Pool::new(0);
    // One that is left out keeps what it has: it is a member of the past.
    let belongs = |index: &usize| !assembly.readdable.contains(index);
    let members: Vec<&Candidate> = (0..assembly.members.len()).filter(belongs).map(|index| &assembly.members[index]).collect();
    for member in &members {
        let offset_bytes = member.superblock().super_offset.byte_offset();
        member.device.write_at(offset_bytes, &pool.copy(&member.raw.to_bytes()))?;
    }
    members.iter().try_for_each(|member| member.device.flush())?;
    assembly.superblocks_due = false;
    Ok(())
}
