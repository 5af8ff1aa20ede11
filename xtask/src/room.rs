//! Room for builds and for the tests' files. Machines that are shared may have next to none left on their disk; memory then does.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};

/// What builds (about 2 GiB with the fuzz targets) and the tests' files (sparse; arrays of some hundred MiB at a time) take at the most.
const NEEDED_BYTES: u64 = 6 << 30;

/// Files in memory.
const MEMORY: &str = "/dev/shm";

static ELSEWHERE: OnceLock<PathBuf> = OnceLock::new();

/// A folder in memory that is removed with this.
pub struct Elsewhere(PathBuf);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Moves builds and temporary files into memory when the disk has no room for them and memory has; nothing is moved where
/// `CARGO_TARGET_DIR` says where builds go.
///
/// # Errors
/// When a folder cannot be made there.
pub fn find() -> Result<Option<Elsewhere>> {
    let (here, temporary) = (free_bytes(Path::new(".")), free_bytes(&env::temp_dir()));
    let least = here.min(temporary);
    println!("room: {} MiB here, {} MiB for temporary files", here >> 20, temporary >> 20);
    if least >= NEEDED_BYTES || env::var_os("CARGO_TARGET_DIR").is_some() || free_bytes(Path::new(MEMORY)) < NEEDED_BYTES {
        return Ok(None);
    }
    let folder = Path::new(MEMORY).join(format!("uraid-builds-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("tmp")).with_context(|| format!("cannot make {}", folder.display()))?;
    println!("room: that is too little, so builds and temporary files go to {}", folder.display());
    let folder = ELSEWHERE.get_or_init(|| folder);
    Ok(Some(Elsewhere(folder.clone())))
}

/// Sends a program's builds and temporary files where [`find`] found room.
pub fn apply(command: &mut Command) {
    if let Some(folder) = ELSEWHERE.get() {
        command.env("CARGO_TARGET_DIR", folder.join("target")).env("TMPDIR", folder.join("tmp"));
    }
}

/// Where builds go.
pub fn target_dir() -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    ELSEWHERE.get().map(|folder| folder.join("target")).or(named).unwrap_or_else(|| "target".into())
}

/// Zero where nobody can tell: then there is no reason to go there.
fn free_bytes(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
