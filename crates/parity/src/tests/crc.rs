//! CRC32C against the vectors of RFC 3720 appendix B.4 and against another crate.

use super::noise;
use crate::crc::{CRC_KERNELS, CrcKernel, parse_override};

fn kernels() -> impl Iterator<Item = CrcKernel> {
    CRC_KERNELS.iter().filter_map(|(name, _)| CrcKernel::new(name))
}

#[test]
fn published_vectors() {
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    let vectors = [
        (&[0; 32][..], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&ascending, 0x46dd_794e),
        (&descending, 0x113f_db5c),
        (b"123456789", 0xe306_9283),
        (b"", 0),
    ];
    for (bytes, expected) in vectors {
        assert_eq!(crate::crc32c(0, bytes), expected);
        assert_eq!(crate::crc32c_raw(!0, bytes), !expected);
        for kernel in kernels() {
            assert_eq!(!kernel.run(!0, bytes), expected, "{}", kernel.name());
        }
    }
}

#[test]
fn every_kernel_agrees_with_another_crate() {
    let bytes = noise(5, 6000);
    for kernel in kernels() {
        for len in (0..300).chain([511, 512, 1000, 4096, 5990]) {
            for start in [0, 3] {
                let (bytes, seed) = (&bytes[start..start + len], (len as u32).wrapping_mul(0x0101_6b31));
                let expected = crc32c::crc32c_append(seed, bytes);
                assert_eq!(!kernel.run(!seed, bytes), expected, "{} {len}", kernel.name());
            }
        }
    }
}

#[test]
fn pieces_make_the_whole() {
    let bytes = noise(6, 1000);
    let whole = crate::crc32c(0, &bytes);
    for cut in [0, 1, 7, 64, 999, 1000] {
        assert_eq!(crate::crc32c(crate::crc32c(0, &bytes[..cut]), &bytes[cut..]), whole);
    }
}

#[test]
fn the_environment_forces_a_kernel_or_is_refused() {
    assert_eq!(parse_override(None), Ok(None));
    assert_eq!(parse_override(Some("")), Ok(None));
    for (name, _) in CRC_KERNELS {
        assert_eq!(parse_override(Some(name)).ok(), CrcKernel::new(name).map(Some));
    }
    let refusal = parse_override(Some("mmx")).unwrap_err().to_string();
    assert!(refusal.contains("URAID_CRC32C='mmx'") && refusal.contains("table"), "{refusal}");
    assert_eq!(crate::check_crc32c_override(), Ok(()));
}
