//! The state of a held lock: when its lease ends, how it is given back, and what must be notified of it.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::clock::{Deadline, Moment, NotBefore, Reading};
use crate::contract::{Lease, LostReason, UnlockRequest};
use crate::runtime::Progress;
use crate::runtime::sync::{AbortHandle, Mutex, MutexGuard, PoisonError};

type Callback = Box<dyn FnOnce() + Send>;

/// What a task reports about its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotWord {
    /// Nothing. The end of the task decides.
    Nothing,
    /// The task failed.
    Failed,
    /// The task neither failed nor is done: a shutdown interrupted it.
    Cut,
    /// The task was not started.
    NotStarted,
}

/// The state on which the task, its extensions, its spawned tasks and its release base their
/// decisions, under one mutex. A caller that registers for the end either finds that it has already
/// come or is notified of it.
///
/// A lease runs until it is lost or its release begins. A release begins once, with the first
/// request; its unlock is first sent at one moment; and it is given back once, by whoever learns
/// that it is.
///
/// `tests/interleavings.rs` compiles this file over its own scheduler and tries the orders in which
/// threads can get here.
pub(crate) struct LeaseState(Mutex<State>);

struct State {
    lease: Lease,
    deadline: Deadline,
    /// The end of the longest allowed run, whatever the lease.
    run_until: Option<Deadline>,
    lost: Option<LostReason>,
    /// The loss was announced, and the callbacks were taken.
    is_announced: bool,
    /// How to give the lock back, once the release has begun: the lease has ended for the task.
    release: Option<UnlockRequest>,
    /// When the unlock was first sent to the store. From then on the lease may have ended there.
    unlock_sent: Option<Moment>,
    /// An unlock may have taken effect although it failed.
    is_unlock_unknown: bool,
    /// How far the duties are with the unlock, if it was handed to them too.
    shared_unlock: Option<Arc<Progress>>,
    /// The store has replied to the unlock, or retries were given up.
    is_given_back: bool,
    /// Until when copies of the attempt whose replies were lost may arrive. `None` if none can, and
    /// once the lock is given back.
    strays_until: Option<NotBefore>,
    /// The task was started, so its slot cannot be given back as if nothing had run.
    is_started: bool,
    /// What the task itself has reported about its slot.
    word: SlotWord,
    /// Why the task failed, if it said so.
    failure: Option<Box<str>>,
    was_extended: bool,
    /// Wakes the waiter for the end.
    watcher: Option<Waker>,
    on_lost: Vec<Callback>,
    /// The number of spawned tasks whose futures still exist, and the handles that abort them.
    alive: usize,
    handles: Vec<AbortHandle>,
    /// The spawned tasks were aborted, and any task added now is aborted too.
    is_stopped: bool,
    /// Wakes the release when no spawned task is left.
    idle: Option<Waker>,
}

impl LeaseState {
    pub(crate) fn new(lease: Lease, deadline: Deadline, strays_until: Option<NotBefore>) -> Self {
        Self(Mutex::new(State {
            lease,
            deadline,
            run_until: None,
            lost: None,
            is_announced: false,
            release: None,
            unlock_sent: None,
            is_unlock_unknown: false,
            shared_unlock: None,
            is_given_back: false,
            strays_until,
            is_started: false,
            word: SlotWord::Nothing,
            failure: None,
            was_extended: false,
            watcher: None,
            on_lost: Vec::new(),
            alive: 0,
            handles: Vec::new(),
            is_stopped: false,
            idle: None,
        }))
    }

    /// Returns the current lease.
    pub(crate) fn lease(&self) -> Lease {
        self.lock().lease.clone()
    }

    /// Reads the lease without copying it.
    pub(crate) fn of_lease<T>(&self, read: impl FnOnce(&Lease) -> T) -> T {
        read(&self.lock().lease)
    }

    /// Returns when the lease ends for us.
    pub(crate) fn deadline(&self) -> Deadline {
        self.lock().deadline
    }

    /// Returns when the task is stopped: with its lease, or after its longest run.
    pub(crate) fn stop_at(&self) -> Deadline {
        self.lock().stop_at()
    }

    /// Replaces the lease after an extension. The deadline never moves closer, since the store
    /// keeps the later end.
    pub(crate) fn extend(&self, lease: Lease, deadline: Deadline) {
        let old = self.change(|state| {
            state.deadline = deadline.unless_earlier(state.deadline);
            state.was_extended = true;
            mem::replace(&mut state.lease, lease)
        });
        // Outside the mutex, like all calls to foreign code.
        drop(old);
    }

    /// Limits the run.
    pub(crate) fn run_until(&self, moment: Deadline) {
        self.change(|state| state.run_until = Some(moment));
    }

    pub(crate) fn was_extended(&self) -> bool {
        self.lock().was_extended
    }

    /// Begins the release with this request. Returns true for the first caller; the requests of
    /// others are ignored.
    pub(crate) fn release(&self, request: &UnlockRequest) -> bool {
        self.change(|state| {
            let is_first = !state.is_released();
            state.release.get_or_insert_with(|| request.clone());
            is_first
        })
    }

    pub(crate) fn is_released(&self) -> bool {
        self.lock().is_released()
    }

    /// Returns the request of the release, once it has begun.
    pub(crate) fn release_request(&self) -> UnlockRequest {
        self.lock().release.clone().unwrap_or_default()
    }

    /// Notes that an unlock is sent now. Returns when the first one was.
    pub(crate) fn send_unlock(&self, now: Moment) -> Moment {
        *self.lock().unlock_sent.get_or_insert(now)
    }

    /// Notes that an unlock may have taken effect although it failed.
    pub(crate) fn doubt_unlock(&self) {
        self.lock().is_unlock_unknown = true;
    }

    pub(crate) fn is_unlock_unknown(&self) -> bool {
        self.lock().is_unlock_unknown
    }

    /// Notes that the duties may unlock too.
    pub(super) fn share_unlock(&self, progress: &Arc<Progress>) {
        self.lock().shared_unlock = Some(progress.clone());
    }

    /// How far the duties are with the unlock, if they may unlock too.
    pub(super) fn shared_unlock(&self) -> Option<Arc<Progress>> {
        self.lock().shared_unlock.clone()
    }

    /// Marks the lock as given back. Drops the callbacks, since they may hold the lock that holds
    /// them. Returns, to the first caller, what is left to withdraw: until when copies may arrive,
    /// and whether the task has run.
    ///
    /// While the lease ran, a late copy of its attempt found it and changed nothing. The lease had
    /// ended when the unlock arrived, however late its reply came.
    pub(crate) fn give_back(&self, now: Moment) -> Option<(NotBefore, bool)> {
        let mut state = self.lock();
        state.is_given_back = true;
        let ended = state.unlock_sent.unwrap_or(now);
        let strays = state.strays(ended);
        state.strays_until = None;
        let callbacks = mem::take(&mut state.on_lost);
        drop(state);
        drop(callbacks);
        strays
    }

    pub(crate) fn is_given_back(&self) -> bool {
        self.lock().is_given_back
    }

    /// Returns until when copies of the attempt may arrive, if any still can at this moment, and
    /// whether the task has run.
    pub(crate) fn strays(&self, at: Moment) -> Option<(NotBefore, bool)> {
        self.lock().strays(at)
    }

    /// Marks the task as started.
    pub(crate) fn start(&self) {
        self.lock().is_started = true;
    }

    /// Sets what the task reports about its slot, with the text of its error if it failed. The
    /// first text counts.
    pub(crate) fn say(&self, word: SlotWord, failure: Option<Box<str>>) {
        let mut state = self.lock();
        state.word = word;
        if state.failure.is_none() {
            state.failure = failure;
        }
    }

    /// Returns what the task has reported, and why it failed.
    pub(crate) fn said(&self) -> (SlotWord, Option<Box<str>>) {
        let state = self.lock();
        (state.word, state.failure.clone())
    }

    /// Returns what is known about the slot: what the task has reported, if it was started.
    pub(crate) fn slot_word(&self) -> SlotWord {
        self.lock().slot_word()
    }

    /// Returns why the lease was found lost, without reading the clock again.
    pub(crate) fn found_lost(&self) -> Option<LostReason> {
        self.lock().lost
    }

    /// Returns why the lease is lost at this moment, if it is. A released lease is not lost by its
    /// deadline.
    pub(crate) fn lost(
        &self,
        now: Reading,
        announce: impl FnOnce(LostReason),
    ) -> Option<LostReason> {
        let state = self.lock();
        let found = match state.lost {
            None if state.is_released() => None,
            None => state.is_over(now),
            known if state.is_announced => return known,
            known => known,
        };
        if let Some(reason) = found {
            lose(state, reason, announce);
        }
        found
    }

    /// Marks the lease as lost, unless it is lost already. `announce` is called by the first caller
    /// that marks it.
    pub(crate) fn lose(&self, reason: LostReason, announce: impl FnOnce(LostReason)) {
        let state = self.lock();
        if state.lost.is_none() {
            lose(state, reason, announce);
        }
    }

    /// Marks the lease as lost without announcing it, for a thread that must not run code of the
    /// user. The next call of [`lost`](Self::lost) announces it. Returns false if the lease is lost
    /// or released already.
    pub(crate) fn lose_silently(&self, reason: LostReason) -> bool {
        let mut state = self.lock();
        if !state.runs() {
            return false;
        }
        state.lost = Some(reason);
        let watcher = state.watcher.take();
        drop(state);
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        true
    }

    /// Calls the callback once when the lease is lost, or at once if it is lost already.
    pub(crate) fn on_lost(&self, callback: Callback) {
        let mut state = self.lock();
        if !state.is_announced {
            state.on_lost.push(callback);
            return;
        }
        drop(state);
        call(callback);
    }

    /// Returns when the task is to be stopped according to the current state, or `None` if the
    /// lease has ended already. The waker is woken once when that changes.
    pub(crate) fn watch(&self, waker: &Waker) -> Option<Deadline> {
        let mut state = self.lock();
        if !state.runs() {
            return None;
        }
        let stop_at = state.stop_at();
        let known = state.watcher.as_ref();
        if !known.is_some_and(|known| known.will_wake(waker)) {
            let old = state.watcher.replace(waker.clone());
            drop(state);
            drop(old);
        }
        Some(stop_at)
    }

    /// Counts a task that is about to be spawned. Returns false if the lock has ended and the task
    /// must not be spawned.
    pub(crate) fn begin_spawned(&self) -> bool {
        let mut state = self.lock();
        let runs = state.runs();
        if runs {
            state.alive += 1;
        }
        runs
    }

    /// Adds the handle that aborts a spawned task. Aborts the task at once if the others were
    /// aborted.
    pub(crate) fn add_spawned(&self, handle: AbortHandle) {
        let mut state = self.lock();
        if !state.is_stopped {
            state.handles.retain(|handle| !handle.is_finished());
            state.handles.push(handle);
            return;
        }
        drop(state);
        handle.abort();
    }

    /// Removes a spawned task whose future is gone from the count.
    pub(crate) fn end_spawned(&self) {
        let mut state = self.lock();
        state.alive -= 1;
        let idle = if state.alive == 0 {
            state.idle.take()
        } else {
            None
        };
        drop(state);
        if let Some(idle) = idle {
            idle.wake();
        }
    }

    /// Aborts every task that was spawned, and each that will be added later.
    pub(crate) fn abort_spawned(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        let handles = mem::take(&mut state.handles);
        drop(state);
        for handle in handles {
            handle.abort();
        }
    }

    /// Returns true if no spawned task is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().alive == 0
    }

    /// Ready when no spawned task is left.
    pub(crate) fn poll_idle(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.alive == 0 {
            return Poll::Ready(());
        }
        let old = state.idle.replace(context.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Changes what the watcher waits for, and wakes it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        let watcher = state.watcher.take();
        drop(state);
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_released(&self) -> bool {
        self.release.is_some()
    }

    fn runs(&self) -> bool {
        self.lost.is_none() && !self.is_released()
    }

    fn slot_word(&self) -> SlotWord {
        match self.is_started {
            true => self.word,
            false => SlotWord::NotStarted,
        }
    }

    fn strays(&self, at: Moment) -> Option<(NotBefore, bool)> {
        let until = self.strays_until.filter(|until| !until.has_come(at))?;
        Some((until, self.slot_word() != SlotWord::NotStarted))
    }

    fn stop_at(&self) -> Deadline {
        self.run_until
            .map_or(self.deadline, |run_until| run_until.or(self.deadline))
    }

    fn is_over(&self, now: Reading) -> Option<LostReason> {
        if self.deadline.has_passed(now) {
            Some(LostReason::DeadlinePassed)
        } else if self.stop_at().has_passed(now) {
            Some(LostReason::RanTooLong)
        } else {
            None
        }
    }
}

/// Wakes the task before anything else runs, so that the callbacks cannot delay its end.
fn lose(mut state: MutexGuard<'_, State>, reason: LostReason, announce: impl FnOnce(LostReason)) {
    state.lost = Some(reason);
    state.is_announced = true;
    let watcher = state.watcher.take();
    let callbacks = mem::take(&mut state.on_lost);
    drop(state);
    if let Some(watcher) = watcher {
        watcher.wake();
    }
    announce(reason);
    callbacks.into_iter().for_each(call);
}

/// Calls a callback. A panic in it does not prevent the other callbacks from being called.
fn call(callback: Callback) {
    if catch_unwind(AssertUnwindSafe(callback)).is_err() {
        tracing::error!("a callback for a lost lease panicked");
    }
}
