//! Superblocks in other versions: the kernel's own of the fixtures, and new ones, there and back.

use uraid_format::{ConvertError, Feature, MetadataVersion, RawSuper, Role, convert};
use uraid_types::{Sector, SectorCount};
use uuid::Uuid;

use crate::fixtures::{MEMBER, parse};

use MetadataVersion::{V0_90, V1_0, V1_1, V1_2};

const ID: Uuid = Uuid::from_u128(77);

fn to(raw: &RawSuper, version: MetadataVersion) -> Result<uraid_format::Converted, ConvertError> {
    convert(raw, version, MEMBER, ID, false)
}

/// What stays the same whatever the version.
fn kept(raw: &RawSuper) -> impl PartialEq + std::fmt::Debug {
    let sb = raw.superblock().clone();
    let role = sb.own_role();
    (
        sb.array_id,
        sb.name,
        sb.events,
        sb.created_seconds,
        sb.data_offset,
        sb.used_size,
        sb.roles,
        role,
        sb.flags,
        sb.updated_seconds,
    )
}

/// A fixture of which so little is used that a superblock fits behind the data.
fn small(name: &str) -> RawSuper {
    let mut raw = parse(name).expect("it is sound");
    raw.update(|superblock| superblock.used_size.0 = superblock.used_size.0.min(65536));
    raw
}

#[test]
fn the_kernels_own_go_there_and_back() {
    for name in ["raid6-1.1", "raid0-1.2", "raid4-1.2", "raid10-1.2-f2", "linear-1.2"] {
        let first = parse(name).expect("it is sound");
        let from = first.superblock().version;
        for version in [V1_0, V1_1, V1_2].into_iter().filter(|&version| version != from) {
            let there = match to(&first, version) {
                Ok(there) => there,
                // Data to the very end of the member leaves no room for a superblock there.
                Err(ConvertError::NoRoom { to: V1_0, data, .. }) => {
                    assert!(data.end > MEMBER.0 - 24, "{name}");
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            let sb = there.superblock.superblock();
            assert_eq!((sb.version, kept(&there.superblock)), (version, kept(&first)), "{name}");
            // Where each version has it, by md(4).
            let place = match version {
                V1_1 => 0,
                V1_2 => 8,
                _ => MEMBER.0 - 16,
            };
            assert_eq!(sb.super_offset, Sector(place));
            assert_eq!(there.old_superblock.start, first.superblock().super_offset.byte_offset());
            let back = to(&there.superblock, from).expect("it is sound").superblock;
            assert_eq!((back.superblock().version, kept(&back)), (from, kept(&first)), "{name}");
        }
    }
}

#[test]
fn version_090_becomes_1_0_with_the_same_places_and_numbers() {
    for name in ["raid4-0.90", "raid10-0.90", "linear-0.90"] {
        let old = parse(name).expect("it is sound");
        let new = to(&old, V1_0).expect("it is sound");
        let (before, after) = (old.superblock(), new.superblock.superblock());
        assert_eq!((after.super_offset, after.data_offset), (Sector(MEMBER.0 - 16), Sector(0)));
        assert_eq!(after.data_size, SectorCount(before.super_offset.0), "the data ends where the old superblock was");
        assert_eq!((after.array_id, after.events, after.own_role()), (before.array_id, before.events, before.own_role()));
        assert_eq!((after.device_id, after.created_seconds), (ID, before.created_seconds));
        assert_eq!(new.old_superblock, before.super_offset.byte_offset()..before.super_offset.byte_offset() + 4096);
        for version in [V1_1, V1_2, V0_90] {
            assert!(matches!(to(&old, version), Err(ConvertError::Versions { .. })));
        }
    }
}

#[test]
fn what_is_under_way_is_refused_by_its_field() {
    let field = |name: &str| match to(&small(name), if name.contains("1.0") { V1_2 } else { V1_0 }) {
        Err(ConvertError::State { field, member_byte, .. }) => (field, member_byte),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(field("raid5-1.2-ppl"), ("feature_map", 4096 + 8));
    assert_eq!(field("raid5-1.2-reshaping"), ("feature_map", 4096 + 8));
    assert_eq!(field("raid5-1.2-journal-device"), ("feature_map", 4096 + 8));
    assert_eq!(field("raid5-1.2-recovering"), ("recovery_offset", 4096 + 152));
    assert_eq!(field("raid6-1.2-resync-stopped"), ("resync_offset", 4096 + 208));
    assert_eq!(field("raid5-1.2-bitmap"), ("bitmap_offset", 4096 + 96));
    assert_eq!(field("raid1-1.2-bad-blocks"), ("bblog_offset", 4096 + 188));
}

#[test]
fn a_bitmap_stays_where_it_can_and_goes_when_told() {
    let raw = small("raid5-1.2-bitmap");
    let start = raw.superblock().bitmap_start();
    let stays = to(&raw, V1_1).expect("it is sound").superblock;
    assert_eq!((stays.superblock().bitmap_start(), stays.superblock().bitmap_offset), (start, Some(16)));
    let goes = convert(&raw, V1_0, MEMBER, ID, true).expect("it is sound").superblock;
    assert!(goes.superblock().bitmap_offset.is_none() && !goes.superblock().has(Feature::Bitmap));
    assert_eq!(goes.superblock().own_role(), Role::Active(uraid_types::Slot(0)));
}

#[test]
fn no_room_is_told_in_sectors() {
    let mut at_start = to(&parse("raid4-0.90").expect("it is sound"), V1_0).expect("it is sound").superblock;
    at_start.update(|superblock| superblock.resync_offset = None);
    let Err(ConvertError::NoRoom { to: V1_2, place, data }) = to(&at_start, V1_2) else { panic!("data begins at 0") };
    assert_eq!((place, data.start), (8..16, 0));
}
