//! `uraid bench random-write`: what small writes cost, and what read-modify-write gains, on members of a known speed.

use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;
use uraid_array::{Preference, RmwPolicy};
use uraid_geometry::{Geometry, Parity, Shape};
use uraid_model::{DiskModel, Load, Setup, random_writes};
use uraid_report::{Bar, BarChart, Table, human_bytes, svg};
use uraid_types::{Layout, Level, Sector, SectorCount};

use crate::commands::assemble::rmw_policy;
use crate::output::{Exit, say, say_json, usage};
use crate::sizes;

/// Bytes of a modelled member.
const MEMBER_BYTES: u64 = 972_000_000_000;
/// Writes of one run, for each thread; more of them when blocks are small.
const WRITES_PER_THREAD: u64 = 50;
/// Bytes that a run need not exceed, so that large blocks do not take long.
const ENOUGH_BYTES: u64 = 2 << 30;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The members: hdd (seeks, turns, an elevator) or ssd (every I/O takes 100 µs)
    #[arg(long, value_name = "KIND", value_parser = ["hdd", "ssd"], default_value = "hdd")]
    model: String,
    /// 4, 5 or 6
    #[arg(short, long, default_value = "6")]
    level: Level,
    /// How many members
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    raid_devices: u16,
    /// Chunk, in KiB unless a unit is given
    #[arg(short, long, value_name = "SIZE", default_value = "64K", value_parser = sizes::kib)]
    chunk: u64,
    /// Threads, each with one write under way
    #[arg(long, value_name = "N", default_value_t = 64)]
    threads: u16,
    /// Lengths of the writes, each at a multiple of its length
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = sizes::bytes,
          default_value = "4K,8K,16K,32K,64K,128K,256K,512K,1M")]
    blocks: Vec<u64>,
    /// Runs of each, with a seed of their own
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u16,
    /// The first run's seed; the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// May old data and parity be read and changed: never, auto or prefer
    #[arg(long, value_name = "WHEN", value_parser = rmw_policy, default_value = "auto")]
    rmw: RmwPolicy,
    /// Also with another policy, as in rmw=never, and what is gained over it
    #[arg(long, value_name = "rmw=WHEN", value_parser = against)]
    against: Option<RmwPolicy>,
    /// Draw the rates as bars into FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

fn against(text: &str) -> Result<RmwPolicy, String> {
    let policy = text.strip_prefix("rmw=").ok_or_else(|| format!("'{text}' is not rmw=never, rmw=auto or rmw=prefer"))?;
    rmw_policy(policy)
}

/// The JSON report `bench-random-write`.
#[derive(Serialize)]
struct Report {
    model: String,
    level: &'static str,
    raid_devices: u16,
    chunk_bytes: u64,
    threads: u16,
    blocks: Vec<Block>,
}

/// One length of write.
#[derive(Serialize)]
struct Block {
    block_bytes: u64,
    rates: Rates,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Gain>,
}

/// What came out with one policy: KiB a second over the runs, and member I/Os a write.
#[derive(Serialize)]
struct Rates {
    min_kib_per_second: f64,
    avg_kib_per_second: f64,
    max_kib_per_second: f64,
    member_ios: f64,
    /// What the arithmetic of the geometry says.
    promised_member_ios: f64,
}

/// Set against another policy.
#[derive(Serialize)]
struct Gain {
    rates: Rates,
    percent: f64,
    /// What the member I/Os of the arithmetic promise.
    promised_percent: f64,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if !args.level.has_parity() {
        return Err(usage(format!("--level {} has no parity to update; take 4, 5 or 6", args.level)));
    }
    if args.threads == 0 || args.runs == 0 {
        return Err(usage("without threads or runs nothing is measured"));
    }
    let parity = parity(args)?;
    let blocks: anyhow::Result<Vec<Block>> = args.blocks.iter().map(|&bytes| block(args, &parity, bytes)).collect();
    let report = Report {
        model: args.model.clone(),
        level: args.level.name(),
        raid_devices: args.raid_devices,
        chunk_bytes: args.chunk,
        threads: args.threads,
        blocks: blocks?,
    };
    if let Some(path) = &args.svg {
        let drawn = svg(&[chart(&report)]);
        std::fs::write(path, drawn).with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    if args.json {
        say_json("bench-random-write", &report)?;
    } else {
        say(table(&report))?;
    }
    Ok(Exit::Done)
}

fn parity(args: &Args) -> anyhow::Result<Parity> {
    let shape = Shape {
        level: args.level,
        layout: Layout::default_for(args.level),
        raid_disks: args.raid_devices,
        chunk: SectorCount::floor_bytes(args.chunk),
        member_sectors: vec![SectorCount::floor_bytes(MEMBER_BYTES); usize::from(args.raid_devices)],
    };
    match Geometry::new(&shape) {
        Ok(Geometry::Parity(parity)) => Ok(parity),
        Ok(Geometry::Copies(_)) => Err(usage("a level without parity")),
        Err(error) => Err(usage(error.to_string())),
    }
}

fn block(args: &Args, parity: &Parity, block_bytes: u64) -> anyhow::Result<Block> {
    if block_bytes == 0 || !block_bytes.is_multiple_of(512) || block_bytes > 64 << 20 {
        return Err(usage(format!("--blocks {block_bytes}: it takes multiples of 512 bytes up to 64M")));
    }
    let rates = rates(args, parity, args.rmw, block_bytes);
    let gain = |policy| {
        let other = self::rates(args, parity, policy, block_bytes);
        let percent = (rates.avg_kib_per_second / other.avg_kib_per_second - 1.0) * 100.0;
        let promised_percent = (other.promised_member_ios / rates.promised_member_ios - 1.0) * 100.0;
        Gain { rates: other, percent, promised_percent }
    };
    let against = args.against.map(gain);
    Ok(Block { block_bytes, rates, against })
}

fn rates(args: &Args, parity: &Parity, rmw: RmwPolicy, block_bytes: u64) -> Rates {
    let disk = if args.model == "ssd" { DiskModel::ssd() } else { DiskModel::hdd() };
    let setup =
        Setup { geometry: Geometry::Parity(parity.clone()), preference: Preference { rmw, ..Preference::default() }, disk };
    let threads = u64::from(args.threads);
    let writes = (WRITES_PER_THREAD * threads).min((ENOUGH_BYTES / block_bytes).max(2 * threads));
    let runs: Vec<_> = (0..u64::from(args.runs))
        .map(|run| {
            let seed = args.seed.wrapping_add(run);
            let block_bytes = usize::try_from(block_bytes).unwrap_or(usize::MAX);
            random_writes(&setup, &Load { threads: usize::from(args.threads), block_bytes, writes, seed })
        })
        .collect();
    let kib = || runs.iter().map(|run| run.kib_per_second());
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / runs.len() as f64;
    Rates {
        min_kib_per_second: kib().fold(f64::INFINITY, f64::min),
        avg_kib_per_second: mean(&mut kib()),
        max_kib_per_second: kib().fold(0.0, f64::max),
        member_ios: mean(&mut runs.iter().map(|run| run.member_ios())),
        promised_member_ios: promised(parity, rmw, SectorCount::floor_bytes(block_bytes)),
    }
}

/// Member I/Os of a write at a multiple of its length, on average over a stretch in which every such place occurs.
fn promised(parity: &Parity, rmw: RmwPolicy, len: SectorCount) -> f64 {
    /// More places than this are not looked at: what is left out is like what is not.
    const MOST: u64 = 4096;
    let stripe = parity.chunk().0 * parity.data_members() as u64;
    let places = stripe.min(MOST).min((parity.capacity().0 / len.0).max(1));
    let cost = |place: u64| {
        let cost = parity.write_cost(Sector(place * len.0), len);
        match rmw {
            RmwPolicy::Never => cost.reconstruct.total(),
            RmwPolicy::Auto | RmwPolicy::Prefer => cost.least.total(),
        }
    };
    (0..places).map(cost).sum::<u64>() as f64 / places as f64
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{} of {} modelled members ({}), {} chunks, {} threads; KiB/s in virtual time\n",
        report.level,
        report.raid_devices,
        report.model,
        human_bytes(report.chunk_bytes),
        report.threads
    );
    let gains = report.blocks.iter().any(|block| block.against.is_some());
    let mut headings = vec!["block", "min", "avg", "max", "member I/Os", "promised"];
    if gains {
        headings.extend(["against avg", "member I/Os", "gain", "promised"]);
    }
    let mut table = Table::new(&headings);
    (0..headings.len()).for_each(|column| {
        table.right(column);
    });
    for block in &report.blocks {
        let rates = &block.rates;
        let whole = |value: f64| format!("{value:.0}");
        let mut cells = vec![human_bytes(block.block_bytes)];
        cells.extend([rates.min_kib_per_second, rates.avg_kib_per_second, rates.max_kib_per_second].map(whole));
        cells.extend([rates.member_ios, rates.promised_member_ios].map(|ios| format!("{ios:.2}")));
        if let Some(Gain { rates, percent, promised_percent }) = &block.against {
            cells.extend([whole(rates.avg_kib_per_second), format!("{:.2}", rates.member_ios)]);
            cells.extend([percent, promised_percent].map(|percent| format!("{percent:+.0} %")));
        }
        table.row(cells);
    }
    text += &table.to_string();
    text
}

fn chart(report: &Report) -> BarChart {
    let bars = report.blocks.iter().flat_map(|block| {
        let bar = |rates: &Rates, what: &str, series| Bar {
            label: format!("{} {what}", human_bytes(block.block_bytes)),
            value: rates.avg_kib_per_second,
            series,
        };
        let other = block.against.as_ref().map(|gain| bar(&gain.rates, "(against)", 1));
        [Some(bar(&block.rates, "", 0)), other].into_iter().flatten()
    });
    let title = format!("Random writes, {} of {} {} members", report.level, report.raid_devices, report.model);
    BarChart { title, unit: "KiB/s".to_owned(), bars: bars.collect() }
}
