//! `--daemon`: the command runs again, detached, and this process waits until it serves or has said why not.
//!
//! The second process inherits standard error, where errors come up as usual, until it is ready; then it writes to a log. Its
//! standard output is a pipe to the first one: what it announces, a last line with the exit status, and the end.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::output::{Exit, say};

/// Set for the second process.
const MARK: &str = "URAID_DETACHED";
/// Begins the last line on the pipe.
const READY: &str = "\u{4}ready ";

/// Is this the second process?
pub fn is_detached() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs this command again, detached, and waits until it is ready.
///
/// # Errors
/// It cannot be started.
pub fn start() -> anyhow::Result<Exit> {
    let program = std::env::current_exe().context("cannot find this program to run it again")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(MARK, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run this program again")?;
    let pipe = child.stdout.take().context("the second process has no pipe")?;
    for line in BufReader::new(pipe).lines() {
        let line = line.context("the second process's pipe broke")?;
        match line.strip_prefix(READY) {
            Some("degraded") => return Ok(Exit::Degraded),
            Some(_) => return Ok(Exit::Done),
            None => say(line)?,
        }
    }
    // It has ended before it was ready, and has said why.
    let status = child.wait().context("the second process cannot be waited for")?;
    Ok(if status.code() == Some(2) { Exit::Usage } else { Exit::Failed })
}

/// Leaves the terminal: signals to the first process's group do not come here.
///
/// # Errors
/// The system refuses a session.
pub fn detach() -> anyhow::Result<()> {
    rustix::process::setsid().context("cannot leave the terminal")?;
    Ok(())
}

/// Tells the first process that all is ready, and goes on with `log` as standard error.
///
/// # Errors
/// The log cannot be opened.
pub fn ready(log: &Path, exit: Exit) -> anyhow::Result<()> {
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
    let log_file = opened.with_context(|| format!("{}: cannot open the log", log.display()))?;
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null").context("/dev/null: cannot open")?;
    // A first process that is gone waits for no answer.
    let _ = writeln!(std::io::stdout(), "{READY}{}", if exit == Exit::Degraded { "degraded" } else { "done" });
    rustix::stdio::dup2_stdout(&nothing).context("cannot let go of standard output")?;
    rustix::stdio::dup2_stderr(&log_file).context("cannot let go of standard error")?;
    Ok(())
}
