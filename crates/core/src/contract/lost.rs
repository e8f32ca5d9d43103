//! Leases that end before their task.

use std::fmt;

/// Why a lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The local deadline passed: the lease in the store ends shortly.
    DeadlinePassed,
    /// The store reported that the lease had ended or that the lock belongs to another owner: it
    /// was freed by force, taken over while its holder was suspended, or its record was changed by
    /// hand.
    NotHeldInStore,
    /// The task ran to its end, the reply to its unlock was lost, and when the unlock was repeated another owner had the
    /// lock, or had had it. Whether that owner's lease began before the lock was given back cannot be told: the run may
    /// have been overlapped ([`Release::MaybeOverlapped`](crate::Release::MaybeOverlapped)).
    MaybeOverlapped,
    /// The task ran longer than its maximum run time. Its lease may run on.
    RanTooLong,
    /// There never was a lease: the attempt failed, and the task did not run. Only used if a
    /// function under `#[scheduler_lock]` returns a bare [`Outcome`](crate::Outcome), which cannot
    /// carry the error; the error is in the log.
    NeverHeld,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeadlinePassed => "lock_at_most_for has passed",
            Self::NotHeldInStore => {
                "the lock was freed by force or paused with --now, taken over while its holder was \
                 suspended, or its record was changed"
            }
            Self::MaybeOverlapped => {
                "the reply to the unlock was lost, and another owner has had the lock since: the run may have been \
                 overlapped"
            }
            Self::RanTooLong => "the maximum run time has passed",
            Self::NeverHeld => "the lock could not be requested; the task did not run",
        })
    }
}

/// What happens to a task whose lease is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostPolicy {
    /// The task's future is dropped and never polled again.
    #[default]
    Cancel,
    /// The task continues, with a warning. For tasks that may overlap and must not be interrupted.
    Continue,
}
