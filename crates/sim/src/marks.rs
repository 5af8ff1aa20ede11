//! Coverage marks: proof that rare paths were reached.

use std::collections::BTreeMap;

/// How often each path was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<&'static str, u64>);

impl Marks {
    /// Once more.
    pub fn hit(&mut self, mark: &'static str) {
        self.add(mark, 1);
    }

    /// So many times more.
    pub fn add(&mut self, mark: &'static str, count: u64) {
        *self.0.entry(mark).or_default() += count;
    }

    /// How often.
    #[must_use]
    pub fn count(&self, mark: &str) -> u64 {
        self.0.get(mark).copied().unwrap_or(0)
    }

    /// Those of another run as well.
    pub fn merge(&mut self, other: &Marks) {
        for (mark, count) in &other.0 {
            self.add(mark, *count);
        }
    }

    /// All of them in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(&mark, &count)| (mark, count))
    }
}

/// What a run over many seeds must reach.
pub const WANTED: &[&str] = &[
    "ack after loss",
    "add",
    "assembled forced",
    "assembled read-only",
    "bitmap skip",
    "broken",
    "check found nothing",
    "crash",
    "crash in metadata",
    "degraded read",
    "direct write",
    "flush failed",
    "life",
    "lost member",
    "member left out",
    "no space",
    "re-add",
    "re-add by bitmap",
    "read repaired",
    "reconstruct",
    "read-modify-write",
    "rebuild first",
    "recovery",
    "recovery resumed",
    "resync",
    "resync resumed",
    "shutdown",
    "spare takeover",
    "torn write",
    "write joined",
];
