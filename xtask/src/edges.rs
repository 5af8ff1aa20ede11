//! Which crate may use which.
//!
//! The table is the picture in `docs/design.md`. Only `[dependencies]`, build and target dependencies count: a test may
//! use what it likes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const BASE: &[&str] = &["types"];
const ENGINE: &[&str] = &["types", "parity", "geometry", "format", "device"];
const ARRAY: &[&str] = &["types", "parity", "geometry", "format", "device", "engine"];
const SIM: &[&str] = &["types", "parity", "geometry", "format", "device", "engine", "array"];
const CLI: &[&str] = &["types", "parity", "geometry", "format", "device", "engine", "array", "serve", "report", "model"];

/// Each crate, and all it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("parity", BASE),
    ("geometry", BASE),
    ("format", BASE),
    ("device", BASE),
    ("engine", ENGINE),
    ("array", ARRAY),
    ("serve", &["types", "device", "array"]),
    ("report", &[]),
    ("model", &["types", "geometry", "device", "engine"]),
    ("cli", CLI),
    ("sim", SIM),
    ("referee", &[]),
];

/// The crates of ours that a manifest depends on, outside of its tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut counts = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            // `[dependencies.uraid-x]` is the long form of a line in `[dependencies]`.
            let (table, long) = match section.rsplit_once("dependencies.") {
                Some((before, name)) => (format!("{before}dependencies"), Some(name)),
                None => (section.to_owned(), None),
            };
            counts = table == "dependencies"
                || table == "build-dependencies"
                || (table.starts_with("target.") && table.ends_with(".dependencies"));
            found.extend(long.filter(|_| counts).and_then(ours));
        } else if counts && !line.starts_with('#') {
            // The name may also stand behind the key: `other = { package = "uraid-x" }`.
            found.extend(line.split(['"', '\'', '=', '.', ' ']).find_map(ours));
        }
    }
    found
}

fn ours(name: &str) -> Option<String> {
    name.strip_prefix("uraid-").map(str::to_owned)
}

/// The forbidden edges among these manifests, given by crate.
fn faults(manifests: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (user, manifest) in manifests {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| name == user) else {
            faults.push(format!("crates/{user}: not in the table of xtask/src/edges.rs"));
            continue;
        };
        for used in dependencies(manifest) {
            if !allowed.contains(&used.as_str()) {
                faults.push(format!("crates/{user}: may not use {used}"));
            }
        }
    }
    faults
}

/// The forbidden edges of the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut manifests = BTreeMap::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let path = entry?.path();
        let manifest = path.join("Cargo.toml");
        if manifest.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            manifests.insert(name, read(&manifest)?);
        }
    }
    let mut faults = faults(&manifests);
    if !dependencies(&read(&root.join("xtask/Cargo.toml"))?).is_empty() {
        faults.push("xtask: may not use the project's crates".to_owned());
    }
    Ok(faults)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_has_no_forbidden_edge() {
        let root = crate::root().unwrap();
        assert_eq!(check(&root).unwrap(), Vec::<String>::new());
        let crates = fs::read_dir(root.join("crates")).unwrap().count();
        assert_eq!(crates, ALLOWED.len(), "a crate of the table is gone");
    }

    #[test]
    fn canary_forbidden_edges_are_caught() {
        let spellings = [
            "[dependencies]\nuraid-array.workspace = true",
            "[dependencies]\nuraid-array = { workspace = true }",
            "[dependencies]\nother = { package = \"uraid-array\", path = \"../array\" }",
            "[dependencies.uraid-array]\nworkspace = true",
            "[build-dependencies]\nuraid-array = \"1\"",
            "[target.'cfg(unix)'.dependencies]\nuraid-array.workspace = true",
        ];
        for text in spellings {
            let manifests = BTreeMap::from([("engine".to_owned(), text.to_owned())]);
            assert_eq!(faults(&manifests), ["crates/engine: may not use array"], "{text}");
        }
        let unknown = BTreeMap::from([("new".to_owned(), String::new())]);
        assert_eq!(faults(&unknown).len(), 1);
    }

    #[test]
    fn tests_may_use_anything() {
        let text = "[dependencies]\nuraid-types.workspace = true\nserde = \"1\"\n\n[dev-dependencies]\nuraid-array.workspace = true\n\
                    [dev-dependencies.uraid-cli]\npath = \"x\"\n[target.'cfg(unix)'.dev-dependencies]\nuraid-sim = \"1\"";
        assert_eq!(dependencies(text), ["types"]);
        let manifests = BTreeMap::from([("engine".to_owned(), text.to_owned())]);
        assert_eq!(faults(&manifests), Vec::<String>::new());
    }

    #[test]
    fn edges_lead_one_way() {
        // Sorted so that each crate comes after all it uses, the table shows that there is no circle.
        for (index, (user, allowed)) in ALLOWED.iter().enumerate() {
            for used in *allowed {
                let before = ALLOWED.iter().position(|(name, _)| name == used).unwrap();
                assert!(before < index, "{user} uses {used}");
            }
        }
    }
}
