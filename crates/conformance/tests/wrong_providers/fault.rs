//! Ways in which a provider can be wrong.

/// How a provider is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not at all: checks the test setup itself.
    None,
    /// Unlock frees the lock even if another owner holds it.
    UnlockIgnoresOwner,
    /// Unlock of an expired lease returns "unlocked".
    UnlockOfExpiredIsOk,
    /// An extension revives an expired lease.
    ExtendRevivesExpired,
    /// A second unlock returns "lost".
    SecondUnlockIsLost,
    /// The check for a taken slot is a separate step before the acquisition.
    SlotInTwoSteps,
    /// A slot is remembered only while its lease runs.
    SlotForgottenAtUnlock,
    /// A take-over of an open slot restarts its count of attempts.
    AttemptsForgottenAtTakeover,
    /// A later slot is granted while an earlier one is open.
    OpenSlotIsPassed,
    /// A slot far ahead of the clock is granted.
    SlotAheadGranted,
    /// The fencing token counts the acquisitions of this client.
    TokenPerClient,
    /// The fencing token starts over when the record is deleted.
    TokenForgottenWithRecord,
    /// The same attempt, repeated, is skipped as held.
    AttemptNotIdempotent,
    /// A failing store looks like a held lock.
    ErrorIsSkip,
    /// At-least is counted from unlock.
    AtLeastFromUnlock,
    /// At-least is not kept.
    AtLeastForgotten,
    /// A lease ends slightly before at-most.
    EndsEarly,
    /// Names are compared case-insensitively.
    NamesFoldCase,
    /// Names are treated as paths and normalized.
    NamesArePaths,
    /// Names are truncated to 64 bytes.
    NamesAreCut,
    /// A list ends after its first page.
    OnePage,
    /// A lock that was withdrawn stays taken.
    WithdrawDoesNothing,
    /// A provider caches that a record exists.
    RemembersRecords,
    /// A pause takes a lock from its holder although it was not asked to.
    PauseTakesHeldLocks,
    /// A pause is an ordinary lease: its slots are free after it.
    PauseForgetsSlots,
    /// A repeated pause is a new one.
    PauseIsNotIdempotent,
    /// A resumption frees a lock that is held and not paused.
    ResumeFreesHeldLocks,
    /// A forced unlock ends a pause.
    ForcedUnlockEndsPauses,
    /// A removal does not look at the lock's state.
    PruneRemovesHeldLocks,
    /// A removal does not look at the lock's slots.
    PruneIgnoresSlots,
    /// A removal deletes whatever record is there by then.
    PruneInTwoSteps,
    /// A removal reports success, and leaves the record.
    PruneKeepsTheRecord,
    /// A removal does not look at the idle time.
    PruneIgnoresTime,
    /// The plan of a migration has changes that are not made.
    PlansWhatIsThere,
}
