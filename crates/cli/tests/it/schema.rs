//! Every report with `--json` against `docs/json.md`: no key is there that the page does not tell of, and none is told of that is not there.
//!
//! A new command with `--json` needs a run in [`reports`] and a table in the page; the tests name what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::lab::{Lab, refs};

const PAGES: [&str; 2] = [include_str!("../../../../docs/json.md"), include_str!("../../../../docs/json-bench.md")];
const MEMBER: u64 = 8 << 20;

/// What the page says of a key.
struct Key {
    /// `integer`, `list of objects`, ...
    kind: String,
    or_null: bool,
    conditional: bool,
}

/// Keys by their paths (`arrays[].slots[].events`).
type Keys = BTreeMap<String, Key>;

/// The page's tables by the names of their reports.
fn page() -> BTreeMap<String, Keys> {
    let mut reports: BTreeMap<String, Keys> = BTreeMap::new();
    for section in PAGES.into_iter().flat_map(|page| page.split("\n## ").skip(1)) {
        let (heading, rest) = section.split_once('\n').unwrap();
        for report in heading.split(", ") {
            reports.insert(report.to_owned(), rest.lines().filter_map(row).collect());
        }
    }
    reports
}

/// A row of a table: the key, and what is said of it.
fn row(line: &str) -> Option<(String, Key)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let name = cells.next()?.trim_end_matches('`');
    let text = cells.next()?;
    assert!(cells.next().is_some_and(|meaning| meaning.len() > 3), "nothing is said of {name}");
    let (text, conditional) = text.strip_suffix(", conditional").map_or((text, false), |text| (text, true));
    let (kind, or_null) = text.strip_suffix(" or null").map_or((text, false), |text| (text, true));
    Some((name.to_owned(), Key { kind: kind.to_owned(), or_null, conditional }))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn fits(value: &Value, key: &Key) -> bool {
    match value {
        Value::Null => key.or_null,
        Value::Array(values) => match key.kind.strip_prefix("list of ") {
            Some(kinds) => values.iter().all(|value| format!("{}s", kind(value)) == kinds),
            None => key.kind == "list",
        },
        Value::Number(_) if key.kind == "number" => true,
        value => kind(value) == key.kind,
    }
}

/// Notes the keys of `value` below `path`, and what is wrong with them.
fn walk(value: &Value, path: &str, keys: &Keys, seen: &mut BTreeSet<String>, faults: &mut Vec<String>) {
    for (name, value) in value.as_object().unwrap() {
        let path = format!("{path}{name}");
        match keys.get(&path) {
            None => faults.push(format!("`{path}` ({}) is not documented", kind(value))),
            Some(key) if !fits(value, key) => faults.push(format!("`{path}` is no {}: {value}", key.kind)),
            Some(_) => {}
        }
        match value {
            Value::Object(_) => walk(value, &format!("{path}."), keys, seen, faults),
            Value::Array(values) => {
                for value in values.iter().filter(|value| value.is_object()) {
                    walk(value, &format!("{path}[]."), keys, seen, faults);
                }
            }
            _ => {}
        }
        seen.insert(path);
    }
}

/// A command line and what it printed.
struct Run {
    args: Vec<String>,
    report: Value,
}

/// Runs with `--json` in one folder.
struct Runs {
    lab: Lab,
    all: Vec<Run>,
}

impl Runs {
    /// Runs the command, whatever its exit status; what it prints must be a report.
    #[track_caller]
    fn run(&mut self, args: &[&str]) {
        let ended = self.lab.run(&[args, &["--json"]].concat());
        let report = serde_json::from_str(&ended.stdout);
        let report = report.unwrap_or_else(|error| panic!("{args:?}: {error}: {}{}", ended.stdout, ended.stderr));
        self.all.push(Run { args: args.iter().map(|arg| (*arg).to_owned()).collect(), report });
    }
}

/// One run of each command at least, on arrays that have something to say.
fn reports() -> Vec<Run> {
    let mut runs = Runs { lab: Lab::new(), all: Vec::new() };
    at_rest(&mut runs);
    running(&mut runs);
    measuring(&mut runs);
    runs.all
}

fn at_rest(runs: &mut Runs) {
    let members = runs.lab.files(5, MEMBER);
    let members = refs(&members);
    let create = ["create", "--level=6", "--raid-devices=4", "--spare-devices=1", "--bitmap=internal"];
    runs.run(&[&create[..], &["--dry-run"], &members].concat());
    runs.run(&[&create[..], &members].concat());
    runs.run(&[&["examine"], &members[..]].concat());
    runs.run(&[&["detail"], &members[..]].concat());
    runs.run(&[&["examine", "--compat"], &members[..]].concat());
    for what in ["resync", "check", "repair"] {
        runs.run(&[&[what], &members[..]].concat());
    }
    std::fs::write(runs.lab.path("input"), vec![7; 1 << 20]).unwrap();
    runs.run(&[&["import", "--input=input"], &members[..]].concat());
    runs.run(&[&["export", "--output=output"], &members[..]].concat());
    // Missing members, and one that is left out.
    std::fs::write(runs.lab.path("none"), [0; 65536]).unwrap();
    runs.run(&[&["detail", "none"], &members[1..3]].concat());
    runs.lab.run(&[&["import", "--input=input", "--run"], &members[1..]].concat()).expect(3);
    runs.run(&[&["detail"], &members[..]].concat());
    // Bits stay while a member is missing.
    runs.run(&[&["examine", "--bitmap"], &members[..]].concat());
    let overlaid = ["import", "--input=input", "--overlay=over"];
    runs.lab.run(&[&overlaid[..], &members].concat()).expect(3);
    runs.run(&["overlay", "list", "over"]);
    runs.run(&["overlay", "commit", "over", "--dry-run"]);
    runs.run(&["overlay", "discard", "over"]);
    let old: Vec<String> = (0..3).map(|index| runs.lab.file(&format!("old{index}"), MEMBER)).collect();
    for force in [&[][..], &["--force"]] {
        runs.run(&[&["create", "--level=5", "--metadata=0.90"], force, &refs(&old)].concat());
    }
    runs.run(&[&["examine"], &refs(&old)[..]].concat());
    let moved: Vec<String> = (0..2).map(|index| runs.lab.file(&format!("moved{index}"), MEMBER)).collect();
    runs.lab.ok(&[&["create", "--level=1", "--size=4M", "--assume-clean"], &refs(&moved)[..]].concat());
    runs.run(&[&["convert", "--metadata=1.0"], &refs(&moved)[..]].concat());
    runs.run(&["undo", "--list"]);
    let file = runs.all[runs.all.len() - 2].report["undo_file"].as_str().unwrap().to_owned();
    runs.run(&["undo", &file]);
}

fn running(runs: &mut Runs) {
    let members: Vec<String> = (0..4).map(|index| runs.lab.file(&format!("r{index}"), MEMBER)).collect();
    runs.lab.ok(&[&["create", "--level=5", "--bitmap=internal"], &refs(&members)[..]].concat());
    let report = {
        let server = runs.lab.assemble(&members, &["--name=served"]);
        runs.lab.wait_idle("served");
        let report = server.report.clone();
        let said: Vec<Value> = [&["status", "--json"][..], &["detail", "served", "--json"]]
            .map(|args| serde_json::from_str(&runs.lab.run(args).stdout).unwrap())
            .into();
        assert_eq!(server.stop().0, 0);
        [vec![report], said].concat()
    };
    let commands = [&["assemble"][..], &["status"], &["detail", "served"]];
    let owned = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect();
    runs.all.extend(commands.into_iter().zip(report).map(|(args, report)| Run { args: owned(args), report }));
}

fn measuring(runs: &mut Runs) {
    runs.run(&["bench", "parity", "--duration=1ms"]);
    runs.run(&["bench", "xor", "--duration=1ms"]);
    runs.run(&["bench", "crc32c", "--duration=1ms"]);
    let dir = format!("--dir={}", runs.lab.text(""));
    runs.run(&["bench", "resync", "--members=4", "--member-size=4M", "--member-rate=250MB/s", &dir]);
    runs.run(&["bench", "sequential", "--members=4", "--member-size=4M", "--chunk=64", "--runs=1", &dir]);
    runs.run(&["bench", "random-write", "--blocks=4K", "--runs=1", "--threads=2", "--against=rmw=never"]);
    let saved = runs.all.iter().filter(|run| run.args[0] == "bench").take(4).enumerate();
    let saved: Vec<String> = saved
        .map(|(index, run)| {
            std::fs::write(runs.lab.path(&index.to_string()), run.report.to_string()).unwrap();
            index.to_string()
        })
        .collect();
    runs.run(&[&["bench", "compare"], &refs(&saved)[..]].concat());
    runs.run(&["quickstart", "--members=5", "--member-size=8M", "--data=1M", &dir]);
}

/// Every command line that takes `--json`, as words: `bench parity`.
fn with_json(lab: &Lab, words: &[String]) -> Vec<Vec<String>> {
    let help = lab.ok(&[&refs(words)[..], &["--help"]].concat()).stdout;
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help");
    let below = names.flat_map(|name| with_json(lab, &[words, &[name.to_owned()]].concat()));
    let own = help.lines().any(|line| line.trim_start().starts_with("--json")).then(|| words.to_vec());
    own.into_iter().chain(below).collect()
}

#[test]
fn every_report_is_as_the_page_says() {
    let runs = reports();
    let page = page();
    let mut faults = Vec::new();
    for command in with_json(&Lab::new(), &[]) {
        if !runs.iter().any(|run| run.args.starts_with(&command)) {
            faults.push(format!("{command:?} was not run"));
        }
    }
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Run { args, report } in &runs {
        let name = report["report"].as_str().unwrap();
        assert_eq!((report["schema"].as_u64(), report["uraid"].is_string()), (Some(1), true), "{args:?}");
        let Some(keys) = page.get(name) else {
            faults.push(format!("the report {name} is not in docs/json.md"));
            continue;
        };
        let mut own = report.clone();
        own.as_object_mut().unwrap().retain(|key, _| !["uraid", "report", "schema"].contains(&key.as_str()));
        let mut of_report = Vec::new();
        walk(&own, "", keys, seen.entry(name.to_owned()).or_default(), &mut of_report);
        faults.extend(of_report.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    // The containers' own test has disks that make the last one.
    for (name, keys) in page.iter().filter(|(name, _)| *name != "detail-container") {
        let Some(seen) = seen.get(name) else {
            faults.push(format!("the report {name} was never seen"));
            continue;
        };
        let absent = keys.iter().filter(|(path, key)| !key.conditional && !seen.contains(*path));
        faults.extend(absent.map(|(path, _)| format!("{name}: `{path}` was never seen")));
    }
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "docs/json.md:\n{}", faults.join("\n"));
}

/// The names of the reports in the program's text.
fn names_in_source(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                return names_in_source(&path);
            }
            let text = std::fs::read_to_string(path).unwrap();
            text.split("say_json(\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
        })
        .collect()
}

#[test]
fn every_report_is_in_the_page() {
    let names = names_in_source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(names.len() >= 14, "{names:?}");
    let page = page();
    let absent: Vec<&String> = names.iter().filter(|name| !page.contains_key(*name)).collect();
    assert!(absent.is_empty(), "not in docs/json.md: {absent:?}");
}

#[test]
fn canary_what_the_page_does_not_say_is_seen() {
    let keys: Keys =
        ["| `a` | integer | A number. |", "| `c` | text or null | A word. |"].iter().filter_map(|line| row(line)).collect();
    let mut faults = Vec::new();
    let report = serde_json::json!({ "a": "text", "c": null, "d": [{ "e": 1 }] });
    walk(&report, "", &keys, &mut BTreeSet::new(), &mut faults);
    assert_eq!(faults.len(), 3, "{faults:?}");
}
