//! `uraid quickstart`: the life of an array on sparse files, each step timed, all data compared.

pub mod pattern;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use uraid_array::core::{Command, Status};
use uraid_array::{Array, CreateRequest, RunOptions};
use uraid_engine::SyncKind;
use uraid_parity::measure::{KERNEL_BLOCK_BYTES, KERNEL_DATA_DISKS};
use uraid_report::Progress;
use uraid_types::{Level, SectorCount};

use crate::bed::{Bed, create_on, start};
use crate::commands::bench::kernels::{Rates, choice_text, parity_rates};
use crate::output::{Exit, note, say, say_json, usage};
use crate::signals::Stop;
use crate::sizes;
use crate::transfer::{Reader, Writer};
use crate::watch::{Bars, until_idle, until_idle_counted};
use pattern::Pattern;
use report::{Report, Step};

/// What RAID6 can lose, and so what is lost here.
const LOST: usize = 2;

/// How long each parity kernel is measured for.
const MEASURE: Duration = Duration::from_millis(15);

/// The seed of the data.
const SEED: u64 = 6;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the member files go, in a folder of their own; the folder for temporary files unless stated
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// How many members
    #[arg(long, value_name = "N", default_value_t = 16)]
    members: usize,
    /// Size of each, in KiB unless a unit is given
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::kib)]
    member_size: u64,
    /// Chunk, in KiB unless a unit is given
    #[arg(short, long, value_name = "SIZE", default_value = "512K", value_parser = sizes::kib)]
    chunk: u64,
    /// How much data is written and compared, in KiB unless a unit is given; all that fits unless stated
    #[arg(long, value_name = "SIZE", value_parser = sizes::kib)]
    data: Option<u64>,
    /// Leave the member files where they are
    #[arg(long)]
    keep: bool,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if !(4..=256).contains(&args.members) {
        return Err(usage(format!("--members {}: RAID6 takes 4 to 256 members", args.members)));
    }
    let stop = Stop::listen()?;
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let bed = Bed::new(&dir, "quickstart", (args.members + LOST) as u64, args.member_size, args.keep)?;
    let report = Story { args, stop, bed, steps: Vec::new() }.tell()?;
    if args.json {
        say_json("quickstart", &report)?;
    } else {
        say(report.text())?;
    }
    Ok(Exit::Done)
}

/// What goes on.
struct Story<'a> {
    args: &'a Args,
    stop: Stop,
    bed: Bed,
    steps: Vec<Step>,
}

impl Story<'_> {
    fn tell(mut self) -> anyhow::Result<Report> {
        let parity = self.measure()?;
        let mut members = self.create()?;
        let array = start(&members, &RunOptions::default())?;
        let fresh = self.resync(&array)?;
        let data_bytes = self.data_bytes(&array)?;
        let crc32c = self.write(&array, data_bytes)?;
        let lost = self.fail(&array, &members)?;
        self.compare("read with two lost", &array, data_bytes, crc32c)?;
        let spares = self.recover(&array)?;
        self.check(&array)?;
        self.timed("stop", || {
            array.stop();
            Ok(())
        })?;
        members.retain(|member| !lost.contains(member));
        members.extend(spares);
        let array = self.assemble(&members)?;
        self.compare("read again", &array, data_bytes, crc32c)?;
        array.stop();
        Ok(Report::new(&fresh, data_bytes, crc32c, parity, self.steps))
    }

    fn say(&self, text: impl std::fmt::Display) -> anyhow::Result<()> {
        if self.args.json {
            note(text);
        } else {
            say(text)?;
        }
        Ok(())
    }

    /// Does a step and notes how long it took. A signal that has come ends the story before the next one.
    fn timed<T>(&mut self, step: &'static str, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.stop.check()?;
        let begun = Instant::now();
        let done = run().context(step)?;
        self.steps.push(Step::new(step, begun.elapsed()));
        Ok(done)
    }

    /// Adds to the step that was done last.
    fn amend(&mut self, amend: impl FnOnce(&mut Step)) {
        if let Some(last) = self.steps.last_mut() {
            amend(last);
        }
    }

    fn measure(&mut self) -> anyhow::Result<Rates> {
        let rates = self.timed("measure parity code", || parity_rates(KERNEL_DATA_DISKS, KERNEL_BLOCK_BYTES, MEASURE))?;
        self.say(choice_text(&rates))?;
        self.amend(|step| step.note = rates.fastest.clone());
        Ok(rates)
    }

    fn create(&mut self) -> anyhow::Result<Vec<PathBuf>> {
        let Args { members, chunk, .. } = *self.args;
        let paths = self.bed.make(0..members)?;
        let chunk = SectorCount::from_bytes(chunk);
        let request = CreateRequest { chunk, name: "quickstart".to_owned(), ..CreateRequest::new(Level::Raid6) };
        self.timed("create", || create_on(&paths, &request))?;
        self.amend(|step| step.note = format!("RAID6 of {members} sparse files"));
        self.say(format_args!("created RAID6 of {members} files in {}", self.bed.folder().display()))?;
        Ok(paths)
    }

    fn resync(&mut self, array: &Array) -> anyhow::Result<Status> {
        let stop = self.stop.clone();
        let status = self.timed("resync", || until_idle(array, &stop))?;
        let done = status.last_sync.as_ref().is_some_and(|last| last.complete && last.kind == "resync");
        if !done || status.resync_pending {
            bail!("the resync did not reach the end");
        }
        self.amend(|step| step.moved_on_each_member(status.member_bytes));
        let speed = self.steps.last().and_then(|step| step.kib_per_second).unwrap_or(0);
        self.say(report::against_published(speed))?;
        Ok(status)
    }

    fn data_bytes(&self, array: &Array) -> anyhow::Result<u64> {
        let size_bytes = array.size_bytes();
        match self.args.data {
            Some(wish) if wish > size_bytes => Err(usage(format!("--data: the array holds {size_bytes} bytes, not {wish}"))),
            Some(wish) => Ok(wish - wish % 4096),
            None => Ok(size_bytes),
        }
    }

    /// Writes the data; gives its CRC32C.
    fn write(&mut self, array: &Array, data_bytes: u64) -> anyhow::Result<u32> {
        let stop = self.stop.clone();
        let crc32c = self.timed("write", || {
            let (mut writer, mut progress) = (Writer::new(array), Progress::new("write", data_bytes));
            let (mut at_bytes, mut crc32c) = (0, 0);
            while at_bytes < data_bytes {
                stop.check()?;
                let len = writer.len_at(at_bytes).min(usize::try_from(data_bytes - at_bytes).unwrap_or(usize::MAX));
                let mut piece = array.pool().take(len);
                Pattern::new(SEED).fill(at_bytes, &mut piece);
                crc32c = uraid_parity::crc32c(crc32c, &piece);
                writer.write(at_bytes, piece.share())?;
                at_bytes += len as u64;
                progress.set(at_bytes);
            }
            writer.finish()?;
            progress.finish();
            Ok(crc32c)
        })?;
        self.amend(|step| step.moved(data_bytes, format!("CRC32C {crc32c:08x}")));
        Ok(crc32c)
    }

    /// Reads the data and compares every byte.
    fn compare(&mut self, name: &'static str, array: &Array, data_bytes: u64, expected: u32) -> anyhow::Result<()> {
        let stop = self.stop.clone();
        let crc32c = self.timed(name, || {
            let (mut progress, mut crc32c) = (Progress::new("read", data_bytes), 0);
            for (offset_bytes, outcome) in Reader::new(array, 0..data_bytes) {
                stop.check()?;
                let mut at_bytes = offset_bytes;
                for part in outcome.map_err(|error| anyhow::anyhow!("at byte {offset_bytes}: {error}"))? {
                    if let Some(wrong) = Pattern::new(SEED).first_difference(at_bytes, &part) {
                        bail!("byte {wrong} of the array is not what was written");
                    }
                    crc32c = uraid_parity::crc32c(crc32c, &part);
                    at_bytes += part.len() as u64;
                }
                progress.set(at_bytes);
            }
            progress.finish();
            Ok(crc32c)
        })?;
        if crc32c != expected {
            bail!("{name}: the CRC32C is {crc32c:08x}, but {expected:08x} was written");
        }
        self.amend(|step| step.moved(data_bytes, format!("all equal, CRC32C {crc32c:08x}")));
        Ok(())
    }

    /// Fails two members.
    fn fail(&mut self, array: &Array, members: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
        let slots = [members.len() / 3, members.len() - 2];
        let lost: Vec<PathBuf> = slots.iter().map(|&slot| members[slot].clone()).collect();
        self.say(format_args!("failing {} and {}", lost[0].display(), lost[1].display()))?;
        self.timed("fail two members", || {
            for path in &lost {
                array.command(Command::Fail { name: path.display().to_string() })?;
            }
            let status = array.status().context("the array's thread has ended")?;
            if status.degraded != LOST {
                bail!("{} slots are not in sync, not {LOST}", status.degraded);
            }
            Ok(())
        })?;
        self.amend(|step| step.note = format!("slots {} and {}", slots[0], slots[1]));
        Ok(lost)
    }

    /// Adds two spares and waits for their recovery.
    fn recover(&mut self, array: &Array) -> anyhow::Result<Vec<PathBuf>> {
        let members = self.args.members;
        let spares = self.bed.make(members..members + LOST)?;
        let stop = self.stop.clone();
        let bytes = self.timed("recover onto two spares", || {
            for spare in &spares {
                array.join(spare, false, false)?;
            }
            let (status, bytes) = until_idle_counted(array, &stop, Bars::default())?;
            if status.degraded > 0 {
                bail!("{} slots are still not in sync", status.degraded);
            }
            Ok(bytes)
        })?;
        self.amend(|step| step.moved_on_each_member(bytes));
        Ok(spares)
    }

    fn check(&mut self, array: &Array) -> anyhow::Result<()> {
        let stop = self.stop.clone();
        let status = self.timed("check", || {
            array.command(Command::StartSync(SyncKind::Check))?;
            let status = until_idle(array, &stop)?;
            match &status.last_sync {
                Some(last)
                    if last.kind == "check" && last.complete && last.mismatch_sectors == 0 && last.unreadable_sectors == 0 => {}
                last => bail!("parity is not right everywhere: {last:?}"),
            }
            Ok(status)
        })?;
        self.amend(|step| {
            step.moved_on_each_member(status.member_bytes);
            step.note = format!("{}, mismatch_cnt 0", step.note);
        });
        Ok(())
    }

    fn assemble(&mut self, members: &[PathBuf]) -> anyhow::Result<Array> {
        self.timed("assemble again", || {
            let array = start(members, &RunOptions::default())?;
            let status = array.status().context("the array's thread has ended")?;
            if status.degraded > 0 || status.resync_pending {
                bail!("it was stopped whole and clean, but is now: {}", status.state);
            }
            Ok(array)
        })
    }
}
