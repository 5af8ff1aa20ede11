//! A folder with members, a run directory of its own, and the binary.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take before a test gives up; it never decides whether behaviour is right.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// See the module.
pub struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Lab {
        Lab { dir: tempfile::tempdir().unwrap() }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The binary, with the folder as its current directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uraid"));
        command.args(args).current_dir(self.dir.path()).env("URAID_RUN_DIR", self.path("run")).env_remove("URAID_LOG");
        command.stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn run(&self, args: &[&str]) -> Ended {
        Ended::new(args, self.command(args).output().unwrap())
    }

    /// Runs the binary, which has to succeed.
    pub fn ok(&self, args: &[&str]) -> Ended {
        self.run(args).expect(0)
    }

    /// Makes sparse files `d0`, `d1`, ... and gives their names.
    pub fn files(&self, count: usize, size_bytes: u64) -> Vec<String> {
        (0..count).map(|index| self.file(&format!("d{index}"), size_bytes)).collect()
    }

    /// Makes a sparse file.
    pub fn file(&self, name: &str, size_bytes: u64) -> String {
        std::fs::File::create(self.path(name)).unwrap().set_len(size_bytes).unwrap();
        name.to_owned()
    }

    /// Makes an array of `count` new members with these options.
    pub fn array(&self, count: usize, member_bytes: u64, options: &[&str]) -> Vec<String> {
        let members = self.files(count, member_bytes);
        self.ok(&[&["create"], options, &refs(&members)].concat());
        members
    }

    /// Assembles in the foreground, and waits until the array is served.
    pub fn assemble(&self, members: &[String], options: &[&str]) -> Server<'_> {
        let args = [&["assemble", "--json"], options, &refs(members)].concat();
        let mut child = self.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            text += &line;
            if line == "}" {
                break;
            }
        }
        let Ok(report) = serde_json::from_str::<Value>(&text) else {
            let ended = child.wait_with_output().unwrap();
            panic!("{args:?} serves nothing: {}", String::from_utf8_lossy(&ended.stderr));
        };
        let mut stderr = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Server { lab: self, child: Some(child), log: Some(log), report }
    }

    /// All bytes of these files.
    pub fn bytes(&self, names: &[String]) -> Vec<Vec<u8>> {
        names.iter().map(|name| std::fs::read(self.path(name)).unwrap()).collect()
    }

    /// Calls the control socket of `name` by hand.
    pub fn control(&self, name: &str, call: &Value) -> Value {
        let mut stream = UnixStream::connect(self.path("run").join(format!("{name}.sock"))).unwrap();
        stream.write_all(format!("{call}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The array as its owner sees it.
    pub fn status(&self, name: &str) -> Value {
        self.control(name, &serde_json::json!({ "op": "status" }))["ok"]["array"].clone()
    }

    /// Waits until nothing runs over the array and no slot is empty that could be filled.
    pub fn wait_idle(&self, name: &str) -> Value {
        let mut last = Value::Null;
        eventually("the array is idle", || {
            last = self.status(name);
            let rebuilding = last["members"].as_array().unwrap().iter().any(|member| member["state"] == "rebuilding");
            last["sync"].is_null() && last["resync_pending"] == false && !rebuilding
        });
        last
    }

    /// Runs a check to its end and gives the mismatches.
    pub fn check(&self, name: &str) -> u64 {
        self.wait_idle(name);
        assert!(self.control(name, &serde_json::json!({ "op": "check" })).get("error").is_none());
        let last = self.wait_idle(name)["last_sync"].clone();
        assert_eq!((&last["kind"], &last["complete"]), (&"check".into(), &true.into()), "{last}");
        last["mismatch_sectors"].as_u64().unwrap()
    }
}

/// A process that owns an array. It is killed when dropped.
pub struct Server<'a> {
    lab: &'a Lab,
    child: Option<Child>,
    log: Option<std::thread::JoinHandle<String>>,
    /// What `assemble --json` said.
    pub report: Value,
}

impl Server<'_> {
    pub fn name(&self) -> &str {
        self.report["name"].as_str().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// For clients: the export at the Unix socket `socket` of the folder.
    pub fn uri(&self, socket: &str) -> String {
        format!("nbd+unix:///{}?socket={}", self.name(), self.lab.path(socket).display())
    }

    pub fn signal(&self, name: &str) {
        let ended = Command::new("kill").args([name, &self.pid().to_string()]).status().unwrap();
        assert!(ended.success());
    }

    /// Kills it at once, as a power cut for the process.
    pub fn kill(mut self) {
        self.end();
    }

    /// `uraid stop`; gives its exit status and what it logged.
    pub fn stop(mut self) -> (i32, String) {
        self.lab.ok(&["stop", self.name()]);
        self.wait()
    }

    /// Waits for its own end.
    pub fn wait(&mut self) -> (i32, String) {
        let status = self.child.take().unwrap().wait().unwrap();
        (status.code().unwrap_or(-1), self.log.take().unwrap().join().unwrap())
    }

    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        child.kill().unwrap();
        child.wait().unwrap();
        for path in self.report["fuse"].as_array().into_iter().flatten() {
            let _ = Command::new("umount").args(["-l", path.as_str().unwrap()]).output();
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A program that has ended.
pub struct Ended {
    args: String,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    fn new<S: AsRef<OsStr>>(args: &[S], output: Output) -> Ended {
        Ended {
            args: args.iter().map(|arg| format!("{} ", arg.as_ref().display())).collect(),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// It has ended with this status.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code, code, "{}\n{}{}", self.args, self.stdout, self.stderr);
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Runs another program.
pub fn program(name: &str, args: &[&str]) -> Ended {
    Ended::new(&[&[name], args].concat(), Command::new(name).args(args).output().unwrap())
}

pub fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Waits until `is_true`.
#[track_caller]
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that look random, the same for the same seed.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Notes a skip for another reason than a missing program; an error where nothing may be skipped.
pub fn skip(why: &str) {
    assert!(std::env::var_os("URAID_REQUIRE_PROGRAMS").is_none_or(|value| value != "1"), "URAID_REQUIRE_PROGRAMS=1 and {why}");
    let line = format!("skipped: {}: {why}\n", std::thread::current().name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(log) = std::env::var_os("URAID_SKIP_LOG")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(log)
    {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Mounting and loop devices; the skip is noted.
pub fn may_mount() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let why = match (is_root, Path::new("/dev/loop-control").exists(), Path::new("/dev/fuse").exists()) {
        (true, true, true) => return true,
        (false, ..) => "mounting needs root",
        (_, false, _) => "/dev/loop-control is missing",
        (_, _, false) => "/dev/fuse is missing",
    };
    skip(why);
    false
}
