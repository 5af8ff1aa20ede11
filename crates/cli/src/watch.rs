//! Runs over an array in this process, shown as they go.

use uraid_array::Array;
use uraid_array::core::{Status, SyncStatus};
use uraid_report::Progress;

use crate::signals::{Interrupted, Stop};

/// Progress bars of the runs over an array, one after another.
#[derive(Default)]
pub struct Bars {
    current: Option<(String, Progress)>,
}

impl Bars {
    /// Shows where the run under way stands, if there is one.
    pub fn show(&mut self, status: &Status) {
        let sync = status.sync.as_ref();
        if self.current.as_ref().map(|(kind, _)| kind) != sync.map(|sync| &sync.kind) {
            self.end(status.last_sync.as_ref());
            let new = sync.map(|sync| (sync.kind.clone(), Progress::new(&sync.kind, sync.end_sectors * 512)));
            self.current = new;
        }
        if let (Some((_, progress)), Some(sync)) = (&mut self.current, sync) {
            progress.set(sync.done_sectors * 512);
        }
    }

    /// The run that was shown is over; where it came to is known when it is the last one that ended.
    pub fn end(&mut self, last: Option<&SyncStatus>) {
        if let Some((kind, mut progress)) = self.current.take() {
            if let Some(last) = last.filter(|last| last.kind == kind) {
                progress.set(last.done_sectors * 512);
            }
            progress.finish();
        }
    }
}

/// Waits until no run is under way or due, showing each. A signal stops the array cleanly.
///
/// # Errors
/// [`Interrupted`] by a signal; the array ended by itself.
pub fn until_idle(array: &Array, stop: &Stop) -> anyhow::Result<Status> {
    let mut bars = Bars::default();
    let ended = array.wait_idle(|status| {
        bars.show(status);
        if stop.asked() {
            array.stop();
        }
    });
    bars.end(ended.as_ref().and_then(|status| status.last_sync.as_ref()));
    match ended {
        Some(status) => Ok(status),
        None if stop.asked() => Err(Interrupted.into()),
        None => anyhow::bail!("the array's thread has ended"),
    }
}
