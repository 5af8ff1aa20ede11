//! What the kernels are measured against: the limit, and Linux's way to bring parity up to date.
#![allow(unsafe_code)]

use crate::Feature;
use crate::jobs::{AddInPasses, LimitGen, LimitUpdate};
use crate::kernel::{Manner, Ready, Row, assert_lengths, entry};
use crate::style::{Plain, Style};
use crate::vector::InstructionSet;

/// The traffic of other kernels with nothing but the XORs of P; the fastest of these for a shape is its limit.
pub(crate) struct LimitKernel {
    name: &'static str,
    needs: &'static [Feature],
    manner: Manner,
    make: unsafe fn(LimitGen<'_>),
    update: unsafe fn(LimitUpdate<'_>),
}

/// See [`AddInPasses`].
pub(crate) struct TwoPassKernel {
    name: &'static str,
    needs: &'static [Feature],
    add: unsafe fn(AddInPasses<'_>),
}

impl LimitKernel {
    /// With the instructions of `I`, `LANES` registers abreast.
    pub(crate) const fn of<I: InstructionSet, S: Style, const LANES: usize>(name: &'static str) -> LimitKernel {
        LimitKernel {
            name,
            needs: I::NEEDS,
            manner: Manner::of::<S>(),
            make: entry!(I, S, LANES),
            update: entry!(I, Plain, LANES),
        }
    }
}

impl TwoPassKernel {
    /// With the instructions of `I`, `LANES` registers abreast.
    pub(crate) const fn of<I: InstructionSet, const LANES: usize>(name: &'static str) -> TwoPassKernel {
        TwoPassKernel { name, needs: I::NEEDS, add: entry!(I, Plain, LANES) }
    }
}

impl Row for LimitKernel {
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

impl Row for TwoPassKernel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs(&self) -> &'static [Feature] {
        self.needs
    }

    fn manner(&self) -> Manner {
        Manner::of::<Plain>()
    }
}

/// Each checks the lengths, on which the job's safety rests; the instructions are there because `Ready` is.
impl Ready<LimitKernel> {
    pub(crate) fn make(self, job: LimitGen<'_>) {
        let [a, b] = &job.outputs;
        assert_lengths(a.len(), job.blocks, [&**b]);
        // SAFETY: see above, here and below.
        unsafe { (self.row().make)(job) }
    }

    pub(crate) fn update(self, job: LimitUpdate<'_>) {
        assert_lengths(job.p.len(), job.blocks, [&*job.q]);
        // SAFETY: see above.
        unsafe { (self.row().update)(job) }
    }
}

/// As for [`LimitKernel`].
impl Ready<TwoPassKernel> {
    pub(crate) fn add(self, job: AddInPasses<'_>) {
        assert_lengths(job.p.len(), job.blocks, [&*job.q]);
        // SAFETY: see above.
        unsafe { (self.row().add)(job) }
    }
}
