//! A reshape under way: the array lies partly in one shape and partly in another.
//!
//! The superblock's own fields are of the shape before, except `raid_disks`, which is of the one after. Array sectors that the reshape
//! has done are in the shape after: those before `reshape_position`, or from it on when the reshape goes backwards. It does so when it
//! takes members away, or, where their number stays, when `MD_FEATURE_RESHAPE_BACKWARDS` is set.

use uraid_types::{Layout, Level, Sector, SectorCount};

use crate::check::{Checker, chunk_fits, field, least_slots};
use crate::error::{SuperError, SuperErrorKind as Kind};
use crate::raw::MAX_ROLES;
use crate::{Feature, MetadataVersion, Superblock};

/// What the array is on its way to, and how far it is; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reshape {
    /// `reshape_position`, an array sector; see `backwards` for which side of it is done.
    pub position: Sector,
    /// From the array's end to its start?
    pub backwards: bool,
    /// `delta_disks`: slots after the reshape less those before.
    pub delta_disks: i32,
    /// `new_layout`.
    pub new_layout: Layout,
    /// `new_chunk`.
    pub new_chunk: SectorCount,
    /// `new_offset`: sectors from this member's data offset before to the one after; 0 when it stays.
    pub new_offset: i32,
}

/// The feature bits that come with a reshape and go with it.
const REST_OF_RESHAPE: u32 = Feature::ReshapeActive as u32 | Feature::ReshapeBackwards as u32 | Feature::NewOffset as u32;

impl Reshape {
    /// Slots before the reshape of an array that has `after` of them then.
    #[must_use]
    pub fn slots_before(&self, after: u16) -> u16 {
        // A parsed superblock's difference was checked.
        u16::try_from(i32::from(after).saturating_sub(self.delta_disks)).unwrap_or(after)
    }
}

impl Superblock {
    /// Slots that a member may hold: those of the array, or of the larger of its two shapes.
    #[must_use]
    pub fn slots(&self) -> u16 {
        let fewer = self.reshape.map_or(0, |reshape| reshape.delta_disks.min(0).unsigned_abs());
        self.raid_disks.saturating_add(u16::try_from(fewer).unwrap_or(u16::MAX))
    }

    /// The superblock as it was before the reshape; the same when there is none.
    #[must_use]
    pub fn before_reshape(&self) -> Superblock {
        let Some(reshape) = self.reshape else { return self.clone() };
        let raid_disks = reshape.slots_before(self.raid_disks);
        let features = self.features & !REST_OF_RESHAPE;
        Superblock { raid_disks, features, reshape: None, ..self.clone() }
    }

    /// The superblock as it will be after the reshape; the same when there is none.
    #[must_use]
    pub fn after_reshape(&self) -> Superblock {
        let Some(reshape) = self.reshape else { return self.clone() };
        Superblock {
            layout: reshape.new_layout,
            chunk: reshape.new_chunk,
            // A parsed superblock's new offset was checked.
            data_offset: Sector(self.data_offset.0.saturating_add_signed(i64::from(reshape.new_offset))),
            features: self.features & !REST_OF_RESHAPE,
            reshape: None,
            ..self.clone()
        }
    }
}

/// The numbers of a reshape as a superblock of any version has them, and those that they must fit.
pub(crate) struct Numbers {
    pub level: Level,
    pub layout: Layout,
    /// Slots after the reshape.
    pub raid_disks: u32,
    pub used_size: u64,
    pub new_level: i32,
    pub position: u64,
    pub delta_disks: i32,
    pub new_layout: u32,
    /// In sectors.
    pub new_chunk: u64,
    pub max_slots: usize,
}

/// The number that is wrong, by its name in the superblock.
pub(crate) struct Fault {
    pub kind: Kind,
    pub field: &'static str,
    pub found: String,
    pub expected: String,
}

impl Numbers {
    /// A shape before and one after that md goes between, on members that hold both: the layout and the chunk after.
    pub(crate) fn check(&self) -> Result<(Layout, SectorCount), Fault> {
        let fault = |kind, field, found: String, expected: String| Fault { kind, field, found, expected };
        // Arrays of other levels become one of these for the time, and change the level by itself before or after.
        let can_reshape = matches!(self.level, Level::Raid4 | Level::Raid5 | Level::Raid6 | Level::Raid10);
        if !can_reshape || self.new_level != self.level.md_number() {
            let found = format!("{} at level {}", self.new_level, self.level);
            let expected = "the level itself, and that 4, 5, 6 or 10, while reshape_active".to_owned();
            return Err(fault(Kind::Reshape, "new_level", found, expected));
        }
        let new_layout = Layout::from_md_number(self.level, self.new_layout).map_err(|_| {
            let found = format!("{:#x} at level {}", self.new_layout, self.level);
            fault(Kind::Layout, "new_layout", found, format!("one of {}", Layout::names(self.level)))
        })?;
        let new_chunk = SectorCount(self.new_chunk);
        let fits = match chunk_fits(self.level, new_chunk) {
            Ok(()) if self.new_chunk > self.used_size => Err(format!("at most {} (the data of one member)", self.used_size)),
            other => other.map_err(str::to_owned),
        };
        fits.map_err(|expected| fault(Kind::Chunk, "new_chunk", self.new_chunk.to_string(), expected))?;
        self.check_slots(new_layout).map_err(|(field, found, expected)| fault(Kind::Reshape, field, found, expected))?;
        Ok((new_layout, new_chunk))
    }

    /// Enough slots before and after, and a position within what all of them hold.
    fn check_slots(&self, new_layout: Layout) -> Result<(), (&'static str, String, String)> {
        let (level, delta_disks, after) = (self.level, self.delta_disks, i64::from(self.raid_disks));
        let before = after - i64::from(delta_disks);
        let (least_before, least_after) = (least_slots(level, self.layout) as i64, least_slots(level, new_layout) as i64);
        let most = self.max_slots as i64;
        if before < least_before || before > most || after < least_after {
            let found = format!("{delta_disks}, from {before} to {after} slots at level {level}");
            return Err(("delta_disks", found, format!("{least_before} to {most} slots before, at least {least_after} after")));
        }
        let limit = self.used_size.saturating_mul(before.max(after).unsigned_abs());
        if self.position > limit {
            return Err(("reshape_position", self.position.to_string(), format!("at most {limit} (size times slots)")));
        }
        Ok(())
    }

    /// From the array's end to its start?
    pub(crate) fn is_backwards(&self, marked: bool) -> bool {
        self.delta_disks < 0 || self.delta_disks == 0 && marked
    }
}

impl Checker<'_> {
    /// The reshape under way, if there is one.
    pub(crate) fn reshape(&self, version: MetadataVersion, level: Level, layout: Layout) -> Result<Option<Reshape>, SuperError> {
        let head = self.head;
        if !self.has(Feature::ReshapeActive) {
            let stray = [Feature::ReshapeBackwards, Feature::NewOffset].into_iter().find(|&feature| self.has(feature));
            let Some(feature) = stray else { return Ok(None) };
            let found = format_args!("{:#x}, with {}", head.feature_map, feature.name());
            return Err(self.fail(Kind::Reshape, field!(feature_map), found, "reshape_active with it"));
        }
        let numbers = Numbers {
            level,
            layout,
            raid_disks: head.raid_disks.get(),
            used_size: head.size.get(),
            new_level: head.new_level.get(),
            position: head.reshape_position.get(),
            delta_disks: head.delta_disks.get(),
            new_layout: head.new_layout.get(),
            new_chunk: u64::from(head.new_chunk.get()),
            max_slots: MAX_ROLES,
        };
        let (new_layout, new_chunk) = numbers.check().map_err(|Fault { kind, field, found, expected }| {
            let fields =
                [field!(new_level), field!(new_layout), field!(new_chunk), field!(delta_disks), field!(reshape_position)];
            let place = fields.into_iter().find(|(name, _)| *name == field).unwrap_or(field!(feature_map));
            self.fail(kind, place, found, expected)
        })?;
        Ok(Some(Reshape {
            position: Sector(numbers.position),
            backwards: numbers.is_backwards(self.has(Feature::ReshapeBackwards)),
            delta_disks: numbers.delta_disks,
            new_layout,
            new_chunk,
            new_offset: self.new_offset(version)?,
        }))
    }

    fn new_offset(&self, version: MetadataVersion) -> Result<i32, SuperError> {
        let new_offset = if self.has(Feature::NewOffset) { self.head.new_offset.get() } else { 0 };
        let (used, room) = (self.head.size.get(), self.room_for_data(version));
        let moved = self.head.data_offset.get().checked_add_signed(i64::from(new_offset));
        let end = moved.and_then(|start| start.checked_add(used));
        if moved.is_none_or(|start| start < room.start) || end.is_none_or(|end| end > room.end) {
            let expected =
                format_args!("{used} sectors (size) from there on within {} to {} of the member", room.start, room.end);
            let found = format_args!("{new_offset}, from data_offset {}", self.head.data_offset);
            return Err(self.fail(Kind::Reshape, field!(new_offset), found, expected));
        }
        Ok(new_offset)
    }
}
