//! For any shape: no panic; and where there is an array, no member sector serves twice and every address comes back.

use std::collections::HashMap;

use proptest::prelude::*;
use uraid_geometry::{Copies, Geometry, Parity, ParityRole, Shape};
use uraid_types::{Layout, Level, ParityLayout, Raid0Layout, Raid10Layout, Sector, SectorCount, Slot, StripeNo};

fn any_level() -> impl Strategy<Value = Level> {
    proptest::sample::select(Level::ALL.to_vec())
}

fn any_layout(level: Level) -> BoxedStrategy<Layout> {
    match level {
        Level::Linear | Level::Raid1 => Just(Layout::None).boxed(),
        Level::Raid0 => {
            let layouts = vec![Raid0Layout::Original, Raid0Layout::Alternate, Raid0Layout::Unspecified];
            proptest::sample::select(layouts).prop_map(Layout::Raid0).boxed()
        }
        Level::Raid4 | Level::Raid5 | Level::Raid6 => {
            proptest::sample::select(ParityLayout::of_level(level)).prop_map(Layout::Parity).boxed()
        }
        Level::Raid10 => {
            (1_u8..4, 1_u8..3, any::<bool>(), proptest::sample::select(vec![(false, false), (true, false), (false, true)]))
                .prop_map(|(near_copies, far_copies, far_offset, (far_sets, far_sets_improved))| {
                    let layout = Raid10Layout { near_copies, far_copies, far_offset, far_sets, far_sets_improved };
                    Layout::Raid10(layout)
                })
                .boxed()
        }
    }
}

/// Small arrays, most of them possible.
fn small_shape() -> impl Strategy<Value = Shape> {
    let chunks = proptest::sample::select(vec![0, 8, 8, 16, 12]);
    (any_level(), 1_usize..9, chunks, any::<bool>()).prop_flat_map(|(level, members, chunk, equal)| {
        let equal = equal || level.is_redundant();
        let sizes = proptest::collection::vec(1_u64..120, members).prop_map(move |mut sizes| {
            if equal {
                let first = sizes[0];
                sizes.fill(first);
            }
            sizes.into_iter().map(SectorCount).collect::<Vec<_>>()
        });
        (any_layout(level), sizes).prop_map(move |(layout, member_sectors)| Shape {
            level,
            layout,
            raid_disks: member_sectors.len() as u16,
            chunk: SectorCount(chunk),
            member_sectors,
        })
    })
}

/// Anything that a damaged superblock may say.
fn wild_shape() -> impl Strategy<Value = Shape> {
    let size = prop_oneof![0_u64..5000, any::<u64>(), Just(u64::MAX), Just(1 << 54), Just((1 << 54) - 1)];
    let chunk = prop_oneof![0_u64..300, any::<u64>(), (0_u32..64).prop_map(|shift| 1_u64 << shift)];
    let sizes = proptest::collection::vec(size, 0..12);
    (any_level(), any_level(), any::<u16>(), chunk, sizes, any::<u32>(), any::<[bool; 3]>()).prop_flat_map(
        |(level, layout_level, disks, chunk, mut sizes, raw, [agrees, equal, own_layout])| {
            if equal && !sizes.is_empty() {
                let first = sizes[0];
                sizes.fill(first);
            }
            let raid_disks = if agrees { sizes.len() as u16 } else { disks };
            let layout_level = if own_layout { level } else { layout_level };
            let [near_copies, far_copies, flags, _] = raw.to_le_bytes();
            let wild = Layout::Raid10(Raid10Layout {
                near_copies,
                far_copies,
                far_offset: flags & 1 != 0,
                far_sets: flags & 2 != 0,
                far_sets_improved: flags & 4 != 0,
            });
            prop_oneof![any_layout(layout_level), Just(wild)].prop_map(move |layout| Shape {
                level,
                layout,
                raid_disks,
                chunk: SectorCount(chunk),
                member_sectors: sizes.iter().copied().map(SectorCount).collect(),
            })
        },
    )
}

/// The sectors at which something may change, and the last.
fn probes(capacity: u64) -> Vec<Sector> {
    [0, 1, capacity / 2, capacity - capacity / 3, capacity - 1].map(Sector).to_vec()
}

fn check_copies(shape: &Shape, copies: &Copies) {
    let capacity = copies.capacity().0;
    let mut owner = HashMap::new();
    let mut at = 0;
    while at < capacity {
        let extent = copies.locate(Sector(at), SectorCount(u64::MAX));
        assert!(extent.len.0 > 0 && extent.len.0 <= capacity - at);
        assert_eq!(extent.copies.len(), copies.copies());
        for step in 0..extent.len.0 {
            let alone = copies.locate(Sector(at + step), SectorCount(1));
            for (copy, place) in extent.copies.iter().enumerate() {
                let sector = Sector(place.sector.0 + step);
                assert_eq!((alone.copies[copy].slot, alone.copies[copy].sector), (place.slot, sector));
                assert!(sector.0 < shape.member_sectors[place.slot.index()].0, "within the member");
                assert_eq!(owner.insert((place.slot, sector), (at + step, copy)), None, "one owner for each sector");
            }
        }
        let mut slots: Vec<Slot> = extent.copies.iter().map(|place| place.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), copies.copies(), "copies on distinct members");
        at += extent.len.0;
    }
    check_members(shape, copies, &owner);
    assert!(copies.locate(Sector(capacity), SectorCount(1)).copies.is_empty());
    assert!(copies.locate(Sector(u64::MAX), SectorCount(u64::MAX)).len.is_zero());
}

/// Walks every member: what [`Copies::at_member`] says is what [`Copies::locate`] said, and everything else is a gap.
fn check_members(shape: &Shape, copies: &Copies, owner: &HashMap<(Slot, Sector), (u64, usize)>) {
    for (index, size) in shape.member_sectors.iter().enumerate() {
        let slot = Slot::from_index(index);
        let mut at = 0;
        while at < size.0 {
            let extent = copies.at_member(slot, Sector(at), SectorCount(u64::MAX));
            assert!(extent.len.0 > 0 && extent.len.0 <= size.0 - at);
            for step in 0..extent.len.0 {
                let expected = owner.get(&(slot, Sector(at + step))).copied();
                let found = extent.array.map(|array| (array.0 + step, extent.copy));
                assert_eq!(found, expected, "{slot} sector {} of {shape:?}", at + step);
            }
            at += extent.len.0;
        }
        assert!(copies.at_member(slot, Sector(size.0), SectorCount(1)).len.is_zero());
    }
    assert!(copies.at_member(Slot(u16::MAX), Sector(0), SectorCount(1)).len.is_zero());
}

fn check_parity(shape: &Shape, parity: &Parity) {
    let chunk = parity.chunk().0;
    let mut owner = HashMap::new();
    for array in 0..parity.capacity().0 {
        let place = parity.stripe_of(Sector(array));
        assert_eq!(parity.array_sector(place.stripe, place.index, place.offset), Sector(array));
        assert_eq!(parity.data_slot(place.stripe, place.index), place.slot);
        assert_eq!(parity.role(place.stripe, place.slot), ParityRole::Data(place.index));
        let sector = parity.member_sector(place.stripe, place.offset);
        assert_eq!(sector.0, place.stripe.0 * chunk + place.offset.0);
        assert!(sector.0 < shape.member_sectors[0].0, "within the member");
        assert_eq!(owner.insert((place.slot, sector), array), None, "one owner for each sector");
    }
    for stripe in (0..parity.stripes()).map(StripeNo) {
        let roles: Vec<ParityRole> = (0..shape.raid_disks).map(|slot| parity.role(stripe, Slot(slot))).collect();
        assert_eq!(roles[parity.p_slot(stripe).index()], ParityRole::P);
        match parity.q_slot(stripe) {
            Some(slot) => assert_eq!(roles[slot.index()], ParityRole::Q),
            None => assert!(!roles.contains(&ParityRole::Q)),
        }
        let data = roles.iter().filter(|role| matches!(role, ParityRole::Data(_))).count();
        assert_eq!(data, parity.data_members());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn addresses_go_round(shape in small_shape()) {
        match Geometry::new(&shape) {
            Ok(Geometry::Copies(copies)) => check_copies(&shape, &copies),
            Ok(Geometry::Parity(parity)) => check_parity(&shape, &parity),
            Err(_) => {}
        }
    }

    #[test]
    fn nothing_on_a_disk_can_cause_a_panic(shape in wild_shape()) {
        let Ok(geometry) = Geometry::new(&shape) else { return Ok(()) };
        let capacity = geometry.capacity().0;
        prop_assert!(capacity > 0);
        prop_assert!(geometry.capacity().bytes() <= i64::MAX as u64);
        prop_assert!(geometry.survives(&[]));
        let everyone: Vec<Slot> = (0..shape.raid_disks).map(Slot).collect();
        prop_assert!(!geometry.survives(&everyone));
        for array in probes(capacity) {
            match &geometry {
                Geometry::Copies(copies) => {
                    let extent = copies.locate(array, SectorCount(u64::MAX));
                    for (copy, place) in extent.copies.iter().enumerate() {
                        let back = copies.at_member(place.slot, place.sector, SectorCount(1));
                        prop_assert_eq!((back.array, back.copy), (Some(array), copy));
                    }
                }
                Geometry::Parity(parity) => {
                    let place = parity.stripe_of(array);
                    prop_assert_eq!(parity.array_sector(place.stripe, place.index, place.offset), array);
                    let _ = parity.write_cost(Sector(0), SectorCount(capacity));
                }
            }
        }
    }
}

/// Most of the small shapes must be arrays, at every level, or the properties above say little.
#[test]
fn the_small_shapes_are_worth_testing() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut possible = HashMap::new();
    for _ in 0..1000 {
        let shape = small_shape().new_tree(&mut runner).unwrap().current();
        if Geometry::new(&shape).is_ok() {
            *possible.entry(shape.level).or_insert(0) += 1;
        }
    }
    for level in Level::ALL {
        assert!(possible.get(&level).is_some_and(|&count| count >= 20), "{level}: {possible:?}");
    }
}
