//! Exit statuses, logging, and what all commands share in printing.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde::Serialize;
use tracing_subscriber::EnvFilter;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Failed.
    Failed,
    /// Used wrongly.
    Usage,
    /// Done, but the array is degraded or mismatches were found.
    Degraded,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Degraded => 3,
        })
    }
}

/// An error in how the command was used: exit status 2 instead of 1.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The error for a command that was used wrongly.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// The exit status for an error.
pub fn exit_for(error: &anyhow::Error) -> Exit {
    if error.chain().any(|cause| cause.is::<Usage>()) { Exit::Usage } else { Exit::Failed }
}

/// An error and its causes on one line. Many of ours say their cause themselves; nothing is said twice.
pub fn chain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |mut text, cause| {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
        }
        text
    })
}

/// `text` with control characters written out, for names that come from a disk or a file system: none of them moves the cursor,
/// changes a colour or begins a line that looks as if it were ours.
pub fn one_line(text: &str) -> String {
    written_out(text, |_| false)
}

fn written_out(text: &str, stays: impl Fn(char) -> bool) -> String {
    let write = |mut all: String, character: char| {
        if character.is_control() && !stays(character) {
            all.extend(character.escape_default());
        } else {
            all.push(character);
        }
        all
    };
    text.chars().fold(String::with_capacity(text.len()), write)
}

/// What is printed: lines as they are, other control characters written out.
fn lines(text: impl fmt::Display) -> String {
    written_out(&text.to_string(), |character| matches!(character, '\n' | '\t'))
}

/// Prints a line to standard output. That its reader has gone (`| head`) stops no command.
///
/// # Errors
/// Standard output takes no more: a full disk.
pub fn say(text: impl fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", lines(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints a report as JSON, in the frame that all of them have.
///
/// # Errors
/// As [`say`].
pub fn say_json<T: Serialize>(report: &str, payload: &T) -> anyhow::Result<()> {
    say(uraid_report::json_envelope(report, payload)?)?;
    Ok(())
}

/// Prints a line for people to standard error; never fails.
pub fn note(text: impl fmt::Display) {
    // Nobody is left to be told of a standard error that is closed.
    let _ = writeln!(io::stderr(), "uraid: {}", lines(text));
}

/// Logs to standard error: warnings, and more with `-v`; `URAID_LOG` takes a filter of the usual form.
pub fn start_logging(verbose: u8) {
    let default = match verbose {
        // What fuser warns of (calls that nobody needs, a mount that is gone already) is no news to an administrator.
        0 => "warn,fuser=error",
        1 => "info,fuser=error",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("URAID_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // What is detached goes on to write to a log.
    let coloured = io::stderr().is_terminal() && !crate::daemon::is_detached();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(coloured).with_target(false).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_reaches_a_terminal() {
        assert_eq!(one_line("vm\nState : clean\u{1b}[2J\u{7f}\u{9b}ä"), "vm\\nState : clean\\u{1b}[2J\\u{7f}\\u{9b}ä");
        assert_eq!(lines("a\n\tb\r\u{1b}[H"), "a\n\tb\\r\\u{1b}[H");
    }
}
