//! Runs over an array in this process, shown as they go.

use uraid_array::Array;
use uraid_array::core::{Status, SyncStatus};
use uraid_report::Progress;

use crate::signals::{Interrupted, Stop};

/// Progress bars of the runs over an array, one after another.
#[derive(Default)]
pub struct Bars {
    current: Option<(String, Progress)>,
    /// Where the run under way began, as far as that is known.
    begun_sectors: u64,
    passed_sectors: u64,
    done_sectors: u64,
}

impl Bars {
    /// The first run does not begin at the start, but goes on from here.
    pub fn from(begun_sectors: u64) -> Bars {
        Bars { begun_sectors, ..Bars::default() }
    }

    /// Shows where the run under way stands, if there is one.
    pub fn show(&mut self, status: &Status) {
        let sync = status.sync.as_ref();
        if self.current.as_ref().map(|(kind, _)| kind) != sync.map(|sync| &sync.kind) {
            self.end(status.last_sync.as_ref());
            let to_do = |sync: &SyncStatus| sync.end_sectors.saturating_sub(self.begun_sectors) * 512;
            self.current = sync.map(|sync| (sync.kind.clone(), Progress::new(&sync.kind, to_do(sync))));
        }
        if let (Some((_, progress)), Some(sync)) = (&mut self.current, sync) {
            if sync.done_sectors < self.done_sectors {
                // Another run has begun, at the start; the last one went to the same end.
                self.passed_sectors += sync.end_sectors.saturating_sub(self.begun_sectors);
                self.begun_sectors = 0;
            }
            self.done_sectors = sync.done_sectors;
            progress.set(sync.done_sectors.saturating_sub(self.begun_sectors) * 512);
        }
    }

    /// Sectors of each member that the runs seen have gone over, the last one to its end.
    pub fn gone_over(&self, last: Option<&SyncStatus>) -> u64 {
        self.passed_sectors + last.map_or(0, |last| last.done_sectors.saturating_sub(self.begun_sectors))
    }

    /// The run that was shown is over; where it came to is known when it is the last one that ended.
    pub fn end(&mut self, last: Option<&SyncStatus>) {
        if let Some((kind, mut progress)) = self.current.take() {
            if let Some(last) = last.filter(|last| last.kind == kind) {
                progress.set(last.done_sectors.saturating_sub(self.begun_sectors) * 512);
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
    until_idle_counted(array, stop, Bars::default()).map(|(status, _)| status)
}

/// As [`until_idle`]; also gives how many bytes of each member the runs have gone over, which is more than a member has when two
/// spares were filled one after the other.
///
/// # Errors
/// As [`until_idle`].
pub fn until_idle_counted(array: &Array, stop: &Stop, mut bars: Bars) -> anyhow::Result<(Status, u64)> {
    let ended = array.wait_idle(|status| {
        bars.show(status);
        if stop.asked() {
            array.stop();
        }
    });
    bars.end(ended.as_ref().and_then(|status| status.last_sync.as_ref()));
    match ended {
        Some(status) => {
            let bytes = bars.gone_over(status.last_sync.as_ref()) * 512;
            Ok((status, bytes))
        }
        None if stop.asked() => Err(Interrupted.into()),
        None => anyhow::bail!("the array's thread has ended"),
    }
}
