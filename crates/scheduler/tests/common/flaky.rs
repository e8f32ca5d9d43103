//! A store that fails, replies late or does not reply at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use shedlock::MemoryProvider;
use shedlock_core::admin::{Change, Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Error, ErrorKind, ExtendRequest, Extension,
    Lease, ListRequest, LockName, LockProvider, LockRecord, ProviderIdentity, Unlock,
    UnlockRequest,
};

use super::NodeClock;

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Nothing reaches the store.
    Unavailable,
    /// Nothing reaches the store, and the failure takes 9 s to detect.
    Slow,
    /// The store acts, and its reply is lost.
    ReplyLost,
    /// The store acts, and its reply takes 3 s.
    SlowReply,
}

/// Fails on command, and does not reply when its node is dead.
#[derive(Clone)]
pub struct Flaky {
    store: MemoryProvider,
    clock: NodeClock,
    fault: Arc<Mutex<dyn FnMut() -> Fault + Send>>,
    pub attempts: Arc<AtomicU64>,
    contrary: Option<Contrary>,
}

/// Returns the results of attempts instead of the store.
pub type Contrary = Arc<Mutex<dyn FnMut(&AttemptRequest) -> Result<Attempt, Error> + Send>>;

impl std::fmt::Debug for Flaky {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flaky")
    }
}

impl Flaky {
    pub fn new(
        store: &MemoryProvider,
        clock: &NodeClock,
        fault: impl FnMut() -> Fault + Send + 'static,
    ) -> Self {
        Self {
            store: store.another_client(),
            clock: clock.clone(),
            fault: Arc::new(Mutex::new(fault)),
            attempts: Arc::default(),
            contrary: None,
        }
    }

    /// Makes this function return the results of all attempts.
    pub fn answer_by(
        &mut self,
        answer: impl FnMut(&AttemptRequest) -> Result<Attempt, Error> + Send + 'static,
    ) {
        self.contrary = Some(Arc::new(Mutex::new(answer)));
    }

    async fn answer<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if self.clock.is_dead() {
            std::future::pending::<()>().await;
        }
        let fault = (self.fault.lock().unwrap())();
        match fault {
            Fault::None => call.await,
            Fault::Unavailable => Err(Error::new(ErrorKind::Unavailable, "refused")),
            Fault::Slow => {
                self.clock.sleep(Duration::from_secs(9)).await;
                Err(Error::new(ErrorKind::Unavailable, "no route"))
            }
            Fault::SlowReply => {
                let answer = call.await;
                self.clock.sleep(Duration::from_secs(3)).await;
                answer
            }
            Fault::ReplyLost => {
                let _ = call.await;
                Err(Error::new(ErrorKind::OutcomeUnknown, "cut"))
            }
        }
    }
}

impl LockProvider for Flaky {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        if let Some(contrary) = &self.contrary {
            let answer = (contrary.lock().unwrap())(request);
            return Box::pin(std::future::ready(answer));
        }
        Box::pin(self.answer(self.store.attempt(request)))
    }
    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.answer(self.store.withdraw(request)))
    }
    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(self.answer(self.store.extend(lease, request)))
    }
    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(self.answer(self.store.unlock(lease, request)))
    }
    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        if name.as_str().starts_with("unreadable") {
            let error = Error::new(ErrorKind::Unavailable, "unreadable");
            return Box::pin(std::future::ready(Err(error)));
        }
        Box::pin(self.answer(self.store.inspect(name)))
    }
    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(self.answer(self.store.list(request)))
    }
    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>, Error>> {
        Box::pin(self.answer(self.store.look(name)))
    }
    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(self.answer(self.store.change(name, seen, change)))
    }
    fn remove<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
    ) -> BoxFuture<'a, Result<Changed, Error>> {
        Box::pin(self.answer(self.store.remove(name, seen)))
    }
    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.answer(self.store.check()))
    }
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    fn identity(&self) -> ProviderIdentity {
        self.store.identity()
    }
    fn store_time(&self) -> BoxFuture<'_, Result<Option<SystemTime>, Error>> {
        Box::pin(self.answer(self.store.store_time()))
    }
    fn store(&self) -> &str {
        "flaky"
    }
}
