//! What a kernel does; each has a winner of its own.

use core::fmt;

/// An operation on blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`crate::xor_into`].
    XorInto,
    /// [`crate::xor_gen`].
    GenP,
    /// [`crate::gen_pq`].
    GenPq,
    /// [`crate::gen_q`].
    GenQ,
    /// [`crate::update`].
    Update,
    /// [`crate::update_by_difference`].
    UpdateByDifference,
    /// [`crate::check_p`].
    CheckP,
    /// [`crate::check_pq`].
    CheckPq,
    /// [`crate::is_zero`].
    IsZero,
    /// [`crate::recover_data_from_p`].
    RecoverFromP,
    /// [`crate::recover_data_from_q`].
    RecoverFromQ,
    /// [`crate::recover_two_data`].
    RecoverTwoData,
    /// [`crate::recover_data_and_p`].
    RecoverDataAndP,
    /// [`crate::recover_data_and_q`].
    RecoverDataAndQ,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 14] = [
        Operation::XorInto,
        Operation::GenP,
        Operation::GenPq,
        Operation::GenQ,
        Operation::Update,
        Operation::UpdateByDifference,
        Operation::CheckP,
        Operation::CheckPq,
        Operation::IsZero,
        Operation::RecoverFromP,
        Operation::RecoverFromQ,
        Operation::RecoverTwoData,
        Operation::RecoverDataAndP,
        Operation::RecoverDataAndQ,
    ];

    /// The name of the function that does it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Operation::XorInto => "xor_into",
            Operation::GenP => "xor_gen",
            Operation::GenPq => "gen_pq",
            Operation::GenQ => "gen_q",
            Operation::Update => "update",
            Operation::UpdateByDifference => "update_by_difference",
            Operation::CheckP => "check_p",
            Operation::CheckPq => "check_pq",
            Operation::IsZero => "is_zero",
            Operation::RecoverFromP => "recover_data_from_p",
            Operation::RecoverFromQ => "recover_data_from_q",
            Operation::RecoverTwoData => "recover_two_data",
            Operation::RecoverDataAndP => "recover_data_and_p",
            Operation::RecoverDataAndQ => "recover_data_and_q",
        }
    }

    /// Is it done by a kernel of the recovery table?
    #[must_use]
    pub const fn is_recovery(self) -> bool {
        matches!(
            self,
            Operation::RecoverFromP
                | Operation::RecoverFromQ
                | Operation::RecoverTwoData
                | Operation::RecoverDataAndP
                | Operation::RecoverDataAndQ
        )
    }

    /// Does it bring parity up to date, so that what counts is the number of disks that change?
    #[must_use]
    pub const fn is_update(self) -> bool {
        matches!(self, Operation::Update | Operation::UpdateByDifference)
    }

    /// Does it concern one block, whatever the number of disks?
    #[must_use]
    pub const fn is_of_one_block(self) -> bool {
        matches!(self, Operation::XorInto | Operation::IsZero)
    }

    /// Does it write blocks that it does not read? (Only there can streaming stores help.)
    #[cfg(feature = "std")]
    pub(crate) const fn only_writes(self) -> bool {
        self.is_recovery() || matches!(self, Operation::GenP | Operation::GenPq | Operation::GenQ)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
