//! The tables' rows, and the proof that the processor can run one.
#![allow(unsafe_code)]

use crate::jobs::{Changes, CheckP, CheckPq, FromQ, GenPq, GenQ, IsZero, TwoLost, Xor, XorInto};
use crate::style::{Plain, Style};
use crate::vector::InstructionSet;
use crate::{Delta, Differs, Feature};

/// One way to make, bring up to date and check parity. Each function trusts its caller in what [`crate::vector::Job::run`] asks.
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) needs: &'static [Feature],
    manner: Manner,
    xor_into: unsafe fn(XorInto<'_>),
    xor: unsafe fn(Xor<'_>),
    gen_pq: unsafe fn(GenPq<'_>),
    gen_q: unsafe fn(GenQ<'_>),
    update: unsafe fn(Changes<'_, Delta<'_>>),
    add: unsafe fn(Changes<'_, (usize, &[u8])>),
    check_p: unsafe fn(CheckP<'_>) -> bool,
    check_pq: unsafe fn(CheckPq<'_>) -> Differs,
    is_zero: unsafe fn(IsZero<'_>) -> bool,
}

/// One way to recover data.
pub(crate) struct RecoveryKernel {
    pub(crate) name: &'static str,
    pub(crate) needs: &'static [Feature],
    manner: Manner,
    one_by_p: unsafe fn(Xor<'_>),
    one_by_q: unsafe fn(FromQ<'_>),
    two_lost: unsafe fn(TwoLost<'_>),
}

/// The style of a row, for those who choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    /// [`Style::STREAMING`].
    pub(crate) streaming: bool,
    /// [`Style::COUNTED`].
    pub(crate) counted: bool,
}

impl Manner {
    pub(crate) const fn of<S: Style>() -> Manner {
        Manner { streaming: S::STREAMING, counted: S::COUNTED }
    }
}

/// A function with a plain address for whatever job the field takes, which is `unsafe fn` and hands the caller's promise on.
macro_rules! entry {
    ($set:ident, $style:ty, $lanes:ident) => {
        |job| {
            // SAFETY: the caller's promise is that of `run`.
            unsafe { $set::run::<_, $style, $lanes>(job) }
        }
    };
}
#[cfg(feature = "std")]
pub(crate) use entry;

impl Kernel {
    /// The algorithms with the instructions of `I`, `LANES` registers abreast. Where a style makes no difference it is the plain one.
    pub(crate) const fn of<I: InstructionSet, S: Style, const LANES: usize>(name: &'static str) -> Kernel {
        Kernel {
            name,
            needs: I::NEEDS,
            manner: Manner::of::<S>(),
            xor_into: entry!(I, Plain, LANES),
            xor: entry!(I, S, LANES),
            gen_pq: entry!(I, S, LANES),
            gen_q: entry!(I, S::Uncounted, LANES),
            update: entry!(I, Plain, LANES),
            add: entry!(I, Plain, LANES),
            check_p: entry!(I, Plain, LANES),
            check_pq: entry!(I, S, LANES),
            is_zero: entry!(I, Plain, LANES),
        }
    }
}

impl RecoveryKernel {
    /// The algorithms with the instructions of `I`, `LANES` registers abreast.
    pub(crate) const fn of<I: InstructionSet, S: Style, const LANES: usize>(name: &'static str) -> RecoveryKernel {
        RecoveryKernel {
            name,
            needs: I::NEEDS,
            manner: Manner::of::<S>(),
            one_by_p: entry!(I, S, LANES),
            one_by_q: entry!(I, S::Uncounted, LANES),
            two_lost: entry!(I, S, LANES),
        }
    }
}

/// A row of a table.
pub(crate) trait Row: 'static {
    fn name(&self) -> &'static str;
    fn needs(&self) -> &'static [Feature];
    fn manner(&self) -> Manner;
}

impl Row for Kernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs(&self) -> &'static [Feature] {
        self.needs
    }

    fn manner(&self) -> Manner {
        self.manner
    }
}

impl Row for RecoveryKernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs(&self) -> &'static [Feature] {
        self.needs
    }

    fn manner(&self) -> Manner {
        self.manner
    }
}

/// A row that this processor can run: there is no other way to call one.
pub(crate) struct Ready<R: Row>(&'static R);

impl<R: Row> Clone for Ready<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Row> Copy for Ready<R> {}

impl<R: Row> Ready<R> {
    /// `None` when the processor lacks an instruction that the row needs.
    pub(crate) fn new(row: &'static R) -> Option<Self> {
        row.needs().iter().all(|feature| feature.is_there()).then_some(Ready(row))
    }

    /// The row's name.
    pub(crate) fn name(self) -> &'static str {
        self.0.name()
    }

    /// The row's style.
    pub(crate) fn manner(self) -> Manner {
        self.0.manner()
    }

    /// The row itself.
    #[cfg(feature = "std")]
    pub(crate) fn row(self) -> &'static R {
        self.0
    }
}

/// Panics unless every block has `len_bytes` bytes and that is a multiple of the unit.
///
/// The lengths are gathered without a branch for each: with blocks of a page that counts.
#[inline]
#[track_caller]
pub(crate) fn assert_lengths<'a>(len_bytes: usize, blocks: &[&'a [u8]], others: impl IntoIterator<Item = &'a [u8]> + Clone) {
    let odd = blocks.iter().fold(len_bytes % crate::UNIT_BYTES, |odd, block| odd | (block.len() ^ len_bytes));
    let odd = others.clone().into_iter().fold(odd, |odd, block| odd | (block.len() ^ len_bytes));
    if odd != 0 {
        refuse_lengths(len_bytes, blocks.iter().copied().chain(others).map(<[u8]>::len));
    }
}

#[cold]
#[track_caller]
fn refuse_lengths(len_bytes: usize, mut lengths: impl Iterator<Item = usize>) -> ! {
    match lengths.find(|length| *length != len_bytes) {
        Some(other) => panic!("parity works on blocks of one length, not on {len_bytes} and {other} bytes"),
        None => panic!("parity works on multiples of {} bytes, not on {len_bytes}", crate::UNIT_BYTES),
    }
}

/// Each checks the lengths, on which the job's safety rests; the instructions are there because `Ready` is.
impl Ready<Kernel> {
    #[track_caller]
    pub(crate) fn xor_into(self, job: XorInto<'_>) {
        assert_lengths(job.dst.len(), &[], [job.src]);
        // SAFETY: see above, here and below.
        unsafe { (self.0.xor_into)(job) }
    }

    #[track_caller]
    pub(crate) fn xor(self, job: Xor<'_>) {
        assert_lengths(job.out.len(), job.blocks, []);
        // SAFETY: see above.
        unsafe { (self.0.xor)(job) }
    }

    #[track_caller]
    pub(crate) fn gen_pq(self, job: GenPq<'_>) {
        assert_lengths(job.p.len(), job.data, [&*job.q]);
        // SAFETY: see above.
        unsafe { (self.0.gen_pq)(job) }
    }

    #[track_caller]
    pub(crate) fn gen_q(self, job: GenQ<'_>) {
        assert_lengths(job.q.len(), job.data, []);
        // SAFETY: see above.
        unsafe { (self.0.gen_q)(job) }
    }

    #[track_caller]
    pub(crate) fn update(self, job: Changes<'_, Delta<'_>>) {
        let Some(len_bytes) = job.parity_len_bytes() else { return };
        assert_lengths(len_bytes, &[], job.parities().chain(job.changes.iter().flat_map(|delta| [delta.old, delta.new])));
        // SAFETY: see above.
        unsafe { (self.0.update)(job) }
    }

    #[track_caller]
    pub(crate) fn add(self, job: Changes<'_, (usize, &[u8])>) {
        let Some(len_bytes) = job.parity_len_bytes() else { return };
        assert_lengths(len_bytes, &[], job.parities().chain(job.changes.iter().map(|change| change.1)));
        // SAFETY: see above.
        unsafe { (self.0.add)(job) }
    }

    #[track_caller]
    pub(crate) fn check_p(self, job: CheckP<'_>) -> bool {
        assert_lengths(job.p.len(), job.data, []);
        // SAFETY: see above.
        unsafe { (self.0.check_p)(job) }
    }

    #[track_caller]
    pub(crate) fn check_pq(self, job: CheckPq<'_>) -> Differs {
        assert_lengths(job.p.len(), job.data, [job.q]);
        // SAFETY: see above.
        unsafe { (self.0.check_pq)(job) }
    }

    #[track_caller]
    pub(crate) fn is_zero(self, job: IsZero<'_>) -> bool {
        assert_lengths(job.block.len(), &[], []);
        // SAFETY: see above.
        unsafe { (self.0.is_zero)(job) }
    }
}

/// As for [`Kernel`].
impl Ready<RecoveryKernel> {
    #[track_caller]
    pub(crate) fn one_by_p(self, job: Xor<'_>) {
        assert_lengths(job.out.len(), job.blocks, []);
        // SAFETY: see above.
        unsafe { (self.0.one_by_p)(job) }
    }

    #[track_caller]
    pub(crate) fn one_by_q(self, job: FromQ<'_>) {
        assert_lengths(job.out.len(), job.left.blocks, [job.q]);
        // SAFETY: see above.
        unsafe { (self.0.one_by_q)(job) }
    }

    #[track_caller]
    pub(crate) fn two_lost(self, job: TwoLost<'_>) {
        let parities = job.p.into_iter().chain(job.q);
        assert_lengths(job.first.len(), job.left.blocks, parities.chain([&*job.second]));
        // SAFETY: see above.
        unsafe { (self.0.two_lost)(job) }
    }
}
