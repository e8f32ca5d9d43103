//! What must never be.

/// A law that was broken, by its number in the contract where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// 1: two leases of one name overlapped, or two tasks ran at once, neither of them in a process that
    /// was stopped.
    Exclusion,
    /// 3: an unlock or an extension changed a lease of somebody else's, or one that was over.
    Ownership,
    /// 4: somebody took the lock within the at-least of the one before.
    AtLeast,
    /// 5: a lock whose lease was over was still called held.
    AtMost,
    /// 5: a lease ends earlier than its holder was told.
    CutShort,
    /// 6: a lock was given to an owner that has ended, past the declared bound, or stayed held by one.
    HeldByNoOne,
    /// 8: a later acquisition has a token that is not larger.
    Tokens,
    /// 9: a slot was given to two, or again after it was done.
    OneRunPerSlot,
    /// 9: a slot was used up, or an attempt at it counted, by a lease that was given back and whose task
    /// never began.
    UnusedSlot,
    /// 9: a slot was given out before an earlier one was done or given up.
    SlotsInOrder,
    /// A task did something after the end of its lease, or after its lock was given back.
    Deadline,
    /// A lock was called given back, and was not.
    Release,
    /// When nothing went wrong any more, a lock was not taken, or a slot not run, in good time.
    Liveness,
    /// Somebody asks again and again without a pause.
    Pauses,
    /// A shutdown took longer than its grace.
    Shutdown,
}
