//! What a case works with.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{
    AttemptRequest, BoxFuture, Capabilities, Clock, LockName, Owner, Slot, SystemClock,
    UnlockRequest,
};

use crate::harness::{BoxError, OptionalAction};
use crate::steps::take;
use crate::timing::Timing;
use crate::{Harness, JavaRecord, Namespace, Provider, Stop};

/// What one case works with: its own namespace, providers over it, and durations that suit the
/// store.
#[derive(Clone)]
pub struct TestContext {
    harness: Arc<dyn Harness>,
    namespace: Arc<dyn Namespace>,
    capabilities: Capabilities,
    timing: Timing,
}

impl TestContext {
    /// Creates a context with a fresh namespace. It reads the provider's capabilities after the
    /// provider's first contact with the store.
    ///
    /// # Errors
    /// If the namespace cannot be created, or if a provider over it fails its own check.
    pub async fn new(harness: Arc<dyn Harness>) -> Result<Self, Stop> {
        let namespace = harness
            .namespace()
            .await
            .map_err(|error| Stop::harness("make a namespace", &*error))?;
        Self::over(harness, namespace).await
    }

    /// Creates a context over a namespace in a separate instance of the store. The caller closes
    /// the namespace.
    ///
    /// # Errors
    /// [`Stop::NotApplicable`] if the harness cannot start a separate instance.
    pub async fn on_own_store(&self) -> Result<Self, Stop> {
        let namespace = self
            .harness
            .namespace_on_own_store()
            .ok_or_else(|| {
                Stop::lacking(
                    "start a store of its own",
                    "Harness::namespace_on_own_store",
                )
            })?
            .await
            .map_err(|error| Stop::harness("start a store of its own", &*error))?;
        Self::over(Arc::clone(&self.harness), namespace).await
    }

    /// Creates a context over a namespace in a separate instance of the store that can be filled. The
    /// caller closes the namespace.
    pub(crate) async fn on_store_to_fill(&self) -> Result<Self, Stop> {
        let made = granted(
            self.harness.namespace_to_fill(),
            "start a store that can be filled",
            "Harness::namespace_to_fill",
        );
        Self::over(Arc::clone(&self.harness), made.await?).await
    }

    async fn over(harness: Arc<dyn Harness>, namespace: Arc<dyn Namespace>) -> Result<Self, Stop> {
        let provider = open(&*namespace).await?;
        provider.check().await?;
        let capabilities = provider.capabilities();
        let timing = Timing::new(&capabilities);
        Ok(Self {
            harness,
            namespace,
            capabilities,
            timing,
        })
    }

    /// Returns the harness.
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// Returns this case's own namespace in the store.
    pub fn namespace(&self) -> &dyn Namespace {
        &*self.namespace
    }

    pub(crate) fn shared_namespace(&self) -> &Arc<dyn Namespace> {
        &self.namespace
    }

    /// Returns what the provider declares.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Returns durations that suit the store.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Creates a provider with its own connections.
    ///
    /// # Errors
    /// If the harness cannot create one.
    pub async fn provider(&self) -> Result<Provider, Stop> {
        open(&*self.namespace).await
    }

    /// Two providers with separate connections, as two processes would have.
    pub(crate) async fn two(&self) -> Result<(Provider, Provider), Stop> {
        Ok((self.provider().await?, self.provider().await?))
    }

    /// This many providers.
    pub(crate) async fn providers(&self, count: usize) -> Result<Vec<Provider>, Stop> {
        let mut providers = Vec::with_capacity(count);
        for _ in 0..count {
            providers.push(self.provider().await?);
        }
        Ok(providers)
    }

    /// An attempt by a new owner.
    pub(crate) fn request_for(&self, name: &LockName, at_most: Duration) -> AttemptRequest {
        AttemptRequest::new(name.clone(), Owner::generate(), at_most)
    }

    /// An attempt by a new owner whose lease outlives the case.
    pub(crate) fn request(&self, name: &LockName) -> AttemptRequest {
        self.request_for(name, self.timing.long())
    }

    /// The current time by the clock that judges leases.
    pub(crate) async fn store_now(&self, provider: &Provider) -> Result<SystemTime, Stop> {
        let probe = name("store-now");
        let taken = take(provider, &self.request(&probe)).await?;
        let mut instant = taken.lease.acquired_at();
        if instant.is_none() {
            let record = provider.inspect(&probe).await?;
            instant = record.and_then(|record| record.read_at);
        }
        provider.unlock(&taken.lease, &UnlockRequest::new()).await?;
        Ok(instant.unwrap_or_else(|| SystemClock.system_time()))
    }

    /// Returns the slot this long before the store's current time, rounded down to whole seconds.
    ///
    /// # Errors
    /// If a call of the provider fails.
    pub async fn slot_before_now(&self, provider: &Provider, by: Duration) -> Result<Slot, Stop> {
        let now = self.store_now(provider).await?;
        let micros = Slot::at(now - by)?.as_micros();
        Ok(Slot::from_micros(micros - micros % 1_000_000)?)
    }

    /// Ends the case as not applicable unless slots are declared.
    ///
    /// # Errors
    /// [`Stop::NotApplicable`].
    pub fn needs_slots(&self) -> Result<(), Stop> {
        declared(self.capabilities.slots, "slots")
    }

    /// Ends the case as not applicable unless slots can be kept open.
    pub(crate) fn needs_slot_completion(&self) -> Result<(), Stop> {
        declared(self.capabilities.completion, "completion")
    }

    /// Ends the case as not applicable unless fencing tokens are declared.
    pub(crate) fn needs_fencing(&self) -> Result<(), Stop> {
        declared(self.capabilities.fencing, "fencing")
    }

    pub(crate) async fn delete_record(&self, name: &LockName) -> Result<(), Stop> {
        let action = self.namespace.delete_record(name);
        granted(action, "delete a record", "Namespace::delete_record").await
    }

    pub(crate) async fn write_foreign(&self, name: &LockName, data: &[u8]) -> Result<(), Stop> {
        let action = self.namespace.write_foreign(name, data);
        granted(
            action,
            "write something that is not a lock",
            "Namespace::write_foreign",
        )
        .await
    }

    pub(crate) async fn drop_container(&self) -> Result<(), Stop> {
        let action = self.namespace.drop_container();
        granted(action, "drop the container", "Namespace::drop_container").await
    }

    pub(crate) async fn restore_container(&self) -> Result<(), Stop> {
        let action = self.namespace.restore_container();
        granted(
            action,
            "restore the container",
            "Namespace::restore_container",
        )
        .await
    }

    pub(crate) async fn weaken_container(&self) -> Result<(), Stop> {
        let action = self.namespace.weaken_container();
        granted(
            action,
            "weaken the container",
            "Namespace::weaken_container",
        )
        .await
    }

    pub(crate) async fn write_as_shedlock(
        &self,
        name: &LockName,
        record: &JavaRecord,
    ) -> Result<(), Stop> {
        let action = self.namespace.write_as_shedlock(name, record);
        granted(action, "write as ShedLock", "Namespace::write_as_shedlock").await
    }

    /// Writes a lock that `java-host` has just acquired with ShedLock, for ten minutes.
    pub(crate) async fn hold_as_shedlock(
        &self,
        provider: &Provider,
        name: &LockName,
    ) -> Result<(), Stop> {
        let now = self.store_now(provider).await?;
        let record = JavaRecord {
            locked_by: "java-host".to_owned(),
            locked_at: now,
            lock_until: now + Duration::from_secs(600),
        };
        self.write_as_shedlock(name, &record).await
    }

    pub(crate) async fn read_as_shedlock(
        &self,
        name: &LockName,
    ) -> Result<Option<JavaRecord>, Stop> {
        let action = self.namespace.read_as_shedlock(name);
        granted(action, "read as ShedLock", "Namespace::read_as_shedlock").await
    }

    /// Stops the store, or ends the case as not applicable if the harness cannot.
    ///
    /// # Errors
    /// If the store cannot be stopped.
    pub async fn stop_store(&self) -> Result<(), Stop> {
        granted(
            self.namespace.stop_store(),
            "stop the store",
            "Namespace::stop_store",
        )
        .await
    }

    /// Starts the store again, or ends the case as not applicable if the harness cannot.
    ///
    /// # Errors
    /// If the store cannot be started.
    pub async fn start_store(&self) -> Result<(), Stop> {
        granted(
            self.namespace.start_store(),
            "start the store",
            "Namespace::start_store",
        )
        .await
    }

    /// Fills the store, so that it refuses to store anything new.
    pub(crate) async fn fill(&self) -> Result<(), Stop> {
        granted(self.namespace.fill(), "fill the store", "Namespace::fill").await
    }

    /// Makes space in a store that is full.
    pub(crate) async fn make_space(&self) -> Result<(), Stop> {
        let action = self.namespace.make_space();
        granted(action, "make space in the store", "Namespace::make_space").await
    }

    /// Returns what another process needs to open the namespace.
    ///
    /// # Errors
    /// [`Stop::NotApplicable`] if other processes cannot open it.
    pub fn child_spec(&self) -> Result<String, Stop> {
        self.namespace.child_spec().ok_or_else(|| {
            Stop::lacking(
                "open a namespace from another process",
                "Namespace::child_spec",
            )
        })
    }

    pub(crate) async fn provider_with_clock(
        &self,
        clock: Arc<dyn Clock>,
    ) -> Result<Provider, Stop> {
        let action = self.namespace.provider_with_clock(clock);
        granted(
            action,
            "set a client's clock",
            "Namespace::provider_with_clock",
        )
        .await
    }
}

async fn open(namespace: &dyn Namespace) -> Result<Provider, Stop> {
    let provider: BoxFuture<'_, Result<Provider, BoxError>> = namespace.provider();
    provider
        .await
        .map_err(|error| Stop::harness("make a provider", &*error))
}

/// Performs an optional action. If the harness does not support it, the case ends as not applicable
/// with a reason that contains what the harness cannot do (`what`) and the missing `method`.
///
/// # Errors
/// [`Stop::NotApplicable`] if there is no such action, [`Stop::Failed`] if it fails.
pub async fn granted<T>(
    action: OptionalAction<'_, T>,
    what: &str,
    method: &str,
) -> Result<T, Stop> {
    action
        .ok_or_else(|| Stop::lacking(what, method))?
        .await
        .map_err(|error| Stop::harness(what, &*error))
}

fn declared(is_declared: bool, what: &str) -> Result<(), Stop> {
    if is_declared {
        return Ok(());
    }
    Err(Stop::undeclared(what))
}

/// The name of a lock, from a literal in a case.
pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("cases use names that the contract accepts")
}
