//! Mistakes that no wrapper around a provider can make. The harness that makes one asks whether it
//! is this one.

use super::about::{About, At, Known};

/// An attempt that arrives too late is refused, but takes its slot.
pub(super) struct TakesSlotOfLateAttempt;

impl Known for TakesSlotOfLateAttempt {
    const ABOUT: About = About::new("takes-slot-of-late-attempt")
        .at(At::Wire)
        .caught_by(&[
            "law06_held_is_not_broken::a_copy_that_arrives_after_the_withdrawal_takes_nothing",
            "law06_held_is_not_broken::a_copy_that_arrives_after_a_skip_takes_nothing",
        ]);
}

/// If the reply to an unlock is lost, the client treats another owner's record as a lost lease.
pub(super) struct UnlockReadBack;

impl Known for UnlockReadBack {
    const ABOUT: About = About::new("unlock-read-back")
        .at(At::Wire)
        .caught_by(&["law06_held_is_not_broken::\
         an_unlock_whose_answer_was_lost_is_not_lost_once_another_has_the_lock"]);
}

/// A store accepts calls under settings that break promises.
pub(super) struct AcceptsWeakContainer;

impl Known for AcceptsWeakContainer {
    const ABOUT: About = About::new("accepts-weak-container")
        .at(At::Wire)
        .caught_by(&["declared::a_container_that_breaks_promises_is_refused_at_the_first_call"]);
}

/// A store that has lost its last writes reuses their numbers for the next ones, and does not
/// declare it.
pub(super) struct VersionsReused;

impl Known for VersionsReused {
    const ABOUT: About = About::new("versions-reused")
        .violates(&[
            "not the owner",
            "overlap in the store",
            "shortened",
            "not given back",
        ])
        .at(At::Versions)
        .in_simulation();
}

/// A client is shown an older state of a record than it has already seen.
pub(super) struct ReadsGoBack;

impl Known for ReadsGoBack {
    const ABOUT: About = About::new("reads-go-back")
        .violates(&["owner returns", "not given back"])
        .at(At::Versions)
        .in_simulation();
}

/// The clients' clocks judge, and one of them is really ahead by more than is tolerated.
pub(super) struct ClocksApart;

impl Known for ClocksApart {
    const ABOUT: About = About::new("clocks-apart")
        .at(At::Processes)
        .violates(&["overlap", "lost ownership"])
        .in_torture();
}

/// Processes of real ShedLock share one host, which is their owner.
pub(super) struct ShedlocksOfOneHost;

impl Known for ShedlocksOfOneHost {
    const ABOUT: About = About::new("shedlocks-of-one-host")
        .at(At::Processes)
        .violates(&["overlap", "lost ownership"])
        .in_torture();
}

/// An expired lease gives its slot back, even if another owner has the slot then. Only the model
/// tries every order in which that owner can come in between; `SlotGivenBackTwice` is the same
/// mistake without the lease.
pub(super) struct SlotGivenBackLate;

impl Known for SlotGivenBackLate {
    const ABOUT: About = About::new("slot-given-back-late").at(At::Model);
}

/// Whether copies of an attempt may still arrive is decided when the reply to the unlock arrives
/// instead of when the unlock is sent. It is a mistake within the runtime, which the model imitates.
pub(super) struct StraysForgotten;

impl Known for StraysForgotten {
    const ABOUT: About = About::new("strays-forgotten").at(At::Model);
}

/// A withdrawal leaves the version that a late write would replace. It is a mistake within the
/// compare-and-swap engine, which the model imitates.
pub(super) struct WithdrawLeavesVersion;

impl Known for WithdrawLeavesVersion {
    const ABOUT: About = About::new("withdraw-leaves-version").at(At::Model);
}

/// The data that is kept next to the lock is overwritten, whatever it contains. Only the model has
/// two keys; see "The two keys of NATS" in `docs/proof.md`.
pub(super) struct KeysApart;

impl Known for KeysApart {
    const ABOUT: About = About::new("keys-apart").at(At::Model);
}
