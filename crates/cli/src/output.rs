//! Exit statuses, logging, and what all commands share in printing.

use std::process::ExitCode;

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

/// Logs to standard error: warnings, and more with `-v`; `URAID_LOG` takes a filter of the usual form.
pub fn start_logging(verbose: u8) {
    let default = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("URAID_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
}
