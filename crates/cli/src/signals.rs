//! SIGINT, SIGTERM and SIGHUP ask a long command to end cleanly; a second one ends it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The signals that end a command cleanly: not SIGHUP where the caller has it ignored, as nohup(1) does to outlive its terminal.
pub fn to_end_by() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hang_up = Some(SIGHUP).filter(|&signal| !is_ignored(&status, signal));
    [SIGINT, SIGTERM].into_iter().chain(hang_up).collect()
}

/// Is `signal` ignored, by the text of `/proc/PID/status` (proc(5))?
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether the command has been asked to end.
#[derive(Clone, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens to the signals from now on.
    ///
    /// # Errors
    /// The system does not let the signals be caught.
    pub fn listen() -> std::io::Result<Stop> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in to_end_by() {
            // In this order: the first signal finds the flag unset, the second one set.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Stop(asked))
    }

    /// Has a signal come?
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ends the command's work if a signal has come.
    ///
    /// # Errors
    /// [`Interrupted`] then.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.asked() { Err(Interrupted) } else { Ok(()) }
    }
}

/// The error of a command that a signal has ended.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped by a signal")
    }
}

impl std::error::Error for Interrupted {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        // A process under nohup(1): SIGHUP is 1, SIGPIPE 13.
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000440\n";
        assert!(is_ignored(status, SIGHUP) && is_ignored(status, 13));
        assert!(!is_ignored(status, SIGTERM) && !is_ignored("", SIGHUP));
    }
}
