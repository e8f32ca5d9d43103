//! The outcome of a task.

use crate::contract::{LostReason, Skip};
use crate::runtime::Release;

/// The outcome of a task that was to run under a lock.
#[derive(Debug)]
#[must_use = "the task may not have run: check the outcome"]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The task ran to its end under the lock.
    #[non_exhaustive]
    Executed {
        /// The value that the task returned.
        value: T,
        /// How the lock was given back. A failure there never discards the value.
        release: Release,
    },
    /// The task did not run: another owner has the lock or its slot.
    Skipped(Skip),
    /// The lease ended before the task did, which may not have started.
    #[non_exhaustive]
    Lost {
        /// The value that the task returned, if it ran to its end; `None` if it was stopped or not
        /// started.
        value: Option<T>,
        /// Why the lease was lost.
        reason: LostReason,
    },
}

impl<T> Outcome<T> {
    /// For `#[scheduler_lock]` on a function whose return type cannot carry an error.
    #[doc(hidden)]
    pub fn never_held() -> Self {
        Self::Lost {
            value: None,
            reason: LostReason::NeverHeld,
        }
    }

    /// Returns true if the task ran to its end under the lock.
    pub fn is_executed(&self) -> bool {
        matches!(self, Self::Executed { .. })
    }

    /// Returns true if the task did not run.
    pub fn is_skipped(&self) -> bool {
        matches!(self, Self::Skipped(_))
    }

    /// Returns true if the lease ended before the task.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns the task's value, however its lease ended; `None` if the task was skipped or
    /// stopped.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Executed { value, .. } => Some(value),
            Self::Lost { value, .. } => value,
            Self::Skipped(_) => None,
        }
    }

    /// Returns the skip, if the outcome is one.
    pub fn skip(&self) -> Option<&Skip> {
        match self {
            Self::Skipped(skip) => Some(skip),
            _ => None,
        }
    }

    /// Applies a function to the value, if there is one.
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
    /// Moves the task's own error to the outside, so that `?` propagates it.
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
