//! Mutants: safety steps left out or put in the wrong order, one at a time, each of which the simulator must catch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::room;
use crate::run::{cargo_command, finish};

/// The list; its head says how it is written.
const LIST: &str = "crates/sim/mutants.txt";

/// What the copy of the tree needs to build the simulator.
const TREE: &[&str] = &["Cargo.toml", "Cargo.lock", "crates", "xtask"];

/// A simulator that has not ended by then has been sent in a circle.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the chore is asked for.
#[derive(clap::Args)]
pub struct Args {
    /// Seeds that a mutant may take to be caught
    #[arg(long, default_value_t = 4000)]
    pub seeds: u64,
    /// Only mutants whose name contains this
    #[arg(long)]
    pub filter: Option<String>,
    /// Only every so many-th
    #[arg(long, default_value_t = 1)]
    pub every: usize,
}

impl Args {
    /// A few that are caught at once; the rest takes most of an hour.
    pub fn for_ci() -> Args {
        Args { seeds: 400, filter: Some("not-flushed".to_owned()), every: 1 }
    }
}

/// Lines to be replaced in a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Edit {
    file: String,
    before: Vec<String>,
    after: Vec<String>,
}

/// One entry of the list.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mutant {
    name: String,
    breaks: String,
    edits: Vec<Edit>,
}

/// How it went with a mutant.
enum Verdict {
    /// Why the simulator failed.
    Caught(String),
    Missed,
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "mutant" {
            mutants.push(Mutant { name: rest.to_owned(), ..Mutant::default() });
            continue;
        }
        let out_of_place = || format!("{LIST}:{}: out of place: {line}", index + 1);
        let mutant = mutants.last_mut().with_context(out_of_place)?;
        match word {
            "breaks" => rest.clone_into(&mut mutant.breaks),
            "file" => mutant.edits.push(Edit { file: rest.to_owned(), ..Edit::default() }),
            "-" => mutant.edits.last_mut().with_context(out_of_place)?.before.push(rest.trim().to_owned()),
            "+" => mutant.edits.last_mut().with_context(out_of_place)?.after.push(rest.trim().to_owned()),
            _ => bail!(out_of_place()),
        }
    }
    Ok(mutants)
}

/// `text` with the lines of `edit` replaced.
///
/// # Errors
/// When they are not there exactly once.
fn apply(edit: &Edit, text: &str) -> Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    ensure!(!edit.before.is_empty(), "a change of {} replaces nothing", edit.file);
    let is_it = |run: &[&str]| run.iter().zip(&edit.before).all(|(line, before)| line.trim() == before);
    let windows = lines.windows(edit.before.len()).enumerate();
    let places: Vec<usize> = windows.filter(|(_, run)| is_it(run)).map(|(at, _)| at).collect();
    let [at] = places[..] else {
        bail!("{} has {} times, not once: {}", edit.file, places.len(), edit.before.join(" "));
    };
    let after = edit.after.iter().map(String::as_str);
    let whole: Vec<&str> =
        lines[..at].iter().copied().chain(after).chain(lines[at + edit.before.len()..].iter().copied()).collect();
    Ok(whole.join("\n") + "\n")
}

/// A file before and after.
struct Changed {
    path: PathBuf,
    before: String,
    after: String,
}

/// The files that `mutant` changes.
fn mutated(root: &Path, mutant: &Mutant) -> Result<Vec<Changed>> {
    let mut files: Vec<Changed> = Vec::new();
    for edit in &mutant.edits {
        let path = PathBuf::from(&edit.file);
        let at = match files.iter().position(|known| known.path == path) {
            Some(at) => at,
            None => {
                let before = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", edit.file))?;
                files.push(Changed { path, after: before.clone(), before });
                files.len() - 1
            }
        };
        files[at].after = apply(edit, &files[at].after).with_context(|| format!("mutant {}", mutant.name))?;
    }
    Ok(files)
}

/// The list, every entry of which can be made from the sources under `root`.
fn read(root: &Path) -> Result<Vec<Mutant>> {
    let mutants = parse(&fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?)?;
    for (index, mutant) in mutants.iter().enumerate() {
        ensure!(!mutant.breaks.is_empty() && !mutant.edits.is_empty(), "mutant {} is incomplete", mutant.name);
        ensure!(mutants[..index].iter().all(|other| other.name != mutant.name), "mutant {} is there twice", mutant.name);
        mutated(root, mutant)?;
    }
    Ok(mutants)
}

/// Makes each mutant and lets the simulator look for it.
///
/// # Errors
/// When one goes unnoticed, cannot be made, or does not build.
pub fn run(args: &Args) -> Result<()> {
    let root = Path::new(".");
    let mutants = read(root)?;
    let wanted = |mutant: &&Mutant| args.filter.as_ref().is_none_or(|filter| mutant.name.contains(filter));
    let mutants: Vec<&Mutant> = mutants.iter().filter(wanted).step_by(args.every.max(1)).collect();
    let bench = Bench { tree: std::path::absolute(room::target_dir().join("mutants/tree"))? };
    bench.copy(root)?;
    if let Verdict::Caught(why) = bench.judge(args.seeds.min(200))? {
        bail!("the simulator fails without a mutation: {why}");
    }
    let mut missed = Vec::new();
    for mutant in &mutants {
        let began = Instant::now();
        // From the copy: the tree may go on to change meanwhile.
        let files = mutated(&bench.tree, mutant)?;
        for file in &files {
            bench.write(&file.path, &file.after)?;
        }
        let verdict = bench.judge(args.seeds);
        for file in &files {
            bench.write(&file.path, &file.before)?;
        }
        let seconds = began.elapsed().as_secs();
        match verdict.with_context(|| format!("mutant {}", mutant.name))? {
            Verdict::Caught(why) => println!("caught  {} ({seconds} s): {why}", mutant.name),
            Verdict::Missed => {
                println!("MISSED  {} ({seconds} s): {}", mutant.name, mutant.breaks);
                missed.push(mutant.name.as_str());
            }
        }
    }
    ensure!(missed.is_empty(), "{} of {} mutants go unnoticed: {}", missed.len(), mutants.len(), missed.join(", "));
    println!("mutants: all {} caught", mutants.len());
    Ok(())
}

/// A copy of the tree that is built in a folder of its own.
struct Bench {
    tree: PathBuf,
}

impl Bench {
    fn copy(&self, root: &Path) -> Result<()> {
        let mut pending: Vec<PathBuf> = TREE.iter().map(PathBuf::from).collect();
        while let Some(path) = pending.pop() {
            if root.join(&path).is_dir() {
                for entry in fs::read_dir(root.join(&path)).with_context(|| format!("cannot list {}", path.display()))? {
                    pending.push(path.join(entry?.file_name()));
                }
            } else if ["rs", "toml", "lock"].iter().any(|kind| path.extension().is_some_and(|found| found == *kind)) {
                self.write(&path, &fs::read_to_string(root.join(&path))?)?;
            }
        }
        Ok(())
    }

    /// Writes a file of the tree, unless it is that already: what is not touched is not built again.
    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let path = self.tree.join(path);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        let folder = path.parent().context("a file of the tree has no folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn judge(&self, seeds: u64) -> Result<Verdict> {
        let target = self.tree.with_file_name("target");
        let mut build = cargo_command();
        build.args(["build", "--offline", "--quiet", "-p", "uraid-sim"]).current_dir(&self.tree);
        // Only what changed is built again, in CI too; warnings are the mutation's own.
        build.env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "1").env("RUSTFLAGS", "-A warnings");
        finish(&mut build)?;
        let mut simulator = Command::new(target.join("debug/uraid-sim"));
        let output = simulator.args(["--until-failure", "--seeds", &seeds.to_string()]).stderr(Stdio::null());
        self.verdict(output)
    }

    fn verdict(&self, simulator: &mut Command) -> Result<Verdict> {
        let log = self.tree.with_file_name("log");
        let mut child = simulator.stdout(fs::File::create(&log)?).spawn().context("cannot run the simulator")?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if began.elapsed() > PATIENCE {
                child.kill().and_then(|()| child.wait()).context("cannot stop the simulator")?;
                return Ok(Verdict::Caught(format!("the simulator did not end in {} s", PATIENCE.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if status.success() {
            return Ok(Verdict::Missed);
        }
        let said = fs::read_to_string(&log)?;
        let line = said.lines().find(|line| line.starts_with("seed ")).unwrap_or("it did not say why");
        Ok(Verdict::Caught(line.chars().take(160).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_can_be_made() {
        let mutants = read(&crate::root().unwrap()).unwrap();
        assert!(mutants.len() >= 15, "{}", mutants.len());
    }

    #[test]
    fn lines_are_replaced_whole_and_once() {
        let list = "# list\nmutant a-b\nbreaks what holds\nfile x.rs\n- one();\n- two();\n+ two();\n+ one();\n";
        let mutants = parse(list).unwrap();
        let edit = &mutants[0].edits[0];
        assert_eq!((mutants.len(), &mutants[0].name[..], &mutants[0].breaks[..]), (1, "a-b", "what holds"));
        assert_eq!(apply(edit, "f {\n    one();\n    two();\n}\n").unwrap(), "f {\ntwo();\none();\n}\n");
        assert!(apply(edit, "one();\ntwo(); // same\n").is_err());
        assert!(apply(edit, "one();\ntwo();\none();\ntwo();\n").is_err());
        assert!(apply(edit, "one();\n").is_err());
        assert!(parse("- one();\n").is_err() && parse("mutant a\nwhat\n").is_err());
    }
}
