//! How kernels are chosen and measured. Nothing here asserts how long anything takes.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::arch::{KERNELS, RECOVERY_KERNELS};
use crate::choose::{Chooser, Policy};
use crate::kernel::{Ready, Row};
use crate::measure::{self, MeasureError};
use crate::memory::last_cache_bytes;
use crate::remember::Remembered;
use crate::shape::{CELLS, Shape};
use crate::{Feature, Operation};

const MOMENT: Duration = Duration::from_micros(50);

fn ready_names<R: Row>(rows: &'static [R]) -> BTreeSet<&'static str> {
    rows.iter().filter_map(Ready::new).map(Ready::name).collect()
}

#[test]
fn the_environment_forces_a_kernel_or_is_refused() {
    assert_eq!(Policy::parse(None), Ok(Policy::Measure));
    assert_eq!(Policy::parse(Some("")), Ok(Policy::Measure));
    assert_eq!(Policy::parse(Some("cycle")), Ok(Policy::Cycle));
    assert_eq!(Policy::parse(Some("int64x2")), Ok(Policy::Force("int64x2")));
    let refusal = Policy::parse(Some("mmx")).unwrap_err().to_string();
    assert!(refusal.contains("URAID_PARITY='mmx'") && refusal.contains("int64x8"), "{refusal}");
}

#[test]
fn a_forced_kernel_does_everything() {
    let chooser = Chooser::new(Policy::parse(Some("int64x4")).unwrap(), None);
    for len_bytes in [512, 4096, 65536, 1 << 20] {
        assert_eq!(chooser.kernel(Operation::CheckPq, 14, len_bytes).name(), "int64x4");
        assert_eq!(chooser.recovery(Operation::RecoverTwoData, 14, len_bytes).name(), "int64x4");
    }
}

#[test]
fn cycle_takes_every_kernel_in_turn() {
    let chooser = Chooser::new(Policy::Cycle, None);
    let calls = 0..KERNELS.len() + RECOVERY_KERNELS.len();
    let seen: BTreeSet<&str> = calls.clone().map(|_| chooser.kernel(Operation::GenPq, 6, 4096).name()).collect();
    assert_eq!(seen, ready_names(KERNELS));
    let seen: BTreeSet<&str> = calls.map(|_| chooser.recovery(Operation::RecoverFromQ, 6, 4096).name()).collect();
    assert_eq!(seen, ready_names(RECOVERY_KERNELS));
}

#[test]
fn a_measured_choice_stays() {
    let chooser = Chooser::new(Policy::Measure, None);
    let first = chooser.kernel(Operation::GenPq, 6, 4096).name();
    assert!(ready_names(KERNELS).contains(first));
    assert!((0..50).all(|_| chooser.kernel(Operation::GenPq, 6, 512).name() == first));
}

#[test]
fn shapes_are_classes() {
    let shape = |operation, disks, len| {
        let shape = Shape::of(operation, disks, len);
        (shape.disks, shape.len_bytes >> 10)
    };
    assert_eq!(shape(Operation::GenPq, 8, 512), (8, 4));
    assert_eq!(shape(Operation::GenPq, 9, 8192), (10, 4));
    assert_eq!(shape(Operation::GenPq, 4, 8704), (4, 64));
    assert_eq!(shape(Operation::GenPq, 33, 8192), (48, 4));
    assert_eq!(shape(Operation::Update, 1, 4096), (1, 4));
    assert_eq!(shape(Operation::XorInto, 14, 4096), (1, 4));
    assert_eq!(shape(Operation::RecoverTwoData, 1, 4096), (2, 4));
    // Beyond the cache, whatever its size: as much as the cache holds.
    let beyond = Shape::of(Operation::GenPq, 14, last_cache_bytes() / 16);
    assert!(beyond.len_bytes * 16 >= last_cache_bytes() && beyond.len_bytes * 15 <= last_cache_bytes());
    // A call within the cache is tried within the cache.
    for disks in 1..=254 {
        for len_bytes in [512, 4096, 65536, 131_072, 524_288, 1 << 30] {
            let shape = Shape::of(Operation::GenPq, disks, len_bytes);
            assert!(shape.cell() < CELLS && shape.len_bytes.is_multiple_of(4096) && shape.len_bytes > 0);
        }
    }
}

/// A directory of this test's own.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("uraid-parity-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self) -> std::path::PathBuf {
        std::fs::read_dir(&self.0).unwrap().next().unwrap().unwrap().path()
    }

    fn chooser(&self) -> Chooser {
        Chooser::new(Policy::Measure, Some(Remembered::open(&self.0, &["some", "names"])))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_remembered_choice_is_taken_and_forgotten_on_demand() {
    let scratch = Scratch::new("remembered");
    let chooser = scratch.chooser();
    chooser.kernel(Operation::GenPq, 6, 4096);
    chooser.recovery(Operation::RecoverTwoData, 6, 4096);
    let text = std::fs::read_to_string(scratch.file()).unwrap();
    assert_eq!(text.lines().skip(2).filter(|line| line.starts_with("gen_pq 6 4096 ")).count(), 1, "{text}");
    assert_eq!(text.lines().skip(2).filter(|line| line.starts_with("recover_two_data 6 4096 ")).count(), 1, "{text}");
    // A choice that measuring would never make shows that nothing was measured.
    let head: Vec<&str> = text.lines().take(2).collect();
    std::fs::write(scratch.file(), format!("{}\ngen_pq 6 4096 int64x1\n", head.join("\n"))).unwrap();
    let other = scratch.chooser();
    assert_eq!(other.kernel(Operation::GenPq, 6, 4096).name(), "int64x1");
    // What another process wrote stays.
    other.kernel(Operation::GenP, 6, 4096);
    chooser.kernel(Operation::GenQ, 6, 4096);
    let text = std::fs::read_to_string(scratch.file()).unwrap();
    assert!(["xor_gen 6", "gen_q 6", "gen_pq 6"].iter().all(|start| text.contains(start)), "{text}");
    other.remeasure();
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
    assert_ne!(other.kernel(Operation::GenPq, 6, 4096).name(), "int64x1");
}

#[test]
fn a_file_that_is_not_ours_is_ignored() {
    let scratch = Scratch::new("foreign");
    scratch.chooser().kernel(Operation::GenPq, 6, 4096);
    let (path, good) = (scratch.file(), std::fs::read_to_string(scratch.file()).unwrap());
    let [magic, key, ..] = good.lines().collect::<Vec<_>>()[..] else { panic!("{good}") };
    let choice = "gen_pq 6 4096 int64x1";
    let foreign = [
        String::new(),
        format!("another\n{key}\n{choice}\n"),
        format!("{magic}\n{key} and more\n{choice}\n"),
        format!("{magic}\n{key}\n{choice}\nnonsense\n"),
        format!("{magic}\n{key}\ngen_pq 6 4096 no-such-kernel\n"),
        format!("{magic}\n{key}\n{choice}\n{}", "x y\n".repeat(100_000)),
    ];
    for text in foreign.iter().map(String::as_bytes).chain([&[0xff, 0xfe, 0][..]]) {
        std::fs::write(&path, text).unwrap();
        assert_ne!(scratch.chooser().kernel(Operation::GenPq, 6, 4096).name(), "int64x1");
    }
    // And the canary: the same without a flaw is taken.
    std::fs::write(&path, format!("{magic}\n{key}\n{choice}\n")).unwrap();
    assert_eq!(scratch.chooser().kernel(Operation::GenPq, 6, 4096).name(), "int64x1");
}

#[test]
fn a_file_that_can_not_be_written_does_no_harm() {
    let scratch = Scratch::new("unwritable");
    let in_the_way = scratch.0.join("file");
    std::fs::write(&in_the_way, "").unwrap();
    let chooser = Chooser::new(Policy::Measure, Some(Remembered::open(&in_the_way, &[])));
    chooser.kernel(Operation::GenPq, 6, 4096);
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
}

#[test]
fn every_shape_of_the_grid_can_be_compared() {
    // The largest blocks take too long for a test.
    for (operation, part, disks, len_bytes) in measure::grid().filter(|shape| shape.2 <= 14 && shape.3 <= 4096) {
        let compared = measure::compare(operation, part, disks, len_bytes, 1, Duration::from_nanos(1)).unwrap();
        assert!(compared.chosen_rate() > 0.0 && compared.share_of_best().is_some_and(|share| share <= 1.0), "{compared:?}");
        let table = if operation.is_recovery() { measure::recovery_kernels() } else { measure::kernels() };
        assert_eq!(compared.rates.len(), table.iter().filter(|kernel| kernel.is_available()).count());
        assert_eq!(compared.two_pass.is_empty(), !operation.is_update());
        assert_eq!(compared.times_two_pass("int64").is_some(), operation.is_update());
        assert!(compared.limit.is_some() || !operation.is_update());
        assert_eq!(compared.share_of_limit().is_some(), compared.limit.is_some());
    }
}

#[test]
fn every_operation_of_every_kernel_can_be_measured() {
    for operation in Operation::ALL {
        let table = if operation.is_recovery() { measure::recovery_kernels() } else { measure::kernels() };
        for kernel in table {
            let measured = measure::measure(kernel.name, operation, 6, 4096, MOMENT);
            assert_eq!(measured.is_ok_and(|rate| rate > 0.0), kernel.is_available(), "{} {operation}", kernel.name);
        }
    }
    for kernel in measure::crc32c_kernels() {
        let measured = measure::measure_crc32c(kernel.name, 4096, MOMENT);
        assert_eq!(measured.is_ok_and(|rate| rate > 0.0), kernel.is_available(), "{}", kernel.name);
    }
    assert!(measure::measure_gen("int64x1", 6, 4096, MOMENT).unwrap() > 0.0);
    assert!(measure::measure_xor("int64x1", 6, 4096, MOMENT).unwrap() > 0.0);
    assert!(measure::measure_plain_xor("int64x1", 6, 4096, MOMENT).unwrap() > 0.0);
}

#[test]
fn the_smallest_and_largest_stripes_can_be_measured() {
    for operation in Operation::ALL {
        let least = if operation == Operation::RecoverTwoData { 2 } else { 1 };
        for disks in [least, least + 1, 3, 254] {
            assert!(measure::measure("int64x8", operation, disks, 512, MOMENT).is_ok(), "{operation} {disks}");
        }
    }
}

#[test]
fn what_can_not_be_measured_is_refused() {
    let gen_with = |name, disks, len| measure::measure_gen(name, disks, len, MOMENT).unwrap_err();
    assert_eq!(gen_with("mmx", 6, 4096), MeasureError::UnknownKernel { name: "mmx".to_owned() });
    assert_eq!(gen_with("int64x1", 0, 4096), MeasureError::Disks { data_disks: 0 });
    assert_eq!(gen_with("int64x1", 255, 4096), MeasureError::Disks { data_disks: 255 });
    assert_eq!(gen_with("int64x1", 6, 0), MeasureError::BlockLength { block_bytes: 0 });
    assert_eq!(gen_with("int64x1", 6, 100), MeasureError::BlockLength { block_bytes: 100 });
    let two = measure::measure("int64x1", Operation::RecoverTwoData, 1, 4096, MOMENT);
    assert_eq!(two, Err(MeasureError::Disks { data_disks: 1 }));
    let kernel = measure::KernelInfo { name: "x", needs: &[Feature::Gfni], missing: vec![Feature::Gfni] };
    assert_eq!(MeasureError::Unavailable { kernel }.to_string(), "kernel 'x' needs what this processor lacks: gfni");
}

#[test]
fn the_chosen_are_told() {
    let chosen = measure::chosen(Operation::GenPq);
    let shapes: Vec<(usize, usize)> = chosen.iter().map(|row| (row.data_disks, row.block_bytes >> 10)).collect();
    assert_eq!(shapes, [(6, 4), (14, 4), (6, 64), (14, 64), (6, 512), (14, 512)]);
    assert!(chosen.iter().all(|row| ready_names(KERNELS).contains(row.kernel)));
    let shapes: Vec<usize> = measure::chosen(Operation::XorInto).iter().map(|row| row.block_bytes >> 10).collect();
    assert_eq!(shapes, [4, 64, 512]);
    assert!(measure::KERNEL_XOR_NAMES.iter().filter(|(_, ours)| ours.starts_with("int64")).count() == 2);
    assert!(measure::crc32c_kernels().iter().any(|kernel| kernel.name == measure::chosen_crc32c()));
}
