//! The lock that the running task holds.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;

use crate::runtime::{Held, SlotWord, while_held};
use crate::{
    Error, ErrorKind, ExtendRequest, LockDuration, LockName, LostReason, Owner, ProviderIdentity,
    Slot,
};

tokio::task_local! {
    static CURRENT: CurrentLock;
}

/// The lock under which the running task runs: a view that can be cloned and kept, and that never
/// gives the lock back.
///
/// It belongs to the task (or, in blocking code, to the thread). Tasks that it spawns do not
/// inherit it; [`spawn`](Self::spawn) carries it there.
#[derive(Clone)]
pub struct CurrentLock(Arc<Node>);

struct Node {
    held: Arc<Held>,
    outer: Option<CurrentLock>,
}

/// The innermost lock of the running task.
pub fn current_lock() -> Option<CurrentLock> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Fails unless the running task holds a lock that is not lost.
///
/// A guard for functions that must only run under one: what is called from the wrong place says so
/// instead of running twice.
///
/// # Errors
/// `NotLocked` where there is no lock or where it was unlocked, `Lost` where its lease is over.
///
/// ```
/// let error = shedlock::assert_locked().unwrap_err();
/// assert_eq!(error.to_string(), "no lock is held here: run this inside a locked task");
/// ```
pub fn assert_locked() -> Result<(), Error> {
    current_lock().ok_or_else(not_locked)?.0.held.check_runs()
}

/// Makes the innermost lease end this long from now or later; see [`CurrentLock::extend`].
///
/// # Errors
/// As [`CurrentLock::extend`], and `NotLocked` where there is no lock.
pub async fn extend_current(lock_at_most_for: impl Into<LockDuration>) -> Result<(), Error> {
    current_lock()
        .ok_or_else(not_locked)?
        .extend(lock_at_most_for)
        .await
}

fn not_locked() -> Error {
    Error::new(
        ErrorKind::NotLocked,
        "no lock is held here: run this inside a locked task",
    )
}

impl CurrentLock {
    pub(crate) fn of(held: Arc<Held>) -> Self {
        Self(Arc::new(Node {
            held,
            outer: current_lock(),
        }))
    }

    /// The lock of this name on this provider, if the running task holds it, at whatever depth.
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

    /// Loses it, as if the store had said that it was somebody else's.
    pub(crate) fn lose(&self) {
        self.0.held.mark_lost(LostReason::NotHeldInStore);
    }

    /// Runs this with the lock as the current one, on this thread.
    pub(crate) fn enter<R>(&self, run: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self.clone(), run)
    }

    /// Spawns a task that shares this lock: it has it as its current one, and is aborted, and
    /// waited for, before the lock is given back.
    ///
    /// So nothing that a task leaves behind runs on without the lock. A task that is to be finished
    /// has to be awaited by the one that spawned it.
    ///
    /// # Errors
    /// `NotLocked` and `Lost` where the lock is over, `WrongContext` outside a tokio runtime.
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
        // Boxed first, as by `Executor::execute`.
        let scoped = self.clone().scope(Box::pin(future));
        let guarded = while_held(self.0.held.clone(), scoped);
        self.0.held.spawn(guarded)
    }

    /// Runs this future with the lock as its current one, wherever it is polled. Unlike what
    /// [`spawn`](Self::spawn) starts, it is not stopped with the lock; it can ask whether it
    /// [is lost](Self::is_lost).
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        self.0.held.name()
    }

    /// The owner of this lease.
    pub fn owner(&self) -> &Owner {
        self.0.held.owner()
    }

    /// The fencing token, where the store keeps one: hand it to whatever the task writes to.
    pub fn fencing_token(&self) -> Option<u64> {
        self.0.held.fencing_token()
    }

    /// The slot that this run is for.
    pub fn slot(&self) -> Option<Slot> {
        self.0.held.slot()
    }

    /// Which attempt at its slot this run is, from 1, where the slot must not be lost
    /// ([`Completion::OnSuccess`](crate::Completion::OnSuccess)); none otherwise.
    pub fn slot_attempt(&self) -> Option<u32> {
        self.0.held.slot_attempt()
    }

    /// Says that the run of the slot failed, though its task is going to return: a slot that must
    /// not be lost is then tried again after its backoff. Without effect on others.
    ///
    /// `Executor::try_execute` says it for tasks that return an `Err`; a panic and a lost lease need
    /// no saying.
    pub fn fail_slot(&self) {
        self.0.held.say_of_slot(SlotWord::Failed);
    }

    /// Says that the slot is neither done nor failed: a slot that must not be lost can be taken over
    /// as soon as the lock is free, and this run does not count as an attempt. For tasks that stop
    /// half-way because their process shuts down.
    pub fn leave_slot_open(&self) {
        self.0.held.say_of_slot(SlotWord::Cut);
    }

    /// Says that the task did nothing for its slot: the slot can be taken again as if it had never
    /// been taken here, at once, also one that is used up when it is taken.
    pub fn give_slot_back(&self) {
        self.0.held.say_of_slot(SlotWord::NotStarted);
    }

    /// True once the task has said that its slot is not done, by [`fail_slot`](Self::fail_slot),
    /// [`leave_slot_open`](Self::leave_slot_open) or [`give_slot_back`](Self::give_slot_back).
    pub fn leaves_slot_open(&self) -> bool {
        self.0.held.leaves_slot_open()
    }

    /// When the lease ends in the store, by the store's clock, where the store tells. For people;
    /// [`time_left`](Self::time_left) is what to decide by.
    pub fn locked_until(&self) -> Option<SystemTime> {
        self.0.held.locked_until()
    }

    /// How long the lease lasts for us: zero when it is lost.
    pub fn time_left(&self) -> Duration {
        self.0.held.time_left()
    }

    /// True once the lease has ended, or may have ended: it was lost, or the task that took the lock
    /// has ended and the lock is being unlocked. A blocking task cannot be stopped from outside and
    /// should look at this in its loops.
    pub fn is_lost(&self) -> bool {
        self.0.held.lost().is_some() || self.0.held.is_released()
    }

    /// Calls back once when the lease is lost, at once if it is already; never if the task ends
    /// before. A panic in it is caught and logged, and the other callbacks are called all the same.
    pub fn on_lost(&self, callback: impl FnOnce() + Send + 'static) {
        self.0.held.on_lost(Box::new(callback));
    }

    /// Makes the lease end this long from now, or later where it ends later already. At-least keeps
    /// counting from the acquisition.
    ///
    /// Dropped before it is done, the store may or may not have extended; the lease then counts as
    /// not extended.
    ///
    /// # Errors
    /// `Lost` where the lease was over or another's: the task is then stopped. `Unavailable` or
    /// `OutcomeUnknown` where the store failed: the lease runs on as before. `InvalidInput` for a
    /// duration that is zero, unreadable, or shorter than at-least.
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
