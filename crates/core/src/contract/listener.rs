//! Events that happen to locks, and their listener.

use std::fmt;
use std::time::Duration;

use crate::contract::{
    AttemptRequest, Error, Lease, LockName, LostReason, Owner, Skip, Slot, TaskEnd,
};

/// Receives all events of the locks of an executor.
///
/// It is called on the task's own thread, so it must be quick. A panic in it is caught and logged,
/// and has no other effect. Events are also logged with `tracing`, under the target
/// `shedlock_core::lock`, unless a listener [tells](Self::tells) them.
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

    /// Returns whether this listener tells its user about the events. They are not logged then.
    fn tells(&self) -> bool {
        false
    }
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
        /// Whether the reason differs from that of the attempt before.
        is_news: bool,
    },
    /// Another owner has the lock or its slot. The task does not run.
    #[non_exhaustive]
    Skipped {
        /// The request.
        request: &'a AttemptRequest,
        /// Why the lock was not acquired.
        skip: &'a Skip,
    },
    /// A run of a slot that must not be lost has failed.
    #[non_exhaustive]
    SlotAttemptFailed {
        /// The lease.
        lease: &'a Lease,
        /// The number of this attempt at the slot, from 1.
        attempt: u32,
        /// How many attempts are made.
        of: u32,
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
        /// From which time on a run is slow.
        slow_from: Duration,
    },
    /// A lease was extended.
    #[non_exhaustive]
    Extended {
        /// The lease as it is now.
        lease: &'a Lease,
    },
    /// The keep-alive could not extend a lease. If that fails again for the same reason, no further
    /// event follows.
    #[non_exhaustive]
    ExtendFailed {
        /// The lease.
        lease: &'a Lease,
        /// Why.
        error: &'a Error,
        /// Whether it is not tried again. The task is then stopped before the lease ends.
        is_final: bool,
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
    /// A lock could not be given back for as long as its caller waits. That goes on in the background
    /// while the lease lasts.
    #[non_exhaustive]
    UnlockDelayed {
        /// The lease.
        lease: &'a Lease,
        /// Why.
        error: &'a Error,
    },
    /// A lock was not given back. It becomes free when its lease ends.
    #[non_exhaustive]
    UnlockFailed {
        /// The lease.
        lease: &'a Lease,
        /// Why.
        why: NotUnlocked<'a>,
    },
    /// Tasks that were spawned with the lock have not stopped before the lease ended.
    #[non_exhaustive]
    TasksLeft {
        /// The lease.
        lease: &'a Lease,
    },
    /// What an attempt without a reply had won was given back.
    #[non_exhaustive]
    Withdrawn {
        /// The attempt.
        request: &'a AttemptRequest,
    },
    /// What an attempt without a reply may have won could not be given back. If that fails again for
    /// the same reason, no further event follows.
    #[non_exhaustive]
    WithdrawalFailed {
        /// The attempt.
        request: &'a AttemptRequest,
        /// Why. `None` if there is no runtime that could try it.
        error: Option<&'a Error>,
        /// Whether it is not tried again. The lock is free when `lock_at_most_for` has passed.
        is_final: bool,
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

/// Why a lock was not given back.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum NotUnlocked<'a> {
    /// Its holder left it taken.
    Left,
    /// The store did not reply to the unlock in time, or refused it.
    Failed(&'a Error),
    /// The runtime shut down before, or there was none. A connection of the library's own unlocks it.
    HandedOver,
    /// The runtime shut down before, or there was none, and nothing else can unlock it.
    NoRuntime,
}

impl Event<'_> {
    fn subject(&self) -> Subject<'_> {
        match self {
            Self::Attempt { request }
            | Self::Waiting { request, .. }
            | Self::Skipped { request, .. }
            | Self::Withdrawn { request }
            | Self::WithdrawalFailed { request, .. } => Subject::Request(request),
            Self::Acquired { lease }
            | Self::Extended { lease }
            | Self::ExtendFailed { lease, .. }
            | Self::TaskStarted { lease, .. }
            | Self::TaskFinished { lease, .. }
            | Self::SlotAttemptFailed { lease, .. }
            | Self::SlowRun { lease, .. }
            | Self::Lost { lease, .. }
            | Self::Unlocked { lease }
            | Self::UnlockDelayed { lease, .. }
            | Self::UnlockFailed { lease, .. }
            | Self::TasksLeft { lease } => Subject::Lease(lease),
            Self::SlotGivenUp { name, job, .. } | Self::StoreError { name, job, .. } => {
                Subject::Lock(name, job)
            }
        }
    }

    /// Returns the lock that the event happened to.
    pub fn lock_name(&self) -> &LockName {
        match self.subject() {
            Subject::Request(request) => &request.name,
            Subject::Lease(lease) => lease.name(),
            Subject::Lock(name, _) => name,
        }
    }

    /// Returns the job that the lock belongs to: the template of its name, or the name itself; see
    /// [`LockConfig::job`](crate::LockConfig::job). Use it for labels of metrics.
    pub fn job(&self) -> &str {
        match self.subject() {
            Subject::Request(request) => request.job(),
            Subject::Lease(lease) => lease.job(),
            Subject::Lock(_, job) => job,
        }
    }

    /// Returns the owner of the attempt or of the lease. `None` if the event is about neither.
    pub fn owner(&self) -> Option<&Owner> {
        match self.subject() {
            Subject::Request(request) => Some(&request.owner),
            Subject::Lease(lease) => Some(lease.owner()),
            Subject::Lock(..) => None,
        }
    }
}

/// What an event is about.
enum Subject<'a> {
    Request(&'a AttemptRequest),
    Lease(&'a Lease),
    Lock(&'a LockName, &'a str),
}
