//! Time, and rates.

use std::time::Duration;

/// Bytes of data between two looks at the clock, at least: it takes a system call, and stripes in other places have to warm up.
const BATCH_BYTES: usize = 64 << 20;

/// The processor time of this thread.
#[cfg(unix)]
pub(crate) fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The time since the first call.
#[cfg(not(unix))]
pub(crate) fn now() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

/// Has `repeat` do its work so and so often, for `duration` or a little longer, and counts `bytes` each time: MiB a second.
pub(super) fn rate(bytes: usize, duration: Duration, mut repeat: impl FnMut(usize)) -> f64 {
    repeat(1);
    let batch = (BATCH_BYTES / bytes).max(1);
    let (start, mut runs) = (now(), 0_usize);
    loop {
        repeat(batch);
        runs += batch;
        let elapsed = now().saturating_sub(start);
        if elapsed >= duration && !elapsed.is_zero() {
            return runs as f64 * bytes as f64 / f64::from(1 << 20) / elapsed.as_secs_f64();
        }
    }
}
