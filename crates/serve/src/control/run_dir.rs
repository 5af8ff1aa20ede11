//! Where control sockets live, and which of them are alive.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::ServeError;
use crate::listen::{Occupant, lock_directory_of, occupant};

/// Longest name of an array, in bytes.
const MAX_NAME_BYTES: usize = 64;
const SUFFIX: &str = ".sock";

/// The directory of the control sockets: `$URAID_RUN_DIR`, else `$XDG_RUNTIME_DIR/uraid`, else `/run/uraid`.
#[must_use]
pub fn run_dir() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    match (variable("URAID_RUN_DIR"), variable("XDG_RUNTIME_DIR")) {
        (Some(dir), _) => PathBuf::from(dir),
        (None, Some(dir)) => Path::new(&dir).join("uraid"),
        (None, None) => PathBuf::from("/run/uraid"),
    }
}

/// The control socket of the array `name` in the [`run_dir`].
///
/// # Errors
/// [`ServeError::BadName`] for a name that is not 1 to 64 of `A-Z a-z 0-9 . _ -`, or that starts with a dot.
pub fn socket_path(name: &str) -> Result<PathBuf, ServeError> {
    if !is_name(name) {
        return Err(ServeError::BadName { name: name.to_owned() });
    }
    Ok(run_dir().join(format!("{name}{SUFFIX}")))
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(allowed)
}

/// The names of the running arrays in the [`run_dir`], sorted. Sockets that nobody listens on are removed.
///
/// # Errors
/// The directory cannot be read. A missing one holds no arrays.
pub fn list() -> Result<Vec<String>, ServeError> {
    list_in(&run_dir())
}

/// As [`list`], in another directory.
///
/// # Errors
/// As [`list`].
pub fn list_in(dir: &Path) -> Result<Vec<String>, ServeError> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(ServeError::file(dir, "read the directory"))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(ServeError::file(dir, "read the directory"))?;
        let file_name = entry.file_name();
        let Some(name) = file_name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).filter(|name| is_name(name)) else {
            continue;
        };
        if is_live(&entry.path()) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn is_live(path: &Path) -> bool {
    match occupant(path) {
        Ok(Occupant::Stale) => {}
        Ok(Occupant::Nobody | Occupant::Other) => return false,
        // One that may not be asked, or is too busy to answer, is not ours to clear away.
        Ok(Occupant::Live) | Err(_) => return true,
    }
    // Asked again under the lock: it may have been between binding and listening.
    let Ok(Some(_guard)) = lock_directory_of(path) else { return false };
    match occupant(path) {
        Ok(Occupant::Stale) => {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!("{}: cannot remove the dead socket: {error}", path.display());
            }
            false
        }
        Ok(Occupant::Live) => true,
        _ => false,
    }
}

/// Makes the directory of a control socket, with mode 0700, unless it is there.
pub(super) fn make_dir_of(path: &Path) -> Result<(), ServeError> {
    let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(ServeError::file(dir, "create the run directory"))?;
    let found = std::fs::metadata(dir).map_err(ServeError::file(dir, "examine the run directory"))?;
    // In a directory that others may write, others could put their own socket in our socket's place.
    if found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 {
        let reason = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "others may write it; it needs mode 0700");
        return Err(ServeError::file(dir, "use this as the run directory")(reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_become_paths() {
        for good in ["md0", "a", "A.b_c-9", &"x".repeat(64)] {
            assert!(socket_path(good).unwrap().ends_with(format!("{good}.sock")));
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert!(matches!(socket_path(bad), Err(ServeError::BadName { .. })), "{bad:?}");
        }
    }
}
