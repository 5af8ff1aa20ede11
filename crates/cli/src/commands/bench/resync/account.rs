//! Where the time of a resync went, and what bounds it: plain arithmetic on what was measured.

use serde::Serialize;

use super::limits::Limits;

const MIB: f64 = 1_048_576.0;

/// A pass as it was measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub seconds: f64,
    /// Bytes of all members that were read.
    pub member_bytes: f64,
    pub members: usize,
    pub parities: usize,
    /// Parity was made and written, not only checked.
    pub writes: bool,
    /// Of the whole process, all threads.
    pub processor_seconds: f64,
    pub kernel_seconds: Option<f64>,
    /// Ready to run while the processors ran others.
    pub queued_seconds: Option<f64>,
}

/// Where the time of a pass went, in seconds of processors, and how close each part came to what it can do alone.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// What the threads had: the pass's time on every processor.
    pub available_seconds: f64,
    /// Parity code; an estimate: the bytes at the rate of the same code on blocks in the cache.
    pub parity_seconds_estimated: f64,
    /// Reading members, which for files in memory is copying; an estimate: the bytes at the bare reads' cost in processor time.
    pub member_reads_seconds_estimated: f64,
    /// The rest of the processor time used: writing, memory slower than the cache, the engine.
    pub other_seconds: f64,
    /// Threads were ready to run, but the processors ran others: mostly other programs.
    pub other_programs_seconds: f64,
    /// What is left: waiting, for members or for other threads.
    pub waiting_seconds: f64,
    /// Measured: processor time within the system's kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_seconds: Option<f64>,
    /// What was reached of the limit of parity code on one thread, 1 for all.
    pub share_of_parity: f64,
    /// Of the limit of the bare reads.
    pub share_of_member_reads: f64,
    /// Of the limit of reading memory: every byte is read once from the member and once by parity code, where it leaves the cache.
    pub share_of_memory: f64,
    /// MiB of all members a second, were parity code and reads all there is, spread over all processors.
    pub both_mib_per_second: f64,
    /// In words.
    pub bound: String,
}

impl Account {
    /// Draws it up.
    pub fn new(pass: &Measured, limits: &Limits) -> Account {
        let mib = pass.member_bytes / MIB;
        let data_mib = mib * (pass.members - pass.parities) as f64 / pass.members as f64;
        let parity_rate = parity_rate(pass.writes, limits);
        let parity = data_mib / parity_rate;
        let reads = mib / limits.bare_reads_per_processor;
        let available = pass.seconds * limits.threads as f64;
        let both_mib_per_second = mib / ((parity + reads) / limits.threads as f64).max(parity).max(mib / limits.bare_reads);
        let rate = mib / pass.seconds;
        let unused = (available - pass.processor_seconds).max(0.0);
        let other_programs = pass.queued_seconds.unwrap_or(0.0).min(unused);
        let mut account = Account {
            available_seconds: available,
            parity_seconds_estimated: parity,
            member_reads_seconds_estimated: reads,
            other_seconds: (pass.processor_seconds - parity - reads).max(0.0),
            other_programs_seconds: other_programs,
            waiting_seconds: unused - other_programs,
            kernel_seconds: pass.kernel_seconds,
            share_of_parity: data_mib / pass.seconds / parity_rate,
            share_of_member_reads: rate / limits.bare_reads,
            share_of_memory: rate * 2.0 / limits.memory_reads,
            both_mib_per_second,
            bound: String::new(),
        };
        account.bound = account.in_words(rate);
        account
    }

    fn in_words(&self, rate: f64) -> String {
        let parts = [
            ("parity code", self.share_of_parity),
            ("reading the members", self.share_of_member_reads),
            ("memory", self.share_of_memory),
        ];
        let (part, share) = parts.into_iter().fold(("", 0.0), |most, part| if part.1 > most.1 { part } else { most });
        let percent = |seconds: f64| seconds / self.available_seconds.max(1e-9) * 100.0;
        let reached = rate / self.both_mib_per_second * 100.0;
        let mut text = format!(
            "{part} is closest to its own limit, at {:.0} per cent of it; parity code and reads together \
             would allow {:.0} MiB/s, of which {reached:.0} per cent were reached",
            share * 100.0,
            self.both_mib_per_second
        );
        if share > 1.1 {
            text +=
                "; more than a limit can only be while other programs disturb its measuring: measure again, with larger members";
        }
        for (what, seconds) in
            [("went by waiting", self.waiting_seconds), ("was taken by other programs", self.other_programs_seconds)]
        {
            if percent(seconds) > 20.0 {
                text += &format!("; {:.0} per cent of the processors' time {what}", percent(seconds));
            }
        }
        text
    }
}

/// MiB of data a second of parity code on one thread. A pass that finds parity wrong makes it after it has checked.
fn parity_rate(writes: bool, limits: &Limits) -> f64 {
    if writes { 1.0 / (1.0 / limits.check + 1.0 / limits.generate) } else { limits.check }
}

/// The same array on members of a given speed.
#[derive(Clone, Debug, Serialize)]
pub struct OnMembers {
    /// Bytes a second that each member reads or writes.
    pub member_bytes_per_second: u64,
    /// What a resync would reach; an estimate.
    pub kib_per_second_and_member: u64,
    /// `members`, or `this machine`.
    pub bound: &'static str,
    /// The share of the time that the other of the two would be busy.
    pub other_busy: f64,
}

impl OnMembers {
    /// What was measured in memory, next to members that take `rate` bytes a second, reads and writes together.
    pub fn new(pass: &Measured, rate: u64) -> OnMembers {
        // Parity rotates: of each member's blocks this share is written, after it has been read.
        let moved = if pass.writes { 1.0 + pass.parities as f64 / pass.members as f64 } else { 1.0 };
        let by_members = rate as f64 / moved;
        let here = pass.member_bytes / pass.members as f64 / pass.seconds;
        let reached = by_members.min(here);
        let bound = if by_members <= here { "members" } else { "this machine" };
        OnMembers {
            member_bytes_per_second: rate,
            kib_per_second_and_member: (reached / 1024.0) as u64,
            bound,
            other_busy: reached / by_members.max(here),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        threads: 2,
        bare_reads: 8000.0,
        bare_reads_per_processor: 4000.0,
        check: 14000.0,
        generate: 14000.0,
        kernel: "x",
        memory_reads: 20000.0,
    };

    /// 16,000 MiB of 16 members in 4 seconds.
    fn pass(writes: bool) -> Measured {
        let member_bytes = 16000.0 * MIB;
        Measured {
            seconds: 4.0,
            member_bytes,
            members: 16,
            parities: 2,
            writes,
            processor_seconds: 6.0,
            kernel_seconds: None,
            queued_seconds: Some(0.5),
        }
    }

    #[test]
    fn time_adds_up() {
        let account = Account::new(&pass(false), &LIMITS);
        // 14,000 MiB of data at 14,000; 16,000 MiB at 4,000; 2 processors for 4 seconds, of which 6 were used.
        assert!(
            (account.parity_seconds_estimated - 1.0).abs() < 1e-9 && (account.member_reads_seconds_estimated - 4.0).abs() < 1e-9
        );
        assert!((account.other_seconds - 1.0).abs() < 1e-9 && (account.waiting_seconds - 1.5).abs() < 1e-9);
        assert!((account.other_programs_seconds - 0.5).abs() < 1e-9);
        // 3,500 of 14,000, 4,000 of 8,000, 8,000 of 20,000.
        let shares = [account.share_of_parity, account.share_of_member_reads, account.share_of_memory];
        assert!(shares.iter().zip([0.25, 0.5, 0.4]).all(|(share, expected)| (share - expected).abs() < 1e-9), "{shares:?}");
        // 5 seconds of work on 2 processors: 16,000 MiB in 2.5 seconds.
        assert!((account.both_mib_per_second - 6400.0).abs() < 1e-6);
        assert!(account.bound.starts_with("reading the members") && account.bound.contains("50 per cent"), "{}", account.bound);
        // Made and checked: twice the parity code.
        assert!((Account::new(&pass(true), &LIMITS).parity_seconds_estimated - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_slower_of_members_and_machine_bounds() {
        // The machine does 250 MiB/s a member.
        let slow = OnMembers::new(&pass(false), 100 << 20);
        assert_eq!((slow.bound, slow.kib_per_second_and_member), ("members", 102_400));
        assert!((slow.other_busy - 0.4).abs() < 1e-9);
        let fast = OnMembers::new(&pass(false), 1000 << 20);
        assert_eq!((fast.bound, fast.kib_per_second_and_member), ("this machine", 256_000));
        // 16 blocks read and 2 written of 18 that the members move.
        assert_eq!(OnMembers::new(&pass(true), 225 << 20).kib_per_second_and_member, 204_800);
    }
}
