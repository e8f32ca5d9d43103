//! Shared code of the attribute's tests.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::{Arc, Mutex};

use shedlock::admin::{Change, Changed, Seen};
use shedlock::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Error, ErrorKind, Event, Executor,
    ExtendRequest, Extension, Lease, ListRequest, Listener, LockConfig, LockName, LockProvider,
    LockRecord, ManualClock, MemoryProvider, ProviderIdentity, Unlock, UnlockRequest,
};
use shedlock_conformance::support::Warnings;

/// Collects the errors that this thread logs.
pub(crate) struct Log(Warnings);

impl Log {
    pub(crate) fn start() -> Self {
        Self(Warnings::collect())
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        self.0.with("ERROR")
    }

    #[track_caller]
    pub(crate) fn assert_one_error_with(&self, parts: &[&str]) {
        let errors = self.errors();
        assert_eq!(errors.len(), 1, "{errors:?}");
        for part in parts {
            assert!(
                errors[0].contains(part),
                "{part:?} is missing in: {}",
                errors[0]
            );
        }
    }
}

/// Collects the names of the events that an executor emits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<&'static str>>>);

impl Heard {
    pub(crate) fn events(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

impl Listener for Heard {
    fn on_event(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(match event {
            Event::Attempt { .. } => "attempt",
            Event::Acquired { .. } => "acquired",
            Event::Skipped { .. } => "skipped",
            Event::TaskStarted { .. } => "started",
            Event::TaskFinished { .. } => "finished",
            Event::Lost { .. } => "lost",
            Event::Unlocked { .. } => "unlocked",
            Event::StoreError { .. } => "store error",
            _ => "other",
        });
    }
}

/// An in-memory store on a manual clock, and an executor over it.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) clock: ManualClock,
    pub(crate) provider: Arc<MemoryProvider>,
    pub(crate) executor: Executor,
    pub(crate) heard: Heard,
}

impl Store {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let provider = Arc::new(MemoryProvider::with_clock(Arc::new(clock.clone())));
        let heard = Heard::default();
        let executor = Executor::new(provider.clone())
            .clock(Arc::new(clock.clone()))
            .listener(Arc::new(heard.clone()));
        Self {
            clock,
            provider,
            executor,
            heard,
        }
    }

    /// Takes the lock of this name for another owner.
    pub(crate) async fn hold(&self, name: &str) {
        let request = LockConfig::new(name)
            .lock_at_most_for("1h")
            .resolve(&[])
            .unwrap();
        let attempt = self.provider.attempt(&request).await.unwrap();
        assert!(attempt.acquired().is_some(), "{name} was free");
    }

    pub(crate) async fn record(&self, name: &str) -> Option<LockRecord> {
        let name = LockName::new(name).unwrap();
        self.provider.inspect(&name).await.unwrap()
    }

    /// Returns all names that were ever locked.
    pub(crate) async fn names(&self) -> Vec<String> {
        let records = self.provider.list(&ListRequest::new()).await.unwrap();
        records.iter().map(|r| r.name.as_str().to_owned()).collect()
    }
}

/// A store that cannot be reached.
#[derive(Clone, Debug)]
struct Broken(ProviderIdentity);

pub(crate) fn broken() -> Arc<dyn LockProvider> {
    Arc::new(Broken(ProviderIdentity::unique()))
}

impl Broken {
    fn fail<T>() -> BoxFuture<'static, Result<T, Error>> {
        Box::pin(async {
            Err(Error::new(ErrorKind::Unavailable, "connection refused")
                .with_source("os error 111"))
        })
    }
}

impl LockProvider for Broken {
    fn attempt<'a>(&'a self, _: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Self::fail()
    }

    fn withdraw<'a>(&'a self, _: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Self::fail()
    }

    fn extend<'a>(
        &'a self,
        _: &'a Lease,
        _: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Self::fail()
    }

    fn unlock<'a>(
        &'a self,
        _: &'a Lease,
        _: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Self::fail()
    }

    fn list<'a>(&'a self, _: &'a ListRequest) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Self::fail()
    }

    fn look<'a>(&'a self, _: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        Self::fail()
    }

    fn change<'a>(
        &'a self,
        _: &'a LockName,
        _: &'a Seen,
        _: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Self::fail()
    }

    fn remove<'a>(&'a self, _: &'a LockName, _: &'a Seen) -> BoxFuture<'a, Result<Changed, Error>> {
        Self::fail()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Self::fail()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(shedlock::ClockSource::Store)
    }

    fn identity(&self) -> ProviderIdentity {
        self.0.clone()
    }

    fn store(&self) -> &str {
        "broken"
    }
}
