//! The layout of `/proc/mdstat`, to the space, so that what reads that file can read uraid's.

use std::fmt::{self, Write};

use crate::status::{ArrayStatus, BitmapStatus, MemberState, MemberStatus, RunState, SyncKind, SyncPhase, SyncStatus};
use crate::units::{human_minutes, human_speed};

/// Width of the progress bar, the arrow's head not counted.
const BAR: u64 = 20;
const PAGE_KIB: u64 = 4;

/// The whole file: a line of the levels there are, the arrays, and a last line.
#[must_use]
pub fn mdstat(levels: &[&str], arrays: &[ArrayStatus]) -> String {
    let mut text = String::from("Personalities : ");
    for level in levels {
        text.extend(["[", level, "] "]);
    }
    text.push('\n');
    for array in arrays {
        text += &array.to_string();
    }
    text + "unused devices: <none>\n"
}

/// The array's paragraph of the file, with the line end.
impl fmt::Display for ArrayStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} : ", self.name)?;
        match self.state {
            RunState::Inactive => f.write_str("inactive")?,
            RunState::Active => write!(f, "active {}", self.level)?,
            RunState::ReadOnly => write!(f, "active (read-only) {}", self.level)?,
            RunState::AutoReadOnly => write!(f, "active (auto-read-only) {}", self.level)?,
        }
        self.members.iter().try_for_each(|member| write_member(f, member))?;
        write!(f, "\n      {} blocks", self.blocks_kib)?;
        if self.metadata != "0.90" {
            write!(f, " super {}", self.metadata)?;
        }
        if self.state == RunState::Inactive {
            return f.write_str("\n       \n");
        }
        f.write_char(' ')?;
        self.write_geometry(f)?;
        if let Some(sync) = &self.sync {
            match sync.phase {
                SyncPhase::Running => write!(f, "\n      {}", sync_line(sync))?,
                SyncPhase::Delayed => f.write_str("\n      \tresync=DELAYED")?,
                SyncPhase::Pending => f.write_str("\n      \tresync=PENDING")?,
            }
        }
        f.write_str("\n      ")?;
        if let Some(bitmap) = &self.bitmap {
            write_bitmap(f, bitmap)?;
            f.write_char('\n')?;
        }
        f.write_char('\n')
    }
}

impl ArrayStatus {
    fn write_geometry(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunk = self.chunk_kib;
        match self.level.as_str() {
            "linear" => return write!(f, "{chunk}k rounding"),
            "raid0" => return write!(f, "{chunk}k chunks"),
            "raid10" => {
                let (near, far, offset) = (self.layout & 0xff, self.layout >> 8 & 0xff, self.layout & 1 << 16 != 0);
                write!(f, "{chunk}K chunks")?;
                if near > 1 {
                    write!(f, " {near} near-copies")?;
                }
                if far > 1 {
                    write!(f, " {far} {}-copies", if offset { "offset" } else { "far" })?;
                }
                if let Some(set) = set_members(self.layout, self.raid_disks()).filter(|&set| set != self.raid_disks()) {
                    write!(f, " {set} devices per set")?;
                }
                f.write_char(' ')?;
            }
            "raid4" | "raid5" | "raid6" => {
                write!(f, "level {}, {chunk}k chunk, algorithm {} ", &self.level[4..], self.layout)?;
            }
            _ => {}
        }
        let map: String = self.slots_up.iter().map(|up| if *up { 'U' } else { '_' }).collect();
        write!(f, "[{}/{}] [{map}]", self.raid_disks(), self.in_sync())
    }
}

/// RAID10's members per set of far copies: the older sets (bit 17) split the array, the newer ones (bit 18) hold one set of copies.
fn set_members(layout: u32, raid_disks: usize) -> Option<usize> {
    let (near, far) = (layout as usize & 0xff, layout as usize >> 8 & 0xff);
    match layout >> 17 & 3 {
        0 => None,
        1 => raid_disks.checked_div(far),
        _ => Some(near * far),
    }
}

fn write_member(f: &mut fmt::Formatter<'_>, member: &MemberStatus) -> fmt::Result {
    write!(f, " {}[{}]", member.name, member.number)?;
    let faulty = member.state == MemberState::Faulty;
    let flags = [
        (member.write_mostly, "(W)"),
        (member.journal, "(J)"),
        (faulty, "(F)"),
        (member.state == MemberState::Spare, "(S)"),
        (member.replacement && !faulty, "(R)"),
    ];
    flags.iter().filter(|(is, _)| *is).try_for_each(|(_, flag)| f.write_str(flag))
}

fn write_bitmap(f: &mut fmt::Formatter<'_>, bitmap: &BitmapStatus) -> fmt::Result {
    let BitmapStatus { pages_used, pages, chunk_bytes } = *bitmap;
    write!(f, "bitmap: {pages_used}/{pages} pages [{}KB], ", pages_used * PAGE_KIB)?;
    match chunk_bytes / 1024 {
        0 => write!(f, "{chunk_bytes}B chunk"),
        kib => write!(f, "{kib}KB chunk"),
    }
}

/// The progress of work in the background, on one line:
/// `[=====>...............]  recovery = 25.9% (10240/38912) finish=0.0min speed=10240K/sec`, positions in KiB.
#[must_use]
pub fn sync_line(sync: &SyncStatus) -> String {
    let per_mille = per_mille(sync.done_sectors, sync.total_sectors);
    let filled = usize::try_from((per_mille * BAR / 1000).min(BAR)).unwrap_or_default();
    let open = usize::try_from(BAR).unwrap_or_default() - filled;
    format!(
        "[{}>{}]  {} ={:3}.{}% ({}/{}) finish={} speed={}",
        "=".repeat(filled),
        ".".repeat(open),
        label(sync.kind),
        per_mille / 10,
        per_mille % 10,
        sync.done_sectors / 2,
        sync.total_sectors / 2,
        human_minutes(sync.finish_s),
        human_speed(sync.speed_kib_s),
    )
}

/// md calls a repair a resync.
fn label(kind: SyncKind) -> &'static str {
    match kind {
        SyncKind::Resync | SyncKind::Repair => "resync",
        SyncKind::Recovery => "recovery",
        SyncKind::Check => "check",
        SyncKind::Reshape => "reshape",
    }
}

/// md counts whole units of 1024 sectors and one unit more in all, so that work in progress never shows 100 %; small
/// arrays show less than a division would.
fn per_mille(done_sectors: u64, total_sectors: u64) -> u64 {
    (done_sectors >> 10) * 1000 / ((total_sectors >> 10) + 1)
}
