//! What must never be.

/// A law that was broken, by its number in the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// 1: two tasks ran at once, neither of them in a process that was stopped.
    Exclusion,
    /// 3: an unlock or an extension changed a lease of somebody else's.
    Ownership,
    /// 4: somebody took the lock within the at-least of the one before.
    AtLeast,
    /// 8: a later acquisition has a token that is not larger.
    Tokens,
    /// 9: a slot was given to two, or again after it was done.
    OneRunPerSlot,
    /// 9: a slot was given out before an earlier one was done or given up.
    SlotsInOrder,
}
