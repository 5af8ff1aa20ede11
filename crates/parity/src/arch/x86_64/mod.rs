//! Intel and AMD, 64 bits.

mod avx2;
mod avx512;
mod gfni;
mod sse;

#[cfg(feature = "std")]
pub(crate) use sse::crc32c_instruction;

use super::generic::{INT64X1, INT64X2, INT64X4, INT64X8, RECOVER_INT64X1, RECOVER_INT64X2, RECOVER_INT64X4, RECOVER_INT64X8};
#[cfg(feature = "std")]
use super::generic::{LIMIT_INT64X8, TWO_PASS_INT64X8};
use crate::kernel::{Kernel, RecoveryKernel};
#[cfg(feature = "std")]
use crate::rival::{LimitKernel, TwoPassKernel};
use crate::style::{Counted, Plain, Streaming};
use avx2::Avx2;
use avx512::Avx512;
use gfni::{GfniAvx2, GfniAvx512};
use sse::{Sse2, Ssse3};

/// Best last, as far as that can be said without measuring. A name is the instruction set, the registers abreast and the style: `u` for
/// loops by the number of disks, `-nt` for streaming stores.
pub(crate) static KERNELS: &[Kernel] = &[
    INT64X1,
    INT64X2,
    INT64X4,
    INT64X8,
    Kernel::of::<Sse2, Plain, 1>("sse2x1"),
    Kernel::of::<Sse2, Plain, 2>("sse2x2"),
    Kernel::of::<Sse2, Plain, 4>("sse2x4"),
    Kernel::of::<Sse2, Streaming, 4>("sse2x4-nt"),
    Kernel::of::<Avx2, Plain, 1>("avx2x1"),
    Kernel::of::<Avx2, Plain, 2>("avx2x2"),
    Kernel::of::<Avx2, Plain, 4>("avx2x4"),
    Kernel::of::<Avx2, Streaming, 4>("avx2x4-nt"),
    Kernel::of::<GfniAvx2, Plain, 1>("gfni-avx2x1"),
    Kernel::of::<GfniAvx2, Plain, 2>("gfni-avx2x2"),
    Kernel::of::<GfniAvx2, Plain, 4>("gfni-avx2x4"),
    Kernel::of::<GfniAvx2, Streaming, 4>("gfni-avx2x4-nt"),
    Kernel::of::<GfniAvx2, Counted, 2>("gfni-avx2x2u"),
    Kernel::of::<Avx512, Plain, 1>("avx512x1"),
    Kernel::of::<Avx512, Plain, 2>("avx512x2"),
    Kernel::of::<Avx512, Plain, 4>("avx512x4"),
    Kernel::of::<Avx512, Plain, 8>("avx512x8"),
    Kernel::of::<Avx512, Streaming, 4>("avx512x4-nt"),
    Kernel::of::<Avx512, Streaming, 8>("avx512x8-nt"),
    Kernel::of::<GfniAvx512, Plain, 1>("gfni-avx512x1"),
    Kernel::of::<GfniAvx512, Plain, 2>("gfni-avx512x2"),
    Kernel::of::<GfniAvx512, Plain, 4>("gfni-avx512x4"),
    Kernel::of::<GfniAvx512, Plain, 8>("gfni-avx512x8"),
    Kernel::of::<GfniAvx512, Streaming, 4>("gfni-avx512x4-nt"),
    Kernel::of::<GfniAvx512, Streaming, 8>("gfni-avx512x8-nt"),
    Kernel::of::<GfniAvx512, Counted, 4>("gfni-avx512x4u"),
];

/// Holds every name of [`KERNELS`], so that a kernel forced by name recovers with its own instructions too.
pub(crate) static RECOVERY_KERNELS: &[RecoveryKernel] = &[
    RECOVER_INT64X1,
    RECOVER_INT64X2,
    RECOVER_INT64X4,
    RECOVER_INT64X8,
    RecoveryKernel::of::<Sse2, Plain, 1>("sse2x1"),
    RecoveryKernel::of::<Sse2, Plain, 2>("sse2x2"),
    RecoveryKernel::of::<Sse2, Plain, 4>("sse2x4"),
    RecoveryKernel::of::<Sse2, Streaming, 4>("sse2x4-nt"),
    RecoveryKernel::of::<Ssse3, Plain, 1>("ssse3x1"),
    RecoveryKernel::of::<Ssse3, Plain, 2>("ssse3x2"),
    RecoveryKernel::of::<Avx2, Plain, 1>("avx2x1"),
    RecoveryKernel::of::<Avx2, Plain, 2>("avx2x2"),
    RecoveryKernel::of::<Avx2, Plain, 4>("avx2x4"),
    RecoveryKernel::of::<Avx2, Streaming, 4>("avx2x4-nt"),
    RecoveryKernel::of::<GfniAvx2, Plain, 1>("gfni-avx2x1"),
    RecoveryKernel::of::<GfniAvx2, Plain, 2>("gfni-avx2x2"),
    RecoveryKernel::of::<GfniAvx2, Plain, 4>("gfni-avx2x4"),
    RecoveryKernel::of::<GfniAvx2, Streaming, 4>("gfni-avx2x4-nt"),
    RecoveryKernel::of::<GfniAvx2, Counted, 2>("gfni-avx2x2u"),
    RecoveryKernel::of::<Avx512, Plain, 1>("avx512x1"),
    RecoveryKernel::of::<Avx512, Plain, 2>("avx512x2"),
    RecoveryKernel::of::<Avx512, Plain, 4>("avx512x4"),
    RecoveryKernel::of::<Avx512, Plain, 8>("avx512x8"),
    RecoveryKernel::of::<Avx512, Streaming, 4>("avx512x4-nt"),
    RecoveryKernel::of::<Avx512, Streaming, 8>("avx512x8-nt"),
    RecoveryKernel::of::<GfniAvx512, Plain, 1>("gfni-avx512x1"),
    RecoveryKernel::of::<GfniAvx512, Plain, 2>("gfni-avx512x2"),
    RecoveryKernel::of::<GfniAvx512, Plain, 4>("gfni-avx512x4"),
    RecoveryKernel::of::<GfniAvx512, Plain, 8>("gfni-avx512x8"),
    RecoveryKernel::of::<GfniAvx512, Streaming, 4>("gfni-avx512x4-nt"),
    RecoveryKernel::of::<GfniAvx512, Streaming, 8>("gfni-avx512x8-nt"),
    RecoveryKernel::of::<GfniAvx512, Counted, 4>("gfni-avx512x4u"),
];

/// What the kernels are measured against.
#[cfg(feature = "std")]
pub(crate) static LIMITS: &[LimitKernel] = &[
    LIMIT_INT64X8,
    LimitKernel::of::<Sse2, Plain, 4>("sse2x4"),
    LimitKernel::of::<Avx2, Plain, 2>("avx2x2"),
    LimitKernel::of::<Avx2, Plain, 4>("avx2x4"),
    LimitKernel::of::<Avx2, Streaming, 4>("avx2x4-nt"),
    LimitKernel::of::<Avx512, Plain, 2>("avx512x2"),
    LimitKernel::of::<Avx512, Plain, 4>("avx512x4"),
    LimitKernel::of::<Avx512, Plain, 8>("avx512x8"),
    LimitKernel::of::<Avx512, Streaming, 8>("avx512x8-nt"),
    LimitKernel::of::<Avx512, Counted, 4>("avx512x4u"),
    LimitKernel::of::<Avx512, Counted, 8>("avx512x8u"),
];

/// How Linux brings P and Q up to date.
#[cfg(feature = "std")]
pub(crate) static TWO_PASS: &[TwoPassKernel] = &[
    TWO_PASS_INT64X8,
    TwoPassKernel::of::<Sse2, 1>("sse2x1"),
    TwoPassKernel::of::<Sse2, 2>("sse2x2"),
    TwoPassKernel::of::<Sse2, 4>("sse2x4"),
    TwoPassKernel::of::<Avx2, 1>("avx2x1"),
    TwoPassKernel::of::<Avx2, 2>("avx2x2"),
    TwoPassKernel::of::<Avx2, 4>("avx2x4"),
    TwoPassKernel::of::<Avx512, 1>("avx512x1"),
    TwoPassKernel::of::<Avx512, 2>("avx512x2"),
    TwoPassKernel::of::<Avx512, 4>("avx512x4"),
    TwoPassKernel::of::<GfniAvx512, 1>("gfni-avx512x1"),
    TwoPassKernel::of::<GfniAvx512, 2>("gfni-avx512x2"),
    TwoPassKernel::of::<GfniAvx512, 4>("gfni-avx512x4"),
];
