//! Locks in the memory of one process: for tests, for the simulation, and for programs that run as a single process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use shedlock_core::{
    BoxFuture, Capabilities, Clock, Failover, LockDefaults, LockName, LockProvider, ManualClock,
    SystemClock, delegate,
};

use crate::errors::Result;
use crate::{Found, Listed, Reading, Record, StoreProvider, Versioned, VersionedStore, Written};

/// Implements the whole contract over a map in memory.
///
/// Clones share the records, so two clones are two clients of one store. [`another_client`](Self::another_client)
/// creates a client with a separate identity. You can replace the clock that judges leases by one that a test moves.
///
/// ```
/// use shedlock::{Executor, LockConfig, ManualClock, MemoryProvider, Outcome};
/// use std::sync::Arc;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// let provider = MemoryProvider::with_clock(Arc::new(ManualClock::new()));
/// let executor = Executor::new(Arc::new(provider));
/// let config = LockConfig::new("payroll").lock_at_most_for("10m").lock_at_least_for("1m");
/// assert!(executor.execute(&config, async { 42 }).await?.is_executed());
/// // lock_at_least_for keeps it taken, since the clock stands still.
/// assert!(matches!(executor.execute(&config, async { 42 }).await?, Outcome::Skipped(_)));
/// # Ok::<(), shedlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MemoryProvider {
    inner: StoreProvider<Versioned<Memory>>,
}

impl MemoryProvider {
    /// Creates an empty store on the real clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Creates an empty store whose leases are judged by the calendar of this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::over(Memory {
            records: Arc::default(),
            clock,
        })
    }

    fn over(memory: Memory) -> Self {
        // The clock of the limits of calls. No call waits, so nothing has to move it, and no call needs a runtime.
        let limits = Arc::new(ManualClock::new());
        let inner = Versioned::new(memory).with_clock(limits).provider();
        Self { inner }
    }

    /// Sets durations for locks that set none.
    #[must_use]
    pub fn with_defaults(self, defaults: LockDefaults) -> Self {
        let inner = self.inner.with_defaults(defaults);
        Self { inner }
    }

    /// Creates another client of the same store: it shares records and clock, but has a separate identity.
    #[must_use]
    pub fn another_client(&self) -> Self {
        Self::over(self.memory().clone()).with_defaults(self.defaults())
    }

    /// Deletes a record, as a person might by hand. Returns true if there was one.
    pub fn delete(&self, name: &LockName) -> bool {
        self.memory().lock().found.remove(name).is_some()
    }

    /// Deletes all records.
    pub fn clear(&self) {
        self.memory().lock().found.clear();
    }

    /// Writes a record as ShedLock would: its owner is a bare host name, and fencing token and slot stay unchanged.
    pub fn write_as_shedlock(
        &self,
        name: &LockName,
        host: &str,
        locked_at: SystemTime,
        locked_until: SystemTime,
    ) {
        let mut records = self.memory().lock();
        let before = records.found.get(name).map(|found| found.record.clone());
        let before = before.unwrap_or_else(|| Record::until(locked_until));
        let record = Record {
            owner: host.to_owned(),
            locked_at: Some(locked_at),
            locked_until,
            ..before
        };
        records.put(name, record);
    }

    fn memory(&self) -> &Memory {
        self.inner.backend().records()
    }
}

impl Default for MemoryProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl LockProvider for MemoryProvider {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.duties = true;
        capabilities
    }

    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>>>> {
        Some(Box::pin(async {
            Ok(Arc::new(self.clone()) as Arc<dyn LockProvider>)
        }))
    }

    delegate!(inner except capabilities, for_duties);
}

/// The store of records.
#[derive(Clone, Debug)]
struct Memory {
    records: Arc<Mutex<Records>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Records {
    found: BTreeMap<LockName, Found<u64>>,
    /// The version of the last write to any record.
    version: u64,
}

impl Records {
    fn has(&self, name: &LockName, version: Option<u64>) -> bool {
        self.found.get(name).map(|found| found.version) == version
    }

    fn put(&mut self, name: &LockName, record: Record) -> u64 {
        self.version += 1;
        let found = Found::new(record, self.version);
        match self.found.get_mut(name) {
            Some(before) => *before = found,
            None => drop(self.found.insert(name.clone(), found)),
        }
        self.version
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self, found: Option<&Found<u64>>) -> Reading<u64> {
        let found = found.cloned();
        found
            .map_or_else(Reading::nothing, Reading::found)
            .at(self.clock.system_time())
    }
}

/// No call waits.
impl VersionedStore for Memory {
    type Version = u64;

    fn store(&self) -> &str {
        "memory"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<u64>> {
        Ok(self.reading(self.lock().found.get(name)))
    }

    async fn write(
        &self,
        name: &LockName,
        before: Option<&u64>,
        record: &Record,
    ) -> Result<Written<u64>> {
        let mut records = self.lock();
        if !records.has(name, before.copied()) {
            return Ok(Written::Raced);
        }
        Ok(Written::Done(records.put(name, record.clone())))
    }

    async fn remove(&self, name: &LockName, before: &u64) -> Result<bool> {
        let mut records = self.lock();
        let is_same = records.has(name, Some(*before));
        if is_same {
            records.found.remove(name);
        }
        Ok(is_same)
    }

    async fn list(&self, after: Option<&LockName>, limit: usize) -> Result<Listed<u64>> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.lock();
        let found = records
            .found
            .range::<LockName, _>((start, Bound::Unbounded));
        let listed = found.take(limit);
        let listed = listed.map(|(name, found)| (name.clone(), Ok(self.reading(Some(found)))));
        Ok(listed.collect())
    }

    /// Each reply carries the exact time.
    fn store_time(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn capabilities(&self, mut capabilities: Capabilities) -> Capabilities {
        capabilities.most_requests = 1;
        capabilities.failover = Failover::Never;
        capabilities.durable = false;
        capabilities
    }
}
