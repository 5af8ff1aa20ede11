//! How fast the kernels are, and which are in use: plain figures for others to print.
//!
//! Every rate is in MiB a second, as the kernel's "MB/s" is. The memory is touched before the clock starts, one thread runs, and the
//! clock is the thread's own processor time: what other programs take of the processor does not count.

mod clock;
mod compare;

use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use crate::arch::{KERNELS, RECOVERY_KERNELS};
use crate::choose;
use crate::crc::{self, CRC_KERNELS, CrcKernel};
use crate::kernel::Row;
use crate::shape::Shape;
use crate::trial::{Changed, Tried, Work, placements, with_trials};
use crate::{Feature, Operation};

pub use compare::{Comparison, GRID_BLOCK_BYTES, GRID_DATA_DISKS, Part, Rate, compare, grid};

pub(crate) use clock::now;
use clock::rate;

/// The data disks of the kernel's own figure: 8 disks with P and Q.
pub const KERNEL_DATA_DISKS: usize = 6;

/// The block length of the kernel's own figure: one page.
pub const KERNEL_BLOCK_BYTES: usize = 4096;

/// One kernel and whether it can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its name, for `URAID_PARITY` and for the functions here.
    pub name: &'static str,
    /// What it needs.
    pub needs: &'static [Feature],
    /// What of that the processor lacks; empty: it can run.
    pub missing: Vec<Feature>,
}

impl KernelInfo {
    fn of<R: Row>(row: &R) -> KernelInfo {
        KernelInfo::new(row.name(), row.needs())
    }

    fn new(name: &'static str, needs: &'static [Feature]) -> KernelInfo {
        let missing = needs.iter().copied().filter(|feature| !feature.is_there()).collect();
        KernelInfo { name, needs, missing }
    }

    /// Can it run here?
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.missing.is_empty()
    }
}

/// The kernels that make, update and check parity, best last as far as that can be said without measuring.
#[must_use]
pub fn kernels() -> Vec<KernelInfo> {
    KERNELS.iter().map(KernelInfo::of).collect()
}

/// The kernels that recover data.
#[must_use]
pub fn recovery_kernels() -> Vec<KernelInfo> {
    RECOVERY_KERNELS.iter().map(KernelInfo::of).collect()
}

/// The kernels that compute CRC32C.
#[must_use]
pub fn crc32c_kernels() -> Vec<KernelInfo> {
    CRC_KERNELS.iter().map(|(name, needs)| KernelInfo::new(name, needs)).collect()
}

/// What can't be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeasureError {
    /// No kernel of that name is in the table for the operation.
    UnknownKernel {
        /// The name.
        name: String,
    },
    /// The processor can't run it.
    Unavailable {
        /// What it is and what is missing.
        kernel: KernelInfo,
    },
    /// Not 1 to 254 data disks, or too few for the operation.
    Disks {
        /// How many.
        data_disks: usize,
    },
    /// Not a positive multiple of 512.
    BlockLength {
        /// How long.
        block_bytes: usize,
    },
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeasureError::UnknownKernel { name } => write!(f, "there is no kernel '{name}' for this"),
            MeasureError::Unavailable { kernel } => {
                write!(f, "kernel '{}' needs what this processor lacks:", kernel.name)?;
                kernel.missing.iter().try_for_each(|feature| write!(f, " {feature}"))
            }
            MeasureError::Disks { data_disks } => write!(f, "{data_disks} data disks are too few or too many for this"),
            MeasureError::BlockLength { block_bytes } => write!(f, "{block_bytes} bytes are no positive multiple of 512"),
        }
    }
}

impl std::error::Error for MeasureError {}

/// [`crate::gen_pq`]: MiB of data a second.
///
/// # Errors
/// For a kernel that is not there and for shapes that can't be.
pub fn measure_gen(kernel: &str, data_disks: usize, block_bytes: usize, duration: Duration) -> Result<f64, MeasureError> {
    measure(kernel, Operation::GenPq, data_disks, block_bytes, duration)
}

/// The kernel's xor(): the upper half of the data disks is added to P and Q, and those bytes count.
///
/// # Errors
/// As [`measure_gen`].
pub fn measure_xor(kernel: &str, data_disks: usize, block_bytes: usize, duration: Duration) -> Result<f64, MeasureError> {
    let shape = check_shape(data_disks, block_bytes, 1)?;
    table_rate(KERNELS, kernel, Operation::UpdateByDifference, Changed::UpperHalf, shape, duration)
}

/// [`crate::xor_gen`], RAID5's checksum: MiB of data a second.
///
/// # Errors
/// As [`measure_gen`].
pub fn measure_plain_xor(kernel: &str, data_disks: usize, block_bytes: usize, duration: Duration) -> Result<f64, MeasureError> {
    measure(kernel, Operation::GenP, data_disks, block_bytes, duration)
}

/// Any operation: MiB a second of the data that it is about. That is every data block of the stripe, lost ones too; one block
/// for an update, [`Operation::XorInto`] and [`Operation::IsZero`].
///
/// # Errors
/// As [`measure_gen`].
pub fn measure(
    kernel: &str,
    operation: Operation,
    data_disks: usize,
    block_bytes: usize,
    duration: Duration,
) -> Result<f64, MeasureError> {
    let shape = check_shape(data_disks, block_bytes, least_disks(operation))?;
    if operation.is_recovery() {
        table_rate(RECOVERY_KERNELS, kernel, operation, Changed::One, shape, duration)
    } else {
        table_rate(KERNELS, kernel, operation, Changed::One, shape, duration)
    }
}

/// CRC32C over one block again and again: MiB a second.
///
/// # Errors
/// As [`measure_gen`].
pub fn measure_crc32c(kernel: &str, block_bytes: usize, duration: Duration) -> Result<f64, MeasureError> {
    check_shape(1, block_bytes, 1)?;
    let Some(ready) = CrcKernel::new(kernel) else {
        return Err(why_not(&crc32c_kernels(), kernel));
    };
    let block = vec![0x5a_u8; block_bytes];
    Ok(rate(block_bytes, duration, |times| {
        for _ in 0..times {
            black_box(ready.run(!0, black_box(&block)));
        }
    }))
}

/// The fewest data disks that the operation can be tried on.
const fn least_disks(operation: Operation) -> usize {
    if matches!(operation, Operation::RecoverTwoData) { 2 } else { 1 }
}

fn check_shape(data_disks: usize, block_bytes: usize, least: usize) -> Result<(usize, usize), MeasureError> {
    if !(least..=crate::MAX_DATA_DISKS).contains(&data_disks) {
        return Err(MeasureError::Disks { data_disks });
    }
    if block_bytes == 0 || !block_bytes.is_multiple_of(crate::UNIT_BYTES) {
        return Err(MeasureError::BlockLength { block_bytes });
    }
    Ok((data_disks, block_bytes))
}

fn why_not(table: &[KernelInfo], name: &str) -> MeasureError {
    match table.iter().find(|kernel| kernel.name == name) {
        Some(kernel) => MeasureError::Unavailable { kernel: kernel.clone() },
        None => MeasureError::UnknownKernel { name: name.to_owned() },
    }
}

fn table_rate<R: Tried>(
    rows: &'static [R],
    name: &str,
    operation: Operation,
    changed: Changed,
    (disks, block_bytes): (usize, usize),
    duration: Duration,
) -> Result<f64, MeasureError> {
    let Some(ready) = choose::find(rows, name) else {
        let table: Vec<KernelInfo> = rows.iter().map(KernelInfo::of).collect();
        return Err(why_not(&table, name));
    };
    let work = Work::new(operation, changed);
    Ok(with_trials(work, disks, block_bytes, placements(block_bytes), |trials| {
        let bytes = trials.len() * work.counted_blocks(disks) * block_bytes;
        rate(bytes, duration, |times| R::repeat_on_all(ready, work, trials, times))
    }))
}

/// The kernel in use for one operation and one shape of stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The operation.
    pub operation: Operation,
    /// Data disks of the stripe that it was measured on; for an update those that change.
    pub data_disks: usize,
    /// Block length it was measured on; 4 KiB stands for up to 8 KiB, 64 KiB for up to 128 KiB, 512 KiB for more.
    pub block_bytes: usize,
    /// The kernel's name. With `URAID_PARITY=cycle` it is another one each time.
    pub kernel: &'static str,
}

/// The kernels in use for `operation`; what has not been used yet is measured now.
///
/// # Panics
/// When `URAID_PARITY` makes no sense; see [`crate::check_override`].
#[must_use]
pub fn chosen(operation: Operation) -> Vec<Chosen> {
    let mut chosen: Vec<Chosen> = Vec::new();
    for block_bytes in [4 << 10, 64 << 10, 512 << 10] {
        for data_disks in [KERNEL_DATA_DISKS, 14] {
            let shape = Shape::of(operation, data_disks, block_bytes);
            let kernel = chosen_for(operation, data_disks, block_bytes);
            chosen.push(Chosen { operation, data_disks: shape.disks, block_bytes: shape.len_bytes, kernel });
        }
    }
    chosen.dedup_by_key(|row| (row.data_disks, row.block_bytes));
    chosen
}

/// The kernel in use for calls of that shape; for an update `data_disks` are those that change. Measured now if it has not been used.
///
/// # Panics
/// As [`chosen`].
#[must_use]
pub fn chosen_for(operation: Operation, data_disks: usize, block_bytes: usize) -> &'static str {
    if operation.is_recovery() {
        choose::recovery(operation, data_disks, block_bytes).name()
    } else {
        choose::kernel(operation, data_disks, block_bytes).name()
    }
}

/// Names of XOR code in the kernel's boot log (`xor: measuring software checksum speed`), and the kernel here that goes about it in
/// the same way: a word at a time; eight words held in registers; 16-byte registers; 32-byte registers. Those with software prefetch
/// (`prefetch64-sse`, `8regs_prefetch`, ..) and MMX (`p5_mmx`, ..) have no counterpart.
pub const KERNEL_XOR_NAMES: [(&str, &str); 4] =
    [("8regs", "int64x1"), ("32regs", "int64x8"), ("sse", "sse2x4"), ("avx", "avx2x4")];

/// The CRC32C kernel in use.
#[must_use]
pub fn chosen_crc32c() -> &'static str {
    crc::winner().name()
}
