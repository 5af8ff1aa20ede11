//! CRC32C (Castagnoli, RFC 3720 appendix B.4), as md uses it for PPL and the journal and uraid for data.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crc_fast::{CrcAlgorithm, Digest};

use crate::Feature;

/// The polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// CRC32C of `bytes`, continued from `previous`, which is 0 at the start or the result for what came before.
///
/// ```
/// assert_eq!(uraid_parity::crc32c(0, b"123456789"), 0xe306_9283);
/// assert_eq!(uraid_parity::crc32c(uraid_parity::crc32c(0, b"1234"), b"56789"), 0xe306_9283);
/// ```
#[must_use]
pub fn crc32c(previous: u32, bytes: &[u8]) -> u32 {
    !crc32c_raw(!previous, bytes)
}

/// The raw register: `seed` goes in as it is, and nothing is inverted at the end. md's metadata calls it with the seed `!0`
/// or with a checksum of the array's UUID.
#[must_use]
pub fn crc32c_raw(seed: u32, bytes: &[u8]) -> u32 {
    winner().run(seed, bytes)
}

/// The variable that names a CRC32C kernel.
const VARIABLE: &str = "URAID_CRC32C";

/// `URAID_CRC32C` holds what is no CRC32C kernel of this processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCrc32c {
    value: String,
}

impl fmt::Display for UnknownCrc32c {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VARIABLE}='{}' is no CRC32C kernel of this processor; it takes", self.value)?;
        let names = CRC_KERNELS.iter().filter(|(name, _)| CrcKernel::new(name).is_some()).map(|(name, _)| name);
        names.enumerate().try_for_each(|(i, name)| write!(f, "{} {name}", if i > 0 { "," } else { "" }))
    }
}

impl std::error::Error for UnknownCrc32c {}

/// Does `URAID_CRC32C` make sense? It is read once, here or at the first checksum, which panics if it does not.
///
/// # Errors
/// When it names no kernel that this processor can run.
pub fn check_crc32c_override() -> Result<(), UnknownCrc32c> {
    chosen().map(|_| ())
}

/// What the variable's value means; `None`: the fastest.
pub(crate) fn parse_override(value: Option<&str>) -> Result<Option<CrcKernel>, UnknownCrc32c> {
    match value {
        None | Some("") => Ok(None),
        Some(name) => CrcKernel::new(name).map(Some).ok_or_else(|| UnknownCrc32c { value: name.to_owned() }),
    }
}

fn chosen() -> Result<CrcKernel, UnknownCrc32c> {
    static CHOSEN: OnceLock<Result<CrcKernel, UnknownCrc32c>> = OnceLock::new();
    let choose = || {
        let value = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
        Ok(parse_override(value.as_deref())?.unwrap_or_else(fastest))
    };
    // The kernel is copied, not the refusal.
    match CHOSEN.get_or_init(choose) {
        Ok(kernel) => Ok(*kernel),
        Err(unknown) => Err(unknown.clone()),
    }
}

/// The kernel in use.
#[track_caller]
pub(crate) fn winner() -> CrcKernel {
    match chosen() {
        Ok(kernel) => kernel,
        Err(unknown) => panic!("{unknown}"),
    }
}

/// What crc-fast does on this processor, in its own words: instruction set and instructions.
#[must_use]
pub fn crc_fast_target() -> String {
    crc_fast::get_calculator_target(CrcAlgorithm::Crc32Iscsi)
}

/// One way to compute CRC32C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrcKernel {
    /// Eight tables, eight bytes a step.
    Table,
    /// The processor's instruction, one stream.
    #[cfg(target_arch = "x86_64")]
    Sse42(Sse42Ready),
    /// The crate crc-fast: several streams and carry-less multiplication.
    CrcFast,
}

/// The proof that the processor has SSE4.2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sse42Ready(());

/// Name and needs of each, best last.
pub(crate) const CRC_KERNELS: &[(&str, &[Feature])] = &[
    ("table", &[]),
    #[cfg(target_arch = "x86_64")]
    ("sse4.2", &[Feature::Sse42]),
    ("crc-fast", &[]),
    // The same under the name of its instruction, where that is what it uses.
    #[cfg(target_arch = "x86_64")]
    ("vpclmulqdq", &[Feature::Avx512f, Feature::Vpclmulqdq]),
];

impl CrcKernel {
    /// The kernel of that name; `None` when there is none or the processor can't run it.
    pub(crate) fn new(name: &str) -> Option<CrcKernel> {
        match name {
            "table" => Some(CrcKernel::Table),
            #[cfg(target_arch = "x86_64")]
            "sse4.2" => Feature::Sse42.is_there().then_some(CrcKernel::Sse42(Sse42Ready(()))),
            "crc-fast" => Some(CrcKernel::CrcFast),
            #[cfg(target_arch = "x86_64")]
            "vpclmulqdq" => {
                let there = Feature::Avx512f.is_there() && Feature::Vpclmulqdq.is_there();
                there.then_some(CrcKernel::CrcFast)
            }
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            CrcKernel::Table => "table",
            #[cfg(target_arch = "x86_64")]
            CrcKernel::Sse42(_) => "sse4.2",
            CrcKernel::CrcFast => "crc-fast",
        }
    }

    /// As [`crc32c_raw`].
    pub(crate) fn run(self, seed: u32, bytes: &[u8]) -> u32 {
        match self {
            CrcKernel::Table => by_table(seed, bytes),
            // SAFETY: the value exists only where SSE4.2 does.
            #[cfg(target_arch = "x86_64")]
            CrcKernel::Sse42(_) => unsafe { crate::arch::crc32c_instruction(seed, bytes) },
            CrcKernel::CrcFast => {
                let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
                digest.update(bytes);
                // The state holds 32 bits of this algorithm.
                digest.get_state() as u32
            }
        }
    }
}

/// Table k: what a byte does to the register when k more bytes follow it in the step.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
};

fn by_table(seed: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let wide = words.iter().fold(seed, |crc, word| {
        let mixed = (u64::from_le_bytes(*word) ^ u64::from(crc)).to_le_bytes();
        mixed.iter().enumerate().fold(0, |sum, (place, byte)| sum ^ TABLES[7 - place][usize::from(*byte)])
    });
    rest.iter().fold(wide, |crc, byte| (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)])
}

/// The winner over one page, the size of most checksums here; takes some tens of microseconds.
fn fastest() -> CrcKernel {
    let page = [0x5a; 4096];
    let time = |kernel: CrcKernel| -> Duration {
        let once = || {
            let start = Instant::now();
            std::hint::black_box(kernel.run(!0, std::hint::black_box(&page)));
            start.elapsed()
        };
        (0..5).map(|_| once()).min().unwrap_or_default()
    };
    let ready = CRC_KERNELS.iter().rev().filter_map(|(name, _)| CrcKernel::new(name));
    ready.min_by_key(|kernel| time(*kernel)).unwrap_or(CrcKernel::Table)
}
