//! What uraid's side does: the program, run on the members' files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;
use uraid_referee::pattern;

use crate::kept::pack::numbered;
use crate::lab::{Ended, Lab, refs};
use crate::nbd::Nbd;
use crate::superblock;

/// Bytes of the pattern: as much as the largest array holds.
const PATTERN_BYTES: usize = 32 << 20;

/// Rubbish fills a page, the least that md compares.
pub const RUBBISH_BYTES: usize = 4096;

/// A folder with members, and the pattern that arrays are filled with, also as the file `pattern`.
pub struct Bench {
    pub lab: Lab,
    pub pattern: Vec<u8>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(pattern(1, PATTERN_BYTES))
    }

    /// One whose arrays are filled with sectors that hold their own number.
    pub fn numbered() -> Bench {
        Bench::with(numbered(PATTERN_BYTES))
    }

    fn with(pattern: Vec<u8>) -> Bench {
        let lab = Lab::new();
        std::fs::write(lab.path("pattern"), &pattern).unwrap();
        Bench { lab, pattern }
    }

    /// The first bytes of the pattern.
    pub fn expected(&self, len_bytes: u64) -> &[u8] {
        &self.pattern[..usize::try_from(len_bytes).unwrap()]
    }

    /// Exports the array of these members.
    pub fn export(&self, members: &[String]) -> Ended {
        self.lab.run(&[&["export", "--output=exported"], &refs(members)[..]].concat())
    }

    /// Asserts that the array of these members holds `expected`, which is also how large the kernel says it is.
    #[track_caller]
    pub fn assert_exports(&self, members: &[String], expected: &[u8], degraded: bool) {
        self.export(members).expect(if degraded { 3 } else { 0 });
        assert_same(&std::fs::read(self.lab.path("exported")).unwrap(), expected, &members.join(" "));
    }

    /// `uraid examine --json`, member by member.
    #[track_caller]
    pub fn examine(&self, members: &[String]) -> Vec<Value> {
        let report = self.lab.ok(&[&["examine", "--json"], &refs(members)[..]].concat()).json();
        report["members"].as_array().unwrap().clone()
    }

    /// Bytes that the array of these members holds, as uraid says.
    #[track_caller]
    pub fn size_bytes(&self, members: &[String]) -> u64 {
        let report = self.lab.run(&[&["detail", "--json"], &refs(members)[..]].concat()).json();
        report["arrays"][0]["size_bytes"].as_u64().unwrap_or_else(|| panic!("no size: {report}"))
    }

    /// Fills the array of these members with the pattern; gives its size in bytes.
    #[track_caller]
    pub fn import(&self, members: &[String], degraded: bool) -> u64 {
        let size_bytes = self.size_bytes(members);
        std::fs::write(self.lab.path("input"), self.expected(size_bytes)).unwrap();
        let ended = self.lab.run(&[&["import", "--input=input"], &refs(members)[..]].concat());
        ended.expect(if degraded { 3 } else { 0 });
        size_bytes
    }

    /// Puts rubbish on a member, `place` bytes behind the start of its data.
    pub fn spoil(&self, member: &str, place: u64) {
        let (file, data) = self.member(member);
        file.write_all_at(&rubbish(), data + place).unwrap();
    }

    /// Is the rubbish still there?
    pub fn is_spoilt(&self, member: &str, place: u64) -> bool {
        let (file, data) = self.member(member);
        let mut found = [0; RUBBISH_BYTES];
        file.read_exact_at(&mut found, data + place).unwrap();
        found[..] == rubbish()
    }

    /// A member with metadata 1.2, and the byte at which its data starts.
    fn member(&self, name: &str) -> (File, u64) {
        let path = self.lab.path(name);
        let data = superblock::get_u64(&path, superblock::DATA_OFFSET) * 512;
        (File::options().read(true).write(true).open(path).unwrap(), data)
    }
}

/// Bytes that no array holds.
pub fn rubbish() -> Vec<u8> {
    pattern(3, RUBBISH_BYTES)
}

/// Asserts that two contents are the same.
#[track_caller]
pub fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len(), "bytes of {what}");
    let differs = found.chunks(512).zip(expected.chunks(512)).position(|(found, wanted)| found != wanted);
    assert_eq!(differs, None, "the first sector that differs, of {what}");
}

/// Those of `names` that are not lost.
pub fn without(names: &[String], lost: &[usize]) -> Vec<String> {
    names.iter().enumerate().filter(|(index, _)| !lost.contains(index)).map(|(_, name)| name.clone()).collect()
}

/// Writes to the array served at a socket, and flushes.
#[track_caller]
pub fn write_nbd(socket: &Path, offset: u64, data: &[u8]) {
    const PIECE: usize = 256 << 10;
    let mut client = Nbd::connect(socket).unwrap();
    for (index, piece) in data.chunks(PIECE).enumerate() {
        client.send_write(1, offset + (index * PIECE) as u64, piece).unwrap();
        assert_eq!(client.reply().unwrap(), 1);
    }
    client.send_flush(2).unwrap();
    assert_eq!(client.reply().unwrap(), 2);
}
