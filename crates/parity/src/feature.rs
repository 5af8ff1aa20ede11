//! What a kernel needs of the processor.

use core::fmt;

/// A set of instructions that not every processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// 16-byte integers; every 64-bit x86 has it.
    Sse2,
    /// The byte shuffle.
    Ssse3,
    /// The CRC32C instruction.
    Sse42,
    /// 32-byte integers.
    Avx2,
    /// 64-byte registers.
    Avx512f,
    /// Bytes in 64-byte registers.
    Avx512bw,
    /// Affine maps of bytes.
    Gfni,
    /// Carry-less multiplication in wide registers.
    Vpclmulqdq,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 8] = [
        Feature::Sse2,
        Feature::Ssse3,
        Feature::Sse42,
        Feature::Avx2,
        Feature::Avx512f,
        Feature::Avx512bw,
        Feature::Gfni,
        Feature::Vpclmulqdq,
    ];

    /// The name as in `/proc/cpuinfo`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Feature::Sse2 => "sse2",
            Feature::Ssse3 => "ssse3",
            Feature::Sse42 => "sse4_2",
            Feature::Avx2 => "avx2",
            Feature::Avx512f => "avx512f",
            Feature::Avx512bw => "avx512bw",
            Feature::Gfni => "gfni",
            Feature::Vpclmulqdq => "vpclmulqdq",
        }
    }

    /// Does this processor have it, and does the operating system let it be used?
    #[cfg(all(target_arch = "x86_64", feature = "std"))]
    #[must_use]
    pub fn is_there(self) -> bool {
        match self {
            Feature::Sse2 => std::arch::is_x86_feature_detected!("sse2"),
            Feature::Ssse3 => std::arch::is_x86_feature_detected!("ssse3"),
            Feature::Sse42 => std::arch::is_x86_feature_detected!("sse4.2"),
            Feature::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            Feature::Avx512f => std::arch::is_x86_feature_detected!("avx512f"),
            Feature::Avx512bw => std::arch::is_x86_feature_detected!("avx512bw"),
            Feature::Gfni => std::arch::is_x86_feature_detected!("gfni"),
            Feature::Vpclmulqdq => std::arch::is_x86_feature_detected!("vpclmulqdq"),
        }
    }

    /// Was the crate compiled for processors that all have it?
    #[cfg(not(all(target_arch = "x86_64", feature = "std")))]
    #[must_use]
    pub fn is_there(self) -> bool {
        match self {
            Feature::Sse2 => cfg!(target_feature = "sse2"),
            Feature::Ssse3 => cfg!(target_feature = "ssse3"),
            Feature::Sse42 => cfg!(target_feature = "sse4.2"),
            Feature::Avx2 => cfg!(target_feature = "avx2"),
            Feature::Avx512f => cfg!(target_feature = "avx512f"),
            Feature::Avx512bw => cfg!(target_feature = "avx512bw"),
            Feature::Gfni => cfg!(target_feature = "gfni"),
            Feature::Vpclmulqdq => cfg!(target_feature = "vpclmulqdq"),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
