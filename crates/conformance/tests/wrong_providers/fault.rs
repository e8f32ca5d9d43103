//! Ways to be wrong.

/// How a provider is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// In nothing: the frame of these tests itself.
    None,
    /// Unlock frees the lock whoever holds it.
    UnlockIgnoresOwner,
    /// Unlock of an expired lease is answered with "unlocked".
    UnlockOfExpiredIsOk,
    /// An extension brings an expired lease back.
    ExtendRevivesExpired,
    /// A second unlock is answered with "lost".
    SecondUnlockIsLost,
    /// Whether a slot was taken is looked up before the lock is taken, in a step of its own.
    SlotInTwoSteps,
    /// A slot is remembered only while its lease runs.
    SlotForgottenAtUnlock,
    /// Whoever takes an open slot over begins to count its attempts anew.
    AttemptsForgottenAtTakeover,
    /// A later slot is granted while an earlier one is open.
    OpenSlotIsPassed,
    /// A slot far ahead of the clock is granted.
    SlotAheadGranted,
    /// The fencing token counts the acquisitions of this client.
    TokenPerClient,
    /// The fencing token begins anew with a deleted record.
    TokenForgottenWithRecord,
    /// The same attempt, asked again, is told that the lock is held.
    AttemptNotIdempotent,
    /// A failing store looks like a held lock.
    ErrorIsSkip,
    /// At-least is counted from unlock.
    AtLeastFromUnlock,
    /// At-least is not kept.
    AtLeastForgotten,
    /// A lease ends a little before at-most.
    EndsEarly,
    /// Names are compared without case.
    NamesFoldCase,
    /// Names are paths, and tidied as such.
    NamesArePaths,
    /// Names are cut to 64 bytes.
    NamesAreCut,
    /// A list ends after its first page.
    OnePage,
    /// A lock that was withdrawn stays taken.
    WithdrawDoesNothing,
    /// A provider remembers that a record exists.
    RemembersRecords,
}
