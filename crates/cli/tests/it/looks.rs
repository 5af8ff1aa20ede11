//! Commands that only look never open a member for writing; the kernel says so, not the program.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::lab::{Lab, refs};

const MEMBER: u64 = 8 << 20;

/// Every command of the program, and whether it only looks. A new one must be put into one of the lists by its author.
const LOOK: &[&str] = &["examine", "detail", "status", "export", "bench", "completions", "help"];
const MAY_WRITE: &[&str] = &[
    "create",
    "assemble",
    "stop",
    "fail",
    "remove",
    "add",
    "re-add",
    "resync",
    "check",
    "repair",
    "import",
    "overlay",
    "convert",
    "undo",
    "quickstart",
];

/// The ways of looking at the members of an array, whole or not.
const WAYS: &[&[&str]] = &[
    &["examine"],
    &["examine", "--json"],
    &["examine", "--compat"],
    &["examine", "--bitmap"],
    &["examine", "--bitmap", "--json"],
    &["convert", "--dry-run", "--metadata=1.1"],
    &["detail"],
    &["detail", "--json"],
    &["export", "--output=out"],
    &["export", "--output=out", "--length=64K", "--offset=4K"],
    &["create", "--dry-run", "--level=5", "--raid-devices=4", "--force"],
];

/// Watches files for being opened, and for having been open for writing.
struct Watch {
    queue: OwnedFd,
}

impl Watch {
    fn on(lab: &Lab, files: &[String]) -> Watch {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let flags = WatchFlags::OPEN | WatchFlags::CLOSE_WRITE | WatchFlags::MODIFY | WatchFlags::ATTRIB;
        for file in files {
            inotify::add_watch(&queue, lab.path(file), flags).unwrap();
        }
        Watch { queue }
    }

    /// How often files were opened, and how often for writing, written to or cut, since the last time.
    fn counts(&self) -> (usize, usize) {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.queue, &mut room);
        let (mut opened, mut written) = (0, 0);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::OPEN) {
                opened += 1;
            } else {
                written += 1;
            }
        }
        (opened, written)
    }
}

#[test]
fn every_command_is_known_to_look_or_to_write() {
    let lab = Lab::new();
    let help = lab.ok(&["--help"]).stdout;
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What a command does may go on in a line that is set in further.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let found: BTreeSet<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    let known: BTreeSet<&str> = LOOK.iter().chain(MAY_WRITE).copied().collect();
    assert_eq!(found, known);
    let ways: BTreeSet<&str> = WAYS.iter().map(|way| way[0]).collect();
    let without_members = ["status", "bench", "completions", "help"];
    assert!(LOOK.iter().filter(|name| !without_members.contains(name)).all(|name| ways.contains(name)));
}

#[test]
fn looking_opens_nothing_for_writing() {
    for (level, gone) in [("6", 0), ("6", 2), ("5", 1), ("10", 0), ("0", 0), ("1", 3), ("6", 3)] {
        let lab = Lab::new();
        let mut members = lab.array(4, MEMBER, &["--level", level]);
        members.truncate(4 - gone);
        let watch = Watch::on(&lab, &members);
        let before = lab.bytes(&members);
        assert!(watch.counts().0 > 0, "the watch sees a file that is read");
        for way in WAYS {
            // Whatever comes of it: too many members may be gone.
            lab.run(&[way, &refs(&members)[..]].concat());
            let (opened, written) = watch.counts();
            // A new array of too few members is refused before anything is looked at.
            let looks = way[0] != "create" || gone == 0;
            assert!(!looks || opened >= members.len(), "{way:?} of level {level} looked at nothing");
            assert_eq!(written, 0, "{way:?} of level {level}, {gone} gone");
        }
        assert!(before == lab.bytes(&members), "level {level}");
    }
}

#[test]
fn an_array_served_for_reading_only_is_not_opened_for_writing() {
    let lab = Lab::new();
    let members = lab.array(4, MEMBER, &["--level=6"]);
    let watch = Watch::on(&lab, &members);
    let server = lab.assemble(&members, &["--read-only", "--nbd=unix:nbd"]);
    let mut block = [0; 4096];
    crate::nbd::Nbd::connect(&lab.path("nbd")).unwrap().read(0, &mut block).unwrap();
    lab.ok(&["status", "--json"]);
    lab.ok(&["detail", "md0"]);
    assert_eq!(server.stop().0, 0);
    let (opened, written) = watch.counts();
    assert!(opened >= members.len());
    assert_eq!(written, 0);
}

/// The watch would have seen it.
#[test]
fn an_array_served_for_writing_is_opened_for_writing() {
    let lab = Lab::new();
    let members = lab.array(4, MEMBER, &["--level=6", "--assume-clean"]);
    let watch = Watch::on(&lab, &members);
    assert_eq!(lab.assemble(&members, &[]).stop().0, 0);
    assert!(watch.counts().1 >= members.len());
}
