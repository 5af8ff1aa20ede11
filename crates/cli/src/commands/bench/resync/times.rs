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
    /// What its threads that live have spent ready to run while the processors ran others; `None` where /proc does not tell.
    pub queued: Option<Duration>,
}

impl ProcessTime {
    /// Now.
    pub fn now() -> ProcessTime {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let kernel = kernel_time(&stat, rustix::param::clock_ticks_per_second());
        ProcessTime { all: of(ClockId::ProcessCPUTime), kernel, queued: queued() }
    }

    /// From then to now.
    pub fn since(self, then: ProcessTime) -> ProcessTime {
        let since = |now: Option<Duration>, then: Option<Duration>| now.zip(then).map(|(now, then)| now.saturating_sub(then));
        ProcessTime {
            all: self.all.saturating_sub(then.all),
            kernel: since(self.kernel, then.kernel),
            queued: since(self.queued, then.queued),
        }
    }
}

/// The 15th field, `stime`, in ticks (proc(5)); the second one, a name in brackets, may hold anything.
fn kernel_time(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(12)?.parse().ok()?;
    (ticks_per_second > 0).then(|| Duration::from_secs_f64(ticks / ticks_per_second as f64))
}

fn queued() -> Option<Duration> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let one = |thread: std::fs::DirEntry| queued_of(&std::fs::read_to_string(thread.path().join("schedstat")).ok()?);
    // A thread may end while this looks.
    let times: Vec<Duration> = threads.flatten().filter_map(one).collect();
    (!times.is_empty()).then(|| times.into_iter().sum())
}

/// The second number, in nanoseconds: time spent on a run queue (Documentation/scheduler/sched-stats of Linux).
fn queued_of(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
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
        assert_eq!(queued_of("900 1500000000 7\n"), Some(Duration::from_millis(1500)));
        assert_eq!(queued_of(""), None);
    }
}
