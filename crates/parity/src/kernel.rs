//! The tables' rows, and the proof that the processor can run one.
#![allow(unsafe_code)]

use crate::jobs::{Changes, CheckP, CheckPq, FromQ, GenPq, GenQ, IsZero, TwoData, Xor, XorInto};
use crate::vector::InstructionSet;
use crate::{Delta, Differs, Feature};

/// One way to make, bring up to date and check parity. Each function trusts its caller in what [`crate::vector::Job::run`] asks.
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) needs: &'static [Feature],
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
    one_by_p: unsafe fn(Xor<'_>),
    one_by_q: unsafe fn(FromQ<'_>),
    two_data: unsafe fn(TwoData<'_>),
}

impl Kernel {
    /// The algorithms with the instructions of `I`, `LANES` registers abreast.
    pub(crate) const fn of<I: InstructionSet, const LANES: usize>(name: &'static str) -> Kernel {
        Kernel {
            name,
            needs: I::NEEDS,
            xor_into: entry::xor_into::<I, LANES>,
            xor: entry::xor::<I, LANES>,
            gen_pq: entry::gen_pq::<I, LANES>,
            gen_q: entry::gen_q::<I, LANES>,
            update: entry::update::<I, LANES>,
            add: entry::add::<I, LANES>,
            check_p: entry::check_p::<I, LANES>,
            check_pq: entry::check_pq::<I, LANES>,
            is_zero: entry::is_zero::<I, LANES>,
        }
    }
}

impl RecoveryKernel {
    /// The algorithms with the instructions of `I`, `LANES` registers abreast.
    pub(crate) const fn of<I: InstructionSet, const LANES: usize>(name: &'static str) -> RecoveryKernel {
        RecoveryKernel {
            name,
            needs: I::NEEDS,
            one_by_p: entry::xor::<I, LANES>,
            one_by_q: entry::one_by_q::<I, LANES>,
            two_data: entry::two_data::<I, LANES>,
        }
    }
}

/// A function with a plain address for each job.
mod entry {
    use super::*;

    pub(super) unsafe fn xor_into<I: InstructionSet, const LANES: usize>(job: XorInto<'_>) {
        // SAFETY: the caller's promise is that of `run`, here and below.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn xor<I: InstructionSet, const LANES: usize>(job: Xor<'_>) {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn gen_pq<I: InstructionSet, const LANES: usize>(job: GenPq<'_>) {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn gen_q<I: InstructionSet, const LANES: usize>(job: GenQ<'_>) {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn update<I: InstructionSet, const LANES: usize>(job: Changes<'_, Delta<'_>>) {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn add<I: InstructionSet, const LANES: usize>(job: Changes<'_, (usize, &[u8])>) {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn check_p<I: InstructionSet, const LANES: usize>(job: CheckP<'_>) -> bool {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn check_pq<I: InstructionSet, const LANES: usize>(job: CheckPq<'_>) -> Differs {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn is_zero<I: InstructionSet, const LANES: usize>(job: IsZero<'_>) -> bool {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn one_by_q<I: InstructionSet, const LANES: usize>(job: FromQ<'_>) {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }

    pub(super) unsafe fn two_data<I: InstructionSet, const LANES: usize>(job: TwoData<'_>) {
        // SAFETY: as above.
        unsafe { I::run::<_, LANES>(job) }
    }
}

/// A row of a table.
pub(crate) trait Row: 'static {
    fn name(&self) -> &'static str;
    fn needs(&self) -> &'static [Feature];
}

impl Row for Kernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs(&self) -> &'static [Feature] {
        self.needs
    }
}

impl Row for RecoveryKernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs(&self) -> &'static [Feature] {
        self.needs
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
}

/// Panics unless every block has `len_bytes` bytes and that is a multiple of the unit.
#[track_caller]
fn assert_lengths<'a>(len_bytes: usize, blocks: impl IntoIterator<Item = &'a [u8]>) {
    assert!(
        len_bytes.is_multiple_of(crate::UNIT_BYTES),
        "parity works on multiples of {} bytes, not on {len_bytes}",
        crate::UNIT_BYTES
    );
    for block in blocks {
        assert!(block.len() == len_bytes, "parity works on blocks of one length, not on {len_bytes} and {} bytes", block.len());
    }
}

/// Each checks the lengths, on which the job's safety rests; the instructions are there because `Ready` is.
impl Ready<Kernel> {
    #[track_caller]
    pub(crate) fn xor_into(self, job: XorInto<'_>) {
        assert_lengths(job.dst.len(), [job.src]);
        // SAFETY: see above, here and below.
        unsafe { (self.0.xor_into)(job) }
    }

    #[track_caller]
    pub(crate) fn xor(self, job: Xor<'_>) {
        assert_lengths(job.out.len(), job.blocks.iter().copied());
        // SAFETY: see above.
        unsafe { (self.0.xor)(job) }
    }

    #[track_caller]
    pub(crate) fn gen_pq(self, job: GenPq<'_>) {
        assert_lengths(job.p.len(), job.data.iter().copied().chain([&*job.q]));
        // SAFETY: see above.
        unsafe { (self.0.gen_pq)(job) }
    }

    #[track_caller]
    pub(crate) fn gen_q(self, job: GenQ<'_>) {
        assert_lengths(job.q.len(), job.data.iter().copied());
        // SAFETY: see above.
        unsafe { (self.0.gen_q)(job) }
    }

    #[track_caller]
    pub(crate) fn update(self, job: Changes<'_, Delta<'_>>) {
        let Some(len_bytes) = job.parity_len_bytes() else { return };
        assert_lengths(len_bytes, job.parities().chain(job.changes.iter().flat_map(|delta| [delta.old, delta.new])));
        // SAFETY: see above.
        unsafe { (self.0.update)(job) }
    }

    #[track_caller]
    pub(crate) fn add(self, job: Changes<'_, (usize, &[u8])>) {
        let Some(len_bytes) = job.parity_len_bytes() else { return };
        assert_lengths(len_bytes, job.parities().chain(job.changes.iter().map(|change| change.1)));
        // SAFETY: see above.
        unsafe { (self.0.add)(job) }
    }

    #[track_caller]
    pub(crate) fn check_p(self, job: CheckP<'_>) -> bool {
        assert_lengths(job.p.len(), job.data.iter().copied());
        // SAFETY: see above.
        unsafe { (self.0.check_p)(job) }
    }

    #[track_caller]
    pub(crate) fn check_pq(self, job: CheckPq<'_>) -> Differs {
        assert_lengths(job.p.len(), job.data.iter().copied().chain([job.q]));
        // SAFETY: see above.
        unsafe { (self.0.check_pq)(job) }
    }

    #[track_caller]
    pub(crate) fn is_zero(self, job: IsZero<'_>) -> bool {
        assert_lengths(job.block.len(), []);
        // SAFETY: see above.
        unsafe { (self.0.is_zero)(job) }
    }
}

/// As for [`Kernel`].
impl Ready<RecoveryKernel> {
    #[track_caller]
    pub(crate) fn one_by_p(self, job: Xor<'_>) {
        assert_lengths(job.out.len(), job.blocks.iter().copied());
        // SAFETY: see above.
        unsafe { (self.0.one_by_p)(job) }
    }

    #[track_caller]
    pub(crate) fn one_by_q(self, job: FromQ<'_>) {
        assert_lengths(job.out.len(), job.below.iter().chain(job.above).copied().chain([job.q]));
        // SAFETY: see above.
        unsafe { (self.0.one_by_q)(job) }
    }

    #[track_caller]
    pub(crate) fn two_data(self, job: TwoData<'_>) {
        let data = job.below.iter().chain(job.between).chain(job.above).copied();
        assert_lengths(job.p.len(), data.chain([job.q, &*job.out_low, &*job.out_high]));
        // SAFETY: see above.
        unsafe { (self.0.two_data)(job) }
    }
}
