//! Leases whose tasks block their threads, on the real clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::disallowed_methods,
    reason = "real threads are blocked, in real time"
)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use common::{Heard, Logs, until};
use shedlock_core::{
    BoxFuture, Capabilities, Clock as _, Error, Event, Executor, ExtendRequest, Extension,
    ForceUnlockRequest, Lease, Listener, LockConfig, LockName, LockProvider, LockState, LostReason,
    Outcome, Release, SystemClock, admin, current_lock, delegate,
};
use shedlock_provider::MemoryProvider;
use tokio::runtime::{Builder, Runtime};

const LEASE: Duration = Duration::from_secs(1);
/// For leases whose extensions must not be late, even on a busy machine.
const LONG: Duration = Duration::from_secs(6);

/// A provider that notes what is opened for duties.
#[derive(Clone, Debug)]
struct Noted {
    inner: Arc<MemoryProvider>,
    /// Whether a second connection can be had.
    has_second: bool,
    /// The first connection never replies to an extension.
    is_silent: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    /// The threads that extensions over the second connection came from.
    threads: Arc<Mutex<Vec<Option<String>>>>,
    is_second: bool,
}

impl Noted {
    fn new() -> Self {
        Self {
            inner: Arc::new(MemoryProvider::new()),
            has_second: true,
            is_silent: Arc::default(),
            opened: Arc::default(),
            threads: Arc::default(),
            is_second: false,
        }
    }
}

impl LockProvider for Noted {
    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        if self.is_second {
            let name = thread::current().name().map(str::to_owned);
            self.threads.lock().unwrap().push(name);
        } else if self.is_silent.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.inner.extend(lease, request)
    }

    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>, Error>>> {
        let second = Self {
            is_second: true,
            ..self.clone()
        };
        self.has_second.then(|| {
            Box::pin(async move {
                self.opened.fetch_add(1, Ordering::SeqCst);
                Ok(Arc::new(second) as Arc<dyn LockProvider>)
            }) as BoxFuture<'_, _>
        })
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.duties = self.has_second;
        capabilities
    }

    delegate!(inner except extend, for_duties, capabilities);
}

fn config(name: &str) -> LockConfig {
    LockConfig::new(name).lock_at_most_for(LEASE)
}

/// A lease of [`LONG`] that is kept alive.
fn long(name: &str) -> LockConfig {
    config(name).lock_at_most_for(LONG).keep_alive()
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn workers(count: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).enable_all().build().unwrap()
}

/// Runs as many tasks as it takes to block all workers of a runtime, each for two leases. The
/// lock of each is then still held.
fn blocks_all(runtime: &Runtime, threads: usize, spawned: bool) {
    let store = Arc::new(MemoryProvider::new());
    let executor = Executor::new(store.clone());
    let barrier = Arc::new(tokio::sync::Barrier::new(threads));
    let run = |job: usize| {
        let (executor, barrier) = (executor.clone(), barrier.clone());
        async move {
            let task = async {
                barrier.wait().await;
                thread::sleep(2 * LONG);
            };
            let config = long(&format!("job {job}"));
            let outcome = executor.execute(&config, task).await.unwrap();
            let Outcome::Executed { release, .. } = outcome else {
                panic!("{outcome:?}")
            };
            assert!(matches!(release, Release::Released), "{release:?}");
        }
    };
    runtime.block_on(async {
        let others: Vec<_> = (1..threads).map(|job| tokio::spawn(run(job))).collect();
        if spawned {
            tokio::spawn(run(0)).await.unwrap();
        } else {
            run(0).await;
        }
        for other in others {
            other.await.unwrap();
        }
    });
}

#[test]
fn tasks_that_block_all_threads_of_their_runtime_keep_their_locks() {
    thread::scope(|scope| {
        for spawned in [true, false] {
            scope.spawn(move || blocks_all(&current_thread(), 1, spawned));
            for count in [1, 2, 4] {
                // The thread that awaits is not one of the workers.
                let threads = if spawned { count } else { count + 1 };
                scope.spawn(move || blocks_all(&workers(count), threads, spawned));
            }
        }
    });
}

/// Blocks the thread of a runtime that has one, under a lease that is kept alive.
fn blocked<T>(executor: &Executor, name: &str, task: impl FnOnce() -> T) -> Outcome<T> {
    let config = long(name);
    let run = executor.execute(&config, async { task() });
    current_thread().block_on(run).unwrap()
}

#[test]
fn a_service_whose_runtime_replies_in_time_opens_nothing() {
    let noted = Noted::new();
    let executor = Executor::new(Arc::new(noted.clone()));
    let sleep = async { SystemClock.sleep_until(SystemClock.now() + 2 * LONG).await };
    // Extended once meanwhile, after a third, and by the duties after a half.
    let config = config("a").lock_at_most_for(4 * LONG).keep_alive();
    let outcome = workers(1).block_on(async { executor.execute(&config, sleep).await.unwrap() });
    assert!(outcome.is_executed());
    assert_eq!(noted.opened.load(Ordering::SeqCst), 0);
}

#[test]
fn a_client_that_does_not_reply_is_replaced_by_one_connection_for_all_leases() {
    let noted = Noted::new();
    noted.is_silent.store(true, Ordering::SeqCst);
    let heard = Arc::new(Heard::default());
    let executor = Executor::new(Arc::new(noted.clone())).listener(heard.clone());
    let sleep = || async { SystemClock.sleep_until(SystemClock.now() + 2 * LONG).await };
    let (first, second) = current_thread().block_on(async {
        let (first, second) = (long("a"), long("b"));
        tokio::join!(
            executor.execute(&first, sleep()),
            executor.execute(&second, sleep())
        )
    });
    assert!(first.unwrap().is_executed());
    assert!(second.unwrap().is_executed());
    assert_eq!(noted.opened.load(Ordering::SeqCst), 1);
    let threads = noted.threads.lock().unwrap();
    assert!(threads.len() >= 6, "three for each lease: {threads:?}");
    let ours = Some("shedlock-duties".to_owned());
    assert!(threads.iter().all(|name| *name == ours), "{threads:?}");
    let heard = heard.take();
    let extended = heard.iter().filter(|event| *event == "extended a").count();
    assert!(extended >= 3, "{heard:?}");
}

/// Notes the threads that it is called on.
#[derive(Debug, Default)]
struct Callers(Mutex<Vec<thread::ThreadId>>);

impl Listener for Callers {
    fn on_event(&self, _: &Event<'_>) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

#[test]
fn a_blocked_task_sees_that_its_lock_was_freed_and_no_callback_runs_on_our_thread() {
    let noted = Noted::new();
    let callers = Arc::new(Callers::default());
    let executor = Executor::new(Arc::new(noted.clone())).listener(callers.clone());
    let (called, calls) = mpsc::channel();
    let outcome = blocked(&executor, "a", || {
        let lock = current_lock().unwrap();
        lock.on_lost(move || called.send(thread::current().id()).unwrap());
        let name = LockName::new("a").unwrap();
        let force = ForceUnlockRequest::new(name);
        thread::spawn({
            let noted = noted.clone();
            move || {
                current_thread()
                    .block_on(admin::force_unlock(&*noted.inner, &force))
                    .unwrap()
            }
        });
        let begun = SystemClock.now();
        while !lock.is_lost() {
            thread::sleep(Duration::from_millis(5));
        }
        SystemClock.now().saturating_since(begun)
    });
    let Outcome::Lost { value, reason, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(reason, LostReason::NotHeldInStore);
    assert!(value.unwrap() < LONG * 9 / 10, "before its deadline");
    let here = thread::current().id();
    assert_eq!(calls.recv().unwrap(), here);
    let callers = callers.0.lock().unwrap();
    assert!(callers.iter().all(|caller| *caller == here));
}

#[test]
fn the_longest_run_bounds_a_task_that_blocks_its_thread() {
    let noted = Noted::new();
    let executor = Executor::new(Arc::new(noted.clone()));
    let config = config("a").keep_alive().max_run_time(2 * LEASE);
    let state = current_thread().block_on(async {
        let run = executor.execute(&config, async {
            thread::sleep(4 * LEASE);
            noted.inner.inspect(&LockName::new("a").unwrap()).await
        });
        let Outcome::Lost { value, .. } = run.await.unwrap() else {
            panic!("it ran too long")
        };
        value.unwrap().unwrap().unwrap().state
    });
    assert_eq!(state, LockState::Free, "nothing extended it any more");
}

/// Everything that is logged in this process, with the thread that logged it.
fn log() -> Logs {
    static LOG: OnceLock<Logs> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let log = Logs::default();
        tracing::subscriber::set_global_default(log.subscriber()).unwrap();
        log
    });
    log.clone()
}

#[test]
fn the_end_of_a_lease_that_its_task_does_not_notice_is_an_error_in_the_log() {
    let log = log();
    let mut third_party = Noted::new();
    third_party.has_second = false;
    let executor = Executor::new(Arc::new(third_party));
    for (name, config) in [
        ("kept alive", config("kept alive").keep_alive()),
        ("not kept", config("not kept")),
    ] {
        let is_ours = |line: &&str| {
            line.contains("ERROR")
                && line.contains(" shedlock-duties ")
                && line.contains(&format!("lock=\"{name}\""))
        };
        let seen = current_thread().block_on(async {
            let run = executor.execute(&config, async {
                assert!(until(|| log.text().lines().any(|line| is_ours(&line))));
                // It is logged once.
                thread::sleep(LEASE / 2);
                log.text()
            });
            let Outcome::Lost { value, reason, .. } = run.await.unwrap() else {
                panic!("its lease had ended")
            };
            assert_eq!(reason, LostReason::DeadlinePassed);
            value.unwrap()
        });
        let lines: Vec<_> = seen.lines().filter(is_ours).collect();
        assert_eq!(lines.len(), 1, "{seen}");
        assert!(lines[0].contains("blocks its thread"), "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_of_tokio_changes_nothing() {
    let noted = Noted::new();
    let executor = Executor::new(Arc::new(noted.clone()));
    let task = async {
        let until = SystemClock.now() + 2 * LONG;
        while SystemClock.now() < until {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    };
    let config = config("a").lock_at_most_for(4 * LONG).keep_alive();
    let outcome = executor.execute(&config, task).await;
    assert!(outcome.unwrap().is_executed());
    assert_eq!(noted.opened.load(Ordering::SeqCst), 0);
}
