//! PPL headers and journal blocks: those that Linux 6.1 wrote, and arbitrary bytes.

use proptest::prelude::*;
use uraid_format::{JournalError, JournalMeta, JournalPayload, PplEntry, PplError, PplHeader, journal_seed};
use uraid_types::Sector;
use uuid::Uuid;

use crate::fixtures::read;

/// `mdadm --create --uuid=00112233:44556677:8899aabb:ccddeeff`
const ARRAY: Uuid = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);

fn crc(previous: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(previous, bytes)
}

fn register(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// A write of 128 KiB at 256 KiB to 4 members with chunks of 64 KiB, its second log: rows from 32 KiB on of two chunks.
#[test]
fn the_kernels_ppl_header_is_read_and_written_again() {
    let bytes = read("raid5-ppl.header");
    let header = PplHeader::parse(&bytes, ARRAY, crc).unwrap();
    let entry =
        PplEntry { data_sector: Sector(576), partial_bytes: 32768, data_bytes: 65536, parity_disk: 2, checksum: 0xbc43_baad };
    assert_eq!(header, PplHeader { signature: 0x48df_e982, generation: 34, entries: vec![entry] });
    assert_eq!(header.log_bytes(), 4096 + 32768);
    assert!(header.to_bytes(crc) == bytes);
    // Nothing but zeros: the one member that is left out held zeros.
    assert_eq!(crc(0, &[0; 32768]), entry.checksum);
}

#[test]
fn each_damage_to_a_ppl_header_has_its_name() {
    let bytes = read("raid5-ppl.header");
    let parse = |bytes: &[u8], id| PplHeader::parse(bytes, id, crc);
    assert_eq!(parse(&bytes[..4095], ARRAY), Err(PplError::TooShort(4095)));
    assert!(matches!(parse(&bytes, Uuid::nil()), Err(PplError::Signature { found: 0x48df_e982, .. })));
    for at in [0, 512, 520, 528, 532, 536, 4095] {
        let mut torn = bytes.clone();
        torn[at] ^= 1;
        assert!(matches!(parse(&torn, ARRAY), Err(PplError::Checksum { .. })), "byte {at}");
    }
    let with = |change: fn(&mut Vec<u8>)| {
        let mut page = bytes.clone();
        change(&mut page);
        page[532..536].fill(0);
        let sum = crc(0, &page);
        page[532..536].copy_from_slice(&sum.to_le_bytes());
        parse(&page, ARRAY)
    };
    assert_eq!(with(|page| page[528] = 149), Err(PplError::Entries(149)));
    assert!(matches!(with(|page| page[544] = 1), Err(PplError::Sizes { index: 0, .. })));
    assert!(matches!(with(|page| page[528] = 2), Err(PplError::Sizes { index: 1, data_bytes: 0, .. })));
}

/// 8 KiB at 72 KiB of a RAID6 of 4 members with chunks of 64 KiB: rows 8 to 16 KiB of the first stripe.
#[test]
fn the_kernels_journal_block_is_read() {
    let bytes = read("raid6-journal.meta");
    let seed = journal_seed(ARRAY, register);
    let meta = JournalMeta::parse(&bytes, seed, register).unwrap();
    assert_eq!((meta.seq, meta.position, meta.blocks()), (1_641_896_498, Sector(16), 6));
    let data = |sector, sum| JournalPayload::Data { array: Sector(sector), checksums: vec![sum] };
    let parity = |sector, p, q| JournalPayload::Parity { member: Sector(sector), checksums: vec![p, q] };
    let (first, second) = (0x5b71_95f3, 0xd9ca_0291);
    let expected = [data(144, first), parity(16, first, 0xe218_d5fa), data(152, second), parity(24, second, 0x8532_1a55)];
    assert_eq!(meta.payloads, expected);
}

#[test]
fn each_damage_to_a_journal_block_has_its_name() {
    let bytes = read("raid6-journal.meta");
    let seed = journal_seed(ARRAY, register);
    let parse = |bytes: &[u8]| JournalMeta::parse(bytes, seed, register);
    assert_eq!(parse(&bytes[1..]), Err(JournalError::Length(4095)));
    assert!(matches!(JournalMeta::parse(&bytes, seed ^ 1, register), Err(JournalError::Checksum { .. })));
    let damaged = |at: usize, value: u8, sum: bool| {
        let mut block = bytes.clone();
        block[at] = value;
        if sum {
            block[4..8].fill(0);
            let sum = register(seed, &block);
            block[4..8].copy_from_slice(&sum.to_le_bytes());
        }
        parse(&block)
    };
    assert!(matches!(damaged(0, 0, false), Err(JournalError::NoMeta { .. })));
    assert!(matches!(damaged(8, 2, true), Err(JournalError::NoMeta { version: 2, .. })));
    assert!(matches!(damaged(4095, 1, false), Err(JournalError::Checksum { .. })));
    // The block's size, a payload's type, its size, a parity of three.
    assert!(matches!(damaged(13, 0x20, true), Err(JournalError::Payload { .. })));
    assert_eq!(damaged(32, 7, true), Err(JournalError::Payload { at: 32, kind: 7, size: 8 }));
    assert_eq!(damaged(36, 9, true), Err(JournalError::Payload { at: 32, kind: 0, size: 9 }));
    assert_eq!(damaged(56, 24, true), Err(JournalError::Payload { at: 52, kind: 1, size: 24 }));
    // Cut short within its last payload.
    assert!(matches!(damaged(12, 119, true), Err(JournalError::Payload { at: 96, .. })));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        prop_assert!(PplHeader::parse(&bytes, ARRAY, crc).is_err());
        prop_assert!(JournalMeta::parse(&bytes, 1, register).is_err());
    }

    /// Whatever a right checksum vouches for: an error, or numbers within limits.
    #[test]
    fn checksums_alone_are_not_believed(mut page in prop::collection::vec(any::<u8>(), 4096), count in 0..200_u32, end in 0..4200_u32) {
        page[512..516].copy_from_slice(&PplHeader::signature_of(ARRAY, crc).to_le_bytes());
        page[528..532].copy_from_slice(&count.to_le_bytes());
        page[532..536].fill(0);
        let sum = crc(0, &page);
        page[532..536].copy_from_slice(&sum.to_le_bytes());
        if let Ok(header) = PplHeader::parse(&page, ARRAY, crc) {
            prop_assert!(header.entries.len() <= 148);
            prop_assert_eq!(PplHeader::parse(&header.to_bytes(crc), ARRAY, crc), Ok(header));
        }
        page[..4].copy_from_slice(&0x6433_c509_u32.to_le_bytes());
        page[8] = 1;
        page[12..16].copy_from_slice(&end.to_le_bytes());
        page[4..8].fill(0);
        let sum = register(9, &page);
        page[4..8].copy_from_slice(&sum.to_le_bytes());
        if let Ok(meta) = JournalMeta::parse(&page, 9, register) {
            prop_assert!(meta.blocks() <= 1024 && meta.payloads.len() <= 512);
        }
    }

    #[test]
    fn ppl_headers_go_round(
        generation in any::<u64>(),
        entries in prop::collection::vec((any::<u64>(), 0..8_u32, 1..64_u32, any::<u32>(), any::<u32>()), 0..148)
    ) {
        let entry = |(sector, partial, data, parity_disk, checksum)| PplEntry {
            data_sector: Sector(sector), partial_bytes: partial * 512, data_bytes: data * 512, parity_disk, checksum,
        };
        let entries = entries.into_iter().map(entry).collect();
        let header = PplHeader { signature: PplHeader::signature_of(ARRAY, crc), generation, entries };
        prop_assert_eq!(PplHeader::parse(&header.to_bytes(crc), ARRAY, crc), Ok(header));
    }
}
