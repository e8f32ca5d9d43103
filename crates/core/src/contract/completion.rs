//! When a slot is used up.

use std::time::Duration;

use crate::contract::duration::check_longest;
use crate::contract::{Error, ErrorKind};

/// When a slot is used up: when it is taken, or when its run succeeded.
///
/// ```
/// use shedlock::{Completion, LockConfig, Retries};
/// use std::time::Duration;
/// let config = LockConfig::new("invoices")
///     .lock_at_most_for("30m")
///     .completion(Completion::OnSuccess(
///         Retries::new().max_attempts(3).backoff(Duration::from_secs(60)),
///     ));
/// # drop(config);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Completion {
    /// When it is taken: at most one run, whatever its outcome.
    #[default]
    WhenTaken,
    /// When one of its runs succeeds: at least one run, for jobs that must not be lost.
    ///
    /// Until the slot is done, no later slot of the lock can be taken this way. After a failure, a
    /// loss or a crash, any attempt for the slot takes it over, until it is done or
    /// [`Retries::max_attempts`] attempts were made. A run that finished but could not record its
    /// success is therefore repeated, so the task must be idempotent.
    OnSuccess(Retries),
}

/// How often a slot that must not be lost is tried, and with which pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Retries {
    max_attempts: u32,
    backoff: Duration,
    max_backoff: Duration,
}

impl Completion {
    /// Returns `OnSuccess` with [`Retries::new`].
    pub const fn on_success() -> Self {
        Self::OnSuccess(Retries::new())
    }

    /// Returns the retries, if the slot must not be lost.
    pub fn retries(self) -> Option<Retries> {
        match self {
            Self::WhenTaken => None,
            Self::OnSuccess(retries) => Some(retries),
        }
    }

    /// # Errors
    /// `InvalidInput` for retries that allow no attempt, or whose pauses no store can express.
    pub(crate) fn validate(self) -> Result<(), Error> {
        let Some(retries) = self.retries() else {
            return Ok(());
        };
        if retries.max_attempts == 0 {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "max_attempts is zero: the slot could never be run",
            )
            .advise("set it to at least 1"));
        }
        check_longest("backoff", retries.backoff)?;
        check_longest("max_backoff", retries.max_backoff)
    }
}

impl Retries {
    /// Creates retries with five attempts. The pause after a failure is 10 s, doubles after each
    /// further failure, and is at most 10 min.
    pub const fn new() -> Self {
        Self {
            max_attempts: 5,
            backoff: Duration::from_secs(10),
            max_backoff: Duration::from_secs(600),
        }
    }

    /// Sets how often the slot is taken before it is given up, including the first time and
    /// takeovers after a crash. The replicas of a job should agree on this number: each uses its
    /// own.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets the pause after the first failed attempt, during which the lock stays taken. After a
    /// crash there is no pause other than the rest of the lease.
    pub const fn backoff(mut self, pause: Duration) -> Self {
        self.backoff = pause;
        self
    }

    /// Sets the longest pause between attempts.
    pub const fn max_backoff(mut self, pause: Duration) -> Self {
        self.max_backoff = pause;
        self
    }

    /// Returns how often the slot is taken before it is given up.
    pub fn get_max_attempts(self) -> u32 {
        self.max_attempts
    }

    /// Returns the pause after this attempt (the first is 1) has failed.
    pub fn pause_after(self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        self.backoff
            .saturating_mul(1 << doublings)
            .min(self.max_backoff)
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retries = Retries::new().backoff(Duration::from_secs(10));
        let pauses = [1, 2, 3, 4, 7, 100].map(|attempt| retries.pause_after(attempt).as_secs());
        assert_eq!(pauses, [10, 20, 40, 80, 600, 600]);
    }

    #[test]
    fn no_attempts_are_refused() {
        let none = Completion::OnSuccess(Retries::new().max_attempts(0));
        assert!(none.validate().is_err());
        assert!(Completion::on_success().validate().is_ok());
    }

    #[test]
    fn pauses_that_a_store_cannot_express_are_refused() {
        let message = |retries| {
            Completion::OnSuccess(retries)
                .validate()
                .unwrap_err()
                .to_string()
        };
        let longest = Duration::MAX;
        assert!(message(Retries::new().backoff(longest)).starts_with("backoff is longer than"));
        let retries = Retries::new().max_backoff(longest);
        assert!(message(retries).starts_with("max_backoff is longer than"));
    }
}
