//! Files rewritten from the start: what a fixed-size file does about O_TRUNC. No I/O.
//!
//! The file cannot shrink, so truncating it to nothing keeps its bytes, as on a block device. A program that truncates a regular
//! file and then skips over holes, as cp(1) does with a sparse source, takes for granted that the holes read as zeros. So for a
//! process that has truncated, the gap before a write beyond everything it has written since is to be zeroed.

use std::ops::Range;

/// Processes remembered; the oldest is forgotten first.
const MAX_REMEMBERED: usize = 64;

/// Processes that truncated the file, each with the end of what it has written since.
#[derive(Default)]
pub(super) struct Rewrites {
    by_process: Vec<(u32, u64)>,
}

impl Rewrites {
    /// Process `pid` has truncated the file to nothing.
    pub(super) fn start(&mut self, pid: u32) {
        self.end(pid);
        if self.by_process.len() == MAX_REMEMBERED {
            self.by_process.remove(0);
        }
        self.by_process.push((pid, 0));
    }

    /// Process `pid` has closed the file.
    pub(super) fn end(&mut self, pid: u32) {
        self.by_process.retain(|(known, _)| *known != pid);
    }

    /// Process `pid` is about to write `range`: what must be zeroed before.
    pub(super) fn write(&mut self, pid: u32, range: Range<u64>) -> Option<Range<u64>> {
        let (_, written) = self.by_process.iter_mut().find(|(known, _)| *known == pid)?;
        let gap = *written..range.start;
        *written = range.end.max(*written);
        (!gap.is_empty()).then_some(gap)
    }

    /// Has process `pid` truncated the file?
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.by_process.iter().any(|(known, _)| *known == pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_count_only_for_a_process_that_truncated_and_only_until_it_closes() {
        let mut rewrites = Rewrites::default();
        assert_eq!(rewrites.write(1, 100..200), None);
        rewrites.start(1);
        assert_eq!(rewrites.write(2, 100..200), None);
        assert_eq!(rewrites.write(1, 0..50), None);
        assert_eq!(rewrites.write(1, 80..100), Some(50..80));
        assert_eq!(rewrites.write(1, 10..20), None);
        assert_eq!(rewrites.write(1, 100..120), None);
        rewrites.end(1);
        assert_eq!(rewrites.write(1, 500..600), None);
    }

    #[test]
    fn no_more_than_a_few_processes_are_remembered() {
        let mut rewrites = Rewrites::default();
        (0..1000).for_each(|pid| rewrites.start(pid));
        assert!(!rewrites.knows(935) && rewrites.knows(936) && rewrites.knows(999));
    }
}
