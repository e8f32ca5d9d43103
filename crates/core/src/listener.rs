//! Events that happen to locks, and their listener.

use std::fmt;
use std::time::Duration;

use crate::{AttemptRequest, Error, Lease, LockName, LostReason, Skip, Slot, TaskEnd};

/// Receives all events of the locks of an executor.
///
/// It is called on the task's own thread, so it must be quick. A panic in it is caught and logged,
/// and has no other effect.
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
    /// Handles an event.
    fn on_event(&self, event: &Event<'_>);
}

/// Something that happened to a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt at a lock is about to be made.
    #[non_exhaustive]
    Attempt {
        /// The request.
        request: &'a AttemptRequest,
    },
    /// A lock was taken.
    #[non_exhaustive]
    Acquired {
        /// The lease.
        lease: &'a Lease,
    },
    /// Another owner has the lock. The attempt is repeated later
    /// ([`LockConfig::lock_wait`](crate::LockConfig::lock_wait)). Until then no request is in
    /// progress.
    #[non_exhaustive]
    Waiting {
        /// The request.
        request: &'a AttemptRequest,
        /// Why the lock was not acquired.
        skip: &'a Skip,
    },
    /// Another owner has the lock or its slot. The task does not run.
    #[non_exhaustive]
    Skipped {
        /// The request.
        request: &'a AttemptRequest,
        /// Why the lock was not acquired.
        skip: &'a Skip,
    },
    /// A slot that must not be lost is given up: its last attempt failed here, or an attempt found
    /// that all were used up. It does not run again unless an operator resets the last slot.
    #[non_exhaustive]
    SlotGivenUp {
        /// The lock.
        name: &'a LockName,
        /// The job; see [`LockConfig::job`](crate::LockConfig::job).
        job: &'a str,
        /// The slot.
        slot: Slot,
    },
    /// A task starts under a lock. It is followed by exactly one
    /// [`TaskFinished`](Self::TaskFinished).
    ///
    /// A lock that is held without a task ([`Executor::lock`](crate::Executor::lock)) counts as a
    /// task from its acquisition until it is given back.
    #[non_exhaustive]
    TaskStarted {
        /// The lease.
        lease: &'a Lease,
        /// Whether the task runs inside a task that already holds this lock. The lease is that
        /// task's.
        is_reentrant: bool,
    },
    /// A task ended: it returned, panicked, or was stopped.
    #[non_exhaustive]
    TaskFinished {
        /// The lease.
        lease: &'a Lease,
        /// Whether the task ran inside a task that already held this lock.
        is_reentrant: bool,
        /// How long the task itself ran.
        ran_for: Duration,
        /// How it ended. The unlock that follows can still find that the lease had ended before the
        /// task: then [`Lost`](Self::Lost) follows.
        end: TaskEnd<'a>,
    },
    /// A run took more of its time limit than it should have
    /// ([`Executor::slow_run`](crate::Executor::slow_run)). It follows
    /// [`TaskFinished`](Self::TaskFinished).
    #[non_exhaustive]
    SlowRun {
        /// The lease.
        lease: &'a Lease,
        /// How long the task ran.
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
        /// The reason.
        reason: LostReason,
    },
    /// A lock was given back.
    #[non_exhaustive]
    Unlocked {
        /// The lease that ended.
        lease: &'a Lease,
    },
    /// A lock could not be given back: the store did not reply to the unlock in time, or there was no
    /// runtime that could send it. The lock becomes free when its lease ends, unless a connection of
    /// the library's own can still unlock it.
    #[non_exhaustive]
    UnlockFailed {
        /// The lease.
        lease: &'a Lease,
    },
    /// The store failed. The request may be repeated.
    #[non_exhaustive]
    StoreError {
        /// The lock.
        name: &'a LockName,
        /// The job; see [`LockConfig::job`](crate::LockConfig::job).
        job: &'a str,
        /// What failed.
        error: &'a Error,
    },
}

impl Event<'_> {
    /// Returns the lock that the event happened to.
    pub fn lock_name(&self) -> &LockName {
        match self {
            Self::Attempt { request }
            | Self::Waiting { request, .. }
            | Self::Skipped { request, .. } => request.name(),
            Self::Acquired { lease }
            | Self::Extended { lease }
            | Self::TaskStarted { lease, .. }
            | Self::TaskFinished { lease, .. }
            | Self::SlowRun { lease, .. }
            | Self::Lost { lease, .. }
            | Self::Unlocked { lease }
            | Self::UnlockFailed { lease } => lease.name(),
            Self::SlotGivenUp { name, .. } | Self::StoreError { name, .. } => name,
        }
    }

    /// Returns the job that the lock belongs to: the template of its name, or the name itself; see
    /// [`LockConfig::job`](crate::LockConfig::job). Use it for labels of metrics.
    pub fn job(&self) -> &str {
        match self {
            Self::Attempt { request }
            | Self::Waiting { request, .. }
            | Self::Skipped { request, .. } => request.job(),
            Self::Acquired { lease }
            | Self::Extended { lease }
            | Self::TaskStarted { lease, .. }
            | Self::TaskFinished { lease, .. }
            | Self::SlowRun { lease, .. }
            | Self::Lost { lease, .. }
            | Self::Unlocked { lease }
            | Self::UnlockFailed { lease } => lease.job(),
            Self::SlotGivenUp { job, .. } | Self::StoreError { job, .. } => job,
        }
    }
}
