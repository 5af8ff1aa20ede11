//! Levels and layouts.

/// Bytes of a member.
const MEMBER_BYTES: u64 = 3 << 20;
/// What each further member has more, where members differ.
const MORE_BYTES: u64 = (1 << 20) + 20_480;

/// The versions of metadata that both sides create.
pub const METADATA: [&str; 4] = ["0.90", "1.0", "1.1", "1.2"];

/// A level with a layout.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    pub level: &'static str,
    /// Empty for the level's own.
    pub layout: &'static str,
    pub members: usize,
    /// KiB; 0 where there are none.
    pub chunk_kib: u32,
    /// Members of so many sizes, in turn.
    pub sizes: usize,
    /// Any so many members may be lost.
    pub may_lose: usize,
}

const fn shape(level: &'static str, layout: &'static str, members: usize, chunk_kib: u32, may_lose: usize) -> Shape {
    Shape { level, layout, members, chunk_kib, sizes: 1, may_lose }
}

const fn unequal(shape: Shape) -> Shape {
    Shape { sizes: 3, ..shape }
}

/// Every layout that mdadm has a name for, and odd numbers of members.
pub const SHAPES: &[Shape] = &[
    shape("linear", "", 2, 0, 0),
    unequal(shape("linear", "", 4, 0, 0)),
    shape("0", "", 3, 64, 0),
    unequal(shape("0", "original", 4, 16, 0)),
    unequal(shape("0", "alternate", 5, 4, 0)),
    shape("1", "", 2, 0, 1),
    shape("1", "", 3, 0, 2),
    shape("4", "", 3, 64, 1),
    shape("4", "", 5, 16, 1),
    shape("5", "left-asymmetric", 4, 64, 1),
    shape("5", "right-asymmetric", 5, 16, 1),
    shape("5", "left-symmetric", 3, 4, 1),
    shape("5", "left-symmetric", 6, 128, 1),
    shape("5", "right-symmetric", 4, 32, 1),
    shape("5", "parity-first", 5, 64, 1),
    shape("5", "parity-last", 4, 16, 1),
    shape("6", "left-asymmetric", 5, 64, 2),
    shape("6", "right-asymmetric", 4, 16, 2),
    shape("6", "left-symmetric", 4, 4, 2),
    shape("6", "left-symmetric", 7, 64, 2),
    shape("6", "right-symmetric", 5, 32, 2),
    shape("6", "parity-first", 6, 16, 2),
    shape("6", "parity-last", 5, 128, 2),
    shape("6", "ddf-zero-restart", 5, 64, 2),
    shape("6", "ddf-N-restart", 6, 16, 2),
    shape("6", "ddf-N-continue", 4, 32, 2),
    shape("6", "left-asymmetric-6", 5, 16, 2),
    shape("6", "right-asymmetric-6", 6, 64, 2),
    shape("6", "left-symmetric-6", 5, 32, 2),
    shape("6", "right-symmetric-6", 4, 4, 2),
    shape("6", "parity-first-6", 5, 64, 2),
    shape("10", "n2", 4, 64, 1),
    shape("10", "n2", 5, 16, 1),
    shape("10", "n3", 4, 32, 2),
    shape("10", "f2", 4, 64, 1),
    shape("10", "f2", 3, 16, 1),
    shape("10", "f3", 5, 4, 2),
    shape("10", "o2", 4, 32, 1),
    shape("10", "o2", 5, 64, 1),
    shape("10", "o3", 4, 16, 2),
];

impl Shape {
    /// Size of a member in bytes.
    pub fn member_bytes(&self, index: usize) -> u64 {
        MEMBER_BYTES + (index % self.sizes) as u64 * MORE_BYTES
    }

    /// Options of both sides.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec![format!("--level={}", self.level), format!("--raid-devices={}", self.members)];
        options.extend((self.chunk_kib > 0).then(|| format!("--chunk={}", self.chunk_kib)));
        options.extend((!self.layout.is_empty()).then(|| format!("--layout={}", self.layout)));
        options
    }

    /// Can it be under that metadata? Version 0.90 does not record how RAID0 goes on when its smaller members are full.
    pub fn fits(&self, metadata: &str) -> bool {
        !(self.level == "0" && metadata == "0.90")
    }

    /// Are there copies or parity?
    pub fn is_redundant(&self) -> bool {
        self.may_lose > 0
    }
}
