//! RAID4, RAID5 and RAID6: stripes of data, P and Q.
//!
//! P and Q always lie side by side (cyclically, P first), so that the data members of a stripe are the run of members after
//! them, again cyclically. That run, counted from the member after the last parity, is the *syndrome order*: it decides the
//! coefficient of each data member in Q (the member of index `i` is multiplied by the generator to the power `i`). The
//! symmetric layouts fill a stripe with array data in the same order. The asymmetric ones fill it from member 0 on, so there
//! the two orders differ by a rotation.
//!
//! The layouts are those of md(4); the tables in `tests/it/kernel.txt` were read off arrays that Linux wrote.

use uraid_types::{Layout, ParityLayout, Sector, SectorCount, Slot, StripeNo};

use crate::shape::checked_capacity;
use crate::{GeometryError, Shape};

/// A RAID4, RAID5 or RAID6 array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parity {
    shape: Shape,
    layout: ParityLayout,
    members: u64,
    data: u64,
    chunk: u64,
    stripes: u64,
    capacity: SectorCount,
}

/// Where in its stripe an array sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParityPlace {
    /// The stripe.
    pub stripe: StripeNo,
    /// The data member's index in syndrome order.
    pub index: usize,
    /// The data member's slot.
    pub slot: Slot,
    /// Sectors from the start of the chunk.
    pub offset: SectorCount,
}

/// What a member holds in a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParityRole {
    /// Data, with its index in syndrome order.
    Data(usize),
    /// The XOR of the data.
    P,
    /// The Reed-Solomon syndrome of the data (RAID6 only).
    Q,
}

impl Parity {
    /// A `shape` of which [`Shape::check`] approves.
    pub(crate) fn new(shape: &Shape) -> Result<Parity, GeometryError> {
        let Layout::Parity(layout) = shape.layout else {
            return Err(GeometryError::ForeignLayout { level: shape.level, layout: shape.layout.to_string() });
        };
        let members = u64::from(shape.raid_disks);
        let data = members - shape.level.parity_members() as u64;
        let chunk = shape.chunk.0;
        let stripes = shape.member_sectors[0].0 / chunk;
        let capacity = checked_capacity(stripes * chunk, data)?;
        Ok(Parity { shape: shape.clone(), layout, members, data, chunk, stripes, capacity })
    }

    /// The shape this was made from.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The array's size: the data chunks of all whole stripes.
    #[must_use]
    pub fn capacity(&self) -> SectorCount {
        self.capacity
    }

    /// Sectors in a chunk: a power of two, at least 8.
    #[must_use]
    pub fn chunk(&self) -> SectorCount {
        SectorCount(self.chunk)
    }

    /// Stripes in the array, at least 1.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Sectors of each member that stripes cover: the member's data size rounded down to chunks.
    #[must_use]
    pub fn member_data_sectors(&self) -> SectorCount {
        SectorCount(self.stripes * self.chunk)
    }

    /// Data members in each stripe.
    #[must_use]
    pub fn data_members(&self) -> usize {
        self.data as usize
    }

    /// Parity members in each stripe: 1 or 2.
    #[must_use]
    pub fn parity_members(&self) -> usize {
        (self.members - self.data) as usize
    }

    /// Where the array sector lies.
    ///
    /// # Panics
    /// When `array` is beyond the capacity.
    #[must_use]
    pub fn stripe_of(&self, array: Sector) -> ParityPlace {
        assert!(array.0 < self.capacity.0, "array {array} is beyond the capacity of {}", self.capacity);
        let chunk_number = array.0 / self.chunk;
        let stripe = StripeNo(chunk_number / self.data);
        let index = self.syndrome_of_fill(stripe, chunk_number % self.data);
        let slot = self.data_slot(stripe, index);
        ParityPlace { stripe, index, slot, offset: SectorCount(array.0 % self.chunk) }
    }

    /// The array sector that a data member holds at `offset` of its chunk: the inverse of [`Parity::stripe_of`].
    ///
    /// # Panics
    /// When stripe, index or offset is out of range.
    #[must_use]
    pub fn array_sector(&self, stripe: StripeNo, index: usize, offset: SectorCount) -> Sector {
        self.assert_in_array(stripe, offset);
        assert!(index < self.data_members(), "data member {index} of {}", self.data);
        let fill = self.fill_of_syndrome(stripe, index as u64);
        Sector((stripe.0 * self.data + fill) * self.chunk + offset.0)
    }

    /// The member sector, the same on each member, of `offset` in the stripe's chunks.
    ///
    /// # Panics
    /// When stripe or offset is out of range.
    #[must_use]
    pub fn member_sector(&self, stripe: StripeNo, offset: SectorCount) -> Sector {
        self.assert_in_array(stripe, offset);
        Sector(stripe.0 * self.chunk + offset.0)
    }

    /// The member that holds the stripe's P.
    #[must_use]
    pub fn p_slot(&self, stripe: StripeNo) -> Slot {
        slot_of(self.p_member(stripe))
    }

    /// The member that holds the stripe's Q; `None` without Q.
    #[must_use]
    pub fn q_slot(&self, stripe: StripeNo) -> Option<Slot> {
        (self.parity_members() == 2).then(|| slot_of((self.p_member(stripe) + 1) % self.members))
    }

    /// The member that holds the stripe's data chunk of syndrome index `index`.
    ///
    /// # Panics
    /// When `index` is not below [`Parity::data_members`].
    #[must_use]
    pub fn data_slot(&self, stripe: StripeNo, index: usize) -> Slot {
        assert!(index < self.data_members(), "data member {index} of {}", self.data);
        slot_of((self.first_data(stripe) + index as u64) % self.members)
    }

    /// What `slot` holds in the stripe.
    ///
    /// # Panics
    /// When the array has no such slot.
    #[must_use]
    pub fn role(&self, stripe: StripeNo, slot: Slot) -> ParityRole {
        let member = u64::from(slot.0);
        assert!(member < self.members, "{slot} of {} members", self.members);
        let distance = (member + self.members - self.first_data(stripe)) % self.members;
        if distance < self.data {
            ParityRole::Data(distance as usize)
        } else if distance == self.data {
            ParityRole::P
        } else {
            ParityRole::Q
        }
    }

    fn p_member(&self, stripe: StripeNo) -> u64 {
        let turn = stripe.0 % self.members;
        match self.layout {
            // RAID6 starts with P, not Q, on the last member: Q then wraps to member 0.
            ParityLayout::LeftAsymmetric | ParityLayout::LeftSymmetric => self.members - 1 - turn,
            ParityLayout::RightAsymmetric | ParityLayout::RightSymmetric => turn,
            ParityLayout::ParityFirst => 0,
            ParityLayout::ParityLast => self.data,
        }
    }

    /// The member after the last parity, where syndrome order starts.
    fn first_data(&self, stripe: StripeNo) -> u64 {
        (self.p_member(stripe) + self.members - self.data) % self.members
    }

    /// How far syndrome order is rotated against the order in which array data fills the stripe: the number of data
    /// members that syndrome order meets only after wrapping past the last member.
    fn rotation(&self, stripe: StripeNo) -> u64 {
        match self.layout {
            ParityLayout::LeftSymmetric | ParityLayout::RightSymmetric => 0,
            _ => (self.first_data(stripe) + self.data).saturating_sub(self.members),
        }
    }

    fn syndrome_of_fill(&self, stripe: StripeNo, fill: u64) -> usize {
        ((fill + self.data - self.rotation(stripe)) % self.data) as usize
    }

    fn fill_of_syndrome(&self, stripe: StripeNo, index: u64) -> u64 {
        (index + self.rotation(stripe)) % self.data
    }

    fn assert_in_array(&self, stripe: StripeNo, offset: SectorCount) {
        assert!(stripe.0 < self.stripes, "stripe {} of {}", stripe.0, self.stripes);
        assert!(offset.0 < self.chunk, "{offset} into a chunk of {}", self.chunk);
    }
}

fn slot_of(member: u64) -> Slot {
    Slot(member as u16)
}
