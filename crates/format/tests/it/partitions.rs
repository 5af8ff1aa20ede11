//! Partition tables: by hand as the UEFI specification and the old PCs have them, and damaged at random. What other programs
//! write is read in the tests of the program.

use std::convert::Infallible;

use proptest::prelude::*;
use uraid_format::{MAX_ENTRY_BYTES, MAX_LOGICAL, Partition, PartitionError, PartitionTable, TableKind, read_partitions};

const BLOCK: usize = 512;
const BLOCKS: usize = 256;

/// Reads a table, counting the reads and the bytes asked for.
fn read(disk: &[u8]) -> (Result<Option<PartitionTable>, PartitionError<Infallible>>, usize, usize) {
    let (mut reads, mut bytes) = (0, 0);
    let found = read_partitions(disk.len() as u64, 512, &mut |byte, len| {
        reads += 1;
        bytes += len;
        let start = usize::try_from(byte).unwrap_or(usize::MAX).min(disk.len());
        Ok(disk[start..start.saturating_add(len).min(disk.len())].to_vec())
    });
    (found, reads, bytes)
}

fn table(disk: &[u8]) -> PartitionTable {
    read(disk).0.expect("the table is whole").expect("there is a table")
}

fn damage(disk: &[u8]) -> String {
    read(disk).0.expect_err("the table is damaged").to_string()
}

/// Writes entry `index` of the table in block `at`.
fn entry(disk: &mut [u8], at: usize, index: usize, kind: u8, start: u32, len: u32) {
    let sector = &mut disk[at * BLOCK..][..BLOCK];
    let field = &mut sector[446 + 16 * index..][..16];
    field[4] = kind;
    field[8..12].copy_from_slice(&start.to_le_bytes());
    field[12..].copy_from_slice(&len.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
}

/// One primary partition, and two logical ones in the extended partition of 100 blocks from block 100 on.
fn mbr() -> Vec<u8> {
    let mut disk = vec![0; BLOCKS * BLOCK];
    entry(&mut disk, 0, 0, 0x83, 10, 20);
    entry(&mut disk, 0, 2, 0x0f, 100, 100);
    entry(&mut disk, 100, 0, 0xfd, 2, 30);
    entry(&mut disk, 100, 1, 0x05, 40, 50);
    entry(&mut disk, 140, 0, 0x82, 3, 7);
    disk
}

/// CRC-32 bit by bit, as the specification of GPT refers to it.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |rest, byte| {
        (0..8).fold(rest ^ u32::from(*byte), |rest, _| if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 })
    })
}

/// A header in block `at` whose entries are in block `entries`.
fn header(disk: &mut [u8], at: usize, entries: usize) {
    let sum = crc(&disk[entries * BLOCK..][..4 * 128]);
    let field = &mut disk[at * BLOCK..][..92];
    field[..12].copy_from_slice(b"EFI PART\0\0\x01\0");
    field[12..16].copy_from_slice(&92_u32.to_le_bytes());
    field[16..20].fill(0);
    field[24..32].copy_from_slice(&(at as u64).to_le_bytes());
    field[72..80].copy_from_slice(&(entries as u64).to_le_bytes());
    field[80..84].copy_from_slice(&4_u32.to_le_bytes());
    field[84..88].copy_from_slice(&128_u32.to_le_bytes());
    field[88..92].copy_from_slice(&sum.to_le_bytes());
    let sum = crc(&disk[at * BLOCK..][..92]);
    disk[at * BLOCK + 16..][..4].copy_from_slice(&sum.to_le_bytes());
}

/// Partition 3 of a GPT with four entries, blocks 20 to 29, and both copies.
fn gpt() -> Vec<u8> {
    let mut disk = vec![0; BLOCKS * BLOCK];
    entry(&mut disk, 0, 0, 0xee, 1, BLOCKS as u32 - 1);
    for entries in [2, BLOCKS - 2] {
        let entry = &mut disk[entries * BLOCK + 2 * 128..][..128];
        entry[..16]
            .copy_from_slice(&[0x0f, 0x88, 0x9d, 0xa1, 0xfc, 0x05, 0x3b, 0x4d, 0xa0, 0x06, 0x74, 0x3f, 0x0f, 0x84, 0x91, 0x1e]);
        entry[32..40].copy_from_slice(&20_u64.to_le_bytes());
        entry[40..48].copy_from_slice(&29_u64.to_le_bytes());
        entry[56..60].copy_from_slice(b"r\0d\0");
    }
    header(&mut disk, 1, 2);
    header(&mut disk, BLOCKS - 1, BLOCKS - 2);
    disk
}

/// Numbers, places and lengths in blocks.
fn places(table: &PartitionTable) -> Vec<(u32, u64, u64)> {
    let block = u64::from(table.block_bytes);
    table.partitions.iter().map(|found| (found.number, found.start_bytes / block, found.len_bytes / block)).collect()
}

#[test]
fn logical_partitions_are_counted_from_their_link() {
    let table = table(&mbr());
    assert_eq!(table.kind, TableKind::Mbr);
    assert_eq!(places(&table), [(1, 10, 20), (5, 102, 30), (6, 143, 7)]);
    assert!(table.partitions[1].kind.is_linux_raid() && !table.partitions[0].kind.is_linux_raid());
}

#[test]
fn a_chain_that_goes_astray_is_damage_and_ends() {
    let mut disk = mbr();
    entry(&mut disk, 140, 1, 0x05, 0, 50);
    assert_eq!(damage(&disk), "its chain of logical partitions is damaged: a loop: its link 2 comes back at byte 51200");
    let mut disk = mbr();
    entry(&mut disk, 100, 1, 0x05, 100, 50);
    assert!(damage(&disk).contains("link 1 leads out of the extended partition at byte 51200"), "{}", damage(&disk));
    let mut disk = mbr();
    entry(&mut disk, 0, 2, 0x05, BLOCKS as u32, 9);
    assert!(damage(&disk).contains("not all on the disk"));
    let mut disk = mbr();
    disk[140 * BLOCK + 510] = 0;
    assert!(damage(&disk).contains("link 2 is no table at byte 71680"));
    // A chain of a link in every block.
    let mut disk = vec![0; 1024 * BLOCK];
    entry(&mut disk, 0, 0, 0x05, 1, 1023);
    for link in 1..1023 {
        entry(&mut disk, link, 0, 0x83, 1, 1);
        entry(&mut disk, link, 1, 0x05, link as u32, 1);
    }
    assert!(damage(&disk).contains(&format!("more than {MAX_LOGICAL} links")));
}

#[test]
fn gpt_is_read_from_its_first_copy_or_its_last() {
    let expected = [(3, 20, 10)];
    let first = table(&gpt());
    assert_eq!((first.kind, places(&first)), (TableKind::Gpt, expected.to_vec()));
    assert_eq!((first.partitions[0].name.as_str(), first.partitions[0].kind.is_linux_raid()), ("rd", true));
    for byte in [0, 12, 16, 40, 72, 88, 1024 - 512 + 2 * 128] {
        let mut disk = gpt();
        disk[BLOCK + byte] ^= 1;
        let found = table(&disk);
        assert_eq!((found.kind, places(&found)), (TableKind::GptBackup, expected.to_vec()), "byte {byte} of the header");
        disk[(BLOCKS - 1) * BLOCK] ^= 1;
        assert!(damage(&disk).starts_with("its GPT is damaged: "), "{}", damage(&disk));
    }
    // Only a copy at the end, and a disk that is something else by now.
    let mut disk = gpt();
    disk[..2 * BLOCK].fill(0);
    assert_eq!(read(&disk).0, Ok(None));
}

#[test]
fn what_is_no_table_is_none() {
    assert_eq!(read(&[]).0, Ok(None));
    assert_eq!(read(&[0; 4096]).0, Ok(None));
    let mut boot = vec![0; 4096];
    boot[510..512].copy_from_slice(&[0x55, 0xaa]);
    assert_eq!(read(&boot).0, Ok(None), "a mark without a partition");
}

proptest! {
    /// Any bytes, and tables with a few bytes changed: no panic, and no more work than a whole table takes.
    #[test]
    fn work_is_bounded(
        base in prop::sample::select(vec![mbr(), gpt(), vec![0; 4096]]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..16),
        noise in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut disk = base;
        disk[..noise.len().min(300)].copy_from_slice(&noise[..noise.len().min(300)]);
        for (index, byte, in_front) in changes {
            let at = index.index(if in_front { disk.len().min(1536) } else { disk.len() });
            disk[at] = byte;
        }
        let (found, reads, bytes) = read(&disk);
        prop_assert!(reads <= 4 * MAX_LOGICAL + 9 && bytes as u64 <= 4 * MAX_ENTRY_BYTES + (reads as u64) * 4096);
        if let Ok(Some(table)) = found {
            let sane = |found: &Partition| found.number > 0 && found.len_bytes > 0 && found.end_bytes() > found.start_bytes;
            prop_assert!(table.partitions.iter().all(sane));
        }
    }
}
