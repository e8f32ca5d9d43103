//! Runs tasks under locks.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use shedlock_support::spawn;

use crate::contract::{
    Attempt, AttemptRequest, Error, ErrorKind, JobRegistration, LockConfig, LockName, LockProvider,
    PauseRequest, Paused, Recorder,
};
use crate::runtime::conclude::{as_ended, conclude, failure_of, run_blocking, run_reentrant};
use crate::runtime::current::CurrentLock;
use crate::runtime::running::Running;
use crate::runtime::scope::current_executor;
use crate::runtime::thread::{Thread, joined, lent, run_on};
use crate::runtime::{
    Context, Copies, Ended, Held, HeldLock, Outcome, Release, ReleaseOnDrop, Upheld, acquire,
    guard, look_after, pause, watch_deadline,
};

/// Runs tasks under locks of one provider.
///
/// Cheap to clone. The task runs where it is awaited. If another owner has the lock or its slot,
/// the task does not run. The call does not wait, unless [`LockConfig::lock_wait`] is set.
///
/// # The lease is bounded from the inside
///
/// A task never continues past its lease. The executor sets a deadline that is earlier than the end
/// of the lease in the store. It counts from *before* the lock was requested, on a clock that keeps
/// running while the machine sleeps. When the deadline passes, the task's future is dropped, and
/// the outcome is [`Outcome::Lost`]. A process that is stopped (SIGSTOP, a long pause of its
/// machine) cannot check its clock. Only the receiver can reject what such a process sent before,
/// or sends within the one poll that it resumes in, by checking the
/// [fencing token](CurrentLock::fencing_token).
///
/// # Cancellation
///
/// Every future here may be dropped at any point. The lock is then given back in the background, and
/// `lock_at_least_for` is honoured: on the runtime that dropped the future, or over a connection of
/// the library's own if there is no runtime, or it shuts down. Where there is no such connection
/// either ([`Capabilities::duties`](crate::Capabilities)), the lock stays taken until
/// `lock_at_most_for` has passed.
///
/// ```
/// use shedlock::{Executor, LockConfig, MemoryProvider, Outcome};
/// use std::sync::Arc;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let executor = Executor::new(Arc::new(MemoryProvider::new()));
/// let config = LockConfig::new("payroll").lock_at_most_for("10m");
/// match executor.execute(&config, async { "paid" }).await? {
///     Outcome::Executed { value, .. } => assert_eq!(value, "paid"),
///     Outcome::Skipped(skip) => println!("not this time: {skip}"),
///     Outcome::Lost { reason, .. } => println!("stopped: {reason}"),
///     _ => {}
/// }
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Executor(Arc<Context>);

impl Executor {
    /// Creates an executor over this provider, with the real clock and no listener.
    pub fn new(provider: Arc<dyn LockProvider>) -> Self {
        Self(Arc::new(Context::new(provider)))
    }

    /// Returns the executor that applies here: the scoped one
    /// ([`with_executor`](crate::with_executor), [`with_provider`](crate::with_provider)),
    /// otherwise the one set for the process ([`set_global_executor`](crate::set_global_executor),
    /// [`set_global_provider`](crate::set_global_provider)).
    ///
    /// # Errors
    /// `Configuration` if there is neither.
    pub fn current() -> Result<Self, Error> {
        current_executor()
    }

    /// Records all runs in a journal. A [scheduler] over this executor registers its jobs in it.
    ///
    /// [scheduler]: https://docs.rs/shedlock-scheduler
    pub fn journal<R: Recorder + Clone>(mut self, recorder: &R) -> Self {
        recorder.note_locks(self.provider());
        let recorder = Arc::new(recorder.clone());
        self.change().recorder = Some(recorder.clone());
        self.listener(recorder)
    }

    /// Returns what records the runs: what [`journal`](Self::journal) has set.
    pub fn get_journal(&self) -> Option<&Arc<dyn Recorder>> {
        self.0.recorder.as_ref()
    }

    /// Waits until no attempt of this executor, or of its clones, can take a lock that no one
    /// holds.
    ///
    /// An attempt whose outcome was unknown, or whose future was dropped, is withdrawn in the
    /// background. It is withdrawn once more after [`store_timeout`](Self::store_timeout), when no
    /// copy of it can reach the store any more. Await this before the process exits, with a time
    /// limit: while the store is unavailable it takes up to `lock_at_most_for`. If the process
    /// exits earlier, a lock that such a copy takes is free after `lock_at_most_for`.
    ///
    /// Returns at once if there is nothing to withdraw. Cancellation safe.
    pub async fn settled(&self) {
        self.0.withdrawals.done().await;
    }

    /// Returns the withdrawals of an attempt that a harness makes itself.
    #[doc(hidden)]
    pub fn copies_of(&self, request: &AttemptRequest) -> Copies {
        Copies::new(self.0.clone(), request.clone())
    }

    /// Returns the provider.
    pub fn provider(&self) -> &Arc<dyn LockProvider> {
        &self.0.provider
    }

    /// Runs the future under the lock, if the lock is free.
    ///
    /// Inside a task that holds this lock already (the same name on the same provider), the future
    /// runs at once under the outer lock, and the durations and the slot given here are ignored. If
    /// the task panics, the panic resumes after the lock was given back.
    ///
    /// The value is kept while the lock is given back. A future that is spawned on a multi-threaded
    /// runtime therefore needs a value that is `Send`: `Box<dyn Error + Send + Sync>` rather than
    /// `Box<dyn Error>`.
    ///
    /// # Errors
    /// `InvalidInput`, or `WrongContext` outside a tokio runtime with timers, before any I/O, or the error of the store while
    /// locking. In each case the task has not run. A store that fails while unlocking is not an error: the outcome carries
    /// [`Release::Failed`] along with the value.
    pub fn execute<F: Future>(
        &self,
        config: &LockConfig,
        task: F,
    ) -> impl Future<Output = Result<Outcome<F::Output>, Error>> {
        // Boxed before any of our futures holds it: each of them would reserve space for it twice,
        // and each nested lock another four times.
        self.run(config, Box::pin(task), |_| None)
    }

    /// As [`execute`](Self::execute). `failure` returns the text of the failure that a value stands
    /// for, if it does. For `#[scheduler_lock]`.
    #[doc(hidden)]
    pub fn execute_judged<F: Future>(
        &self,
        config: &LockConfig,
        task: F,
        failure: impl Fn(&F::Output) -> Option<String>,
    ) -> impl Future<Output = Result<Outcome<F::Output>, Error>> {
        self.run(config, Box::pin(task), failure)
    }

    async fn run<F: Future>(
        &self,
        config: &LockConfig,
        task: Pin<Box<F>>,
        failure: impl Fn(&F::Output) -> Option<String>,
    ) -> Result<Outcome<F::Output>, Error> {
        if let Some(outer) = self.reentered(config)? {
            let running = Running::reentrant(&self.0, &outer);
            let value = task.await;
            running.returned(failure(&value).as_deref());
            return Ok(Outcome::Executed {
                value,
                release: Release::Reentrant,
            });
        }
        let held = match self.acquire(config).await? {
            Attempt::Acquired(held) => held,
            Attempt::Skipped(skip) => return Ok(Outcome::Skipped(skip)),
        };
        let release = ReleaseOnDrop::new(held.clone());
        let looked_after = look_after(&held, config)?;
        let running = Running::start(&held);
        let ended = guard(&held, task).await;
        if let Ended::Finished(value) = &ended {
            held.judge(value, failure);
        }
        running.ended(&ended);
        drop(looked_after);
        let concluded = conclude(&held, ended).await;
        release.defuse();
        Ok(concluded.resume())
    }

    /// Runs a future that can fail. As [`execute`](Self::execute), but an `Err` marks the run of
    /// the slot, if there is one, as failed.
    ///
    /// # Errors
    /// As [`execute`](Self::execute). The task's own error is in the outcome;
    /// [`Outcome::transpose`] moves it to the outside.
    ///
    /// ```
    /// use shedlock::{Completion, Executor, LockConfig, MemoryProvider, Slot, current_lock};
    /// use std::sync::Arc;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let executor = Executor::new(Arc::new(MemoryProvider::new()));
    /// let config = LockConfig::new("invoices")
    ///     .lock_at_most_for("10m")
    ///     .slot(Slot::from_micros(1_700_000_000_000_000)?)
    ///     .completion(Completion::on_success());
    /// let outcome = executor.try_execute(&config, async {
    ///     println!("attempt {:?}", current_lock().and_then(|lock| lock.slot_attempt()));
    ///     "twelve".parse::<u32>()
    /// });
    /// assert!(outcome.await?.transpose().is_err());
    /// // The slot can be taken again when the backoff has passed.
    /// let outcome = executor.try_execute(&config, async { Ok::<_, std::io::Error>(()) }).await?;
    /// assert!(outcome.skip().unwrap().to_string().starts_with("backing off after a failed slot"));
    /// # Ok::<(), shedlock::Error>(()) }).unwrap();
    /// ```
    pub fn try_execute<T, E, F>(
        &self,
        config: &LockConfig,
        task: F,
    ) -> impl Future<Output = Result<Outcome<Result<T, E>>, Error>>
    where
        F: Future<Output = Result<T, E>>,
        E: fmt::Display,
    {
        self.run(config, Box::pin(task), failure_of)
    }

    /// Runs a closure that can fail. As [`execute_blocking`](Self::execute_blocking), but an `Err`
    /// marks the run of the slot as failed.
    ///
    /// # Errors
    /// As [`execute_blocking`](Self::execute_blocking).
    pub async fn try_execute_blocking<T: Send + 'static, E: fmt::Display + Send + 'static>(
        &self,
        config: &LockConfig,
        task: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<Outcome<Result<T, E>>, Error> {
        self.run_blocking(config, task, failure_of).await
    }

    /// Runs the closure on a thread for blocking work under the lock, if the lock is free.
    ///
    /// A closure cannot be stopped from outside; it is only not started if its lease was lost
    /// before. If its lease is lost, it can find out through [`CurrentLock::is_lost`] and
    /// [`CurrentLock::on_lost`], and the outcome is [`Outcome::Lost`] with its value. Dropping this
    /// future does not stop the closure either, and neither does a shutdown of the runtime; its lock
    /// is given back when the closure ends.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), and `WrongContext` outside a tokio runtime.
    pub async fn execute_blocking<T: Send + 'static>(
        &self,
        config: &LockConfig,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Outcome<T>, Error> {
        self.run_blocking(config, task, |_| None).await
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        config: &LockConfig,
        task: impl FnOnce() -> T + Send + 'static,
        failure: impl Fn(&T) -> Option<String> + Send + 'static,
    ) -> Result<Outcome<T>, Error> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|error| {
            Error::new(
                ErrorKind::WrongContext,
                "execute_blocking needs a tokio runtime",
            )
            .advise("use blocking::Executor without one")
            .with_source(error)
        })?;
        if let Some(outer) = self.reentered(config)? {
            let context = self.0.clone();
            let task = move || run_reentrant(&context, &outer, task, failure);
            let value = joined(runtime.spawn_blocking(task).await);
            let value = value.unwrap_or_else(|panic| resume_unwind(panic));
            return Ok(Outcome::Executed {
                value,
                release: Release::Reentrant,
            });
        }
        // Reserved first, so that a pool without a free thread uses up neither lease nor slot, unless the store is slow.
        let reserved = Thread::reserve_if(config.get_lock_wait().is_zero(), &runtime).await;
        let (attempt, reserved) = lent(reserved, &*self.0.clock, self.acquire(config)).await;
        let held = match attempt? {
            Attempt::Acquired(held) => held,
            Attempt::Skipped(skip) => return Ok(Outcome::Skipped(skip)),
        };
        let upheld = Arc::new(Upheld::new(&held, config)?);
        let pool = runtime.clone();
        // In a separate task, so that the lock outlives the closure even if this future is dropped.
        let concluded = runtime.spawn(async move {
            let watched = held.clone();
            let watch = spawn(&pool, async move { watch_deadline(&watched).await });
            let (inside, upheld_inside) = (held.clone(), upheld.clone());
            let ran = run_on(reserved, &pool, move || {
                let ended = run_blocking(&inside, task, failure);
                upheld_inside.note(&ended);
                Ok(ended)
            })
            .await;
            watch.abort();
            let release = upheld.end();
            let concluded = conclude(&held, as_ended(ran)).await;
            release.into_iter().for_each(ReleaseOnDrop::defuse);
            concluded
        });
        match concluded.await {
            Ok(concluded) => Ok(concluded.resume()),
            Err(error) => Err(Error::new(
                ErrorKind::Internal,
                "the runtime shut down while a blocking task held its lock",
            )
            .with_source(error)),
        }
    }

    /// Takes the lock, if it is free, and returns it. For work that is not a single future.
    ///
    /// Nothing stops the work when the lease is lost; check [`HeldLock::is_lost`] and
    /// [`HeldLock::time_left`]. `keep_alive` and `max_run_time` apply as for tasks, and the latter
    /// counts from this call.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn lock(&self, config: &LockConfig) -> Result<Attempt<HeldLock>, Error> {
        Ok(match self.acquire(config).await? {
            Attempt::Acquired(held) => {
                let mut lock = HeldLock::new(held.clone());
                lock.looked_after = Some(look_after(&held, config)?);
                lock.set_started();
                Attempt::Acquired(lock)
            }
            Attempt::Skipped(skip) => Attempt::Skipped(skip),
        })
    }

    /// Pauses a lock for an operator; see [`admin::pause`](crate::admin::pause). If a task holds the lock, tries
    /// until it has ended, for up to `wait`. A store that fails is tried again too, unless it rejects
    /// all writes.
    /// [`admin::resume`](crate::admin::resume) ends the pause.
    ///
    /// If the future is dropped, the lock may be paused.
    ///
    /// ```
    /// use shedlock::{Executor, LockConfig, LockName, MemoryProvider, PauseRequest, ResumeRequest};
    /// use shedlock::admin;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let executor = Executor::new(Arc::new(MemoryProvider::new()));
    /// let name = LockName::new("payroll")?;
    /// let pause = PauseRequest::new(name.clone(), "alice").with_reason("the bank is down");
    /// executor.pause(&pause, Duration::from_secs(30)).await?;
    ///
    /// let config = LockConfig::new("payroll").lock_at_most_for("10m");
    /// let outcome = executor.execute(&config, async {}).await?;
    /// let skip = outcome.skip().unwrap().to_string();
    /// assert!(skip.starts_with("paused by alice@"), "{skip}");
    ///
    /// admin::resume(&**executor.provider(), &ResumeRequest::new(name)).await?;
    /// assert!(executor.execute(&config, async {}).await?.is_executed());
    /// # Ok::<(), shedlock::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`admin::pause`](crate::admin::pause), after `wait` if the error is retryable.
    pub async fn pause(&self, request: &PauseRequest, wait: Duration) -> Result<Paused, Error> {
        pause(&self.0, request, wait).await
    }

    /// Checks everything that [`execute`](Self::execute) would refuse before any I/O, with the
    /// defaults that apply. For callers that set up tasks long before they run.
    ///
    /// # Errors
    /// `InvalidInput`.
    pub fn check(&self, config: &LockConfig) -> Result<(), Error> {
        self.request(config).map(drop)
    }

    pub(crate) async fn acquire(&self, config: &LockConfig) -> Result<Attempt<Arc<Held>>, Error> {
        let wait = config.get_lock_wait();
        let request = || {
            let request = self.request(config)?;
            self.expect(config, &request);
            if config.is_job() {
                self.0.note_job(config.name());
            }
            Ok(request)
        };
        acquire(&self.0, wait, request).await
    }

    /// Registers the job of a foreign scheduler in the journal, unless it is registered.
    fn expect(&self, config: &LockConfig, request: &AttemptRequest) {
        let (Some(period), Some(recorder)) = (config.get_expect_every(), self.get_journal()) else {
            return;
        };
        if recorder.has_job(request.job()) {
            return;
        }
        let at_most = request.lock_at_most_for;
        let longest = at_most.max(config.get_max_run_time().unwrap_or_default());
        let registration = JobRegistration::expected_every(request.job(), period);
        recorder.register(registration.lock_at_most_for(at_most).allowance(longest));
    }

    fn request(&self, config: &LockConfig) -> Result<AttemptRequest, Error> {
        let provider = self.0.provider.defaults();
        let request =
            config.resolve_with(&[&self.0.defaults, &provider], || self.0.clock.random())?;
        self.0
            .check_usable(request.lock_at_most_for)
            .map_err(|error| error.with_lock(config.name()))?;
        Ok(request)
    }

    /// Returns the lock of this configuration, if the running task holds it.
    pub(crate) fn reentered(&self, config: &LockConfig) -> Result<Option<CurrentLock>, Error> {
        if crate::current_lock().is_none() {
            return Ok(None);
        }
        let identity = self.0.provider.identity_of(&LockName::new(config.name())?);
        Ok(CurrentLock::find(&identity, config.name()))
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.0
    }

    pub(super) fn change(&mut self) -> &mut Context {
        Arc::make_mut(&mut self.0)
    }
}
