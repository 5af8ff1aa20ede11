//! What there is to say of a running array.

use serde::{Deserialize, Serialize};

/// An array as `/proc/mdstat` sees it. Sizes are in the units of that file; the JSON of `uraid status` has these fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayStatus {
    /// Name, `md0`.
    pub name: String,
    /// Whether it runs, and how.
    pub state: RunState,
    /// Level as md names it: `raid6`, `linear`.
    pub level: String,
    /// Members in the order to show them. (The kernel shows the one that was added last first.)
    pub members: Vec<MemberStatus>,
    /// Size of the array in KiB.
    pub blocks_kib: u64,
    /// Metadata version: `1.2`, `0.90`.
    pub metadata: String,
    /// Chunk in KiB; for linear the rounding, 0 when there is none.
    pub chunk_kib: u64,
    /// Layout as the superblock holds it: the parity algorithm, or RAID10's copies.
    pub layout: u32,
    /// Each slot, in order: whether its data is complete.
    pub slots_up: Vec<bool>,
    /// What goes on in the background.
    pub sync: Option<SyncStatus>,
    /// The write-intent bitmap.
    pub bitmap: Option<BitmapStatus>,
}

impl ArrayStatus {
    /// How many members the array has when complete.
    #[must_use]
    pub fn raid_disks(&self) -> usize {
        self.slots_up.len()
    }

    /// How many of them are in sync.
    #[must_use]
    pub fn in_sync(&self) -> usize {
        self.slots_up.iter().filter(|up| **up).count()
    }

    /// Whether some slot's data is not complete.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.in_sync() < self.raid_disks()
    }
}

/// Whether and how an array runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Assembled in part, not started.
    Inactive,
    /// Takes reads and writes.
    Active,
    /// Takes reads only.
    ReadOnly,
    /// Takes reads only until the first write comes.
    AutoReadOnly,
}

/// One member of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Name without its directory.
    pub name: String,
    /// The number that the metadata knows the member by. A spare that has taken over keeps its own, so this need not be
    /// the slot.
    pub number: u32,
    /// The slot that it fills or is being rebuilt for.
    pub slot: Option<u32>,
    /// What it is to the array.
    pub state: MemberState,
    /// Read only when no other copy can be.
    pub write_mostly: bool,
    /// Being filled to take the place of a member that still works.
    pub replacement: bool,
    /// Holds the write journal instead of data.
    pub journal: bool,
}

/// What a member is to its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// Holds its slot's data.
    InSync,
    /// Being filled with its slot's data.
    Rebuilding,
    /// Waits to take over.
    Spare,
    /// Failed; no longer used.
    Faulty,
}

/// Work in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncStatus {
    /// Which.
    pub kind: SyncKind,
    /// Whether it moves.
    pub phase: SyncPhase,
    /// Member sectors (512 bytes) done, counted from the member's first data sector.
    pub done_sectors: u64,
    /// Member sectors to do in all.
    pub total_sectors: u64,
    /// Speed in KiB per second and member.
    pub speed_kib_s: u64,
    /// Seconds left at that speed.
    pub finish_s: u64,
}

/// Which work it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncKind {
    /// Copies and parity are made right after an unclean stop or at creation.
    Resync,
    /// A member is filled.
    Recovery,
    /// Copies and parity are compared.
    Check,
    /// Copies and parity are compared and made right.
    Repair,
    /// The layout or the number of members changes.
    Reshape,
}

/// Whether the work moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPhase {
    /// It does.
    Running,
    /// It waits for another array on the same disks.
    Delayed,
    /// It waits for the array to be written to.
    Pending,
}

/// The write-intent bitmap in memory. A page is 4 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BitmapStatus {
    /// Pages that hold something.
    pub pages_used: u64,
    /// Pages in all.
    pub pages: u64,
    /// What one bit stands for, in bytes.
    pub chunk_bytes: u64,
}
