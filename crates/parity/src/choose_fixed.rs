//! The choice without measuring: the last row of each table that can run.

use crate::Operation;
use crate::arch::{KERNELS, RECOVERY_KERNELS};
use crate::kernel::{Kernel, Ready, RecoveryKernel, Row};

fn last<R: Row>(rows: &'static [R]) -> Ready<R> {
    // Streaming stores are right for none but the largest blocks.
    let for_any_length = |row: &Ready<R>| !row.manner().streaming && !row.manner().counted;
    rows.iter().rev().filter_map(Ready::new).find(for_any_length).expect("the plain kernels run everywhere")
}

pub(crate) fn kernel(_operation: Operation, _disks: usize, _len_bytes: usize) -> Ready<Kernel> {
    last(KERNELS)
}

pub(crate) fn recovery(_operation: Operation, _disks: usize, _len_bytes: usize) -> Ready<RecoveryKernel> {
    last(RECOVERY_KERNELS)
}
