//! A lock while we hold it.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use shedlock_support::spawn;
use tokio::runtime::Handle;

use super::bounded::bounded;
use super::withdrawal::Withdrawal;
use super::{Context, LeaseState, SlotWord, Unanswered};
use crate::clock::{Deadline, Moment, NotBefore};
use crate::contract::{
    AttemptRequest, Error, ErrorKind, Event, ExtendRequest, Extension, Lease, LockName, LostReason,
    Owner, ProviderIdentity, Retries, Slot, SlotEnd, UnlockRequest,
};
use crate::runtime::narrator::{self, DutyEvent};

/// What the task, its handles and its release share.
pub(crate) struct Held {
    context: Arc<Context>,
    identity: ProviderIdentity,
    /// The attempt that won the lease.
    request: AttemptRequest,
    fencing_token: Option<u64>,
    /// Everything that changes.
    state: LeaseState,
    /// When the lease was known to be granted.
    pub(super) granted: Moment,
    /// The run time from which on a run counts as slow, and whether the lease sets it.
    slow_after: OnceLock<(Duration, bool)>,
    /// Allows one request about this lease at a time, so that an extension never crosses the
    /// unlock.
    asking: tokio::sync::Mutex<()>,
}

impl Held {
    /// Creates the lock that `request` has won. Copies of it without a reply may arrive until
    /// `strays_until`.
    pub(crate) fn new(
        context: Arc<Context>,
        request: AttemptRequest,
        lease: Lease,
        deadline: Deadline,
        strays_until: Option<NotBefore>,
    ) -> Self {
        Self {
            granted: context.clock.now(),
            identity: context.provider.identity_of(lease.name()),
            context,
            request,
            fencing_token: lease.fencing_token(),
            state: LeaseState::new(lease, deadline, strays_until),
            slow_after: OnceLock::new(),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.request.name
    }

    pub(super) fn job(&self) -> &str {
        self.request.job()
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.request.owner
    }

    pub(crate) fn slot(&self) -> Option<Slot> {
        self.request.slot
    }

    pub(crate) fn slot_attempt(&self) -> Option<u32> {
        self.state.of_lease(Lease::slot_attempt)
    }

    /// Marks the run as failed, with the text of its error. The first text counts.
    pub(crate) fn fail(&self, error: impl Into<Box<str>>) {
        self.state.say(SlotWord::Failed, Some(error.into()));
    }

    /// Marks the run as failed if the value of its task stands for a failure.
    pub(crate) fn judge<T>(&self, value: &T, failure: impl FnOnce(&T) -> Option<String>) {
        if let Some(error) = failure(value) {
            self.fail(error);
        }
    }

    pub(crate) fn say_of_slot(&self, word: SlotWord) {
        self.state.say(word, None);
    }

    pub(crate) fn leaves_slot_open(&self) -> bool {
        self.state.said().0 != SlotWord::Nothing
    }

    /// Returns how to give the lock back if nothing is known about the task except whether it
    /// started, and whether it said that a shutdown cuts it.
    pub(super) fn drop_request(&self) -> UnlockRequest {
        self.end_by(self.state.slot_word())
    }

    fn end_by(&self, word: SlotWord) -> UnlockRequest {
        let request = UnlockRequest::new();
        match word {
            SlotWord::NotStarted => request.with_slot_end(SlotEnd::NotStarted),
            SlotWord::Cut if self.slot().is_some() => request.with_slot_end(SlotEnd::Cut),
            _ => request,
        }
    }

    /// Returns how to give the lock back after a task that ended by itself (`finished`) or did not.
    pub(crate) fn unlock_request(&self, finished: bool) -> UnlockRequest {
        let word = self.state.slot_word();
        let request = self.end_by(word);
        if self.slot().is_none() || matches!(word, SlotWord::NotStarted | SlotWord::Cut) {
            return request;
        }
        let failed = !finished || word == SlotWord::Failed;
        match self.request.completion.retries() {
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
        if let Some(slot) = self.slot().filter(|_| attempt >= of) {
            let (name, job) = (self.name(), self.job());
            self.context.emit(|| Event::SlotGivenUp { name, job, slot });
        }
    }

    pub(crate) fn fencing_token(&self) -> Option<u64> {
        self.fencing_token
    }

    pub(crate) fn is_lock(&self, identity: &ProviderIdentity, name: &str) -> bool {
        self.identity == *identity && self.name().as_str() == name
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
            lock = self.name().as_str(),
            owner = self.owner().as_str(),
            token = self.fencing_token,
            slot = self.slot().map(tracing::field::display),
            job.system = "shedlock",
            faas.trigger = self.slot().map(|_| "timer"),
            faas.time = self.slot().map(tracing::field::display),
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
        (!is_of_lease || !self.state.was_extended()).then_some(limit)
    }

    /// Limits the run time, counted from now.
    pub(crate) fn bound_run(&self, max_run_time: Duration) {
        let until = self.context.lease_clock.read().deadline(max_run_time);
        self.state.run_until(until);
    }

    pub(crate) fn time_left(&self) -> Duration {
        if self.state.found_lost().is_some() || self.state.is_released() {
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
        if self.context.is_heard() {
            let held = self.clone();
            spawn(runtime, async move {
                held.emit(|lease| Event::Extended { lease })
            });
        }
    }

    /// Marks the lease as lost, as the thread of the duties has found it. The task, or its runtime,
    /// announces it, whichever runs first.
    pub(super) fn lost_by_duty(self: &Arc<Self>, reason: LostReason, runtime: &Handle) {
        if self.state.lose_silently(reason) {
            let held = self.clone();
            spawn(runtime, async move {
                let _ = held.lost();
            });
        }
    }

    /// Calls the callback once when the lease is lost, or at once if it is lost already.
    pub(crate) fn on_lost(&self, callback: Box<dyn FnOnce() + Send>) {
        // Detects a deadline that has passed.
        self.lost();
        self.state.on_lost(callback);
    }

    /// Fails unless the lease runs, that is, it is neither lost nor being given back.
    pub(crate) fn check_runs(&self) -> Result<(), Error> {
        if self.state.is_released() {
            return Err(self.error(ErrorKind::NotLocked, "the lock is already unlocked"));
        }
        self.lost()
            .map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    /// Marks the lock as given back, and withdraws what copies of its attempt may still take.
    pub(super) fn set_given_back(&self) {
        let strays = self.state.give_back(self.context.clock.now());
        if let Some(withdrawal) = strays.map(|strays| self.withdrawal(strays)) {
            withdrawal.start(&self.context);
        }
    }

    /// Returns the withdrawal of copies that may still arrive at this moment.
    pub(super) fn strays(&self, at: Moment) -> Option<Withdrawal> {
        self.state.strays(at).map(|strays| self.withdrawal(strays))
    }

    fn withdrawal(&self, (until, has_run): (NotBefore, bool)) -> Withdrawal {
        Withdrawal::of_strays(self.request.clone(), until).keeping_slot(has_run)
    }

    /// Returns the attempts at this lock of which copies may still arrive.
    pub(crate) fn unanswered(&self) -> Vec<Unanswered> {
        let now = self.context.clock.now();
        let own = self.strays(now).map(|strays| strays.unanswered(now));
        let earlier = self.context.withdrawals.of(self.name(), now);
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
            narrator::tell_duty(self.name().as_str(), self.owner().as_str(), event);
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
            .check_usable(request.lock_at_most_for)
            .map_err(|error| self.context_of(error))?;
        let lease = self.lease();
        let sent = self.context.lease_clock.read();
        let deadline = self.context.deadline(sent, request.lock_at_most_for);
        let call = self.context.provider.extend(&lease, request);
        match bounded(&*self.context.clock, limit, call).await {
            Ok(Extension::Extended(lease)) => {
                self.state.extend(lease, deadline);
                self.emit(|lease| Event::Extended { lease });
                Ok(())
            }
            Ok(Extension::Lost) => {
                self.mark_lost(LostReason::NotHeldInStore);
                Err(self.lost_error(LostReason::NotHeldInStore))
            }
            Err(error) => {
                let error = self.context_of(error);
                self.context.store_failed(self.name(), self.job(), &error);
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
            .with_lock(self.name().as_str())
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
            .field("name", self.name())
            .field("owner", self.owner())
            .field("lost", &self.state.found_lost())
            .field("released", &self.state.is_released())
            .finish_non_exhaustive()
    }
}
