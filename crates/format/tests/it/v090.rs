//! Version 0.90: superblocks that the kernel wrote, against what mdadm's `--examine` said of the same bytes; the same ones as a
//! big-endian machine would have written them; what is not understood; what is created.

use proptest::prelude::*;
use uraid_format::{
    Bitmap, BitmapSuper, BitmapVersion, ByteOrder, Feature, MetadataVersion, RawFields090, RawSuper, Role, SuperErrorKind,
    Superblock,
};
use uraid_types::{Level, Sector, SectorCount, Slot};

use crate::fixtures::{MEMBER, parse, place, read, text};
use crate::md_examine::{md_uuid, number, value};

const GOOD: [&str; 9] = [
    "raid5-0.90-running",
    "raid5-0.90-recovering",
    "raid5-0.90-spare-took-over",
    "raid5-0.90-failed",
    "raid1-0.90-write-mostly-missing",
    "raid6-0.90-resync-stopped",
    "linear-0.90",
    "raid10-0.90",
    "raid4-0.90",
];

fn bytes(name: &str) -> Vec<u8> {
    read(&format!("{name}.super"))
}

/// What mdadm printed of a device: number, slot, words.
fn device(said: &str, first: &str) -> Option<(u32, u32, String)> {
    let line = said.lines().find(|line| line.split_whitespace().next() == Some(first) && line.starts_with([' ', 't']))?;
    let mut words = line.split_whitespace().skip(1);
    let number = words.next()?.parse().ok()?;
    let slot = words.nth(2)?.parse().ok()?;
    let state: Vec<&str> = words.filter(|word| !word.starts_with('/')).collect();
    Some((number, slot, state.join(" ")))
}

#[test]
fn every_field_agrees_with_mdadm() {
    for name in GOOD {
        let said = text(&format!("{name}.examine"));
        let raw = parse(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (sb, fields) = (raw.superblock(), RawFields090::read(&bytes(name)).unwrap());
        let is = |key: &str, ours: String| assert_eq!(value(&said, key).unwrap_or("absent"), ours, "{name}: {key}");
        is("Version", format!("0.{}.{:02}", fields.minor_version, fields.patch_version));
        is("Raid Level", sb.level.name().to_owned());
        is("Raid Devices", sb.raid_disks.to_string());
        is("Total Devices", fields.nr_disks.to_string());
        is("Preferred Minor", sb.preferred_minor.to_string());
        is("State", if sb.resync_offset.is_none() { "clean" } else { "active" }.to_owned());
        is("Active Devices", fields.active_disks.to_string());
        is("Working Devices", fields.working_disks.to_string());
        is("Failed Devices", fields.failed_disks.to_string());
        is("Spare Devices", fields.spare_disks.to_string());
        is("Checksum", format!("{:x} - correct", fields.checksum_expected));
        is("Events", sb.events.to_string());
        assert!(value(&said, "UUID").unwrap().starts_with(&md_uuid(sb.array_id)), "{name}: UUID");
        assert_eq!(value(&said, "Internal Bitmap").is_some(), sb.has(Feature::Bitmap), "{name}");
        if sb.level.is_redundant() {
            assert_eq!(number(&said, "Used Dev Size").map(|kib: u64| SectorCount(2 * kib)), Some(sb.used_size), "{name}");
        }
        if matches!(sb.level, Level::Raid5 | Level::Raid6) {
            is("Layout", sb.layout.to_string());
        }
        if sb.level.has_chunks() {
            is("Chunk Size", format!("{}K", sb.chunk.0 / 2));
        }
        let this = device(&said, "this").unwrap();
        assert_eq!(this.0, sb.dev_number, "{name}");
        for (index, role) in sb.roles.iter().enumerate() {
            let (_, slot, words) = device(&said, &index.to_string()).unwrap_or_else(|| panic!("{name}: no device {index}"));
            match role {
                Role::Active(own) => {
                    assert_eq!((words.contains("active sync"), slot), (true, u32::from(own.0)), "{name} {index}")
                }
                Role::Spare => assert_eq!(words, "spare", "{name} {index}"),
                // A slot that mdadm made without a member has a descriptor of zeros, which it calls spare.
                Role::Faulty => assert!(words.contains("removed") || words == "spare" && index == 2, "{name} {index}: {words}"),
                Role::Journal => panic!("{name}: a journal in version 0.90"),
            }
        }
        assert_eq!((sb.data_offset, sb.data_size, sb.super_offset), (Sector(0), SectorCount(place(name).0), place(name)));
    }
}

#[test]
fn states_are_understood() {
    let superblock = |name: &str| parse(name).unwrap().superblock().clone();
    // mdstat said "resync stopped at 30720 / 130944"
    assert_eq!(superblock("raid6-0.90-resync-stopped").resync_offset, Some(Sector(30720)));
    assert_eq!(superblock("raid5-0.90-running").resync_offset, None, "the bitmap holds what is due");
    let recovering = superblock("raid5-0.90-recovering");
    assert_eq!(recovering.roles, [Role::Active(Slot(0)), Role::Faulty, Role::Active(Slot(2)), Role::Spare]);
    let took_over = superblock("raid5-0.90-spare-took-over");
    assert_eq!((took_over.own_role(), took_over.dev_number), (Role::Active(Slot(1)), 1));
    // The member that failed was not told.
    assert_eq!(superblock("raid5-0.90-failed").own_role(), Role::Active(Slot(1)));
    let missing = superblock("raid1-0.90-write-mostly-missing");
    assert_eq!(missing.roles, [Role::Active(Slot(0)), Role::Active(Slot(1)), Role::Faulty]);
    assert!(!missing.flags.write_mostly, "that is the other member");
    assert_eq!(missing.preferred_minor, 7);
}

#[test]
fn a_reshape_is_named_and_its_fields_shown() {
    // mdadm --examine: "Reshape pos'n : 12480" KiB, "Delta Devices : 1 (3->4)"
    let superblock = parse("raid5-0.90-reshaping").unwrap().superblock().clone();
    let reshape = superblock.reshape.unwrap();
    assert_eq!((reshape.position, reshape.delta_disks, reshape.backwards), (Sector(2 * 12480), 1, false));
    assert_eq!((superblock.before_reshape().raid_disks, superblock.after_reshape().raid_disks), (3, 4));
    let fields = RawFields090::read(&bytes("raid5-0.90-reshaping")).unwrap();
    assert!(fields.is_reshaping());
    assert_eq!((fields.reshape_position, fields.delta_disks), (2 * 12480, 1));
    assert_eq!((fields.new_level, fields.new_layout, fields.new_chunk), (5, 2, 65536));
}

#[test]
fn bitmaps_agree_with_mdadm() {
    for name in ["raid5-0.90-running", "raid5-0.90-spare-took-over"] {
        let (said, raw) = (text(&format!("{name}.examine-bitmap")), parse(name).unwrap());
        let image = read(&format!("{name}.bitmap"));
        let sb = raw.superblock();
        let bitmap = BitmapSuper::parse(&image, sb.bitmap_start().unwrap()).unwrap();
        bitmap.check_usable(sb, MEMBER).unwrap();
        assert_eq!(value(&said, "UUID"), Some(&*md_uuid(sb.array_id)), "shown in the array's order");
        assert_ne!(bitmap.id, sb.array_id, "stored in the machine's order");
        assert_eq!(number(&said, "Events"), Some(bitmap.events));
        let bits = Bitmap::from_bytes(bitmap.bits(), &image[256..]).unwrap();
        let counts = format!("{} bits (chunks), {} dirty", bits.len(), bits.count());
        assert!(value(&said, "Bitmap").unwrap().starts_with(&counts), "{name}: {counts}");
    }
}

#[test]
fn superblocks_go_round_byte_for_byte() {
    for name in GOOD {
        let mut raw = parse(name).unwrap();
        assert!(raw.to_bytes() == bytes(name), "{name} changed");
        raw.update(|_| ());
        assert!(raw.to_bytes() == bytes(name), "{name} changed by an update of nothing");
    }
}

#[test]
fn a_table_written_anew_reads_the_same() {
    for name in GOOD {
        let sb = parse(name).unwrap().superblock().clone();
        let again = RawSuper::parse(&RawSuper::from_new(sb.clone()).to_bytes(), place(name), MEMBER).unwrap();
        assert_eq!(again.superblock(), &sb, "{name}");
        let (old, new) = (RawFields090::read(&bytes(name)).unwrap(), RawFields090::read(&again.to_bytes()).unwrap());
        // Of all devices the kernel and mdadm each have an own idea while one is faulty.
        let counts = |fields: &RawFields090| (fields.active_disks, fields.working_disks, fields.failed_disks, fields.spare_disks);
        assert_eq!(counts(&old), counts(&new), "{name}");
    }
}

/// The kernel's bytes as a big-endian machine has them: each word turned round, and the halves of 64-bit numbers exchanged.
fn turned_round(bytes: &[u8]) -> Vec<u8> {
    let mut words: Vec<[u8; 4]> = bytes.chunks_exact(4).map(|word| [word[3], word[2], word[1], word[0]]).collect();
    for first in [39, 41, 44] {
        words.swap(first, first + 1);
    }
    words.concat()
}

#[test]
fn the_other_byte_order_says_the_same() {
    for name in GOOD {
        let (little, turned) = (parse(name).unwrap(), turned_round(&bytes(name)));
        let big = RawSuper::parse(&turned, place(name), MEMBER).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(big.superblock(), &Superblock { byte_order: ByteOrder::Big, ..little.superblock().clone() }, "{name}");
        assert!(big.to_bytes() == turned, "{name}: written in the order it was found in");
        let fields = RawFields090::read(&turned).unwrap();
        assert_eq!(fields, RawFields090 { byte_order: ByteOrder::Big, ..RawFields090::read(&bytes(name)).unwrap() });
    }
    let raw = RawSuper::parse(&turned_round(&bytes("raid5-0.90-running")), place("-0.90"), MEMBER).unwrap();
    let mut bitmap = BitmapSuper::new(raw.superblock().bitmap_id(), raw.superblock().used_size, 1 << 20);
    assert_eq!(bitmap.id, raw.superblock().array_id, "a big-endian machine's own order is the one that is shown");
    bitmap.check_usable(raw.superblock(), MEMBER).unwrap();
    bitmap.version = BitmapVersion::HostEndian;
    bitmap.check_usable(raw.superblock(), MEMBER).unwrap_err();
}

#[test]
fn spares_are_counted_from_behind_the_slots() {
    let mut raw = parse("raid5-0.90-recovering").unwrap();
    raw.update(|sb| {
        // Device 5 has taken slot 1 over and 3 still waits, by the numbers of the running array.
        sb.roles =
            vec![Role::Active(Slot(0)), Role::Faulty, Role::Active(Slot(2)), Role::Spare, Role::Faulty, Role::Active(Slot(1))];
        sb.dev_number = 5;
    });
    let read = RawSuper::parse(&raw.to_bytes(), place("-0.90"), MEMBER).unwrap();
    let sb = read.superblock();
    assert_eq!(sb.roles, [Role::Active(Slot(0)), Role::Active(Slot(1)), Role::Active(Slot(2)), Role::Spare]);
    assert_eq!(sb.dev_number, 1);
    raw.update(|sb| sb.recovery_offset = Some(Sector(64)));
    let read = RawSuper::parse(&raw.to_bytes(), place("-0.90"), MEMBER).unwrap();
    assert_eq!((read.superblock().own_role(), read.superblock().roles[1]), (Role::Spare, Role::Faulty));
}

#[test]
fn what_is_wrong_is_named() {
    let refuse = |change: fn(&mut [u8]), kind: SuperErrorKind, field: &str| {
        let mut bytes = bytes("raid5-0.90-spare-took-over");
        change(&mut bytes);
        if kind != SuperErrorKind::Checksum {
            let sum = RawFields090::read(&bytes).unwrap().checksum_expected;
            bytes[38 * 4..39 * 4].copy_from_slice(&sum.to_le_bytes());
        }
        let error = RawSuper::parse(&bytes, place("-0.90"), MEMBER).unwrap_err();
        assert_eq!((error.kind, error.field), (kind, field), "{error}");
    };
    refuse(|bytes| bytes[4000] ^= 1, SuperErrorKind::Checksum, "sb_csum");
    refuse(|bytes| bytes[8] = 92, SuperErrorKind::MajorVersion, "minor_version");
    refuse(|bytes| bytes[10 * 4] = 28, SuperErrorKind::RaidDisks, "raid_disks");
    refuse(|bytes| bytes[8 * 4 + 2] = 1, SuperErrorKind::UsedSize, "size");
    refuse(|bytes| bytes[65 * 4] = 1, SuperErrorKind::Chunk, "chunk_size");
    refuse(|bytes| bytes[992 * 4] = 27, SuperErrorKind::DevNumber, "this_disk.number");
    refuse(|bytes| bytes[(128 + 3) * 4] = 3, SuperErrorKind::Role, "raid_disk");
    refuse(|bytes| bytes[33 * 4] |= 1 << 5, SuperErrorKind::NeedsLaterVersion, "state");
    let error = RawSuper::parse(&bytes("raid4-0.90"), Sector(8), MEMBER).unwrap_err();
    assert_eq!(error.kind, SuperErrorKind::SuperOffset);
    let error = RawSuper::parse(&bytes("raid4-0.90")[..2048], place("-0.90"), MEMBER).unwrap_err();
    assert!(!error.to_string().is_empty());
}

proptest! {
    #[test]
    fn arbitrary_changes_never_panic_and_unknown_bytes_survive(
        name in prop::sample::select(GOOD.to_vec()),
        edits in prop::collection::vec((0usize..4096, any::<u8>()), 0..12),
        big in any::<bool>(),
        events in any::<u64>(),
    ) {
        let mut bytes = bytes(name);
        for (at, byte) in edits.iter().filter(|(at, _)| *at >= 12) {
            bytes[*at] = *byte;
        }
        if big {
            bytes = turned_round(&bytes);
        }
        let sum = RawFields090::read(&bytes).unwrap().checksum_expected;
        bytes[38 * 4..39 * 4].copy_from_slice(&if big { sum.to_be_bytes() } else { sum.to_le_bytes() });
        if let Ok(mut raw) = RawSuper::parse(&bytes, place(name), MEMBER) {
            prop_assert!(raw.to_bytes() == bytes);
            let before = raw.superblock().clone();
            raw.update(|sb| { sb.events = events; sb.updated_seconds += 1; });
            let after = raw.to_bytes();
            // Only what changes with an update has changed: utime, checksum, events, cp_events, recovery_cp.
            for (word, (old, new)) in bytes.chunks(4).zip(after.chunks(4)).enumerate() {
                prop_assert!(old == new || word == 32 || (38..=43).contains(&word), "word {word}");
            }
            let again = RawSuper::parse(&after, place(name), MEMBER).unwrap();
            prop_assert_eq!(again.superblock().events, events);
            prop_assert_eq!(again.superblock().resync_offset, before.resync_offset);
            prop_assert_eq!(&again.superblock().roles, &before.roles);
        }
    }

    #[test]
    fn rubbish_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..5000), big in any::<bool>(), at in any::<u64>()) {
        if let Some(magic) = bytes.first_chunk_mut::<4>() {
            *magic = if big { 0xa92b_4efc_u32.to_be_bytes() } else { 0xa92b_4efc_u32.to_le_bytes() };
        }
        let _ = RawFields090::read(&bytes);
        prop_assert!(RawSuper::parse(&bytes, Sector(at), MEMBER).is_err());
    }
}

#[test]
fn the_version_knows_its_limits() {
    assert_eq!(MetadataVersion::from_name("0"), Some(MetadataVersion::V0_90));
    assert_eq!(MetadataVersion::from_name("1.3"), None);
    // mdadm refuses the 28th device.
    assert_eq!(MetadataVersion::V0_90.max_devices(), 27);
}

/// The sum of all words but its own, folded once.
fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[152..156].fill(0);
    let sum: u64 = bytes.chunks_exact(4).map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))).sum();
    let folded = (sum & 0xffff_ffff) as u32;
    bytes[152..156].copy_from_slice(&folded.wrapping_add((sum >> 32) as u32).to_le_bytes());
    bytes
}

#[test]
fn reshapes_that_make_no_sense_are_refused_by_field() {
    for (word, value, kind, field) in [
        (46, 6_u32, SuperErrorKind::Reshape, "new_level"),
        (47, 4, SuperErrorKind::Reshape, "delta_disks"),
        (47, 1 << 31, SuperErrorKind::Reshape, "delta_disks"),
        (48, 99, SuperErrorKind::Layout, "new_layout"),
        (49, 1000, SuperErrorKind::Chunk, "new_chunk"),
        (45, 1, SuperErrorKind::Reshape, "reshape_position"),
    ] {
        let mut damaged = bytes("raid5-0.90-reshaping");
        damaged[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
        let error =
            RawSuper::parse(&with_checksum(damaged), parse("raid5-0.90-reshaping").unwrap().superblock().super_offset, MEMBER)
                .unwrap_err();
        assert_eq!((error.kind, error.field), (kind, field), "word {word}: {error}");
    }
}

#[test]
fn a_reshape_that_is_done_leaves_its_fields_behind() {
    let old = bytes("raid5-0.90-reshaping");
    let mut raw = parse("raid5-0.90-reshaping").unwrap();
    raw.update(|sb| *sb = sb.after_reshape());
    let mut expected = old;
    expected[8] = 90;
    assert!(raw.to_bytes() == with_checksum(expected));
}
