//! The instruction sets, and the tables of kernels they make up.

pub(crate) mod generic;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(all(target_arch = "x86_64", feature = "std"))]
pub(crate) use x86_64::crc32c_instruction;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{KERNELS, RECOVERY_KERNELS};
#[cfg(all(target_arch = "x86_64", feature = "std"))]
pub(crate) use x86_64::{LIMITS, TWO_PASS};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{KERNELS, RECOVERY_KERNELS};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use generic::{KERNELS, RECOVERY_KERNELS};
#[cfg(all(feature = "std", not(target_arch = "x86_64")))]
pub(crate) use generic::{LIMITS, TWO_PASS};
