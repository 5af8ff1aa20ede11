//! The serial number of a disk: what IMSM knows it by.

use std::fs;
use std::path::Path;

use uraid_device::{Device, Identity};

/// Bytes of a serial number that IMSM keeps: the last ones of a longer one.
const KEPT: usize = 16;

/// Is it the disk that the container calls `recorded`? By its drive's serial number, or by its name, which mdadm takes for one
/// when it is told to.
pub(super) fn matches(device: &dyn Device, recorded: &str) -> bool {
    let own = match device.identity() {
        Some(Identity::Block { device }) => of_drive(Path::new("/sys/dev/block"), device),
        _ => None,
    };
    let name = device.info().name.as_str();
    !recorded.is_empty() && (own.is_some_and(|own| kept(&own) == recorded) || kept(name) == recorded)
}

/// The serial number as IMSM keeps it: no blanks, and its end where it is too long.
fn kept(serial: &str) -> String {
    let printed: Vec<char> = serial.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    printed[printed.len().saturating_sub(KEPT)..].iter().collect()
}

/// The serial number of the drive with this device number, as the kernel shows it: of NVMe and virtio disks as text, of SCSI and
/// SATA disks as the page 0x80 of their product data, whose first four bytes are its head.
fn of_drive(blocks: &Path, device: u64) -> Option<String> {
    let node = blocks.join(format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)));
    let text = ["serial", "device/serial"].iter().find_map(|file| fs::read_to_string(node.join(file)).ok());
    let page = || Some(String::from_utf8_lossy(fs::read(node.join("device/vpd_pg80")).ok()?.get(4..)?).into_owned());
    text.or_else(page).filter(|serial| !serial.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uraid_device::MemoryDevice;

    #[test]
    fn a_drive_is_known_by_what_the_kernel_shows() {
        let dir = tempfile::tempdir().unwrap();
        let put = |file: &str, bytes: &[u8]| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        put("8:0/device/vpd_pg80", b"\0\x80\0\x14   WD-WCC4N0123456 ");
        put("259:3/serial", b"S4EVNX0N\n");
        put("8:16/size", b"9");
        assert_eq!(of_drive(dir.path(), rustix::fs::makedev(8, 0)).map(|s| kept(&s)).as_deref(), Some("WD-WCC4N0123456"));
        assert_eq!(of_drive(dir.path(), rustix::fs::makedev(259, 3)).map(|s| kept(&s)).as_deref(), Some("S4EVNX0N"));
        assert_eq!(of_drive(dir.path(), rustix::fs::makedev(8, 16)), None);
        assert_eq!(kept("0123456789abcdefgh"), "23456789abcdefgh");
        let named = MemoryDevice::new("/dev/ubda", 4096, 512);
        assert!(matches(&named, "/dev/ubda") && !matches(&named, "/dev/ubdb") && !matches(&MemoryDevice::new("", 512, 512), ""));
    }
}
