//! Parity that Linux md made (kernel 6.1.176, mdadm 4.2: RAID6 of 8 members, 4 KiB chunk, parity-last, so that P is member 6, Q
//! member 7 and data disk i is member i), of an array whose byte n is the top byte of n * 2654435761 modulo 2^32.

/// The first and last 16 bytes of a parity chunk, and the CRC32C of all of it.
struct Chunk {
    first: u128,
    last: u128,
    crc32c: u32,
}

const P: Chunk = Chunk {
    first: 0x768b_8889_a67a_b9f8_b78a_8a8f_89a6_5ad9,
    last: 0x7ebb_988a_8e89_b8db_5e5e_dbb8_898e_8a99,
    crc32c: 0x3662_aa2e,
};
const Q: Chunk = Chunk {
    first: 0x11ea_9e5e_6f0b_1fc7_f7dc_545f_cd54_ff79,
    last: 0x4888_a53d_9a75_9f63_f4bc_ee1e_8d6e_d172,
    crc32c: 0x9b36_99d9,
};

#[track_caller]
fn assert_is(found: &[u8], expected: &Chunk) {
    let word = |bytes: &[u8]| u128::from_be_bytes(bytes.try_into().unwrap());
    assert_eq!((word(&found[..16]), word(&found[4080..])), (expected.first, expected.last));
    assert_eq!(crc32c::crc32c(found), expected.crc32c);
}

#[test]
fn p_and_q_are_those_of_linux_md() {
    let array: Vec<u8> = (0..24576_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let data: Vec<&[u8]> = array.chunks(4096).collect();
    let (mut p, mut q) = (vec![0x55; 4096], vec![0xaa; 4096]);
    crate::gen_pq(&data, &mut p, &mut q);
    assert_is(&p, &P);
    assert_is(&q, &Q);
    let (p, q) = super::reference::parity(&data);
    assert_is(&p, &P);
    assert_is(&q, &Q);
}
