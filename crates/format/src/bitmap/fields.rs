//! Every number of a bitmap's superblock as found, whether or not it makes sense: for `examine --bitmap`.

use uraid_types::SectorCount;
use uuid::Uuid;
use zerocopy::FromBytes;

use super::{BITMAP_MAGIC, BitmapHead, BitmapVersion};

/// The fields of a bitmap's superblock, unchecked, by the names that md gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitmapFields {
    /// `0x6d746962`, or it is no bitmap.
    pub magic: u32,
    /// 3 and 4 are usual, 5 is a cluster's, 6 lockless.
    pub version: u32,
    /// The array's UUID.
    pub uuid: Uuid,
    /// The array's events when it was last written.
    pub events: u64,
    /// The events at which bits were last cleared.
    pub events_cleared: u64,
    /// What it covers, in sectors: of each member; of the array for RAID10.
    pub sync_size: u64,
    /// 0, or 2 for bits that are out of date, and more.
    pub state: u32,
    /// Bytes of `sync_size` for each bit.
    pub chunksize: u32,
    /// Seconds between rounds that clear bits.
    pub daemon_sleep: u32,
    /// Writes that may be behind on write-mostly members; 0 for none.
    pub write_behind: u32,
    /// Sectors kept for it; 0 when not recorded.
    pub sectors_reserved: u32,
    /// Nodes of a cluster; 0 for none.
    pub nodes: u32,
    /// The cluster's name up to its first NUL.
    pub cluster_name: Vec<u8>,
}

impl BitmapFields {
    /// Reads them from the start of `bytes`; `None` when that is not how a bitmap begins, or too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<BitmapFields> {
        let (raw, _) = BitmapHead::read_from_prefix(bytes).ok()?;
        let name = raw.cluster_name.split(|byte| *byte == 0).next().unwrap_or_default();
        (raw.magic.get() == BITMAP_MAGIC).then(|| BitmapFields {
            magic: raw.magic.get(),
            version: raw.version.get(),
            uuid: Uuid::from_bytes(raw.uuid),
            events: raw.events.get(),
            events_cleared: raw.events_cleared.get(),
            sync_size: raw.sync_size.get(),
            state: raw.state.get(),
            chunksize: raw.chunksize.get(),
            daemon_sleep: raw.daemon_sleep.get(),
            write_behind: raw.write_behind.get(),
            sectors_reserved: raw.sectors_reserved.get(),
            nodes: raw.nodes.get(),
            cluster_name: name.to_vec(),
        })
    }

    /// The version, where it is one that is known.
    #[must_use]
    pub fn known_version(&self) -> Option<BitmapVersion> {
        BitmapVersion::of(self.version)
    }

    /// Chunks that it speaks of; `None` when a chunk is less than a sector.
    #[must_use]
    pub fn bits(&self) -> Option<u64> {
        let chunk = SectorCount::floor_bytes(u64::from(self.chunksize)).0;
        (chunk > 0).then(|| self.sync_size.div_ceil(chunk))
    }
}
