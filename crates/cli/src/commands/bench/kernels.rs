//! Parity, XOR and CRC32C code: every algorithm on the same blocks, in the form in which the kernel prints its choice.
//!
//! Rates are in MiB a second, which the kernel calls MB/s: comparable with the figures in its log.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use uraid_parity::Operation;
use uraid_parity::measure::{
    KERNEL_BLOCK_BYTES, KERNEL_DATA_DISKS, KernelInfo, MeasureError, crc32c_kernels, kernels, measure, measure_crc32c,
    measure_gen, measure_plain_xor, measure_xor, recovery_kernels,
};

use super::grid::{self, Cell};
use super::processor;
use crate::output::{Exit, say, say_json, usage};
use crate::sizes;

/// How often everything is measured; the time of a measurement is shared among the rounds.
const ROUNDS: u32 = 3;

/// Options of `bench parity`.
#[derive(Debug, clap::Args)]
pub struct ParityArgs {
    #[command(flatten)]
    shape: ShapeArgs,
    /// Also measure the whole grid: 4, 6, 8 and 14 data disks, blocks of 4K, 64K, 512K and beyond the caches
    #[arg(long)]
    all: bool,
}

/// Options of `bench xor`.
#[derive(Debug, clap::Args)]
pub struct XorArgs {
    #[command(flatten)]
    shape: ShapeArgs,
}

#[derive(Debug, clap::Args)]
struct ShapeArgs {
    /// Data disks of a stripe; the kernel measures with 6
    #[arg(long, value_name = "N", default_value_t = KERNEL_DATA_DISKS)]
    data_disks: usize,
    /// Forget which kernels won on this processor, and measure again
    #[arg(long)]
    remeasure: bool,
    #[command(flatten)]
    run: RunArgs,
}

impl ShapeArgs {
    /// The data disks, the length of a block, and the rest; the choice is forgotten where that was asked for.
    fn prepared(&self) -> anyhow::Result<(usize, usize, &RunArgs)> {
        let block_bytes = block_bytes(&self.run)?;
        if self.remeasure {
            uraid_parity::remeasure();
        }
        Ok((self.data_disks, block_bytes, &self.run))
    }
}

/// Options of `bench crc32c`.
#[derive(Debug, clap::Args)]
pub struct CrcArgs {
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Length of a block; units as in 64K; the kernel measures with 4K
    #[arg(long, value_name = "SIZE", default_value_t = KERNEL_BLOCK_BYTES as u64, value_parser = sizes::bytes)]
    block: u64,
    /// How long each measurement takes: 50ms, 2s; milliseconds without a unit
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = duration)]
    duration: Duration,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no duration; it takes a number and ms or s");
    let (number, unit_ms) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        (None, None) => (text, 1),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    Ok(Duration::from_millis(number.checked_mul(unit_ms).filter(|&ms| ms <= 3_600_000).ok_or_else(wrong)?))
}

/// The JSON report `bench-parity`, `bench-xor` or `bench-crc32c`.
#[derive(Debug, Serialize)]
pub struct Rates {
    /// Its name, where the system tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<String>,
    /// Data disks of a stripe; 1 for CRC32C.
    data_disks: usize,
    block_bytes: usize,
    /// Each with the fields that fit the report.
    pub kernels: Vec<Rate>,
    /// The name of the kernel that generates fastest: P and Q, P, or the CRC.
    pub fastest: String,
    /// The kernel that updates P and Q fastest; only for parity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fastest_update: Option<String>,
    /// Kernels that recover two data blocks; only for parity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recovery: Vec<Rate>,
    /// The fastest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fastest_recovery: Option<String>,
    /// Making P and Q beside what loading and storing alone would take; only for `bench parity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Cell>,
    /// The same for other shapes, with `--all`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    grid: Vec<Cell>,
}

/// One kernel's rates in MiB a second.
#[derive(Debug, Serialize)]
pub struct Rate {
    /// Its name.
    pub kernel: &'static str,
    /// Instructions that it needs and this processor lacks; empty when it runs.
    missing: Vec<String>,
    /// Generating (P and Q, P, the CRC) or recovering; `null` when it does not run here.
    pub mib_per_second: Option<f64>,
    /// Updating P and Q.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_mib_per_second: Option<f64>,
}

impl Rate {
    fn new(info: &KernelInfo, run: impl Fn(&str) -> Result<f64, MeasureError>) -> anyhow::Result<Rate> {
        let missing = info.missing.iter().map(ToString::to_string).collect();
        let mib_per_second = if info.is_available() { Some(run(info.name).map_err(wrong_shape)?) } else { None };
        Ok(Rate { kernel: info.name, missing, mib_per_second, update_mib_per_second: None })
    }

    /// Keeps the better of each pair.
    fn improve(&mut self, other: &Rate) {
        let better = |a: Option<f64>, b: Option<f64>| a.zip(b).map_or(a, |(a, b)| Some(a.max(b)));
        self.mib_per_second = better(self.mib_per_second, other.mib_per_second);
        self.update_mib_per_second = better(self.update_mib_per_second, other.update_mib_per_second);
    }
}

/// Measures a whole table several times over and keeps each kernel's best, so that what else runs on the machine for a moment
/// does not decide.
fn best_of_rounds(round: impl Fn() -> anyhow::Result<Vec<Rate>>) -> anyhow::Result<Vec<Rate>> {
    let mut best = round()?;
    for _ in 1..ROUNDS {
        for (best, other) in best.iter_mut().zip(&round()?) {
            best.improve(other);
        }
    }
    Ok(best)
}

fn wrong_shape(error: MeasureError) -> anyhow::Error {
    match error {
        MeasureError::Disks { .. } | MeasureError::BlockLength { .. } => usage(error.to_string()),
        MeasureError::UnknownKernel { .. } | MeasureError::Unavailable { .. } => error.into(),
    }
}

fn fastest(rates: &[Rate], rate: impl Fn(&Rate) -> Option<f64>) -> Option<&Rate> {
    let ran = rates.iter().filter(|kernel| rate(kernel).is_some());
    ran.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)))
}

fn name(rate: Option<&Rate>) -> Option<String> {
    rate.map(|rate| rate.kernel.to_owned())
}

/// Runs `bench parity`.
pub fn parity(args: &ParityArgs) -> anyhow::Result<Exit> {
    let (data_disks, block_bytes, run) = args.shape.prepared()?;
    // There are many kernels, each measured in several rounds.
    let slice = run.duration / 10;
    let mut rates = parity_rates(data_disks, block_bytes, run.duration)?;
    rates.limit = Some(Cell::measure(data_disks, block_bytes, slice).map_err(wrong_shape)?);
    if args.all {
        rates.grid = grid::measure(slice)?;
    }
    if run.json {
        say_json("bench-parity", &rates)?;
        return Ok(Exit::Done);
    }
    say(parity_text(&rates))?;
    if args.all {
        say(format_args!("\n{}", grid::table(&rates.grid)))?;
    }
    Ok(Exit::Done)
}

fn block_bytes(run: &RunArgs) -> anyhow::Result<usize> {
    const MOST: u64 = 64 << 20;
    match usize::try_from(run.block) {
        Ok(bytes) if run.block <= MOST => Ok(bytes),
        _ => Err(usage(format!("--block {} is more than 64 MiB", run.block))),
    }
}

/// Measures what makes, updates and recovers P and Q.
///
/// # Errors
/// A shape that cannot be.
pub fn parity_rates(data_disks: usize, block_bytes: usize, duration: Duration) -> anyhow::Result<Rates> {
    let each = duration / ROUNDS;
    let one = |info: &KernelInfo| {
        let mut rate = Rate::new(info, |kernel| measure_gen(kernel, data_disks, block_bytes, each))?;
        if info.is_available() {
            let update = measure_xor(info.name, data_disks, block_bytes, each).map_err(wrong_shape)?;
            rate.update_mib_per_second = Some(update);
        }
        anyhow::Ok(rate)
    };
    let rates = best_of_rounds(|| kernels().iter().map(one).collect())?;
    let two = |kernel: &str| measure(kernel, Operation::RecoverTwoData, data_disks, block_bytes, each);
    let recovery = best_of_rounds(|| recovery_kernels().iter().map(|info| Rate::new(info, two)).collect())?;
    Ok(Rates {
        processor: processor::name(),
        data_disks,
        block_bytes,
        fastest: name(fastest(&rates, |rate| rate.mib_per_second)).unwrap_or_default(),
        fastest_update: name(fastest(&rates, |rate| rate.update_mib_per_second)),
        fastest_recovery: name(fastest(&recovery, |rate| rate.mib_per_second)),
        kernels: rates,
        recovery,
        limit: None,
        grid: Vec::new(),
    })
}

/// Columns that the kernels' names take: 8 as in the kernel, unless one is longer.
fn width(rates: &[Rate]) -> usize {
    rates.iter().map(|rate| rate.kernel.len()).max().unwrap_or(0).max(8)
}

fn parity_text(rates: &Rates) -> String {
    let (mut text, width) = (String::new(), width(&rates.kernels));
    for rate in &rates.kernels {
        let kernel = rate.kernel;
        // Writing to a string does not fail, here and below.
        let _ = match (rate.mib_per_second, rate.update_mib_per_second) {
            (Some(made), Some(updated)) => {
                writeln!(text, "raid6: {kernel:<width$} gen() {made:5.0} MB/s\nraid6: {kernel:<width$} xor() {updated:5.0} MB/s")
            }
            _ => writeln!(text, "raid6: {kernel:<width$} cannot run here: no {}", rate.missing.join(", ")),
        };
    }
    let limit = rates.limit.as_ref().and_then(|cell| Some((cell, cell.limit_mib_per_second?, cell.share_of_limit?)));
    if let Some((cell, limit, share)) = limit {
        let (kernel, percent) = (cell.chosen, share * 100.0);
        let _ = writeln!(
            text,
            "raid6: XOR-only limit {limit:.0} MB/s, of which {kernel}, in use for this shape, reaches {percent:.0} %"
        );
    }
    text + &choice_text(rates)
}

/// What has been chosen, as the kernel says it.
pub fn choice_text(rates: &Rates) -> String {
    let mut text = String::new();
    if let Some(best) = fastest(&rates.kernels, |rate| rate.mib_per_second) {
        let _ = writeln!(text, "raid6: using algorithm {} gen() {:.0} MB/s", best.kernel, best.mib_per_second.unwrap_or(0.0));
    }
    if let Some(best) = fastest(&rates.kernels, |rate| rate.update_mib_per_second) {
        let rate = best.update_mib_per_second.unwrap_or(0.0);
        let _ = writeln!(text, "raid6: .... xor() {rate:.0} MB/s, rmw enabled, by {}", best.kernel);
    }
    if let Some(best) = fastest(&rates.recovery, |rate| rate.mib_per_second) {
        let rate = best.mib_per_second.unwrap_or(0.0);
        let _ = write!(text, "raid6: using {} recovery algorithm, two disks at {rate:.0} MB/s", best.kernel);
    }
    text
}

/// Runs `bench xor`.
pub fn xor(args: &XorArgs) -> anyhow::Result<Exit> {
    let (data_disks, block_bytes, run) = args.shape.prepared()?;
    one_kind("xor", &kernels(), (data_disks, block_bytes), run, |kernel| {
        measure_plain_xor(kernel, data_disks, block_bytes, run.duration / ROUNDS)
    })
}

/// Runs `bench crc32c`.
pub fn crc32c(args: &CrcArgs) -> anyhow::Result<Exit> {
    let block_bytes = block_bytes(&args.run)?;
    one_kind("crc32c", &crc32c_kernels(), (1, block_bytes), &args.run, |kernel| {
        measure_crc32c(kernel, block_bytes, args.run.duration / ROUNDS)
    })
}

fn one_kind(
    label: &str,
    table: &[KernelInfo],
    (data_disks, block_bytes): (usize, usize),
    run: &RunArgs,
    measure: impl Fn(&str) -> Result<f64, MeasureError>,
) -> anyhow::Result<Exit> {
    let kernels = best_of_rounds(|| table.iter().map(|info| Rate::new(info, &measure)).collect())?;
    let width = width(&kernels);
    let best = fastest(&kernels, |rate| rate.mib_per_second);
    let using = best.map(|rate| format!("{label}: using {} ({:.0} MB/s)", rate.kernel, rate.mib_per_second.unwrap_or(0.0)));
    if run.json {
        let fastest = name(best).unwrap_or_default();
        let (fastest_update, recovery, fastest_recovery) = (None, Vec::new(), None);
        let processor = processor::name();
        let (limit, grid) = (None, Vec::new());
        let rates = Rates {
            processor,
            data_disks,
            block_bytes,
            kernels,
            fastest,
            fastest_update,
            recovery,
            fastest_recovery,
            limit,
            grid,
        };
        say_json(&format!("bench-{label}"), &rates)?;
        return Ok(Exit::Done);
    }
    for rate in &kernels {
        match rate.mib_per_second {
            Some(mib) => say(format_args!("{label}: {:<width$} {mib:5.0} MB/s", rate.kernel))?,
            None => say(format_args!("{label}: {:<width$} cannot run here: no {}", rate.kernel, rate.missing.join(", ")))?,
        }
    }
    using.into_iter().try_for_each(say)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("7"), Ok(Duration::from_millis(7)));
        assert!(duration("1m").is_err() && duration("").is_err() && duration("3601s").is_err());
    }

    #[test]
    fn choices_are_worded_as_the_kernel_does() {
        // The figures of a Xeon E5-2687W v3.
        let rate = |kernel, made, updated| Rate {
            kernel,
            missing: Vec::new(),
            mib_per_second: Some(made),
            update_mib_per_second: Some(updated),
        };
        let rates = Rates {
            processor: None,
            data_disks: 6,
            block_bytes: 4096,
            kernels: vec![rate("sse2x4", 16128.0, 10009.0), rate("avx2x4", 29847.0, 18617.0)],
            fastest: "avx2x4".to_owned(),
            fastest_update: None,
            recovery: vec![Rate {
                kernel: "avx2x2",
                missing: Vec::new(),
                mib_per_second: Some(1.0),
                update_mib_per_second: None,
            }],
            fastest_recovery: None,
            limit: None,
            grid: Vec::new(),
        };
        let text = parity_text(&rates);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "raid6: sse2x4   gen() 16128 MB/s");
        assert_eq!(lines[3], "raid6: avx2x4   xor() 18617 MB/s");
        assert_eq!(lines[4], "raid6: using algorithm avx2x4 gen() 29847 MB/s");
        assert!(lines[5].starts_with("raid6: .... xor() 18617 MB/s, rmw enabled"));
        assert!(lines[6].starts_with("raid6: using avx2x2 recovery algorithm"));
    }
}
