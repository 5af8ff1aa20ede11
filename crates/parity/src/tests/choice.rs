//! How kernels are chosen and measured. Nothing here asserts how long anything takes.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::arch::{KERNELS, RECOVERY_KERNELS};
use crate::choose::{Chooser, Policy, Shape};
use crate::kernel::{Ready, Row};
use crate::measure::{self, MeasureError};
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
    let chooser = Chooser::new(Policy::parse(Some("int64x4")).unwrap());
    for len_bytes in [512, 4096, 65536, 1 << 20] {
        assert_eq!(chooser.kernel(Operation::CheckPq, 14, len_bytes).name(), "int64x4");
        assert_eq!(chooser.recovery(Operation::RecoverTwoData, 14, len_bytes).name(), "int64x4");
    }
}

#[test]
fn cycle_takes_every_kernel_in_turn() {
    let chooser = Chooser::new(Policy::Cycle);
    let calls = 0..KERNELS.len() + RECOVERY_KERNELS.len();
    let seen: BTreeSet<&str> = calls.clone().map(|_| chooser.kernel(Operation::GenPq, 6, 4096).name()).collect();
    assert_eq!(seen, ready_names(KERNELS));
    let seen: BTreeSet<&str> = calls.map(|_| chooser.recovery(Operation::RecoverFromQ, 6, 4096).name()).collect();
    assert_eq!(seen, ready_names(RECOVERY_KERNELS));
}

#[test]
fn a_measured_choice_stays() {
    let chooser = Chooser::new(Policy::Measure);
    let first = chooser.kernel(Operation::GenPq, 6, 4096).name();
    assert!(ready_names(KERNELS).contains(first));
    assert!((0..50).all(|_| chooser.kernel(Operation::GenPq, 5, 512).name() == first));
}

#[test]
fn shapes_are_classes() {
    let shape = |operation, disks, len| {
        let shape = Shape::of(operation, disks, len);
        (shape.disks, shape.len_bytes >> 10)
    };
    assert_eq!(shape(Operation::GenPq, 8, 512), (6, 4));
    assert_eq!(shape(Operation::GenPq, 9, 8192), (14, 4));
    assert_eq!(shape(Operation::GenPq, 4, 8704), (6, 64));
    assert_eq!(shape(Operation::GenPq, 254, 131_072), (14, 64));
    assert_eq!(shape(Operation::GenPq, 4, 524_288), (14, 256));
    assert_eq!(shape(Operation::Update, 14, 4096), (6, 4));
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
        for disks in [least, least + 1, 254] {
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
    assert_eq!(shapes, [(6, 4), (14, 4), (6, 64), (14, 64), (14, 256)]);
    assert!(chosen.iter().all(|row| ready_names(KERNELS).contains(row.kernel)));
    let shapes: Vec<usize> = measure::chosen(Operation::Update).iter().map(|row| row.block_bytes >> 10).collect();
    assert_eq!(shapes, [4, 64, 256]);
    assert!(measure::crc32c_kernels().iter().any(|kernel| kernel.name == measure::chosen_crc32c()));
}
