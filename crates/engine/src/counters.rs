//! How often which path was taken.

use uraid_device::IoOp;

use crate::ops::Op;

/// Counted since the engine was made. For reports, and for tests that must show which paths they reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Runs of rows whose parity was computed from all data.
    pub reconstructs: u64,
    /// Runs of rows whose parity was changed by the difference.
    pub read_modify_writes: u64,
    /// Runs of rows whose lost data was rebuilt before their parity was computed.
    pub rebuilds_first: u64,
    /// Runs of rows written without parity, whose members are missing.
    pub data_only: u64,
    /// Pieces of writes that joined an operation that was waiting.
    pub joined: u64,
    /// Reads answered by rebuilding.
    pub rebuilt_reads: u64,
    /// Stretches of a run over the array that the bitmap let it skip.
    pub skips: u64,
    /// Member I/Os.
    pub ios: MemberIos,
}

/// Member I/Os that have ended, by what they were for. Flushes are counted once for each member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberIos {
    /// Reads that answer requests; those of the other members where one's contents had to be rebuilt, too.
    pub request_reads: u64,
    /// Reads of old data and old parity, for writes.
    pub write_reads: u64,
    /// Writes of data, copies and parity.
    pub request_writes: u64,
    /// Reads of runs over the array.
    pub sync_reads: u64,
    /// What runs over the array wrote.
    pub sync_writes: u64,
    /// Reads and writes that put back a block that could not be read.
    pub corrections: u64,
    /// Flushes.
    pub flushes: u64,
}

impl MemberIos {
    /// Counts one.
    pub(crate) fn count(&mut self, of: &Op, io: &IoOp) {
        let is_read = matches!(io, IoOp::Read { .. });
        let counter = match of {
            _ if matches!(io, IoOp::Flush) => &mut self.flushes,
            Op::DirectRead(_) | Op::StripeRead(_) | Op::CopyRead(_) => &mut self.request_reads,
            Op::StripeWrite(_) | Op::CopyWrite(_) if is_read => &mut self.write_reads,
            Op::StripeWrite(_) | Op::CopyWrite(_) => &mut self.request_writes,
            Op::ParityWindow(_) | Op::CopyWindow(_) if is_read => &mut self.sync_reads,
            Op::ParityWindow(_) | Op::CopyWindow(_) => &mut self.sync_writes,
            Op::StripeFix(_) | Op::CopyFix(_) | Op::Flush(_) | Op::Busy => &mut self.corrections,
        };
        *counter += 1;
    }
}
