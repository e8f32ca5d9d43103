//! The lock contract over a store.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use crate::errors::Result;
use ErrorKind::{OutcomeUnknown, Unavailable};
use shedlock_core::admin::{Change, Changed, Seen};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Budget, Capabilities, Error, ErrorKind, ExtendRequest,
    Extension, Finding, Journal, Lease, ListRequest, LockDefaults, LockName, LockProvider,
    LockRecord, Migration, MigrationStep, ProviderIdentity, Schema, Setting, Unlock, UnlockRequest,
    answered_within, within,
};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use crate::diagnose;
use crate::idle::{LastReply, TEST};
use crate::journal::OfProvider;
use crate::store::{End, Ended, Store};

/// A lock provider over a [`Store`]. Clones count as the same provider.
pub struct StoreProvider<S> {
    store: Arc<S>,
    defaults: LockDefaults,
    identity: ProviderIdentity,
    /// Where the store is, for errors; `None` if the provider was built from a client.
    address: Option<Arc<str>>,
    last_reply: Arc<LastReply>,
    /// Opens the same store once more.
    reopen: Option<Reopen>,
}

type Opened = BoxFuture<'static, Result<Arc<dyn LockProvider>>>;
type Reopen = Arc<dyn Fn() -> Opened + Send + Sync>;

impl<S: Store> StoreProvider<S> {
    /// Creates a provider over this store.
    pub fn of(store: S) -> Self {
        Self {
            store: Arc::new(store),
            defaults: LockDefaults::new(),
            identity: ProviderIdentity::unique(),
            address: None,
            last_reply: Arc::default(),
            reopen: None,
        }
    }

    /// Sets how to open the same store once more, over connections of its own and on the runtime that polls the
    /// future: for [`for_duties`](LockProvider::for_duties). A provider from a URL has this already.
    #[must_use]
    pub fn reopened_by<F>(mut self, open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Self>> + Send + 'static,
    {
        self.reopen = Some(Arc::new(move || {
            let opened = open();
            // Whoever made the first provider has seen its warnings.
            let opened = async move { Ok(Arc::new(opened.await?) as Arc<dyn LockProvider>) };
            Box::pin(opened.with_subscriber(NoSubscriber::default()))
        }));
        self
    }

    /// Sets the address that errors show, without user and password.
    #[doc(hidden)]
    pub fn at(mut self, address: Option<String>) -> Self {
        self.address = address.map(Arc::from);
        self
    }

    /// Says in an error which store it is about.
    fn about(&self, error: Error) -> Error {
        let error = error.with_store(self.store.name());
        match &self.address {
            Some(address) => error.with_address(&**address),
            None => error,
        }
    }

    /// Sets the durations and the owner prefix for locks that set none.
    #[must_use]
    pub fn with_defaults(mut self, defaults: LockDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Returns the store.
    pub fn backend(&self) -> &S {
        &self.store
    }

    /// Bounds a whole call, which may make several requests with time limits of their own. `unanswered` is the kind of
    /// the error if all of them together take too long.
    pub(crate) async fn bounded<T>(
        &self,
        unanswered: ErrorKind,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        // Each layer that takes a future by value stores it twice.
        let call = pin!(call);
        let limit = self.store.longest_call();
        let answer = answered_within(&**self.store.clock(), limit, unanswered, call).await;
        answer.map_err(|error| self.about(error))
    }

    fn check_attempt(&self, request: &AttemptRequest) -> Result<()> {
        request.validate()?;
        self.store.check_name(&request.name)?;
        let at_most = request.lock_at_most_for;
        self.store.check_duration(Setting::AtMost, at_most)
    }

    /// If a connection may have been cut while it was idle, finds out before an attempt is sent on it. Whatever the
    /// reply is, the attempt follows, on another connection if this one is broken.
    async fn attempt_within(&self, request: &AttemptRequest, budget: &Budget) -> Result<Attempt> {
        if self.store.tests_connections() {
            return self.store.attempt(request, budget).await;
        }
        let clock = &**self.store.clock();
        if self.last_reply.is_old(clock.now()) {
            budget.count();
            let _ = within(clock, TEST, self.store.server_time()).await;
        }
        let answer = self.store.attempt(request, budget).await;
        if answer.is_ok() {
            self.last_reply.came(clock.now());
        }
        answer
    }

    async fn call<T>(
        &self,
        name: &LockName,
        unanswered: ErrorKind,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let call = pin!(call);
        let answer = self.bounded(unanswered, call).await;
        answer.map_err(|error| error.with_lock(name.as_str()))
    }
}

impl<S: Store> LockProvider for StoreProvider<S> {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            let about = |error| self.about(error).with_lock(request.name.as_str());
            self.check_attempt(request).map_err(about)?;
            let budget = request.budget_or(self.store.clock());
            let attempt = pin!(self.attempt_within(request, &budget));
            let answer = match request.budget.as_ref() {
                Some(_) => attempt.await,
                // A caller that sets none does not end the call either.
                None => self.bounded(OutcomeUnknown, attempt).await,
            };
            answer.map_err(about)
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool>> {
        let withdrawal = async move {
            self.store.check_name(&request.name)?;
            self.store.withdraw(request).await
        };
        Box::pin(self.call(&request.name, OutcomeUnknown, withdrawal))
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension>> {
        let extension = async move {
            request.validate(lease.lock_at_least_for())?;
            let at_most = request.lock_at_most_for;
            self.store.check_duration(Setting::AtMost, at_most)?;
            self.store.extend(lease, request).await
        };
        Box::pin(self.call(lease.name(), OutcomeUnknown, extension))
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock>> {
        let unlock = async move {
            let end = End::unlocked(lease, request);
            self.store.check_duration(Setting::AtLeast, end.at_least)?;
            self.store
                .check_duration("the retry backoff", end.retry_after())?;
            Ok(match self.store.end(&end).await? {
                Ended::ByThisCall | Ended::ByAnEarlierCall => Unlock::Unlocked,
                Ended::Lost => Unlock::Lost,
            })
        };
        Box::pin(self.call(lease.name(), OutcomeUnknown, unlock))
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<LockRecord>>> {
        let inspection = async move {
            self.store.check_name(name)?;
            self.store.inspect(name).await
        };
        Box::pin(self.call(name, Unavailable, inspection))
    }

    /// A list may read any number of pages, so only its single requests are bounded. The first request without a reply
    /// ends it.
    fn list<'a>(&'a self, request: &'a ListRequest) -> BoxFuture<'a, Result<Vec<LockRecord>>> {
        Box::pin(async move {
            let page = self.store.list(request).await;
            page.map_err(|error| self.about(error))
        })
    }

    fn look<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Seen>>> {
        let look = async move {
            self.store.check_name(name)?;
            let seen = self.store.look(name).await?;
            Ok(seen.map(|seen| Seen::new(seen.record.clone(), self.store.unit(), seen)))
        };
        Box::pin(self.call(name, Unavailable, look))
    }

    fn change<'a>(
        &'a self,
        name: &'a LockName,
        seen: &'a Seen,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<Changed>> {
        let change = async move { self.store.change(name, seen.version()?, change).await };
        Box::pin(self.call(name, OutcomeUnknown, change))
    }

    fn remove<'a>(&'a self, name: &'a LockName, seen: &'a Seen) -> BoxFuture<'a, Result<Changed>> {
        let removal = async move { self.store.remove(name, seen.version()?).await };
        Box::pin(self.call(name, OutcomeUnknown, removal))
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.bounded(Unavailable, self.store.check()))
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async { Ok(diagnose::diagnose(self).await) })
    }

    fn store_time(&self) -> BoxFuture<'_, Result<Option<SystemTime>>> {
        Box::pin(self.bounded(Unavailable, self.store.server_time()))
    }

    fn written_until(&self) -> BoxFuture<'_, Result<Option<SystemTime>>> {
        Box::pin(self.bounded(Unavailable, self.store.written_until()))
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.store.capabilities();
        capabilities.longest_call = self.store.longest_call();
        capabilities.duties = self.reopen.is_some();
        capabilities
    }

    fn identity(&self) -> ProviderIdentity {
        self.identity.clone()
    }

    fn store(&self) -> &str {
        self.store.name()
    }

    fn defaults(&self) -> LockDefaults {
        self.defaults.clone()
    }

    fn journal(&self) -> Option<Arc<dyn Journal>> {
        let (journal, provider) = (Arc::clone(&self.store).journal()?, self.clone());
        Some(Arc::new(OfProvider { provider, journal }))
    }

    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>>>> {
        let reopen = self.reopen.as_ref()?;
        Some(Box::pin(async move {
            let opened = reopen().await;
            opened.map_err(|error| self.about(error))
        }))
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration>> {
        Box::pin(self.bounded(OutcomeUnknown, self.store.migrate()))
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>>> {
        Box::pin(self.bounded(Unavailable, self.store.plan_migration()))
    }

    fn schema(&self) -> Schema {
        self.store.schema()
    }
}

impl<S> Clone for StoreProvider<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            defaults: self.defaults.clone(),
            identity: self.identity.clone(),
            address: self.address.clone(),
            last_reply: Arc::clone(&self.last_reply),
            reopen: self.reopen.clone(),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for StoreProvider<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreProvider").field(&self.store).finish()
    }
}
