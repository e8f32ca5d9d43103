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

/// What one case works with: a namespace of its own, providers over it, durations that fit the store.
#[derive(Clone)]
pub struct TestContext {
    harness: Arc<dyn Harness>,
    namespace: Arc<dyn Namespace>,
    capabilities: Capabilities,
    timing: Timing,
}

impl TestContext {
    /// A context with a fresh namespace. The provider's capabilities are read after its first contact
    /// with the store.
    ///
    /// # Errors
    /// Where the namespace cannot be made, and where a provider over it does not pass its own check.
    pub async fn new(harness: Arc<dyn Harness>) -> Result<Self, Stop> {
        let namespace = harness
            .namespace()
            .await
            .map_err(|error| Stop::harness("make a namespace", &*error))?;
        Self::over(harness, namespace).await
    }

    /// A context over a namespace on a store of its own, to be closed by whoever asks for it.
    ///
    /// # Errors
    /// [`Stop::NotApplicable`] where the harness cannot start one.
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

    /// The harness.
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// This case's own room in the store.
    pub fn namespace(&self) -> &dyn Namespace {
        &*self.namespace
    }

    /// What the provider declares.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Durations that fit the store.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// A new provider with connections of its own.
    ///
    /// # Errors
    /// Where the harness cannot make one.
    pub async fn provider(&self) -> Result<Provider, Stop> {
        open(&*self.namespace).await
    }

    /// Two providers, as two processes would have them.
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

    /// An attempt by somebody new.
    pub(crate) fn request_for(&self, name: &LockName, at_most: Duration) -> AttemptRequest {
        AttemptRequest::new(name.clone(), Owner::generate(), at_most)
    }

    /// An attempt by somebody new whose lease outlives the case.
    pub(crate) fn request(&self, name: &LockName) -> AttemptRequest {
        self.request_for(name, self.timing.long())
    }

    /// Now, by the clock that judges leases.
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

    /// The slot this far from the store's now, in whole seconds.
    ///
    /// # Errors
    /// Where the provider fails.
    pub async fn slot_before_now(&self, provider: &Provider, by: Duration) -> Result<Slot, Stop> {
        let now = self.store_now(provider).await?;
        let micros = Slot::at(now - by)?.as_micros();
        Ok(Slot::from_micros(micros - micros % 1_000_000)?)
    }

    /// Not applicable unless slots are declared.
    ///
    /// # Errors
    /// [`Stop::NotApplicable`].
    pub fn needs_slots(&self) -> Result<(), Stop> {
        declared(self.capabilities.slots, "slots")
    }

    /// Not applicable unless slots can be kept open.
    pub(crate) fn needs_slot_completion(&self) -> Result<(), Stop> {
        declared(self.capabilities.completion, "completion")
    }

    /// Not applicable unless fencing tokens are declared.
    pub(crate) fn needs_fencing(&self) -> Result<(), Stop> {
        declared(self.capabilities.fencing, "fencing")
    }

    /// Not applicable unless extension is declared.
    pub(crate) fn needs_extend(&self) -> Result<(), Stop> {
        declared(self.capabilities.extend, "extend")
    }

    /// Not applicable unless listing is declared.
    pub(crate) fn needs_list(&self) -> Result<(), Stop> {
        declared(self.capabilities.list, "list")
    }

    pub(crate) async fn delete_record(&self, name: &LockName) -> Result<(), Stop> {
        let action = self.namespace.delete_record(name);
        granted(action, "delete a record", "Namespace::delete_record").await
    }

    pub(crate) async fn write_foreign(&self, name: &LockName, data: &[u8]) -> Result<(), Stop> {
        let action = self.namespace.write_foreign(name, data);
        granted(action, "write what is no lock", "Namespace::write_foreign").await
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

    pub(crate) async fn read_as_shedlock(
        &self,
        name: &LockName,
    ) -> Result<Option<JavaRecord>, Stop> {
        let action = self.namespace.read_as_shedlock(name);
        granted(action, "read as ShedLock", "Namespace::read_as_shedlock").await
    }

    /// Stops the store; not applicable where the harness cannot.
    ///
    /// # Errors
    /// Where that fails.
    pub async fn stop_store(&self) -> Result<(), Stop> {
        granted(
            self.namespace.stop_store(),
            "stop the store",
            "Namespace::stop_store",
        )
        .await
    }

    /// Starts the store again; not applicable where the harness cannot.
    ///
    /// # Errors
    /// Where that fails.
    pub async fn start_store(&self) -> Result<(), Stop> {
        granted(
            self.namespace.start_store(),
            "start the store",
            "Namespace::start_store",
        )
        .await
    }

    /// What another process needs to open the namespace; not applicable where none can.
    ///
    /// # Errors
    /// [`Stop::NotApplicable`].
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

/// Uses an optional action, or ends the case as not applicable: what the harness would do, and the
/// method that lacks.
///
/// # Errors
/// [`Stop::NotApplicable`] where there is no such action, [`Stop::Failed`] where it fails.
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

/// A name of a lock, from a literal of a case.
pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("cases use names that the contract accepts")
}
