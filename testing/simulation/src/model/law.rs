//! The laws that must never be broken in the model.

/// A broken law, with its number in the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// 1: two leases of one name overlapped, or two tasks ran at the same time while neither of
    /// their processes was stopped.
    Exclusion,
    /// 3: an unlock or an extension changed another owner's lease, or one that had ended.
    Ownership,
    /// 4: another owner acquired the lock within the at-least of the previous lease.
    AtLeast,
    /// 5: a lease ended earlier than its holder was promised.
    CutShort,
    /// 6: a lock was granted to an owner that had ended, past the declared bound, or stayed held by
    /// one.
    HeldByNoOne,
    /// 8: a later acquisition got a token that is not larger.
    Tokens,
    /// 9: a slot was granted to two owners, or again after it was done.
    OneRunPerSlot,
    /// 9: a slot was used up, or an attempt at it counted, by a lease that was given back and whose
    /// task never began.
    UnusedSlot,
    /// 9: a slot was granted before an earlier one was done or given up.
    SlotsInOrder,
}
