//! Block devices, played by loop devices over files.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use uraid_device::{Device, FileDevice, Identity, OpenOptions};

use crate::support::{allocated_blocks, disk, kind};

const MIB: u64 = 1 << 20;

/// A loop device that goes when it is dropped.
struct Loop(PathBuf);

impl Loop {
    /// `None`, with a message, where the system has none to give.
    fn over(file: &Path, sector_bytes: u32) -> Option<Loop> {
        let sector = format!("--sector-size={sector_bytes}");
        let output = Command::new("losetup").args(["--find", "--show", &sector]).arg(file).output().ok()?;
        if !output.status.success() {
            eprintln!("SKIPPED: block devices: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Some(Loop(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

fn file(place: &tempfile::TempDir) -> PathBuf {
    let path = place.path().join("backing");
    FileDevice::create_sparse(&path, 8 * MIB, false).unwrap();
    path
}

#[test]
fn size_block_and_bytes_are_the_disks() {
    for sector_bytes in [512, 4096] {
        let place = disk();
        let backing = file(&place);
        let Some(disk) = Loop::over(&backing, sector_bytes) else { return };
        let member = FileDevice::open(&disk.0, OpenOptions::own()).unwrap();
        assert_eq!(member.info().size_bytes, 8 * MIB);
        assert_eq!(member.info().logical_block_bytes, sector_bytes);
        assert!(member.info().direct && member.info().rotational.is_some());
        assert!(matches!(member.identity(), Some(Identity::Block { .. })));
        let block = sector_bytes as usize;
        member.write_at(MIB, &vec![7; 3 * block]).unwrap();
        member.flush().unwrap();
        let mut back = vec![0; 4 * block];
        member.read_at(MIB, &mut back).unwrap();
        assert!(back[..3 * block].iter().all(|&byte| byte == 7) && back[3 * block..].iter().all(|&byte| byte == 0));
        assert_eq!(&fs::read(&backing).unwrap()[MIB as usize..][..4 * block], &back[..]);
    }
}

#[test]
fn zeroing_reaches_the_disk() {
    let place = disk();
    let backing = file(&place);
    let Some(disk) = Loop::over(&backing, 512) else { return };
    let member = FileDevice::open(&disk.0, OpenOptions::own()).unwrap();
    member.write_at(0, &vec![9; 8 * MIB as usize]).unwrap();
    member.flush().unwrap();
    let full = allocated_blocks(&backing);
    member.zero(MIB, 4 * MIB, true).unwrap();
    member.zero(0, 512, false).unwrap();
    member.flush().unwrap();
    assert!(allocated_blocks(&backing) <= full - 4 * MIB / 512);
    let bytes = fs::read(&backing).unwrap();
    let zero = |at: usize| at < 512 || (MIB..5 * MIB).contains(&(at as u64));
    assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == if zero(at) { 0 } else { 9 }));
}

#[test]
fn a_disk_in_use_is_refused_and_says_by_whom() {
    let place = disk();
    let Some(disk) = Loop::over(&file(&place), 512) else { return };
    let owner = FileDevice::open(&disk.0, OpenOptions::own()).unwrap();
    let refused = FileDevice::open(&disk.0, OpenOptions::own()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("holds its lock"), "{refused}");
    FileDevice::open(&disk.0, OpenOptions::look()).unwrap();
    drop(owner);

    // A claim without a lock, as mounting makes it.
    let claim = fs::File::options().read(true).custom_flags(libc::O_EXCL).open(&disk.0).unwrap();
    let refused = FileDevice::open(&disk.0, OpenOptions::own()).map(drop).unwrap_err();
    assert_eq!(refused.source.kind(), ErrorKind::ResourceBusy);
    assert!(refused.to_string().contains("in use by the kernel"), "{refused}");
    FileDevice::open(&disk.0, OpenOptions::look()).unwrap();
    drop(claim);
    FileDevice::open(&disk.0, OpenOptions::own()).unwrap();
}

#[test]
fn a_disk_is_taken_as_it_is() {
    let place = disk();
    let Some(disk) = Loop::over(&file(&place), 4096) else { return };
    let asked = OpenOptions { logical_block_bytes: Some(512), ..OpenOptions::look() };
    assert_eq!(kind(FileDevice::open(&disk.0, asked).map(drop)), ErrorKind::InvalidInput);
    assert_eq!(kind(FileDevice::create_sparse(&disk.0, MIB, true)), ErrorKind::AlreadyExists);
}
