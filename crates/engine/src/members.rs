//! What the engine knows of each slot.

use uraid_types::{Sector, Slot};

use crate::event::MemberState;

/// One slot.
#[derive(Debug)]
pub(crate) struct Member {
    pub state: MemberState,
    /// Read from it only when nothing else can answer.
    pub write_mostly: bool,
    /// Reads under way, for balancing.
    pub reads: u32,
    /// A write has ended since the last flush was sent.
    pub unflushed: bool,
    /// What of `state` is durable, and so may stand in the superblocks.
    safe: MemberState,
    /// Which member of this slot's history it is.
    pub epoch: u64,
}

/// A slot's state at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    state: MemberState,
    epoch: u64,
}

/// All slots.
#[derive(Debug)]
pub(crate) struct Members(Vec<Member>);

impl Members {
    pub fn new(states: &[MemberState], write_mostly: &[bool]) -> Members {
        assert_eq!(states.len(), write_mostly.len(), "one state and one flag a slot");
        let member = |(&state, &write_mostly)| Member { state, write_mostly, reads: 0, unflushed: false, safe: state, epoch: 0 };
        Members(states.iter().zip(write_mostly).map(member).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.0.len()).map(Slot::from_index)
    }

    pub fn get(&self, slot: Slot) -> &Member {
        &self.0[slot.index()]
    }

    pub fn get_mut(&mut self, slot: Slot) -> &mut Member {
        &mut self.0[slot.index()]
    }

    /// Are the member data sectors before `end` right?
    pub fn readable(&self, slot: Slot, end: Sector) -> bool {
        match self.get(slot).state {
            MemberState::InSync => true,
            MemberState::Rebuilding { recovered } => end <= recovered,
            MemberState::Missing => false,
        }
    }

    /// Does it take writes? A member being rebuilt takes them all, so that what was recovered stays right.
    pub fn writable(&self, slot: Slot) -> bool {
        self.get(slot).state != MemberState::Missing
    }

    pub fn states(&self) -> Vec<MemberState> {
        self.0.iter().map(|member| member.state).collect()
    }

    /// Puts a new member, of which `recovered` is right and durable, into the slot.
    pub fn replace(&mut self, slot: Slot, recovered: Sector) {
        let state = MemberState::Rebuilding { recovered };
        let member = self.get_mut(slot);
        (member.state, member.safe, member.unflushed) = (state, state, false);
        member.epoch += 1;
    }

    /// What the superblocks may say.
    pub fn safe_states(&self) -> Vec<MemberState> {
        let safe = |member: &Member| if member.state == MemberState::Missing { MemberState::Missing } else { member.safe };
        self.0.iter().map(safe).collect()
    }

    pub fn marks(&self) -> Vec<Mark> {
        self.0.iter().map(|member| Mark { state: member.state, epoch: member.epoch }).collect()
    }

    /// What `marks` showed is durable, where the same member is still there.
    pub fn mark_safe(&mut self, marks: &[Mark]) {
        for (member, mark) in self.0.iter_mut().zip(marks) {
            if member.epoch == mark.epoch {
                member.safe = mark.state;
            }
        }
    }

    /// Slots whose contents are not complete.
    pub fn incomplete(&self) -> Vec<Slot> {
        self.slots().filter(|&slot| self.get(slot).state != MemberState::InSync).collect()
    }

    /// Slots whose contents would not be complete after a power cut.
    pub fn incomplete_if_cut_now(&self) -> Vec<Slot> {
        let states = self.safe_states();
        self.slots().filter(|&slot| states[slot.index()] != MemberState::InSync).collect()
    }

    pub fn rebuilding(&self) -> Vec<Slot> {
        self.slots().filter(|&slot| matches!(self.get(slot).state, MemberState::Rebuilding { .. })).collect()
    }
}
