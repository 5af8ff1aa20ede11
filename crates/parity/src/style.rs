//! How a kernel goes about its work, beside its instructions and its unrolling.

/// A kernel's manner; every one of them gives the same result.
pub(crate) trait Style {
    /// Write past the caches what is written but not read. Right for work that no cache holds (a line that is only written
    /// need not be fetched first), several times too slow for work that one does.
    const STREAMING: bool;

    /// A loop of its own for each number of data disks up to [`MOST_COUNTED`]: the disks' addresses stay in registers, and
    /// nothing is counted or looked up between two loads.
    const COUNTED: bool;

    /// The style without its loops by the number of disks: for jobs that are rare, or do not gain by them.
    type Uncounted: Style;
}

/// The most data disks that have a loop of their own: more addresses than that fit in no register file.
pub(crate) const MOST_COUNTED: usize = 16;

/// One loop for any number of disks, ordinary stores.
pub(crate) struct Plain;

/// [`Plain`] with streaming stores.
pub(crate) struct Streaming;

/// Loops by the number of disks, ordinary stores.
pub(crate) struct Counted;

impl Style for Plain {
    const STREAMING: bool = false;
    const COUNTED: bool = false;
    type Uncounted = Plain;
}

impl Style for Streaming {
    const STREAMING: bool = true;
    const COUNTED: bool = false;
    type Uncounted = Streaming;
}

impl Style for Counted {
    const STREAMING: bool = false;
    const COUNTED: bool = true;
    type Uncounted = Plain;
}
