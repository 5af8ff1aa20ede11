//! Containers of mdadm's, against what `mdadm --examine` said of them, and the same damaged at random.

use proptest::prelude::*;
use uraid_format::foreign::ddf::{DDF_BLOCK, DdfHeader, DdfMetadata, MAX_SECTION_BYTES};
use uraid_format::foreign::imsm::{ImsmMetadata, imsm_bytes};
use uraid_format::foreign::{DiskKey, ForeignVolume};
use uraid_types::{Layout, Level};

use crate::fixtures::read;

/// The primary header's place on the disk that the DDF fixture is of, in blocks, and the disk's size.
const PRIMARY: u64 = 229_376;
const DISK_BYTES: u64 = 128 << 20;
/// Blocks from the header on that hold sections.
const BLOCKS: usize = 618;

/// What lies on the disk from the primary header on.
fn ddf() -> Vec<u8> {
    let mut area = vec![0xff; BLOCKS * DDF_BLOCK];
    for record in read("ddf-5-disks.blocks").chunks_exact(4 + DDF_BLOCK) {
        let number = u32::from_le_bytes([record[0], record[1], record[2], record[3]]) as usize;
        area[number * DDF_BLOCK..][..DDF_BLOCK].copy_from_slice(&record[4..]);
    }
    area
}

/// Reads the metadata as it is read from a disk; counts what is read.
fn parse_ddf(area: &[u8]) -> (Option<DdfMetadata>, u64) {
    let start = PRIMARY * DDF_BLOCK as u64;
    let Ok(header) = DdfHeader::parse(area, start, DISK_BYTES) else { return (None, 0) };
    let mut read = 0;
    let sections = header.sections().map(|section| {
        read += section.end - section.start;
        let from = usize::try_from(section.start.saturating_sub(start)).unwrap_or(usize::MAX).min(area.len());
        let to = usize::try_from(section.end.saturating_sub(start)).unwrap_or(usize::MAX).clamp(from, area.len());
        area[from..to].to_vec()
    });
    (DdfMetadata::parse(header, &sections).ok(), read)
}

/// Name, level, layout number, chunk, member sectors, size, and the places of the members.
fn shown(volume: &ForeignVolume) -> (&str, Level, u32, u64, u64, u64, Vec<u64>) {
    let starts = volume.members.iter().map(|member| member.start.0).collect();
    let number = volume.layout.md_number(volume.level);
    (&volume.name, volume.level, number, volume.chunk.0, volume.member_sectors.0, volume.size.0, starts)
}

/// Layout numbers are those of the kernel's array, places and sizes mdadm's.
#[test]
fn ddf_volumes_are_what_mdadm_says() {
    let metadata = parse_ddf(&ddf()).0.expect("the metadata is whole");
    let references: Vec<u32> = metadata.disks.iter().map(|disk| disk.reference).collect();
    assert_eq!((metadata.own, references.len(), metadata.header.sequence), (0x0045_b974, 5, 0x44));
    let volumes = DdfMetadata::volumes(std::slice::from_ref(&metadata));
    let found: Vec<_> = volumes.iter().map(|volume| volume.as_ref().expect("every volume is known")).collect();
    let (r5, r6, r0, r1) = (Level::Raid5, Level::Raid6, Level::Raid0, Level::Raid1);
    let expected = [
        ("r5", r5, 2, 128, 6144, 18432, vec![0; 4]),
        ("r6", r6, 10, 128, 6144, 18432, vec![6144, 6144, 6144, 6144, 0]),
        ("r0", r0, 2, 128, 6144, 18432, vec![12288; 3]),
        ("r1", r1, 0, 0, 6144, 6144, vec![18432; 2]),
        // The other mirror's record is on other disks.
        ("r10", Level::Raid10, 0x102, 64, 6144, 12288, vec![24576, 24576, 0, 0]),
        ("r1e", Level::Raid10, 0x102, 64, 6144, 6144, vec![30720, 30720, 24576]),
        ("r5ra", r5, 1, 64, 6144, 12288, vec![36864, 36864, 30720]),
        ("r5la", r5, 0, 64, 6144, 12288, vec![43008, 43008, 36864]),
        ("r4", Level::Raid4, 0, 64, 6144, 12288, vec![49152, 49152, 43008]),
        ("r6z", r6, 8, 64, 6144, 12288, vec![55296, 55296, 49152, 18432]),
        ("r6n", r6, 9, 64, 6144, 12288, vec![61440, 61440, 55296, 24576]),
    ];
    assert_eq!(found.iter().map(|volume| shown(volume)).collect::<Vec<_>>(), expected);
    assert!(found.iter().all(|volume| !volume.dirty && volume.state == "optimal, fully initialised"));
    let keys: Vec<_> = found[1].members.iter().map(|member| member.disk).collect();
    let by_number = |numbers: [usize; 5]| numbers.map(|number| Some(DiskKey::Reference(references[number]))).to_vec();
    assert_eq!(keys, by_number([0, 2, 4, 1, 3]), "the numbers that mdadm gives them");
    assert!(found[4].members[2..].iter().all(|member| member.disk.is_none() && !member.in_sync));
}

/// The fixture has the two blocks in their order on the disk; the metadata begins with the second.
fn imsm(name: &str) -> Vec<u8> {
    let blocks = read(name);
    [&blocks[512..], &blocks[..512]].concat()
}

#[test]
fn imsm_volumes_are_what_mdadm_says() {
    let four = ImsmMetadata::parse(&imsm("imsm-4-disks.mpb"), 512).expect("the metadata is whole");
    let serials: Vec<&str> = four.disks.iter().map(|disk| disk.serial.as_str()).collect();
    assert_eq!(serials, ["/dev/ubdb", "/dev/ubdc", "/dev/ubda", "/dev/ubdd"]);
    assert!(four.disks.iter().all(|disk| disk.sectors.0 == 32 << 11 && disk.state_words() == "active"));
    assert_eq!((four.original_family, four.generation, four.version.as_str()), (0x1820_ad60, 21, "1.3.00"));
    let found: Vec<_> = four.volumes.iter().map(|volume| shown(volume.as_ref().expect("every volume is known"))).collect();
    let expected =
        [("v5", Level::Raid5, 0, 128, 6144, 18432, vec![0; 4]), ("v10", Level::Raid10, 0x102, 128, 10240, 20480, vec![14336; 4])];
    assert_eq!(found, expected);
    let two = ImsmMetadata::parse(&imsm("imsm-2-disks.mpb"), 512).expect("the metadata is whole");
    let found: Vec<_> = two.volumes.iter().map(|volume| shown(volume.as_ref().expect("every volume is known"))).collect();
    assert_eq!(found[0], ("v1", Level::Raid1, 0, 0, 6144, 6144, vec![0; 2]));
    assert_eq!((found[1].1, found[1].3, found[1].4, found[1].5), (Level::Raid0, 32, 6144, 12288));
    let members = &two.volumes[0].as_ref().expect("it is known").members;
    assert_eq!(members.iter().map(|member| member.disk).collect::<Vec<_>>(), [0, 1].map(|index| Some(DiskKey::Index(index))));
}

/// Fields of the first volume of `imsm-4-disks`: 112 bytes of it, then its map.
const VOLUME: usize = 216 + 4 * 48;
const MAP: usize = VOLUME + 112;

#[test]
fn what_imsm_says_of_disks_and_migrations_counts() {
    let changed = |changes: &[(usize, u8)]| {
        let mut bytes = imsm("imsm-4-disks.mpb");
        changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
        mend_imsm(&mut bytes);
        ImsmMetadata::parse(&bytes, 512).expect("the checksum is right").volumes[0].clone()
    };
    let volume = changed(&[(MAP + 48 + 4 * 2 + 3, 1)]).expect("a slot that is rebuilt");
    let in_sync = |volume: &ForeignVolume| volume.members.iter().map(|member| member.in_sync).collect::<Vec<_>>();
    assert_eq!(in_sync(&volume), [true, true, false, true]);
    let volume = changed(&[(216 + 48 + 24, 2 | 4)]).expect("a disk that failed");
    assert_eq!(in_sync(&volume), [true, false, true, true]);
    assert!(changed(&[(VOLUME + 90, 1)]).expect("dirty").dirty);
    assert!(changed(&[(MAP + 14, 1)]).expect("not initialised").dirty);
    let why = changed(&[(MAP + 14, 3)]).expect_err("failed").1;
    assert!(why.starts_with("it has failed"), "{why}");
    let why = changed(&[(MAP + 15, 6)]).expect_err("no such level").1;
    assert_eq!(why, "level 6 of 4 disks is not known");
    let mut damaged = imsm("imsm-4-disks.mpb");
    damaged[300] ^= 1;
    let why = ImsmMetadata::parse(&damaged, 512).expect_err("the checksum is wrong").to_string();
    assert!(why.starts_with("its IMSM metadata is damaged: the checksum is 0x8535d772, not 0x"), "{why}");
}

/// The sum of all numbers of 32 bits but itself.
fn mend_imsm(bytes: &mut [u8]) {
    let Ok(len) = imsm_bytes(bytes) else { return };
    let end = (len as usize).min(bytes.len());
    bytes[32..36].fill(0);
    let words = bytes[..end].chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let sum = words.fold(0_u32, u32::wrapping_add);
    bytes[32..36].copy_from_slice(&sum.to_le_bytes());
}

/// CRC-32 as the SNIA has it, over a structure whose own four bytes count as ones.
fn mend_ddf(bytes: &mut [u8]) {
    bytes[4..8].fill(0xff);
    let sum = !bytes.iter().fold(u32::MAX, |rest, byte| {
        (0..8).fold(rest ^ u32::from(*byte), |rest, _| if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 })
    });
    bytes[4..8].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn the_standards_checksum_is_taken_too() {
    let mut area = ddf();
    for structure in [0..1, 2..130, 130..162, 617..618] {
        mend_ddf(&mut area[structure.start * DDF_BLOCK..structure.end * DDF_BLOCK]);
    }
    assert!(parse_ddf(&area).0.is_some());
    area[2 * DDF_BLOCK + 70] ^= 1;
    assert!(parse_ddf(&area).0.is_none());
}

fn sane(volume: &ForeignVolume) -> bool {
    let fits = match volume.layout {
        Layout::None => matches!(volume.level, Level::Raid1 | Level::Linear),
        Layout::Raid0(_) => volume.level == Level::Raid0,
        Layout::Parity(_) => volume.level.has_parity(),
        Layout::Raid10(_) => volume.level == Level::Raid10,
    };
    fits && !volume.members.is_empty() && !volume.name.contains(char::is_control)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Changed bytes under checksums that are right again: no panic, bounded reading, sane volumes.
    #[test]
    fn damaged_ddf_is_refused_or_sane(
        changes in prop::collection::vec((prop::sample::select(vec![0_usize, 2, 130, 162, 163, 176, 190, 617]), 8..512_usize, any::<u8>()), 0..12),
    ) {
        let mut area = ddf();
        for (block, at, byte) in changes {
            area[block * DDF_BLOCK + at] = byte;
        }
        for structure in [0..1, 2..130, 130..162, 617..618] {
            mend_ddf(&mut area[structure.start * DDF_BLOCK..structure.end * DDF_BLOCK]);
        }
        for record in 0..65 {
            mend_ddf(&mut area[(162 + 7 * record) * DDF_BLOCK..][..7 * DDF_BLOCK]);
        }
        let (found, read) = parse_ddf(&area);
        prop_assert!(read <= 4 * MAX_SECTION_BYTES);
        if let Some(found) = found {
            for volume in DdfMetadata::volumes(&[found.clone(), found]).into_iter().flatten() {
                prop_assert!(sane(&volume), "{:?}", volume);
            }
        }
    }

    #[test]
    fn damaged_imsm_is_refused_or_sane(
        changes in prop::collection::vec((0..1024_usize, any::<u8>()), 0..12),
        block_bytes in prop::sample::select(vec![512_u32, 4096]),
        length in 0..1025_usize,
    ) {
        let mut bytes = imsm("imsm-4-disks.mpb");
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        mend_imsm(&mut bytes);
        let _ = ImsmMetadata::parse(&bytes[..length], block_bytes);
        if let Ok(found) = ImsmMetadata::parse(&bytes, block_bytes) {
            prop_assert!(found.volumes.iter().flatten().all(sane));
        }
    }

    #[test]
    fn any_bytes_are_no_container(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        prop_assert!(ImsmMetadata::parse(&bytes, 512).is_err());
        prop_assert!(DdfHeader::parse(&bytes, 0, 1 << 30).is_err());
    }
}
