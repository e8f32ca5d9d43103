//! When a slot is used up.

use std::time::Duration;

use crate::{Error, ErrorKind};

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
    /// When it is taken: at most one run, whatever becomes of it.
    #[default]
    WhenTaken,
    /// When a run of it succeeded: at least one run, for jobs that must not be lost.
    ///
    /// While it is not done, no later slot of the lock can be taken this way; after a failure, a
    /// loss or a death, anybody who asks for the slot takes it over, until it is done or as many
    /// attempts were made as [`Retries::max_attempts`] allows. A run may so happen again that had
    /// finished and could not say so: such tasks bear being repeated.
    OnSuccess(Retries),
}

/// How often a slot that must not be lost is tried, and how soon again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Retries {
    max_attempts: u32,
    backoff: Duration,
    max_backoff: Duration,
}

impl Completion {
    /// On success, with [`Retries::new`].
    pub const fn on_success() -> Self {
        Self::OnSuccess(Retries::new())
    }

    /// The retries of a slot that must not be lost.
    pub fn retries(self) -> Option<Retries> {
        match self {
            Self::WhenTaken => None,
            Self::OnSuccess(retries) => Some(retries),
        }
    }

    /// # Errors
    /// `InvalidInput` for retries that allow no attempt.
    pub(crate) fn validate(self) -> Result<(), Error> {
        if self
            .retries()
            .is_some_and(|retries| retries.max_attempts == 0)
        {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "max_attempts is zero: the slot could never be run",
            ));
        }
        Ok(())
    }
}

impl Retries {
    /// Five attempts; after a failure 10 s of pause, twice as long after each further one, 10 min
    /// at the most.
    pub const fn new() -> Self {
        Self {
            max_attempts: 5,
            backoff: Duration::from_secs(10),
            max_backoff: Duration::from_secs(600),
        }
    }

    /// How often the slot is taken before it is given up, the first time and takeovers after a
    /// death included. The replicas of a job should agree on it: each goes by its own number.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// The pause after the first attempt that failed, during which the lock stays taken. After a
    /// death there is none but what is left of the lease.
    pub const fn backoff(mut self, pause: Duration) -> Self {
        self.backoff = pause;
        self
    }

    /// The longest pause between attempts.
    pub const fn max_backoff(mut self, pause: Duration) -> Self {
        self.max_backoff = pause;
        self
    }

    /// How often the slot is taken before it is given up.
    pub fn get_max_attempts(self) -> u32 {
        self.max_attempts
    }

    /// The pause after this attempt (the first is 1) has failed.
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
}
