//! The arrays that both sides make.

/// Bytes of a member: small, so that many arrays can be tried.
const MEMBER_BYTES: u64 = 5 << 20;
/// What each further member has more where members differ: no whole number of chunks.
const MORE_BYTES: u64 = (1 << 20) + 20_480;

/// One array.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Also the array's name.
    pub name: &'static str,
    /// As both sides name it.
    pub level: &'static str,
    /// Empty for the level's own.
    pub layout: &'static str,
    /// Members.
    pub members: usize,
    /// KiB; 0 where the level has no chunks.
    pub chunk_kib: u32,
    /// Version of the superblock.
    pub metadata: &'static str,
    /// With an internal bitmap.
    pub bitmap: bool,
    /// Members have so many sizes, in turn; 1 for equal members.
    pub sizes: usize,
    /// How many members may be lost, whichever they are.
    pub may_lose: usize,
    /// The last slots have no member.
    pub missing: usize,
    /// Members beyond the slots.
    pub spares: usize,
    /// Every set of lost members is tried, not just some.
    pub every_loss: bool,
    /// Left out unless `URAID_REFEREE_ALL=1`: its like is among the others.
    pub extra: bool,
}

const fn case(name: &'static str, level: &'static str, layout: &'static str, members: usize, chunk_kib: u32) -> Case {
    Case {
        name,
        level,
        layout,
        members,
        chunk_kib,
        metadata: "1.2",
        bitmap: false,
        sizes: 1,
        may_lose: 0,
        missing: 0,
        spares: 0,
        every_loss: false,
        extra: false,
    }
}

impl Case {
    const fn metadata(self, metadata: &'static str) -> Case {
        Case { metadata, ..self }
    }

    const fn bitmap(self) -> Case {
        Case { bitmap: true, ..self }
    }

    const fn sizes(self, sizes: usize) -> Case {
        Case { sizes, ..self }
    }

    const fn may_lose(self, may_lose: usize) -> Case {
        Case { may_lose, ..self }
    }

    const fn missing(self, missing: usize) -> Case {
        Case { missing, ..self }
    }

    const fn spares(self, spares: usize) -> Case {
        Case { spares, ..self }
    }

    const fn every_loss(self) -> Case {
        Case { every_loss: true, ..self }
    }

    const fn extra(self) -> Case {
        Case { extra: true, ..self }
    }

    /// Options that `mdadm --create` and `uraid create` both take.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec![
            format!("--level={}", self.level),
            format!("--raid-devices={}", self.members),
            format!("--metadata={}", self.metadata),
            format!("--name={}", self.name),
        ];
        if self.chunk_kib > 0 {
            options.push(format!("--chunk={}", self.chunk_kib));
        }
        if !self.layout.is_empty() {
            options.push(format!("--layout={}", self.layout.replace(' ', "")));
        }
        if self.spares > 0 {
            options.push(format!("--spare-devices={}", self.spares));
        }
        if self.is_redundant() {
            options.push(format!("--bitmap={}", if self.bitmap { "internal" } else { "none" }));
        }
        options
    }

    /// Are there copies or parity to check?
    pub fn is_redundant(&self) -> bool {
        self.may_lose > 0
    }

    /// Size of a member in bytes.
    pub fn member_bytes(&self, index: usize) -> u64 {
        MEMBER_BYTES + (index % self.sizes) as u64 * MORE_BYTES
    }

    /// The members' names: slots, the word `missing` among them, then spares.
    pub fn files(&self) -> Vec<String> {
        let gaps = self.members - self.missing..self.members;
        let name = |index| if gaps.contains(&index) { "missing".to_owned() } else { format!("{}.{index}", self.name) };
        (0..self.members + self.spares).map(name).collect()
    }

    /// Sets of members to lose that leave enough: each, and smaller ones too, but for time's sake.
    pub fn losses(&self) -> Vec<Vec<usize>> {
        let fewest = if self.every_loss { 1 } else { self.may_lose.max(1) };
        let all: Vec<Vec<usize>> = (1u32..1 << self.members)
            .filter(|set| (fewest..=self.may_lose).contains(&(set.count_ones() as usize)))
            .map(|set| (0..self.members).filter(|index| set & 1 << index != 0).collect())
            .collect();
        let step = if self.every_loss || everything() { 1 } else { (all.len() / 2).max(1) };
        all.into_iter().step_by(step).collect()
    }
}

/// Is the long set of cases asked for?
pub fn everything() -> bool {
    std::env::var_os("URAID_REFEREE_ALL").is_some_and(|value| value == "1")
}

/// The cases of a table that are to be run.
pub fn chosen(cases: &[Case]) -> Vec<Case> {
    cases.iter().copied().filter(|case| !case.extra || everything()).collect()
}

/// Without parity: one after another, stripes, mirrors.
pub const PLAIN: &[Case] = &[
    case("linear", "linear", "", 2, 0),
    case("linear-unequal", "linear", "", 3, 0).metadata("1.0").sizes(3),
    case("linear-odd", "linear", "", 5, 0).metadata("1.1").sizes(2),
    case("stripe", "0", "", 3, 16).metadata("1.1"),
    case("stripe-big", "0", "", 2, 512).extra(),
    case("stripe-original", "0", "original", 4, 64).sizes(4),
    case("stripe-original-odd", "0", "original", 5, 20).sizes(3).metadata("1.0"),
    case("stripe-alternate", "0", "alternate", 3, 4).sizes(3).metadata("1.0"),
    case("stripe-alternate-odd", "0", "alternate", 5, 12).sizes(3),
    case("mirror", "1", "", 2, 0).may_lose(1),
    case("mirror3", "1", "", 3, 0).may_lose(2).bitmap().metadata("1.0").every_loss(),
    case("mirror-front", "1", "", 2, 0).may_lose(1).bitmap().metadata("1.1").extra(),
];

/// One parity.
pub const PARITY: &[Case] = &[
    case("four", "4", "", 4, 64).may_lose(1).every_loss(),
    case("four-end", "4", "", 3, 16).may_lose(1).bitmap().metadata("1.0").extra(),
    case("five-la", "5", "left-asymmetric", 4, 4).may_lose(1).metadata("1.0"),
    case("five-ra", "5", "right-asymmetric", 3, 16).may_lose(1).bitmap(),
    case("five-ls", "5", "left-symmetric", 5, 64).may_lose(1).every_loss(),
    case("five-rs", "5", "right-symmetric", 4, 128).may_lose(1).metadata("1.1"),
    case("five-p0", "5", "parity-first", 3, 512).may_lose(1).bitmap().metadata("1.0"),
    case("five-pn", "5", "parity-last", 4, 32).may_lose(1),
    case("five-two", "5", "left-symmetric", 2, 16).may_lose(1).extra(),
];

/// Two parities.
pub const TWO_PARITIES: &[Case] = &[
    case("six-la", "6", "left-asymmetric", 4, 16).may_lose(2).metadata("1.1"),
    case("six-ra", "6", "right-asymmetric", 5, 4).may_lose(2).bitmap().metadata("1.0"),
    case("six-ls", "6", "left-symmetric", 5, 64).may_lose(2).every_loss(),
    case("six-rs", "6", "right-symmetric", 6, 32).may_lose(2).bitmap(),
    case("six-p0", "6", "parity-first", 5, 128).may_lose(2),
    case("six-pn", "6", "parity-last", 4, 512).may_lose(2),
    case("six-wide", "6", "left-symmetric", 8, 64).may_lose(2).bitmap().extra(),
];

/// Two parities where DDF has them, and where conversions from one parity leave them.
pub const CONVERTED: &[Case] = &[
    case("ddf-zero", "6", "ddf-zero-restart", 5, 16).may_lose(2).every_loss(),
    case("ddf-n", "6", "ddf-N-restart", 5, 64).may_lose(2).every_loss().metadata("1.0"),
    case("ddf-on", "6", "ddf-N-continue", 5, 32).may_lose(2).every_loss().bitmap(),
    case("ddf-least", "6", "ddf-N-restart", 4, 4).may_lose(2).every_loss(),
    case("ddf-wide", "6", "ddf-N-continue", 7, 128).may_lose(2),
    case("six-la-6", "6", "left-asymmetric-6", 5, 64).may_lose(2).every_loss(),
    case("six-ra-6", "6", "right-asymmetric-6", 5, 16).may_lose(2).every_loss().metadata("1.1"),
    case("six-ls-6", "6", "left-symmetric-6", 5, 4).may_lose(2).every_loss().bitmap(),
    case("six-rs-6", "6", "right-symmetric-6", 5, 128).may_lose(2).every_loss(),
    case("six-p0-6", "6", "parity-first-6", 5, 32).may_lose(2).every_loss(),
    case("six-ls-6-least", "6", "left-symmetric-6", 4, 64).may_lose(2).every_loss(),
];

/// Layouts of striped copies that mdadm has no name for.
pub const COMBINED: &[Case] = &[
    case("ten-nf", "10", "near=2, far=2", 5, 64).may_lose(3),
    case("ten-no", "10", "near=2, offset=2", 6, 16).may_lose(3),
    case("ten-nf-odd", "10", "near=3, far=2", 7, 32).may_lose(5).metadata("1.0"),
    case("ten-sets", "10", "far=2, far-sets", 5, 64).may_lose(1).every_loss(),
    case("ten-sets-old", "10", "far=2, old-far-sets", 6, 16).may_lose(1).every_loss().bitmap(),
    case("ten-sets-three", "10", "far=3, far-sets", 7, 32).may_lose(2).metadata("1.1"),
    case("ten-nf-sets", "10", "near=2, far=2, far-sets", 8, 16).may_lose(3),
];

/// Striped copies.
pub const COPIES: &[Case] = &[
    case("ten-n2", "10", "n2", 4, 64).may_lose(1).every_loss(),
    case("ten-n2-odd", "10", "n2", 3, 16).may_lose(1).bitmap().metadata("1.0"),
    case("ten-n3", "10", "n3", 5, 4).may_lose(2).metadata("1.1"),
    case("ten-f2", "10", "f2", 4, 32).may_lose(1).bitmap(),
    case("ten-f2-odd", "10", "f2", 3, 64).may_lose(1).metadata("1.0").extra(),
    case("ten-f3", "10", "f3", 5, 16).may_lose(2),
    case("ten-o2", "10", "o2", 4, 128).may_lose(1).metadata("1.1"),
    case("ten-o2-odd", "10", "o2", 5, 512).may_lose(1),
    case("ten-o3", "10", "o3", 4, 16).may_lose(2).bitmap(),
];

/// Arrays that begin without all their members, or with more.
pub const INCOMPLETE: &[Case] = &[
    case("mirror-half", "1", "", 2, 0).may_lose(1).missing(1).bitmap(),
    case("five-gap", "5", "left-symmetric", 4, 64).may_lose(1).missing(1).metadata("1.0"),
    case("five-spare", "5", "left-symmetric", 3, 64).may_lose(1).spares(2),
    case("six-gap", "6", "left-symmetric", 5, 32).may_lose(2).missing(1),
    case("six-gaps", "6", "right-symmetric", 5, 16).may_lose(2).missing(2).bitmap(),
    case("ten-gap", "10", "n2", 4, 64).may_lose(1).missing(1).metadata("1.1"),
    case("ten-gap-spare", "10", "o2", 3, 64).may_lose(1).missing(1).spares(1),
];

/// Arrays that lose a member.
pub const LOSSES: &[Case] = &[
    case("lost-one", "1", "", 2, 0).may_lose(1),
    case("lost-four", "4", "", 3, 64).may_lose(1).extra(),
    case("lost-five", "5", "left-symmetric", 4, 64).may_lose(1).bitmap(),
    case("lost-six", "6", "right-asymmetric", 5, 16).may_lose(2).metadata("1.1"),
    case("lost-ddf", "6", "ddf-N-restart", 5, 64).may_lose(2),
    case("lost-converted", "6", "left-symmetric-6", 5, 16).may_lose(2).bitmap(),
    case("lost-ten-n", "10", "n2", 4, 64).may_lose(1).metadata("1.0").bitmap(),
    case("lost-ten-f", "10", "f2", 3, 16).may_lose(1),
    case("lost-ten-o", "10", "o2", 4, 32).may_lose(1).extra(),
];

/// Arrays with a bitmap whose last member holds parity or copies only.
pub const BITMAPS: &[Case] = &[
    case("bits-one", "1", "", 2, 0).may_lose(1).bitmap(),
    case("bits-four", "4", "", 4, 64).may_lose(1).bitmap(),
    case("bits-six", "6", "parity-last", 5, 64).may_lose(2).bitmap(),
    case("bits-ten", "10", "n2", 4, 64).may_lose(1).bitmap(),
];
