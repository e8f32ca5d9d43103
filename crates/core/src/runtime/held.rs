//! A lock while we hold it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use super::bounded::bounded;
use super::spawned::Spawned;
use super::withdrawal::Withdrawal;
use super::{Context, LostReason, Release};
use crate::clock::Moment;
use crate::{
    Completion, Error, ErrorKind, Event, ExtendRequest, Extension, Lease, LockName, Owner,
    ProviderIdentity, Retries, Slot, Unlock, UnlockRequest,
};

/// The state that the task, its handles and its release share.
pub(crate) struct Held {
    context: Arc<Context>,
    identity: ProviderIdentity,
    name: LockName,
    owner: Owner,
    slot: Option<Slot>,
    fencing_token: Option<u64>,
    now: Mutex<Now>,
    lost: OnceLock<LostReason>,
    /// Somebody has begun to give the lock back: the lease is over for the task.
    released: AtomicBool,
    /// How, for whoever has to go on with it.
    release_request: OnceLock<UnlockRequest>,
    /// When the store was first asked to: from then on the lease may be over there.
    unlock_sent: OnceLock<Moment>,
    /// The store has answered to that, or was given up.
    given_back: AtomicBool,
    pub(super) spawned: Spawned,
    completion: Completion,
    /// What the task itself says of its slot: a [`SlotWord`].
    slot_word: AtomicU8,
    /// One request about this lease at a time: an extension never crosses the unlock.
    asking: tokio::sync::Mutex<()>,
    /// What may be left of copies of the attempt whose answers were lost.
    strays: Mutex<Option<Withdrawal>>,
}

struct Now {
    lease: Lease,
    deadline: Moment,
    /// The end of the longest run that is allowed, whatever the lease.
    run_until: Option<Moment>,
    /// Whoever waits for the deadline and has to hear of its changes.
    watcher: Option<Waker>,
    on_lost: Vec<Box<dyn FnOnce() + Send>>,
}

/// What a task says of its slot, where it says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotWord {
    /// Nothing: that it ends decides.
    Nothing = 0,
    /// It failed.
    Failed = 1,
    /// It neither failed nor is it done.
    Open = 2,
}

impl Held {
    pub(crate) fn new(
        context: Arc<Context>,
        lease: Lease,
        completion: Completion,
        deadline: Moment,
        strays: Option<Withdrawal>,
    ) -> Self {
        Self {
            strays: Mutex::new(strays),
            identity: context.provider.identity_of(lease.name()),
            context,
            name: lease.name().clone(),
            owner: lease.owner().clone(),
            slot: lease.slot(),
            fencing_token: lease.fencing_token(),
            now: Mutex::new(Now {
                lease,
                deadline,
                run_until: None,
                watcher: None,
                on_lost: Vec::new(),
            }),
            lost: OnceLock::new(),
            released: AtomicBool::new(false),
            release_request: OnceLock::new(),
            unlock_sent: OnceLock::new(),
            given_back: AtomicBool::new(false),
            spawned: Spawned::default(),
            completion,
            slot_word: AtomicU8::new(SlotWord::Nothing as u8),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    pub(crate) fn slot_attempt(&self) -> Option<u32> {
        self.state().lease.slot_attempt()
    }

    pub(crate) fn say_of_slot(&self, word: SlotWord) {
        self.slot_word.store(word as u8, Ordering::Release);
    }

    pub(crate) fn leaves_slot_open(&self) -> bool {
        self.slot_word.load(Ordering::Acquire) != SlotWord::Nothing as u8
    }

    /// How the lock is to be given back by a task that ended by itself (`finished`) or did not.
    pub(crate) fn unlock_request(&self, finished: bool) -> UnlockRequest {
        let request = UnlockRequest::new();
        if self.slot.is_none() {
            return request;
        }
        let word = self.slot_word.load(Ordering::Acquire);
        let failed = !finished || word == SlotWord::Failed as u8;
        match self.completion.retries() {
            _ if word == SlotWord::Open as u8 => request,
            Some(retries) if failed => {
                let attempt = self.slot_attempt().unwrap_or(1);
                self.tell_of_failure(attempt, retries);
                request.slot_failed(retries.pause_after(attempt))
            }
            None if failed => request,
            retries => request.slot_done(retries.is_some()),
        }
    }

    fn tell_of_failure(&self, attempt: u32, retries: Retries) {
        let slot = self.slot.map(tracing::field::display);
        let (lock, of) = (self.name.as_str(), retries.most_attempts());
        if attempt < of {
            tracing::warn!(
                lock,
                slot,
                attempt,
                of,
                "the run of a slot failed: it is tried again"
            );
        } else {
            tracing::error!(
                lock,
                slot,
                attempt,
                of,
                "the last attempt at a slot failed: it is given up"
            );
        }
    }

    pub(crate) fn fencing_token(&self) -> Option<u64> {
        self.fencing_token
    }

    pub(crate) fn is_lock(&self, identity: &ProviderIdentity, name: &str) -> bool {
        self.identity == *identity && self.name.as_str() == name
    }

    pub(crate) fn lease(&self) -> Lease {
        self.state().lease.clone()
    }

    pub(crate) fn locked_until(&self) -> Option<SystemTime> {
        self.state().lease.locked_until()
    }

    /// The span that a task runs in.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "shedlock",
            lock = self.name.as_str(),
            owner = self.owner.as_str(),
            token = self.fencing_token,
            slot = self.slot.map(tracing::field::display),
        )
    }

    /// When the lease ends for us.
    pub(crate) fn deadline(&self) -> Moment {
        self.state().deadline
    }

    /// When the task is stopped: with its lease, or after its longest run.
    pub(crate) fn stop_at(&self) -> Moment {
        let now = self.state();
        now.run_until
            .map_or(now.deadline, |run_until| run_until.min(now.deadline))
    }

    /// Bounds the run, counted from now.
    pub(crate) fn bound_run(&self, max_run_time: Duration) {
        self.state().run_until = Some(self.context.clock.now() + max_run_time);
    }

    pub(crate) fn time_left(&self) -> Duration {
        if self.lost.get().is_some() || self.is_released() {
            return Duration::ZERO;
        }
        self.stop_at().saturating_since(self.context.clock.now())
    }

    /// Why the lease is lost, if it is; looks at the clock. A released lease is not lost.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        if let Some(reason) = self.lost.get() {
            return Some(*reason);
        }
        if !self.is_released() {
            let now = self.context.clock.now();
            let (deadline, run_until) = {
                let state = self.state();
                (state.deadline, state.run_until)
            };
            if now >= deadline {
                self.mark_lost(LostReason::DeadlinePassed);
            } else if run_until.is_some_and(|run_until| now >= run_until) {
                self.mark_lost(LostReason::RanTooLong);
            }
        }
        self.lost.get().copied()
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::SeqCst)
    }

    /// Fails unless the lease runs: it is neither lost nor being given back.
    pub(crate) fn check_runs(&self) -> Result<(), Error> {
        if self.is_released() {
            return Err(self.error(ErrorKind::NotLocked, "the lock is already unlocked"));
        }
        self.lost()
            .map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    /// Claims the release for the caller: it is done once, and as the first one asked.
    pub(super) fn claim_release(&self, request: &UnlockRequest) -> bool {
        let is_first = !self.released.swap(true, Ordering::SeqCst);
        self.release_request.get_or_init(|| request.clone());
        is_first
    }

    /// How the release was asked for, once it is claimed.
    pub(super) fn release_request(&self) -> UnlockRequest {
        self.release_request.get().cloned().unwrap_or_default()
    }

    pub(crate) fn is_given_back(&self) -> bool {
        self.given_back.load(Ordering::Acquire)
    }

    pub(super) fn set_given_back(&self) {
        self.given_back.store(true, Ordering::Release);
        // While the lease ran, a late copy of its attempt found it and changed nothing. It was over
        // when the unlock arrived, however late the answer came.
        let sent = self.unlock_sent.get().copied();
        let ended = sent.unwrap_or_else(|| self.context.clock.now());
        let strays = self
            .strays
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(withdrawal) = strays.filter(|strays| strays.is_needed(ended)) {
            withdrawal.start(&self.context);
        }
    }

    pub(crate) fn mark_lost(&self, reason: LostReason) {
        if self.lost.set(reason).is_err() {
            return;
        }
        let (watcher, callbacks) = {
            let mut now = self.state();
            (now.watcher.take(), std::mem::take(&mut now.on_lost))
        };
        tracing::warn!(
            lock = self.name.as_str(),
            owner = self.owner.as_str(),
            "the lease is lost: {reason}"
        );
        self.emit(|lease| Event::Lost { lease, reason });
        for callback in callbacks {
            callback();
        }
        if let Some(watcher) = watcher {
            watcher.wake();
        }
    }

    /// Calls back once when the lease is lost; at once if it is already.
    pub(crate) fn on_lost(&self, callback: Box<dyn FnOnce() + Send>) {
        if self.lost().is_some() {
            callback();
            return;
        }
        self.state().on_lost.push(callback);
    }

    /// Wakes this waker when the lease is lost or its deadline moves.
    pub(crate) fn watch(&self, waker: &Waker) {
        let mut now = self.state();
        match &mut now.watcher {
            Some(known) => known.clone_from(waker),
            None => now.watcher = Some(waker.clone()),
        }
    }

    /// Tells the listener, if there is one, with the lease as it is now.
    pub(crate) fn emit(&self, event: impl for<'a> FnOnce(&'a Lease) -> Event<'a>) {
        if self.context.listener.is_some() {
            let lease = self.lease();
            self.context.emit(|| event(&lease));
        }
    }

    pub(crate) async fn extend(&self, request: &ExtendRequest) -> Result<(), Error> {
        self.extend_within(request, self.context.store_timeout)
            .await
    }

    /// Extends, with a time limit for the store's answer.
    pub(super) async fn extend_within(
        &self,
        request: &ExtendRequest,
        limit: Duration,
    ) -> Result<(), Error> {
        let _one_at_a_time = self.one_at_a_time().await;
        self.check_runs()?;
        self.context
            .check_skew(request.lock_at_most_for())
            .map_err(|error| self.context_of(error))?;
        let lease = self.lease();
        let sent = self.context.clock.now();
        let deadline = self.context.deadline(sent, request.lock_at_most_for());
        let call = self.context.provider.extend(&lease, request);
        match bounded(&*self.context.clock, limit, call).await {
            Ok(Extension::Extended(lease)) => {
                // The store keeps the later end, and so do we.
                self.move_deadline(deadline.max(self.deadline()), lease);
                self.emit(|lease| Event::Extended { lease });
                Ok(())
            }
            Ok(Extension::Lost) => {
                self.mark_lost(LostReason::NotHeldInStore);
                Err(self.lost_error(LostReason::NotHeldInStore))
            }
            Err(error) => {
                let error = self.context_of(error);
                self.context.store_failed(&self.name, &error);
                Err(error)
            }
        }
    }

    /// The turn to ask the store about this lease; nearly always nobody else has it.
    async fn one_at_a_time(&self) -> tokio::sync::MutexGuard<'_, ()> {
        match self.asking.try_lock() {
            Ok(turn) => turn,
            Err(_) => self.asking.lock().await,
        }
    }

    fn move_deadline(&self, deadline: Moment, lease: Lease) {
        let watcher = {
            let mut now = self.state();
            now.deadline = deadline;
            now.lease = lease;
            now.watcher.take()
        };
        if let Some(watcher) = watcher {
            watcher.wake();
        }
    }

    /// Unlocks in the store, asking again while the store fails and the lease still runs.
    pub(crate) async fn unlock(&self, request: &UnlockRequest) -> Release {
        const LONGEST_PAUSE: Duration = Duration::from_secs(1);
        let _one_at_a_time = self.one_at_a_time().await;
        let clock = &*self.context.clock;
        let (lease, deadline) = (self.lease(), self.deadline());
        self.unlock_sent.get_or_init(|| clock.now());
        let mut pause = Duration::from_millis(50);
        let mut unknown = false;
        loop {
            let call = self.context.provider.unlock(&lease, request);
            let error = match bounded(clock, self.context.store_timeout, call).await {
                Ok(Unlock::Unlocked) => return Release::Released,
                // An unlock whose answer was lost, asked again while the lease cannot have ended by
                // itself: it was ours that landed.
                Ok(Unlock::Lost) if unknown && clock.now() < deadline => return Release::Released,
                Ok(Unlock::Lost) => return Release::Lost,
                Err(error) => self.context_of(error),
            };
            self.context.store_failed(&self.name, &error);
            unknown |= error.is_unknown();
            if !error.is_retryable() || clock.now() + pause >= deadline {
                return Release::Failed(error);
            }
            clock.sleep_until(clock.now() + pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn context_of(&self, error: Error) -> Error {
        error
            .with_lock(self.name.as_str())
            .with_store(self.context.provider.store())
    }

    pub(super) fn error(&self, kind: ErrorKind, message: &str) -> Error {
        self.context_of(Error::new(kind, message))
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.error(ErrorKind::Lost, &format!("the lease is lost: {reason}"))
    }

    fn state(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("lost", &self.lost.get())
            .field("released", &self.is_released())
            .finish_non_exhaustive()
    }
}
