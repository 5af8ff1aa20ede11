//! How often which path was taken.

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
}
