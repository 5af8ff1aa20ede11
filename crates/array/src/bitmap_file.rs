//! A write-intent bitmap in a file of its own, and looking at bitmaps that nothing can be done with.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use uraid_device::{Device, DeviceError, OpenOptions, Overlay, RaggedFile};
use uraid_format::{BITMAP_SUPER_BYTES, Bitmap, BitmapError, BitmapFields, BitmapSuper};
use uraid_types::{SECTOR_BYTES, Sector};

use crate::FoundBitmap;
use crate::probe::bytes_at;

/// A bitmap's file, opened.
#[derive(Clone)]
pub struct BitmapFile {
    /// Where changes go.
    pub device: Arc<dyn Device>,
    /// What it holds.
    pub found: FoundBitmap,
}

impl BitmapFile {
    /// Opens the file at `path` and reads it. With `in_memory` it is only read, and its changes stay in memory.
    ///
    /// # Errors
    /// It cannot be opened or read, or holds no bitmap, or not all of one. Whose it is is looked at when the array is put together.
    pub fn open(path: &Path, options: OpenOptions, in_memory: bool) -> Result<BitmapFile, BitmapFileError> {
        let file = RaggedFile::open(path, OpenOptions { write: options.write && !in_memory, ..options })?;
        let bitmap = |error| BitmapFileError::Bitmap { name: file.info().name.clone(), error };
        let seen = look_at_bitmap(&file, Sector(0), file.len_bytes())?;
        let (superblock, bits) = match seen.superblock {
            Ok(superblock) => (superblock, seen.bits),
            Err(error) => return Err(bitmap(error)),
        };
        let bits = match bits {
            Some(bits) => bits,
            None if !superblock.version.is_usable() => Bitmap::new_dirty(0),
            None => {
                let needed = superblock.bits().div_ceil(8) + BITMAP_SUPER_BYTES as u64;
                return Err(bitmap(BitmapError::TooShort { found: file.len_bytes(), needed }));
            }
        };
        let device: Arc<dyn Device> = Arc::new(file);
        let device = if in_memory { Arc::new(Overlay::in_memory(device)) } else { device };
        Ok(BitmapFile { device, found: FoundBitmap { superblock, bits } })
    }

    /// Its name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.info().name
    }
}

impl fmt::Debug for BitmapFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BitmapFile({}, {:?})", self.name(), self.found)
    }
}

/// Why a bitmap's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BitmapFileError {
    /// It cannot be opened or read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What it holds is no bitmap that can be used.
    #[error("{name}: {error}")]
    Bitmap {
        /// The file.
        name: String,
        /// What is wrong.
        error: BitmapError,
    },
}

/// A bitmap as it lies there, whether or not it can be used.
#[derive(Clone, Debug)]
pub struct SeenBitmap {
    /// Its numbers; `None` where no bitmap begins.
    pub fields: Option<BitmapFields>,
    /// The same checked, or what is wrong.
    pub superblock: Result<BitmapSuper, BitmapError>,
    /// Its bits, where they are understood and all there.
    pub bits: Option<Bitmap>,
}

/// Looks at what is at `start` of a device whose bytes end at `end_bytes`.
///
/// # Errors
/// It cannot be read.
pub fn look_at_bitmap(device: &dyn Device, start: Sector, end_bytes: u64) -> Result<SeenBitmap, DeviceError> {
    let start_byte = start.0.saturating_mul(SECTOR_BYTES);
    let room = end_bytes.saturating_sub(start_byte);
    let head = bytes_at(device, start_byte, room.min(BITMAP_SUPER_BYTES as u64))?;
    let superblock = BitmapSuper::parse(&head, start);
    let mut bits = None;
    if let Ok(found) = &superblock
        && found.version.is_usable()
    {
        let needed = found.bits().div_ceil(8);
        if needed <= room.saturating_sub(BITMAP_SUPER_BYTES as u64) {
            bits = Bitmap::from_bytes(found.bits(), &bytes_at(device, start_byte + BITMAP_SUPER_BYTES as u64, needed)?).ok();
        }
    }
    Ok(SeenBitmap { fields: BitmapFields::read(&head), superblock, bits })
}

/// Does the regular file at `path` begin as a bitmap's file does?
///
/// # Errors
/// It cannot be opened or read.
pub fn is_bitmap_file(path: &Path) -> Result<bool, DeviceError> {
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(false);
    }
    let file = RaggedFile::open(path, OpenOptions::look())?;
    let head = bytes_at(&file, 0, file.len_bytes().min(BITMAP_SUPER_BYTES as u64))?;
    Ok(BitmapFields::read(&head).is_some())
}

#[cfg(test)]
mod tests;
