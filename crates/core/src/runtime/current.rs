//! The lock that the running task holds.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;

use crate::contract::{
    Error, ErrorKind, ExtendRequest, LockDuration, LockName, LostReason, Owner, ProviderIdentity,
    Slot, error_text,
};
use crate::runtime::{Held, SlotWord, while_held};

tokio::task_local! {
    static CURRENT: CurrentLock;
}

/// The lock under which the running task runs: a view that you can clone and keep, and that never
/// gives the lock back.
///
/// It belongs to the task (or, in blocking code, to the thread). Tasks that the task spawns do not
/// inherit it; use [`spawn`](Self::spawn) to pass it to them.
#[derive(Clone)]
pub struct CurrentLock(Arc<Node>);

struct Node {
    held: Arc<Held>,
    outer: Option<CurrentLock>,
}

/// Returns the innermost lock of the running task.
pub fn current_lock() -> Option<CurrentLock> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Fails unless the running task holds a lock that is not lost.
///
/// A guard for functions that must only run under a lock: if such a function is called without one,
/// it returns an error instead of running twice.
///
/// # Errors
/// `NotLocked` if there is no lock or if it was unlocked, `Lost` if its lease has ended.
///
/// ```
/// let error = shedlock::assert_locked().unwrap_err();
/// assert_eq!(error.to_string(), "no lock is held here; run this inside a locked task");
/// ```
pub fn assert_locked() -> Result<(), Error> {
    current_lock().ok_or_else(not_locked)?.0.held.check_runs()
}

/// Makes the innermost lease end this long from now or later; see [`CurrentLock::extend`].
///
/// # Errors
/// As [`CurrentLock::extend`], and `NotLocked` if there is no lock.
pub async fn extend_current(lock_at_most_for: impl Into<LockDuration>) -> Result<(), Error> {
    current_lock()
        .ok_or_else(not_locked)?
        .extend(lock_at_most_for)
        .await
}

fn not_locked() -> Error {
    Error::new(ErrorKind::NotLocked, "no lock is held here").advise("run this inside a locked task")
}

impl CurrentLock {
    pub(crate) fn of(held: Arc<Held>) -> Self {
        Self(Arc::new(Node {
            held,
            outer: current_lock(),
        }))
    }

    /// Returns the lock of this name on this provider, if the running task holds it, at any nesting
    /// depth.
    pub(crate) fn find(identity: &ProviderIdentity, name: &str) -> Option<Self> {
        let mut next = current_lock();
        while let Some(lock) = next {
            if lock.0.held.is_lock(identity, name) && !lock.is_lost() {
                return Some(lock);
            }
            next = lock.0.outer.clone();
        }
        None
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.0.held
    }

    /// Marks the lease as lost, as if the store had reported another owner.
    pub(crate) fn lose(&self) {
        self.0.held.mark_lost(LostReason::NotHeldInStore);
    }

    /// Runs the closure on this thread with the lock as the current one.
    pub(crate) fn enter<R>(&self, run: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self.clone(), run)
    }

    /// Spawns a task that shares this lock as its current one. The task is aborted and awaited
    /// before the lock is given back.
    ///
    /// So no spawned task continues without the lock. If a spawned task must finish, the task that
    /// spawned it has to await it.
    ///
    /// # Errors
    /// `NotLocked` and `Lost` if the lock has ended, `WrongContext` outside a tokio runtime.
    ///
    /// ```
    /// use shedlock::{Executor, LockConfig, MemoryProvider, current_lock};
    /// use std::sync::Arc;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let executor = Executor::new(Arc::new(MemoryProvider::new()));
    /// let config = LockConfig::new("mails").lock_at_most_for("10m");
    /// let outcome = executor.execute(&config, async {
    ///     let lock = current_lock().expect("this task holds it");
    ///     let sending = lock.spawn(async { 3 })?;
    ///     Ok::<_, shedlock::Error>(sending.await.expect("not aborted: it is awaited"))
    /// });
    /// assert_eq!(outcome.await?.value().transpose()?, Some(3));
    /// # Ok::<(), shedlock::Error>(()) }).unwrap();
    /// ```
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, Error>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // Boxed first, as in `Executor::execute`.
        let scoped = self.clone().scope(Box::pin(future));
        let guarded = while_held(self.0.held.clone(), scoped);
        self.0.held.spawn(guarded)
    }

    /// Runs this future with the lock as its current one, wherever it is polled. Unlike a task
    /// started with [`spawn`](Self::spawn), it is not stopped with the lock; it can check whether
    /// the lock [is lost](Self::is_lost).
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &LockName {
        self.0.held.name()
    }

    /// Returns the owner of this lease.
    pub fn owner(&self) -> &Owner {
        self.0.held.owner()
    }

    /// Returns the fencing token, if the store keeps one. Pass it to every system that the task
    /// writes to.
    pub fn fencing_token(&self) -> Option<u64> {
        self.0.held.fencing_token()
    }

    /// Returns the slot of this run.
    pub fn slot(&self) -> Option<Slot> {
        self.0.held.slot()
    }

    /// Returns the number of this attempt at its slot, counted from 1, if the slot must not be lost
    /// ([`Completion::OnSuccess`](crate::Completion::OnSuccess)); otherwise `None`.
    pub fn slot_attempt(&self) -> Option<u32> {
        self.0.held.slot_attempt()
    }

    /// Marks the run as failed, although its task will return normally: listeners are notified of a
    /// failure, and a slot that must not be lost is tried again after its backoff. Other slots stay
    /// used up.
    ///
    /// `Executor::try_execute` does this for tasks that return an `Err`. You do not need it for a
    /// panic or a lost lease.
    pub fn fail_slot(&self) {
        self.0.held.say_of_slot(SlotWord::Failed);
    }

    /// Marks the run as failed, with the text that listeners receive
    /// ([`TaskEnd::Failed`](crate::TaskEnd::Failed)). Otherwise as [`fail_slot`](Self::fail_slot).
    pub fn fail_with(&self, error: impl fmt::Display) {
        self.0.held.fail(error_text(&error));
    }

    /// Marks the slot as neither done nor failed: a slot that must not be lost can be taken over as
    /// soon as the lock is free, and this run does not count as an attempt. For tasks that stop
    /// half-way because their process shuts down.
    pub fn leave_slot_open(&self) {
        self.0.held.say_of_slot(SlotWord::Cut);
    }

    /// Marks the task as having done nothing for its slot: the slot can be taken again at once, as
    /// if it had never been taken here. This includes a slot that is used up when it is taken.
    pub fn give_slot_back(&self) {
        self.0.held.say_of_slot(SlotWord::NotStarted);
    }

    /// Returns true once the task has marked its slot as not done, with
    /// [`fail_slot`](Self::fail_slot), [`leave_slot_open`](Self::leave_slot_open) or
    /// [`give_slot_back`](Self::give_slot_back).
    pub fn leaves_slot_open(&self) -> bool {
        self.0.held.leaves_slot_open()
    }

    /// Returns when the lease ends in the store, by the store's clock, if the store reports it. For
    /// display; base decisions on [`time_left`](Self::time_left).
    pub fn locked_until(&self) -> Option<SystemTime> {
        self.0.held.locked_until()
    }

    /// Returns how long the lease still lasts for us; zero if it is lost.
    pub fn time_left(&self) -> Duration {
        self.0.held.time_left()
    }

    /// Returns true once the lease has ended, or may have ended: it was lost, or the task that took
    /// the lock has ended and the lock is being unlocked. A blocking task cannot be stopped from
    /// outside and should check this in its loops.
    pub fn is_lost(&self) -> bool {
        self.0.held.lost().is_some() || self.0.held.state().is_released()
    }

    /// Calls the callback once when the lease is lost, or at once if it is lost already. It is
    /// never called if the task ends first. A panic in it is caught and logged, and the other
    /// callbacks are still called.
    pub fn on_lost(&self, callback: impl FnOnce() + Send + 'static) {
        self.0.held.on_lost(Box::new(callback));
    }

    /// Makes the lease end this long from now. If it already ends later, it keeps that end.
    /// `lock_at_least_for` still counts from the acquisition.
    ///
    /// If this future is dropped before it completes, the store may or may not have extended the
    /// lease. The lease then counts as not extended.
    ///
    /// # Errors
    /// `Lost` if the lease had ended or the lock belongs to another owner: the task is then
    /// stopped. `Unavailable` or `OutcomeUnknown` if the store failed: the lease runs on as before.
    /// `InvalidInput` for a duration that is zero, unreadable, or shorter than `lock_at_least_for`.
    pub async fn extend(&self, lock_at_most_for: impl Into<LockDuration>) -> Result<(), Error> {
        let duration = lock_at_most_for.into().get()?;
        self.0.held.extend(&ExtendRequest::new(duration)).await
    }
}

impl fmt::Debug for CurrentLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CurrentLock").field(&self.0.held).finish()
    }
}
