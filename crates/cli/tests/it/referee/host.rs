//! What uraid's side does: the program, run on the members' files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use uraid_referee::pattern;

/// Bytes of the pattern: as much as the largest array holds.
pub const PATTERN_BYTES: usize = 48 << 20;

/// A directory with members, the pattern, and the control sockets of running arrays.
pub struct Bench {
    dir: TempDir,
    /// What arrays are filled with.
    pub pattern: Vec<u8>,
}

/// How a run of the program ended.
pub struct Ran {
    /// Exit status; -1 for a signal.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
    command: String,
}

impl Bench {
    /// An empty directory but for the pattern.
    pub fn new() -> Bench {
        let dir = tempfile::Builder::new().prefix("uraid-md-").tempdir().unwrap();
        let pattern = pattern(1, PATTERN_BYTES);
        fs::write(dir.path().join("pattern"), &pattern).unwrap();
        Bench { dir, pattern }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A file of the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes an empty sparse file.
    pub fn sparse(&self, name: &str, len_bytes: u64) -> PathBuf {
        let path = self.file(name);
        File::create(&path).unwrap().set_len(len_bytes).unwrap();
        path
    }

    /// The program, not started yet.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uraid"));
        command.args(arguments).env("URAID_RUN_DIR", self.file("run")).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn uraid<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        let mut command = self.command(arguments);
        let output = command.output().unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            command: format!("{command:?}"),
        }
    }

    /// What the array of these members holds, exported.
    pub fn export(&self, members: &[PathBuf]) -> Ran {
        let members = members.iter().map(|member| member.as_os_str().to_owned());
        self.uraid(["export", "--output", "-"].map(Into::into).into_iter().chain(members))
    }

    /// Asserts that the array of these members holds the pattern, and is as large as the kernel said.
    #[track_caller]
    pub fn assert_exports(&self, members: &[PathBuf], size_bytes: u64, degraded: bool) {
        let ran = self.export(members);
        ran.assert_status(if degraded { 3 } else { 0 });
        ran.assert_stdout_is(&self.pattern[..usize::try_from(size_bytes).unwrap()]);
    }
}

impl Ran {
    /// Asserts the exit status.
    #[track_caller]
    pub fn assert_status(&self, status: i32) -> &Ran {
        assert_eq!(self.status, status, "{}\n{}{}", self.command, String::from_utf8_lossy(self.text()), self.stderr);
        self
    }

    /// The JSON report's array or member part.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{}: {error}: {}", self.command, self.stderr))
    }

    fn text(&self) -> &[u8] {
        &self.stdout[..self.stdout.len().min(4000)]
    }

    #[track_caller]
    fn assert_stdout_is(&self, expected: &[u8]) {
        assert_eq!(self.stdout.len(), expected.len(), "bytes of {}\n{}", self.command, self.stderr);
        let differs = self.stdout.chunks(512).zip(expected.chunks(512)).position(|(found, wanted)| found != wanted);
        assert_eq!(differs, None, "first sector that differs, of {}\n{}", self.command, self.stderr);
    }
}
