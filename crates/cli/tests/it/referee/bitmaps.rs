//! Write-intent bitmaps: what one side left dirty, or wrote while a member was away, the other side mends, and nothing else.
//!
//! Arrays whose last member holds nothing but parity or a copy. Whether a part of it was resynced can be seen: rubbish that a
//! test puts there is gone afterwards, or still there.

use std::fmt::Write as _;

use serde_json::Value;
use uraid_referee::{Output, pattern, require};

use super::cases::{BITMAPS, Case, chosen};
use super::guest;
use super::host::{Bench, RUBBISH_BYTES, assert_same, rubbish, write_nbd};
use crate::lab::refs;
use crate::nbd::Nbd;

/// Where nothing is written, in bytes of the members' data.
const CLEAN: u64 = 1 << 20;
/// Where something is written.
const DIRTY: u64 = 2 << 20;
/// How much of each member is written there: a chunk.
const WRITTEN: u64 = 64 << 10;
/// mdadm's and uraid's option: a bit for 64 KiB.
pub(super) const BITMAP_CHUNK: &str = "--bitmap-chunk=64K";

/// One array and what becomes of it.
pub(super) struct Subject<'a> {
    pub bench: &'a Bench,
    pub case: Case,
    /// Members that hold data, as opposed to parity or copies.
    pub data_members: u64,
}

impl<'a> Subject<'a> {
    pub fn all(bench: &'a Bench) -> Vec<Subject<'a>> {
        let data_members = |case: &Case| match case.level {
            "1" => 1,
            "10" => case.members as u64 / 2,
            _ => (case.members - case.may_lose) as u64,
        };
        chosen(BITMAPS).into_iter().map(|case| Subject { bench, case, data_members: data_members(&case) }).collect()
    }

    pub fn name(&self) -> &'static str {
        self.case.name
    }

    pub fn make_files(&self) -> Vec<String> {
        self.case.files().iter().map(|name| self.bench.lab.file(name, self.case.member_bytes(0))).collect()
    }

    /// Makes, fills and resyncs the array with uraid.
    fn make(&self) -> Vec<String> {
        let (files, options) = (self.make_files(), self.case.options());
        self.bench.lab.ok(&[&["create", BITMAP_CHUNK], &refs(&options)[..], &refs(&files)].concat());
        self.bench.import(&files, false);
        self.bench.lab.ok(&[&["resync"], &refs(&files)[..]].concat());
        files
    }

    /// The script that makes and fills the array with the kernel. All bits are cleared: they are when it stops.
    fn make_in_guest(&self) -> String {
        format!(
            "attach {}\nmdadm --create /dev/md0 --run --quiet --homehost=any {BITMAP_CHUNK} {} $DEVS\nmdwait /dev/md0\nfill\n\
             mdadm --stop --quiet /dev/md0\nmdadm --assemble --quiet /dev/md0 $DEVS\n",
            self.make_files().join(" "),
            self.case.options().join(" "),
        )
    }

    /// The part of the array that is written: whole stripes.
    pub fn written(&self) -> std::ops::Range<usize> {
        let start = DIRTY * self.data_members;
        start as usize..(start + WRITTEN * self.data_members) as usize
    }

    /// The script that writes what is to be written.
    pub fn write_in_guest(&self) -> String {
        let file = format!("{}.written", self.name());
        std::fs::write(self.bench.lab.path(&file), self.news()).unwrap();
        format!("dd if=$W/{file} of=/dev/md0 bs=64K seek={} oflag=direct status=none\n", self.written().start >> 16)
    }

    /// What is written: the same for all arrays, but as long as is needed.
    fn news(&self) -> Vec<u8> {
        pattern(2, 3 * WRITTEN as usize)[..self.written().len()].to_vec()
    }

    pub fn write_by_uraid(&self) {
        write_nbd(&self.bench.lab.path("socket"), self.written().start as u64, &self.news());
    }

    /// All that the array of `size_bytes` must hold.
    pub fn contents(&self, size_bytes: u64) -> Vec<u8> {
        let mut contents = self.bench.expected(size_bytes).to_vec();
        contents[self.written()].copy_from_slice(&self.news());
        contents
    }

    /// Asserts that the array holds what it must. Of copies either may be read where one of them is rubbish.
    #[track_caller]
    pub fn assert_contents(&self, found: &[u8], mut expected: Vec<u8>) {
        let rubbish_at = match self.case.level {
            "1" => Some(CLEAN),
            // The last chunk of its row.
            "10" => Some(CLEAN * self.data_members + WRITTEN * (self.data_members - 1)),
            _ => None,
        };
        if let Some(at) = rubbish_at.map(|at| at as usize..at as usize + RUBBISH_BYTES)
            && found[at.clone()] == rubbish()
        {
            expected[at].copy_from_slice(&rubbish());
        }
        assert_same(found, &expected, self.name());
    }

    /// Asserts that no bit is set on any of these members.
    #[track_caller]
    fn assert_no_bits(&self, members: &[String]) {
        let set: Vec<Value> = self.bench.examine(members).iter().map(|member| member["bitmap"]["bits_set"].clone()).collect();
        assert!(set.len() == members.len() && set.iter().all(|set| *set == 0), "{}: bits set: {set:?}", self.name());
    }

    /// Asserts that an export of these members is what it must be.
    #[track_caller]
    pub fn assert_exports(&self, members: &[String]) {
        self.bench.export(members).expect(0);
        let found = std::fs::read(self.bench.lab.path("exported")).unwrap();
        self.assert_contents(&found, self.contents(found.len() as u64));
    }

    /// Puts rubbish on a member, both where something was written and where nothing was.
    pub fn spoil(&self, member: &str) {
        self.bench.spoil(member, CLEAN);
        self.bench.spoil(member, DIRTY);
    }

    /// Was the rubbish mended where something was written, and only there?
    #[track_caller]
    pub fn assert_mended_where_dirty(&self, member: &str) {
        let is_rubbish = [CLEAN, DIRTY].map(|place| self.bench.is_spoilt(member, place));
        assert_eq!(is_rubbish, [true, false], "rubbish where nothing, where something was written, on {member}");
    }

    /// Is this what a check finds while the rubbish is still there where nothing was written?
    #[track_caller]
    pub fn assert_one_page_differs(&self, mismatch_sectors: u64) {
        // Of copies, all that was compared at a time counts.
        let most = if ["1", "10"].contains(&self.case.level) { 128 } else { 8 };
        assert!((8..=most).contains(&mismatch_sectors), "{}: mismatch_cnt {mismatch_sectors}", self.name());
    }

    /// The script that stops the array, having reported on it, its contents in the file `NAME.out`.
    pub fn report_in_guest(&self) -> String {
        let name = self.name();
        format!(
            "mdwait /dev/md0\necho degraded.{name}=$(cat $(md_sys /dev/md0)/degraded)\nblockdev --flushbufs /dev/md0\n\
             echo mismatch.{name}=$(mismatch /dev/md0)\ndd if=/dev/md0 of=$W/{name}.out bs=1M status=none\ndone_with\n"
        )
    }

    /// The array's contents as the guest reported them; it must be whole, with rubbish where nothing was written.
    #[track_caller]
    pub fn reported(&self, output: &Output) -> Vec<u8> {
        assert_eq!(guest::value(output, "degraded", self.name()), "0", "{}", output.stdout);
        self.assert_one_page_differs(guest::value(output, "mismatch", self.name()).parse().unwrap());
        std::fs::read(self.bench.lab.path(&format!("{}.out", self.name()))).unwrap()
    }
}

/// The kernel's array as a power cut leaves it; uraid resyncs it.
#[test]
fn what_the_kernel_left_dirty_is_resynced_and_nothing_else() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let subjects = Subject::all(&bench);
    let mut script = String::new();
    for subject in &subjects {
        script += &subject.make_in_guest();
        // From now on neither the dirty mark nor the bits go away.
        script += "echo 1000 > $(md_sys /dev/md0)/safe_mode_delay\necho 1000 > $(md_sys /dev/md0)/bitmap/time_base\n";
        script += &subject.write_in_guest();
        writeln!(script, "echo dirty.{}=$(dirty_bits)\nsync", subject.name()).unwrap();
        for file in subject.case.files() {
            writeln!(script, "cp $W/{file} $W/{file}.cut").unwrap();
        }
        script += "done_with\n";
    }
    let output = guest::run(referee, &bench, &script);
    for subject in &subjects {
        // Bits stand for 64 KiB of a member, RAID10's for 64 KiB of the array.
        let dirty = if subject.case.level == "10" { subject.data_members } else { 1 };
        assert_eq!(guest::value(&output, "dirty", subject.name()), dirty.to_string(), "{}", subject.name());
        let members: Vec<String> = subject.case.files().iter().map(|name| format!("{name}.cut")).collect();
        let last = members.last().unwrap();
        subject.spoil(last);
        let server = bench.lab.assemble(&members, &["--name=cut"]);
        let status = bench.lab.wait_idle("cut");
        let last_sync = &status["last_sync"];
        assert_eq!((&last_sync["kind"], &last_sync["complete"]), (&"resync".into(), &true.into()), "{status}");
        subject.assert_one_page_differs(bench.lab.check("cut"));
        assert_eq!(server.stop().0, 0);
        subject.assert_no_bits(&members);
        subject.assert_mended_where_dirty(last);
        subject.assert_exports(&members);
    }
}

/// uraid's array after `kill -9` with writes under way; the kernel resyncs it.
#[test]
fn what_uraid_left_dirty_is_resynced_by_the_kernel_and_nothing_else() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let subjects = Subject::all(&bench);
    let mut script = String::new();
    for subject in &subjects {
        let members = subject.make();
        let server = bench.lab.assemble(&members, &["--name=killed", "--nbd=unix:socket"]);
        subject.write_by_uraid();
        // Behind what was flushed, writes that nobody waits for.
        let mut client = Nbd::connect(&bench.lab.path("socket")).unwrap();
        for (index, block) in pattern(4, 1 << 20).chunks(4096).enumerate() {
            client.send_write(index as u64, subject.written().end as u64 + index as u64 * 4096, block).unwrap();
        }
        client.reply().unwrap();
        server.kill();
        subject.spoil(members.last().unwrap());
        writeln!(
            script,
            "attach {}\nexamine {name}\nexamine_bitmap {name}\nmdadm --assemble --quiet /dev/md0 $DEVS\n{}",
            members.join(" "),
            subject.report_in_guest(),
            name = subject.name(),
        )
        .unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    for subject in &subjects {
        let name = subject.name();
        assert_eq!(guest::examined(&output, name)[0].field("State"), "active", "{name}");
        let bitmap = guest::examined_bitmap(&output, name, 0);
        // "64 bits (chunks), 20 dirty (31.2%)"
        let words: Vec<&str> = bitmap.field("Bitmap").split_whitespace().collect();
        let [bits, dirty] = [words[0], words[3]].map(|word| word.parse::<u64>().unwrap());
        assert!(0 < dirty && dirty < bits, "{name}: {words:?}");
        let found = subject.reported(&output);
        let mut expected = subject.contents(found.len() as u64);
        // What nobody waited for is there or not, block by block.
        let unsure = subject.written().end..subject.written().end + (1 << 20);
        let news = pattern(4, 1 << 20);
        for (at, news) in unsure.step_by(4096).zip(news.chunks(4096)) {
            if found[at..at + 4096] == *news {
                expected[at..at + 4096].copy_from_slice(news);
            }
        }
        subject.assert_contents(&found, expected);
        subject.assert_mended_where_dirty(subject.case.files().last().unwrap());
    }
}

/// uraid writes while the last member is away; the kernel takes it back.
#[test]
fn a_member_that_was_away_from_uraid_is_re_added_by_the_kernel() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let subjects = Subject::all(&bench);
    let mut script = String::new();
    for subject in &subjects {
        let mut members = subject.make();
        let away = members.pop().unwrap();
        let server = bench.lab.assemble(&members, &["--name=away", "--run", "--nbd=unix:socket"]);
        subject.write_by_uraid();
        assert_eq!(server.stop().0, 3);
        subject.spoil(&away);
        writeln!(
            script,
            "attach {}\nmdadm --assemble --quiet /dev/md0 $DEVS\nattach_more {away}\nmdadm --quiet /dev/md0 --re-add $MORE\n{}",
            members.join(" "),
            subject.report_in_guest(),
        )
        .unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    for subject in &subjects {
        let found = subject.reported(&output);
        subject.assert_contents(&found, subject.contents(found.len() as u64));
        subject.assert_mended_where_dirty(subject.case.files().last().unwrap());
    }
}

/// The kernel writes while the last member is away; uraid takes it back.
#[test]
fn a_member_that_was_away_from_the_kernel_is_re_added() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    let subjects = Subject::all(&bench);
    let mut script = String::new();
    for subject in &subjects {
        let mut members = subject.make();
        members.pop();
        let write = subject.write_in_guest();
        writeln!(script, "attach {}\nmdadm --assemble --run --quiet /dev/md0 $DEVS\n{write}done_with", members.join(" "))
            .unwrap();
    }
    guest::run(referee, &bench, &script);
    for subject in &subjects {
        let mut members = subject.case.files();
        let away = members.pop().unwrap();
        subject.spoil(&away);
        let server = bench.lab.assemble(&members, &["--name=back"]);
        bench.lab.ok(&["re-add", "back", &away]);
        let status = bench.lab.wait_idle("back");
        assert_eq!(status["degraded"], 0, "{}: {status}", subject.name());
        subject.assert_one_page_differs(bench.lab.check("back"));
        assert_eq!(server.stop().0, 0);
        subject.assert_mended_where_dirty(&away);
        members.push(away);
        subject.assert_no_bits(&members);
        subject.assert_exports(&members);
    }
}
