//! Rebuilding what a stripe has lost, from whatever is left of it.

use std::borrow::Cow;

use uraid_device::{Buf, Pool};
use uraid_parity as parity;

use crate::planner::parity_to_rebuild;

/// A block's place in its stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Data, by its syndrome index.
    Data(usize),
    /// The XOR of the data.
    P,
    /// RAID6's second parity.
    Q,
}

/// The exponents in Q that no data block has ([`uraid_geometry::Parity::gaps`]); mostly there are none.
pub type Gaps = Option<[usize; 2]>;

/// The exponent in Q of the data block of syndrome index `index`.
pub(crate) fn exponent(gaps: Gaps, index: usize) -> usize {
    gaps.into_iter().flatten().fold(index, |exponent, gap| exponent + usize::from(exponent >= gap))
}

/// Zeros that stand in the gaps, for parity code that knows none.
pub(crate) struct Filler {
    gaps: [usize; 2],
    zeros: Buf,
}

impl Filler {
    pub fn new(gaps: Gaps, pool: &Pool, len_bytes: usize) -> Option<Filler> {
        let gaps = gaps?;
        let mut zeros = pool.take(len_bytes);
        zeros.fill(0);
        Some(Filler { gaps, zeros })
    }

    /// Blocks in syndrome order, each moved to the place of its exponent.
    pub fn spread<'b, T: Copy + From<&'b [u8]>>(filler: Option<&'b Filler>, data: &'b [T]) -> Cow<'b, [T]> {
        let Some(filler) = filler else { return Cow::Borrowed(data) };
        let mut spread = data.to_vec();
        for gap in filler.gaps {
            spread.insert(gap, T::from(&filler.zeros));
        }
        Cow::Owned(spread)
    }
}

/// The same rows of all blocks of a stripe; `None` is lost. Data in syndrome order.
pub struct Blocks<'a> {
    /// By syndrome index.
    pub data: Vec<Option<&'a [u8]>>,
    /// The XOR of the data.
    pub p: Option<&'a [u8]>,
    /// RAID6's second parity.
    pub q: Option<&'a [u8]>,
    /// RAID6?
    pub has_q: bool,
    /// Exponents in Q without data.
    pub gaps: Gaps,
}

impl Blocks<'_> {
    fn lost_data(&self) -> Vec<usize> {
        (0..self.data.len()).filter(|&index| self.data[index].is_none()).collect()
    }

    /// Can everything be rebuilt?
    #[must_use]
    pub fn recoverable(&self) -> bool {
        parity_to_rebuild(self.lost_data().len(), self.p.is_some(), self.q.is_some()).is_some()
    }

    /// The lost data blocks, `len_bytes` each, by ascending index.
    ///
    /// # Panics
    /// When there is not enough left: ask [`Blocks::recoverable`] first.
    pub fn rebuild_data(&self, pool: &Pool, len_bytes: usize) -> Vec<(usize, Buf)> {
        match self.lost_data()[..] {
            [] => Vec::new(),
            [index] => {
                let mut out = pool.take(len_bytes);
                match (self.p, self.q) {
                    (Some(p), _) => parity::recover_data_from_p(&self.data, p, &mut out),
                    (None, Some(q)) => {
                        let filler = Filler::new(self.gaps, pool, len_bytes);
                        parity::recover_data_from_q(&Filler::spread(filler.as_ref(), &self.data), q, &mut out);
                    }
                    (None, None) => panic!("a stripe without parity was to be rebuilt"),
                }
                vec![(index, out)]
            }
            [low, high] => {
                let (Some(p), Some(q)) = (self.p, self.q) else { panic!("two data blocks were to be rebuilt without P and Q") };
                let (mut out_low, mut out_high) = (pool.take(len_bytes), pool.take(len_bytes));
                let filler = Filler::new(self.gaps, pool, len_bytes);
                let data = Filler::spread(filler.as_ref(), &self.data);
                parity::recover_two_data(&data, p, q, &mut out_low, &mut out_high);
                vec![(low, out_low), (high, out_high)]
            }
            _ => panic!("more than two data blocks were to be rebuilt"),
        }
    }

    /// Everything lost, parity included.
    ///
    /// # Panics
    /// As [`Blocks::rebuild_data`].
    pub fn rebuild(&self, pool: &Pool, len_bytes: usize) -> Vec<(Place, Buf)> {
        let data = self.rebuild_data(pool, len_bytes);
        let mut rebuilt = Vec::with_capacity(2);
        let lost_q = self.has_q && self.q.is_none();
        if self.p.is_none() || lost_q {
            let mut all = self.data.clone();
            for (index, block) in &data {
                all[*index] = Some(block);
            }
            let all: Vec<&[u8]> = all.into_iter().flatten().collect();
            rebuilt = generate(&all, self.gaps, pool, len_bytes, (self.p.is_none(), lost_q));
        }
        rebuilt.extend(data.into_iter().map(|(index, block)| (Place::Data(index), block)));
        rebuilt
    }

    /// As [`Blocks::rebuild`], and at RAID6 the parity too that does not agree with what is left: with one block lost P and Q can
    /// still disagree, and if they did, losing another block would make wrong data of them.
    ///
    /// # Panics
    /// As [`Blocks::rebuild_data`].
    pub fn rebuild_and_mend(&self, pool: &Pool, len_bytes: usize) -> Vec<(Place, Buf)> {
        let mut rebuilt = self.rebuild(pool, len_bytes);
        if self.lost_data().len() > 1 {
            return rebuilt;
        }
        let lost_data: Option<&[u8]> =
            rebuilt.iter().find_map(|(place, block)| matches!(place, Place::Data(_)).then_some(&block[..]));
        let all: Vec<&[u8]> = self.data.iter().filter_map(|block| block.or(lost_data)).collect();
        let stale: Vec<(Place, Buf)> = generate(&all, self.gaps, pool, len_bytes, (self.p.is_some(), self.q.is_some()))
            .into_iter()
            .filter(|(place, block)| (if *place == Place::P { self.p } else { self.q }) != Some(&block[..]))
            .collect();
        rebuilt.extend(stale);
        rebuilt
    }
}

/// New parity blocks from all data, which is in syndrome order: P and Q, as each is wanted.
#[must_use]
pub fn generate(data: &[&[u8]], gaps: Gaps, pool: &Pool, len_bytes: usize, (p, q): (bool, bool)) -> Vec<(Place, Buf)> {
    let block = |wanted: bool| wanted.then(|| pool.take(len_bytes));
    let (mut p, mut q) = (block(p), block(q));
    generate_into(data, gaps, pool, p.as_deref_mut(), q.as_deref_mut());
    p.map(|p| (Place::P, p)).into_iter().chain(q.map(|q| (Place::Q, q))).collect()
}

/// Writes parity of `data` into whichever of P and Q is given.
pub(crate) fn generate_into(data: &[&[u8]], gaps: Gaps, pool: &Pool, p: Option<&mut [u8]>, q: Option<&mut [u8]>) {
    let filler = q.as_ref().and_then(|q| Filler::new(gaps, pool, q.len()));
    let data = Filler::spread(filler.as_ref(), data);
    match (p, q) {
        (Some(p), Some(q)) => parity::gen_pq(&data, p, q),
        (Some(p), None) => parity::xor_gen(&data, p),
        (None, Some(q)) => parity::gen_q(&data, q),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use uraid_device::Pool;

    use super::{Filler, exponent};

    /// From arrays of Linux: the exponents are the slots that hold neither P nor Q.
    #[test]
    fn gaps_are_where_parity_is() {
        for (gaps, exponents) in [([2, 3], [0, 1, 4]), ([0, 4], [1, 2, 3]), ([0, 1], [2, 3, 4]), ([3, 4], [0, 1, 2])] {
            assert_eq!([0, 1, 2].map(|index| exponent(Some(gaps), index)), exponents);
            let blocks = [[1; 512], [2; 512], [3; 512]];
            let data = blocks.each_ref().map(|block| &block[..]);
            let filler = Filler::new(Some(gaps), &Pool::new(0), 512).unwrap();
            let spread = Filler::spread(Some(&filler), &data);
            assert_eq!(spread.len(), 5);
            for (block, place) in data.iter().zip(exponents) {
                assert_eq!(spread[place], *block);
            }
            assert!(gaps.iter().all(|&gap| spread[gap] == [0; 512]));
        }
        assert_eq!(exponent(None, 7), 7);
    }
}
