//! The head of a reshape's backup file, with its sums made right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uraid_format::{BACKUP_HEAD_BYTES, BackupHead};
use uraid_fuzz::bounded;

fuzz_target!(|input: &[u8]| {
    bounded(input.len(), || {
        let Some((&blocks, rest)) = input.split_first() else { return };
        let file_bytes = u64::from(blocks) << 12;
        let mut head = rest.to_vec();
        head.resize(BACKUP_HEAD_BYTES, 0);
        if blocks % 2 == 0 {
            head[..15].copy_from_slice(b"md_backup_data-");
            head[15] = b'1' + blocks / 2 % 2;
            for at in [64, 96] {
                let sum = head[..at].iter().fold(0_u32, |sum, _| (sum << 3).wrapping_add(u32::from(b'm')));
                head[at..at + 4].copy_from_slice(&sum.to_le_bytes());
            }
        }
        if let Ok(found) = BackupHead::parse(&head, file_bytes) {
            for section in &found.sections {
                assert!(section.len.0 > 0 && section.file.0 > 0 && (section.file.0 + section.len.0) * 512 <= file_bytes);
                assert!(section.array.0.checked_add(section.len.0).is_some());
            }
        }
    });
});
