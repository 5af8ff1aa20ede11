//! Magics at fixed places near the start.

use super::Signature;

/// A kind, an offset in bytes, and the bytes found there.
type Magic = (&'static str, usize, &'static [u8]);

/// Those that need no second look.
const MAGICS: [Magic; 52] = [
    ("LUKS", 0, b"LUKS\xba\xbe"),
    ("LUKS (second header)", 16384, b"SKUL\xba\xbe"),
    ("bcache", 4096 + 24, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81]),
    ("XFS", 0, b"XFSB"),
    ("btrfs", 65536 + 64, b"_BHRfS_M"),
    ("F2FS", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("NTFS", 3, b"NTFS    "),
    ("exFAT", 3, b"EXFAT   "),
    ("squashfs", 0, b"hsqs"),
    ("ISO 9660", 32769, b"CD001"),
    // Swap signs the end of its first page, whatever the machine's page size.
    ("swap", 4096 - 10, b"SWAPSPACE2"),
    ("swap", 8192 - 10, b"SWAPSPACE2"),
    ("swap", 16384 - 10, b"SWAPSPACE2"),
    ("swap", 65536 - 10, b"SWAPSPACE2"),
    ("swap", 4096 - 10, b"SWAP-SPACE"),
    // LVM's label is in one of the first four sectors; its type follows 24 bytes later.
    ("LVM physical volume", 24, b"LVM2 001"),
    ("LVM physical volume", 512 + 24, b"LVM2 001"),
    ("LVM physical volume", 1024 + 24, b"LVM2 001"),
    ("LVM physical volume", 1536 + 24, b"LVM2 001"),
    ("GPT partition table", 512, b"EFI PART"),
    ("GPT partition table", 4096, b"EFI PART"),
    ("bcachefs", 4096 + 24, &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef]),
    ("HighPoint HPT37x RAID", 0x1220, &[0xf0, 0x16, 0x78, 0x5a]),
    ("HighPoint HPT37x RAID", 0x1220, &[0xfd, 0x16, 0x78, 0x5a]),
    ("DRBD management volume", 0, b"$DRBDmgr=q"),
    ("DRBD proxy log", 0, b"DRBDdlh*"),
    ("Ceph BlueStore", 0, b"bluestore block device"),
    ("LVM1 physical volume", 0, b"HM\x01\0"),
    ("LVM1 physical volume", 0, b"HM\x02\0"),
    ("device-mapper snapshot", 0, b"SnAp"),
    ("device-mapper verity", 0, b"verity\0\0"),
    ("device-mapper integrity", 0, b"integrt\0"),
    ("UBI", 0, b"UBI#"),
    ("VDO", 0, b"dmvdo001"),
    ("Stratis", 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("BitLocker", 3, b"-FVE-FS-"),
    ("Oracle ASM", 32, b"ORCLDISK"),
    ("GFS2", 65536, &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]),
    ("OCFS2", 1024, b"OCFSV2"),
    ("OCFS2", 2048, b"OCFSV2"),
    ("OCFS2", 4096, b"OCFSV2"),
    ("ReiserFS", 65536 + 52, b"ReIsEr2Fs"),
    ("ReiserFS", 65536 + 52, b"ReIsEr3Fs"),
    ("ReiserFS", 65536 + 52, b"ReIsErFs"),
    ("Reiser4", 65536, b"ReIsEr4"),
    ("JFS", 32768, b"JFS1"),
    ("UDF", 32769, b"BEA01"),
    ("ReFS", 0, b"\0\0\0ReFS\0"),
    ("APFS", 32, b"NXSB"),
    ("EROFS", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("cramfs", 0, &[0x45, 0x3d, 0xcd, 0x28]),
    ("romfs", 0, b"-rom1fs-"),
];

/// The first signature in the first bytes of a device, partition tables of the old kind aside.
pub(super) fn in_head(head: &[u8]) -> Option<Signature> {
    let fixed = MAGICS.iter().find(|(_, offset, magic)| has(head, *offset, magic));
    let fixed = fixed.map(|&(kind, offset, _)| Signature { kind, offset: offset as u64 });
    fixed.or_else(|| ext(head)).or_else(|| fat(head))
}

fn has(head: &[u8], offset: usize, magic: &[u8]) -> bool {
    head.get(offset..).is_some_and(|rest| rest.starts_with(magic))
}

fn number(head: &[u8], offset: usize) -> Option<u32> {
    head.get(offset..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// ext2, ext3 and ext4 share a magic of two bytes; the revision (0 or 1) and the log of the block size confirm it, the
/// features tell which.
fn ext(head: &[u8]) -> Option<Signature> {
    const SUPER: usize = 1024;
    const MAGIC: usize = SUPER + 56;
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    /// Incompatible features that ext3 knows: filetype, needs-recovery, journal device, meta block groups.
    const EXT3_INCOMPATIBLE: u32 = 0x2 | 0x4 | JOURNAL_DEVICE | 0x10;
    /// Read-only compatible ones: sparse superblocks, large files, directory trees.
    const EXT3_READ_ONLY: u32 = 0x1 | 0x2 | 0x4;
    if !has(head, MAGIC, &[0x53, 0xef]) || number(head, SUPER + 24)? > 6 || number(head, SUPER + 76)? > 1 {
        return None;
    }
    let (compatible, incompatible) = (number(head, SUPER + 92)?, number(head, SUPER + 96)?);
    let read_only = number(head, SUPER + 100)?;
    let kind = if incompatible & JOURNAL_DEVICE != 0 {
        "ext journal"
    } else if incompatible & !EXT3_INCOMPATIBLE != 0 || read_only & !EXT3_READ_ONLY != 0 {
        "ext4"
    } else if compatible & HAS_JOURNAL != 0 {
        "ext3"
    } else {
        "ext2"
    };
    Some(Signature { kind, offset: MAGIC as u64 })
}

/// FAT names itself in its boot sector, which is signed like a partition table.
fn fat(head: &[u8]) -> Option<Signature> {
    let names: [(usize, &[u8]); 4] = [(82, b"FAT32   "), (54, b"FAT16   "), (54, b"FAT12   "), (54, b"FAT     ")];
    let (offset, _) = names.into_iter().find(|(offset, name)| has(head, *offset, name) && is_signed(head))?;
    Some(Signature { kind: "FAT", offset: offset as u64 })
}

/// The mark of boot sectors and of old partition tables.
const BOOT_MARK: usize = 510;

fn is_signed(head: &[u8]) -> bool {
    has(head, BOOT_MARK, &[0x55, 0xaa])
}

/// A partition table of the old kind: signed, each entry active (0x80) or not (0), and at least one of them in use.
pub(super) fn mbr(head: &[u8]) -> Option<Signature> {
    let entries: Vec<&[u8]> = head.get(446..BOOT_MARK)?.chunks(16).collect();
    let sane = entries.iter().all(|entry| entry[0] & 0x7f == 0);
    let used = entries.iter().any(|entry| entry[4] != 0 && entry[12..16] != [0; 4]);
    (is_signed(head) && sane && used).then_some(Signature { kind: "MBR partition table", offset: BOOT_MARK as u64 })
}
