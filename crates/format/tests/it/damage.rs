//! Damaged superblocks: an error or numbers within limits, never a panic; unknown bytes survive.

use proptest::prelude::*;
use uraid_format::{Feature, MAX_ROLES, RawFields, RawSuper, Role, SuperErrorKind as Kind};
use uraid_types::{Level, Sector, SectorCount};

use crate::fixtures::{GOOD, MEMBER, place, read};

const CHECKSUM: std::ops::Range<usize> = 216..220;

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Sets the checksum, computed here on its own: 16-bit halves, weighted by their place.
fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[CHECKSUM].fill(0);
    let len = (256 + 2 * number(&bytes[220..224]) as usize).min(bytes.len());
    let halves = bytes[..len].chunks_exact(2).enumerate();
    let sum: u64 = halves.map(|(index, half)| number(half) << (16 * (index % 2))).sum();
    let folded = (sum % (1 << 32)) + (sum >> 32);
    bytes[CHECKSUM].copy_from_slice(&(folded as u32).to_le_bytes());
    bytes
}

/// A checked superblock keeps its promises.
fn assert_within_limits(raw: &RawSuper, at: Sector) {
    let sb = raw.superblock();
    assert_eq!(sb.super_offset, at);
    assert!(sb.roles.len() <= MAX_ROLES && (sb.dev_number as usize) < sb.roles.len());
    assert!(sb.raid_disks > 0);
    assert!(sb.roles.iter().all(|role| !matches!(role, Role::Active(slot) if slot.0 >= sb.raid_disks)));
    assert!(sb.data_offset.0.checked_add(sb.data_size.0).is_some_and(|end| end <= MEMBER.0));
    if sb.level.is_redundant() {
        assert!(sb.used_size.0 > 0 && (sb.used_size <= sb.data_size || sb.journal_tail.is_some()));
        assert!(sb.resync_offset.is_none_or(|at| at.0 <= sb.data_size.0 * u64::from(sb.raid_disks)));
    }
    if sb.level.has_chunks() {
        assert!(sb.chunk.0 > 0 && (sb.chunk <= sb.data_size || sb.journal_tail.is_some()));
    }
    assert!(matches!(sb.level, Level::Raid0) || !sb.level.has_chunks() || sb.chunk.0.is_power_of_two());
    assert!(sb.recovery_offset.is_none_or(|at| at.0 <= sb.data_size.0));
    assert!(sb.journal_tail.is_none_or(|at| at < Sector(sb.data_size.0)));
    assert!(sb.ppl_area().is_none_or(|(start, len)| start.0 + len.0 <= MEMBER.0));
    assert!(sb.bitmap_start().is_none_or(|start| start.0 < MEMBER.0));
}

#[test]
fn the_checksum_written_here_is_the_kernels() {
    for name in GOOD {
        let bytes = read(&format!("{name}.super"));
        assert!(with_checksum(bytes.clone()) == bytes, "{name}");
    }
}

#[test]
fn each_damage_has_its_name() {
    // The place of the damage, its bytes, the kind of error, the byte of the field on the member.
    let base = read("raid5-1.2-bitmap.super");
    let cases: &[(usize, &[u8], Kind)] = &[
        (4, &[2], Kind::MajorVersion),
        (220, &[0x81, 7], Kind::RoleCount),
        (9, &[0x20], Kind::UnknownFeature),
        (8, &[4], Kind::Reshape),  // from level 5 to 0
        (9, &[4], Kind::WriteLog), // PPL beside the bitmap
        (9, &[2], Kind::WriteLog), // a journal beside it
        (12, &[1], Kind::Padding),
        (240, &[1], Kind::Padding),
        (224, &[3], Kind::LogicalBlock),
        (225, &[1], Kind::LogicalBlock),
        (226, &[2], Kind::LogicalBlock),
        (144, &[16], Kind::SuperOffset),
        (72, &[7], Kind::Level),
        (76, &[9], Kind::Layout),
        (92, &[0], Kind::RaidDisks),
        (92, &[1], Kind::RaidDisks),
        (88, &[0, 0], Kind::Chunk),
        (88, &[3, 0], Kind::Chunk),
        (91, &[1], Kind::Chunk),
        (128, &[0, 0], Kind::DataArea),
        (128, &[0, 0x11], Kind::DataArea),
        (143, &[0xff], Kind::DataArea),
        (136, &[1, 0, 0], Kind::DataArea),
        (80, &[0, 0, 0], Kind::UsedSize),
        (80, &[1, 0xf0, 1], Kind::UsedSize),
        (96, &[0], Kind::BitmapPlace),
        (96, &[0xf0, 0xff, 0xff, 0xff], Kind::BitmapPlace),
        (97, &[0x20], Kind::BitmapPlace),
        (188, &[0, 0x20], Kind::BadBlockLog),
        (208, &[1, 0xf0, 1, 0, 0, 0, 0, 0], Kind::ResyncOffset),
        (160, &[128], Kind::DevNumber),
        (256, &[3, 0], Kind::Role),
        (256, &[0xfc, 0xff], Kind::Role),
    ];
    for (at, damage, kind) in cases {
        let mut bytes = base.clone();
        bytes[*at..at + damage.len()].copy_from_slice(damage);
        let error = RawSuper::parse(&with_checksum(bytes), Sector(8), MEMBER).unwrap_err();
        assert_eq!(error.kind, *kind, "byte {at}: {error}");
        assert!((4096..4096 + 4096).contains(&error.member_byte), "{error}");
        assert!(!error.is_absent());
    }
    let mut bytes = base.clone();
    bytes[100] ^= 1;
    let error = RawSuper::parse(&bytes, Sector(8), MEMBER).unwrap_err();
    assert_eq!((error.kind, error.field, error.member_byte), (Kind::Checksum, "sb_csum", 4096 + 216));
    let error = RawSuper::parse(&base, Sector(8), SectorCount(MEMBER.0 - 1)).unwrap_err();
    assert_eq!((error.kind, error.field), (Kind::DataArea, "data_size"));
    let error = RawSuper::parse(&base, Sector(0), MEMBER).unwrap_err();
    assert_eq!(error.kind, Kind::SuperOffset);
    let error = RawSuper::parse(&base[..300], Sector(8), MEMBER).unwrap_err();
    assert_eq!(error.kind, Kind::TooShort);
}

#[test]
fn logs_of_writes_out_of_place_are_refused() {
    // "PPL : 2048 sectors at offset 8 sectors": none, over the superblock, over the data, too short; at another level.
    for (at, damage) in [(96, [0, 0, 0, 8]), (96, [0, 0x17, 0, 8]), (96, [8, 0, 7, 0]), (72, [6, 0, 0, 0])] {
        let mut bytes = read("raid5-1.2-ppl.super");
        bytes[at..at + 4].copy_from_slice(&damage);
        if at == 72 {
            bytes[92] = 4;
        }
        let error = RawSuper::parse(&with_checksum(bytes), Sector(8), MEMBER).unwrap_err();
        assert_eq!(error.kind, Kind::WriteLog, "{error}");
    }
    let mut bytes = read("raid5-1.2-journal-device.super");
    bytes[152..160].fill(7);
    let error = RawSuper::parse(&with_checksum(bytes), Sector(8), MEMBER).unwrap_err();
    assert_eq!((error.kind, error.field, error.member_byte), (Kind::WriteLog, "journal_tail", 4096 + 152));
}

#[test]
fn a_ppl_that_goes_takes_its_bits_along() {
    let mut raw = RawSuper::parse(&read("raid5-1.2-ppl.super"), Sector(8), MEMBER).unwrap();
    raw.update(|sb| sb.ppl = None);
    let mut expected = read("raid5-1.2-ppl.super");
    expected[9] = 0;
    expected[96..100].fill(0);
    assert!(raw.to_bytes() == with_checksum(expected));
}

#[test]
fn a_recovery_beyond_the_data_is_refused() {
    let mut bytes = read("raid5-1.2-recovering.super");
    bytes[154] = 2;
    let error = RawSuper::parse(&with_checksum(bytes), Sector(8), MEMBER).unwrap_err();
    assert_eq!(error.kind, Kind::RecoveryOffset);
}

#[test]
fn unknown_bytes_survive_a_rewrite() {
    let mut bytes = read("raid1-1.0-failed-write-mostly.super");
    bytes[100..124].fill(0x5a); // fields of a reshape that is not active
    bytes[184] |= 0xf0; // device flags without a name
    bytes[60..64].fill(0x21); // after the name's NUL
    bytes[512..4096].fill(0xa5); // beyond the roles
    let bytes = with_checksum(bytes);
    let mut raw = RawSuper::parse(&bytes, Sector(MEMBER.0 - 16), MEMBER).unwrap();
    raw.update(|sb| {
        sb.events += 1;
        sb.resync_offset = Some(Sector(0));
        sb.recovery_offset = Some(Sector(64));
        sb.roles[1] = Role::Spare;
    });
    let mut expected = bytes;
    expected[8] |= 2;
    expected[200] += 1;
    expected[208..216].fill(0);
    expected[152] = 64;
    expected[258..260].fill(0xff);
    assert!(raw.to_bytes() == with_checksum(expected));
    assert!(raw.superblock().has(Feature::RecoveryOffset));
}

#[test]
fn a_rewrite_stops_before_a_bitmap_close_behind() {
    // Old 1.0 arrays have their bitmap 1 KiB after the superblock's start.
    let mut bytes = read("raid1-1.0-failed-write-mostly.super");
    bytes[96..100].copy_from_slice(&2i32.to_le_bytes());
    let raw = RawSuper::parse(&with_checksum(bytes.clone()), Sector(MEMBER.0 - 16), MEMBER).unwrap();
    assert!(raw.to_bytes() == with_checksum(bytes)[..1024]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..4200), at in prop_oneof![Just(0), Just(8), any::<u64>()], member in any::<u64>()) {
        let _ = RawSuper::parse(&bytes, Sector(at), SectorCount(member));
        if bytes.len() >= 256 {
            bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
            bytes[222..224].fill(0);
            prop_assert!(RawFields::read(&bytes).is_some());
            let _ = RawSuper::parse(&with_checksum(bytes), Sector(at), SectorCount(member));
        }
    }

    #[test]
    fn any_bit_flipped_is_found_or_harmless(which in 0..GOOD.len(), bit in 0usize..8 * (256 + 2 * 128), fixed in any::<bool>()) {
        let name = GOOD[which];
        let mut bytes = read(&format!("{name}.super"));
        bytes[bit / 8] ^= 1 << (bit % 8);
        let bytes = if fixed { with_checksum(bytes) } else { bytes };
        match RawSuper::parse(&bytes, place(name), MEMBER) {
            Ok(raw) => {
                prop_assert!(fixed, "the checksum covers bit {bit}");
                assert_within_limits(&raw, place(name));
                prop_assert!(bytes.starts_with(&raw.to_bytes()));
            }
            Err(error) => prop_assert!(!error.found.is_empty()),
        }
    }

    #[test]
    fn random_fields_are_within_limits_or_refused(
        which in 0..GOOD.len(),
        edits in prop::collection::vec((0usize..256 / 4, prop_oneof![any::<u32>(), 0u32..300, Just(u32::MAX)]), 1..4),
    ) {
        let name = GOOD[which];
        let mut bytes = read(&format!("{name}.super"));
        for (word, value) in edits {
            if word * 4 != 220 {
                bytes[word * 4..word * 4 + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
        if let Ok(raw) = RawSuper::parse(&with_checksum(bytes), place(name), MEMBER) {
            assert_within_limits(&raw, place(name));
        }
    }
}

#[test]
fn a_clusters_superblock_is_read() {
    let mut bytes = read("raid5-1.2-bitmap.super");
    bytes[9] |= 1;
    let raw = RawSuper::parse(&with_checksum(bytes), Sector(8), MEMBER).unwrap();
    assert!(raw.superblock().has(Feature::Clustered));
}

#[test]
fn reshapes_that_make_no_sense_are_refused_by_field() {
    let (position, delta, chunk, offset) = (104, 112, 120, 124);
    for (what, at, bytes, kind, field) in [
        ("no reshape_active", 8, &[64][..], Kind::Reshape, "feature_map"),
        ("another level", 100, &[6], Kind::Reshape, "new_level"),
        ("beyond all members", position + 6, &[1], Kind::Reshape, "reshape_position"),
        ("from no members", delta, &[4], Kind::Reshape, "delta_disks"),
        ("from more than there can be", delta, &[0, 0, 0, 0x80], Kind::Reshape, "delta_disks"),
        ("layout without a name", 116, &[99], Kind::Layout, "new_layout"),
        ("chunk of no power", chunk, &[9], Kind::Chunk, "new_chunk"),
        ("chunk larger than the data", chunk + 3, &[0x40, 0], Kind::Chunk, "new_chunk"),
        ("over the superblock", offset, &0_i32.wrapping_sub(4096).to_le_bytes(), Kind::Reshape, "new_offset"),
        ("beyond the end", offset, &i32::MAX.to_le_bytes(), Kind::Reshape, "new_offset"),
    ] {
        let mut damaged = read("raid5-1.2-reshaping.super");
        if at == chunk + 3 {
            damaged[chunk..chunk + 4].fill(0);
        }
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        let error = RawSuper::parse(&with_checksum(damaged), Sector(8), MEMBER).unwrap_err();
        assert_eq!((error.kind, error.field), (kind, field), "{what}: {error}");
    }
}

#[test]
fn a_reshape_that_is_done_leaves_its_fields_behind() {
    let bytes = read("raid5-1.2-reshaping.super");
    let mut raw = RawSuper::parse(&bytes, Sector(8), MEMBER).unwrap();
    raw.update(|sb| *sb = sb.after_reshape());
    let mut expected = bytes;
    expected[8] &= !(4 | 64);
    expected[128..136].copy_from_slice(&1024_u64.to_le_bytes());
    assert!(raw.to_bytes() == with_checksum(expected));
}
