//! Every table that Linux wrote (`kernel.txt`) is reproduced, in both directions, with the same capacity and the same
//! survivors.

use std::collections::{BTreeMap, BTreeSet};

use uraid_geometry::{Copies, Geometry, Parity, ParityRole, Shape};
use uraid_types::{Layout, Level, ParityLayout, Raid10Layout, Sector, SectorCount, Slot, StripeNo};

/// What Linux stored in one chunk of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Data { chunk: u64, power: Option<usize> },
    P,
    Q,
    Nothing,
}

/// One array as Linux laid it out.
struct Table {
    shape: Shape,
    capacity: SectorCount,
    /// By slot, then by chunk of the member.
    members: Vec<Vec<Stored>>,
}

impl Table {
    /// The unit of the table: the chunk, or 8 sectors where there is none.
    fn unit(&self) -> u64 {
        if self.shape.chunk.is_zero() { 8 } else { self.shape.chunk.0 }
    }

    fn cells(&self) -> impl Iterator<Item = (Slot, u64, Stored)> + '_ {
        self.members.iter().enumerate().flat_map(|(slot, row)| {
            row.iter().enumerate().map(move |(chunk, &stored)| (Slot::from_index(slot), chunk as u64, stored))
        })
    }

    /// The (slot, member chunk) pairs of each array chunk.
    fn places(&self) -> BTreeMap<u64, BTreeSet<(u16, u64)>> {
        let mut places = BTreeMap::<u64, BTreeSet<(u16, u64)>>::new();
        for (slot, member_chunk, stored) in self.cells() {
            if let Stored::Data { chunk, .. } = stored {
                places.entry(chunk).or_default().insert((slot.0, member_chunk));
            }
        }
        places
    }
}

fn layout_of(level: Level, number: u32) -> Layout {
    if level != Level::Raid10 {
        return Layout::from_md_number(level, number).unwrap();
    }
    let [near_copies, far_copies, flags, _] = number.to_le_bytes();
    Layout::Raid10(Raid10Layout {
        near_copies,
        far_copies,
        far_offset: flags & 1 != 0,
        far_sets: flags & 2 != 0,
        far_sets_improved: flags & 4 != 0,
    })
}

fn parse_header(line: &str) -> Table {
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)).unwrap();
    let level: Level = words[1].parse().unwrap();
    let number = u32::from_str_radix(value("layout=").trim_start_matches("0x"), 16).unwrap();
    let sizes = value("members=").split(',').map(|size| SectorCount(size.parse().unwrap()));
    let member_sectors: Vec<SectorCount> = sizes.collect();
    let shape = Shape {
        level,
        layout: layout_of(level, number),
        raid_disks: member_sectors.len() as u16,
        chunk: SectorCount(value("chunk=").parse().unwrap()),
        member_sectors,
    };
    Table { shape, capacity: SectorCount(value("capacity=").parse().unwrap()), members: Vec::new() }
}

fn parse_word(word: &str) -> Stored {
    match word {
        "P" => Stored::P,
        "Q" => Stored::Q,
        "-" => Stored::Nothing,
        _ => match word.split_once('*') {
            Some((chunk, power)) => Stored::Data { chunk: chunk.parse().unwrap(), power: Some(power.parse().unwrap()) },
            None => Stored::Data { chunk: word.parse().unwrap(), power: None },
        },
    }
}

fn tables() -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for line in include_str!("kernel.txt").lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("array ") {
            tables.push(parse_header(line));
        } else {
            tables.last_mut().unwrap().members.push(line.split_whitespace().map(parse_word).collect());
        }
    }
    tables
}

#[test]
fn the_tables_are_there() {
    let tables = tables();
    for level in Level::ALL {
        assert!(tables.iter().any(|table| table.shape.level == level), "{level}");
    }
    assert!(tables.iter().all(|table| table.members.len() == usize::from(table.shape.raid_disks)));
    for layout in ParityLayout::of_level(Level::Raid6) {
        let of_layout =
            tables.iter().filter(|table| (table.shape.level, table.shape.layout) == (Level::Raid6, Layout::Parity(*layout)));
        assert!(of_layout.count() >= 3, "{layout:?}");
    }
    let chunks: usize = tables.iter().map(|table| table.places().len()).sum();
    assert!(chunks > 1500, "{chunks}");
}

#[test]
fn capacities_are_those_of_linux() {
    for table in tables() {
        assert_eq!(Geometry::new(&table.shape).unwrap().capacity(), table.capacity, "{:?}", table.shape);
    }
}

#[test]
fn data_lies_where_linux_put_it() {
    for table in tables() {
        match Geometry::new(&table.shape).unwrap() {
            Geometry::Copies(copies) => {
                check_locate(&table, &copies);
                check_at_member(&table, &copies);
            }
            Geometry::Parity(parity) => check_parity(&table, &parity),
        }
    }
}

fn check_locate(table: &Table, copies: &Copies) {
    let unit = table.unit();
    let places = table.places();
    assert_eq!(places.len() as u64, table.capacity.0.div_ceil(unit), "{:?}", table.shape);
    for (chunk, expected) in places {
        let array = Sector(chunk * unit);
        let extent = copies.locate(array, SectorCount(unit));
        let found: BTreeSet<_> = extent.copies.iter().map(|place| (place.slot.0, place.sector.0 / unit)).collect();
        assert_eq!(found, expected, "chunk {chunk} of {:?}", table.shape);
        assert_eq!(extent.copies.len(), expected.len());
        let len = unit.min(table.capacity.0 - array.0);
        assert_eq!(extent.len, SectorCount(len), "chunk {chunk} of {:?}", table.shape);
    }
}

fn check_at_member(table: &Table, copies: &Copies) {
    let unit = table.unit();
    for (slot, member_chunk, stored) in table.cells() {
        let extent = copies.at_member(slot, Sector(member_chunk * unit), SectorCount(unit));
        let expected = match stored {
            Stored::Data { chunk, .. } => Some(Sector(chunk * unit)),
            _ => None,
        };
        assert_eq!(extent.array, expected, "{slot} chunk {member_chunk} of {:?}", table.shape);
    }
}

fn check_parity(table: &Table, parity: &Parity) {
    let unit = table.unit();
    for (slot, member_chunk, stored) in table.cells() {
        let stripe = StripeNo(member_chunk);
        let context = format!("{slot} stripe {member_chunk} of {:?}", table.shape);
        match stored {
            Stored::Data { chunk, power } => {
                let place = parity.stripe_of(Sector(chunk * unit));
                if table.shape.raid_disks == 2 {
                    // The only parity of one data member is its copy.
                    assert_eq!(place.stripe, stripe, "{context}");
                    continue;
                }
                assert_eq!((place.stripe, place.slot), (stripe, slot), "{context}");
                assert_eq!(parity.role(stripe, slot), ParityRole::Data(place.index), "{context}");
                assert_eq!(parity.data_slot(stripe, place.index), slot, "{context}");
                assert_eq!(parity.array_sector(stripe, place.index, SectorCount(3)), Sector(chunk * unit + 3), "{context}");
                if table.shape.level == Level::Raid6 {
                    let exponent = match parity.gaps(stripe) {
                        None => place.index,
                        Some(gaps) => (0..).filter(|exponent| !gaps.contains(exponent)).nth(place.index).unwrap(),
                    };
                    assert_eq!(Some(exponent), power, "{context}");
                }
            }
            Stored::P => {
                assert_eq!((parity.role(stripe, slot), parity.p_slot(stripe)), (ParityRole::P, slot), "{context}");
            }
            Stored::Q => {
                assert_eq!((parity.role(stripe, slot), parity.q_slot(stripe)), (ParityRole::Q, Some(slot)), "{context}");
            }
            Stored::Nothing => panic!("a stripe holds nothing useless: {context}"),
        }
    }
    assert_eq!(table.places().len() as u64 * unit, table.capacity.0);
}

/// Which sets of members are enough is read off the tables: every chunk must be on a member that is left, or (parity) at
/// most as many members may be gone as the level has parity.
#[test]
fn survivors_are_those_of_the_tables() {
    for table in tables().iter().filter(|table| !table.shape.level.has_parity()) {
        let geometry = Geometry::new(&table.shape).unwrap();
        let places = table.places();
        let disks = table.shape.raid_disks;
        let mut fewest_fatal = u32::from(disks);
        for set in 0..1_u32 << disks {
            let is_lost = |slot: u16| set & 1 << slot != 0;
            let expected = places.values().all(|copies| copies.iter().any(|&(slot, _)| !is_lost(slot)));
            let missing: Vec<Slot> = (0..disks).filter(|&slot| is_lost(slot)).map(Slot).collect();
            assert_eq!(geometry.survives(&missing), expected, "{missing:?} of {:?}", table.shape);
            if !expected {
                fewest_fatal = fewest_fatal.min(set.count_ones());
            }
        }
        assert_eq!(geometry.max_failures() as u32, fewest_fatal - 1, "{:?}", table.shape);
    }
}

#[test]
fn parity_survives_as_many_losses_as_it_has_parity() {
    for table in tables().iter().filter(|table| table.shape.level.has_parity()) {
        let geometry = Geometry::new(&table.shape).unwrap();
        let parity = if table.shape.level == Level::Raid6 { 2 } else { 1 };
        assert_eq!(geometry.max_failures(), parity);
        for set in 0..1_u32 << table.shape.raid_disks {
            let missing: Vec<Slot> = (0..table.shape.raid_disks).filter(|slot| set & 1 << slot != 0).map(Slot).collect();
            assert_eq!(geometry.survives(&missing), missing.len() <= parity, "{missing:?}");
        }
        // A member named twice is missing once; one that the array does not have is not missing.
        assert!(geometry.survives(&[Slot(1), Slot(1), Slot(77)]));
    }
}

/// Sizes that mdadm would have rounded, written into the superblock: (level, layout, chunk, members, size, capacity), from
/// Linux 6.1.
#[test]
fn odd_sizes_are_rounded_as_by_linux() {
    let cases: [(Level, u32, u64, &[u64], u64); 14] = [
        (Level::Linear, 0, 0, &[81, 115, 99], 295),
        (Level::Linear, 0, 32, &[81, 115, 99], 256),
        (Level::Linear, 0, 24, &[576, 400, 808], 1752),
        (Level::Raid0, 2, 8, &[81, 115, 99], 288),
        (Level::Raid0, 1, 24, &[240, 384, 384, 576], 1568),
        (Level::Raid0, 0, 20, &[152, 152, 152], 420),
        (Level::Raid1, 0, 0, &[127, 127], 127),
        (Level::Raid5, 2, 16, &[89, 89, 89], 160),
        (Level::Raid5, 2, 32, &[392, 392, 392], 768),
        (Level::Raid10, 0x102, 8, &[91; 3], 128),
        (Level::Raid10, 0x103, 8, &[95; 5], 144),
        (Level::Raid10, 0x201, 8, &[93; 3], 120),
        (Level::Raid10, 0x10201, 8, &[93; 3], 120),
        (Level::Raid10, 0x203, 8, &[88; 7], 88),
    ];
    for (level, layout, chunk, members, capacity) in cases {
        let shape = Shape {
            level,
            layout: layout_of(level, layout),
            raid_disks: members.len() as u16,
            chunk: SectorCount(chunk),
            member_sectors: members.iter().copied().map(SectorCount).collect(),
        };
        let geometry = Geometry::new(&shape).unwrap();
        assert_eq!(geometry.capacity(), SectorCount(capacity), "{shape:?}");
        let resync = match level {
            Level::Linear | Level::Raid0 => 0,
            Level::Raid1 | Level::Raid10 => capacity,
            _ => members[0] / chunk * chunk,
        };
        assert_eq!(geometry.resync_sectors(), SectorCount(resync), "{shape:?}");
    }
}
