//! A lock while we hold it.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;

use super::bounded::bounded;
use super::withdrawal::Withdrawal;
use super::{Context, LeaseState, LostReason, Unanswered};
use crate::clock::{Deadline, Moment};
use crate::narrator::{self, DutyEvent};
use crate::{
    Completion, Error, ErrorKind, Event, ExtendRequest, Extension, Lease, LockName, Owner,
    ProviderIdentity, Retries, Slot, SlotEnd, UnlockRequest,
};

/// The state that the task, its handles and its release share.
pub(crate) struct Held {
    context: Arc<Context>,
    identity: ProviderIdentity,
    name: LockName,
    job: Option<Arc<str>>,
    owner: Owner,
    slot: Option<Slot>,
    fencing_token: Option<u64>,
    state: LeaseState,
    /// How to give the lock back, for a later caller that continues the release.
    release_request: OnceLock<UnlockRequest>,
    /// When the lease was known to be granted.
    pub(super) granted: Moment,
    /// When the unlock was first sent to the store. From then on the lease may have ended there.
    pub(super) unlock_sent: OnceLock<Moment>,
    /// An unlock may have taken effect although it failed.
    pub(super) unlock_unknown: AtomicBool,
    /// The store has replied to the unlock, or retries were given up.
    given_back: AtomicBool,
    completion: Completion,
    /// The task was started, so its slot cannot be given back as if nothing had run.
    started: AtomicBool,
    /// What the task itself has reported about its slot: a [`SlotWord`].
    slot_word: AtomicU8,
    /// The run time from which on a run counts as slow, and whether the lease sets it.
    slow_after: OnceLock<(Duration, bool)>,
    was_extended: AtomicBool,
    /// Why the task failed, if it said so.
    failure: OnceLock<Box<str>>,
    /// Allows one request about this lease at a time, so that an extension never crosses the
    /// unlock.
    asking: tokio::sync::Mutex<()>,
    /// Copies of the attempt whose replies were lost and that may still arrive.
    strays: Mutex<Option<Withdrawal>>,
}

/// What a task reports about its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotWord {
    /// Nothing. The end of the task decides.
    Nothing = 0,
    /// The task failed.
    Failed = 1,
    /// The task neither failed nor is done: a shutdown interrupted it.
    Cut = 2,
    /// The task was not started.
    NotStarted = 3,
}

impl Held {
    pub(crate) fn new(
        context: Arc<Context>,
        lease: Lease,
        completion: Completion,
        deadline: Deadline,
        strays: Option<Withdrawal>,
    ) -> Self {
        Self {
            strays: Mutex::new(strays),
            granted: context.clock.now(),
            identity: context.provider.identity_of(lease.name()),
            context,
            name: lease.name().clone(),
            job: lease.shared_job().cloned(),
            owner: lease.owner().clone(),
            slot: lease.slot(),
            fencing_token: lease.fencing_token(),
            state: LeaseState::new(lease, deadline),
            release_request: OnceLock::new(),
            unlock_sent: OnceLock::new(),
            unlock_unknown: AtomicBool::new(false),
            given_back: AtomicBool::new(false),
            completion,
            started: AtomicBool::new(false),
            slot_word: AtomicU8::new(SlotWord::Nothing as u8),
            slow_after: OnceLock::new(),
            was_extended: AtomicBool::new(false),
            failure: OnceLock::new(),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    pub(super) fn job(&self) -> &str {
        self.job.as_deref().unwrap_or(self.name.as_str())
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    pub(crate) fn slot_attempt(&self) -> Option<u32> {
        self.state.of_lease(Lease::slot_attempt)
    }

    /// Marks the task as started.
    pub(crate) fn set_started(&self) {
        self.started.store(true, Ordering::Release);
    }

    pub(crate) fn say_of_slot(&self, word: SlotWord) {
        self.slot_word.store(word as u8, Ordering::Release);
    }

    /// Marks the run as failed, with the text of its error. The first text counts.
    pub(crate) fn fail(&self, error: impl Into<Box<str>>) {
        self.failure.get_or_init(|| error.into());
        self.say_of_slot(SlotWord::Failed);
    }

    /// Marks the run as failed if the value of its task stands for a failure.
    pub(crate) fn judge<T>(&self, value: &T, failure: impl FnOnce(&T) -> Option<String>) {
        if let Some(error) = failure(value) {
            self.fail(error);
        }
    }

    /// Returns why the task failed.
    pub(crate) fn failure(&self) -> &str {
        let failure = self.failure.get();
        failure.map_or("the task marked its run as failed", |failure| failure)
    }

    /// Returns what the task has reported about its run.
    pub(crate) fn reported(&self) -> SlotWord {
        let word = self.slot_word.load(Ordering::Acquire);
        let words = [SlotWord::Failed, SlotWord::Cut, SlotWord::NotStarted];
        let reported = words.into_iter().find(|known| *known as u8 == word);
        reported.unwrap_or(SlotWord::Nothing)
    }

    pub(crate) fn leaves_slot_open(&self) -> bool {
        self.slot_word.load(Ordering::Acquire) != SlotWord::Nothing as u8
    }

    fn slot_word(&self) -> u8 {
        if self.started.load(Ordering::Acquire) {
            self.slot_word.load(Ordering::Acquire)
        } else {
            SlotWord::NotStarted as u8
        }
    }

    /// Returns how to give the lock back if nothing is known about the task except whether it
    /// started, and whether it said that a shutdown cuts it.
    pub(super) fn drop_request(&self) -> UnlockRequest {
        let request = UnlockRequest::new();
        match self.slot_word() {
            word if word == SlotWord::NotStarted as u8 => {
                request.with_slot_end(SlotEnd::NotStarted)
            }
            word if word == SlotWord::Cut as u8 && self.slot.is_some() => {
                request.with_slot_end(SlotEnd::Cut)
            }
            _ => request,
        }
    }

    /// Returns how to give the lock back after a task that ended by itself (`finished`) or did not.
    pub(crate) fn unlock_request(&self, finished: bool) -> UnlockRequest {
        let request = self.drop_request();
        let word = self.slot_word();
        let is_decided = [SlotWord::NotStarted as u8, SlotWord::Cut as u8].contains(&word);
        if self.slot.is_none() || is_decided {
            return request;
        }
        let failed = !finished || word == SlotWord::Failed as u8;
        match self.completion.retries() {
            Some(retries) if failed => {
                let attempt = self.slot_attempt().unwrap_or(1);
                self.report_failure(attempt, retries);
                request.with_slot_end(SlotEnd::Failed {
                    retry_after: retries.pause_after(attempt),
                })
            }
            None if failed => request,
            retries => request.with_slot_end(SlotEnd::done(retries.is_some())),
        }
    }

    fn report_failure(&self, attempt: u32, retries: Retries) {
        let of = retries.get_max_attempts();
        self.report(|lease| Event::SlotAttemptFailed { lease, attempt, of });
        if let Some(slot) = self.slot.filter(|_| attempt >= of) {
            let (name, job) = (&self.name, self.job());
            self.context.emit(|| Event::SlotGivenUp { name, job, slot });
        }
    }

    pub(crate) fn fencing_token(&self) -> Option<u64> {
        self.fencing_token
    }

    pub(crate) fn is_lock(&self, identity: &ProviderIdentity, name: &str) -> bool {
        self.identity == *identity && self.name.as_str() == name
    }

    /// Returns the state of the lease: until when it is held, and what waits for its end.
    pub(crate) fn state(&self) -> &LeaseState {
        &self.state
    }

    pub(crate) fn lease(&self) -> Lease {
        self.state.lease()
    }

    pub(crate) fn locked_until(&self) -> Option<SystemTime> {
        self.state.of_lease(Lease::locked_until)
    }

    /// Returns the span that a task runs in. It also has the attributes of OpenTelemetry that are
    /// nearest to scheduled jobs. The scheduler adds the cron expression, and the trigger of jobs
    /// without slots.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "shedlock",
            lock = self.name.as_str(),
            owner = self.owner.as_str(),
            token = self.fencing_token,
            slot = self.slot.map(tracing::field::display),
            job.system = "shedlock",
            faas.trigger = self.slot.map(|_| "timer"),
            faas.time = self.slot.map(tracing::field::display),
            faas.cron = tracing::field::Empty,
        )
    }

    /// Sets the run time from which on a run counts as slow. If it is a share of the lease, it ends
    /// with the first extension.
    pub(crate) fn set_slow_after(&self, limit: Duration, is_of_lease: bool) {
        let _ = self.slow_after.set((limit, is_of_lease));
    }

    pub(crate) fn slow_after(&self) -> Option<Duration> {
        let (limit, is_of_lease) = *self.slow_after.get()?;
        let was_extended = self.was_extended.load(Ordering::Acquire);
        (!is_of_lease || !was_extended).then_some(limit)
    }

    /// Limits the run time, counted from now.
    pub(crate) fn bound_run(&self, max_run_time: Duration) {
        let until = self.context.lease_clock.read().deadline(max_run_time);
        self.state.run_until(until);
    }

    pub(crate) fn time_left(&self) -> Duration {
        if self.state.found_lost().is_some() || self.is_released() {
            return Duration::ZERO;
        }
        let stop_at = self.state.stop_at();
        stop_at.left(self.context.lease_clock.read())
    }

    /// Returns why the lease is lost, if it is. Reads the clock. A released lease is not lost.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        let now = self.context.lease_clock.read();
        self.state.lost(now, |reason| self.announce_lost(reason))
    }

    pub(crate) fn mark_lost(&self, reason: LostReason) {
        self.state.lose(reason, |reason| self.announce_lost(reason));
    }

    fn announce_lost(&self, reason: LostReason) {
        self.report(|lease| Event::Lost { lease, reason });
    }

    /// Takes over an extension by the thread of the duties. Listeners are notified on the task's
    /// runtime.
    pub(super) fn extended_by_duty(
        self: &Arc<Self>,
        lease: Lease,
        deadline: Deadline,
        runtime: &Handle,
    ) {
        self.state.extend(lease, deadline);
        self.was_extended.store(true, Ordering::Release);
        if self.context.is_heard() {
            let held = self.clone();
            runtime.spawn(async move { held.emit(|lease| Event::Extended { lease }) });
        }
    }

    /// Marks the lease as lost, as the thread of the duties has found it. The task, or its runtime,
    /// announces it, whichever runs first.
    pub(super) fn lost_by_duty(self: &Arc<Self>, reason: LostReason, runtime: &Handle) {
        if self.state.lose_silently(reason) {
            let held = self.clone();
            runtime.spawn(async move { held.lost() });
        }
    }

    /// Calls the callback once when the lease is lost, or at once if it is lost already.
    pub(crate) fn on_lost(&self, callback: Box<dyn FnOnce() + Send>) {
        // Detects a deadline that has passed.
        self.lost();
        self.state.on_lost(callback);
    }

    pub(crate) fn is_released(&self) -> bool {
        self.state.is_released()
    }

    /// Fails unless the lease runs, that is, it is neither lost nor being given back.
    pub(crate) fn check_runs(&self) -> Result<(), Error> {
        if self.is_released() {
            return Err(self.error(ErrorKind::NotLocked, "the lock is already unlocked"));
        }
        self.lost()
            .map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    /// Claims the release for the caller. It happens only once, with the first request.
    pub(super) fn claim_release(&self, request: &UnlockRequest) -> bool {
        let is_first = self.state.release();
        self.release_request.get_or_init(|| request.clone());
        is_first
    }

    /// Returns the request of the release, once it is claimed.
    pub(super) fn release_request(&self) -> UnlockRequest {
        self.release_request.get().cloned().unwrap_or_default()
    }

    pub(crate) fn is_given_back(&self) -> bool {
        self.given_back.load(Ordering::Acquire)
    }

    pub(super) fn set_given_back(&self) {
        self.given_back.store(true, Ordering::Release);
        self.state.forget_callbacks();
        // While the lease ran, a late copy of its attempt found it and changed nothing. The lease
        // had ended when the unlock arrived, however late the reply came.
        let sent = self.unlock_sent.get().copied();
        let ended = sent.unwrap_or_else(|| self.context.clock.now());
        let strays = self.strays(ended);
        *self.strays.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(withdrawal) = strays {
            withdrawal.start(&self.context);
        }
    }

    /// Returns the withdrawal of copies that may still arrive at this moment.
    pub(super) fn strays(&self, at: Moment) -> Option<Withdrawal> {
        let strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = strays.clone().filter(|strays| strays.is_needed(at))?;
        let has_run = self.slot_word() != SlotWord::NotStarted as u8;
        Some(needed.keeping_slot(has_run))
    }

    /// Returns the attempts at this lock of which copies may still arrive.
    pub(crate) fn unanswered(&self) -> Vec<Unanswered> {
        let now = self.context.clock.now();
        let own = self.strays(now).map(|strays| strays.unanswered(now));
        let earlier = self.context.withdrawals.of(&self.name, now);
        own.into_iter().chain(earlier).collect()
    }

    /// Reports an event that is not worth a warning, with the current lease.
    pub(crate) fn emit(&self, event: impl for<'a> FnOnce(&'a Lease) -> Event<'a>) {
        if self.context.is_heard() {
            self.report(event);
        }
    }

    /// Reports an event, with the current lease.
    pub(super) fn report(&self, event: impl for<'a> FnOnce(&'a Lease) -> Event<'a>) {
        self.context.report(&event(&self.lease()));
    }

    /// Logs what the thread of the duties has found, unless a listener tells events.
    pub(super) fn log_duty(&self, event: DutyEvent<'_>) {
        if !self.context.is_silent {
            narrator::tell_duty(self.name.as_str(), self.owner.as_str(), event);
        }
    }

    pub(crate) async fn extend(&self, request: &ExtendRequest) -> Result<(), Error> {
        self.extend_within(request, self.context.store_timeout)
            .await
    }

    /// Extends the lease, with a time limit for the store's reply.
    pub(super) async fn extend_within(
        &self,
        request: &ExtendRequest,
        limit: Duration,
    ) -> Result<(), Error> {
        let _one_at_a_time = self.one_at_a_time().await;
        self.check_runs()?;
        self.context
            .check_usable(request.lock_at_most_for())
            .map_err(|error| self.context_of(error))?;
        let lease = self.lease();
        let sent = self.context.lease_clock.read();
        let deadline = self.context.deadline(sent, request.lock_at_most_for());
        let call = self.context.provider.extend(&lease, request);
        match bounded(&*self.context.clock, limit, call).await {
            Ok(Extension::Extended(lease)) => {
                self.state.extend(lease, deadline);
                self.was_extended.store(true, Ordering::Release);
                self.emit(|lease| Event::Extended { lease });
                Ok(())
            }
            Ok(Extension::Lost) => {
                self.mark_lost(LostReason::NotHeldInStore);
                Err(self.lost_error(LostReason::NotHeldInStore))
            }
            Err(error) => {
                let error = self.context_of(error);
                self.context.store_failed(&self.name, self.job(), &error);
                Err(error)
            }
        }
    }

    /// Waits until no other request about this lease is in progress. There is hardly ever another
    /// one.
    pub(super) async fn one_at_a_time(&self) -> tokio::sync::MutexGuard<'_, ()> {
        match self.asking.try_lock() {
            Ok(turn) => turn,
            Err(_) => self.asking.lock().await,
        }
    }

    /// Whether the lease has not ended yet.
    pub(super) fn lasts(&self) -> bool {
        let now = self.context.lease_clock.read();
        !self.state.deadline().left(now).is_zero()
    }

    pub(super) fn context_of(&self, error: Error) -> Error {
        error
            .with_lock(self.name.as_str())
            .with_store(self.context.provider.store())
    }

    pub(super) fn error(&self, kind: ErrorKind, what: impl Into<Cow<'static, str>>) -> Error {
        self.context_of(Error::new(kind, what))
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.error(ErrorKind::Lost, format!("the lease is lost: {reason}"))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("lost", &self.state.found_lost())
            .field("released", &self.is_released())
            .finish_non_exhaustive()
    }
}
