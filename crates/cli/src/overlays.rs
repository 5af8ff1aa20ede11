//! `--overlay DIR`: copy-on-write files over the members, one each, named after the member's path.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use uraid_array::{open_member, scan};
use uraid_device::{Device, DeviceError, OpenOptions, Operation, Overlay, OverlayFile, OverlayOrigin, OverlayState, Pool};

use crate::control::full;

/// How the files' names end.
const ENDING: &str = "overlay";
/// What is compared to find out whether a member has changed.
const SUPER_BYTES: usize = 4096;

/// The file for the member at `path` in the folder `dir`: its last name, and a sum of its whole path.
fn file_for(dir: &Path, path: &Path) -> PathBuf {
    let whole = path.as_os_str().as_encoded_bytes();
    // FNV-1a: tells apart members of one name in two folders.
    let sum = whole.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    dir.join(format!("{name}-{sum:016x}.{ENDING}"))
}

/// The overlay files in `dir`, by name.
///
/// # Errors
/// It cannot be read.
pub fn files_in(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = std::fs::read_dir(dir).with_context(|| format!("{}: cannot be read", dir.display()))?;
    let paths = list.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    let mut paths = paths.with_context(|| format!("{}: cannot be read", dir.display()))?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    paths.sort();
    Ok(paths)
}

/// Opens the member at `path` for reading only, under its file in `dir`. Without `make`, a member that has no file yet stays bare.
///
/// # Errors
/// The member or the file cannot be opened, the member is not as it was when the file was made, or a commit was cut short.
pub fn open_under(dir: &Path, path: &Path, open: OpenOptions, make: bool) -> Result<Arc<dyn Device>, DeviceError> {
    let member = open_member(path, OpenOptions { write: false, ..open })?;
    let fail = |why: String| DeviceError::whole(path.display().to_string(), Operation::Open, io::Error::other(why));
    let whole = full(path).map_err(|error| fail(error.to_string()))?;
    let file = file_for(dir, &whole);
    if !file.exists() {
        if !make {
            return Ok(member);
        }
        let cannot = |error| DeviceError::whole(dir.display().to_string(), Operation::Open, error);
        std::fs::create_dir_all(dir).map_err(cannot)?;
        let origin = origin(&member, whole)?;
        return Ok(Arc::new(Overlay::in_file(member, OverlayFile::create(&file, origin)?)?));
    }
    let found = OverlayFile::open(&file)?;
    if found.state() == OverlayState::Committing {
        return Err(fail(format!("{} is half committed; 'overlay commit {}' finishes that", found.name(), dir.display())));
    }
    if let Some(why) = changed_since(found.origin(), &*member)? {
        return Err(fail(format!("{why} since {} was made; 'overlay discard {}' begins anew", found.name(), dir.display())));
    }
    Ok(Arc::new(Overlay::in_file(member, found)?))
}

/// What a member is now, for the file that is to lie over it.
fn origin(member: &Arc<dyn Device>, path: PathBuf) -> Result<OverlayOrigin, DeviceError> {
    // A member that is still to be added has no superblock.
    let own = scan(Arc::clone(member)).ok();
    let superblock = own.as_ref().map(|own| own.superblock());
    let super_byte = superblock.map_or(0, |superblock| superblock.super_offset.byte_offset());
    Ok(OverlayOrigin {
        path,
        size_bytes: member.info().size_bytes,
        array_id: superblock.map_or([0; 16], |superblock| superblock.array_id.into_bytes()),
        device_id: superblock.map_or([0; 16], |superblock| superblock.device_id.into_bytes()),
        events: superblock.map_or(0, |superblock| superblock.events),
        super_byte,
        super_crc: OverlayOrigin::crc_of(&super_bytes(&**member, super_byte)?),
    })
}

fn super_bytes(member: &dyn Device, super_byte: u64) -> Result<Vec<u8>, DeviceError> {
    // Never beyond the member, and never nothing: a member has at least a logical block.
    let len = (member.info().size_bytes.saturating_sub(super_byte)).min(SUPER_BYTES as u64) as usize;
    let mut bytes = Pool::new(0).take(len);
    member.read_at(super_byte, &mut bytes)?;
    Ok(bytes.to_vec())
}

/// In what a member is no longer what `origin` says; `None` when it is.
///
/// # Errors
/// It cannot be read.
pub fn changed_since(origin: &OverlayOrigin, member: &dyn Device) -> Result<Option<String>, DeviceError> {
    let size_bytes = member.info().size_bytes;
    if size_bytes != origin.size_bytes {
        return Ok(Some(format!("its size has changed from {} to {size_bytes} bytes", origin.size_bytes)));
    }
    let same = OverlayOrigin::crc_of(&super_bytes(member, origin.super_byte)?) == origin.super_crc;
    Ok((!same).then(|| format!("its superblock at byte {} has changed", origin.super_byte)))
}

/// Does the member have the superblock that the file `overlay` holds? Then a commit had come to its end there.
///
/// # Errors
/// One of them cannot be read.
pub fn has_new_superblock(overlay: &OverlayFile, member: &dyn Device) -> Result<bool, DeviceError> {
    let super_byte = overlay.origin().super_byte;
    let found = super_bytes(member, super_byte)?;
    if member.info().size_bytes != overlay.origin().size_bytes || !overlay.has(super_byte / SUPER_BYTES as u64) {
        return Ok(false);
    }
    let mut held = vec![0; found.len()];
    overlay.read(super_byte, &mut held)?;
    Ok(held == found)
}
