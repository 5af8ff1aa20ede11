//! Write-intent bitmaps in files of their own, which `mdadm --create --bitmap=FILE` makes: handed from the kernel to uraid and back.
//!
//! The kernel wants them on a file system of its own: an ext4 of the guest. What is carried over is the file's contents.

use std::fmt::Write as _;

use serde_json::Value;
use uraid_referee::{Output, parse_examine, pattern, require};

use super::bitmaps::{BITMAP_CHUNK, Subject};
use super::guest;
use super::host::Bench;
use crate::lab::refs;
use crate::nbd::Nbd;

/// The file system for bitmaps, at `/tmp/fs`.
const FILE_SYSTEM: &str = "mkfs.ext4 -q -F $W/fs\nmkdir -p /tmp/fs\nmount -o loop $W/fs /tmp/fs\n";

/// Copies a bitmap's file to where the kernel can use it.
fn bring(name: &str) -> String {
    format!("cp $W/{name} /tmp/fs/{name}\nsync\n")
}

/// What mdadm says of the bitmap's file, between marks.
fn tell(name: &str, file: &str) -> String {
    format!("sync\necho 3 > /proc/sys/vm/drop_caches\necho @file {name}\nmdadm --examine-bitmap /tmp/fs/{file}\necho @end\n")
}

/// Events, and dirty chunks.
fn told(output: &Output, name: &str) -> (u64, u64) {
    let text = output.stdout.split_once(&format!("@file {name}\n")).expect("mdadm was asked").1.split_once("@end").unwrap().0;
    let report = parse_examine(&format!("/bitmap:\n{text}")).remove(0);
    assert_eq!(report.field("State"), "OK");
    (report.number("Events"), report.field("Bitmap").split_whitespace().nth(3).unwrap().parse().unwrap())
}

/// The script that makes, fills and writes the array, and copies it as a power cut leaves it.
fn cut_in_guest(subject: &Subject) -> String {
    let (name, files) = (subject.case.name, subject.make_files());
    let options = subject.case.options();
    let options: Vec<&str> = options.iter().map(String::as_str).filter(|option| !option.starts_with("--bitmap")).collect();
    let mut script = format!(
        "attach {files}\nmdadm --create /dev/md0 --run --quiet --homehost=any --bitmap=/tmp/fs/{name} {BITMAP_CHUNK} {options} $DEVS\n\
         mdwait /dev/md0\nfill\nmdadm --stop --quiet /dev/md0\nmdadm --assemble --quiet --bitmap=/tmp/fs/{name} /dev/md0 $DEVS\n\
         echo 1000 > $(md_sys /dev/md0)/safe_mode_delay\necho 1000 > $(md_sys /dev/md0)/bitmap/time_base\n{write}{tell}\
         cp /tmp/fs/{name} $W/{name}.bits\n",
        files = files.join(" "),
        options = options.join(" "),
        write = subject.write_in_guest(),
        tell = tell(name, name),
    );
    for file in files {
        writeln!(script, "cp $W/{file} $W/{file}.cut").unwrap();
    }
    script + "done_with\n"
}

/// uraid takes what the kernel left dirty, resyncs that, and stops; gives the members.
fn resync_by_uraid(subject: &Subject) -> Vec<String> {
    let (lab, name) = (&subject.bench.lab, subject.case.name);
    let members: Vec<String> = subject.case.files().iter().map(|file| format!("{file}.cut")).collect();
    let (last, option) = (members.last().unwrap(), format!("--bitmap={name}.bits"));
    subject.spoil(last);
    let detail = lab.ok(&[&["detail", "--json", &option], &refs(&members)[..]].concat()).json();
    let dirty = if subject.case.level == "10" { subject.data_members } else { 1 };
    let array = &detail["arrays"][0];
    assert_eq!((&array["bitmap_bits_set"], &array["consistency_policy"]), (&dirty.into(), &"bitmap".into()), "{name}");
    let server = lab.assemble(&members, &["--name=cut", &option]);
    let status = lab.wait_idle("cut");
    let last_sync = &status["last_sync"];
    assert_eq!((&last_sync["kind"], &last_sync["complete"]), (&"resync".into(), &true.into()), "{status}");
    assert!(status["bitmap"]["bits"].as_u64().unwrap() > dirty, "{status}");
    subject.assert_one_page_differs(lab.check("cut"));
    assert_eq!(server.stop().0, 0);
    subject.assert_mended_where_dirty(last);
    subject.assert_exports(&members);
    members
}

/// uraid is killed while it writes; what nobody waited for lies behind what is written.
fn killed(subject: &Subject, members: &[String]) {
    let (lab, option) = (&subject.bench.lab, format!("--bitmap={}.bits", subject.case.name));
    let server = lab.assemble(members, &["--name=killed", "--nbd=unix:socket", &option]);
    let taken = lab.run(&[&["assemble", "--name=second", &option], &refs(members)[..]].concat()).expect(1);
    assert!(taken.stderr.contains("in use"), "{}", taken.stderr);
    subject.write_by_uraid();
    let mut client = Nbd::connect(&lab.path("socket")).unwrap();
    for (index, block) in pattern(4, 1 << 20).chunks(4096).enumerate() {
        client.send_write(index as u64, subject.written().end as u64 + index as u64 * 4096, block).unwrap();
    }
    client.reply().unwrap();
    server.kill();
    subject.spoil(members.last().unwrap());
}

#[test]
fn a_bitmap_in_a_file_goes_from_the_kernel_to_uraid_and_back() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    bench.lab.file("fs", 16 << 20);
    let subjects = Subject::all(&bench);
    let script = subjects.iter().map(cut_in_guest).fold(FILE_SYSTEM.to_owned(), |all, own| all + &own);
    let output = guest::run(referee, &bench, &script);
    let mut script = FILE_SYSTEM.to_owned();
    for subject in &subjects {
        let name = subject.case.name;
        let dirty = if subject.case.level == "10" { subject.data_members } else { 1 };
        assert_eq!(told(&output, name).1, dirty, "{name}");
        let members = resync_by_uraid(subject);
        for file in members.iter().chain([&format!("{name}.bits")]) {
            std::fs::copy(bench.lab.path(file), bench.lab.path(&format!("{file}.clean"))).unwrap();
        }
        killed(subject, &members);
        // As it was stopped: nothing to do. As it was killed: what is dirty.
        let clean = members.iter().map(|file| format!("{file}.clean")).collect::<Vec<_>>().join(" ");
        let (bits, clean_bits) = (format!("{name}.bits"), format!("{name}.bits.clean"));
        writeln!(
            script,
            "{bring_clean}{tell_clean}attach {clean}\nexamine {name}\nmdadm --assemble --quiet --bitmap=/tmp/fs/{clean_bits} /dev/md0 $DEVS\n\
             cat /proc/mdstat\necho idle.{name}=$(cat $(md_sys /dev/md0)/sync_action)\necho file.{name}=$(cat $(md_sys /dev/md0)/bitmap/location)\n\
             done_with\n\
             {bring}{tell}attach {members}\nmdadm --assemble --quiet --bitmap=/tmp/fs/{bits} /dev/md0 $DEVS\n{report}",
            bring_clean = bring(&clean_bits),
            tell_clean = tell(&format!("{name} clean"), &clean_bits),
            bring = bring(&bits),
            tell = tell(&format!("{name} killed"), &bits),
            members = members.join(" "),
            report = subject.report_in_guest(),
        )
        .unwrap();
    }
    let output = guest::run(referee, &bench, &script);
    for subject in &subjects {
        let name = subject.case.name;
        let events = guest::examined(&output, name)[0].number("Events");
        assert_eq!(told(&output, &format!("{name} clean")), (events, 0), "{name}");
        assert_eq!(guest::value(&output, "idle", name), "idle");
        assert_eq!(guest::value(&output, "file", name), "file");
        let bits = bench.lab.run(&["examine", "-X", "--json", &format!("{name}.bits.clean")]).expect(0).json();
        let (dirty, all) = (told(&output, &format!("{name} killed")).1, bits["bitmaps"][0]["bits"].as_u64().unwrap());
        assert!(0 < dirty && dirty < all, "{name}: {dirty} of {all}");
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
        subject.assert_mended_where_dirty(&format!("{}.cut", subject.case.files().last().unwrap()));
    }
}

/// As mdadm does: without its file the array has no bitmap, and after an unclean stop all of it is resynced.
#[test]
fn without_its_file_the_array_has_no_bitmap() {
    let Some(referee) = require() else { return };
    let bench = Bench::new();
    bench.lab.file("fs", 16 << 20);
    let subjects = Subject::all(&bench);
    let subject = &subjects[0];
    let script = format!(
        "{FILE_SYSTEM}{cut}attach {members}\nmdadm --assemble --quiet /dev/md0 $DEVS\nmdwait /dev/md0\n\
         echo location={location}\ndone_with\n",
        cut = cut_in_guest(subject),
        members = subject.case.files().join(" "),
        location = "$(cat $(md_sys /dev/md0)/bitmap/location)",
    );
    let output = guest::run(referee, &bench, &script);
    assert_eq!(output.value("location"), Some("none"));
    let members: Vec<String> = subject.case.files().iter().map(|file| format!("{file}.cut")).collect();
    subject.spoil(members.last().unwrap());
    let before = std::fs::read(bench.lab.path("bits-one.bits")).unwrap();
    let server = bench.lab.assemble(&members, &["--name=cut"]);
    let status = bench.lab.wait_idle("cut");
    assert_eq!((&status["bitmap"], &status["last_sync"]["kind"]), (&Value::Null, &"resync".into()), "{status}");
    assert_eq!(bench.lab.check("cut"), 0, "all was resynced");
    assert_eq!(server.stop().0, 0);
    // The file has missed that, and is taken for out of date.
    let ended = bench.lab.run(&[&["resync", "--bitmap=bits-one.bits"], &refs(&members)[..]].concat()).expect(0);
    assert!(ended.stderr.contains("out of date"), "{}", ended.stderr);
    assert_ne!(std::fs::read(bench.lab.path("bits-one.bits")).unwrap(), before, "current again");
    for (file, words) in [("nowhere", "No such file"), ("input", "bitmap magic"), ("bits-one.0.cut", "is the member")] {
        std::fs::write(bench.lab.path("input"), [0; 4096]).unwrap();
        let ended = bench.lab.run(&[&["assemble", "--bitmap", file], &refs(&members)[..]].concat());
        assert!(ended.code > 0 && ended.stderr.contains(words), "{}", ended.stderr);
    }
}
