//! What each part of a resync could do alone, measured on the same members and in the same run.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use uraid_parity::Operation;
use uraid_parity::measure::{chosen_for, measure};

use super::times::thread_time;

/// What a resync reads of a member at once.
const WINDOW_BYTES: usize = 128 << 10;
/// How long each measurement goes on at most, once it has begun.
const MOST: Duration = Duration::from_millis(1500);
/// For code that works in the cache.
const IN_CACHE: Duration = Duration::from_millis(60);
/// Memory that each thread reads: beyond its share of the caches.
const MEMORY_BYTES: usize = 64 << 20;
const PIECE_BYTES: usize = 1 << 20;
const MIB: f64 = 1_048_576.0;

/// Rates in MiB a second.
#[derive(Clone, Debug, Serialize)]
pub struct Limits {
    /// Threads that the bare reads and the reading of memory ran on: the processors that are there.
    pub threads: usize,
    /// `read` calls on all members in turn, 128 KiB each, and nothing else: bytes of all members, all threads.
    pub bare_reads: f64,
    /// The same for a second of processor time of one thread.
    pub bare_reads_per_processor: f64,
    /// Checking parity of blocks in the cache: data bytes, one thread.
    pub check: f64,
    /// Making parity of blocks in the cache, likewise.
    pub generate: f64,
    /// The kernel that checks.
    pub kernel: &'static str,
    /// Reading memory, all threads at once, for a second of the processor time of each.
    pub memory_reads: f64,
}

/// Measures all of it.
///
/// # Errors
/// A member cannot be read; a shape that has no parity.
pub fn limits(members: &[PathBuf], member_bytes: u64, parities: usize) -> anyhow::Result<Limits> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let (bare_reads, bare_reads_per_processor) = bare_reads(members, member_bytes, threads)?;
    let data_disks = members.len() - parities;
    let (check, generate) =
        if parities == 2 { (Operation::CheckPq, Operation::GenPq) } else { (Operation::CheckP, Operation::GenP) };
    let rate = |operation| {
        let kernel = chosen_for(operation, data_disks, WINDOW_BYTES);
        measure(kernel, operation, data_disks, WINDOW_BYTES, IN_CACHE).map(|rate| (kernel, rate))
    };
    let (kernel, check) = rate(check)?;
    let total_bytes = usize::try_from(member_bytes).unwrap_or(usize::MAX).saturating_mul(members.len());
    Ok(Limits {
        threads,
        bare_reads,
        bare_reads_per_processor,
        check,
        generate: rate(generate)?.1,
        kernel,
        memory_reads: memory_reads(threads, total_bytes.min(MEMORY_BYTES)),
    })
}

/// MiB a second, and MiB for a second of processor time.
fn bare_reads(members: &[PathBuf], member_bytes: u64, threads: usize) -> anyhow::Result<(f64, f64)> {
    let open = |path: &PathBuf| File::open(path).with_context(|| path.display().to_string());
    let files = members.iter().map(open).collect::<anyhow::Result<Vec<File>>>()?;
    let windows = (member_bytes / WINDOW_BYTES as u64).max(1);
    let (next, read_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    let one = || -> std::io::Result<Duration> {
        // A buffer for each member, as a resync has, so that what is read has to go somewhere else than what was read before.
        let mut buffers = vec![vec![1_u8; WINDOW_BYTES]; files.len()];
        let before = thread_time();
        loop {
            let window = next.fetch_add(1, Ordering::Relaxed);
            if window >= windows || begun.elapsed() > MOST {
                return Ok(thread_time().saturating_sub(before));
            }
            for (file, buffer) in files.iter().zip(&mut buffers) {
                let bytes = file.read_at(buffer, window * WINDOW_BYTES as u64)?;
                read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
    };
    let processor_time =
        on_threads(threads, one).into_iter().sum::<std::io::Result<Duration>>().context("a member cannot be read")?;
    let took = begun.elapsed();
    let mib = read_bytes.load(Ordering::Relaxed) as f64 / MIB;
    Ok((mib / seconds(took), mib / seconds(processor_time)))
}

/// All threads at once, each for its own processor time: what other programs take of the processors does not count.
fn memory_reads(threads: usize, bytes: usize) -> f64 {
    let pieces = (bytes / PIECE_BYTES).max(1);
    // To tell that all is zero all has to be read. Memory that was never written to is one page of zeros.
    let mut block = vec![1_u8; pieces * PIECE_BYTES];
    block.fill(0);
    // The first call chooses a kernel.
    let warm = uraid_parity::is_zero(&block[..PIECE_BYTES]);
    let one = || {
        let mut block = block.clone();
        block.fill(0);
        let (mut read, mut passed) = (0, Duration::ZERO);
        let before = thread_time();
        while passed < IN_CACHE {
            for piece in block.chunks_exact(PIECE_BYTES) {
                read += PIECE_BYTES * usize::from(std::hint::black_box(uraid_parity::is_zero(piece)));
            }
            passed = thread_time().saturating_sub(before);
        }
        read as f64 / MIB / seconds(passed)
    };
    if warm { on_threads(threads, one).into_iter().sum() } else { 0.0 }
}

fn on_threads<R: Send>(threads: usize, work: impl Fn() -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

/// Never 0, which nothing takes.
fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-6)
}
