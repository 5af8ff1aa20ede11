//! Processor time of this process and of the calling thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What the process has used since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessTime {
    /// All of it.
    pub all: Duration,
    /// Within the kernel, to the hundredth of a second; `None` where /proc does not tell.
    pub kernel: Option<Duration>,
}

impl ProcessTime {
    /// Now.
    pub fn now() -> ProcessTime {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        ProcessTime { all: of(ClockId::ProcessCPUTime), kernel: kernel_time(&stat, rustix::param::clock_ticks_per_second()) }
    }

    /// From then to now.
    pub fn since(self, then: ProcessTime) -> ProcessTime {
        let kernel = self.kernel.zip(then.kernel).map(|(now, then)| now.saturating_sub(then));
        ProcessTime { all: self.all.saturating_sub(then.all), kernel }
    }
}

/// The 15th field, `stime`, in ticks (proc(5)); the second one, a name in brackets, may hold anything.
fn kernel_time(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(12)?.parse().ok()?;
    (ticks_per_second > 0).then(|| Duration::from_secs_f64(ticks / ticks_per_second as f64))
}

/// Processor time of the calling thread.
pub fn thread_time() -> Duration {
    of(ClockId::ThreadCPUTime)
}

fn of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_time_is_the_fifteenth_field() {
        // From proc(5): pid (comm) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime ..
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 1100 250 0 0 20";
        assert_eq!(kernel_time(stat, 100), Some(Duration::from_millis(2500)));
        assert_eq!(kernel_time("", 100), None);
    }
}
