//! Which processor this is.
#![allow(unsafe_code)]

use crate::Feature;

/// CPUID: EAX, EBX, ECX, EDX.
#[cfg(target_arch = "x86_64")]
pub(crate) fn leaf(number: u32, sub: u32) -> [u32; 4] {
    // SAFETY: every 64-bit x86 has CPUID. (In newer compilers the function is safe.)
    #[allow(unused_unsafe)]
    let found = unsafe { core::arch::x86_64::__cpuid_count(number, sub) };
    [found.eax, found.ebx, found.ecx, found.edx]
}

/// Vendor, family, model and stepping, in letters, digits and hyphens.
#[cfg(target_arch = "x86_64")]
pub(crate) fn model() -> String {
    let [_, b, c, d] = leaf(0, 0);
    let vendor: String = [b, d, c].into_iter().flat_map(u32::to_le_bytes).map(char::from).collect();
    let vendor: String = vendor.chars().filter(char::is_ascii_alphanumeric).collect();
    // Intel SDM, CPUID leaf 1: the extended fields count for the families 6 and 15 alone.
    let [signature, ..] = leaf(1, 0);
    let (family, model) = (signature >> 8 & 15, signature >> 4 & 15);
    let full_family = if family == 15 { family + (signature >> 20 & 255) } else { family };
    let full_model = if family == 6 || family == 15 { model + (signature >> 12 & 0xf0) } else { model };
    format!("{vendor}-{full_family}-{full_model}-{}", signature & 15)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn model() -> String {
    std::env::consts::ARCH.to_owned()
}

/// The names of the features that are there.
pub(crate) fn features() -> String {
    let names: Vec<&str> = Feature::ALL.into_iter().filter(|feature| feature.is_there()).map(Feature::name).collect();
    names.join("+")
}
