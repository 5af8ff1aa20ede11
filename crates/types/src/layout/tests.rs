use super::*;

/// What `mdadm --examine` and `mdadm --detail` (4.2) say of a number; of far sets (0x2...., 0x4....) they say nothing.
const SAID_BY_MDADM: [(Level, u32, &str); 29] = [
    (Level::Raid5, 0, "left-asymmetric"),
    (Level::Raid5, 1, "right-asymmetric"),
    (Level::Raid5, 2, "left-symmetric"),
    (Level::Raid5, 3, "right-symmetric"),
    (Level::Raid5, 4, "parity-first"),
    (Level::Raid5, 5, "parity-last"),
    (Level::Raid6, 0, "left-asymmetric"),
    (Level::Raid6, 1, "right-asymmetric"),
    (Level::Raid6, 2, "left-symmetric"),
    (Level::Raid6, 3, "right-symmetric"),
    (Level::Raid6, 4, "parity-first"),
    (Level::Raid6, 5, "parity-last"),
    (Level::Raid6, 8, "ddf-zero-restart"),
    (Level::Raid6, 9, "ddf-N-restart"),
    (Level::Raid6, 10, "ddf-N-continue"),
    (Level::Raid6, 16, "left-asymmetric-6"),
    (Level::Raid6, 17, "right-asymmetric-6"),
    (Level::Raid6, 18, "left-symmetric-6"),
    (Level::Raid6, 19, "right-symmetric-6"),
    (Level::Raid6, 20, "parity-first-6"),
    (Level::Raid10, 0x102, "near=2"),
    (Level::Raid10, 0x103, "near=3"),
    (Level::Raid10, 0x201, "far=2"),
    (Level::Raid10, 0x301, "far=3"),
    (Level::Raid10, 0x10201, "offset=2"),
    (Level::Raid10, 0x10301, "offset=3"),
    (Level::Raid10, 0x202, "near=2, far=2"),
    (Level::Raid10, 0x10202, "near=2, offset=2"),
    (Level::Raid10, 0x10302, "near=2, offset=3"),
];

/// What `mdadm --create --layout` made of a name.
const TAKEN_BY_MDADM: [(Level, &str, u32); 20] = [
    (Level::Raid0, "original", 1),
    (Level::Raid0, "alternate", 2),
    (Level::Raid0, "dangerous", 0),
    (Level::Raid5, "la", 0),
    (Level::Raid5, "ra", 1),
    (Level::Raid5, "ls", 2),
    (Level::Raid5, "rs", 3),
    (Level::Raid5, "default", 2),
    (Level::Raid5, "ddf-zero-restart", 1),
    (Level::Raid5, "ddf-N-restart", 0),
    (Level::Raid5, "ddf-N-continue", 2),
    (Level::Raid6, "la", 0),
    (Level::Raid6, "ra", 1),
    (Level::Raid6, "ls", 2),
    (Level::Raid6, "rs", 3),
    (Level::Raid6, "default", 2),
    (Level::Raid10, "n2", 0x102),
    (Level::Raid10, "f2", 0x201),
    (Level::Raid10, "o2", 0x10201),
    (Level::Raid10, "o3", 0x10301),
];

#[test]
fn every_valid_number_goes_round_and_so_does_its_name() {
    for (level, expected) in [(Level::Raid0, 3), (Level::Raid5, 6), (Level::Raid6, 14), (Level::Raid10, 255 * 255 * 2 * 3)] {
        let mut found = 0;
        for number in 0..0x8_0000 {
            let Ok(layout) = Layout::from_md_number(level, number) else { continue };
            assert_eq!(layout.md_number(level), number, "{level} {layout:?}");
            assert_eq!(Layout::from_name(level, &layout.to_string()), Ok(layout), "{level}");
            found += 1;
        }
        assert_eq!(found, expected, "{level}");
    }
}

#[test]
fn names_are_those_of_mdadm() {
    for (level, number, name) in SAID_BY_MDADM {
        let layout = Layout::from_md_number(level, number).unwrap();
        assert_eq!((layout.to_string().as_str(), Layout::from_name(level, name)), (name, Ok(layout)), "{level}");
    }
    for (level, name, number) in TAKEN_BY_MDADM {
        assert_eq!(Layout::from_name(level, name), Layout::from_md_number(level, number), "{level} {name}");
    }
    assert_eq!(Layout::default_for(Level::Raid5).md_number(Level::Raid5), 2);
}

#[test]
fn far_sets_have_names() {
    let sets = |number| Layout::from_md_number(Level::Raid10, number).unwrap();
    assert_eq!(sets(0x4_0201).to_string(), "far=2, far-sets");
    assert_eq!(sets(0x2_0202).to_string(), "near=2, far=2, old-far-sets");
    assert_eq!(Layout::from_name(Level::Raid10, "far=2,far-sets"), Ok(sets(0x4_0201)));
    // From /proc/mdstat: "2 far-copies 3 devices per set", "2 far-copies 2 devices per set", of 7.
    let members = |number| Raid10Layout::from_md_number(number).unwrap().set_members(7);
    assert_eq!([members(0x2_0201), members(0x4_0201), members(0x201)], [Some(3), Some(2), None]);
}

#[test]
fn nonsense_is_refused() {
    for (level, number) in [(Level::Raid5, 6), (Level::Raid5, 8), (Level::Raid5, 16), (Level::Raid6, 6), (Level::Raid6, 7)] {
        assert!(Layout::from_md_number(level, number).is_err(), "{level} {number}");
    }
    for number in [11, 15, 21, 0x102] {
        assert!(Layout::from_md_number(Level::Raid6, number).is_err(), "{number}");
    }
    assert!(Layout::from_md_number(Level::Raid10, 0x100).is_err());
    assert!(Layout::from_md_number(Level::Raid10, 0x60201).is_err(), "Linux: unsupported layout");
    for name in ["n0", "", "n", "near=0", "near=2,near=3", "far=2,near=2", "x2", "near=2,", "far-sets", "n256", "n2f2"] {
        assert!(Layout::from_name(Level::Raid10, name).is_err(), "{name}");
    }
    assert!(Layout::from_name(Level::Raid5, "left-symmetric-6").is_err());
    assert!(Layout::from_name(Level::Raid6, "parity-last-6").is_err());
    assert!(Layout::from_name(Level::Raid6, "02").is_err());
    assert!(Layout::from_name(Level::Raid1, "ls").is_err());
}
