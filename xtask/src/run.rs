//! Running cargo.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The cargo that runs this.
pub fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
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
    let log = std::env::temp_dir().join(format!("uraid-skips-{}", std::process::id()));
    let mut command = cargo_command();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(filter);
    command.env("URAID_REFEREE_DIR", dirs.referee).env("URAID_IMAGES_DIR", dirs.images).env("URAID_SKIP_LOG", &log);
    if require.images {
        command.env("URAID_REQUIRE_IMAGES", "1");
    }
    if require.packages {
        command.env("URAID_REQUIRE_REFEREE", "1").env("URAID_REQUIRE_PROGRAMS", "1");
    }
    let result = finish(&mut command);
    let skips = fs::read_to_string(&log).unwrap_or_default();
    // Without the file there were no skips, and nothing to remove.
    let _ = fs::remove_file(&log);
    print!("{skips}");
    println!("skipped for want of packages: {}", skips.lines().count());
    result.context("tests failed or did not build; see above")?;
    println!("all tests passed");
    Ok(())
}

/// Runs the tests in which Linux md judges, printing how many arrays that were; none may be skipped.
pub fn referee(referee_dir: &Path, all: bool) -> Result<()> {
    let mut command = cargo_command();
    command.args(["test", "-p", "uraid-cli", "--test", "it", "referee::", "--", "--nocapture"]);
    command.env("URAID_REFEREE_DIR", referee_dir).env("URAID_REQUIRE_REFEREE", "1").env("URAID_REQUIRE_PROGRAMS", "1");
    if all {
        command.env("URAID_REFEREE_ALL", "1");
    }
    finish(&mut command)
}
