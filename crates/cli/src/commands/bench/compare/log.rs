//! Reads what Linux prints at start of its parity and checksum code, out of boot logs and mails. Pure: text in, machines out.
//!
//! The lines may stand behind time stamps, syslog's prefix and the `>` of a quoted mail. A text may tell of several machines: a new
//! one begins where a processor is named, where a figure comes a second time, or where prose stands between two runs of lines.

use super::machine::{Machine, Named, Resync};

/// What one line says.
#[derive(Debug, PartialEq)]
enum Fact {
    Generate(Named),
    Update(Named),
    /// `using algorithm`, with its rate where the line has it.
    Chosen(Named),
    ChosenUpdate(f64),
    Recovery(String),
    Xor(Named),
    ChosenXor(Named),
    Resync(f64),
    /// `[16/16]` of `/proc/mdstat`.
    Members(u64),
    /// Blocks of parity in a stripe: `md0 : active raid6 ..` of `/proc/mdstat`.
    Parities(u64),
    Processor(String),
    /// A line of a kernel's log on something else: what comes after it may be of the same machine.
    OtherLog,
    Prose,
}

/// Every machine that `text` has figures of. Their names are their processors, or empty.
pub fn machines(text: &str) -> Vec<Machine> {
    let mut reader = Reader::default();
    let mut after_xor = false;
    for line in text.lines() {
        let (line, is_log) = bare(line);
        if line.is_empty() {
            continue;
        }
        let fact = fact(line, is_log, after_xor);
        // The rates of checksum code come on lines that do not say what they are.
        after_xor = matches!(fact, Fact::Xor(_)) || (is_checksum(line) && !matches!(fact, Fact::ChosenXor(_)));
        reader.take(fact);
    }
    reader.end()
}

/// Collects facts.
#[derive(Default)]
struct Reader {
    done: Vec<Machine>,
    current: Machine,
    /// Prose has come since the last figure.
    prose: bool,
    samples: Vec<f64>,
    members: Option<u64>,
    parities: Option<u64>,
}

impl Reader {
    fn take(&mut self, fact: Fact) {
        match &fact {
            Fact::OtherLog => return,
            Fact::Prose => return self.prose = true,
            Fact::Members(count) => return self.members = Some(*count),
            Fact::Parities(count) => return self.parities = Some(*count),
            _ => {}
        }
        if self.is_another_machine(&fact) {
            self.next();
        }
        self.prose = false;
        let machine = &mut self.current;
        match fact {
            Fact::Generate(named) => machine.generate.push(named),
            Fact::Update(named) => machine.update.push(named),
            Fact::Chosen(named) => machine.chosen = Some(named),
            Fact::ChosenUpdate(rate) => machine.chosen_update_mib_per_second = Some(rate),
            Fact::Recovery(kernel) => machine.recovery = Some(kernel),
            Fact::Xor(named) => machine.xor.push(named),
            Fact::ChosenXor(named) => choose_xor(machine, named),
            Fact::Resync(rate) => self.samples.push(rate),
            Fact::Processor(name) => machine.processor = Some(name),
            Fact::Members(_) | Fact::Parities(_) | Fact::OtherLog | Fact::Prose => {}
        }
    }

    fn is_another_machine(&self, fact: &Fact) -> bool {
        let machine = &self.current;
        let has = |rates: &[Named], named: &Named| rates.iter().any(|other| other.kernel == named.kernel);
        let has_parity = !machine.generate.is_empty() || machine.chosen.is_some() || machine.recovery.is_some();
        match fact {
            Fact::Generate(named) => has(&machine.generate, named) || (self.prose && has_parity),
            Fact::Update(named) => has(&machine.update, named) || (self.prose && has_parity),
            Fact::Chosen(_) => machine.chosen.is_some() || (self.prose && has_parity),
            Fact::ChosenUpdate(_) => machine.chosen_update_mib_per_second.is_some(),
            Fact::Recovery(_) => machine.recovery.is_some(),
            Fact::Xor(named) => has(&machine.xor, named),
            // `xor: automatically using best ..` comes before the measuring, `using function` after it.
            Fact::ChosenXor(named) => {
                machine.chosen_xor.as_ref().is_some_and(|chosen| chosen.mib_per_second > 0.0 && named.mib_per_second > 0.0)
            }
            Fact::Processor(name) => {
                let other = machine.processor.as_ref().is_none_or(|processor| processor != name);
                other && (!machine.is_empty() || !self.samples.is_empty())
            }
            Fact::Resync(_) | Fact::Members(_) | Fact::Parities(_) | Fact::OtherLog | Fact::Prose => false,
        }
    }

    fn next(&mut self) {
        self.samples.sort_by(f64::total_cmp);
        if let Some(&median) = self.samples.get(self.samples.len() / 2) {
            self.current.resync.push(Resync {
                what: "resync".to_owned(),
                kib_per_second_and_member: median,
                members: self.members,
                parities: self.parities.unwrap_or(2),
                bound: None,
            });
        }
        self.samples.clear();
        (self.members, self.parities) = (None, None);
        let machine = std::mem::take(&mut self.current);
        if !machine.is_empty() {
            self.done.push(machine);
        } else if let Some(last) = self.done.last_mut().filter(|last| last.processor.is_none()) {
            // Named after its figures instead of before them.
            last.processor = machine.processor;
        }
    }

    fn end(mut self) -> Vec<Machine> {
        self.next();
        for machine in &mut self.done {
            machine.name = machine.processor.clone().unwrap_or_default();
        }
        self.done
    }
}

/// A choice without its rate gets it from the measuring, and keeps it.
fn choose_xor(machine: &mut Machine, mut named: Named) {
    if named.mib_per_second == 0.0 {
        let known = machine.chosen_xor.as_ref().into_iter().chain(&machine.xor).find(|other| other.kernel == named.kernel);
        named.mib_per_second = known.map_or(0.0, |known| known.mib_per_second);
    }
    machine.chosen_xor = Some(named);
}

/// The line without quotation marks and log prefixes, and whether it had such a prefix.
fn bare(line: &str) -> (&str, bool) {
    let mut line = line.trim();
    while let Some(rest) = line.strip_prefix('>') {
        line = rest.trim_start();
    }
    if let Some((_, rest)) = line.split_once("kernel: ") {
        return (after_stamp(rest.trim_start()).unwrap_or(rest).trim(), true);
    }
    match after_stamp(line) {
        Some(rest) => (rest.trim(), true),
        None => (line, false),
    }
}

/// What follows `[    0.123456]`, perhaps with `<6>` before it.
fn after_stamp(line: &str) -> Option<&str> {
    let line = match line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((level, rest)) if level.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => line,
    };
    let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
    stamp.trim().parse::<f64>().ok().map(|_| rest)
}

fn is_checksum(line: &str) -> bool {
    ["xor:", "raid5:"].iter().any(|prefix| line.starts_with(prefix))
}

fn fact(line: &str, is_log: bool, after_xor: bool) -> Fact {
    let named = raid6(line)
        .or_else(|| checksum(line, after_xor))
        .or_else(|| resync(line))
        .or_else(|| members(line))
        .or_else(|| parities(line));
    named.or_else(|| processor(line, is_log)).unwrap_or(if is_log || is_like_a_log(line) { Fact::OtherLog } else { Fact::Prose })
}

/// `subsystem: words`, as a kernel's log has it without time stamps.
fn is_like_a_log(line: &str) -> bool {
    line.split_once(": ")
        .is_some_and(|(word, _)| !word.contains(' ') && word.starts_with(|letter: char| letter.is_ascii_lowercase()))
}

fn rate(text: &str) -> Option<f64> {
    // Beyond any memory there is: no rate, but a slip.
    text.parse().ok().filter(|rate: &f64| (0.0..1e9).contains(rate))
}

fn named(kernel: &str, mib_per_second: f64) -> Named {
    Named { kernel: kernel.trim_end_matches([',', ':']).to_owned(), mib_per_second }
}

fn raid6(line: &str) -> Option<Fact> {
    let rest = &line[line.find("raid6: ")? + "raid6: ".len()..];
    let words: Vec<&str> = rest.split_whitespace().collect();
    Some(match words[..] {
        ["using", "algorithm", kernel, "gen()", mib, ..] => Fact::Chosen(named(kernel, rate(mib)?)),
        // `using algorithm sse2x4 (3490 MB/s)`: before xor() was measured.
        ["using", "algorithm", kernel, mib, ..] => Fact::Chosen(named(kernel, rate(mib.trim_start_matches('('))?)),
        ["using", "algorithm", kernel] => Fact::Chosen(named(kernel, 0.0)),
        ["using", kernel, "recovery", ..] => Fact::Recovery(kernel.to_owned()),
        ["skipped", "pq", "benchmark", "and", "selected", kernel, ..] => Fact::Chosen(named(kernel, 0.0)),
        ["....", "xor()", mib, ..] => Fact::ChosenUpdate(rate(mib)?),
        [kernel, "gen()", mib, ..] => Fact::Generate(named(kernel, rate(mib)?)),
        [kernel, "xor()", mib, ..] => Fact::Update(named(kernel, rate(mib)?)),
        // `raid6: int64x1   1234 MB/s`: before xor() was measured.
        [kernel, mib, "MB/s", ..] => Fact::Generate(named(kernel, rate(mib)?)),
        _ => return Some(Fact::OtherLog),
    })
}

fn checksum(line: &str, after_xor: bool) -> Option<Fact> {
    let prefix = ["xor: ", "raid5: "].into_iter().find(|prefix| line.starts_with(prefix));
    let rest = prefix.map_or(line, |prefix| &line[prefix.len()..]);
    let using = ["automatically using best checksumming function", "using function"];
    if let Some(words) = using.iter().find_map(|words| rest.strip_prefix(words)).filter(|_| prefix.is_some()) {
        let mut words = words.trim_start_matches([':', ' ']).split_whitespace();
        let kernel = words.next()?;
        let mib = words.next().and_then(|word| rate(word.trim_start_matches('('))).unwrap_or(0.0);
        return Some(Fact::ChosenXor(named(kernel, mib)));
    }
    // `   8regs     :  1234.000 MB/sec`, under `xor: measuring software checksum speed`.
    let (kernel, figure) = rest.split_once(':')?;
    let mut words = figure.split_whitespace();
    let (mib, unit) = (words.next().and_then(rate)?, words.next()?);
    let kernel = kernel.trim();
    let is_rate = (after_xor || prefix.is_some()) && unit.starts_with("MB/s") && !kernel.is_empty() && !kernel.contains(' ');
    is_rate.then(|| Fact::Xor(named(kernel, mib)))
}

/// `resync = 12.6% (..) finish=4.1min speed=34671K/sec`.
fn resync(line: &str) -> Option<Fact> {
    let (_, speed) = line.split_once("resync")?.1.split_once("speed=")?;
    let digits = speed.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(speed.len());
    let is_kib = speed[digits..].starts_with("K/s");
    rate(&speed[..digits]).filter(|rate| is_kib && *rate > 0.0).map(Fact::Resync)
}

/// The counts of `/proc/mdstat`: `algorithm 2 [16/16] [UUUUUUUUUUUUUUUU]`.
fn members(line: &str) -> Option<Fact> {
    let (counts, _) = line.split_once("] [U").or_else(|| line.split_once("] [_"))?;
    let (all, _) = counts.rsplit_once('[')?.1.split_once('/')?;
    all.parse().ok().filter(|count| (3..=1024).contains(count)).map(Fact::Members)
}

fn parities(line: &str) -> Option<Fact> {
    let (_, words) = line.split_once(" : active ")?;
    match words.split_whitespace().find(|word| word.starts_with("raid"))? {
        "raid6" => Some(Fact::Parities(2)),
        "raid4" | "raid5" => Some(Fact::Parities(1)),
        _ => None,
    }
}

/// Families by which a heading names a processor.
const FAMILIES: [&str; 12] = [
    "Xeon",
    "EPYC",
    "Ryzen",
    "Opteron",
    "Athlon",
    "Threadripper",
    "Pentium",
    "Core(TM)",
    "Graviton",
    "Cortex",
    "POWER",
    "Celeron",
];

fn processor(line: &str, is_log: bool) -> Option<Fact> {
    let label = ["model name", "Model name", "CPU", "Processor", "processor", "smpboot: CPU0"];
    let after = |label: &&str| line.strip_prefix(label).and_then(|rest| rest.trim_start().strip_prefix(':')).map(str::trim);
    let has_family = |text: &str| FAMILIES.iter().any(|family| text.contains(family));
    let labelled = label.iter().find_map(after).filter(|name| name.contains(char::is_alphabetic));
    let heading = Some(line).filter(|line| !is_log && line.chars().count() <= 60 && has_family(line));
    let name = labelled.filter(|name| !is_log || has_family(name)).or(heading)?;
    let name = name.split(" (family").next().unwrap_or(name);
    let name = name.trim_matches(['#', '*', '=', '-', ':', ' ', '.']);
    (!name.is_empty()).then(|| Fact::Processor(name.chars().take(80).collect()))
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
