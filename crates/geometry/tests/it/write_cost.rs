//! The arithmetic of I/O counts against the published table and against counting sector by sector.

use proptest::prelude::*;
use uraid_geometry::{Geometry, IoCount, Parity, Shape, WriteCost};
use uraid_types::{Layout, Level, ParityLayout, Sector, SectorCount};

fn parity(level: Level, raid_disks: u16, chunk: u64, stripes: u64) -> Parity {
    let shape = Shape {
        level,
        layout: Layout::Parity(ParityLayout::LeftSymmetric),
        raid_disks,
        chunk: SectorCount(chunk),
        member_sectors: vec![SectorCount(stripes * chunk); usize::from(raid_disks)],
    };
    match Geometry::new(&shape).unwrap() {
        Geometry::Parity(parity) => parity,
        Geometry::Copies(_) => unreachable!(),
    }
}

/// Ten members of RAID6 with 64 KiB chunks (2014): read-modify-write promises two thirds more up to 64 KiB, a quarter more
/// at 128 KiB, nothing from 256 KiB.
#[test]
fn the_gain_of_read_modify_write_is_the_published_one() {
    let array = parity(Level::Raid6, 10, 128, 100);
    let kib = |kib: u64| array.write_cost(Sector(0), SectorCount(kib * 2));
    let gain = |cost: WriteCost| cost.reconstruct.total() as f64 / cost.least.total() as f64 - 1.0;
    for size in [4, 8, 16, 32, 64] {
        let cost = kib(size);
        assert_eq!(cost.reconstruct, IoCount { reads: 7, writes: 3 });
        assert_eq!(cost.read_modify_write, IoCount { reads: 3, writes: 3 });
        assert_eq!((gain(cost) * 100.0) as u32, 66);
    }
    assert_eq!(kib(128).reconstruct, IoCount { reads: 6, writes: 4 });
    assert_eq!(kib(128).read_modify_write, IoCount { reads: 4, writes: 4 });
    assert_eq!((gain(kib(128)) * 100.0) as u32, 25);
    assert_eq!(kib(256).reconstruct, IoCount { reads: 4, writes: 6 });
    assert_eq!(kib(256).read_modify_write, IoCount { reads: 6, writes: 6 });
    assert_eq!(gain(kib(256)), 0.0);
    let full = kib(512);
    assert_eq!((full.reconstruct, full.full_stripes), (IoCount { reads: 0, writes: 10 }, 1));
    assert_eq!(full.least, full.reconstruct);
    assert_eq!(gain(kib(1024)), 0.0);
}

/// Counts by marking each (data member, row) of one stripe and looking for runs.
fn counted(data: usize, parity: u64, chunk: usize, from: usize, to: usize) -> (IoCount, IoCount) {
    let written = |member: usize, row: usize| (from..to).contains(&(member * chunk + row));
    let row_written: Vec<bool> = (0..chunk).map(|row| (0..data).any(|member| written(member, row))).collect();
    let runs =
        |wanted: &dyn Fn(usize) -> bool| (0..chunk).filter(|&row| wanted(row) && (row == 0 || !wanted(row - 1))).count() as u64;
    let data_writes: u64 = (0..data).map(|member| runs(&|row| written(member, row))).sum();
    let parity_runs = parity * runs(&|row| row_written[row]);
    let rest: u64 = (0..data).map(|member| runs(&|row| row_written[row] && !written(member, row))).sum();
    let writes = data_writes + parity_runs;
    (IoCount { reads: writes, writes }, IoCount { reads: rest, writes })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn costs_are_those_of_counting(
        (disks, is_raid6) in (4_u16..10, any::<bool>()),
        start in 0_u64..600,
        len in 0_u64..600,
    ) {
        let (level, parities) = if is_raid6 { (Level::Raid6, 2) } else { (Level::Raid5, 1) };
        let (chunk, stripes) = (8, 100);
        let array = parity(level, disks, chunk, stripes);
        let data = array.data_members();
        let stripe_len = chunk * data as u64;
        let mut expected = WriteCost::default();
        for stripe in 0..stripes {
            let base = stripe * stripe_len;
            let from = start.clamp(base, base + stripe_len) - base;
            let to = (start + len).clamp(base, base + stripe_len) - base;
            if from == to {
                continue;
            }
            let (rmw, rcw) = counted(data, parities, chunk as usize, from as usize, to as usize);
            expected.read_modify_write += rmw;
            expected.reconstruct += rcw;
            expected.least += if rmw.total() < rcw.total() { rmw } else { rcw };
            expected.full_stripes += u64::from(to - from == stripe_len);
        }
        prop_assert_eq!(array.write_cost(Sector(start), SectorCount(len)), expected);
    }
}

#[test]
#[should_panic(expected = "beyond")]
fn a_write_past_the_end_has_no_cost() {
    let array = parity(Level::Raid5, 3, 8, 10);
    let _ = array.write_cost(Sector(159), SectorCount(2));
}
