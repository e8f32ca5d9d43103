//! What became of a task.

use crate::{LostReason, Release, Skip};

/// What became of a task that was to run under a lock.
#[derive(Debug)]
#[must_use = "a skipped task looks like success if nobody looks"]
#[non_exhaustive]
pub enum Outcome<T> {
    /// It ran to its end under the lock.
    #[non_exhaustive]
    Executed {
        /// What it returned.
        value: T,
        /// How the lock was given back; a failure there never takes the value away.
        release: Release,
    },
    /// It did not run: the lock, or its slot, is somebody else's.
    Skipped(Skip),
    /// It started, and the lease ended before it did.
    #[non_exhaustive]
    Lost {
        /// What it returned, where it went on to its end; nothing where it was stopped.
        value: Option<T>,
        /// Why the lease is lost.
        reason: LostReason,
    },
}

impl<T> Outcome<T> {
    /// For `#[scheduler_lock]` on a function whose type has no place for an error.
    #[doc(hidden)]
    pub fn never_held() -> Self {
        Self::Lost {
            value: None,
            reason: LostReason::NeverHeld,
        }
    }

    /// True where the task ran to its end under the lock.
    pub fn is_executed(&self) -> bool {
        matches!(self, Self::Executed { .. })
    }

    /// True where the task did not run.
    pub fn is_skipped(&self) -> bool {
        matches!(self, Self::Skipped(_))
    }

    /// True where the lease ended before the task.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// What the task returned, however its lease ended; nothing where it was skipped or stopped.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Executed { value, .. } => Some(value),
            Self::Lost { value, .. } => value,
            Self::Skipped(_) => None,
        }
    }

    /// The skip, if it is one.
    pub fn skip(&self) -> Option<&Skip> {
        match self {
            Self::Skipped(skip) => Some(skip),
            _ => None,
        }
    }

    /// The same outcome with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Executed { value, release } => Outcome::Executed {
                value: change(value),
                release,
            },
            Self::Skipped(skip) => Outcome::Skipped(skip),
            Self::Lost { value, reason } => Outcome::Lost {
                value: value.map(change),
                reason,
            },
        }
    }
}

impl<T, E> Outcome<Result<T, E>> {
    /// The task's own error in front, so that `?` passes it on.
    ///
    /// # Errors
    /// The error that the task returned.
    ///
    /// ```
    /// use shedlock::{Executor, LockConfig, MemoryProvider};
    /// use std::sync::Arc;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let executor = Executor::new(Arc::new(MemoryProvider::new()));
    /// let config = LockConfig::new("payroll").lock_at_most_for("10m");
    /// let outcome = executor.execute(&config, async { "12".parse::<u32>() }).await?;
    /// assert_eq!(outcome.transpose()?.value(), Some(12));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn transpose(self) -> Result<Outcome<T>, E> {
        Ok(match self {
            Self::Executed { value, release } => Outcome::Executed {
                value: value?,
                release,
            },
            Self::Skipped(skip) => Outcome::Skipped(skip),
            Self::Lost { value, reason } => Outcome::Lost {
                value: value.transpose()?,
                reason,
            },
        })
    }
}
