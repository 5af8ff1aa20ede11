//! `uraid bench compare`: saved reports and kernel logs side by side.

mod log;
mod machine;
mod saved;
mod show;
mod words;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;
use uraid_report::{html_page, svg};

use crate::output::{Exit, say, say_json};
use machine::Machine;

/// Files that are longer than this are no reports, nor logs with what is looked for near their start.
const MOST_BYTES: u64 = 64 << 20;

/// Options.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Reports of `bench` or `quickstart` saved with --json, and kernel boot logs or mails that hold `raid6:` and `xor:` lines; `-` is
    /// standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Members of the arrays whose resync is told of where the file does not say how many
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(3..=1024))]
    members: u64,
    /// Also draw the figures as an SVG picture
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Also write a page of HTML with words, picture and table
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON report `bench-compare`.
#[derive(Serialize)]
struct Report<'a> {
    machines: &'a [Machine],
    /// The comparison in words, a sentence each.
    words: &'a [String],
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut machines: Vec<Machine> = Vec::new();
    for file in &args.files {
        for machine in read(file)? {
            add(&mut machines, machine);
        }
    }
    let mut words = words::words(&machines, args.members);
    words.extend(unlike_shapes(&machines));
    if let Some(path) = &args.svg {
        write(path, &svg(&show::charts(&machines)))?;
    }
    if let Some(path) = &args.html {
        let table = show::table(&machines).to_string();
        write(path, &html_page("RAID parity code compared", &words, &show::charts(&machines), &table))?;
    }
    if args.json {
        say_json("bench-compare", &Report { machines: &machines, words: &words })?;
        return Ok(Exit::Done);
    }
    say(format_args!("{}\n", show::table(&machines)))?;
    words.iter().try_for_each(say)?;
    Ok(Exit::Done)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))
}

/// A machine of its own, unless it fills in what the one before of the same processor lacks.
fn add(machines: &mut Vec<Machine>, machine: Machine) {
    let same =
        |other: &&mut Machine| other.processor.is_some() && other.processor == machine.processor && !other.overlaps(&machine);
    if let Some(other) = machines.iter_mut().find(same) {
        return other.join(machine);
    }
    let taken =
        machines.iter().filter(|other| other.name == machine.name || other.name.starts_with(&format!("{} (", machine.name)));
    let count = taken.count();
    let name = if count == 0 { machine.name.clone() } else { format!("{} ({})", machine.name, count + 1) };
    machines.push(Machine { name, ..machine });
}

/// The machines that a file tells of.
fn read(path: &Path) -> anyhow::Result<Vec<Machine>> {
    let shown = path.display();
    let text = text_of(path).with_context(|| format!("{shown}: cannot be read"))?;
    let report = saved::machine(&text).map_err(|why| anyhow::anyhow!("{shown}: {why}"))?;
    let mut machines = if report.is_some() { report.into_iter().collect() } else { log::machines(&text) };
    if machines.is_empty() {
        bail!(
            "{shown}: it holds no `raid6:` or `xor:` line of a kernel's log with a rate or a choice, \
             and is no report saved with --json"
        );
    }
    let file = if path.as_os_str() == "-" { "stdin".into() } else { path.file_name().unwrap_or_default().to_string_lossy() };
    let several = machines.len() > 1;
    for (index, machine) in machines.iter_mut().enumerate() {
        machine.name = match &machine.processor {
            Some(processor) => processor.clone(),
            None if several => format!("{file}#{}", index + 1),
            None => file.clone().into_owned(),
        };
    }
    Ok(machines)
}

fn text_of(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(MOST_BYTES).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    }
    // The text goes to a terminal in part: nothing that steers it.
    let steers = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    Ok(String::from_utf8_lossy(&bytes).replace(steers, ""))
}

/// A warning for rates that were taken on other stripes than the first machine's.
fn unlike_shapes(machines: &[Machine]) -> Option<String> {
    let with_rates: Vec<&Machine> = machines.iter().filter(|machine| !machine.generate.is_empty()).collect();
    let (first, others) = with_rates.split_first()?;
    let other = others.iter().find(|machine| machine.shape != first.shape)?;
    let shape = |machine: &Machine| {
        let (disks, block_bytes) = machine.shape.unwrap_or((6, 4096));
        format!("{disks} data disks and blocks of {block_bytes} bytes")
    };
    Some(format!(
        "Mind: {} was measured with {}, {} with {}; such rates do not compare well.",
        first.name,
        shape(first),
        other.name,
        shape(other)
    ))
}
