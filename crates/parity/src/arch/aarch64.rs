//! ARM: the plain registers so far.

pub(crate) use super::generic::{KERNELS, RECOVERY_KERNELS};
