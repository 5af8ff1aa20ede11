//! The comparison in words: who generates faster and why, what bounds a resync, how far one tells of the other.

use super::machine::{Machine, Named, Resync};

/// From this share of gen() on, parity code is what a resync waits for.
const BOUND_BY_PARITY: f64 = 0.8;
/// Below this share it hardly matters.
const PARITY_HARDLY_MATTERS: f64 = 0.3;

/// Sentences. `assumed_members` is the number of members where an input does not tell.
pub fn words(machines: &[Machine], assumed_members: u64) -> Vec<String> {
    let mut words = Vec::new();
    let generate = |machine: &Machine| machine.best_generate().map(|named| named.mib_per_second);
    words.extend(ranking(machines, "makes P and Q fastest (gen())", generate));
    words.extend(same_code(machines));
    words.extend(ranking(machines, "updates P and Q fastest (xor())", Machine::best_update));
    words.extend(ranking(machines, "computes RAID5's checksum fastest", |machine| {
        machine.best_xor().map(|named| named.mib_per_second)
    }));
    words.extend(machines.iter().map(|machine| resync(machine, assumed_members)));
    words.extend(prediction(machines, assumed_members));
    words
}

/// Machines that have a figure, the highest first.
fn ranked(machines: &[Machine], figure: impl Fn(&Machine) -> Option<f64>) -> Vec<(&Machine, f64)> {
    let mut ranked: Vec<(&Machine, f64)> = machines.iter().filter_map(|machine| Some((machine, figure(machine)?))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}

fn ranking(machines: &[Machine], does: &str, figure: impl Fn(&Machine) -> Option<f64>) -> Option<String> {
    let ranked = ranked(machines, figure);
    let (&(first, most), others) = ranked.split_first()?;
    if others.is_empty() {
        return None;
    }
    let others: Vec<String> =
        others.iter().map(|(machine, rate)| format!("{:.2} times {} ({rate:.0})", most / rate, machine.name)).collect();
    Some(format!("{} {does}: {most:.0} MB/s, {}.", first.name, others.join(", ")))
}

/// How much of the difference between the fastest and the others is the processor's instructions, and how much its speed on the
/// same code.
fn same_code(machines: &[Machine]) -> Vec<String> {
    let ranked = ranked(machines, |machine| machine.best_generate().map(|named| named.mib_per_second));
    let Some((&(first, most), others)) = ranked.split_first() else { return Vec::new() };
    let sentence = |&(other, rate): &(&Machine, f64)| {
        let common = |named: &&Named| first.generate.iter().any(|mine| mine.kernel == named.kernel);
        let theirs = other.generate.iter().filter(common).max_by(|a, b| a.mib_per_second.total_cmp(&b.mib_per_second))?;
        let mine = first.generate.iter().find(|mine| mine.kernel == theirs.kernel)?;
        let same = mine.mib_per_second / theirs.mib_per_second;
        let rest = most / rate / same;
        let why = if rest > 1.02 {
            format!(
                "the other {rest:.2} times come of code that {} has no figure of, and better \
                 code could make up for no more than those",
                other.name
            )
        } else {
            "the difference is the processor itself, and better code would have to be better for one of them alone".to_owned()
        };
        Some(format!(
            "With the same code ({}) {} makes {same:.2} times what {} makes; {why}.",
            theirs.kernel, first.name, other.name
        ))
    };
    others.iter().filter_map(sentence).collect()
}

/// MiB of data a second that a resync went over, and the members that were taken for it.
pub fn data_rate(resync: &Resync, assumed_members: u64) -> (f64, u64) {
    let members = resync.members.unwrap_or(assumed_members);
    (resync.kib_per_second_and_member / 1024.0 * members.saturating_sub(resync.parities) as f64, members)
}

/// What the resync reached of what gen() makes, 1 for all.
pub fn share(machine: &Machine, assumed_members: u64) -> Option<f64> {
    let (rate, _) = data_rate(machine.main_resync()?, assumed_members);
    machine.best_generate().map(|named| rate / named.mib_per_second)
}

fn resync(machine: &Machine, assumed_members: u64) -> String {
    let name = &machine.name;
    let Some(resync) = machine.main_resync() else {
        return format!(
            "{name}: no resync was measured, so nothing is known of what bounds it; `uraid bench resync --json` there adds it."
        );
    };
    let (rate, members) = data_rate(resync, assumed_members);
    let taken = if resync.members.is_some() { "" } else { " (taken for the count; --members says otherwise)" };
    let speed = resync.kib_per_second_and_member;
    let mut text =
        format!("{name}: resync ran at {speed:.0} K/sec a member, with {members} members{taken}: {rate:.0} MiB of data a second");
    match (share(machine, assumed_members), machine.best_generate()) {
        (Some(share), Some(best)) => {
            let (percent, times) = (share * 100.0, 1.0 / share);
            text +=
                &format!(", {percent:.1} per cent of what {} makes on one thread ({:.0} MB/s)", best.kernel, best.mib_per_second);
            text += &if share >= BOUND_BY_PARITY {
                "; parity code bounds it, or more than one thread ran it".to_owned()
            } else if share >= PARITY_HARDLY_MATTERS {
                format!("; parity code takes a good part of the time, and alone would let it run {times:.1} times as fast")
            } else {
                format!(
                    "; parity code does not bound it (alone it would let it run {times:.0} times as fast), \
                     but moving the data does: memory, copying, member I/O"
                )
            };
        }
        _ => text += "; no rate of parity code to lay beside it",
    }
    if let Some(bound) = &resync.bound {
        text += &format!("; measured there: {bound}");
    }
    text + "."
}

/// How the ratio of gen() and that of the resyncs agree, each against the first machine that has both.
fn prediction(machines: &[Machine], assumed_members: u64) -> Vec<String> {
    let both: Vec<(&Machine, f64, f64)> = machines
        .iter()
        .filter_map(|machine| {
            let resync = data_rate(machine.main_resync()?, assumed_members).0;
            Some((machine, machine.best_generate()?.mib_per_second, resync))
        })
        .collect();
    let Some((&(first, gen_rate, resync_rate), others)) = both.split_first() else { return Vec::new() };
    let sentence = |&(other, other_gen, other_resync): &(&Machine, f64, f64)| {
        let (said, was) = (other_gen / gen_rate, other_resync / resync_rate);
        let off = (said / was - 1.0) * 100.0;
        let hardly = [first, other]
            .into_iter()
            .all(|machine| share(machine, assumed_members).is_some_and(|share| share < PARITY_HARDLY_MATTERS));
        let verdict = match (off.abs() <= 10.0, hardly) {
            (true, true) => "it would have predicted the order, though not because parity code bounds either",
            (true, false) => "gen() would have predicted it",
            (false, _) => "gen() does not predict it",
        };
        format!(
            "By gen() {} does {said:.2} times {}, its resync {was:.2} times: gen() is {off:+.0} per cent off, {verdict}.",
            other.name, first.name
        )
    };
    others.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, rates: &[(&str, f64)], resync: Option<f64>) -> Machine {
        let named = |&(kernel, mib_per_second): &(&str, f64)| Named { kernel: kernel.to_owned(), mib_per_second };
        let resync = resync.map(|kib_per_second_and_member| Resync {
            what: "resync".to_owned(),
            kib_per_second_and_member,
            members: Some(16),
            parities: 2,
            bound: None,
        });
        let generate = rates.iter().map(named).collect();
        Machine { name: name.to_owned(), generate, resync: resync.into_iter().collect(), ..Machine::default() }
    }

    #[test]
    fn published_machines_in_words() {
        let w = machine("W-2145", &[("avx2x4", 38492.0), ("avx512x4", 54210.0)], None);
        let e = machine("EPYC 7601", &[("avx2x4", 20726.0)], Some(34671.0));
        let text = words(&[e, w], 16).join("\n");
        // 54210 / 20726 and 38492 / 20726; 34671 / 1024 * 14 MiB/s is 474, and 474 / 20726 is 2.3 per cent.
        for part in [
            "W-2145 makes P and Q fastest (gen()): 54210 MB/s, 2.62 times EPYC 7601 (20726)",
            "makes 1.86 times",
            "1.41 times",
            "474 MiB",
            "2.3 per cent",
            "does not bound",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.contains("W-2145: no resync was measured"), "{text}");
    }

    #[test]
    fn a_prediction_that_holds_and_one_that_does_not() {
        // 1,000 K/sec of 14 data members are 13.7 MiB/s: so much of gen() that parity code matters.
        let a = machine("a", &[("x", 20.0)], Some(1000.0));
        let b = machine("b", &[("x", 40.0)], Some(2000.0));
        let c = machine("c", &[("x", 40.0)], Some(1000.0));
        let text = prediction(&[a, b, c], 16).join("\n");
        assert!(
            text.contains("b does 2.00 times a, its resync 2.00 times: gen() is +0 per cent off, gen() would have"),
            "{text}"
        );
        assert!(
            text.contains("c does 2.00 times a, its resync 1.00 times: gen() is +100 per cent off, gen() does not"),
            "{text}"
        );
    }
}
