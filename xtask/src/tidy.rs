//! The tree's rules that neither the compiler nor clippy knows.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const MAX_LINES: usize = 900;

/// Directories of sources; everything else in the tree is no text of ours, or not ours at all.
const PLACES: &[&str] = &["crates", "xtask", "docs", ".ci", "fuzz"];

/// Where unsafe code may stand.
const UNSAFE_ALLOWED: &[&str] = &["crates/parity/", "crates/device/"];

/// Words that may not stay in the tree, in pieces so that this file does not contain them.
const FORBIDDEN: &[[&str; 2]] = &[
    ["todo", "!("],
    ["unimplemented", "!("],
    ["#[ign", "ore"],
    ["allow(dead", "_code"],
    ["TO", "DO"],
    ["FIX", "ME"],
    ["dbg", "!("],
];

/// Every fault of the tree at `root`, as `file:line: what`.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in sources(root)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        faults.extend(faults_of(&name, &text));
    }
    Ok(faults)
}

fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pending: Vec<PathBuf> = PLACES.iter().map(|place| root.join(place)).filter(|p| p.is_dir()).collect();
    let mut found: Vec<PathBuf> = ["README.md", "Cargo.toml"].iter().map(|n| root.join(n)).filter(|p| p.is_file()).collect();
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
            let path = entry?.path();
            let known = path.extension().is_some_and(|e| ["rs", "sh", "toml", "md", "py"].iter().any(|known| e == *known));
            if path.is_dir() && !path.ends_with("target") {
                pending.push(path);
            } else if known || path.ends_with(".ci/run") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The faults of one file; `name` is its path from the root, with `/`.
fn faults_of(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        faults.push(format!("{name}: {lines} lines, more than {MAX_LINES}: a file has one subject"));
    }
    let may_be_unsafe = !name.ends_with(".rs") || UNSAFE_ALLOWED.iter().any(|place| name.starts_with(place));
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        for pieces in FORBIDDEN {
            let word = pieces.concat();
            if has_word(line, &word) {
                faults.push(format!("{place}: `{word}` may not stay"));
            }
        }
        if !may_be_unsafe && has_word(&code_of(line), &["un", "safe"].concat()) {
            faults.push(format!("{place}: only {} may be unsafe", UNSAFE_ALLOWED.join(" and ")));
        }
    }
    faults
}

/// The line without its comment and without what stands between quotes.
fn code_of(line: &str) -> String {
    let unquoted: String = line.replace("\\\"", "").split('"').step_by(2).collect();
    unquoted.split("//").next().unwrap_or_default().to_owned()
}

/// Whether `word` stands in the line, not as a part of a longer identifier.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let goes_on = |at: usize| inside(word.chars().last()) && inside(line[at + word.len()..].chars().next());
    line.match_indices(word).any(|(at, _)| !(inside(line[..at].chars().last()) || goes_on(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let root = crate::root().unwrap();
        let faults = check(&root).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        let seen = sources(&root).unwrap();
        assert!(seen.contains(&root.join("xtask/src/tidy.rs")) && seen.contains(&root.join("crates/types/src/lib.rs")));
    }

    #[test]
    fn canary_each_rule_catches_its_fault() {
        for pieces in FORBIDDEN {
            let text = format!("fine\nlet x = 1; // {}\n", pieces.concat());
            let faults = faults_of("crates/engine/src/made_up.rs", &text);
            assert_eq!(faults.len(), 1, "{text}");
            assert!(faults[0].starts_with("crates/engine/src/made_up.rs:2:"), "{faults:?}");
        }
        let long = "\n".repeat(MAX_LINES + 1);
        assert_eq!(faults_of("crates/x/src/lib.rs", &long).len(), 1);
        assert_eq!(faults_of("crates/x/src/lib.rs", &long[1..]).len(), 0);
    }

    #[test]
    fn canary_unsafe_is_caught_outside_its_crates() {
        let keyword = ["un", "safe"].concat();
        for text in [format!("{keyword} {{ f() }}"), format!("pub {keyword} fn f() {{}}"), format!("#[{keyword}(no_mangle)]")] {
            assert_eq!(faults_of("crates/engine/src/lib.rs", &text).len(), 1, "{text}");
            assert_eq!(faults_of("crates/parity/src/lib.rs", &text).len(), 0, "{text}");
        }
        for text in [format!("// no {keyword} here"), format!("#![forbid({keyword}_code)]"), format!("say(\"{keyword} here\")")] {
            assert_eq!(faults_of("crates/engine/src/lib.rs", &text).len(), 0, "{text}");
        }
    }
}
