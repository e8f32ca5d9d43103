//! The laws that must never be broken.

/// A broken law, with its number in the contract if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// 1: two leases of one name overlapped, or two tasks ran at the same time while neither of
    /// their processes was stopped.
    Exclusion,
    /// 3: an unlock or an extension changed another owner's lease, or one that had ended.
    Ownership,
    /// 4: another owner acquired the lock within the at-least of the previous lease.
    AtLeast,
    /// 5: a lock whose lease had ended was still reported as held.
    AtMost,
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
    /// A task did something after the end of its lease, or after its lock was given back.
    Deadline,
    /// A lock was reported as given back although it was not.
    Release,
    /// Once there were no more faults, a lock was not acquired, or a slot not run, within the time
    /// limit.
    Liveness,
    /// A client retried again and again without a pause.
    Pauses,
    /// A shutdown took longer than its grace period.
    Shutdown,
}
