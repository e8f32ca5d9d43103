//! What a lock is asked for with.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::random_u64;
use crate::duration::UnreadableDuration;
use crate::owner::check_prefix;
use crate::text;
use crate::{AttemptRequest, Completion, Error, ErrorKind, LockDuration, LockName, Owner, Slot};

/// A lock as the user asks for it: its name, how long it may be held, how long it must be.
///
/// Setters take `Duration`s and text alike. Text is parsed by the setter; a text that cannot be read
/// is reported by [`resolve`](Self::resolve), which every use of a configuration goes through before
/// any I/O, so that setters need no `?`.
///
/// ```
/// use shedlock::LockConfig;
/// let config = LockConfig::new("payroll").lock_at_most_for("10m").lock_at_least_for("30s");
/// config.validate()?;
/// # Ok::<(), shedlock::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct LockConfig {
    name: Arc<str>,
    lock_at_most_for: Option<Duration>,
    lock_at_least_for: Option<Duration>,
    slot: Option<Slot>,
    slot_tolerance: Duration,
    completion: Completion,
    previous_slot: Option<Slot>,
    keep_alive: bool,
    max_run_time: Option<Duration>,
    lock_wait: Duration,
    unreadable: Option<UnreadableDuration>,
}

impl LockConfig {
    /// A lock of this name; the durations come from the defaults unless they are set here.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: Arc::from(name.into()),
            lock_at_most_for: None,
            lock_at_least_for: None,
            slot: None,
            slot_tolerance: Slot::DEFAULT_TOLERANCE,
            completion: Completion::WhenTaken,
            previous_slot: None,
            keep_alive: false,
            max_run_time: None,
            lock_wait: Duration::ZERO,
            unreadable: None,
        }
    }

    /// The lease ends this long after acquisition if nobody unlocks it. Longer than the task ever
    /// takes: past it another replica may start.
    pub fn lock_at_most_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.lock_at_most_for = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// The lock stays taken at least this long after acquisition, however quickly the task ends.
    pub fn lock_at_least_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.lock_at_least_for = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// The slot this run is for: at most one acquisition per (name, slot).
    pub fn slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self
    }

    /// How far ahead of the store's clock the slot may lie; 60 s unless set.
    pub fn slot_tolerance(mut self, tolerance: Duration) -> Self {
        self.slot_tolerance = tolerance;
        self
    }

    /// When the slot is used up: when it is taken, unless set. With
    /// [`Completion::OnSuccess`] it is done only when the task has returned, and, where it is run by
    /// `try_execute`, returned `Ok`.
    pub fn completion(mut self, completion: Completion) -> Self {
        self.completion = completion;
        self
    }

    /// The slot before [`slot`](Self::slot), which must have been taken (or passed) before: for
    /// slots that must not be lost and run in order; see [`AttemptRequest::with_previous_slot`].
    pub fn previous_slot(mut self, slot: Slot) -> Self {
        self.previous_slot = Some(slot);
        self
    }

    /// Extends the lease in the background while the task runs: by lock_at_most_for, each time a
    /// third of it is gone. The lease then ends with the task, and lock_at_most_for is only how long
    /// the lock outlives a process that dies.
    ///
    /// A store that fails is asked again until the lease would end; the task is stopped then.
    pub fn keep_alive(mut self) -> Self {
        self.keep_alive = true;
        self
    }

    /// Stops the task when it has run this long, whatever its lease: the bound for a task that hangs
    /// under [`keep_alive`](Self::keep_alive).
    pub fn max_run_time(mut self, duration: impl Into<LockDuration>) -> Self {
        self.max_run_time = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// Waits this long for a lock that is somebody else's, asking again and again, rather than skip
    /// at once; zero, as unless set, does not wait.
    ///
    /// The answer is the skip of the last attempt, which is made when the wait is over. Between
    /// attempts it pauses: a little at first, then up to a twentieth of the wait and at most 5 s,
    /// with chance in it, and not past the instant at which the lock comes free by itself. A slot that
    /// was taken ends the waiting at once, since it stays taken.
    ///
    /// A store that cannot be asked ([`Error::is_retryable`]) is asked again too; its error is the
    /// answer where it is still away when the wait is over, and also, after an attempt whose answer
    /// was lost, when the lease that this attempt may have won would end. Any other error ends the
    /// waiting. A call that is under way when the wait is over is not cut off: it may take the
    /// [store timeout](crate::Executor::store_timeout) longer.
    ///
    /// A job of the scheduler does not need it, and does not look at it: its ticks are tried again
    /// anyway.
    ///
    /// Whoever waits longest is not served first. Dropping the waiting future is safe at any point:
    /// between two attempts nothing is held, and an attempt under way is withdrawn.
    ///
    /// ```
    /// use shedlock::{Attempt, Executor, LockConfig, MemoryProvider};
    /// use std::sync::Arc;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let executor = Executor::new(Arc::new(MemoryProvider::new()));
    /// let config = LockConfig::new("deploy").lock_at_most_for("10m");
    /// let Attempt::Acquired(first) = executor.lock(&config).await? else { unreachable!() };
    ///
    /// let patient = config.lock_wait("30s");
    /// let (second, _) = tokio::join!(executor.execute(&patient, async { 2 }), first.unlock());
    /// assert!(second?.is_executed());
    /// # Ok::<(), shedlock::Error>(()) }).unwrap();
    /// ```
    pub fn lock_wait(mut self, duration: impl Into<LockDuration>) -> Self {
        let duration = duration.into().or_note(&mut self.unreadable);
        self.lock_wait = duration.unwrap_or_default();
        self
    }

    /// The name as given, not yet checked.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was set with [`completion`](Self::completion).
    pub fn get_completion(&self) -> Completion {
        self.completion
    }

    /// Whether [`keep_alive`](Self::keep_alive) was set.
    pub fn get_keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// What was set with [`max_run_time`](Self::max_run_time).
    pub fn get_max_run_time(&self) -> Option<Duration> {
        self.max_run_time
    }

    /// What was set with [`lock_wait`](Self::lock_wait); zero unless set.
    pub fn get_lock_wait(&self) -> Duration {
        self.lock_wait
    }

    /// Checks what can be checked without knowing the defaults.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), except that a missing at-most is none.
    pub fn validate(&self) -> Result<(), Error> {
        let anything = LockDefaults::new().lock_at_most_for(Duration::MAX);
        self.resolve(&[&anything]).map(drop)
    }

    /// The request for one attempt, with a new owner. What is not set here is taken from the first
    /// of `defaults` that has it; at-least is zero where nobody says anything.
    ///
    /// # Errors
    /// `InvalidInput`: empty name, unreadable duration, no at-most anywhere, at-most zero, at-least
    /// longer than at-most.
    pub fn resolve(&self, defaults: &[&LockDefaults]) -> Result<AttemptRequest, Error> {
        self.resolve_with(defaults, random_u64)
    }

    /// The same with an owner whose random part is drawn by this.
    pub(crate) fn resolve_with(
        &self,
        defaults: &[&LockDefaults],
        random: impl FnOnce() -> u64,
    ) -> Result<AttemptRequest, Error> {
        self.resolved(defaults, random)
            .map_err(|error| error.with_lock(&*self.name))
    }

    fn resolved(
        &self,
        defaults: &[&LockDefaults],
        random: impl FnOnce() -> u64,
    ) -> Result<AttemptRequest, Error> {
        let name = LockName::shared(self.name.clone())?;
        let unreadable = self.unreadable.iter();
        let mut unreadable =
            unreadable.chain(defaults.iter().filter_map(|d| d.unreadable.as_ref()));
        if let Some(duration) = unreadable.next() {
            return Err(duration.error());
        }
        let at_most = self
            .lock_at_most_for
            .or_else(|| defaults.iter().find_map(|d| d.lock_at_most_for))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidInput,
                    "lock_at_most_for is not set: set it on the lock, or a default on the executor \
                     or the provider",
                )
            })?;
        let at_least = self
            .lock_at_least_for
            .or_else(|| defaults.iter().find_map(|d| d.lock_at_least_for))
            .unwrap_or_default();
        check_durations(at_most, at_least)?;
        if self.max_run_time == Some(Duration::ZERO) {
            let zero = "max_run_time is zero: the task could never run";
            return Err(Error::new(ErrorKind::InvalidInput, zero));
        }
        self.completion.validate()?;
        let prefix = defaults.iter().find_map(|d| d.owner_prefix.as_deref());
        let owner = Owner::drawn(prefix, random())?;
        let mut request =
            AttemptRequest::new(name, owner, at_most).with_lock_at_least_for(at_least);
        if let Some(slot) = self.slot {
            request = request
                .with_slot(slot)
                .with_slot_tolerance(self.slot_tolerance)
                .with_completion(self.completion);
        }
        if let Some(previous) = self.previous_slot {
            request = request.with_previous_slot(previous);
        }
        Ok(request)
    }
}

pub(crate) fn check_durations(at_most: Duration, at_least: Duration) -> Result<(), Error> {
    if at_most.is_zero() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "lock_at_most_for is zero: such a lock would be free again at once; \
             set it longer than the task ever takes",
        ));
    }
    if at_least > at_most {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "lock_at_least_for ({}) is longer than lock_at_most_for ({}): \
                 raise the one or lower the other",
                text::duration(at_least),
                text::duration(at_most),
            ),
        ));
    }
    Ok(())
}

/// Durations and an owner prefix that hold where a lock does not say otherwise.
///
/// They can be set on the provider and on the executor; the lock's own win, then the executor's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct LockDefaults {
    lock_at_most_for: Option<Duration>,
    lock_at_least_for: Option<Duration>,
    owner_prefix: Option<String>,
    unreadable: Option<UnreadableDuration>,
}

impl LockDefaults {
    /// No defaults.
    pub const fn new() -> Self {
        Self {
            lock_at_most_for: None,
            lock_at_least_for: None,
            owner_prefix: None,
            unreadable: None,
        }
    }

    /// The at-most of locks that set none.
    pub fn lock_at_most_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.lock_at_most_for = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// The at-least of locks that set none.
    pub fn lock_at_least_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.lock_at_least_for = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// What owners start with: a team or a service, to be found more easily.
    pub fn owner_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.owner_prefix = Some(prefix.into());
        self
    }

    /// Checks the values; every use does so anyway.
    ///
    /// # Errors
    /// `InvalidInput` for unreadable or zero durations and for a prefix that owners cannot have.
    pub fn validate(&self) -> Result<(), Error> {
        if let Some(prefix) = &self.owner_prefix {
            check_prefix(prefix)?;
        }
        if let Some(duration) = &self.unreadable {
            return Err(duration.error());
        }
        check_durations(
            self.lock_at_most_for.unwrap_or(Duration::MAX),
            self.lock_at_least_for.unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(config: &LockConfig) -> String {
        config.resolve(&[]).unwrap_err().to_string()
    }

    #[test]
    fn the_lock_wins_over_the_executor_over_the_provider() {
        let executor = LockDefaults::new().lock_at_most_for("20m");
        let provider = LockDefaults::new()
            .lock_at_most_for("30m")
            .lock_at_least_for("3m");
        let defaults = [&executor, &provider];

        let own = LockConfig::new("a")
            .lock_at_most_for("10m")
            .resolve(&defaults)
            .unwrap();
        assert_eq!(own.lock_at_most_for(), Duration::from_secs(600));
        assert_eq!(own.lock_at_least_for(), Duration::from_secs(180));
        let inherited = LockConfig::new("a").resolve(&defaults).unwrap();
        assert_eq!(inherited.lock_at_most_for(), Duration::from_secs(1_200));
    }

    #[test]
    fn every_resolution_has_its_own_owner() {
        let config = LockConfig::new("a").lock_at_most_for("1s");
        assert_ne!(
            config.resolve(&[]).unwrap().owner(),
            config.resolve(&[]).unwrap().owner()
        );
    }

    #[test]
    fn an_owner_prefix_leads_the_owner() {
        let defaults = LockDefaults::new().owner_prefix("billing");
        let request = LockConfig::new("a")
            .lock_at_most_for("1s")
            .resolve(&[&defaults])
            .unwrap();
        assert!(request.owner().as_str().starts_with("billing:"));
    }

    #[test]
    fn bad_input_is_refused_with_its_own_message() {
        let named = |name: &str| LockConfig::new(name).lock_at_most_for("1m");
        assert!(message(&named("")).contains("empty or blank"));
        assert!(message(&named("  ")).contains("empty or blank"));
        assert!(message(&LockConfig::new("a")).contains("lock_at_most_for is not set"));
        assert!(message(&LockConfig::new("a").lock_at_most_for("0s")).contains("is zero"));
        assert!(message(&LockConfig::new("a").lock_at_most_for("-1s")).contains("negative"));
        assert_eq!(
            message(&named("a").lock_at_least_for("1m 1ms")),
            "lock \"a\": lock_at_least_for (1m 1ms) is longer than lock_at_most_for (1m): \
             raise the one or lower the other",
        );
        assert!(named("a").lock_at_least_for("1m").resolve(&[]).is_ok());
    }

    #[test]
    fn validation_needs_no_defaults() {
        assert!(LockConfig::new("a").validate().is_ok());
        assert!(
            LockConfig::new("a")
                .lock_at_least_for("x")
                .validate()
                .is_err()
        );
        assert!(LockDefaults::new().owner_prefix("a b").validate().is_err());
        assert!(
            LockDefaults::new()
                .lock_at_most_for("1s")
                .lock_at_least_for("2s")
                .validate()
                .is_err()
        );
    }
}
