//! Tests that need something of this machine: run, skipped and counted, or required.

use std::env;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::find::{Missing, Referee, program};

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// How many times this process skipped something.
#[must_use]
pub fn skipped() -> usize {
    SKIPPED.load(Ordering::Relaxed)
}

/// The referee, or `None` for a test that should return at once: the skip is printed and counted.
///
/// # Panics
/// When a part is missing and `URAID_REQUIRE_REFEREE=1`, as in CI, where nothing may be skipped.
#[must_use]
pub fn require() -> Option<&'static Referee> {
    static FOUND: OnceLock<Result<Referee, Missing>> = OnceLock::new();
    match FOUND.get_or_init(Referee::find) {
        Ok(referee) => Some(referee),
        Err(missing) => {
            skip("URAID_REQUIRE_REFEREE", &missing.to_string());
            None
        }
    }
}

/// Whether all of these programs are installed. `false` for a test that should return at once: the skip is printed and
/// counted.
///
/// # Panics
/// When one is missing and `URAID_REQUIRE_PROGRAMS=1`, as in CI.
#[must_use]
pub fn require_programs(names: &[&str]) -> bool {
    match absent(names) {
        None => true,
        Some(name) => {
            skip("URAID_REQUIRE_PROGRAMS", &format!("the program {name} is missing; `cargo xtask test` installs it"));
            false
        }
    }
}

/// The folder with images that others made, or `None` for a test that should return at once: the skip is printed and counted.
///
/// # Panics
/// When it is not there and `URAID_REQUIRE_IMAGES=1`, as in CI.
#[must_use]
pub fn require_images() -> Option<PathBuf> {
    let var = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")));
    let dir = var("URAID_IMAGES_DIR").or_else(|| cache().map(|cache| cache.join("uraid-images")));
    let dir = dir.filter(|dir| ["dissect", "blkid"].iter().all(|part| dir.join(part).is_dir()));
    if dir.is_none() {
        skip("URAID_REQUIRE_IMAGES", "the images of others are missing; `cargo xtask images` fetches them");
    }
    dir
}

fn absent<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().copied().find(|name| program(name, "a program").is_err())
}

fn demanded(value: Option<&OsStr>) -> bool {
    value.is_some_and(|v| v == "1")
}

/// Notes one skip, on standard error past the test runner's capture, and in the file `$URAID_SKIP_LOG`.
fn skip(demand: &str, why: &str) {
    assert!(!demanded(env::var_os(demand).as_deref()), "{demand}=1 and {why}");
    SKIPPED.fetch_add(1, Ordering::Relaxed);
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("skipped: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(log) = env::var_os("URAID_SKIP_LOG")
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(log)
    {
        let _ = file.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named() {
        assert_eq!(absent(&["sh", "no-such-program", "cat"]), Some("no-such-program"));
        assert_eq!(absent(&["sh", "cat"]), None);
    }

    #[test]
    fn only_the_value_1_forbids_skipping() {
        assert!(demanded(Some(OsStr::new("1"))));
        assert!(!demanded(Some(OsStr::new("0"))) && !demanded(Some(OsStr::new(""))) && !demanded(None));
    }
}
