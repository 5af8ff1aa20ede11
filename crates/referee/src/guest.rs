//! What a test asks of a guest, and what it gets back.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a guest sees this machine's files read-write. At `/` it sees them too, but read-only, and with directories of
/// its own in place of `/tmp`, `/run`, `/dev`, `/proc` and `/sys`. Scripts have it as `$HOST`.
pub const GUEST_ROOT: &str = "/run/host";

/// The name that a file of this machine has inside a guest.
///
/// # Errors
/// When the path cannot be made absolute.
pub fn guest_path(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    Ok(Path::new(GUEST_ROOT).join(absolute.strip_prefix("/").unwrap_or(&absolute)))
}

/// A script and what it works on.
///
/// The script is run by `sh -e`, so the first command that fails ends it with its status. The shell functions `mdwait DEV`
/// (until no resync, recovery or check runs), `mismatch DEV` (runs a check, prints the mismatch count) and `digest FILE`
/// (SHA-256 of all it holds) are defined; every program of this machine is in `PATH`; the sync speed is not limited.
#[derive(Debug, Clone)]
pub struct Guest<'a> {
    /// Text of the shell script.
    pub script: &'a str,
    /// Image files; in the guest `$D0`, `$D1`, ... are their devices, and `$DISKS` is all of them. The first 16 are
    /// `/dev/ubda` to `/dev/ubdp`, any more are loop devices.
    pub disks: &'a [&'a Path],
    /// The guest's memory in MiB.
    pub memory_mib: u32,
    /// How long the guest may run, the start included.
    pub limit: Duration,
    /// Environment of the script.
    pub env: &'a [(&'a str, &'a str)],
    /// Kernel modules to load besides md's, loop, nbd and ext4, for instance `dm-flakey`.
    pub modules: &'a [&'a str],
}

impl<'a> Guest<'a> {
    /// A guest without disks, with 512 MiB of memory and two minutes to run.
    #[must_use]
    pub fn new(script: &'a str) -> Self {
        Self { script, disks: &[], memory_mib: 512, limit: Duration::from_secs(120), env: &[], modules: &[] }
    }

    /// The same with disks.
    #[must_use]
    pub fn with_disks(script: &'a str, disks: &'a [&'a Path]) -> Self {
        Self { disks, ..Self::new(script) }
    }
}

/// What a script left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// All that the script and its commands wrote, standard error included.
    pub stdout: String,
    /// The script's exit status.
    pub status: i32,
}

impl Output {
    /// The text of a script that must have succeeded.
    ///
    /// # Panics
    /// When the status is not 0; the message holds all of the output.
    #[must_use]
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.status, 0, "the guest's script failed; it wrote:\n{}", self.stdout);
        self.stdout
    }

    /// The rest of the first line that starts with `key` and `=`, for scripts that report with `echo key=value`.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.stdout.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    }
}

/// Why a guest gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RefereeError {
    /// A file of this machine could not be used.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Host {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The guest was still running when its time was over.
    #[error("the guest ran longer than {limit:?}; it had written:\n{output}")]
    TimedOut {
        /// The time it had.
        limit: Duration,
        /// What its script had written.
        output: String,
    },
    /// The guest ended without the script's exit status: its kernel stopped, or could not start.
    #[error("the guest died; the end of its console:\n{console}")]
    Died {
        /// The last lines of its console and of the kernel process.
        console: String,
    },
}
