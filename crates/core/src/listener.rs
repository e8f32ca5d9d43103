//! What happens to locks, for those who want to hear of it.

use std::fmt;
use std::time::Duration;

use crate::{AttemptRequest, Error, Lease, LockName, LostReason, Skip, Slot};

/// Hears of everything that happens to the locks of an executor.
///
/// Called on the task's own thread: be quick. A panic in it is caught and logged, and harms
/// nothing.
///
/// ```
/// use shedlock::{Event, Listener};
/// #[derive(Debug)]
/// struct Skips;
/// impl Listener for Skips {
///     fn on_event(&self, event: &Event<'_>) {
///         if let Event::Skipped { skip, .. } = event {
///             eprintln!("{}: skipped, {skip}", event.lock_name());
///         }
///     }
/// }
/// ```
pub trait Listener: fmt::Debug + Send + Sync + 'static {
    /// Something happened.
    fn on_event(&self, event: &Event<'_>);
}

/// Something that happened to a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A lock is about to be asked for.
    #[non_exhaustive]
    Attempt {
        /// What is asked.
        request: &'a AttemptRequest,
    },
    /// A lock was taken.
    #[non_exhaustive]
    Acquired {
        /// The lease.
        lease: &'a Lease,
    },
    /// A lock was somebody else's, and is asked for again in a while
    /// ([`LockConfig::lock_wait`](crate::LockConfig::lock_wait)). Until then nothing is under way.
    #[non_exhaustive]
    Waiting {
        /// What was asked.
        request: &'a AttemptRequest,
        /// Why not.
        skip: &'a Skip,
    },
    /// A lock, or a slot, was somebody else's; the task does not run.
    #[non_exhaustive]
    Skipped {
        /// What was asked.
        request: &'a AttemptRequest,
        /// Why not.
        skip: &'a Skip,
    },
    /// A slot that must not be lost is given up: the last attempt at it failed here, or an attempt
    /// found that all were made. No one runs it any more, unless an operator resets the last slot.
    #[non_exhaustive]
    SlotGivenUp {
        /// The lock.
        name: &'a LockName,
        /// The slot.
        slot: Slot,
    },
    /// A task starts under a lock; also where it is reentrant.
    #[non_exhaustive]
    TaskStarted {
        /// The lock.
        name: &'a LockName,
    },
    /// A task ended: with a value, a panic, or because it was stopped.
    #[non_exhaustive]
    TaskFinished {
        /// The lock.
        name: &'a LockName,
        /// How long the task itself ran.
        ran_for: Duration,
    },
    /// A lease was extended.
    #[non_exhaustive]
    Extended {
        /// The lease as it is now.
        lease: &'a Lease,
    },
    /// A lease ended, or may have ended, before its task.
    #[non_exhaustive]
    Lost {
        /// The lease.
        lease: &'a Lease,
        /// Why.
        reason: LostReason,
    },
    /// A lock was given back.
    #[non_exhaustive]
    Unlocked {
        /// The lease that ended.
        lease: &'a Lease,
    },
    /// The store failed; what was asked may be asked again.
    #[non_exhaustive]
    StoreError {
        /// The lock.
        name: &'a LockName,
        /// What failed.
        error: &'a Error,
    },
}

impl Event<'_> {
    /// The lock it happened to.
    pub fn lock_name(&self) -> &LockName {
        match self {
            Self::Attempt { request }
            | Self::Waiting { request, .. }
            | Self::Skipped { request, .. } => request.name(),
            Self::Acquired { lease }
            | Self::Extended { lease }
            | Self::Lost { lease, .. }
            | Self::Unlocked { lease } => lease.name(),
            Self::SlotGivenUp { name, .. }
            | Self::TaskStarted { name }
            | Self::TaskFinished { name, .. }
            | Self::StoreError { name, .. } => name,
        }
    }
}
