//! The end of each tick.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use shedlock_core::{Error, LostReason, Skip, Slot};

use crate::Trigger;

/// An observer that is notified of the end of each tick, for metrics and alarms. The logs contain
/// it as well.
///
/// The one task that drives all jobs calls it, so it must be quick. A panic in it is caught and
/// logged.
///
/// ```
/// use shedlock::scheduler::{Observer, Tick, TickEnd};
/// #[derive(Debug)]
/// struct Alarm;
/// impl Observer for Alarm {
///     fn on_tick(&self, tick: &Tick<'_>) {
///         if !matches!(tick.end, TickEnd::Ran { .. } | TickEnd::Taken) {
///             eprintln!("{}: {}", tick.job, tick.end);
///         }
///     }
/// }
/// ```
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Handles the end of a tick on this node.
    fn on_tick(&self, tick: &Tick<'_>);

    /// Handles a panic of the scheduler, or of code that it called: a clock, an observer, an
    /// error's `Display`.
    ///
    /// The panic is logged as an error, and the scheduler continues. If it was planning a job, that
    /// job continues after a minute. A task that panics is [`TickEnd::Panicked`] and is not
    /// reported here.
    fn on_panic(&self, job: Option<&str>, message: &str) {
        let _ = (job, message);
    }
}

/// A tick that has ended on this node.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Tick<'a> {
    /// The job.
    pub job: &'a str,
    /// The slot; `None` for a fixed delay and for [`Trigger::Now`].
    pub slot: Option<Slot>,
    /// Why it was due.
    pub trigger: Trigger,
    /// How it ended.
    pub end: &'a TickEnd,
}

/// How a tick ended on this node.
#[derive(Debug)]
#[non_exhaustive]
pub enum TickEnd {
    /// It ran here to its end.
    #[non_exhaustive]
    Ran {
        /// How long after its slot the task started.
        lateness: Duration,
        /// The result of the task.
        result: Result<(), Box<dyn StdError + Send + Sync>>,
        /// Why the lock could not be given back. The lock is then free when `lock_at_most_for` has
        /// passed.
        unlock_error: Option<Error>,
    },
    /// It started here, and its lease ended before it did.
    #[non_exhaustive]
    Lost {
        /// The reason.
        reason: LostReason,
        /// The result of the task, if it ran to its end; `None` if it was stopped.
        result: Option<Result<(), Box<dyn StdError + Send + Sync>>>,
    },
    /// It started here and panicked.
    Panicked,
    /// It was running here when the grace period of a shutdown had passed, and was stopped.
    #[non_exhaustive]
    Cut {
        /// Whether the lock was given back. Otherwise the lock is free when `lock_at_most_for` has
        /// passed.
        unlocked: bool,
    },
    /// Another replica has taken this slot. If that replica still held the lock, this is reported
    /// after a second attempt, up to 10 s later, since the slot might have been given back.
    Taken,
    /// No replica runs this slot any more: all attempts at it were made without success, or the
    /// last slot taken is ahead of the store's clock. An operator has to reset the last slot.
    GivenUp(Skip),
    /// Another owner held the lock as long as the tick could wait.
    Busy(Skip),
    /// The store was unavailable, or refused the attempt, as long as the tick could wait: until its late limit, or until
    /// a newer slot was due. The first of the failures before it was logged as a warning. A job that must not be lost
    /// waits as long as the store fails, so that the warning is all there is until it goes on.
    Failed(Error),
    /// It was not tried, or no longer tried.
    Missed(MissedReason),
}

impl TickEnd {
    /// Returns true if the task was started here.
    pub fn has_started(&self) -> bool {
        match self {
            Self::Ran { .. } | Self::Lost { .. } | Self::Panicked | Self::Cut { .. } => true,
            Self::Taken | Self::GivenUp(_) | Self::Busy(_) | Self::Failed(_) | Self::Missed(_) => {
                false
            }
        }
    }

    /// Returns true if the slot is used up, here or elsewhere.
    pub(crate) fn is_decided(&self) -> bool {
        self.has_started() || matches!(self, Self::Taken | Self::GivenUp(_))
    }
}

/// Formats the end as the continuation of "tick: ".
impl fmt::Display for TickEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran { result: Ok(()), .. } => f.write_str("ran"),
            Self::Ran {
                result: Err(error), ..
            } => write!(f, "failed: {error}"),
            Self::Lost { reason, .. } => write!(f, "lost its lease: {reason}"),
            Self::Panicked => f.write_str("panicked"),
            Self::Cut { unlocked: true } => {
                f.write_str("stopped by the shutdown; its lock was released")
            }
            Self::Cut { unlocked: false } => f.write_str(
                "stopped by the shutdown; its lock will be free when lock_at_most_for has passed",
            ),
            Self::Taken => f.write_str("taken by another replica"),
            Self::GivenUp(skip) => write!(f, "skipped: {skip}"),
            Self::Busy(skip) => write!(f, "skipped: {skip}"),
            Self::Failed(error) => write!(f, "attempt failed: {error:#}"),
            Self::Missed(reason) => write!(f, "missed: {reason}"),
        }
    }
}

/// Why a tick was not tried, or no longer tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedReason {
    /// Its late policy did not allow a later start.
    TooLate,
    /// A newer slot of the job was due. If the last attempt at this one had failed at the store, the end is
    /// [`TickEnd::Failed`] instead.
    Superseded,
    /// A run was in progress here, and the job does not queue.
    Overlap,
    /// The calendar was set back to before its time.
    SetBack,
    /// The job was paused here.
    Paused,
    /// The scheduler was shutting down.
    Shutdown,
}

impl fmt::Display for MissedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLate => "too late",
            Self::Superseded => "a newer slot was due",
            Self::Overlap => "the previous run was still in progress",
            Self::SetBack => "the clock was set back to before it was due",
            Self::Paused => "the job was paused",
            Self::Shutdown => "the scheduler was shutting down",
        })
    }
}
