//! Images of disks that others made, fetched by `cargo xtask images`: what uraid makes of them is what their own tests state.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use uraid_referee::require_images;

use crate::lab::{Lab, refs};

/// Unpacks an image into the lab.
fn unpack(lab: &Lab, tool: &str, packed: &Path, name: &str) -> String {
    let to = File::create(lab.path(name)).unwrap();
    let status = Command::new(tool).arg("-dc").arg(packed).stdout(to).status().unwrap();
    assert!(status.success(), "{tool} {}", packed.display());
    name.to_owned()
}

/// An array of dissect.volume's tests: its files, the options that choose it, and what the tests say of it. Their blocks of
/// 4 KiB hold their own number, counted from 1, as 16 bits over and over.
struct Array {
    name: &'static str,
    members: usize,
    options: &'static [&'static str],
    level: &'static str,
    /// Where the tests state the array's size, not a member's.
    size_bytes: Option<u64>,
    blocks: usize,
}

const fn array(name: &'static str, members: usize, level: &'static str, size_bytes: Option<u64>, blocks: usize) -> Array {
    Array { name, members, options: &[], level, size_bytes, blocks }
}

const DDF: &[Array] = &[
    array("ddf-raid0", 3, "raid0", Some(0xc0_0000), 3072),
    array("ddf-raid1", 2, "raid1", Some(0x40_0000), 512),
    array("ddf-raid4", 2, "raid4", Some(0x40_0000), 512),
    array("ddf-raid5", 3, "raid5", Some(0x80_0000), 512),
    array("ddf-raid6", 4, "raid6", Some(0x80_0000), 512),
    array("ddf-raid10", 4, "raid10", Some(0x80_0000), 512),
    Array { options: &["--volume=ddf-raid0"], ..array("ddf-raid0-raid1", 2, "raid0", None, 512) },
    Array { options: &["--volume=ddf-raid1"], ..array("ddf-raid0-raid1", 2, "raid1", None, 512) },
];

const MD: &[Array] = &[
    array("md-90-raid1", 2, "raid1", None, 512),
    array("md-linear", 2, "linear", Some(0x20_0000), 512),
    array("md-raid0", 3, "raid0", Some(0x50_0000), 512),
    array("md-raid1", 2, "raid1", Some(0x20_0000), 512),
    array("md-raid4", 3, "raid4", None, 512),
    array("md-raid5", 3, "raid5", None, 512),
    array("md-raid6", 4, "raid6", None, 512),
    array("md-raid10", 2, "raid10", Some(0x20_0000), 512),
];

fn read(images: &Path, array: &Array) {
    let lab = Lab::new();
    let folder = if array.name.starts_with("ddf") { "ddf" } else { "md" };
    let packed = |number| images.join(format!("dissect/{folder}/{}-{number}.bin.gz", array.name));
    let members: Vec<String> =
        (1..=array.members).map(|number| unpack(&lab, "gzip", &packed(number), &format!("m{number}"))).collect();
    let before = lab.bytes(&members);
    let expected: Vec<u8> = (1..=array.blocks).flat_map(|number| (number as u16).to_le_bytes().repeat(2048)).collect();
    let export = |members: &[String]| {
        let ended = lab.run(&[&["export", "--output=out", "--force"], array.options, &refs(members)[..]].concat());
        (ended.code, std::fs::read(lab.path("out")).unwrap_or_default(), ended.stderr)
    };
    let reversed: Vec<String> = members.iter().rev().cloned().collect();
    let (code, found, stderr) = export(&reversed);
    assert_eq!(code, 0, "{}: {stderr}", array.name);
    assert!(found.starts_with(&expected), "{}", array.name);
    assert!(array.size_bytes.is_none_or(|size| size == found.len() as u64), "{}: {} bytes", array.name, found.len());
    if !matches!(array.level, "raid0" | "linear") {
        for lost in 0..members.len() {
            let rest: Vec<String> =
                members.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, name)| name.clone()).collect();
            let (code, without, stderr) = export(&rest);
            assert_eq!(code, 3, "{} without member {lost}: {stderr}", array.name);
            assert!(without == found, "{} without member {lost}", array.name);
        }
    }
    assert!(before == lab.bytes(&members), "{}: written to while only read", array.name);
    let report = lab.run(&[&["detail", "--json"], &refs(&members)[..]].concat()).json().to_string();
    assert!(report.contains(&format!("\"level\":\"{}\"", array.level)), "{report}");
}

#[test]
fn ddf_members_that_others_made_are_read() {
    let Some(images) = require_images() else { return };
    DDF.iter().for_each(|array| read(&images, array));
}

#[test]
fn md_members_that_others_made_are_read() {
    let Some(images) = require_images() else { return };
    MD.iter().for_each(|array| read(&images, array));
}

/// Number, first byte, bytes, type and name of partitions, as dissect.volume's tests state them; for GPT they do not count the
/// last block, though it belongs to the partition.
type Parts = &'static [(u32, u64, u64, &'static str, &'static str)];

const LINUX: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";

const TABLES: &[(&str, &str, u64, Parts)] = &[
    ("mbr.bin", "MBR", 512, &[(1, 0x10_0000, 0x1f40_0000, "0x07", ""), (2, 0x1f50_0000, 0xe_e0a0_0000, "0x07", "")]),
    (
        "gpt.bin",
        "GPT",
        512,
        &[
            (1, 20480, 0xc7f_fe00, "c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "EFI System Partition"),
            (2, 0xc90_0000, 0x7_465f_fe00, "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7", ""),
        ],
    ),
    (
        "gpt_hybrid.bin",
        "GPT",
        512,
        &[
            (1, 0x10_0000, 0x8_0000, LINUX, "Linux filesystem"),
            (2, 0x4400, 0xf_ba00, LINUX, "Linux filesystem"),
            (3, 0x18_0200, 0x7_ba00, LINUX, "Linux filesystem"),
        ],
    ),
    ("gpt_4k.bin", "GPT", 4096, &[(1, 0x10_0000, 0x10_0000, LINUX, "Linux filesystem")]),
];

#[test]
fn partition_tables_that_others_made_are_read() {
    let Some(images) = require_images() else { return };
    let lab = Lab::new();
    for (file, kind, block_bytes, parts) in TABLES {
        let path = images.join("dissect/disk").join(file);
        let report = lab.run(&["examine", "--json", path.to_str().unwrap()]).json();
        let table = &report["members"][0]["partition_table"];
        assert_eq!(
            (table["kind"].as_str(), table["block_bytes"].as_u64()),
            (Some(*kind), Some(*block_bytes)),
            "{file}: {report}"
        );
        for (found, &(number, start, size, of, name)) in table["partitions"].as_array().unwrap().iter().zip(*parts) {
            assert_eq!((found["number"].as_u64(), found["start_bytes"].as_u64()), (Some(number.into()), Some(start)), "{file}");
            let size = if *kind == "GPT" { size + block_bytes } else { size };
            assert_eq!(
                (&found["size_bytes"], &found["type"], &found["name"]),
                (&size.into(), &of.into(), &name.into()),
                "{file}"
            );
        }
    }
}

/// What util-linux's tests say that blkid finds, and what uraid calls it.
const KINDS: &[(&str, &str)] = &[
    ("adaptec_raid_member", "Adaptec HostRAID"),
    ("hpt37x_raid_member", "HighPoint HPT37x RAID"),
    ("hpt45x_raid_member", "HighPoint HPT45x RAID"),
    ("jmicron_raid_member", "JMicron RAID"),
    ("lsi_mega_raid_member", "LSI MegaRAID"),
    ("nvidia_raid_member", "NVIDIA RAID"),
    ("promise_fasttrack_raid_member", "Promise FastTrack RAID"),
    ("silicon_medley_raid_member", "Silicon Image Medley RAID"),
    ("via_raid_member", "VIA RAID"),
    ("drbd", "DRBD"),
    ("drbdmanage_control_volume", "DRBD management volume"),
    ("bcache", "bcache"),
    ("LVM2_member", "LVM physical volume"),
    ("VMFS_volume_member", "VMware VMFS volume"),
    ("VMFS", "VMware VMFS"),
    ("zfs_member", "ZFS"),
    ("ceph_bluestore", "Ceph BlueStore"),
    ("ubi", "UBI"),
    ("vdo", "VDO"),
    ("crypto_LUKS", "LUKS"),
    ("ext2", "ext2"),
    ("ext3", "ext3"),
    ("xfs", "XFS"),
    ("f2fs", "F2FS"),
    ("ntfs", "NTFS"),
    ("exfat", "exFAT"),
    ("gfs2", "GFS2"),
    ("ocfs2", "OCFS2"),
    ("reiserfs", "ReiserFS"),
    ("reiser4", "Reiser4"),
    ("jfs", "JFS"),
    ("erofs", "EROFS"),
    ("cramfs", "cramfs"),
    ("romfs", "romfs"),
];

/// What the tests beside the image expect blkid to say under this key.
fn expected(blkid: &Path, name: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(blkid.join(format!("expected/low-probe-{name}"))).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
}

#[test]
fn everything_that_blkid_calls_raid_is_named_and_refused() {
    let Some(images) = require_images() else { return };
    let blkid = images.join("blkid");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(blkid.join("images-fs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut seen = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().trim_end_matches(".img.xz").to_owned();
        let Some(found) = expected(&blkid, &name, "ID_FS_TYPE") else { continue };
        let kind = KINDS.iter().find(|(blkid, _)| *blkid == found).map(|(_, kind)| *kind);
        let is_raid = expected(&blkid, &name, "ID_FS_USAGE").as_deref() == Some("raid");
        let is_own = matches!(found.as_str(), "linux_raid_member" | "isw_raid_member" | "ddf_raid_member");
        if is_own {
            assert_own(&file, &found);
            seen.push(found);
            continue;
        }
        let Some(kind) = kind else {
            assert!(!is_raid, "{name}: {found} has no name here");
            continue;
        };
        let lab = Lab::new();
        unpack(&lab, "xz", &file, "packed");
        // Metadata at the end is counted from there; disks are of whole sectors, and one of the images is not.
        let bytes = std::fs::read(lab.path("packed")).unwrap();
        std::fs::write(lab.path("disk"), &bytes[bytes.len() % 512..]).unwrap();
        let ended = lab.run(&["export", "--output=out", "disk"]).expect(1);
        assert!(ended.stderr.contains(&format!("it carries {kind} (magic")), "{name}: {}", ended.stderr);
        seen.push(found);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), KINDS.len() + 3, "an image of each: {seen:?}");
}

/// Of formats that uraid reads a single image is shown.
fn assert_own(file: &Path, kind: &str) {
    let lab = Lab::new();
    unpack(&lab, "xz", file, "disk");
    let report: Value = lab.run(&["examine", "--json", "disk"]).json();
    let member = &report["members"][0];
    let format = member["container"]["format"].as_str();
    match kind {
        "isw_raid_member" => assert_eq!(format, Some("imsm"), "{report}"),
        // Where its header promises the records of physical disks, the image has another structure: blkid looks at no more than
        // the header.
        "ddf_raid_member" => {
            let why = "its DDF physical disk records at byte 35652608: the signature is 0x33333333, not 0x22222222";
            assert_eq!(member["problem"], why);
        }
        _ => assert!(report.to_string().contains("0.90"), "{report}"),
    }
}
