//! SIGINT and SIGTERM ask a long command to end cleanly; a second one ends it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

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
        for signal in [SIGINT, SIGTERM] {
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
