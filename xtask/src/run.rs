//! Running cargo.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::room;

/// The cargo that runs this.
pub fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    room::apply(&mut command);
    if std::env::var("CI").is_ok() {
        // Nothing is built a second time there, and what it would be built from takes room.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs cargo with its output on ours.
pub fn cargo<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Result<()> {
    let mut command = cargo_command();
    finish(command.args(args))
}

/// Runs it to a good end.
pub fn finish(command: &mut Command) -> Result<()> {
    let line = format!("{command:?}").replace('"', "");
    let status = command.status().with_context(|| format!("cannot run {line}"))?;
    ensure!(status.success(), "failed ({status}): {line}");
    Ok(())
}

/// Where tests find what was fetched for them.
pub struct Dirs<'a> {
    pub referee: &'a Path,
    pub images: &'a Path,
}

/// What a test fails without, where it would otherwise be skipped.
pub struct Require {
    pub packages: bool,
    pub images: bool,
}

/// Runs the workspace's tests. Where what a test needs is not required, it is skipped; the skips are counted here, over all test
/// programs.
pub fn tests(dirs: &Dirs<'_>, require: &Require, filter: Option<&str>) -> Result<()> {
    let mut command = cargo_command();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(filter);
    command.env("URAID_REFEREE_DIR", dirs.referee).env("URAID_IMAGES_DIR", dirs.images);
    if require.images {
        command.env("URAID_REQUIRE_IMAGES", "1");
    }
    if require.packages {
        command.env("URAID_REQUIRE_REFEREE", "1").env("URAID_REQUIRE_PROGRAMS", "1");
    }
    let (result, skipped) = finish_counting_skips(&mut command);
    println!("skipped for want of packages: {skipped}");
    result.context("tests failed or did not build; see above")?;
    println!("all tests passed");
    Ok(())
}

/// Runs tests to their end; prints which were skipped, and gives how many.
fn finish_counting_skips(command: &mut Command) -> (Result<()>, usize) {
    let log = std::env::temp_dir().join(format!("uraid-skips-{}", std::process::id()));
    let result = finish(command.env("URAID_SKIP_LOG", &log));
    let skips = fs::read_to_string(&log).unwrap_or_default();
    // Without the file there were no skips, and nothing to remove.
    let _ = fs::remove_file(&log);
    print!("{skips}");
    (result, skips.lines().count())
}

/// Runs the tests in which Linux md judges, printing how many arrays that were and how long they took; none may be skipped.
pub fn referee(referee_dir: &Path, all: bool) -> Result<()> {
    let mut command = referee_command(referee_dir, "referee::");
    if all {
        command.env("URAID_REFEREE_ALL", "1");
    }
    let (result, skipped) = finish_counting_skips(&mut command);
    result.context("the referee's tests failed or did not build; see above")?;
    ensure!(skipped == 0, "{skipped} tests of the referee were skipped; see above");
    println!("skipped: 0");
    Ok(())
}

/// Where packed arrays made by Linux md are kept.
const KEPT_DIR: &str = "crates/cli/tests/kept";

/// Makes the kept arrays again, in place of those that are there.
pub fn keep(referee_dir: &Path) -> Result<()> {
    let folder = std::path::absolute(KEPT_DIR)?;
    let fresh = folder.with_extension("new");
    fs::create_dir_all(&fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
    let mut command = referee_command(referee_dir, "what_is_kept_can_be_made_again");
    finish(command.env("URAID_REFEREE_ALL", "1").env("URAID_KEEP_DIR", &fresh))?;
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::rename(&fresh, &folder).with_context(|| format!("cannot move {} to {}", fresh.display(), folder.display()))
}

/// The command's tests that this filter names, with the referee and all it needs.
fn referee_command(referee_dir: &Path, filter: &str) -> Command {
    let mut command = cargo_command();
    command.args(["test", "-p", "uraid-cli", "--test", "it", filter, "--", "--nocapture"]);
    command.env("URAID_REFEREE_DIR", referee_dir).env("URAID_REQUIRE_REFEREE", "1").env("URAID_REQUIRE_PROGRAMS", "1");
    command
}
