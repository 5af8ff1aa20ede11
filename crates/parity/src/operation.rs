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
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 12] = [
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
        }
    }

    /// Is it done by a kernel of the recovery table?
    #[must_use]
    pub const fn is_recovery(self) -> bool {
        matches!(self, Operation::RecoverFromP | Operation::RecoverFromQ | Operation::RecoverTwoData)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
