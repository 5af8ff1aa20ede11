//! RAID4, RAID5 and RAID6: stripes of data, P and Q.
//!
//! The data members of a stripe have two orders. The *fill order* is that in which array data goes into them. The *syndrome order*
//! decides their coefficients in Q: each is multiplied by the generator to the power of its exponent, and the exponents rise.
//!
//! Where P and Q move together (and where there is no Q), the syndrome order begins behind the last parity and goes round to the
//! first, and the exponents are 0, 1, 2, ... In DDF's layouts and in those that conversions from RAID5 leave it is the order of the
//! slots; DDF's exponents are the slots' own numbers, so that two of them, [`Parity::gaps`], belong to no data. The fill order is
//! always a rotation of the syndrome order.
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

/// What decides where a stripe's blocks lie.
#[derive(Clone, Copy)]
struct Turn {
    p: u64,
    /// Meaningless without Q.
    q: u64,
    order: Order,
}

#[derive(Clone, Copy)]
enum Order {
    /// The syndrome order starts at this member and goes round; no parity lies between data.
    From(u64),
    /// It is that of the slots, parity left out: first the lower, then the higher of the parity members.
    Slots(u64, u64),
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

    /// Shows `size` at most.
    pub(crate) fn limit(&mut self, size: SectorCount) {
        self.capacity = self.capacity.min(size);
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
        slot_of(self.turn(stripe).p)
    }

    /// The member that holds the stripe's Q; `None` without Q.
    #[must_use]
    pub fn q_slot(&self, stripe: StripeNo) -> Option<Slot> {
        (self.parity_members() == 2).then(|| slot_of(self.turn(stripe).q))
    }

    /// The member that holds the stripe's data chunk of syndrome index `index`.
    ///
    /// # Panics
    /// When `index` is not below [`Parity::data_members`].
    #[must_use]
    pub fn data_slot(&self, stripe: StripeNo, index: usize) -> Slot {
        assert!(index < self.data_members(), "data member {index} of {}", self.data);
        let index = index as u64;
        slot_of(match self.turn(stripe).order {
            Order::From(first) => (first + index) % self.members,
            Order::Slots(low, high) => {
                let above_low = index + u64::from(index >= low);
                above_low + u64::from(above_low >= high)
            }
        })
    }

    /// The exponents in Q, ascending, that no data block of the stripe has though a higher one may: blocks of zeros stand there.
    /// `None` where the exponents are the syndrome indices.
    #[must_use]
    pub fn gaps(&self, stripe: StripeNo) -> Option<[usize; 2]> {
        match self.turn(stripe).order {
            Order::Slots(low, high) if self.layout.counts_slots() => Some([low as usize, high as usize]),
            _ => None,
        }
    }

    /// What `slot` holds in the stripe.
    ///
    /// # Panics
    /// When the array has no such slot.
    #[must_use]
    pub fn role(&self, stripe: StripeNo, slot: Slot) -> ParityRole {
        let member = u64::from(slot.0);
        assert!(member < self.members, "{slot} of {} members", self.members);
        let turn = self.turn(stripe);
        if member == turn.p {
            return ParityRole::P;
        }
        if self.parity_members() == 2 && member == turn.q {
            return ParityRole::Q;
        }
        let index = match turn.order {
            Order::From(first) => (member + self.members - first) % self.members,
            Order::Slots(low, high) => member - u64::from(member > low) - u64::from(member > high),
        };
        ParityRole::Data(index as usize)
    }

    fn turn(&self, stripe: StripeNo) -> Turn {
        use ParityLayout as L;
        let last = self.members - 1;
        let turn = || stripe.0 % self.members;
        // As RAID5 on all members but the last.
        let turn_of_five = || stripe.0 % last;
        let before = |member: u64| (member + last) % self.members;
        let after = |member: u64| (member + 1) % self.members;
        let together = |p: u64| {
            let q = after(p);
            Turn { p, q, order: Order::From(if self.parity_members() == 2 { after(q) } else { q }) }
        };
        let apart = |p: u64, q: u64| Turn { p, q, order: Order::Slots(p.min(q), p.max(q)) };
        match self.layout {
            // RAID6 starts with P, not Q, on the last member: Q then wraps to member 0.
            L::LeftAsymmetric | L::LeftSymmetric => together(last - turn()),
            L::RightAsymmetric | L::RightSymmetric => together(turn()),
            L::ParityFirst => together(0),
            L::ParityLast => together(self.data),
            L::DdfZeroRestart => apart(turn(), after(turn())),
            L::DdfNRestart => apart(before(last - turn()), last - turn()),
            L::DdfNContinue => apart(last - turn(), before(last - turn())),
            L::LeftAsymmetric6 | L::LeftSymmetric6 => apart(self.data - turn_of_five(), last),
            L::RightAsymmetric6 | L::RightSymmetric6 => apart(turn_of_five(), last),
            L::ParityFirst6 => apart(0, last),
        }
    }

    /// The syndrome index of the data member that is filled first.
    fn rotation(&self, stripe: StripeNo) -> u64 {
        use ParityLayout as L;
        let turn = self.turn(stripe);
        match (self.layout, turn.order) {
            (L::LeftSymmetric | L::RightSymmetric, _) => 0,
            // The data members that the syndrome order meets before it comes to member 0.
            (_, Order::From(first)) if first + self.data > self.members => self.members - first,
            (_, Order::From(_)) => 0,
            // The member behind P.
            (L::LeftSymmetric6 | L::RightSymmetric6, _) => turn.p % self.data,
            (L::DdfNContinue, _) => turn.p.saturating_sub(1) % self.data,
            (_, Order::Slots(..)) => 0,
        }
    }

    fn syndrome_of_fill(&self, stripe: StripeNo, fill: u64) -> usize {
        ((fill + self.rotation(stripe)) % self.data) as usize
    }

    fn fill_of_syndrome(&self, stripe: StripeNo, index: u64) -> u64 {
        (index + self.data - self.rotation(stripe)) % self.data
    }

    fn assert_in_array(&self, stripe: StripeNo, offset: SectorCount) {
        assert!(stripe.0 < self.stripes, "stripe {} of {}", stripe.0, self.stripes);
        assert!(offset.0 < self.chunk, "{offset} into a chunk of {}", self.chunk);
    }
}

fn slot_of(member: u64) -> Slot {
    Slot(member as u16)
}
