//! Intel and AMD, 64 bits.

mod avx2;
mod avx512;
mod gfni;
mod sse;

#[cfg(feature = "std")]
pub(crate) use sse::crc32c_instruction;

use super::generic::{INT64X1, INT64X2, INT64X4, INT64X8, RECOVER_INT64X1, RECOVER_INT64X2, RECOVER_INT64X4, RECOVER_INT64X8};
use crate::kernel::{Kernel, RecoveryKernel};
use avx2::Avx2;
use avx512::Avx512;
use gfni::{GfniAvx2, GfniAvx512};
use sse::{Sse2, Ssse3};

/// Best last, as far as that can be said without measuring.
pub(crate) static KERNELS: &[Kernel] = &[
    INT64X1,
    INT64X2,
    INT64X4,
    INT64X8,
    Kernel::of::<Sse2, 1>("sse2x1"),
    Kernel::of::<Sse2, 2>("sse2x2"),
    Kernel::of::<Sse2, 4>("sse2x4"),
    Kernel::of::<Avx2, 1>("avx2x1"),
    Kernel::of::<Avx2, 2>("avx2x2"),
    Kernel::of::<Avx2, 4>("avx2x4"),
    Kernel::of::<GfniAvx2, 1>("gfni-avx2x1"),
    Kernel::of::<GfniAvx2, 2>("gfni-avx2x2"),
    Kernel::of::<GfniAvx2, 4>("gfni-avx2x4"),
    Kernel::of::<Avx512, 1>("avx512x1"),
    Kernel::of::<Avx512, 2>("avx512x2"),
    Kernel::of::<Avx512, 4>("avx512x4"),
    Kernel::of::<GfniAvx512, 1>("gfni-avx512x1"),
    Kernel::of::<GfniAvx512, 2>("gfni-avx512x2"),
    Kernel::of::<GfniAvx512, 8>("gfni-avx512x8"),
    Kernel::of::<GfniAvx512, 4>("gfni-avx512x4"),
];

/// Holds every name of [`KERNELS`], so that a kernel forced by name recovers with its own instructions too.
pub(crate) static RECOVERY_KERNELS: &[RecoveryKernel] = &[
    RECOVER_INT64X1,
    RECOVER_INT64X2,
    RECOVER_INT64X4,
    RECOVER_INT64X8,
    RecoveryKernel::of::<Sse2, 1>("sse2x1"),
    RecoveryKernel::of::<Sse2, 2>("sse2x2"),
    RecoveryKernel::of::<Sse2, 4>("sse2x4"),
    RecoveryKernel::of::<Ssse3, 1>("ssse3x1"),
    RecoveryKernel::of::<Ssse3, 2>("ssse3x2"),
    RecoveryKernel::of::<Avx2, 1>("avx2x1"),
    RecoveryKernel::of::<Avx2, 2>("avx2x2"),
    RecoveryKernel::of::<Avx2, 4>("avx2x4"),
    RecoveryKernel::of::<GfniAvx2, 1>("gfni-avx2x1"),
    RecoveryKernel::of::<GfniAvx2, 2>("gfni-avx2x2"),
    RecoveryKernel::of::<GfniAvx2, 4>("gfni-avx2x4"),
    RecoveryKernel::of::<Avx512, 1>("avx512x1"),
    RecoveryKernel::of::<Avx512, 2>("avx512x2"),
    RecoveryKernel::of::<Avx512, 4>("avx512x4"),
    RecoveryKernel::of::<GfniAvx512, 1>("gfni-avx512x1"),
    RecoveryKernel::of::<GfniAvx512, 2>("gfni-avx512x2"),
    RecoveryKernel::of::<GfniAvx512, 8>("gfni-avx512x8"),
    RecoveryKernel::of::<GfniAvx512, 4>("gfni-avx512x4"),
];
