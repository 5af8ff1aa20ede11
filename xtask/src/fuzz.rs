//! The fuzz targets: built with the coverage that libFuzzer wants, by the compiler that builds everything else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::room;
use crate::run::{cargo_command, finish};

/// What cargo-fuzz passes too; all of it is known to a stable compiler.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";

/// Longest input in bytes: a member's target has use for that much.
const MOST_BYTES: &str = "32768";

/// Longer than any input may take, in seconds.
const HANG_SECONDS: &str = "10";

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Args {
    /// Inputs a target
    #[arg(long, default_value_t = 10_000_000)]
    pub runs: u64,
    /// Only these targets
    pub targets: Vec<String>,
}

/// Builds the targets and runs each of them; a finding is an error and is kept.
///
/// # Errors
/// When one does not build, is unknown, or found something.
pub fn run(args: &Args) -> Result<()> {
    let all = targets()?;
    let unknown: Vec<_> = args.targets.iter().filter(|target| !all.contains(target)).cloned().collect();
    ensure!(unknown.is_empty(), "no fuzz target {}; there are {}", unknown.join(", "), all.join(", "));
    let (work, host) = (work_dir(), host()?);
    build(&work, &host)?;
    for target in all.iter().filter(|target| args.targets.is_empty() || args.targets.contains(target)) {
        fuzz(&work, &host, target, args.runs)?;
    }
    println!("fuzz: ok, {} inputs a target", args.runs);
    Ok(())
}

/// The targets: the files in `fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir("fuzz/fuzz_targets").context("cannot list the fuzz targets")? {
        let path = entry.context("cannot list the fuzz targets")?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Where it is built, and where what was found is kept.
fn work_dir() -> PathBuf {
    room::target_dir().join("fuzz")
}

/// The compiler's own machine: only with it named are build scripts spared the flags.
fn host() -> Result<String> {
    let said = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say which machine it is for")
}

fn build(work: &Path, host: &str) -> Result<()> {
    let mut cargo = cargo_command();
    cargo.args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", host]);
    cargo.env("CARGO_TARGET_DIR", work).env("RUSTFLAGS", FLAGS);
    finish(&mut cargo)
}

fn fuzz(work: &Path, host: &str, target: &str, runs: u64) -> Result<()> {
    // New inputs go to the first folder; those after it stay as they are.
    let found = work.join("corpus").join(target);
    fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let mut program = Command::new(work.join(host).join("release").join(target));
    program.args([format!("-runs={runs}"), format!("-max_len={MOST_BYTES}"), format!("-timeout={HANG_SECONDS}")]);
    program.args(["-rss_limit_mb=1024".to_owned(), "-verbosity=0".to_owned(), "-print_final_stats=1".to_owned()]);
    program.arg(format!("-artifact_prefix={}/found-{target}-", work.display())).arg(&found);
    for seeds in seeds(target) {
        program.arg(seeds);
    }
    println!("fuzz: {target}");
    finish(&mut program)
}

/// Folders of inputs to begin with: a target's own, and what md itself wrote.
fn seeds(target: &str) -> impl Iterator<Item = PathBuf> {
    let own = Path::new("fuzz/corpus").join(target);
    [own, PathBuf::from("crates/format/tests/fixtures")].into_iter().filter(|folder| folder.is_dir())
}
