//! Plans for new arrays: what is refused, and that whatever is planned can be read back and overlaps nothing.

use proptest::prelude::*;
use uraid_format::{
    Bitmap, BitmapSpec, BitmapSuper, CreateError, CreateSpec, DeviceFlags, Feature, MemberPlan, MetadataVersion, NewMember,
    RawSuper, Role, parse_bad_blocks,
};
use uraid_types::{Layout, Level, Raid10Layout, Sector, SectorCount, Slot};
use uuid::Uuid;

fn member(sectors: u64) -> Option<NewMember> {
    let flags = DeviceFlags::default();
    Some(NewMember { sectors: SectorCount(sectors), device_id: Uuid::from_u128(sectors.into()), flags, logical_block_bytes: 512 })
}

fn spec(level: Level, slots: u16) -> CreateSpec {
    CreateSpec {
        level,
        layout: Layout::default_for(level),
        raid_disks: slots,
        spare_disks: 0,
        chunk: SectorCount(if level.has_chunks() { 128 } else { 0 }),
        size: None,
        version: MetadataVersion::V1_2,
        data_offset: None,
        bitmap: None,
        name: b"host1:md0".to_vec(),
        preferred_minor: 3,
        array_id: Uuid::from_u128(7),
        created_seconds: 1_700_000_000,
        created_micros: 5,
        assume_clean: false,
        logical_block_bytes: 0,
        members: vec![member(1 << 17); slots.into()],
    }
}

/// The checks that any plan must pass: readable, within the member, nothing over anything else.
fn assert_sound(spec: &CreateSpec, index: usize, plan: &MemberPlan) {
    let sectors = spec.members[index].as_ref().expect("a planned member is not missing").sectors;
    let bytes = plan.superblock.to_bytes();
    let raw = RawSuper::parse(&bytes, Sector(plan.super_byte / 512), sectors).expect("a planned superblock is valid");
    let sb = raw.superblock();
    assert_eq!(sb, plan.superblock.superblock());
    assert_eq!(sb.dev_number as usize, index);
    let log = plan.bad_block_log.as_ref().expect("version 1 has a log");
    assert_eq!(sb.bad_block_log(), Some((Sector(log.start_byte / 512), SectorCount(8))));
    assert_eq!(parse_bad_blocks(&log.bytes, 0), Ok(vec![]));
    let mut areas = vec![
        (plan.super_byte, bytes.len() as u64),
        (log.start_byte, log.bytes.len() as u64),
        (sb.data_offset.byte_offset(), sb.data_size.bytes()),
    ];
    if let Some(area) = &plan.bitmap {
        assert_eq!(sb.bitmap_start(), Some(Sector(area.start_byte / 512)));
        let bitmap = BitmapSuper::parse(&area.bytes, Sector(area.start_byte / 512)).expect("a planned bitmap is valid");
        bitmap.check_usable(sb, sectors).expect("a planned bitmap belongs to its array");
        assert!(bitmap.area_bytes(4096) <= area.bytes.len() as u64);
        let bits = Bitmap::from_bytes(bitmap.bits(), &area.bytes[256..]).expect("the area holds all bits");
        assert_eq!(bits.count(), if sb.resync_offset.is_some() { bits.len() } else { 0 });
        areas.push((area.start_byte, area.bytes.len() as u64));
    }
    areas.sort_unstable();
    assert!(areas.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{areas:?}");
    assert!(areas.iter().all(|(start, len)| start % 4096 == 0 && start + len <= sectors.bytes()));
    for wipe in &plan.wipe {
        assert!(wipe.end <= sectors.bytes());
        let metadata = areas.iter().filter(|(start, _)| *start != sb.data_offset.byte_offset());
        assert!(metadata.into_iter().all(|&(start, len)| wipe.end <= start || start + len <= wipe.start));
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut CreateSpec)| {
        let mut wish = spec(Level::Raid5, 3);
        change(&mut wish);
        wish.plan().unwrap_err()
    };
    let level = Level::Raid5;
    assert_eq!(refused(&|wish| wish.raid_disks = 1), CreateError::TooFewMembers { level, given: 1, needed: 2 });
    assert_eq!(refused(&|wish| wish.raid_disks = 4), CreateError::MemberCount { given: 3, slots: 4, spares: 0 });
    assert_eq!(refused(&|wish| wish.raid_disks = 2000), CreateError::TooManyMembers { given: 2000, limit: 1920 });
    assert_eq!(refused(&|wish| wish.members[..2].fill(None)), CreateError::TooManyMissing { level, slots: 3, missing: 2 });
    assert_eq!(refused(&|wish| wish.members.fill(None)), CreateError::TooManyMissing { level, slots: 3, missing: 3 });
    assert_eq!(
        refused(&|wish| (wish.raid_disks, wish.spare_disks, wish.members[2]) = (2, 1, None)),
        CreateError::MissingSpare { index: 2 }
    );
    // 8 + 8 + 8 + 8 sectors of metadata, rounded to 64 KiB, and a chunk
    assert_eq!(
        refused(&|wish| wish.members[1] = member(200)),
        CreateError::MemberTooSmall { index: 1, sectors: 200, needed: 256, short: 56 }
    );
    let room = SectorCount((1 << 17) - 2048);
    assert_eq!(
        refused(&|wish| wish.size = Some(SectorCount(1 << 17))),
        CreateError::SizeTooBig { asked: SectorCount(1 << 17), index: 0, room }
    );
    assert!(matches!(refused(&|wish| wish.size = Some(SectorCount(100))), CreateError::SizeTooSmall { .. }));
    for chunk in [0, 4, 136] {
        assert!(matches!(refused(&|wish| wish.chunk = SectorCount(chunk)), CreateError::Chunk { .. }), "{chunk}");
    }
    assert!(matches!(refused(&|wish| wish.chunk = SectorCount(1 << 32)), CreateError::Chunk { .. }));
    assert!(matches!(refused(&|wish| wish.layout = Layout::Raid10(Raid10Layout::near(2))), CreateError::Layout { .. }));
    assert!(matches!(refused(&|wish| wish.data_offset = Some(Sector(16))), CreateError::DataOffset { .. }));
    assert!(matches!(refused(&|wish| wish.data_offset = Some(Sector(u64::MAX - 7))), CreateError::MemberTooSmall { .. }));
    assert_eq!(refused(&|wish| wish.name = vec![b'x'; 33]), CreateError::Name { len: 33 });
    let mut stripes = spec(Level::Raid0, 2);
    stripes.bitmap = Some(BitmapSpec::default());
    assert_eq!(stripes.plan().unwrap_err(), CreateError::BitmapLevel { level: Level::Raid0 });
    (stripes.bitmap, stripes.size) = (None, Some(SectorCount(1024)));
    assert_eq!(stripes.plan().unwrap_err(), CreateError::SizeNotTaken { level: Level::Raid0 });
}

#[test]
fn consistency_at_the_start_depends_on_what_is_missing() {
    let resync = |level, slots, missing: &[usize]| {
        let mut wish = spec(level, slots);
        missing.iter().for_each(|&slot| wish.members[slot] = None);
        let plan = wish.plan().unwrap();
        let first = plan.members.iter().flatten().next().unwrap().superblock.superblock().clone();
        assert_eq!(plan.resync, first.resync_offset == Some(Sector(0)));
        let recovering = plan.members.iter().flatten().filter(|member| member.superblock.superblock().recovery_offset.is_some());
        let recovering: Vec<Role> = recovering.map(|member| member.role).collect();
        (plan.resync, recovering)
    };
    assert_eq!(resync(Level::Raid0, 2, &[]), (false, vec![]));
    assert_eq!(resync(Level::Raid5, 3, &[]), (true, vec![]));
    assert_eq!(resync(Level::Raid5, 3, &[1]), (false, vec![]));
    assert_eq!(resync(Level::Raid6, 4, &[1]), (false, vec![Role::Active(Slot(3))]));
    assert_eq!(resync(Level::Raid6, 4, &[0, 3]), (false, vec![]));
    assert_eq!(resync(Level::Raid1, 3, &[0]), (true, vec![]));
    assert_eq!(resync(Level::Raid1, 2, &[0]), (false, vec![]));
    assert_eq!(resync(Level::Raid10, 4, &[0, 2]), (true, vec![]));
    let mut both_copies = spec(Level::Raid10, 4);
    both_copies.members[2..].fill(None);
    assert!(matches!(both_copies.plan(), Err(CreateError::TooManyMissing { .. })));
}

#[test]
fn sizes_of_raid10_bitmaps_are_the_kernels() {
    // mdadm -l10 -n4 --chunk=64 on members of 64 MiB: /sys/block/md0/size and "Sync Size", in sectors
    for (layout, sectors) in [
        (Raid10Layout::near(2), 258_048),
        (Raid10Layout::far(2), 258_048),
        (Raid10Layout::near(3), 172_032),
        (Raid10Layout::offset(2), 258_048),
    ] {
        let mut wish = spec(Level::Raid10, 4);
        wish.layout = Layout::Raid10(layout);
        wish.bitmap = Some(BitmapSpec { chunk_bytes: Some(65536) });
        let plan = wish.plan().unwrap();
        let area = plan.members[0].as_ref().unwrap().bitmap.as_ref().unwrap();
        let bitmap = BitmapSuper::parse(&area.bytes, Sector(16)).unwrap();
        assert_eq!(bitmap.sync_size, SectorCount(sectors), "{layout:?}");
    }
}

#[test]
fn raid0_names_its_zones_and_has_no_size() {
    let mut wish = spec(Level::Raid0, 2);
    wish.members[1] = member(1 << 18);
    let plan = wish.plan().unwrap();
    let blocks: Vec<_> = plan.members.iter().flatten().map(|member| member.superblock.superblock()).collect();
    assert!(blocks.iter().all(|sb| sb.has(Feature::Raid0Layout) && sb.used_size.is_zero()));
    assert_eq!([blocks[0].data_size.0, blocks[1].data_size.0], [(1 << 17) - 2048, (1 << 18) - 2048]);
    assert_eq!(plan.members[0].as_ref().unwrap().superblock.to_bytes()[76], 2);
}

#[test]
fn remains_of_other_versions_are_wiped() {
    let plan = spec(Level::Raid1, 2).plan().unwrap();
    let wipe = &plan.members[0].as_ref().unwrap().wipe;
    // 1.1 at the start, 1.0 8 KiB before the end, 0.90 64 KiB before the end
    let end = 64 << 20;
    for start in [0, end - 8192, end - 65536] {
        assert!(wipe.contains(&(start..start + 4096)), "{start}: {wipe:?}");
    }
    assert_eq!(wipe.len(), 3);
}

proptest! {
    #[test]
    fn every_plan_is_sound(
        level in prop::sample::select(Level::ALL.to_vec()),
        version in prop::sample::select(vec![MetadataVersion::V1_0, MetadataVersion::V1_1, MetadataVersion::V1_2]),
        sizes in prop::collection::vec(prop_oneof![1u64..5000, 1u64..1 << 24, 1u64..1 << 40], 1..7),
        spares in 0u16..2,
        missing in prop::option::of(0usize..7),
        chunk_bits in 3u32..12,
        bitmap in prop::option::of(prop::option::of(12u32..31)),
        data_offset in prop::option::of(0u64..5000),
        assume_clean in any::<bool>(),
    ) {
        let mut wish = spec(level, 1);
        (wish.version, wish.assume_clean, wish.data_offset) = (version, assume_clean, data_offset.map(|offset| Sector(offset * 8)));
        wish.spare_disks = spares.min(sizes.len() as u16 - 1);
        wish.raid_disks = sizes.len() as u16 - wish.spare_disks;
        wish.chunk = SectorCount(if level.has_chunks() { 1 << chunk_bits } else { 0 });
        wish.bitmap = bitmap.map(|bits| BitmapSpec { chunk_bytes: bits.map(|bits| 1 << bits) });
        wish.members = sizes.iter().map(|&size| member(size)).collect();
        if let Some(slot) = missing.filter(|&slot| slot < sizes.len()) {
            wish.members[slot] = None;
        }
        match wish.plan() {
            Ok(plan) => {
                for (index, member) in plan.members.iter().enumerate() {
                    prop_assert_eq!(member.is_some(), wish.members[index].is_some());
                    if let Some(member) = member {
                        assert_sound(&wish, index, member);
                    }
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
