//! Locks without a store, for your own tests.
//!
//! A function that begins with [`assert_locked`](crate::assert_locked), or that calls
//! [`current_lock`], needs a lock around it. [`locked`] provides one that is always granted. A
//! [`TestLock`] has a name, a slot and a fencing token of your choice, or is lost:
//!
//! ```
//! use shedlock::testing::{self, TestLock};
//! use shedlock::{assert_locked, current_lock};
//!
//! async fn charge_cards() -> Result<u64, shedlock::Error> {
//!     assert_locked()?;
//!     Ok(current_lock().and_then(|lock| lock.fencing_token()).unwrap_or(0))
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! // #[tokio::test] async fn cards_are_charged() { …
//! assert!(charge_cards().await.is_err());
//! assert!(testing::locked(charge_cards()).await.is_ok());
//! assert_eq!(TestLock::new("cards").fencing_token(7).hold(charge_cards()).await.unwrap(), 7);
//! assert!(TestLock::new("cards").lost().hold(charge_cards()).await.is_err());
//! # });
//! ```
//!
//! The real [`Executor`] runs the code, over a provider that grants every lock: tasks that are
//! [spawned](crate::CurrentLock::spawn) with the lock end with it,
//! [`extend_current`](crate::extend_current) extends the lease, and with a
//! [`ManualClock`](crate::ManualClock) the lease ends when its time has passed. For tests of *who
//! gets the lock*, use a [`MemoryProvider`](https://docs.rs/shedlock/latest/shedlock/struct.MemoryProvider.html).

pub(crate) mod provider;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::contract::{Completion, LockConfig, LockDuration, LostPolicy, Slot};
use crate::runtime::{Executor, Outcome, blocking, current_lock};
use provider::Granting;

/// Runs the future under a lock, without a store. As [`TestLock::hold`].
pub fn locked<F: Future>(future: F) -> impl Future<Output = F::Output> {
    TestLock::new("test").hold(future)
}

/// Runs the closure under a lock, without a store. As [`TestLock::hold_blocking`].
pub fn locked_blocking<T>(task: impl FnOnce() -> T) -> T {
    TestLock::new("test").hold_blocking(task)
}

/// A lock that is granted without a store, for tests.
///
/// ```
/// use shedlock::testing::TestLock;
/// use shedlock::{Slot, current_lock};
/// use std::time::UNIX_EPOCH;
/// let slot = Slot::at(UNIX_EPOCH)?;
/// TestLock::new("report").slot(slot).fencing_token(3).hold_blocking(|| {
///     let lock = current_lock().unwrap();
///     assert_eq!(lock.name().as_str(), "report");
///     assert_eq!((lock.slot(), lock.fencing_token()), (Some(slot), Some(3)));
/// });
/// # Ok::<(), shedlock::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TestLock {
    config: LockConfig,
    fencing_token: u64,
    slot_attempt: Option<u32>,
    clock: Arc<dyn Clock>,
    lost: bool,
}

impl TestLock {
    /// Creates a lock with this name, held for an hour, without a slot and with the fencing token
    /// 1.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            config: LockConfig::new(name).lock_at_most_for(Duration::from_secs(3_600)),
            fencing_token: 1,
            slot_attempt: None,
            clock: Arc::new(SystemClock),
            lost: false,
        }
    }

    /// Sets the slot of the run.
    pub fn slot(mut self, slot: Slot) -> Self {
        self.config = self.config.slot(slot);
        self
    }

    /// Sets the number of the attempt at its slot, counted from 1. For code that calls
    /// [`CurrentLock::slot_attempt`](crate::CurrentLock::slot_attempt). It has no effect without a
    /// [`slot`](Self::slot).
    ///
    /// ```
    /// use shedlock::testing::TestLock;
    /// use shedlock::{Slot, current_lock};
    /// let is_last = || current_lock().and_then(|lock| lock.slot_attempt()) >= Some(5);
    /// let third = TestLock::new("report").slot(Slot::from_micros(0)?).slot_attempt(3);
    /// assert!(!third.hold_blocking(is_last));
    /// # Ok::<(), shedlock::Error>(())
    /// ```
    pub fn slot_attempt(mut self, attempt: u32) -> Self {
        self.slot_attempt = Some(attempt);
        self.config = self.config.completion(Completion::on_success());
        self
    }

    /// Sets the fencing token.
    pub fn fencing_token(mut self, token: u64) -> Self {
        self.fencing_token = token;
        self
    }

    /// Sets the length of the lease.
    pub fn lock_at_most_for(mut self, duration: impl Into<LockDuration>) -> Self {
        self.config = self.config.lock_at_most_for(duration);
        self
    }

    /// Sets the clock that measures the lease, instead of the real one.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Makes the lease lost from the start. The code still runs, so that you can test how it
    /// reacts.
    pub fn lost(mut self) -> Self {
        self.lost = true;
        self
    }

    /// Runs the future under the lock.
    ///
    /// # Panics
    /// If the lease ends before the future, which is then dropped ([`execute`](Self::execute)
    /// returns this as an outcome instead), and if the name or the length of the lease is invalid.
    pub fn hold<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        let executed = self.execute(future);
        async { value(executed.await) }
    }

    /// Runs the future under the lock, and returns the outcome.
    ///
    /// # Panics
    /// If the name or the length of the lease is invalid.
    pub fn execute<F: Future>(self, future: F) -> impl Future<Output = Outcome<F::Output>> {
        let future = Box::pin(future);
        async move {
            let task = async {
                self.lose();
                future.await
            };
            granted(self.executor().execute(&self.config, task).await)
        }
    }

    /// Runs the closure on this thread under the lock, even inside an async runtime.
    ///
    /// # Panics
    /// If the name or the length of the lease is invalid.
    pub fn hold_blocking<T>(self, task: impl FnOnce() -> T) -> T {
        let executor = blocking::Executor::from_async(self.executor());
        let task = || {
            self.lose();
            task()
        };
        value(granted(blocking::allow(|| {
            executor.execute(&self.config, task)
        })))
    }

    fn executor(&self) -> Executor {
        let provider = Granting::new(self.fencing_token, self.slot_attempt, self.clock.clone());
        let policy = if self.lost {
            LostPolicy::Continue
        } else {
            LostPolicy::default()
        };
        Executor::new(Arc::new(provider))
            .clock(self.clock.clone())
            .lost_policy(policy)
    }

    /// Marks the lock of the running task as lost, if the test requests it.
    fn lose(&self) {
        if let Some(lock) = current_lock().filter(|_| self.lost) {
            lock.lose();
        }
    }
}

fn granted<T>(outcome: Result<Outcome<T>, crate::Error>) -> Outcome<T> {
    outcome.unwrap_or_else(|error| panic!("invalid test lock: {error}"))
}

fn value<T>(outcome: Outcome<T>) -> T {
    match outcome {
        Outcome::Executed { value, .. }
        | Outcome::Lost {
            value: Some(value), ..
        } => value,
        Outcome::Lost { reason, .. } => panic!(
            "the test lock's lease ended before its task: {reason}; raise its lock_at_most_for, or \
             check the outcome of `execute`"
        ),
        Outcome::Skipped(skip) => {
            panic!("a test lock was skipped, which must never happen: {skip}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::runtime::{assert_locked, extend_current};

    #[test]
    fn asserts_pass_inside_and_fail_outside() {
        assert!(assert_locked().is_err());
        locked_blocking(assert_locked).unwrap();
        assert!(assert_locked().is_err());
    }

    #[tokio::test]
    async fn a_blocking_lock_may_be_held_inside_a_runtime() {
        locked_blocking(assert_locked).unwrap();
        locked(async { locked_blocking(assert_locked) })
            .await
            .unwrap();
    }

    #[test]
    fn the_test_sets_the_attempt_at_a_slot() {
        let attempt = || current_lock().unwrap().slot_attempt();
        let slot = Slot::from_micros(1_700_000_000_000_000).unwrap();
        let lock = TestLock::new("a").slot(slot);
        assert_eq!(lock.clone().hold_blocking(attempt), None);
        assert_eq!(lock.slot_attempt(2).hold_blocking(attempt), Some(2));
        let without_slot = TestLock::new("a").slot_attempt(2);
        assert_eq!(without_slot.hold_blocking(attempt), None);
    }

    #[tokio::test]
    async fn the_lease_ends_by_its_clock_and_can_be_extended() {
        let clock = ManualClock::new();
        let lock = TestLock::new("a")
            .lock_at_most_for("10m")
            .clock(Arc::new(clock.clone()));
        let extended = lock.clone().hold(async {
            clock.advance(Duration::from_secs(400));
            extend_current("10m").await.unwrap();
            clock.advance(Duration::from_secs(400));
            assert_locked()
        });
        extended.await.unwrap();
        let too_long = lock.execute(async {
            clock.advance(Duration::from_secs(600));
            std::future::pending::<()>().await;
        });
        assert!(too_long.await.is_lost());
    }

    #[tokio::test]
    async fn what_was_spawned_ends_with_the_lock() {
        let mut spawned = None;
        locked(async {
            let lock = current_lock().unwrap();
            spawned = Some(lock.spawn(std::future::pending::<()>()).unwrap());
        })
        .await;
        assert!(spawned.unwrap().await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn a_lost_lock_is_seen_as_lost_and_its_code_runs() {
        let lock = TestLock::new("a").lost();
        let seen = lock
            .clone()
            .hold(async { current_lock().unwrap().is_lost() });
        assert!(seen.await);
        assert!(lock.hold_blocking(|| current_lock().unwrap().is_lost()));
    }
}
