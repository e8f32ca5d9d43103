//! The configuration of a lock.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::random_u64;
use crate::contract::duration::{HUNDRED_YEARS, UnreadableDuration, check_longest};
use crate::contract::owner::check_prefix;
use crate::contract::{
    AttemptRequest, Completion, Error, ErrorKind, LockDuration, LockName, Owner, Setting,
    SkippedSlots, Slot,
};
use shedlock_support::text;

/// The configuration of a lock: its name, how long it may be held, and how long it must be held.
///
/// Setters take `Duration`s and text alike, and they need no `?`. A setter parses the text at once.
/// [`resolve`](Self::resolve), which every use of a configuration calls before any I/O, reports
/// text that cannot be parsed.
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
    job: Option<Arc<str>>,
    lock_at_most_for: Option<Duration>,
    lock_at_least_for: Option<Duration>,
    slot: Option<Slot>,
    slot_tolerance: Duration,
    completion: Completion,
    previous_slot: Option<Slot>,
    /// Rarely set, and this type is kept for each job.
    skipped_slots: Option<Box<SkippedSlots>>,
    keep_alive: bool,
    max_run_time: Option<Duration>,
    lock_wait: Duration,
    expect_every: Option<Duration>,
    unreadable: Option<UnreadableDuration>,
}

impl LockConfig {
    /// Creates a configuration for a lock of this name. Durations that are not set here come from
    /// the defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: Arc::from(name.into()),
            job: None,
            lock_at_most_for: None,
            lock_at_least_for: None,
            slot: None,
            slot_tolerance: Slot::DEFAULT_TOLERANCE,
            completion: Completion::WhenTaken,
            previous_slot: None,
            skipped_slots: None,
            keep_alive: false,
            max_run_time: None,
            lock_wait: Duration::ZERO,
            expect_every: None,
            unreadable: None,
        }
    }

    /// Sets the job that the lock belongs to, if its name is computed: `expire-{tenant}` for locks
    /// named `expire-acme` and so on.
    ///
    /// Events, metrics and the journal group runs by job. By default each name is a job of its own,
    /// so names that are computed for every tenant or file create as many time series. An executor that has seen 10,000
    /// such names logs one warning.
    /// `#[scheduler_lock]` sets it to the name as written.
    pub fn job(mut self, job: impl Into<String>) -> Self {
        self.job = Some(Arc::from(job.into()));
        self
    }

    /// Sets how long after acquisition the lease ends if the lock is not unlocked. Choose a value
    /// longer than the task ever takes: after that time another replica may start.
    pub fn lock_at_most_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.lock_at_most_for = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// Sets the minimum time that the lock stays taken after acquisition, however quickly the task
    /// ends.
    pub fn lock_at_least_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.lock_at_least_for = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// Sets the slot of this run: at most one acquisition per (name, slot).
    pub fn slot(mut self, slot: Slot) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Returns the slot of this run.
    pub fn get_slot(&self) -> Option<Slot> {
        self.slot
    }

    /// Sets how far ahead of the store's clock the slot may be; 60 s by default, and at most a hundred years.
    pub fn slot_tolerance(mut self, tolerance: Duration) -> Self {
        self.slot_tolerance = tolerance;
        self
    }

    /// Sets when the slot is used up; by default, when it is taken. With [`Completion::OnSuccess`]
    /// the slot is done only when the task has returned and, if it is run by `try_execute`, has
    /// returned `Ok`.
    pub fn completion(mut self, completion: Completion) -> Self {
        self.completion = completion;
        self
    }

    /// Sets the slot before [`slot`](Self::slot), which must have been taken (or passed) first. For
    /// slots that must not be lost and run in order; see [`AttemptRequest::with_previous_slot`].
    pub fn previous_slot(mut self, slot: Slot) -> Self {
        self.previous_slot = Some(slot);
        self
    }

    /// Sets which slots the previous slot leaves out, because a pause has skipped them; see
    /// [`AttemptRequest::with_skipped_slots`].
    pub fn skipped_slots(mut self, skipped: SkippedSlots) -> Self {
        self.skipped_slots = Some(Box::new(skipped));
        self
    }

    /// Extends the lease in the background while the task runs: by `lock_at_most_for`, each time a
    /// third of it has passed. The lease then ends with the task, and `lock_at_most_for` only
    /// determines how long the lock outlives a process that dies.
    ///
    /// If the store fails, the extension is retried until the lease would end. The task is stopped
    /// then. If there is no reply within a sixth of the lease, because the task blocks its thread or
    /// the pool is exhausted, a thread of this library extends the lease over a connection of its
    /// own, if the [provider](crate::Capabilities::duties) can open one.
    pub fn keep_alive(mut self) -> Self {
        self.keep_alive = true;
        self
    }

    /// Stops the task after this run time, whatever its lease. It limits a task that hangs under
    /// [`keep_alive`](Self::keep_alive).
    pub fn max_run_time(mut self, duration: impl Into<LockDuration>) -> Self {
        self.max_run_time = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// Expects a successful run at least this often, for a task that a scheduler other than
    /// `shedlock::scheduler` starts. The [journal](crate::Executor::journal) of the executor, if it
    /// has one, then keeps a deadline for its job: this long after the start of the latest success
    /// or, before that, after the first attempt, plus the longest run (`lock_at_most_for` or
    /// `max_run_time`). Without a journal it has no effect.
    ///
    /// The job is registered when it first runs or is skipped in this process, so a task that no
    /// scheduler has ever started has no deadline.
    ///
    /// ```
    /// use shedlock::LockConfig;
    /// // Another scheduler starts it every hour.
    /// let config = LockConfig::new("report").lock_at_most_for("10m").expect_every("1h");
    /// # config.validate()?;
    /// # Ok::<(), shedlock::Error>(())
    /// ```
    pub fn expect_every(mut self, period: impl Into<LockDuration>) -> Self {
        self.expect_every = period.into().or_note(&mut self.unreadable);
        self
    }

    /// Waits up to this long for a lock that another owner holds, retrying until then, instead of
    /// skipping at once. Zero, the default, does not wait.
    ///
    /// If the lock stays taken, the result is the skip of the last attempt, which is made when the
    /// wait is over. The pause between attempts is short at first and grows to a twentieth of the
    /// wait, at most 5 s. It has random jitter, and ends a moment after the lock becomes free by
    /// itself, if that is sooner. A slot that was taken ends the wait at once, since it stays
    /// taken.
    ///
    /// An attempt that fails with a retryable error ([`Error::is_retryable`]) is retried too. The
    /// result is that error if the store is still unavailable when the wait is over. After an
    /// attempt whose reply was lost, it is also the result when the lease that this attempt may
    /// have won would end. Any other error ends the wait. A call that is in progress when the wait
    /// is over is not cut off: it may take the [store timeout](crate::Executor::store_timeout)
    /// longer.
    ///
    /// Jobs of the scheduler ignore this setting, because the scheduler retries their ticks anyway.
    ///
    /// Waiters are not served in order. Dropping the waiting future is safe at any point: between
    /// two attempts nothing is held, and an attempt in progress is withdrawn.
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

    /// Returns the name as given, not yet checked.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value set with [`job`](Self::job), or the name.
    pub fn get_job(&self) -> &str {
        self.job.as_deref().unwrap_or(&self.name)
    }

    /// Whether the lock is a job of its own.
    pub(crate) fn is_job(&self) -> bool {
        self.job.is_none()
    }

    /// Returns the value set with [`completion`](Self::completion).
    pub fn get_completion(&self) -> Completion {
        self.completion
    }

    /// Returns whether [`keep_alive`](Self::keep_alive) was set.
    pub(crate) fn get_keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Returns the value set with [`max_run_time`](Self::max_run_time).
    pub fn get_max_run_time(&self) -> Option<Duration> {
        self.max_run_time
    }

    /// Returns the value set with [`expect_every`](Self::expect_every).
    pub(crate) fn get_expect_every(&self) -> Option<Duration> {
        self.expect_every
    }

    /// Returns the value set with [`lock_wait`](Self::lock_wait), or zero.
    pub fn get_lock_wait(&self) -> Duration {
        self.lock_wait
    }

    /// Checks everything that can be checked without the defaults.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), except that a missing `lock_at_most_for` is not an error.
    pub fn validate(&self) -> Result<(), Error> {
        let anything = LockDefaults::new().lock_at_most_for(HUNDRED_YEARS);
        self.resolve(&[&anything]).map(drop)
    }

    /// Creates the request for one attempt, with a new owner. A value that is not set here comes
    /// from the first of `defaults` that has it. If none has a `lock_at_least_for`, it is zero.
    ///
    /// # Errors
    /// `InvalidInput`: empty name, unreadable duration, no `lock_at_most_for` anywhere,
    /// `lock_at_most_for` of zero, `lock_at_least_for` longer than `lock_at_most_for`, a lease or a backoff of more than a
    /// hundred years.
    pub fn resolve(&self, defaults: &[&LockDefaults]) -> Result<AttemptRequest, Error> {
        self.resolve_with(defaults, random_u64)
    }

    /// As `resolve`, but with this source for the random part of the owner.
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
                Error::new(ErrorKind::InvalidInput, "lock_at_most_for is not set")
                    .advise("set it on the lock, or a default on the executor or the provider")
            })?;
        let at_least = self
            .lock_at_least_for
            .or_else(|| defaults.iter().find_map(|d| d.lock_at_least_for))
            .unwrap_or_default();
        check_durations(at_most, at_least)?;
        if self.max_run_time == Some(Duration::ZERO) {
            let zero = "max_run_time is zero: the task could never run";
            return Err(Error::new(ErrorKind::InvalidInput, zero).advise("set a longer one"));
        }
        if self.expect_every == Some(Duration::ZERO) {
            let zero = "expect_every is zero: no task can run that often";
            return Err(Error::new(ErrorKind::InvalidInput, zero).advise("set its period"));
        }
        self.completion.validate()?;
        let prefix = defaults.iter().find_map(|d| d.owner_prefix.as_deref());
        let owner = Owner::drawn(prefix, random())?;
        let mut request =
            AttemptRequest::new(name, owner, at_most).with_lock_at_least_for(at_least);
        if let Some(job) = &self.job {
            request = request.with_job(job.clone());
        }
        if let Some(slot) = self.slot {
            request = request
                .with_slot(slot)
                .with_slot_tolerance(self.slot_tolerance)
                .with_completion(self.completion);
        }
        if let Some(skipped) = &self.skipped_slots {
            request = request.with_skipped_slots(**skipped);
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
            "lock_at_most_for is zero: the lock would be free immediately",
        )
        .advise("set it longer than the task can take"));
    }
    check_longest(Setting::AtMost, at_most)?;
    check_longest(Setting::AtLeast, at_least)?;
    if at_least > at_most {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "lock_at_least_for ({}) exceeds lock_at_most_for ({})",
                text::duration(at_least),
                text::duration(at_most),
            ),
        )
        .advise("lower the first or raise the second"));
    }
    Ok(())
}

/// Durations and an owner prefix for locks that set none.
///
/// You can set them on the provider and on the executor. The lock's own values win, then the
/// executor's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct LockDefaults {
    lock_at_most_for: Option<Duration>,
    lock_at_least_for: Option<Duration>,
    owner_prefix: Option<String>,
    unreadable: Option<UnreadableDuration>,
}

impl LockDefaults {
    /// Creates empty defaults.
    pub const fn new() -> Self {
        Self {
            lock_at_most_for: None,
            lock_at_least_for: None,
            owner_prefix: None,
            unreadable: None,
        }
    }

    /// Sets the `lock_at_most_for` of locks that set none.
    pub fn lock_at_most_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.lock_at_most_for = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// Sets the `lock_at_least_for` of locks that set none.
    pub fn lock_at_least_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.lock_at_least_for = duration.into().or_note(&mut self.unreadable);
        self
    }

    /// Sets the prefix of owners: a team or a service, so that they are easier to find.
    pub fn owner_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.owner_prefix = Some(prefix.into());
        self
    }

    /// Checks the values. Every use does so anyway.
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
            self.lock_at_most_for.unwrap_or(HUNDRED_YEARS),
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
        assert_eq!(own.lock_at_most_for, Duration::from_secs(600));
        assert_eq!(own.lock_at_least_for, Duration::from_secs(180));
        let inherited = LockConfig::new("a").resolve(&defaults).unwrap();
        assert_eq!(inherited.lock_at_most_for, Duration::from_secs(1_200));
    }

    #[test]
    fn durations_that_no_store_can_express_are_refused_by_name() {
        let config = || LockConfig::new("a");
        let at_most = config().lock_at_most_for(Duration::MAX);
        assert!(message(&at_most).contains("lock_at_most_for is longer than a hundred years"));
        let at_least = config().lock_at_least_for(Duration::MAX);
        let refused = at_least.validate().unwrap_err().to_string();
        assert!(
            refused.contains("lock_at_least_for is longer than a hundred years"),
            "{refused}"
        );
        let retries = Completion::OnSuccess(crate::Retries::new().max_backoff(Duration::MAX));
        let refused = config().completion(retries).validate().unwrap_err();
        assert!(
            refused.to_string().contains("max_backoff is longer"),
            "{refused}"
        );
        assert!(config().validate().is_ok());
    }

    #[test]
    fn every_resolution_has_its_own_owner() {
        let config = LockConfig::new("a").lock_at_most_for("1s");
        assert_ne!(
            &config.resolve(&[]).unwrap().owner,
            &config.resolve(&[]).unwrap().owner
        );
    }

    #[test]
    fn an_owner_prefix_leads_the_owner() {
        let defaults = LockDefaults::new().owner_prefix("billing");
        let request = LockConfig::new("a")
            .lock_at_most_for("1s")
            .resolve(&[&defaults])
            .unwrap();
        assert!(request.owner.as_str().starts_with("billing:"));
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
            "lock \"a\": lock_at_least_for (1m 1ms) exceeds lock_at_most_for (1m); \
             lower the first or raise the second",
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
