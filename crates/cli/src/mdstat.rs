//! A running array as `/proc/mdstat` shows it.

use std::path::Path;

use uraid_array::core;
use uraid_report::{ArrayStatus, BitmapStatus, MemberState, MemberStatus, RunState, SyncKind, SyncPhase, SyncStatus};

use crate::control::Running;

/// Bits that one page of the bitmap counts for, in the kernel's memory: two bytes a bit.
const BITS_PER_PAGE: u64 = 2048;

/// The paragraph of `running`.
pub fn array_status(running: &Running) -> ArrayStatus {
    let array = &running.array;
    ArrayStatus {
        name: running.name.clone(),
        state: if array.read_only { RunState::ReadOnly } else { RunState::Active },
        level: array.level.clone(),
        members: array.members.iter().map(member).collect(),
        blocks_kib: array.size_bytes / 1024,
        metadata: array.metadata.clone(),
        chunk_kib: array.chunk_bytes / 1024,
        layout: array.layout_number,
        slots_up: array.up.chars().map(|slot| slot == 'U').collect(),
        sync: sync(running),
        bitmap: array.bitmap.as_ref().map(bitmap),
    }
}

fn member(member: &core::MemberStatus) -> MemberStatus {
    let path = Path::new(&member.name);
    MemberStatus {
        name: path.file_name().map_or_else(|| member.name.clone(), |name| name.to_string_lossy().into_owned()),
        number: member.number,
        slot: member.slot.map(u32::from),
        state: match member.state.as_str() {
            "in_sync" => MemberState::InSync,
            "rebuilding" => MemberState::Rebuilding,
            "spare" => MemberState::Spare,
            _ => MemberState::Faulty,
        },
        write_mostly: member.write_mostly,
        replacement: false,
        journal: false,
    }
}

fn sync(running: &Running) -> Option<SyncStatus> {
    let array = &running.array;
    match &array.sync {
        Some(sync) => Some(SyncStatus {
            kind: kind(&sync.kind),
            phase: SyncPhase::Running,
            done_sectors: sync.done_sectors,
            total_sectors: sync.end_sectors,
            speed_kib_s: running.speed_kib_s,
            finish_s: running.finish_s.unwrap_or(0),
        }),
        // Due and not running: the array is read-only, or the last run could not go on.
        None if array.resync_pending => Some(SyncStatus {
            kind: SyncKind::Resync,
            phase: SyncPhase::Pending,
            done_sectors: 0,
            total_sectors: 0,
            speed_kib_s: 0,
            finish_s: 0,
        }),
        None => None,
    }
}

fn kind(name: &str) -> SyncKind {
    match name {
        "recovery" => SyncKind::Recovery,
        "check" => SyncKind::Check,
        "repair" => SyncKind::Repair,
        _ => SyncKind::Resync,
    }
}

/// A page is in use while any of its bits is set; of bits that are spread out no more is known than how many there are.
fn bitmap(bitmap: &core::BitmapStatus) -> BitmapStatus {
    let pages = bitmap.bits.div_ceil(BITS_PER_PAGE);
    BitmapStatus { pages_used: bitmap.set.min(pages), pages, chunk_bytes: bitmap.chunk_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_looks_as_in_the_kernels_file() {
        let member = |name: &str, number: u32, slot: Option<u16>, state: &str| core::MemberStatus {
            name: format!("/srv/{name}"),
            number,
            slot,
            state: state.into(),
            write_mostly: false,
        };
        let sync = core::SyncStatus {
            kind: "recovery".into(),
            done_sectors: 20_480,
            end_sectors: 77_824,
            mismatch_sectors: 0,
            unreadable_sectors: 0,
            complete: false,
        };
        let array = core::Status {
            level: "raid5".into(),
            layout: "left-symmetric".into(),
            layout_number: 2,
            size_bytes: 77_824 << 10,
            chunk_bytes: 512 << 10,
            member_bytes: 38_912 << 10,
            raid_disks: 3,
            metadata: "1.2".into(),
            uuid: String::new(),
            name: "host:0".into(),
            events: 20,
            state: "clean, degraded, recovery".into(),
            degraded: 1,
            resync_pending: false,
            read_only: false,
            broken: None,
            members: vec![
                member("loop0", 0, Some(0), "in_sync"),
                member("loop1", 1, None, "faulty"),
                member("loop2", 3, Some(2), "in_sync"),
                member("loop3", 4, Some(1), "rebuilding"),
            ],
            up: "U_U".into(),
            sync: Some(sync),
            last_sync: None,
            reshape: None,
            sync_speed_min_kib: None,
            sync_speed_max_kib: None,
            ios: Default::default(),
            bitmap: None,
        };
        let running = Running {
            name: "md0".into(),
            pid: 1,
            nbd: vec![],
            fuse: vec![],
            member_paths: vec![],
            speed_kib_s: 10_240,
            finish_s: Some(2),
            array,
        };
        // A recovery of three loop devices in Linux 6.1, the order of members apart.
        assert_eq!(
            array_status(&running).to_string(),
            "md0 : active raid5 loop0[0] loop1[1](F) loop2[3] loop3[4]\n      \
             77824 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/2] [U_U]\n      \
             [=====>...............]  recovery = 25.9% (10240/38912) finish=0.0min speed=10240K/sec\n      \n"
        );

        // A resync that is due and cannot go on, in Linux's word for one that has not begun.
        let due = core::Status { sync: None, resync_pending: true, ..running.array.clone() };
        let stuck = Running { array: due, ..running };
        assert!(array_status(&stuck).to_string().contains("resync=PENDING"), "{}", array_status(&stuck));
    }
}
