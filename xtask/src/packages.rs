//! The Debian packages that tests need.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Installed into the system. Real clients and file systems; mdadm and busybox also serve inside the referee's guests.
const SYSTEM: &[&str] = &[
    "mdadm",
    "busybox-static",
    "libnbd-bin",
    "python3-libnbd",
    "qemu-utils",
    "fio",
    "e2fsprogs",
    "xfsprogs",
    "fuse3",
    "fdisk",
    "xz-utils",
];

/// Only unpacked, into the cache: the kernel is run from there, and nothing of it belongs into the system.
const UNPACKED: &str = "user-mode-linux";

/// Where the referee looks for the unpacked kernel, too; absolute, since tests run in their crates' directories.
pub fn cache_dir() -> Result<PathBuf> {
    let var = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = var("URAID_REFEREE_DIR") {
        return Ok(std::path::absolute(dir)?);
    }
    let cache = var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")));
    let cache = cache.context("set HOME, XDG_CACHE_HOME or URAID_REFEREE_DIR")?;
    Ok(std::path::absolute(cache.join("uraid-referee"))?)
}

/// The packages that are not there.
pub fn missing(cache: &Path) -> Vec<&'static str> {
    let kernel = [cache, Path::new("/")].iter().any(|dir| dir.join("usr/bin/linux.uml").is_file());
    let unpacked = (!kernel).then_some(UNPACKED);
    SYSTEM.iter().copied().filter(|name| !is_installed(name)).chain(unpacked).collect()
}

fn is_installed(package: &str) -> bool {
    let query = Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", package]).stderr(Stdio::null()).output();
    query.is_ok_and(|out| out.stdout == b"installed")
}

/// Installs what is missing, as far as this user may. What could not be had is no error here: [`missing`] tells.
pub fn install(cache: &Path) -> Result<()> {
    let missing = missing(cache);
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing: {}", missing.join(" "));
    let system: Vec<&str> = missing.iter().copied().filter(|name| *name != UNPACKED).collect();
    match root_prefix() {
        Some(prefix) => {
            note(apt(&prefix, &["update", "-q"]));
            if !system.is_empty() && apt_install(&prefix, &system).is_err() {
                // One that cannot be had must not keep out the others.
                system.iter().for_each(|package| note(apt_install(&prefix, &[package])));
            }
        }
        None => println!("neither root nor able to become it by `sudo -n`: nothing can be installed into the system"),
    }
    if missing.contains(&UNPACKED) {
        note(unpack(cache));
    }
    Ok(())
}

fn note(result: Result<()>) {
    if let Err(error) = result {
        println!("{error:#}");
    }
}

/// What to put before a command to run it as root; `None` when there is no way.
fn root_prefix() -> Option<Vec<&'static str>> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if id.stdout.trim_ascii() == b"0" {
        return Some(vec!["env"]);
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).stderr(Stdio::null()).status();
    sudo.is_ok_and(|status| status.success()).then(|| vec!["sudo", "-n", "env"])
}

fn apt(prefix: &[&str], args: &[&str]) -> Result<()> {
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(args);
    succeed(&mut command)
}

fn apt_install(prefix: &[&str], packages: &[&str]) -> Result<()> {
    let fixed = ["install", "-y", "-q", "--no-install-recommends"];
    apt(prefix, &[&fixed[..], packages].concat())
}

/// Fetches the kernel's package as any user may, and unpacks it beside its place first, so that an interrupted run leaves
/// nothing that looks complete. What is in the place already is never removed.
fn unpack(cache: &Path) -> Result<()> {
    let partial = cache.join(format!("partial-{}", std::process::id()));
    let place = cache.join("usr");
    fs::create_dir_all(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    let result = fetch_into(&partial).and_then(|()| {
        fs::rename(partial.join("usr"), &place)
            .with_context(|| format!("cannot make {}; if it is there but incomplete, remove it", place.display()))
    });
    // What may be left over is named by this process and harms nobody.
    let _ = fs::remove_dir_all(&partial);
    result
}

fn fetch_into(dir: &Path) -> Result<()> {
    succeed(Command::new("apt-get").args(["-q", "download", UNPACKED]).current_dir(dir))?;
    let is_package = |path: &PathBuf| path.extension().is_some_and(|e| e == "deb");
    let package = fs::read_dir(dir)?.flatten().map(|entry| entry.path()).find(is_package);
    let package = package.with_context(|| format!("apt-get download left no {UNPACKED} package"))?;
    succeed(Command::new("dpkg-deb").arg("-x").arg(&package).arg(dir))?;
    fs::remove_file(&package)?;
    Ok(())
}

fn succeed(command: &mut Command) -> Result<()> {
    let line = format!("{command:?}").replace('"', "");
    let status = command.status().with_context(|| format!("cannot run {line}"))?;
    ensure!(status.success(), "failed ({status}): {line}");
    Ok(())
}
