//! A superblock as read, with every byte kept for the rewrite.

use uraid_types::{SECTOR_BYTES, Sector, SectorCount};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::check::Checker;
use crate::domain::join_time;
use crate::error::{SuperError, SuperErrorKind};
use crate::raw::{HEAD_BYTES, Head, MAX_ROLES, SUPER_BYTES, SUPER_MAGIC, checksum};
use crate::v090::{self, Words};
use crate::{Feature, MetadataVersion, PplArea, Role, Superblock};

/// Bytes of `set_name`.
pub const MAX_NAME_BYTES: usize = 32;

/// A checked superblock together with the bytes that it was read from: whatever is not understood survives a rewrite.
#[derive(Clone, Debug)]
pub struct RawSuper {
    bytes: Bytes,
    superblock: Superblock,
}

/// A superblock's bytes, by version.
#[derive(Clone, Debug)]
enum Bytes {
    V1(Box<V1>),
    V090(Words),
}

/// The bytes of a version-1 superblock.
#[derive(Clone, Debug)]
struct V1 {
    head: Head,
    /// Bytes 256 to 4096: roles and whatever follows them.
    tail: Vec<u8>,
}

impl RawSuper {
    /// Reads the superblock that `bytes` begin with, found at sector `at` of a member of `member_sectors`.
    ///
    /// Give [`SUPER_BYTES`] when the member has that many there; bytes beyond are not looked at.
    ///
    /// # Errors
    /// A [`SuperError`] that names the first field that is wrong; [`SuperError::is_absent`] when there is no superblock at all.
    pub fn parse(bytes: &[u8], at: Sector, member_sectors: SectorCount) -> Result<RawSuper, SuperError> {
        let bytes = &bytes[..bytes.len().min(SUPER_BYTES)];
        if let Some(words) = Words::read(bytes).filter(Words::is_v090) {
            let superblock = v090::check(&words, at, member_sectors)?;
            return Ok(RawSuper { bytes: Bytes::V090(words), superblock });
        }
        let Ok((head, table)) = Head::read_from_prefix(bytes) else {
            return Err(SuperError {
                kind: SuperErrorKind::TooShort,
                field: "magic",
                member_byte: at.0.saturating_mul(SECTOR_BYTES),
                found: format!("one of {} bytes", bytes.len()),
                expected: format!("at least {HEAD_BYTES} bytes"),
            });
        };
        let superblock = Checker { head: &head, table, at, member: member_sectors }.check()?;
        let mut tail = table.to_vec();
        tail.resize(SUPER_BYTES - HEAD_BYTES, 0);
        Ok(RawSuper { bytes: Bytes::V1(Box::new(V1 { head, tail })), superblock })
    }

    /// A superblock that was on no member before.
    ///
    /// # Panics
    /// As [`RawSuper::update`].
    #[must_use]
    pub fn from_new(superblock: Superblock) -> RawSuper {
        let bytes = match superblock.version {
            MetadataVersion::V0_90 => Bytes::V090(v090::new(&superblock)),
            MetadataVersion::V1_0 | MetadataVersion::V1_1 | MetadataVersion::V1_2 => Bytes::V1(Box::new(V1::new())),
        };
        let mut raw = RawSuper { bytes, superblock: superblock.clone() };
        raw.write(None, superblock);
        raw
    }

    /// What the superblock says.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Changes the superblock; bytes of fields that stay the same stay the same.
    ///
    /// The bits of [`Feature::Bitmap`] and [`Feature::RecoveryOffset`] follow their optional fields; a PPL that goes takes its bits along.
    ///
    /// # Panics
    /// When the result has more than [`MAX_ROLES`] roles, a longer name than [`MAX_NAME_BYTES`], or a chunk beyond 32 bits (with
    /// version 0.90 also a used size beyond 32 bits of KiB):
    /// a broken invariant of the caller's.
    pub fn update(&mut self, change: impl FnOnce(&mut Superblock)) {
        let mut new = self.superblock.clone();
        change(&mut new);
        let old = self.superblock.clone();
        self.write(Some(&old), new);
    }

    /// The bytes to write at [`Superblock::super_offset`]: checksum set, and as many as may be written there.
    ///
    /// That is [`SUPER_BYTES`] unless an old array has its bitmap, bad-block log or data within those, when it is fewer,
    /// in whole sectors.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = match &self.bytes {
            Bytes::V1(v1) => v1.to_bytes(self.superblock.roles.len()),
            Bytes::V090(words) => words.to_bytes(),
        };
        bytes.truncate(self.room_bytes());
        bytes
    }

    /// Bytes from the superblock's start to whatever lies next after it, at most [`SUPER_BYTES`].
    fn room_bytes(&self) -> usize {
        let sb = &self.superblock;
        let after = |offset: i32| u64::try_from(offset).ok().filter(|&sectors| sectors > 0);
        let bitmap = sb.bitmap_offset.and_then(after);
        let bad_blocks = if sb.bad_block_sectors > 0 { after(sb.bad_block_offset) } else { None };
        let ppl = sb.ppl.and_then(|area| after(i32::from(area.offset)));
        let data = sb.data_offset.since(sb.super_offset).map(|gap| gap.0).filter(|&sectors| sectors > 0);
        let gaps = [bitmap, ppl, bad_blocks, data].into_iter().flatten();
        gaps.map(|sectors| sectors.saturating_mul(SECTOR_BYTES)).fold(SUPER_BYTES, |least, gap| least.min(gap as usize))
    }

    /// Puts into the bytes what differs between `old` and `new`, or all of `new`.
    fn write(&mut self, old: Option<&Superblock>, mut new: Superblock) {
        new.set_feature(Feature::Bitmap, new.bitmap_offset.is_some());
        new.set_feature(Feature::RecoveryOffset, new.recovery_offset.is_some());
        if new.ppl.is_none() {
            new.set_feature(Feature::Ppl, false);
            new.set_feature(Feature::MultiplePpls, false);
        }
        let reshape = new.reshape;
        new.set_feature(Feature::ReshapeActive, reshape.is_some());
        new.set_feature(Feature::NewOffset, reshape.is_some_and(|reshape| reshape.new_offset != 0));
        new.set_feature(Feature::ReshapeBackwards, reshape.is_some_and(|reshape| reshape.backwards));
        match &mut self.bytes {
            Bytes::V1(v1) => v1.write(old, &new),
            Bytes::V090(words) => v090::write(words, old, &new),
        }
        self.superblock = new;
    }
}

impl V1 {
    fn new() -> V1 {
        let mut head = Head::new_zeroed();
        head.magic.set(SUPER_MAGIC);
        head.major_version.set(1);
        V1 { head, tail: vec![0; SUPER_BYTES - HEAD_BYTES] }
    }

    /// All [`SUPER_BYTES`], with the checksum of as many roles.
    fn to_bytes(&self, roles: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUPER_BYTES);
        bytes.extend_from_slice(self.head.as_bytes());
        bytes.extend_from_slice(&self.tail);
        let mut head = self.head;
        head.sb_csum.set(checksum(&bytes[..HEAD_BYTES + 2 * roles]));
        bytes[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        bytes
    }

    fn write(&mut self, old: Option<&Superblock>, new: &Superblock) {
        if differs(old, new, |sb| sb.reshape) {
            self.write_reshape(new);
        }
        self.write_array_fields(old, new);
        self.write_member_fields(old, new);
        if differs(old, new, |sb| sb.roles.clone()) {
            assert!(new.roles.len() <= MAX_ROLES, "{} roles do not fit a superblock", new.roles.len());
            self.head.max_dev.set(new.roles.len() as u32);
            for (pair, role) in self.tail.chunks_exact_mut(2).zip(&new.roles) {
                pair.copy_from_slice(&role_number(*role).to_le_bytes());
            }
        }
        self.head.sb_csum.set(0);
    }

    /// Fields of a reshape that has ended keep their bytes, as md leaves them.
    fn write_reshape(&mut self, new: &Superblock) {
        let Some(reshape) = new.reshape else { return };
        let head = &mut self.head;
        head.new_level.set(new.level.md_number());
        head.reshape_position.set(reshape.position.0);
        head.delta_disks.set(reshape.delta_disks);
        head.new_layout.set(reshape.new_layout.md_number(new.level));
        // A parsed one has 32 bits, and nobody makes others.
        head.new_chunk.set(reshape.new_chunk.0 as u32);
        head.new_offset.set(reshape.new_offset);
    }

    fn write_array_fields(&mut self, old: Option<&Superblock>, new: &Superblock) {
        let head = &mut self.head;
        head.feature_map.set(new.features);
        head.set_uuid = new.array_id.into_bytes();
        if differs(old, new, |sb| sb.name.clone()) {
            assert!(new.name.len() <= MAX_NAME_BYTES, "an array's name has at most {MAX_NAME_BYTES} bytes");
            head.set_name.fill(0);
            head.set_name[..new.name.len()].copy_from_slice(&new.name);
        }
        head.ctime.set(join_time(new.created_seconds, new.created_micros));
        head.level.set(new.level.md_number());
        if differs(old, new, |sb| (sb.level, sb.layout)) {
            head.layout.set(new.layout.md_number(new.level));
        }
        head.size.set(new.used_size.0);
        head.chunksize.set(u32::try_from(new.chunk.0).expect("a chunk fits 32 bits of sectors"));
        head.raid_disks.set(u32::from(new.raid_disks));
        if differs(old, new, |sb| (sb.bitmap_offset, sb.ppl)) {
            head.bitmap_offset.set(new.bitmap_offset.or(new.ppl.map(PplArea::to_word)).unwrap_or(0));
        }
        head.utime.set(join_time(new.updated_seconds, new.updated_micros));
        head.events.set(new.events);
        head.resync_offset.set(new.resync_offset.map_or(u64::MAX, |at| at.0));
        head.logical_block_size.set(new.logical_block_bytes);
    }

    fn write_member_fields(&mut self, old: Option<&Superblock>, new: &Superblock) {
        let head = &mut self.head;
        head.data_offset.set(new.data_offset.0);
        head.data_size.set(new.data_size.0);
        head.super_offset.set(new.super_offset.0);
        if differs(old, new, |sb| (sb.recovery_offset, sb.journal_tail)) {
            head.recovery_offset.set(new.recovery_offset.or(new.journal_tail).map_or(0, |at| at.0));
        }
        head.dev_number.set(new.dev_number);
        head.cnt_corrected_read.set(new.corrected_reads);
        head.device_uuid = new.device_id.into_bytes();
        head.devflags = new.flags.to_byte();
        head.bblog_shift = new.bad_block_shift;
        head.bblog_size.set(new.bad_block_sectors);
        head.bblog_offset.set(new.bad_block_offset);
    }
}

/// Is what `part` sees new?
fn differs<T: PartialEq>(old: Option<&Superblock>, new: &Superblock, part: impl Fn(&Superblock) -> T) -> bool {
    old.is_none_or(|old| part(old) != part(new))
}

/// The number in `dev_roles`.
fn role_number(role: Role) -> u16 {
    match role {
        Role::Active(slot) => slot.0,
        Role::Spare => 0xffff,
        Role::Faulty => 0xfffe,
        Role::Journal => 0xfffd,
    }
}
