//! Shapes that Linux or mdadm refuses, with the reason that the user is told.

use uraid_geometry::{Geometry, GeometryError, MAX_SECTORS, Shape};
use uraid_types::{Layout, Level, ParityLayout, Raid0Layout, Raid10Layout, SectorCount};

fn shape(level: Level, raid_disks: u16, chunk: u64, sectors: u64) -> Shape {
    Shape {
        level,
        layout: Layout::default_for(level),
        raid_disks,
        chunk: SectorCount(chunk),
        member_sectors: vec![SectorCount(sectors); usize::from(raid_disks)],
    }
}

fn refusal(shape: &Shape) -> String {
    Geometry::new(shape).unwrap_err().to_string()
}

#[test]
fn too_few_members() {
    for (level, least) in [(Level::Raid4, 2), (Level::Raid5, 2), (Level::Raid6, 4), (Level::Raid10, 2), (Level::Raid1, 1)] {
        let below = shape(level, least - 1, 8, 800);
        let (least_count, found) = (usize::from(least), usize::from(least) - 1);
        assert_eq!(Geometry::new(&below), Err(GeometryError::TooFewMembers { level, least: least_count, found }));
        assert!(Geometry::new(&shape(level, least, 8, 800)).is_ok(), "{level}");
    }
    assert_eq!(refusal(&shape(Level::Raid6, 3, 8, 800)), "raid6 needs at least 4 members; this array has 3");
}

#[test]
fn too_many_members() {
    assert!(matches!(Geometry::new(&shape(Level::Raid1, 1921, 0, 8)), Err(GeometryError::TooManyMembers { .. })));
}

#[test]
fn parity_of_too_many() {
    for level in [Level::Raid4, Level::Raid5, Level::Raid6] {
        assert!(Geometry::new(&shape(level, 255, 8, 800)).is_ok(), "{level}");
        for found in [256, 257, 1920] {
            let error = Geometry::new(&shape(level, found, 8, 800));
            assert_eq!(error, Err(GeometryError::TooWide { level, most: 255, found: usize::from(found) }));
        }
    }
    let ddf = Layout::Parity(ParityLayout::DdfNRestart);
    let wide = |raid_disks| Geometry::new(&Shape { layout: ddf, ..shape(Level::Raid6, raid_disks, 8, 800) });
    assert!(wide(254).is_ok());
    assert_eq!(wide(255), Err(GeometryError::TooWide { level: Level::Raid6, most: 254, found: 255 }));
    assert!(
        Geometry::new(&shape(Level::Raid1, 1920, 0, 8)).is_ok() && Geometry::new(&shape(Level::Raid10, 1920, 8, 800)).is_ok()
    );
}

#[test]
fn chunks_that_linux_refuses() {
    for level in [Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid10] {
        for chunk in [0, 4, 12, 24, 1000] {
            let error = Geometry::new(&shape(level, 4, chunk, 8000));
            assert!(matches!(error, Err(GeometryError::Chunk { .. })), "{level} {chunk}");
        }
    }
    for chunk in [0, 2, 4] {
        assert!(matches!(Geometry::new(&shape(Level::Raid0, 3, chunk, 800)), Err(GeometryError::Chunk { .. })));
    }
    assert!(Geometry::new(&shape(Level::Raid0, 3, 12, 800)).is_ok());
    let message = refusal(&shape(Level::Raid5, 3, 24, 800));
    assert_eq!(message, "a chunk of 24 sectors does not suit raid5: it must be a power of two of at least 4 KiB");
}

#[test]
fn members_without_room() {
    let message = refusal(&shape(Level::Raid5, 3, 128, 100));
    assert_eq!(message, "slot 0 holds 100 sectors; at least 128 sectors are needed");
    let mut far = shape(Level::Raid10, 3, 128, 255);
    far.layout = Layout::Raid10(Raid10Layout::far(2));
    assert_eq!(refusal(&far), "slot 0 holds 255 sectors; at least 256 sectors are needed");
    assert!(matches!(Geometry::new(&shape(Level::Raid1, 2, 0, 0)), Err(GeometryError::MemberTooSmall { .. })));
}

#[test]
fn members_that_differ() {
    let mut mirror = shape(Level::Raid1, 2, 0, 100);
    mirror.member_sectors[1] = SectorCount(101);
    let message = "slot 1 holds 101 sectors, slot 0 holds 100 sectors; the members of a raid1 array are of one size";
    assert_eq!(refusal(&mirror), message);
    mirror.member_sectors.pop();
    assert!(matches!(Geometry::new(&mirror), Err(GeometryError::SizesMissing { .. })));
}

#[test]
fn sizes_beyond_64_bits() {
    for level in Level::ALL {
        for sectors in [MAX_SECTORS + 1, u64::MAX] {
            assert_eq!(Geometry::new(&shape(level, 4, 8, sectors)), Err(GeometryError::TooLarge { what: "a member" }));
        }
    }
    for level in [Level::Linear, Level::Raid0, Level::Raid5, Level::Raid6, Level::Raid10] {
        assert_eq!(Geometry::new(&shape(level, 6, 8, MAX_SECTORS)), Err(GeometryError::TooLarge { what: "the array" }));
    }
    assert_eq!(Geometry::new(&shape(Level::Raid1, 6, 8, MAX_SECTORS)).unwrap().capacity(), SectorCount(MAX_SECTORS));
}

#[test]
fn layouts_of_other_levels() {
    let mut array = shape(Level::Raid4, 4, 8, 800);
    for layout in [Layout::None, Layout::Parity(ParityLayout::LeftSymmetric), Layout::Raid10(Raid10Layout::near(2))] {
        array.layout = layout;
        assert!(matches!(Geometry::new(&array), Err(GeometryError::ForeignLayout { .. })), "{layout}");
    }
    assert_eq!(refusal(&array), "layout near=2 does not belong to raid4");
}

/// Linux runs an array of unequal members without a recorded layout only if both layouts are the same for it.
#[test]
fn raid0_without_a_recorded_layout() {
    let unequal = |sizes: &[u64]| Shape {
        level: Level::Raid0,
        layout: Layout::Raid0(Raid0Layout::Unspecified),
        raid_disks: sizes.len() as u16,
        chunk: SectorCount(8),
        member_sectors: sizes.iter().copied().map(SectorCount).collect(),
    };
    assert!(Geometry::new(&unequal(&[80, 80, 80])).is_ok());
    assert!(Geometry::new(&unequal(&[80, 80, 120])).is_ok());
    assert_eq!(Geometry::new(&unequal(&[88, 120, 120])), Err(GeometryError::LayoutUnspecified));
}

#[test]
fn raid10_copies_that_do_not_fit() {
    let with = |disks, layout| Shape { layout: Layout::Raid10(layout), ..shape(Level::Raid10, disks, 8, 800) };
    let copies = |shape: &Shape| matches!(Geometry::new(shape), Err(GeometryError::Copies { .. }));
    assert!(copies(&with(3, Raid10Layout::near(1))));
    assert!(copies(&with(2, Raid10Layout::near(3))));
    assert!(copies(&with(3, Raid10Layout { near_copies: 2, ..Raid10Layout::far(2) })));
}

/// Linux runs all but the last, then overwrites one chunk's copy with another's or keeps two copies on one member, as seen
/// on the images of such arrays.
#[test]
fn raid10_layouts_that_would_lose_data() {
    let with = |disks, layout| Shape { layout: Layout::Raid10(layout), ..shape(Level::Raid10, disks, 8, 80) };
    let overlap = |shape: &Shape| matches!(Geometry::new(shape), Err(GeometryError::Overlap { .. }));
    for disks in [5, 7] {
        assert!(overlap(&with(disks, Raid10Layout { near_copies: 2, ..Raid10Layout::offset(2) })), "{disks}");
    }
    let near_across_sets = Raid10Layout { near_copies: 2, far_sets_improved: true, ..Raid10Layout::far(2) };
    assert!(overlap(&with(9, near_across_sets)));
    assert!(Geometry::new(&with(8, near_across_sets)).is_ok());
    for disks in [7, 8] {
        assert!(overlap(&with(disks, Raid10Layout { far_sets: true, ..Raid10Layout::far(3) })), "{disks}");
    }
    let both_sets = Raid10Layout { far_sets: true, far_sets_improved: true, ..Raid10Layout::far(2) };
    assert!(overlap(&with(4, both_sets)));
}
