//! The project's chores, run as `cargo xtask CHORE`. CI runs the same ones.

mod edges;
mod fuzz;
mod images;
mod mutants;
mod packages;
mod room;
mod run;
mod tidy;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{CommandFactory, Parser, Subcommand};

/// Inputs a fuzz target in CI: a few seconds.
const CI_FUZZ_RUNS: u64 = 50_000;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what the tests need, then run all of them
    Test(TestArgs),
    /// What CI runs: fmt --check, lint, test
    Ci,
    /// Format the sources
    Fmt {
        /// Only tell what is not formatted
        #[arg(long)]
        check: bool,
    },
    /// Run clippy, every warning an error
    Lint,
    /// Check the tree's rules: lengths of files, words that may not stay, where unsafe may stand
    Tidy,
    /// Check which crate uses which
    Edges,
    /// Run the simulator for long
    Sim {
        /// How many seeds
        #[arg(long, default_value_t = 100_000)]
        seeds: u64,
        /// Instead of seeds every crash of tiny arrays, in all orders that differ in so many places from the first to the last
        #[arg(long, value_name = "DEVIATIONS", num_args = 0..=1, default_missing_value = "1")]
        exhaustive: Option<u64>,
        /// Further arguments of the simulator
        #[arg(last = true)]
        rest: Vec<OsString>,
    },
    /// Leave safety steps out, one at a time, and see that the simulator catches each
    Mutants(mutants::Args),
    /// Let the real Linux md judge
    Referee {
        /// The whole matrix: every level and layout under every metadata, in every state
        #[arg(long)]
        all: bool,
    },
    /// Let the real Linux md make the arrays in crates/cli/tests/kept once more
    Keep,
    /// Fuzz every parser of what is not trusted
    Fuzz(fuzz::Args),
    /// Fetch images of disks that others made, for the tests
    Images,
    /// List the chores
    List,
}

#[derive(clap::Args, Default)]
struct TestArgs {
    /// Install nothing; what is missing is skipped
    #[arg(long)]
    no_install: bool,
    /// Only tests whose name contains this
    #[arg(long)]
    filter: Option<String>,
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    env::set_current_dir(root()?).context("cannot go to the workspace")?;
    match chore {
        Chore::Test(args) => test(&args),
        Chore::Ci => {
            let _room = room::find()?;
            format(&["--check"])?;
            lint()?;
            test(&TestArgs::default())?;
            mutants::run(&mutants::Args::for_ci())?;
            fuzz::run(&fuzz::Args { runs: CI_FUZZ_RUNS, targets: Vec::new() })
        }
        Chore::Fmt { check: false } => format(&[]),
        Chore::Fmt { check: true } => format(&["--check"]),
        Chore::Lint => lint(),
        Chore::Tidy => verdict("tidy", &tidy::check(Path::new("."))?),
        Chore::Edges => verdict("edges", &edges::check(Path::new("."))?),
        Chore::Sim { seeds, exhaustive, rest } => {
            let fixed = ["run", "--release", "-p", "uraid-sim", "--"].map(OsString::from);
            let wish =
                exhaustive.map_or(["--seeds".to_owned(), seeds.to_string()], |n| ["--exhaustive".to_owned(), n.to_string()]);
            run::cargo(fixed.into_iter().chain(wish.map(OsString::from)).chain(rest))
        }
        Chore::Mutants(args) => mutants::run(&args),
        Chore::Referee { all } => run::referee(&packages::cache_dir()?, all),
        Chore::Keep => run::keep(&packages::cache_dir()?),
        Chore::Images => {
            let cache = images::cache_dir()?;
            images::fetch(&cache)?;
            println!("images: in {}", cache.display());
            Ok(())
        }
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::List => {
            for chore in Cli::command().get_subcommands() {
                println!("{:7} {}", chore.get_name(), chore.get_about().unwrap_or_default());
            }
            Ok(())
        }
    }
}

/// The workspace, and the fuzz targets, which are none of its members.
fn format(rest: &[&str]) -> Result<()> {
    run::cargo(["fmt", "--all"].iter().chain(rest))?;
    run::cargo(["fmt", "--manifest-path", "fuzz/Cargo.toml"].iter().chain(rest))
}

fn lint() -> Result<()> {
    run::cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn test(args: &TestArgs) -> Result<()> {
    let cache = packages::cache_dir()?;
    if !args.no_install {
        packages::install(&cache)?;
    }
    let images = images::cache_dir()?;
    if !args.no_install
        && let Err(error) = images::fetch(&images)
    {
        println!("{error:#}; tests that need them will {}", if is_ci() { "fail" } else { "be skipped" });
    }
    let missing = packages::missing(&cache);
    let ci = is_ci();
    if !missing.is_empty() {
        println!("missing: {} (as root: apt-get install {})", missing.join(" "), missing.join(" "));
        println!("{}", if ci { "in CI nothing may be skipped: tests will fail" } else { "tests that need them will be skipped" });
    }
    let dirs = run::Dirs { referee: &cache, images: &images };
    let require = run::Require { packages: ci || missing.is_empty(), images: ci || images::are_there(&images) };
    run::tests(&dirs, &require, args.filter.as_deref())
}

fn is_ci() -> bool {
    env::var("CI").is_ok_and(|v| v == "true" || v == "1")
}

fn verdict(chore: &str, faults: &[String]) -> Result<()> {
    for fault in faults {
        println!("{fault}");
    }
    if faults.is_empty() {
        println!("{chore}: ok");
        Ok(())
    } else {
        bail!("{chore}: {} faults", faults.len())
    }
}

/// The workspace: the directory above this crate's.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("xtask has no directory above it")
}
