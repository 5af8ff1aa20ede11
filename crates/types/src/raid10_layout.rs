//! RAID10's layouts: how many copies, and where.

use core::fmt;

/// Where RAID10 puts the copies of a chunk.
///
/// The number holds near copies in bits 0..8, far copies in bits 8..16, "offset" in bit 16 and the newer sets in bits 17 and 18.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raid10Layout {
    /// Copies beside each other, 1 to 255.
    pub near_copies: u8,
    /// Copies far apart, 1 to 255.
    pub far_copies: u8,
    /// Far copies lie in the next stripes instead of the next part of each member.
    pub far_offset: bool,
    /// Far copies stay within sets of members (bit 17).
    pub far_sets: bool,
    /// Far sets as repaired later (bit 18); Linux takes either bit, never both.
    pub far_sets_improved: bool,
}

impl Raid10Layout {
    /// `n` near copies.
    #[must_use]
    pub const fn near(copies: u8) -> Raid10Layout {
        Raid10Layout { near_copies: copies, far_copies: 1, far_offset: false, far_sets: false, far_sets_improved: false }
    }

    /// `n` far copies.
    #[must_use]
    pub const fn far(copies: u8) -> Raid10Layout {
        Raid10Layout { near_copies: 1, far_copies: copies, far_offset: false, far_sets: false, far_sets_improved: false }
    }

    /// `n` copies at an offset of one stripe.
    #[must_use]
    pub const fn offset(copies: u8) -> Raid10Layout {
        Raid10Layout { near_copies: 1, far_copies: copies, far_offset: true, far_sets: false, far_sets_improved: false }
    }

    /// Copies of each chunk.
    #[must_use]
    pub const fn copies(self) -> usize {
        self.near_copies as usize * self.far_copies as usize
    }

    /// The superblock's number.
    #[must_use]
    pub const fn md_number(self) -> u32 {
        self.near_copies as u32
            | (self.far_copies as u32) << 8
            | (self.far_offset as u32) << 16
            | (self.far_sets as u32) << 17
            | (self.far_sets_improved as u32) << 18
    }
    /// The layout of a superblock's number; `None` when there is none that Linux would run.
    #[must_use]
    pub const fn from_md_number(number: u32) -> Option<Raid10Layout> {
        let [near_copies, far_copies, flags, high] = number.to_le_bytes();
        let layout = Raid10Layout {
            near_copies,
            far_copies,
            far_offset: flags & 1 != 0,
            far_sets: flags & 2 != 0,
            far_sets_improved: flags & 4 != 0,
        };
        let is_known = near_copies != 0 && far_copies != 0 && flags & !7 == 0 && high == 0;
        if is_known && !(layout.far_sets && layout.far_sets_improved) { Some(layout) } else { None }
    }

    /// Members in each far set of an array of `members`; `None` without sets.
    #[must_use]
    pub const fn set_members(self, members: usize) -> Option<usize> {
        match (self.far_sets, self.far_sets_improved) {
            (true, _) => Some(members / self.far_copies as usize),
            (_, true) => Some(self.copies()),
            _ => None,
        }
    }

    /// mdadm's `n2`, `f3`, `o2`, or what the layout is shown as, with or without spaces.
    pub(crate) fn from_name(name: &str) -> Option<Raid10Layout> {
        let short = |letter: &str| name.strip_prefix(letter).and_then(copies);
        if let Some(copies) = short("n") {
            return Some(Raid10Layout::near(copies));
        }
        if let Some(copies) = short("f") {
            return Some(Raid10Layout::far(copies));
        }
        if let Some(copies) = short("o") {
            return Some(Raid10Layout::offset(copies));
        }
        let mut layout = Raid10Layout::near(1);
        for part in name.split(',').map(str::trim) {
            match part.split_once('=') {
                Some(("near", near)) => layout.near_copies = copies(near)?,
                Some(("far", far)) => layout.far_copies = copies(far)?,
                Some(("offset", far)) => (layout.far_copies, layout.far_offset) = (copies(far)?, true),
                None if part == FAR_SETS => layout.far_sets_improved = true,
                None if part == OLD_FAR_SETS => layout.far_sets = true,
                _ => return None,
            }
        }
        // A part given twice, or a combination that no array has.
        let canonical = name.replace(' ', "") == layout.to_string().replace(' ', "");
        Raid10Layout::from_md_number(layout.md_number()).filter(|_| canonical)
    }
}

const FAR_SETS: &str = "far-sets";
const OLD_FAR_SETS: &str = "old-far-sets";

fn copies(text: &str) -> Option<u8> {
    text.parse().ok().filter(|&copies| copies > 0)
}

impl fmt::Display for Raid10Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let far = if self.far_offset { "offset" } else { "far" };
        match (self.near_copies, self.far_copies) {
            (near, 1) if !self.far_offset => write!(f, "near={near}")?,
            (1, copies) => write!(f, "{far}={copies}")?,
            (near, copies) => write!(f, "near={near}, {far}={copies}")?,
        }
        match (self.far_sets, self.far_sets_improved) {
            (true, _) => write!(f, ", {OLD_FAR_SETS}"),
            (_, true) => write!(f, ", {FAR_SETS}"),
            _ => Ok(()),
        }
    }
}
