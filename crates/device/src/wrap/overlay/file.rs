//! An overlay in a file: what it lies over, and which blocks it has.
//!
//! A block is durable before the map tells of it: [`OverlayFile::flush`] writes blocks, waits, then the map. A map page or header
//! that was cut short does not have its checksum, and the file is refused.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation};

use super::header::{PAGE, map_bits, map_page, no_bits, place_in_map};
use super::{OVERLAY_BLOCK_BYTES, OverlayOrigin, OverlayState};
use crate::{DeviceError, Operation};

/// Zeros are written in pieces of this length.
const ZERO_BYTES: usize = 64 << 10;

/// See the module.
pub struct OverlayFile {
    file: File,
    path: PathBuf,
    origin: OverlayOrigin,
    state: OverlayState,
    /// Bits by page of the map.
    map: Vec<Vec<u8>>,
    /// Pages that have changed since the last flush.
    changed: BTreeSet<u64>,
    /// Blocks written since the last flush?
    written: bool,
}

impl OverlayFile {
    /// Makes the file `path` for the member `origin`, with nothing in it, and locks it.
    ///
    /// # Errors
    /// It is there already, or cannot be written.
    pub fn create(path: &Path, origin: OverlayOrigin) -> Result<OverlayFile, DeviceError> {
        let fail = |source| DeviceError::whole(path.display().to_string(), Operation::Open, source);
        let long = || fail(io::Error::new(ErrorKind::InvalidInput, "the member's path is too long for an overlay's header"));
        let header = origin.to_page(OverlayState::Open).ok_or_else(long)?;
        let make = || {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
            lock(&file)?;
            file.set_len(origin.data_byte() + origin.size_bytes)?;
            for number in 0..origin.map_pages() {
                file.write_all_at(&map_page(number, &origin.device_id, &no_bits()), (1 + number) * OVERLAY_BLOCK_BYTES)?;
            }
            // The header comes last: without it, it is no overlay.
            file.sync_all()?;
            file.write_all_at(&header, 0)?;
            file.sync_all()?;
            if let Some(folder) = path.parent() {
                let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                File::open(folder)?.sync_all()?;
            }
            Ok(file)
        };
        let file = make().map_err(fail)?;
        let map = (0..origin.map_pages()).map(|_| no_bits()).collect();
        Ok(OverlayFile {
            file,
            path: path.to_owned(),
            origin,
            state: OverlayState::Open,
            map,
            changed: BTreeSet::new(),
            written: false,
        })
    }

    /// Opens a file that [`OverlayFile::create`] made, for use, and locks it.
    ///
    /// # Errors
    /// It cannot be opened, somebody uses it, or it is torn.
    pub fn open(path: &Path) -> Result<OverlayFile, DeviceError> {
        OverlayFile::read_whole(path, true)
    }

    /// Opens it to look at only, whoever uses it.
    ///
    /// # Errors
    /// It cannot be opened, or is torn.
    pub fn look(path: &Path) -> Result<OverlayFile, DeviceError> {
        OverlayFile::read_whole(path, false)
    }

    fn read_whole(path: &Path, own: bool) -> Result<OverlayFile, DeviceError> {
        let fail = |source| DeviceError::whole(path.display().to_string(), Operation::Open, source);
        let broken = |why: String| fail(io::Error::new(ErrorKind::InvalidData, why));
        let file = OpenOptions::new().read(true).write(own).open(path).map_err(fail)?;
        if own {
            lock(&file).map_err(fail)?;
        }
        let len = file.metadata().map_err(fail)?.len();
        let mut page = [0; PAGE];
        if len < PAGE as u64 {
            return Err(broken(format!("it has {len} bytes, too few for an overlay; 'overlay discard' removes it")));
        }
        file.read_exact_at(&mut page, 0).map_err(fail)?;
        let (origin, state) =
            OverlayOrigin::from_page(&page).map_err(|why| broken(format!("{why}; 'overlay discard' removes it")))?;
        let needed =
            origin.size_bytes.checked_add(OVERLAY_BLOCK_BYTES).map(|_| origin.data_byte().saturating_add(origin.size_bytes));
        if needed.is_none_or(|needed| len < needed) {
            return Err(broken(format!("it was cut short at {len} bytes; 'overlay discard' removes it")));
        }
        let mut map = Vec::new();
        for number in 0..origin.map_pages() {
            let at = (1 + number) * OVERLAY_BLOCK_BYTES;
            file.read_exact_at(&mut page, at).map_err(fail)?;
            let bits = map_bits(&page, number, &origin.device_id);
            map.push(bits.ok_or_else(|| broken(format!("its map is torn at byte {at}; 'overlay discard' removes it")))?);
        }
        Ok(OverlayFile { file, path: path.to_owned(), origin, state, map, changed: BTreeSet::new(), written: false })
    }

    /// The file's path, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The member it lies over.
    #[must_use]
    pub fn origin(&self) -> &OverlayOrigin {
        &self.origin
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> OverlayState {
        self.state
    }

    /// Does it have this block?
    #[must_use]
    pub fn has(&self, block: u64) -> bool {
        let (page, bit) = place_in_map(block);
        self.map.get(page as usize).is_some_and(|bits| bits[bit / 8] & 1 << (bit % 8) != 0)
    }

    /// The bytes of the member that it has, in runs by ascending offset.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let mut block = 0;
        std::iter::from_fn(move || {
            let start = (block..self.origin.blocks()).find(|&block| self.has(block))?;
            let end = (start..self.origin.blocks()).find(|&block| !self.has(block)).unwrap_or(self.origin.blocks());
            block = end;
            Some(start * OVERLAY_BLOCK_BYTES..(end * OVERLAY_BLOCK_BYTES).min(self.origin.size_bytes))
        })
    }

    /// Fills `into` from blocks that it has.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let done = self.file.read_exact_at(into, self.origin.data_byte() + offset_bytes);
        done.map_err(|source| DeviceError::at(self.name(), Operation::Read, offset_bytes, into.len() as u64, source))
    }

    /// Writes within blocks: those that it does not have are written whole.
    pub(super) fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), DeviceError> {
        let done = self.file.write_all_at(from, self.origin.data_byte() + offset_bytes);
        done.map_err(|source| DeviceError::at(self.name(), Operation::Write, offset_bytes, from.len() as u64, source))?;
        self.mark(offset_bytes..offset_bytes + from.len() as u64);
        Ok(())
    }

    pub(super) fn zero(&mut self, range: Range<u64>) -> Result<(), DeviceError> {
        let (start, len) = (self.origin.data_byte() + range.start, range.end - range.start);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, punch, start, len).is_err() {
            let zeros = vec![0; ZERO_BYTES];
            let mut at = start;
            while at < start + len {
                let piece = (start + len - at).min(ZERO_BYTES as u64);
                let done = self.file.write_all_at(&zeros[..piece as usize], at);
                done.map_err(|source| DeviceError::at(self.name(), Operation::Zero, range.start, len, source))?;
                at += piece;
            }
        }
        self.mark(range);
        Ok(())
    }

    fn mark(&mut self, range: Range<u64>) {
        self.written = true;
        for block in range.start / OVERLAY_BLOCK_BYTES..range.end.div_ceil(OVERLAY_BLOCK_BYTES) {
            if !self.has(block) {
                let (page, bit) = place_in_map(block);
                self.map[page as usize][bit / 8] |= 1 << (bit % 8);
                self.changed.insert(page);
            }
        }
    }

    /// Makes everything written durable: blocks, then the map.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), DeviceError> {
        let fail = |source| DeviceError::whole(self.path.display().to_string(), Operation::Flush, source);
        if self.written {
            self.file.sync_data().map_err(fail)?;
            self.written = false;
        }
        if self.changed.is_empty() {
            return Ok(());
        }
        for &number in &self.changed {
            let page = map_page(number, &self.origin.device_id, &self.map[number as usize]);
            self.file.write_all_at(&page, (1 + number) * OVERLAY_BLOCK_BYTES).map_err(fail)?;
        }
        self.file.sync_data().map_err(fail)?;
        self.changed.clear();
        Ok(())
    }

    /// Notes, durably, that its member is about to get what it holds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin_commit(&mut self) -> Result<(), DeviceError> {
        let fail = |source| DeviceError::whole(self.path.display().to_string(), Operation::Write, source);
        let page = self.origin.to_page(OverlayState::Committing);
        let page = page.ok_or_else(|| fail(io::Error::other("its path no longer fits its header")))?;
        self.file.write_all_at(&page, 0).and_then(|()| self.file.sync_data()).map_err(fail)?;
        self.state = OverlayState::Committing;
        Ok(())
    }
}

fn lock(file: &File) -> io::Result<()> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::AGAIN => {
            io::Error::new(ErrorKind::ResourceBusy, "a running array or another command uses this overlay")
        }
        other => other.into(),
    })
}
