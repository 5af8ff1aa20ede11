use std::process::{Command, Stdio};

use uraid_device::{FileDevice, MemoryDevice, OpenOptions, Pool};

use super::*;

/// A device of 16 MiB with `bytes` at `offset`.
fn with(offset: u64, bytes: &[u8]) -> MemoryDevice {
    let device = MemoryDevice::new("d", 16 << 20, 512);
    let start = offset - offset % 512;
    let mut blocks = Pool::new(0).zeroed((offset - start + bytes.len() as u64).next_multiple_of(512) as usize);
    let at = (offset - start) as usize;
    blocks[at..at + bytes.len()].copy_from_slice(bytes);
    device.write_at(start, &blocks).unwrap();
    device
}

#[test]
fn magics_are_found_where_the_formats_put_them() {
    let cases: &[(u64, &[u8], &str)] = &[
        (0, b"XFSB", "XFS"),
        (65600, b"_BHRfS_M", "btrfs"),
        (1024, &0xF2F5_2010_u32.to_le_bytes(), "F2FS"),
        (3, b"NTFS    ", "NTFS"),
        (3, b"EXFAT   ", "exFAT"),
        (0, b"hsqs", "squashfs"),
        (32769, b"CD001", "ISO 9660"),
        (4086, b"SWAPSPACE2", "swap"),
        (0, b"LUKS\xba\xbe", "LUKS"),
        (536, b"LVM2 001", "LVM physical volume"),
        (512, b"EFI PART", "GPT partition table"),
        ((16 << 20) - 512, b"EFI PART", "GPT partition table (backup)"),
        ((128 << 10) + 3072, &0x00ba_b10c_u64.to_le_bytes(), "ZFS"),
        ((384 << 10) + 1024, &0x00ba_b10c_u64.to_be_bytes(), "ZFS"),
        ((16 << 20) - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00", "Intel Matrix (IMSM) RAID"),
        ((16 << 20) - 512, b"$XIDE$", "LSI MegaRAID"),
        ((16 << 20) - 1024, b"NVIDIA  ", "NVIDIA RAID"),
        ((16 << 20) - 675 * 512, b"Promise Technology, Inc.", "Promise FastTrack RAID"),
        ((16 << 20) - 4096 + 60, &[0x83, 0x74, 0x02, 0x6d], "DRBD"),
        (2 << 20, &0x2fab_f15e_u32.to_le_bytes(), "VMware VMFS"),
        ((16 << 20) - 512, &[0xde, 0x11, 0xde, 0x11], "DDF RAID"),
        ((16 << 20) - 65536, &0xa92b_4efc_u32.to_le_bytes(), "md superblock 0.90"),
        (4096, &0xa92b_4efc_u32.to_le_bytes(), "md superblock"),
    ];
    for (offset, bytes, kind) in cases {
        assert_eq!(signature(&with(*offset, bytes)).unwrap(), Some(Signature { kind, offset: *offset }));
    }
}

#[test]
fn nothing_is_found_where_nothing_is() {
    assert_eq!(signature(&MemoryDevice::new("d", 16 << 20, 4096)).unwrap(), None);
    assert_eq!(signature(&MemoryDevice::new("d", 0, 512)).unwrap(), None);
    assert_eq!(signature(&MemoryDevice::new("d", 512, 512)).unwrap(), None);
    assert_eq!(signature(&with(510, &[0x55, 0xaa])).unwrap(), None, "a mark without a partition");
    let noise: Vec<u8> = (0..2048_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(signature(&with(0, &noise)).unwrap(), None);
}

/// What the makers of file systems themselves write; a tool that is not installed is passed over, and must be one of few.
#[test]
fn what_real_tools_make_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let cases: &[(&str, &[&str], &str, &str)] = &[
        ("mkfs.ext4", &["-q", "-F"], "", "ext4"),
        ("mkfs.ext3", &["-q", "-F"], "", "ext3"),
        ("mkfs.ext2", &["-q", "-F"], "", "ext2"),
        ("mkswap", &["-q"], "", "swap"),
        ("sfdisk", &["-q"], "label: dos\n,4M,83\n", "MBR partition table"),
        ("sfdisk", &["-q"], "label: gpt\n,4M\n", "GPT partition table"),
        ("mkfs.xfs", &["-q", "-f"], "", "XFS"),
        ("mkfs.btrfs", &["-q", "-f"], "", "btrfs"),
        ("mkfs.vfat", &[], "", "FAT"),
        ("mkfs.f2fs", &["-q", "-f"], "", "F2FS"),
        ("mkfs.ntfs", &["-q", "-F", "-f"], "", "NTFS"),
    ];
    for (index, (tool, options, input, kind)) in cases.iter().enumerate() {
        let path = dir.path().join(index.to_string());
        std::fs::File::create(&path).unwrap().set_len(400 << 20).unwrap();
        let path_var = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let spawned = Command::new(tool)
            .args(*options)
            .arg(&path)
            .env("PATH", path_var)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = spawned else {
            eprintln!("{tool} is not installed: passed over");
            continue;
        };
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), input.as_bytes()).unwrap();
        assert!(child.wait_with_output().unwrap().status.success(), "{tool}");
        let device = FileDevice::open(&path, OpenOptions::look()).unwrap();
        let found = signature(&device).unwrap();
        assert_eq!(found.map(|found| found.kind), Some(*kind), "{tool}");
    }
}
