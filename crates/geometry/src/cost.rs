//! What a write costs in member I/Os.
//!
//! Counted for a healthy array with nothing cached. One I/O is one run of sectors on one member; the rows of a stripe that
//! a write leaves alone cost nothing.

use core::ops::AddAssign;

use uraid_types::{Sector, SectorCount};

use crate::Parity;

/// Member I/Os.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IoCount {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

impl IoCount {
    /// Reads and writes together.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.reads + self.writes
    }

    const fn times(self, factor: u64) -> IoCount {
        IoCount { reads: self.reads * factor, writes: self.writes * factor }
    }
}

impl AddAssign for IoCount {
    fn add_assign(&mut self, other: IoCount) {
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

/// The member I/Os of one write, by the way it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteCost {
    /// Reads the old data and the old parity, writes the new.
    pub read_modify_write: IoCount,
    /// Reads the rest of the rows written to, writes data and parity. A full stripe reads nothing.
    pub reconstruct: IoCount,
    /// The cheaper of the two, stripe by stripe.
    pub least: IoCount,
    /// Stripes written from end to end.
    pub full_stripes: u64,
}

impl WriteCost {
    fn of(read_modify_write: IoCount, reconstruct: IoCount, is_full: bool) -> WriteCost {
        let cheaper = read_modify_write.total() < reconstruct.total();
        let least = if cheaper { read_modify_write } else { reconstruct };
        WriteCost { read_modify_write, reconstruct, least, full_stripes: u64::from(is_full) }
    }

    fn add(&mut self, other: WriteCost, times: u64) {
        self.read_modify_write += other.read_modify_write.times(times);
        self.reconstruct += other.reconstruct.times(times);
        self.least += other.least.times(times);
        self.full_stripes += other.full_stripes * times;
    }
}

impl Parity {
    /// What it costs to write `len` sectors from `start` on.
    ///
    /// ```
    /// # use uraid_geometry::{Geometry, Shape};
    /// # use uraid_types::{Layout, Level, Sector, SectorCount};
    /// let (level, layout) = (Level::Raid6, Layout::default_for(Level::Raid6));
    /// let member_sectors = vec![SectorCount(12_800); 10];
    /// let shape = Shape { level, layout, raid_disks: 10, chunk: SectorCount(128), member_sectors };
    /// let Geometry::Parity(parity) = Geometry::new(&shape).unwrap() else { unreachable!() };
    /// let cost = parity.write_cost(Sector(0), SectorCount(8));
    /// assert_eq!((cost.read_modify_write.total(), cost.reconstruct.total()), (6, 10));
    /// ```
    ///
    /// # Panics
    /// When the write reaches beyond the array.
    #[must_use]
    pub fn write_cost(&self, start: Sector, len: SectorCount) -> WriteCost {
        let end = start.0.checked_add(len.0).filter(|&end| end <= self.capacity().0);
        let end = end.unwrap_or_else(|| panic!("a write of {len} at array {start} is beyond {}", self.capacity()));
        let stripe_len = self.chunk().0 * self.data_members() as u64;
        let mut cost = WriteCost::default();
        let mut at = start.0;
        while at < end {
            let within = at % stripe_len;
            let whole = (end - at) / stripe_len;
            if within == 0 && whole > 0 {
                cost.add(self.stripe_cost(0, stripe_len), whole);
                at += whole * stripe_len;
            } else {
                let stop = stripe_len.min(within + (end - at));
                cost.add(self.stripe_cost(within, stop), 1);
                at += stop - within;
            }
        }
        cost
    }

    /// The cost within one stripe, of whose data the half-open range `from..to` is written; not empty.
    fn stripe_cost(&self, from: u64, to: u64) -> WriteCost {
        let (chunk, data, parity) = (self.chunk().0, self.data_members() as u64, self.parity_members() as u64);
        let (first, last) = (from / chunk, (to - 1) / chunk);
        let (head, tail) = (from % chunk, (to - 1) % chunk + 1);
        let touched = last - first + 1;
        // The end of one chunk and the start of the next, without a row in common.
        let runs = if touched == 2 && tail < head { 2 } else { 1 };
        let writes = touched + parity * runs;
        let rest_of_touched = if touched == 1 { 0 } else { u64::from(head > 0) + u64::from(tail < chunk) };
        let reconstruct = IoCount { reads: (data - touched) * runs + rest_of_touched, writes };
        let read_modify_write = IoCount { reads: writes, writes };
        WriteCost::of(read_modify_write, reconstruct, from == 0 && to == chunk * data)
    }
}
