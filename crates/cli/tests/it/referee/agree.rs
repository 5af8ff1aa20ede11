//! `mdadm --examine` and `--examine-bitmap` against `uraid examine --json`, field by field.

use std::process::Command;

use serde_json::Value;
use uraid_referee::Report;

use super::cases::Case;

/// Asserts that both say the same of a member.
#[track_caller]
pub fn assert_member(case: &Case, mdadm: &Report, member: &Value) {
    let [found] = &member["superblocks"].as_array().unwrap()[..] else { panic!("{case:?}: one superblock: {member}") };
    let number = |key: &str| found[key].as_u64().unwrap_or_else(|| panic!("{key}"));
    let text = |key: &str| found[key].as_str().unwrap_or_else(|| panic!("{key}"));
    let said = |key: &str| mdadm.fields.get(key).map(String::as_str);
    let same = |key: &str, wanted: String| assert_eq!(mdadm.field(key), wanted, "{key} of {case:?}");
    let begins = |key: &str, wanted: String| {
        assert_eq!(mdadm.word(key), wanted, "{key} of {case:?}, in full {}", mdadm.field(key));
    };

    same("Version", text("metadata").to_owned());
    same("Feature Map", format!("{:#x}", number("feature_map")));
    same("Array UUID", uuid(text("set_uuid")));
    same("Device UUID", uuid(text("device_uuid")));
    begins("Name", text("set_name").to_owned());
    assert_eq!(text("set_name").rsplit(':').next(), Some(case.name));
    same("Creation Time", date(number("ctime")));
    same("Update Time", date(number("utime")));
    same("Raid Level", if case.level == "linear" { "linear".to_owned() } else { format!("raid{}", case.level) });
    same("Raid Devices", number("raid_disks").to_string());
    begins("Avail Dev Size", number("data_size").to_string());
    // Where all that is there is used, mdadm says nothing of it.
    let used = said("Used Dev Size").map_or(number("data_size"), |_| mdadm.number("Used Dev Size"));
    assert_eq!(if case.is_redundant() { used } else { 0 }, number("size"), "{case:?}: {mdadm:#?}");
    assert_eq!(said("Data Offset").map_or(0, |_| mdadm.number("Data Offset")), number("data_offset"), "{case:?}");
    begins("Super Offset", number("super_offset").to_string());
    let is_clean = number("resync_offset") == u64::MAX;
    same("State", if is_clean { "clean" } else { "active" }.to_owned());
    same("Checksum", format!("{:x} - correct", number("sb_csum")));
    assert_eq!(found["sb_csum"], found["sb_csum_expected"]);
    same("Events", number("events").to_string());
    let entries = number("bblog_size") * 512 / 8;
    same("Bad Block Log", format!("{entries} entries available at offset {} sectors", found["bblog_offset"]));
    let bitmap = (number("feature_map") & 1 != 0).then(|| format!("{} sectors from superblock", found["bitmap_offset"]));
    assert_eq!(said("Internal Bitmap").map(str::to_owned), bitmap, "{case:?}");
    assert_eq!((bitmap.is_some(), &member["bitmap_problem"]), (case.bitmap, &Value::Null), "{case:?}");
    if case.chunk_kib > 0 {
        same("Chunk Size", format!("{}K", number("chunksize") / 2));
        assert_eq!(number("chunksize"), u64::from(case.chunk_kib) * 2);
    }
    if let Some(layout) = layout(case) {
        same("Layout", layout);
    }
    same("Device Role", role(found));
    begins("Array State", state(found));
}

/// Asserts that both say the same of a member's bitmap, and that it is that of the member's array of `size_bytes`.
#[track_caller]
pub fn assert_bitmap(case: &Case, mdadm: &Report, member: &Value, size_bytes: u64) {
    let found = &member["bitmap"];
    let number = |key: &str| found[key].as_u64().unwrap_or_else(|| panic!("{key} of {case:?}: {member}"));
    let same = |key: &str, wanted: String| assert_eq!(mdadm.field(key), wanted, "{key} of {case:?}");
    same("Version", number("version").to_string());
    same("UUID", uuid(member["superblocks"][0]["set_uuid"].as_str().unwrap()));
    same("Events", number("events").to_string());
    same("Events Cleared", number("events_cleared").to_string());
    same("State", if found["stale"] == true { "Out of date" } else { "OK" }.to_owned());
    let unit = match mdadm.field("Chunksize").split_whitespace().nth(1) {
        Some("KB") => 1 << 10,
        Some("MB") => 1 << 20,
        other => panic!("unit of the chunk size: {other:?}"),
    };
    assert_eq!(mdadm.number("Chunksize") * unit, number("chunk_bytes"), "{case:?}");
    // "1 bits (chunks), 0 dirty (0.0%)"
    let words: Vec<&str> = mdadm.field("Bitmap").split_whitespace().collect();
    assert_eq!((words[0], words[3]), (&*number("bits").to_string(), &*number("bits_set").to_string()), "{case:?}: {words:?}");
    // Bits stand for sectors of members, RAID10's for sectors of the array.
    let sync_kib = if case.level == "10" { size_bytes / 1024 } else { member["superblocks"][0]["size"].as_u64().unwrap() / 2 };
    assert_eq!(mdadm.number("Sync Size"), sync_kib, "{case:?}");
}

/// mdadm writes an UUID as four groups of eight digits.
fn uuid(text: &str) -> String {
    let digits = text.replace('-', "");
    [&digits[..8], &digits[8..16], &digits[16..24], &digits[24..]].join(":")
}

/// A time of the superblock as mdadm prints it: the low 40 bits are seconds since 1970, above them are microseconds.
fn date(time: u64) -> String {
    let seconds = time & 0xff_ffff_ffff;
    let mut command = Command::new("date");
    command.env("LC_ALL", "C").args(["--utc", &format!("--date=@{seconds}"), "+%a %b %e %H:%M:%S %Y"]);
    String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
}

/// mdadm's words for the layout that the case asks for; `None` where it prints none.
fn layout(case: &Case) -> Option<String> {
    match (case.level, case.layout.split_at_checked(1)) {
        // Of far sets it says nothing.
        ("10", _) if case.layout.contains('=') => {
            let words = case.layout.split(", ").filter(|word| !word.ends_with("far-sets"));
            Some(words.collect::<Vec<_>>().join(", "))
        }
        ("10", Some(("n", copies))) => Some(format!("near={copies}")),
        ("10", Some(("f", copies))) => Some(format!("far={copies}")),
        ("10", Some(("o", copies))) => Some(format!("offset={copies}")),
        (_, None) => None,
        _ => Some(case.layout.to_owned()),
    }
}

/// The role that the member's superblock gives itself.
fn role(found: &Value) -> String {
    let own = usize::try_from(found["dev_number"].as_u64().unwrap()).unwrap();
    match found["dev_roles"][own].as_u64().unwrap() {
        0xffff => "spare".to_owned(),
        slot => format!("Active device {slot}"),
    }
}

/// Which slots are held by someone.
fn state(found: &Value) -> String {
    let roles = found["dev_roles"].as_array().unwrap();
    let is_held = |slot: u64| roles.iter().any(|role| role.as_u64() == Some(slot));
    (0..found["raid_disks"].as_u64().unwrap()).map(|slot| if is_held(slot) { 'A' } else { '.' }).collect()
}
