use std::sync::Arc;

use uraid_device::{Device, FileDevice, MemoryDevice, OpenOptions, Pool};

use super::*;

/// A member file of 64 KiB that holds `fill`.
fn member(dir: &std::path::Path, name: &str, fill: u8) -> Arc<dyn Device> {
    let path = dir.join(name);
    std::fs::write(&path, vec![fill; 65536]).unwrap();
    Arc::new(FileDevice::open(&path, OpenOptions::own()).unwrap())
}

fn put(device: &dyn Device, at: u64, bytes: &[u8]) {
    device.write_at(at, &Pool::new(0).copy(bytes)).unwrap();
}

fn save(dir: &std::path::Path, device: &dyn Device, new: &[u8]) -> std::path::PathBuf {
    let bytes = Change { start_byte: 4096, len_bytes: new.len() as u64, after: After::Bytes(new) };
    let zeros = Change { start_byte: 32768, len_bytes: 4096, after: After::Zeros };
    save_undo(dir, "test", &[Changed { device, changes: vec![bytes, zeros] }]).unwrap().unwrap()
}

#[test]
fn what_was_there_comes_back_from_any_point_of_the_command_and_of_the_undoing() {
    let dir = tempfile::tempdir().unwrap();
    let new = [0x22; 2048];
    // After so many sectors of the command the power goes; after so many of the undoing it goes again.
    for done in 0..=12 {
        for undone in [0, 1, done / 2, done] {
            let device = member(dir.path(), "m", 0x11);
            let path = save(&dir.path().join("undo"), &*device, &new);
            let sectors: Vec<u64> = (0..4).map(|n| 4096 + n * 512).chain((0..8).map(|n| 32768 + n * 512)).collect();
            for &at in &sectors[..done] {
                put(&*device, at, &[if at < 32768 { 0x22 } else { 0 }; 512]);
            }
            for &at in &sectors[..undone.min(done)] {
                put(&*device, at, &[0x11; 512]);
            }
            let undo = UndoFile::open(&path).unwrap();
            let state = undo.judge(0, &*device).unwrap();
            assert_eq!((state.strange_byte, state.unknown_byte), (None, None));
            assert_eq!(state.after_bytes, 512 * (done - undone.min(done)) as u64);
            undo.put_back(0, &*device).unwrap();
            assert!(std::fs::read(dir.path().join("m")).unwrap() == vec![0x11; 65536], "{done} done, {undone} undone");
            assert_eq!(undo.judge(0, &*device).unwrap().after_bytes, 0);
        }
    }
}

#[test]
fn a_sector_that_somebody_else_wrote_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let device = member(dir.path(), "m", 0x11);
    let path = save(&dir.path().join("undo"), &*device, &[0x22; 2048]);
    put(&*device, 5120, &[0x77; 512]);
    let state = UndoFile::open(&path).unwrap().judge(0, &*device).unwrap();
    assert_eq!(state.strange_byte, Some(5120));
}

#[test]
fn any_damage_to_the_file_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let device = member(dir.path(), "m", 0x11);
    let path = save(&dir.path().join("undo"), &*device, &[0x22; 512]);
    let good = std::fs::read(&path).unwrap();
    UndoFile::open(&path).unwrap();
    for at in (0..good.len()).step_by(7).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        std::fs::write(&path, &bad).unwrap();
        assert!(matches!(UndoFile::open(&path), Err(UndoError::Damaged { .. })), "byte {at}");
    }
    for len in [0, 5, 13, 40, good.len() - 1] {
        std::fs::write(&path, &good[..len]).unwrap();
        assert!(matches!(UndoFile::open(&path), Err(UndoError::Damaged { .. })), "{len} bytes");
    }
}

#[test]
fn lies_in_the_header_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lie.undo");
    for change in [
        r#"{"start_byte":0,"len_bytes":18446744073709551104,"after":"bytes"}"#,
        r#"{"start_byte":18446744073709551104,"len_bytes":1024,"after":"zeros"}"#,
        r#"{"start_byte":7,"len_bytes":512,"after":"zeros"}"#,
        r#"{"start_byte":0,"len_bytes":0,"after":"zeros"}"#,
        r#"{"start_byte":0,"len_bytes":512,"after":"other"}"#,
        r#"{"start_byte":65536,"len_bytes":512,"after":"zeros"}"#,
    ] {
        let member = format!(r#"{{"path":"/m","size_bytes":65536,"changes":[{change}]}}"#);
        let mut bytes = format!("{FIRST_LINE}{{\"command\":\"x\",\"created_seconds\":1,\"members\":[{member}]}}\n").into_bytes();
        bytes.extend([0; 512]);
        bytes.extend(uraid_parity::crc32c(0, &bytes).to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(UndoFile::open(&path), Err(UndoError::Damaged { .. })), "{change}");
    }
}

#[test]
fn nothing_is_kept_of_zeros_and_no_file_is_left_of_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let blank = MemoryDevice::new("blank", 65536, 512);
    let change = || vec![Change { start_byte: 0, len_bytes: 512, after: After::Zeros }];
    assert!(save_undo(dir.path(), "test", &[Changed { device: &blank, changes: change() }]).unwrap().is_none());
    put(&blank, 0, &[1; 512]);
    let beyond = Change { start_byte: 65536, len_bytes: 512, after: After::Zeros };
    let changes = change().into_iter().chain([beyond]).collect();
    assert!(matches!(save_undo(dir.path(), "test", &[Changed { device: &blank, changes }]), Err(UndoError::Member(_))));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    std::fs::write(dir.path().join("file"), "").unwrap();
    let nowhere = save_undo(&dir.path().join("file"), "test", &[Changed { device: &blank, changes: change() }]);
    assert!(matches!(nowhere, Err(UndoError::Io { .. })));
}
