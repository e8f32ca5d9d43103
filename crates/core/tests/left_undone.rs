//! Locks and attempts whose runtime does not end them: it is gone, blocked, or its connection does not reply.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::disallowed_methods,
    reason = "real threads are blocked, in real time"
)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use common::Heard;
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Clock as _, Error, Executor, ForceUnlockRequest,
    ForcedUnlock, HeldLock, Lease, LockConfig, LockName, LockProvider, LockState, SystemClock,
    Unlock, UnlockRequest, admin, current_lock, delegate,
};
use shedlock_provider::MemoryProvider;
use tokio::runtime::{Builder, Runtime};

const LEASE: Duration = Duration::from_secs(6);

/// A provider with two connections, of which the first one may be silent.
#[derive(Clone, Debug, Default)]
struct Two {
    inner: Arc<MemoryProvider>,
    /// The first connection carries everything out, and never replies.
    is_silent: Arc<AtomicBool>,
    /// The first connection does not even carry out what ends a lease.
    is_cut: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    /// How often an unlock was sent over the second one.
    unlocks: Arc<AtomicUsize>,
    is_second: bool,
}

impl Two {
    async fn reply<T>(&self, answer: BoxFuture<'_, Result<T, Error>>) -> Result<T, Error> {
        if !self.is_second && self.is_cut.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let answer = answer.await;
        if !self.is_second && self.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        answer
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    fn state(&self) -> LockState {
        let name = LockName::new("a").unwrap();
        let mut found = self.inner.inspect(&name);
        let polled = found.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(found) = polled else {
            panic!("memory replies at once")
        };
        found
            .unwrap()
            .map_or(LockState::Free, |record| record.state)
    }

    /// Waits until the lock is free, for less than its lease.
    fn becomes_free(&self) {
        let begun = SystemClock.now();
        while self.state() != LockState::Free {
            assert!(
                SystemClock.now() < begun + LEASE / 2,
                "the lock stays taken"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl LockProvider for Two {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(self.reply(self.inner.attempt(request)))
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.reply(self.inner.withdraw(request)))
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        if self.is_second {
            self.unlocks.fetch_add(1, Ordering::SeqCst);
        }
        Box::pin(self.reply(self.inner.unlock(lease, request)))
    }

    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>, Error>>> {
        let second = Self {
            is_second: true,
            ..self.clone()
        };
        Some(Box::pin(async move {
            self.opened.fetch_add(1, Ordering::SeqCst);
            Ok(Arc::new(second) as Arc<dyn LockProvider>)
        }))
    }

    delegate!(inner except attempt, withdraw, unlock, for_duties);
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn one_worker() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

fn config() -> LockConfig {
    LockConfig::new("a").lock_at_most_for(LEASE)
}

fn locked() -> (Two, Executor) {
    let two = Two::default();
    (two.clone(), Executor::new(Arc::new(two)))
}

async fn lock(executor: &Executor) -> HeldLock {
    let attempt = executor.lock(&config()).await.unwrap();
    attempt.acquired().unwrap()
}

#[test]
fn a_lock_that_is_dropped_outside_a_runtime_is_given_back() {
    let (two, executor) = locked();
    let held = current_thread().block_on(lock(&executor));
    drop(held);
    two.becomes_free();
}

#[test]
fn a_lock_whose_release_ended_with_its_runtime_is_given_back() {
    let (two, executor) = locked();
    let runtime = current_thread();
    runtime.block_on(async {
        drop(lock(&executor).await);
        two.cut();
        tokio::task::yield_now().await;
    });
    drop(runtime);
    two.becomes_free();
}

/// Waits until the one release of this listener's locks has ended, and returns how.
async fn ended(heard: &Heard) -> String {
    loop {
        let words = heard.0.lock().unwrap().clone();
        let ends = ["unlocked a", "lost a", "unlock failed a"];
        let mut found = words.into_iter().filter(|word| ends.contains(&&**word));
        if let Some(end) = found.next() {
            assert_eq!(found.next(), None);
            return end;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_lock_that_is_dropped_before_its_thread_blocks_is_given_back() {
    let (two, others) = locked();
    let heard = Arc::new(Heard::default());
    let executor = others.clone().listener(heard.clone());
    let next = || {
        two.becomes_free();
        current_thread().block_on(lock(&others))
    };
    current_thread().block_on(async {
        drop(lock(&executor).await);
        let _next = thread::scope(|scope| scope.spawn(next).join().unwrap());
        // The release itself comes later, and finds that it is done, and the lock taken by another owner.
        assert_eq!(ended(&heard).await, "unlocked a");
    });
}

#[test]
fn a_lock_that_was_freed_by_force_is_lost_whoever_unlocks_it_first() {
    let (two, executor) = locked();
    let heard = Arc::new(Heard::default());
    let executor = executor.listener(heard.clone());
    current_thread().block_on(async {
        let held = lock(&executor).await;
        let force = ForceUnlockRequest::new(LockName::new("a").unwrap());
        let freed = admin::force_unlock(&*two.inner, &force).await.unwrap();
        assert!(matches!(freed, ForcedUnlock::Freed(_)), "{freed:?}");
        drop(held);
        while two.unlocks.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(ended(&heard).await, "lost a");
    });
}

#[test]
fn a_lock_is_not_given_back_while_a_task_that_was_spawned_with_it_runs() {
    let (two, executor) = locked();
    let runtime = one_worker();
    let (begun, beginning) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    let (config, spawned) = (config(), two.clone());
    let run = executor.execute(&config, async {
        let lock = current_lock().unwrap();
        let task = lock.spawn(async move {
            begun.send(()).unwrap();
            thread::sleep(LEASE / 2);
            ended.send(spawned.state()).unwrap();
        });
        drop(task.unwrap());
        std::future::pending::<()>().await;
    });
    let mut run = Box::pin(run);
    {
        let _in_it = runtime.enter();
        let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        // The task runs, and can no longer be stopped.
        beginning.recv().unwrap();
        drop(run);
    }
    assert_ne!(end.recv().unwrap(), LockState::Free);
    two.becomes_free();
}

#[test]
fn a_lock_is_not_given_back_while_a_closure_runs_whose_runtime_shuts_down() {
    let (two, executor) = locked();
    let runtime = one_worker();
    let (begun, beginning) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    let seen = two.clone();
    runtime.spawn(async move {
        let config = config();
        let run = executor.execute_blocking(&config, move || {
            begun.send(()).unwrap();
            thread::sleep(LEASE / 2);
            ended.send(seen.state()).unwrap();
        });
        let _ = run.await;
    });
    beginning.recv().unwrap();
    // Waits for the closure.
    drop(runtime);
    assert_ne!(end.recv().unwrap(), LockState::Free);
    two.becomes_free();
}

/// Returns an attempt that has won without a reply. Its connection no longer works.
fn won_unseen<'a>(
    two: &Two,
    executor: &'a Executor,
    config: &'a LockConfig,
) -> impl Future<Output = Result<Attempt<HeldLock>, Error>> + use<'a> {
    two.is_silent.store(true, Ordering::SeqCst);
    let mut attempt = Box::pin(executor.lock(config));
    let polled = attempt
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    assert_ne!(two.state(), LockState::Free);
    two.cut();
    attempt
}

#[test]
fn an_attempt_that_is_dropped_outside_a_runtime_is_withdrawn() {
    let (two, executor) = locked();
    let runtime = current_thread();
    let config = config();
    let attempt = {
        let _in_it = runtime.enter();
        won_unseen(&two, &executor, &config)
    };
    drop(attempt);
    two.becomes_free();
    current_thread().block_on(executor.settled());
}

#[test]
fn an_attempt_whose_withdrawal_ended_with_its_runtime_is_withdrawn() {
    let (two, executor) = locked();
    let runtime = current_thread();
    runtime.block_on(async {
        drop(won_unseen(&two, &executor, &config()));
        tokio::task::yield_now().await;
    });
    drop(runtime);
    two.becomes_free();
}

#[test]
fn a_runtime_that_ends_its_leases_in_time_needs_no_second_connection() {
    let (two, executor) = locked();
    one_worker().block_on(async {
        for _ in 0..3 {
            drop(lock(&executor).await);
            while two.state() != LockState::Free {
                tokio::task::yield_now().await;
            }
        }
        tokio::time::sleep(LEASE / 3).await;
    });
    assert_eq!(two.opened.load(Ordering::SeqCst), 0);
}
