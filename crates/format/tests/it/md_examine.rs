//! Field by field against what mdadm's `--examine` said of the same bytes.

use uraid_format::{Bitmap, BitmapSuper, Feature, RawFields, Role, Superblock, parse_bad_blocks};
use uraid_types::{Level, Sector, SectorCount};
use uuid::Uuid;

use crate::fixtures::{GOOD, parse, place, read, text};

/// The value after `key : `, if the text has such a line.
pub fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(" : ")?;
        (found.trim() == key).then(|| value.trim())
    })
}

/// The first number of a value.
pub fn number<T: std::str::FromStr>(text: &str, key: &str) -> Option<T> {
    value(text, key)?.split_whitespace().next()?.parse().ok()
}

/// mdadm prints UUIDs as four groups of eight digits.
pub fn md_uuid(id: Uuid) -> String {
    let digits = id.simple().to_string();
    [&digits[..8], &digits[8..16], &digits[16..24], &digits[24..]].join(":")
}

/// All fixtures are of 30 November 2026, UTC: day 20787 since 1970.
fn md_time(seconds: u64) -> String {
    assert_eq!(seconds / 86400, 20787);
    let in_day = seconds % 86400;
    format!("Mon Nov 30 {:02}:{:02}:{:02} 2026", in_day / 3600, in_day / 60 % 60, in_day % 60)
}

fn array_state(superblock: &Superblock) -> String {
    let holds = |slot: u16| superblock.roles.iter().any(|role| matches!(role, Role::Active(held) if held.0 == slot));
    (0..superblock.raid_disks).map(|slot| if holds(slot) { 'A' } else { '.' }).collect()
}

#[test]
fn every_field_agrees_with_mdadm() {
    for name in GOOD {
        let said = text(&format!("{name}.examine"));
        let raw = parse(name).unwrap();
        let sb = raw.superblock();
        let is = |key: &str, ours: String| assert_eq!(value(&said, key).unwrap_or("absent"), ours, "{name}: {key}");
        is("Version", sb.version.name().to_owned());
        is("Feature Map", format!("{:#x}", sb.features));
        is("Array UUID", md_uuid(sb.array_id));
        is("Device UUID", md_uuid(sb.device_id));
        is("Name", String::from_utf8(sb.name.clone()).unwrap());
        is("Creation Time", md_time(sb.created_seconds));
        is("Update Time", md_time(sb.updated_seconds));
        is("Raid Level", sb.level.name().to_owned());
        is("Raid Devices", sb.raid_disks.to_string());
        is("Events", sb.events.to_string());
        is("State", if sb.resync_offset.is_none() { "clean" } else { "active" }.to_owned());
        assert_eq!(number(&said, "Avail Dev Size"), Some(sb.data_size.0), "{name}");
        assert_eq!(number(&said, "Super Offset"), Some(sb.super_offset.0), "{name}");
        assert_eq!(number(&said, "Data Offset").unwrap_or(0), sb.data_offset.0, "{name}");
        if let Some(used) = number(&said, "Used Dev Size") {
            assert_eq!(sb.used_size, SectorCount(used), "{name}");
        }
        assert_eq!(number(&said, "Internal Bitmap"), sb.bitmap_offset, "{name}");
        // "2048 sectors at offset 8 sectors from superblock"
        let ppl = sb.ppl.map(|area| format!("{} sectors at offset {} sectors from superblock", area.sectors, area.offset));
        assert_eq!(value(&said, "PPL"), ppl.as_deref(), "{name}");
        assert_eq!(sb.journal_tail.is_some(), sb.own_role() == Role::Journal, "{name}");
        assert_eq!(number(&said, "Recovery Offset").map(Sector), sb.recovery_offset, "{name}");
        let log = value(&said, "Bad Block Log").unwrap();
        assert!(log.starts_with(&format!("512 entries available at offset {} sectors", sb.bad_block_offset)), "{name}");
        assert_eq!(log.contains("bad blocks present"), sb.has(Feature::BadBlocks), "{name}");
        assert_eq!(sb.bad_block_sectors, 8, "{name}");
        assert_eq!(value(&said, "Flags"), sb.flags.write_mostly.then_some("write-mostly"), "{name}");
        // Without the feature bit, RAID0's layout means nothing though mdadm prints it; RAID4 has none to print.
        if sb.level.has_chunks() {
            is("Chunk Size", format!("{}K", sb.chunk.0 / 2));
        }
        if matches!(sb.level, Level::Raid5 | Level::Raid6) {
            is("Layout", sb.layout.to_string());
        }
        assert_eq!(value(&said, "Array State").unwrap().split(' ').next(), Some(&*array_state(sb)), "{name}");
        let role = match sb.own_role() {
            Role::Active(slot) => format!("Active device {}", slot.0),
            Role::Spare => "spare".to_owned(),
            Role::Journal => "Journal".to_owned(),
            other => panic!("{name}: {other:?}"),
        };
        is("Device Role", role);
    }
}

#[test]
fn checksums_agree_with_mdadm() {
    for name in GOOD {
        let fields = RawFields::read(&read(&format!("{name}.super"))).unwrap();
        assert_eq!(fields.checksum_expected, Some(fields.checksum_found), "{name}");
        let said = text(&format!("{name}.examine"));
        assert_eq!(value(&said, "Checksum"), Some(&*format!("{:x} - correct", fields.checksum_found)), "{name}");
    }
}

#[test]
fn bitmaps_agree_with_mdadm() {
    for (name, chunk_bytes) in
        [("raid5-1.2-bitmap", 1 << 20), ("raid5-1.2-running-dirty", 1 << 20), ("raid1-1.0-failed-write-mostly", 64 << 20)]
    {
        let said = text(&format!("{name}.examine-bitmap"));
        let bytes = read(&format!("{name}.bitmap"));
        let raw = parse(name).unwrap();
        let sb = raw.superblock();
        let start = sb.bitmap_start().unwrap();
        let offset: i64 = number(&text(&format!("{name}.examine")), "Internal Bitmap").unwrap();
        assert_eq!(start.0 as i64, place(name).0 as i64 + offset);
        let bitmap = BitmapSuper::parse(&bytes, start).unwrap();
        bitmap.check_usable(sb, crate::fixtures::MEMBER).unwrap();
        assert_eq!(number(&said, "Version"), Some(bitmap.version.number()));
        assert_eq!(value(&said, "UUID"), Some(&*md_uuid(bitmap.id)));
        assert_eq!(number(&said, "Events"), Some(bitmap.events));
        assert_eq!(number(&said, "Events Cleared"), Some(bitmap.events_cleared));
        assert_eq!(value(&said, "State") == Some("OK"), !bitmap.is_stale());
        assert_eq!(value(&said, "Chunksize"), Some(&*format!("{} MB", chunk_bytes >> 20)));
        assert_eq!(bitmap.chunk_bytes, chunk_bytes);
        assert_eq!(value(&said, "Daemon"), Some(&*format!("{}s flush period", bitmap.daemon_sleep_seconds)));
        assert_eq!(number::<u64>(&said, "Sync Size").map(|kib| SectorCount(kib * 2)), Some(bitmap.sync_size));
        let bits = Bitmap::from_bytes(bitmap.bits(), &bytes[256..]).unwrap();
        let counts = format!("{} bits (chunks), {} dirty", bits.len(), bits.count());
        assert!(value(&said, "Bitmap").unwrap().starts_with(&counts), "{name}: {counts}");
        let rewritten = [&bitmap.to_bytes()[..], &bits.bytes(0..256)].concat();
        assert!(rewritten == bytes, "{name}: the bitmap changed");
    }
}

#[test]
fn bad_blocks_agree_with_mdadm() {
    let said = text("raid1-1.2-bad-blocks.examine-badblocks");
    let listed: Vec<_> = said
        .lines()
        .filter_map(|line| {
            let (start, rest) = line.trim().split_once(" for ")?;
            Some((Sector(start.parse().ok()?), SectorCount(rest.split(' ').next()?.parse().ok()?)))
        })
        .collect();
    assert_eq!(listed.len(), 4);
    let log = read("raid1-1.2-bad-blocks.badblocks");
    let sb = parse("raid1-1.2-bad-blocks").unwrap().superblock().clone();
    assert_eq!(parse_bad_blocks(&log, sb.bad_block_shift).unwrap(), listed);
    assert_eq!(uraid_format::bad_blocks_to_bytes(&listed, sb.bad_block_shift, log.len()).unwrap(), log);
    assert_eq!(sb.bad_block_log(), Some((Sector(24), SectorCount(8))));
}
