//! The progress of a command that runs to its end.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::rate::Rate;
use crate::units::{human_bytes, human_duration, human_minutes, human_speed};

/// Plain lines come no faster.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows how far a piece of work is, on standard error: a bar on a terminal, elsewhere plain lines, at most one a second
/// and one at the end.
pub struct Progress {
    label: String,
    total_bytes: u64,
    start: Instant,
    rate: Rate,
    done_bytes: u64,
    sink: Sink,
}

enum Sink {
    Bar(ProgressBar),
    Lines { out: Box<dyn Write + Send>, last: Instant },
}

impl Progress {
    /// Starts to show a piece of work of `total_bytes`. The speed shown is in the same bytes: for a resync, those of one
    /// member.
    #[must_use]
    pub fn new(label: &str, total_bytes: u64) -> Self {
        let now = Instant::now();
        let sink = if io::stderr().is_terminal() {
            let bar =
                ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::stderr()).with_prefix(label.to_owned());
            // Only a template with a fault is refused, and then the plain bar of the library does.
            let style = ProgressStyle::with_template("{prefix:10} [{bar:30}] {percent:>3}% {msg}");
            Sink::Bar(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=>.")))
        } else {
            Sink::Lines { out: Box::new(io::stderr()), last: now }
        };
        Self::with_sink(label, total_bytes, now, sink)
    }

    fn with_sink(label: &str, total_bytes: u64, now: Instant, sink: Sink) -> Self {
        Self { label: label.to_owned(), total_bytes, start: now, rate: Rate::new(now, 0), done_bytes: 0, sink }
    }

    /// Says that the work has come to `done_bytes`.
    pub fn set(&mut self, done_bytes: u64) {
        self.set_at(done_bytes, Instant::now());
    }

    /// The work is over; shows how long it took, and at which speed.
    pub fn finish(self) {
        self.finish_at(Instant::now());
    }

    /// The speed of late, in KiB per second.
    #[must_use]
    pub fn kib_per_s(&self) -> u64 {
        self.rate.kib_per_s()
    }

    fn set_at(&mut self, done_bytes: u64, now: Instant) {
        self.done_bytes = done_bytes;
        self.rate.note(now, done_bytes);
        let tail = self.tail();
        match &mut self.sink {
            Sink::Bar(bar) => {
                bar.set_position(done_bytes);
                bar.set_message(tail);
            }
            Sink::Lines { out, last } => {
                if now.saturating_duration_since(*last) >= LINE_EVERY {
                    *last = now;
                    let per_mille = u128::from(done_bytes) * 1000 / u128::from(self.total_bytes.max(1));
                    let percent = format!("{}.{}%", per_mille / 10, per_mille % 10);
                    // Progress that nobody can read is no reason to fail the work.
                    let _ = writeln!(out, "{}: {percent:>6} {tail}", self.label);
                }
            }
        }
    }

    fn finish_at(mut self, now: Instant) {
        let span = now.saturating_duration_since(self.start);
        let mut whole = Rate::new(self.start, 0);
        whole.note(now, self.done_bytes);
        let (size, span, speed) = (human_bytes(self.done_bytes), human_duration(span), human_speed(whole.kib_per_s()));
        let line = format!("{}: {size} in {span}, {speed}", self.label);
        match &mut self.sink {
            Sink::Bar(bar) => {
                bar.finish_and_clear();
                eprintln!("{line}");
            }
            Sink::Lines { out, .. } => {
                let _ = writeln!(out, "{line}");
            }
        }
    }

    fn tail(&self) -> String {
        let (done, total) = (self.done_bytes / 1024, self.total_bytes / 1024);
        let finish = self.rate.remaining_s(self.total_bytes).map_or_else(|| "?".to_owned(), human_minutes);
        format!("({done}/{total}) finish={finish} speed={}", human_speed(self.rate.kib_per_s()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Text(Arc<Mutex<Vec<u8>>>);

    impl Write for Text {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn plain_lines_come_once_a_second() {
        let text = Text::default();
        let start = Instant::now();
        let sink = Sink::Lines { out: Box::new(text.clone()), last: start };
        let mut progress = Progress::with_sink("check", 8 << 20, start, sink);
        for quarter in 1..=8 {
            progress.set_at(quarter << 19, start + Duration::from_millis(quarter * 250));
        }
        progress.set_at(8 << 20, start + Duration::from_millis(2900));
        progress.finish_at(start + Duration::from_secs(4));
        let expected = "check:  25.0% (2048/8192) finish=0.0min speed=2048K/sec\n\
                        check:  50.0% (4096/8192) finish=0.0min speed=2048K/sec\n\
                        check: 8.00 MiB in 4.0 s, 2048K/sec\n";
        assert_eq!(String::from_utf8(text.0.lock().unwrap().clone()).unwrap(), expected);
    }

    #[test]
    fn work_of_no_size_is_done_at_once() {
        let text = Text::default();
        let start = Instant::now();
        let sink = Sink::Lines { out: Box::new(text.clone()), last: start };
        let mut progress = Progress::with_sink("resync", 0, start, sink);
        progress.set_at(0, start + Duration::from_secs(2));
        progress.finish_at(start + Duration::from_secs(2));
        assert!(String::from_utf8(text.0.lock().unwrap().clone()).unwrap().ends_with("resync: 0 B in 2.0 s, 0K/sec\n"));
    }
}
