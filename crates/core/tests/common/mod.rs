//! Shared by the tests of the runtime: a provider whose store fails on command, and a listener that
//! records events.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test file uses its part"
)]
#![allow(clippy::unwrap_used, reason = "a poisoned lock is a failed test")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use shedlock_core::admin::{Change, Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, ClockSource, Error, ErrorKind, Event,
    Executor, ExtendRequest, Extension, Lease, ListRequest, Listener, LockConfig, LockName,
    LockProvider, LockRecord, LockState, ManualClock, ProviderIdentity, Unlock, UnlockRequest,
};
use shedlock_provider::MemoryProvider;

/// How the next call fails.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Nothing reaches the store.
    Unavailable,
    /// The store replies that a person must change something.
    Refused,
    /// The request is lost, with an unknown outcome.
    RequestLost,
    /// The store acts, and its reply is lost.
    ReplyLost,
    /// The store acts, and the call never returns.
    Hang,
    /// The store acts, and its reply takes 11 s.
    Late,
    /// Other tasks have done all that they can do before the request reaches the store.
    Slow,
    /// The process is stopped for 8 s before it sends; then the request is lost.
    StoppedThenLost,
}

#[derive(Clone, Debug)]
pub struct Faulty {
    pub store: MemoryProvider,
    clock: ManualClock,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    pub calls: Arc<Mutex<Vec<&'static str>>>,
    /// Makes every withdrawal fail in this way.
    pub withdrawals: Arc<Mutex<Option<Fault>>>,
    /// Has one more reference for each call that hangs.
    pub hanging: Arc<()>,
    pub tolerated_skew: Option<Duration>,
    pub server_skew: Duration,
}

impl Faulty {
    pub fn new(store: MemoryProvider, clock: ManualClock) -> Self {
        Self {
            store,
            clock,
            faults: Arc::default(),
            calls: Arc::default(),
            withdrawals: Arc::default(),
            hanging: Arc::default(),
            tolerated_skew: None,
            server_skew: Duration::ZERO,
        }
    }

    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    pub fn calls_of(&self, method: &str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .filter(|call| **call == method)
            .count()
    }

    async fn faulty<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.calls.lock().unwrap().push(method);
        let lasting = match method {
            "withdraw" => *self.withdrawals.lock().unwrap(),
            _ => None,
        };
        let fault = lasting.or_else(|| self.faults.lock().unwrap().pop_front());
        match fault {
            None => call.await,
            Some(Fault::Unavailable) => Err(Error::new(ErrorKind::Unavailable, "refused")),
            Some(Fault::Refused) => Err(Error::new(ErrorKind::Configuration, "no such table")),
            Some(Fault::RequestLost) => Err(Error::new(ErrorKind::OutcomeUnknown, "cut")),
            Some(Fault::StoppedThenLost) => {
                self.clock.advance(secs(8));
                Err(Error::new(ErrorKind::OutcomeUnknown, "cut"))
            }
            Some(Fault::ReplyLost) => {
                let _ = call.await;
                Err(Error::new(ErrorKind::OutcomeUnknown, "cut"))
            }
            Some(Fault::Hang) => {
                let _ = call.await;
                let _hanging = self.hanging.clone();
                std::future::pending().await
            }
            Some(Fault::Slow) => {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                call.await
            }
            Some(Fault::Late) => {
                let answer = call.await;
                self.clock.advance(secs(11));
                answer
            }
        }
    }
}

impl LockProvider for Faulty {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(self.faulty("attempt", self.store.attempt(request)))
    }
    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.faulty("withdraw", self.store.withdraw(request)))
    }
    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(self.faulty("extend", self.store.extend(lease, request)))
    }
    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(self.faulty("unlock", self.store.unlock(lease, request)))
    }
    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        self.store.list(request)
    }
    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        self.store.look(name)
    }
    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        self.store.change(name, seen, change)
    }
    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        self.store.remove(name, seen)
    }
    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.store.check()
    }
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.store.capabilities();
        capabilities.server_skew = self.server_skew;
        if let Some(tolerated_skew) = self.tolerated_skew {
            capabilities.clock = ClockSource::Clients { tolerated_skew };
        }
        capabilities
    }
    fn identity(&self) -> ProviderIdentity {
        self.store.identity()
    }
    fn store(&self) -> &str {
        "faulty"
    }
}

/// The names of events, in order.
#[derive(Debug, Default)]
pub struct Heard(pub Mutex<Vec<String>>);

impl Heard {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Listener for Heard {
    fn on_event(&self, event: &Event<'_>) {
        let word = match event {
            Event::Attempt { .. } => "attempt",
            Event::Acquired { .. } => "acquired",
            Event::Waiting { .. } => "waiting",
            Event::Skipped { .. } => "skipped",
            Event::TaskStarted { .. } => "started",
            Event::TaskFinished { .. } => "finished",
            Event::UnlockFailed { .. } => "unlock failed",
            Event::Extended { .. } => "extended",
            Event::Lost { .. } => "lost",
            Event::Unlocked { .. } => "unlocked",
            Event::StoreError { .. } => "store error",
            _ => "?",
        };
        self.0
            .lock()
            .unwrap()
            .push(format!("{word} {}", event.lock_name()));
    }
}

/// An executor, its store and its clock, all on one time.
pub struct Bench {
    pub clock: ManualClock,
    pub faulty: Faulty,
    pub heard: Arc<Heard>,
    pub executor: Executor,
}

pub fn bench() -> Bench {
    let clock = ManualClock::new();
    let faulty = Faulty::new(
        MemoryProvider::with_clock(Arc::new(clock.clone())),
        clock.clone(),
    );
    let heard = Arc::new(Heard::default());
    let executor = Executor::new(Arc::new(faulty.clone()))
        .clock(Arc::new(clock.clone()))
        .listener(heard.clone());
    Bench {
        clock,
        faulty,
        heard,
        executor,
    }
}

impl Bench {
    pub async fn state(&self, name: &str) -> Option<LockState> {
        let name = LockName::new(name).expect("a name");
        let record = self.faulty.inspect(&name).await.expect("memory answers");
        record.map(|record| record.state)
    }

    /// Runs everything that is ready.
    pub async fn settle(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    /// Moves the clock in steps and runs everything that is ready after each.
    pub async fn pass(&self, duration: Duration) {
        for _ in 0..10 {
            self.clock.advance(duration / 10);
            self.settle().await;
        }
    }
}

pub fn config(name: &str) -> LockConfig {
    LockConfig::new(name).lock_at_most_for("10s")
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// True while the future that owns it has not been dropped.
pub struct Alive(Arc<AtomicBool>);

impl Alive {
    pub fn new() -> (Self, Arc<AtomicBool>) {
        let alive = Arc::new(AtomicBool::new(true));
        (Self(alive.clone()), alive)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// What was logged.
#[derive(Clone, Debug, Default)]
pub struct Logs(Arc<Mutex<Vec<u8>>>);

/// While a process has one subscriber, `tracing` asks only the thread that first reaches a log line
/// whether the line is of interest: a test beside this one, without a subscriber, would disable it
/// for all. With a second one that is never dropped, both are asked.
static SECOND: LazyLock<tracing::Dispatch> =
    LazyLock::new(|| tracing::Dispatch::new(Logs::default().subscriber()));

impl Logs {
    /// Receives everything that this thread logs while the guard lives.
    pub fn of_thread() -> (Self, tracing::subscriber::DefaultGuard) {
        LazyLock::force(&SECOND);
        let logs = Self::default();
        let guard = tracing::subscriber::set_default(logs.subscriber());
        (logs, guard)
    }

    pub fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + 'static {
        let writer = self.clone();
        tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_thread_names(true)
            .with_ansi(false)
            .finish()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl std::io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Polls in real time until this is so. Returns `false` if it never was, however busy the machine is.
#[expect(clippy::disallowed_methods, reason = "it waits for real threads")]
pub fn until(is_so: impl Fn() -> bool) -> bool {
    (0..3_000).any(|_| {
        let so = is_so();
        if !so {
            std::thread::sleep(Duration::from_millis(10));
        }
        so
    })
}
