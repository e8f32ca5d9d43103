//! What a case works with.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shedlock_core::{
    AttemptRequest, BoxFuture, Capabilities, Clock, LockName, Owner, Slot, SystemClock,
    UnlockRequest,
};

use crate::harness::{BoxError, Power};
use crate::pace::Pace;
use crate::steps::take;
use crate::{Harness, JavaRecord, Provider, Space, Stop, Trouble};

/// What one case works with: a space of its own, providers over it, durations that fit the store.
#[derive(Clone)]
pub struct Setting {
    harness: Arc<dyn Harness>,
    space: Arc<dyn Space>,
    capabilities: Capabilities,
    pace: Pace,
}

impl Setting {
    /// A setting with a fresh space. The provider's capabilities are read after its first contact
    /// with the store.
    ///
    /// # Errors
    /// Where the space cannot be made, and where a provider over it does not pass its own check.
    pub async fn new(harness: Arc<dyn Harness>) -> Result<Self, Stop> {
        let space = harness
            .space()
            .await
            .map_err(|error| Stop::harness("make a space", &*error))?;
        Self::over(harness, space).await
    }

    /// A setting over a space on a store of its own.
    pub(crate) async fn on_own_store(&self) -> Result<Self, Stop> {
        let space = self
            .harness
            .space_on_own_store()
            .ok_or_else(|| lacking("start a store of its own", "Harness::space_on_own_store"))?
            .await
            .map_err(|error| Stop::harness("start a store of its own", &*error))?;
        Self::over(Arc::clone(&self.harness), space).await
    }

    async fn over(harness: Arc<dyn Harness>, space: Arc<dyn Space>) -> Result<Self, Stop> {
        let provider = open(&*space).await?;
        provider.check().await?;
        let capabilities = provider.capabilities();
        let pace = Pace::new(&capabilities);
        Ok(Self {
            harness,
            space,
            capabilities,
            pace,
        })
    }

    /// The harness.
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// This case's own room in the store.
    pub fn space(&self) -> &dyn Space {
        &*self.space
    }

    /// What the provider declares.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Durations that fit the store.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// A new provider with connections of its own.
    ///
    /// # Errors
    /// Where the harness cannot make one.
    pub async fn provider(&self) -> Result<Provider, Stop> {
        open(&*self.space).await
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
        self.request_for(name, self.pace.long())
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
    pub(crate) async fn slot_before_now(
        &self,
        provider: &Provider,
        by: Duration,
    ) -> Result<Slot, Stop> {
        let now = self.store_now(provider).await?;
        let micros = Slot::at(now - by)?.as_micros();
        Ok(Slot::from_micros(micros - micros % 1_000_000)?)
    }

    /// Not applicable unless slots are declared.
    pub(crate) fn needs_slots(&self) -> Result<(), Stop> {
        declared(self.capabilities.slots, "slots")
    }

    /// Not applicable unless slots can be kept open.
    pub(crate) fn needs_slot_completion(&self) -> Result<(), Stop> {
        declared(self.capabilities.slot_completion, "slot_completion")
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
        let power = self.space.delete_record(name);
        granted(power, "delete a record", "Space::delete_record").await
    }

    pub(crate) async fn write_foreign(&self, name: &LockName, data: &[u8]) -> Result<(), Stop> {
        let power = self.space.write_foreign(name, data);
        granted(power, "write what is no lock", "Space::write_foreign").await
    }

    pub(crate) async fn drop_container(&self) -> Result<(), Stop> {
        let power = self.space.drop_container();
        granted(power, "drop the container", "Space::drop_container").await
    }

    pub(crate) async fn restore_container(&self) -> Result<(), Stop> {
        let power = self.space.restore_container();
        granted(power, "restore the container", "Space::restore_container").await
    }

    pub(crate) async fn weaken_container(&self) -> Result<(), Stop> {
        let power = self.space.weaken_container();
        granted(power, "weaken the container", "Space::weaken_container").await
    }

    pub(crate) async fn write_as_shedlock(
        &self,
        name: &LockName,
        record: &JavaRecord,
    ) -> Result<(), Stop> {
        let power = self.space.write_as_shedlock(name, record);
        granted(power, "write as ShedLock", "Space::write_as_shedlock").await
    }

    pub(crate) async fn read_as_shedlock(
        &self,
        name: &LockName,
    ) -> Result<Option<JavaRecord>, Stop> {
        let power = self.space.read_as_shedlock(name);
        granted(power, "read as ShedLock", "Space::read_as_shedlock").await
    }

    pub(crate) async fn stop_store(&self) -> Result<(), Stop> {
        granted(
            self.space.stop_store(),
            "stop the store",
            "Space::stop_store",
        )
        .await
    }

    pub(crate) async fn start_store(&self) -> Result<(), Stop> {
        granted(
            self.space.start_store(),
            "start the store",
            "Space::start_store",
        )
        .await
    }

    pub(crate) async fn begin_trouble(&self, trouble: Trouble) -> Result<(), Stop> {
        let power = self.space.begin_trouble(trouble);
        granted(power, &format!("begin {trouble:?}"), "Space::begin_trouble").await
    }

    pub(crate) async fn end_trouble(&self, trouble: Trouble) -> Result<(), Stop> {
        let power = self.space.end_trouble(trouble);
        granted(power, &format!("end {trouble:?}"), "Space::end_trouble").await
    }

    /// Where the harness can tell.
    pub(crate) async fn store_version(&self) -> Result<Option<String>, Stop> {
        match self.space.store_version() {
            None => Ok(None),
            Some(version) => version
                .await
                .map(Some)
                .map_err(|error| Stop::harness("ask the store's version", &*error)),
        }
    }

    pub(crate) async fn provider_with_clock(
        &self,
        clock: Arc<dyn Clock>,
    ) -> Result<Provider, Stop> {
        let power = self.space.provider_with_clock(clock);
        granted(power, "set a client's clock", "Space::provider_with_clock").await
    }
}

async fn open(space: &dyn Space) -> Result<Provider, Stop> {
    let provider: BoxFuture<'_, Result<Provider, BoxError>> = space.provider();
    provider
        .await
        .map_err(|error| Stop::harness("make a provider", &*error))
}

/// Uses a power, or ends the case as not applicable.
pub(crate) async fn granted<T>(power: Power<'_, T>, what: &str, method: &str) -> Result<T, Stop> {
    power
        .ok_or_else(|| lacking(what, method))?
        .await
        .map_err(|error| Stop::harness(what, &*error))
}

fn lacking(what: &str, method: &str) -> Stop {
    Stop::not_applicable(format!("the harness cannot {what} ({method})"))
}

fn declared(is_declared: bool, what: &str) -> Result<(), Stop> {
    if is_declared {
        return Ok(());
    }
    Err(Stop::not_applicable(format!(
        "the provider does not declare `{what}`"
    )))
}

/// A name of a lock, from a literal of a case.
pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).expect("cases use names that the contract accepts")
}
