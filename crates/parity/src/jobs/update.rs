//! New parity from the old one and from what changes: read-modify-write.

use super::{add, load, scale, scale_by_power, store};
use crate::style::Style;
use crate::vector::{Job, Vector};
use crate::{Delta, MAX_DATA_DISKS, field};

/// What changes in one data disk.
pub(crate) trait Change {
    /// The disk's place in the syndrome.
    fn index(&self) -> usize;

    /// The sum of old and new.
    ///
    /// # Safety
    /// The processor has the instructions, and the blocks have LANES * V::BYTES bytes at `at`.
    unsafe fn difference<V: Vector, const LANES: usize>(&self, at: usize) -> [V; LANES];

    /// Adds the difference to both sums.
    ///
    /// # Safety
    /// As [`Change::difference`].
    #[inline(always)]
    unsafe fn add_to<V: Vector, const LANES: usize>(&self, p: &mut [V; LANES], q: &mut [V; LANES], at: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let difference = self.difference(at);
            add(p, &difference);
            add(q, &difference);
        }
    }
}

impl Change for Delta<'_> {
    fn index(&self) -> usize {
        self.index
    }

    #[inline(always)]
    unsafe fn difference<V: Vector, const LANES: usize>(&self, at: usize) -> [V; LANES] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = load(self.new, at);
            add(&mut sum, &load::<V, LANES>(self.old, at));
            sum
        }
    }

    #[inline(always)]
    unsafe fn add_to<V: Vector, const LANES: usize>(&self, p: &mut [V; LANES], q: &mut [V; LANES], at: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let (new, old) = (load::<V, LANES>(self.new, at), load::<V, LANES>(self.old, at));
            for lane in 0..LANES {
                p[lane] = p[lane].xor3(new[lane], old[lane]);
                q[lane] = q[lane].xor3(new[lane], old[lane]);
            }
        }
    }
}

/// The difference itself.
impl Change for (usize, &[u8]) {
    fn index(&self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn difference<V: Vector, const LANES: usize>(&self, at: usize) -> [V; LANES] {
        // SAFETY: the caller's promise.
        unsafe { load(self.1, at) }
    }
}

/// Brings P and Q up to date.
pub(crate) struct Changes<'a, C> {
    pub(crate) changes: &'a [C],
    /// Places in `changes`, the highest syndrome index first.
    pub(crate) order: &'a [u8],
    pub(crate) p: Option<&'a mut [u8]>,
    pub(crate) q: Option<&'a mut [u8]>,
}

impl<C> Changes<'_, C> {
    /// The length of a parity block; `None` when there is neither.
    pub(crate) fn parity_len_bytes(&self) -> Option<usize> {
        self.parities().next().map(<[u8]>::len)
    }

    /// The parity blocks that are there.
    pub(crate) fn parities(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.p.as_deref().into_iter().chain(self.q.as_deref())
    }
}

impl<C: Change> Job for Changes<'_, C> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector, S: Style, const LANES: usize>(self) {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.changes, self.p, self.q) {
                (_, None, None) => (),
                ([one], Some(p), Some(q)) => change_one::<V, LANES, C>(one, p, q),
                (changes, Some(p), None) => change_p::<V, LANES, C>(changes, p),
                (changes, Some(p), Some(q)) if V::MUL_WORTH == 1 => change_both::<V, LANES, C>(changes, p, q),
                (changes, p, Some(q)) => change_q::<V, LANES, C>(changes, self.order, p, q),
            }
        }
    }
}

#[inline(always)]
unsafe fn change_one<V: Vector, const LANES: usize, C: Change>(change: &C, p: &mut [u8], q: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe {
        let coefficient = V::factor(field::power_of_two(change.index()));
        for at in (0..p.len()).step_by(LANES * V::BYTES) {
            let mut difference = change.difference::<V, LANES>(at);
            let mut sum = load::<V, LANES>(p, at);
            add(&mut sum, &difference);
            store(&sum, p, at);
            scale(&mut difference, coefficient);
            let mut sum = load::<V, LANES>(q, at);
            add(&mut sum, &difference);
            store(&sum, q, at);
        }
    }
}

#[inline(always)]
unsafe fn change_p<V: Vector, const LANES: usize, C: Change>(changes: &[C], p: &mut [u8]) {
    for at in (0..p.len()).step_by(LANES * V::BYTES) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = load::<V, LANES>(p, at);
            for change in changes {
                add(&mut sum, &change.difference(at));
            }
            store(&sum, p, at);
        }
    }
}

/// P and Q where multiplication is one instruction: every difference gets its coefficient, and nothing waits for anything.
#[inline(always)]
unsafe fn change_both<V: Vector, const LANES: usize, C: Change>(changes: &[C], p: &mut [u8], q: &mut [u8]) {
    let factor = |change: &C| {
        // SAFETY: the caller has the instructions.
        unsafe { V::factor(field::power_of_two(change.index())) }
    };
    for at in (0..p.len()).step_by(LANES * V::BYTES) {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut of_p, mut of_q) = (load::<V, LANES>(p, at), load::<V, LANES>(q, at));
            let (pairs, last) = changes.as_chunks::<2>();
            for [a, b] in pairs {
                let (of_a, of_b) = (factor(a), factor(b));
                let (a, b) = (a.difference::<V, LANES>(at), b.difference::<V, LANES>(at));
                for lane in 0..LANES {
                    of_p[lane] = of_p[lane].xor3(a[lane], b[lane]);
                    of_q[lane] = of_q[lane].xor3(a[lane].mul(of_a), b[lane].mul(of_b));
                }
            }
            if let [last] = last {
                let mut difference = last.difference::<V, LANES>(at);
                add(&mut of_p, &difference);
                scale(&mut difference, factor(last));
                add(&mut of_q, &difference);
            }
            store(&of_p, p, at);
            store(&of_q, q, at);
        }
    }
}

/// Q, and P where it is there. Horner's rule over the changes alone: from one to the next below it the sum is multiplied by
/// the power of 2 that lies between them.
#[inline(always)]
unsafe fn change_q<V: Vector, const LANES: usize, C: Change>(
    changes: &[C],
    order: &[u8],
    mut p: Option<&mut [u8]>,
    q: &mut [u8],
) {
    for at in (0..q.len()).step_by(LANES * V::BYTES) {
        // SAFETY: the caller's promise.
        unsafe {
            let Some((&highest, others)) = order.split_first() else { return };
            let highest = &changes[usize::from(highest)];
            let mut of_q = highest.difference::<V, LANES>(at);
            let mut of_p = of_q;
            let mut above = highest.index();
            for &place in others {
                let change = &changes[usize::from(place)];
                scale_by_power(&mut of_q, above - change.index());
                change.add_to(&mut of_p, &mut of_q, at);
                above = change.index();
            }
            scale_by_power(&mut of_q, above);
            add(&mut of_q, &load(q, at));
            store(&of_q, q, at);
            if let Some(p) = p.as_deref_mut() {
                add(&mut of_p, &load(p, at));
                store(&of_p, p, at);
            }
        }
    }
}

/// The order for [`Changes::order`], written into `room`.
///
/// # Panics
/// When there are too many changes, or an index is out of range or given twice.
#[track_caller]
pub(crate) fn highest_first<'a, C: Change>(changes: &[C], room: &'a mut [u8; MAX_DATA_DISKS]) -> &'a [u8] {
    let count = changes.len();
    assert!(count <= MAX_DATA_DISKS, "an update changes at most {MAX_DATA_DISKS} data disks, not {count}");
    let order = &mut room[..count];
    for (place, slot) in (0..).zip(order.iter_mut()) {
        *slot = place;
    }
    let index = |place: u8| changes[usize::from(place)].index();
    order.sort_unstable_by_key(|&place| core::cmp::Reverse(index(place)));
    if let Some(&first) = order.first() {
        assert!(index(first) < MAX_DATA_DISKS, "an update of data disk {}, beyond {MAX_DATA_DISKS}", index(first));
    }
    for pair in order.windows(2) {
        assert!(index(pair[0]) != index(pair[1]), "an update gives data disk {} twice", index(pair[0]));
    }
    order
}
