//! What an administrator can ask of a running array: mdadm's manage mode.

use uraid_engine::{Event, MemberState, SyncKind, SyncSpeed};
use uraid_format::{Feature, RawSuper};
use uraid_types::{Sector, SectorCount, Slot};
use uuid::Uuid;

use super::roles::{Attached, Place};
use super::{Core, CoreMember, Output};

/// A member that is to be added; the caller has opened it and read its superblock, if it has one.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// The caller's key for its I/O.
    pub key: usize,
    /// For messages.
    pub name: String,
    /// Its length in sectors.
    pub sectors: u64,
    /// Its smallest unit of I/O in bytes.
    pub block_bytes: u64,
    /// The superblock on it, when it is one of this array's.
    pub own: Option<RawSuper>,
    /// Sectors whose data is lost, by the log on it.
    pub bad_blocks: Vec<(Sector, SectorCount)>,
    /// A new device UUID, should it need one.
    pub device_id: Uuid,
}

/// A command.
#[derive(Clone, Debug)]
pub enum Command {
    /// Stop using a member.
    Fail {
        /// By name.
        name: String,
    },
    /// Let go of a failed member or a spare.
    Remove {
        /// By name.
        name: String,
    },
    /// Take a new spare; it takes over an empty slot by itself.
    Add(Box<NewMember>),
    /// Take a member back that was here before: with a bitmap only what it missed is rebuilt.
    ReAdd(Box<NewMember>),
    /// Run over the array.
    StartSync(SyncKind),
    /// Break a check or a repair off.
    StopSync,
    /// Set how fast runs over the array may go, the one under way too.
    SetSyncSpeed(SyncSpeed),
}

/// Why a command was refused. Nothing has been changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Not one of this array's.
    #[error("{0}: not a member of this array")]
    NotAMember(String),
    /// It is one already.
    #[error("{0}: already a member of this array")]
    AlreadyAMember(String),
    /// Too few would be left.
    #[error("{0}: the array cannot do without it; add a spare and let it recover first")]
    Needed(String),
    /// An active member cannot be let go.
    #[error("{0}: still in use; 'fail' it first")]
    StillInUse(String),
    /// The array is read-only.
    #[error("the array is read-only")]
    ReadOnly,
    /// The array has failed.
    #[error("the array has failed and takes no more changes: stop it and assemble it again")]
    Broken,
    /// This level cannot do it.
    #[error("{0} arrays have no redundancy: {1} means nothing to them")]
    NoRedundancy(&'static str, &'static str),
    /// The member does not fit.
    #[error("{name}: {what}")]
    DoesNotFit {
        /// The member.
        name: String,
        /// What does not fit, in numbers.
        what: String,
    },
    /// Re-adding needs a member that was here.
    #[error("{0}: carries no superblock of this array; use 'add'")]
    NeverHere(String),
    /// A run is under way.
    #[error("{0} is running; wait for it, or stop it")]
    Busy(&'static str),
    /// Neither shape of the array goes over all of its members.
    #[error("the array's reshape is part way: nothing can be gone over until Linux has finished it")]
    Reshaping,
    /// A check needs all members.
    #[error("the array is degraded: there is nothing to check against until it has recovered")]
    Degraded,
}

impl Core {
    pub(super) fn command(&mut self, command: Command) -> Result<(), CommandError> {
        if self.engine.broken().is_some() {
            return Err(CommandError::Broken);
        }
        let looks_only = matches!(command, Command::StartSync(SyncKind::Check) | Command::StopSync | Command::SetSyncSpeed(_));
        if self.read_only && !looks_only {
            return Err(CommandError::ReadOnly);
        }
        match command {
            Command::Fail { name } => self.fail(&name),
            Command::Remove { name } => self.remove(&name),
            Command::Add(member) => self.add(*member),
            Command::ReAdd(member) => self.re_add(*member),
            Command::StartSync(kind) => self.run(kind),
            Command::SetSyncSpeed(speed) => {
                self.tell(Event::SetSyncSpeed(speed));
                Ok(())
            }
            Command::StopSync => {
                self.tell(Event::StopSync);
                Ok(())
            }
        }
    }

    fn find(&self, name: &str) -> Result<usize, CommandError> {
        let found = self.attached.iter().position(|member| member.name == name);
        found.ok_or_else(|| CommandError::NotAMember(name.to_owned()))
    }

    fn redundant(&self, what: &'static str) -> Result<(), CommandError> {
        let level = self.engine.geometry().shape().level;
        if level.is_redundant() { Ok(()) } else { Err(CommandError::NoRedundancy(level.name(), what)) }
    }

    fn fail(&mut self, name: &str) -> Result<(), CommandError> {
        self.redundant("'fail'")?;
        let index = self.find(name)?;
        match self.attached[index].place {
            Place::Faulty => Ok(()),
            Place::Spare => {
                self.attached[index].place = Place::Faulty;
                Ok(())
            }
            Place::Slot(slot) => {
                let states = self.engine.members();
                let incomplete = |index: &usize| states[*index] != MemberState::InSync;
                let missing: Vec<Slot> = (0..states.len()).filter(incomplete).map(Slot::from_index).chain([slot]).collect();
                if !self.engine.geometry().survives(&missing) {
                    return Err(CommandError::Needed(name.to_owned()));
                }
                self.tell(Event::FailMember { slot, why: "failed by command".to_owned() });
                Ok(())
            }
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), CommandError> {
        let index = self.find(name)?;
        if matches!(self.attached[index].place, Place::Slot(_)) {
            return Err(CommandError::StillInUse(name.to_owned()));
        }
        let member = self.attached.remove(index);
        self.retired.push(member.raw.superblock().dev_number);
        self.out.push(Output::Release { key: member.key });
        self.tell(Event::PutMetadata);
        Ok(())
    }

    fn add(&mut self, member: NewMember) -> Result<(), CommandError> {
        self.redundant("'add'")?;
        self.not_here(&member)?;
        let raw = self.superblock_for(&member)?;
        let core_member = CoreMember { key: member.key, name: member.name, raw, slot: None, bad_blocks: Vec::new() };
        self.attached.push(Attached::new(core_member));
        self.tell(Event::PutMetadata);
        Ok(())
    }

    fn re_add(&mut self, member: NewMember) -> Result<(), CommandError> {
        self.redundant("'re-add'")?;
        self.not_here(&member)?;
        let Some(own) = member.own.clone() else { return Err(CommandError::NeverHere(member.name)) };
        let array_id = self.attached.first().map(|first| first.raw.superblock().array_id);
        if array_id != Some(own.superblock().array_id) {
            return Err(CommandError::NeverHere(member.name));
        }
        let Some(slot) = self.old_slot(&own) else { return self.add(member) };
        // Its own role table says which slot it held when it last took part.
        let missed_is_known = self
            .bitmap
            .as_ref()
            .is_some_and(|(superblock, _)| (superblock.events_cleared..=self.events).contains(&own.superblock().events));
        let recovered_all = own.superblock().recovery_offset.is_none();
        let mut raw = own;
        let number = self.free_number(Some(raw.superblock().dev_number));
        raw.update(|sb| sb.dev_number = number);
        let core_member = CoreMember { key: member.key, name: member.name, raw, slot: Some(slot), bad_blocks: member.bad_blocks };
        self.attached.push(Attached::new(core_member));
        self.tell(Event::AddMember { slot, recovered: Sector(0), trust_bitmap: missed_is_known && recovered_all });
        Ok(())
    }

    /// The slot that a returning member held, if it is empty.
    fn old_slot(&self, own: &RawSuper) -> Option<Slot> {
        let uraid_format::Role::Active(slot) = own.superblock().own_role() else { return None };
        let empty = self.engine.members().get(slot.index()) == Some(&MemberState::Missing);
        empty.then_some(slot)
    }

    fn not_here(&self, member: &NewMember) -> Result<(), CommandError> {
        let here = self.attached.iter().any(|attached| attached.name == member.name || attached.key == member.key);
        if here { Err(CommandError::AlreadyAMember(member.name.clone())) } else { Ok(()) }
    }

    /// A spare's superblock, after the pattern of the members that are here.
    fn superblock_for(&self, member: &NewMember) -> Result<RawSuper, CommandError> {
        let pattern = self.attached.iter().find(|attached| attached.is_usable()).expect("a running array has a member");
        let does_not_fit = |what: String| CommandError::DoesNotFit { name: member.name.clone(), what };
        if member.block_bytes > self.block.bytes() {
            return Err(does_not_fit(format!(
                "its logical blocks of {} bytes are larger than the array's {}",
                member.block_bytes,
                self.block.bytes()
            )));
        }
        let mut superblock = pattern.raw.superblock().clone();
        let end = uraid_format::super_sector(superblock.version, uraid_types::SectorCount(member.sectors));
        let super_offset = end.ok_or_else(|| does_not_fit("too small for a superblock".to_owned()))?;
        superblock.super_offset = super_offset;
        let (here, limit) = (self.attached.iter().filter(|member| member.is_usable()).count(), superblock.version.max_devices());
        if here >= limit {
            return Err(does_not_fit(format!("the array has {here} members, and its superblocks have room for {limit}")));
        }
        let data_end = if super_offset > superblock.data_offset { super_offset.0 } else { member.sectors };
        let data_end = superblock
            .bitmap_offset
            .filter(|&offset| offset < 0)
            .map_or(data_end, |offset| data_end.saturating_add_signed(i64::from(offset)).min(data_end));
        let room = data_end.saturating_sub(superblock.data_offset.0);
        if room < superblock.used_size.0 {
            let missing_kib = (superblock.used_size.0 - room).div_ceil(2);
            return Err(does_not_fit(format!(
                "too small by {missing_kib} KiB for the {} KiB used on each member",
                superblock.used_size.0 / 2
            )));
        }
        superblock.data_size = uraid_types::SectorCount(room);
        superblock.dev_number = self.free_number(None);
        superblock.device_id = member.device_id;
        superblock.recovery_offset = None;
        superblock.corrected_reads = 0;
        superblock.flags = uraid_format::DeviceFlags::default();
        for feature in [Feature::BadBlocks, Feature::Replacement, Feature::RecoveryBitmap] {
            superblock.set_feature(feature, false);
        }
        (superblock.bad_block_sectors, superblock.bad_block_offset, superblock.bad_block_shift) = (0, 0, 0);
        Ok(RawSuper::from_new(superblock))
    }

    /// A number in the role table that nobody has; `wish` when it is free.
    fn free_number(&self, wish: Option<u32>) -> u32 {
        let taken = |number: u32| {
            let mut attached = self.attached.iter().map(|member| member.raw.superblock().dev_number);
            self.retired.contains(&number) || attached.any(|other| other == number)
        };
        wish.into_iter().chain(0..).find(|&number| !taken(number)).expect("there are more numbers than members")
    }

    fn run(&mut self, kind: SyncKind) -> Result<(), CommandError> {
        self.redundant(kind.name())?;
        if let Some(running) = self.engine.sync_progress() {
            return Err(CommandError::Busy(running.kind.name()));
        }
        let degraded = self.engine.members().iter().any(|state| *state != MemberState::InSync);
        if degraded && matches!(kind, SyncKind::Check | SyncKind::Repair) {
            return Err(CommandError::Degraded);
        }
        self.tell(Event::StartSync(kind));
        Ok(())
    }
}
