//! From which Linux on a member assembles: the one table of what in its metadata needs which kernel.
//!
//! Where a fact comes from stands beside it. `md(4)` and `md.rst` are the manual page and the kernel's
//! Documentation/admin-guide/md.rst; "notes" are what was published of the release that is named (kernelnewbies' LinuxChanges, the
//! maintainer's pull requests, the "Kernel Log" of heise online for 3.1).

use core::fmt;

use uraid_types::{Layout, Level, ParityLayout};

use crate::{Feature, RawFields, RawFields090};

/// A release of Linux: `2.6.10`, `3.5`, `6.19`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion(pub u16, pub u16, pub u16);

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelVersion(major, minor, patch) = *self;
        // Until 3.0 releases had three numbers.
        if major < 3 { write!(f, "{major}.{minor}.{patch}") } else { write!(f, "{major}.{minor}") }
    }
}

/// Something in a member's metadata that needs a certain kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What it is, in a few words.
    pub what: String,
    /// The first Linux that takes it; `None` when none is known to.
    pub since: Option<KernelVersion>,
    /// Releases, from the first to before the second, that take it no more.
    pub except: Option<(KernelVersion, KernelVersion)>,
    /// What to know besides.
    pub note: Option<&'static str>,
    /// Where this is said.
    pub source: &'static str,
}

/// What a member's metadata asks of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compat {
    /// Everything, the metadata's version first.
    pub needs: Vec<Need>,
}

impl Compat {
    /// What a version-1 superblock asks for. `bitmap_version` is the number in its internal bitmap's superblock.
    #[must_use]
    pub fn of(fields: &RawFields, bitmap_version: Option<u32>) -> Compat {
        let has = |feature: Feature| fields.feature_map & feature as u32 != 0;
        let mut needs = vec![need("metadata 1.x", (2, 6, 10), "md(4)")];
        level(&mut needs, fields.level, fields.layout, u64::from(fields.chunksize) * 512);
        if fields.level == 0 && !has(Feature::Raid0Layout) {
            needs.push(unrecorded_zones());
        }
        needs.extend(Feature::ALL.into_iter().filter(|&feature| has(feature)).map(feature));
        if has(Feature::Bitmap) {
            needs.extend(bitmap(fields.level, bitmap_version));
        }
        if fields.logical_block_size != 0 {
            let what = format!("logical block size of {} bytes at byte 224", fields.logical_block_size);
            let note = "earlier kernels take it for padding that must be zero, and refuse the member";
            needs.push(Need { note: Some(note), ..need(what, (6, 19, 0), "md.rst") });
        }
        let unknown = fields.feature_map & !Feature::all_bits();
        if unknown != 0 {
            needs.push(nobody(format!("feature bits {unknown:#x}, which have no name yet")));
        }
        if fields.major_version != 1 {
            needs.push(nobody(format!("major version {}", fields.major_version)));
        }
        if fields.checksum_expected != Some(fields.checksum_found) {
            needs.push(nobody("checksum that is wrong".to_owned()));
        }
        Compat { needs }
    }

    /// What a superblock of version 0.90 asks for.
    #[must_use]
    pub fn of_090(fields: &RawFields090, bitmap_version: Option<u32>) -> Compat {
        /// Bits of `state`.
        const CLUSTERED: u32 = 1 << 5;
        const BITMAP: u32 = 1 << 8;
        let note = "taken by machines of its own byte order only";
        let mut needs =
            vec![Need { note: Some(note), ..need("metadata 0.90", (2, 4, 0), "md(4): the only format before 2.6.10") }];
        level(&mut needs, fields.level, fields.layout, u64::from(fields.chunk_size));
        if fields.level == 0 {
            needs.push(unrecorded_zones());
        }
        if fields.minor_version == 91 {
            needs.push(feature(Feature::ReshapeActive));
        }
        if fields.state & BITMAP != 0 {
            needs.push(feature(Feature::Bitmap));
            needs.extend(bitmap(fields.level, bitmap_version));
        }
        if fields.state & CLUSTERED != 0 {
            needs.push(feature(Feature::Clustered));
        }
        if fields.checksum_expected != fields.checksum_found {
            needs.push(nobody("checksum that is wrong".to_owned()));
        }
        Compat { needs }
    }

    /// The first Linux that takes all of it; `None` when none is known to.
    #[must_use]
    pub fn since(&self) -> Option<KernelVersion> {
        self.needs.iter().map(|need| need.since).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// What keeps `kernel` from taking the member.
    pub fn obstacles(&self, kernel: KernelVersion) -> impl Iterator<Item = &Need> {
        self.needs.iter().filter(move |need| {
            let gone = need.except.is_some_and(|(from, back)| (from..back).contains(&kernel));
            gone || need.since.is_none_or(|since| kernel < since)
        })
    }
}

fn need(what: impl Into<String>, (major, minor, patch): (u16, u16, u16), source: &'static str) -> Need {
    Need { what: what.into(), since: Some(KernelVersion(major, minor, patch)), except: None, note: None, source }
}

fn nobody(what: String) -> Need {
    Need { what, since: None, except: None, note: None, source: "linux/raid/md_p.h" }
}

/// The bits of `feature_map`.
fn feature(feature: Feature) -> Need {
    let (what, since, source) = match feature {
        Feature::Bitmap => ("internal write-intent bitmap", (2, 6, 13), "md(4)"),
        Feature::RecoveryOffset => ("a recovery that goes on where it was", (2, 6, 18), "notes"),
        Feature::ReshapeActive => ("a reshape part way", (2, 6, 17), "notes"),
        Feature::BadBlocks => ("recorded bad blocks", (3, 1, 0), "notes"),
        Feature::Replacement => ("a replacement part way", (3, 3, 0), "notes"),
        Feature::ReshapeBackwards => ("a reshape backwards", (3, 5, 0), "notes"),
        Feature::NewOffset => ("a reshape to a new data offset", (3, 5, 0), "notes"),
        Feature::RecoveryBitmap => ("a recovery by the bitmap", (3, 14, 0), "notes"),
        Feature::Clustered => ("a cluster's array", (4, 1, 0), "notes"),
        Feature::Journal => ("a write journal", (4, 4, 0), "md(4)"),
        Feature::Ppl => ("a partial parity log (PPL)", (4, 12, 0), "md(4)"),
        Feature::MultiplePpls => ("several PPLs in turn", (4, 14, 0), "notes"),
        Feature::Raid0Layout => ("a RAID0 layout that is recorded", (5, 4, 0), "md(4)"),
    };
    need(what, since, source)
}

/// The level and its layout.
fn level(needs: &mut Vec<Need>, number: i32, layout_number: u32, chunk_bytes: u64) {
    let Some(level) = Level::from_md_number(number) else {
        needs.push(nobody(format!("level {number}")));
        return;
    };
    match level {
        Level::Linear => needs.push(Need {
            except: Some((KernelVersion(6, 8, 0), KernelVersion(6, 14, 0))),
            note: Some("removed in 6.8, back in 6.14"),
            ..need("level linear", (2, 4, 0), "notes")
        }),
        Level::Raid0 if !chunk_bytes.is_power_of_two() => {
            needs.push(need("a chunk that is no power of two", (2, 6, 31), "md(4)"));
        }
        Level::Raid6 => needs.push(need("level raid6", (2, 6, 2), "notes")),
        Level::Raid10 => needs.push(need("level raid10", (2, 6, 9), "notes")),
        Level::Raid0 | Level::Raid1 | Level::Raid4 | Level::Raid5 => {}
    }
    // RAID0's number counts only with its feature, which has its own line.
    let layout = if level == Level::Raid0 {
        Ok(Layout::Raid0(uraid_types::Raid0Layout::Unspecified))
    } else {
        Layout::from_md_number(level, layout_number)
    };
    match layout {
        Err(_) => needs.push(nobody(format!("layout {layout_number:#x} at level {level}"))),
        Ok(Layout::Raid10(layout)) => {
            if layout.far_offset {
                needs.push(need("copies at an offset", (2, 6, 18), "md(4)"));
            }
            if layout.far_sets {
                needs.push(need("far copies within sets", (3, 9, 0), "notes"));
            }
            if layout.far_sets_improved {
                needs.push(need("far copies within sets, as repaired later", (4, 4, 0), "notes"));
            }
        }
        Ok(Layout::Parity(found)) if level != Level::Raid4 && found as u32 > ParityLayout::RightSymmetric as u32 => {
            needs.push(need(format!("layout {}", Layout::Parity(found)), (2, 6, 30), "notes"));
        }
        Ok(_) => {}
    }
}

/// A RAID0 that does not say how its zones are laid out: no obstacle to its members, perhaps one to the array.
fn unrecorded_zones() -> Need {
    let note = "from 5.4 on an array of unequal members needs raid0.default_layout set to 1 or 2";
    Need { note: Some(note), ..need("a RAID0 layout that is not recorded", (2, 4, 0), "md(4)") }
}

/// The bitmap by its own version, and by the level that it serves.
fn bitmap(level: i32, version: Option<u32>) -> Vec<Need> {
    let mut needs = Vec::new();
    if level > 1 {
        needs.push(need("a bitmap at another level than raid1", (2, 6, 15), "md(4)"));
    }
    match version {
        Some(3) => {}
        Some(4) => needs.push(need("bitmap version 4", (2, 6, 14), "notes")),
        Some(5) => needs.push(need("bitmap version 5, a cluster's", (4, 1, 0), "notes")),
        Some(6) => needs.push(need("bitmap version 6, lockless", (6, 18, 0), "notes")),
        Some(other) => needs.push(nobody(format!("bitmap version {other}"))),
        None => {}
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_written_as_linux_writes_them_and_ordered() {
        let all = [(2, 4, 0), (2, 6, 9), (2, 6, 10), (3, 1, 0), (6, 1, 0), (6, 19, 0)].map(|(a, b, c)| KernelVersion(a, b, c));
        assert!(all.is_sorted());
        assert_eq!(all.map(|version| version.to_string()), ["2.4.0", "2.6.9", "2.6.10", "3.1", "6.1", "6.19"]);
    }
}
