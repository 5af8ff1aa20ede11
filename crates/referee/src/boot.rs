//! Starting a guest, waiting for it, and telling what became of it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::find::Referee;
use crate::guest::{GUEST_ROOT, Guest, Output, RefereeError, guest_path};
use crate::modules;

/// The kernel has this many `ubd` disks.
const UBD_DISKS: usize = 16;
const BEGIN: &str = "@@uraid-begin";
const END: &str = "@@uraid-end ";
const PREAMBLE: &str = include_str!("preamble.sh");

impl Referee {
    /// Runs a script in a guest of its own, to its end.
    ///
    /// # Errors
    /// [`RefereeError::TimedOut`] when the limit passed (the guest is killed), [`RefereeError::Died`] when the guest
    /// ended without a status. A script that fails is no error: see [`Output::status`].
    pub fn run(&self, guest: &Guest<'_>) -> Result<Output, RefereeError> {
        let work = tempfile::Builder::new().prefix("uraid-referee-").tempdir().map_err(|source| RefereeError::Host {
            action: "make a directory in",
            path: std::env::temp_dir(),
            source,
        })?;
        let work = work.path();
        self.prepare(guest, work)?;
        let mut command = self.command(guest, work)?;
        let console = work.join("console");
        let started = Instant::now();
        let child = command.spawn().map_err(host("start", &self.kernel))?;
        let ended = wait(child, started + guest.limit).map_err(host("wait for", &self.kernel))?;
        let text = fs::read(&console).map_err(host("read", &console))?;
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        verdict(&text, ended, guest.limit).ok_or_else(|| {
            let errors = fs::read(work.join("errors")).unwrap_or_default();
            let errors = last_lines(&String::from_utf8_lossy(&errors), 20);
            RefereeError::Died { console: format!("{}\n{errors}", last_lines(&text, 100)) }
        })?
    }

    /// Writes the init program and the script, and links the disks, into the guest's directory.
    fn prepare(&self, guest: &Guest<'_>, work: &Path) -> Result<(), RefereeError> {
        for (index, disk) in guest.disks.iter().enumerate() {
            // Under names of our own, since the kernel's command line takes `,` and `:` in a path for separators.
            let target = fs::canonicalize(disk).map_err(host("find the disk", disk))?;
            symlink(target, work.join(format!("d{index}"))).map_err(host("link the disk", disk))?;
        }
        let script = work.join("script");
        fs::write(&script, format!("{PREAMBLE}\n{}\n", guest.script)).map_err(host("write", &script))?;
        let init = work.join("init");
        fs::write(&init, self.init(guest, work)?).map_err(host("write", &init))?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o700)).map_err(host("make executable", &init))
    }

    /// The guest's first program: makes a small system around the script, and switches off at its end.
    fn init(&self, guest: &Guest<'_>, work: &Path) -> Result<String, RefereeError> {
        let in_guest = |path: &Path| guest_path(path).map(|p| quote(&p.to_string_lossy())).map_err(host("name", path));
        let busybox = quote(&self.busybox.to_string_lossy());
        let mut text = format!(
            "#!/bin/sh\n\
             export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp HOST={GUEST_ROOT}\n\
             mount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t devtmpfs dev /dev 2>/dev/null\n\
             mount -t tmpfs tmpfs /run\nmount -t tmpfs tmpfs /tmp\nmkdir -p {GUEST_ROOT} /run/mdadm\n\
             mount -t hostfs -o / host {GUEST_ROOT}\n",
        );
        // Nobody may be left to kill a guest whose test was killed.
        let backstop = guest.limit.as_secs() + 10;
        text += &format!("(sleep {backstop}; {busybox} poweroff -f) >/dev/null 2>&1 &\n");
        let wanted = modules::ALWAYS.iter().chain(guest.modules).copied();
        let order = modules::load_order(&self.modules, wanted).map_err(host("read the modules of", &self.kernel))?;
        for module in order {
            text += &format!("{busybox} insmod {}\n", in_guest(module)?);
        }
        text += "for k in min max; do echo 10000000 > /proc/sys/dev/raid/speed_limit_$k; done\n";
        text += "export DISKS=\n";
        for (index, disk) in guest.disks.iter().enumerate() {
            let device = match ubd_letter(index) {
                Some(letter) => format!("D{index}=/dev/ubd{letter}\n"),
                None => format!("D{index}=$(losetup -f --show {})\n", in_guest(&absolute(disk)?)?),
            };
            text += &format!("{device}export D{index}\nDISKS=\"$DISKS${{DISKS:+ }}$D{index}\"\n");
        }
        for (name, value) in guest.env {
            text += &format!("export {name}={}\n", quote(value));
        }
        text += &format!(
            "echo {BEGIN}\nsh -e {script} < /dev/null 2>&1\nstatus=$?\necho\necho \"{END}$status\"\nsync\n{busybox} poweroff -f\n",
            script = in_guest(&work.join("script"))?,
        );
        Ok(text)
    }

    fn command(&self, guest: &Guest<'_>, work: &Path) -> Result<Command, RefereeError> {
        let create = |name: &str| {
            let path = work.join(name);
            File::create(&path).map_err(host("create", &path))
        };
        let mut command = Command::new(&self.kernel);
        command.arg(format!("mem={}M", guest.memory_mib));
        command.args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=-1"]);
        command.arg(format!("init={}", work.join("init").display()));
        command.arg(format!("uml_dir={}/", work.display()));
        command.args(["con=null", "con0=fd:0,fd:1", "ssl=null"]);
        for index in 0..guest.disks.len() {
            if let Some(letter) = ubd_letter(index) {
                command.arg(format!("ubd{letter}={}", work.join(format!("d{index}")).display()));
            }
        }
        command.stdin(Stdio::null()).stdout(create("console")?).stderr(create("errors")?);
        // The kernel runs the guest's processes as processes of this machine; a group lets them be killed together.
        command.process_group(0);
        Ok(command)
    }
}

fn ubd_letter(index: usize) -> Option<char> {
    if index >= UBD_DISKS {
        return None;
    }
    u8::try_from(index).ok().map(|i| char::from(b'a' + i))
}

fn absolute(path: &Path) -> Result<PathBuf, RefereeError> {
    fs::canonicalize(path).map_err(host("find the disk", path))
}

fn host(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RefereeError {
    let path = path.to_path_buf();
    move |source| RefereeError::Host { action, path, source }
}

/// A word of the shell that stands for exactly this text.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The kernel process's status, or `None` when it had to be killed at the deadline.
fn wait(mut child: Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            break None;
        }
        thread::sleep(Duration::from_millis(20));
    };
    // Also after an ordinary end: a kernel that died leaves the guest's processes behind.
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    if ended.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(ended)
}

/// What the console says of the script; `None` when the guest ended without a word.
fn verdict(console: &str, ended: Option<ExitStatus>, limit: Duration) -> Option<Result<Output, RefereeError>> {
    let after = console.split_once(&format!("{BEGIN}\n")).map(|(_, after)| after);
    let result = after.and_then(|text| {
        let (stdout, tail) = text.rsplit_once(&format!("\n{END}"))?;
        let status = tail.lines().next()?.trim().parse().ok()?;
        Some(Output { stdout: stdout.to_owned(), status })
    });
    match (result, ended) {
        (Some(output), _) => Some(Ok(output)),
        (None, None) => Some(Err(RefereeError::TimedOut { limit, output: last_lines(after.unwrap_or(console), 200) })),
        (None, Some(_)) => None,
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const LIMIT: Duration = Duration::from_secs(9);

    #[test]
    fn output_is_what_stands_between_the_marks() {
        let console = "boot\n@@uraid-begin\none\ntwo\n\n@@uraid-end 3\nreboot: Power down\n";
        let output = verdict(console, Some(ExitStatus::from_raw(0)), LIMIT).unwrap().unwrap();
        assert_eq!(output, Output { stdout: "one\ntwo\n".into(), status: 3 });
        // The mark is found behind a last line without a line end, too.
        let output = verdict("@@uraid-begin\nno end\n@@uraid-end 0\n", None, LIMIT).unwrap().unwrap();
        assert_eq!(output, Output { stdout: "no end".into(), status: 0 });
    }

    #[test]
    fn a_guest_without_a_status_died_or_was_too_slow() {
        let cut = "@@uraid-begin\nhalf\n";
        assert!(verdict(cut, Some(ExitStatus::from_raw(6)), LIMIT).is_none());
        match verdict(cut, None, LIMIT).unwrap() {
            Err(RefereeError::TimedOut { output, .. }) => assert_eq!(output, "half"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn quoting_survives_the_shell() {
        let text = "it's $HOME \"and\" `more`";
        let out = Command::new("sh").arg("-c").arg(format!("printf %s {}", quote(text))).output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), text);
    }
}
