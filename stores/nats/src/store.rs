//! The bucket as a store of versioned records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use async_nats::Client;
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use shedlock_cas::{CasProvider, Found, Listed, Reading, Record, VersionedStore, Written};
use shedlock_core::{Capabilities, Error, ErrorKind, Failover, LockName, Migration, SlotState};

use crate::bucket::Bucket;
use crate::key;
use crate::line::Line;
use crate::wire::{Beside, message};

/// ShedLock's bucket.
pub(crate) const DEFAULT_BUCKET: &str = "shedlock-locks";

/// Sequences from here on (2^40) began with a clock: nobody writes as many messages, and in microseconds
/// it was January 1970.
const CLOCKED: u64 = 1 << 40;

/// Locks in a key-value bucket of NATS JetStream: what a [`NatsProvider`](crate::NatsProvider) is
/// made of.
#[derive(Clone, Debug)]
pub struct NatsStore {
    bucket: Bucket,
    replicas: usize,
    in_memory: bool,
    /// Known after the first look.
    is_lasting: Arc<AtomicBool>,
    /// How many servers keep the bucket; 0 before the first look.
    kept_by: Arc<AtomicUsize>,
}

/// Which messages a record was read from.
#[derive(Clone, Debug)]
pub struct Version {
    /// The sequence of the lock's message; 0 where there is none.
    lock: u64,
    /// The sequence of the one beside it.
    beside: u64,
    /// What the record said that is kept beside it as well.
    token: Option<u64>,
    slots: SlotState,
}

/// The lock's own message decides: where it still stands after a write whose answer was lost, that
/// write may yet arrive, also if what goes beside it has.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.lock == other.lock
    }
}

impl NatsStore {
    /// The bucket `shedlock-locks`, as ShedLock calls it, through this client.
    pub fn new(client: Client) -> Self {
        Self {
            bucket: Bucket {
                line: Line::of(client),
                name: DEFAULT_BUCKET.to_owned(),
                timeout: Duration::from_secs(5),
                domain: None,
            },
            replicas: 1,
            in_memory: false,
            is_lasting: Arc::new(AtomicBool::new(true)),
            kept_by: Arc::default(),
        }
    }

    /// Sets the bucket.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not made of letters, digits, `-` and `_`.
    pub fn with_bucket(mut self, bucket: &str) -> Result<Self, Error> {
        if !is_plain(bucket) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("bucket {bucket:?} must be made of letters, digits, '-' and '_'"),
            ));
        }
        bucket.clone_into(&mut self.bucket.name);
        Ok(self)
    }

    /// Goes to the JetStream of this domain, where it is not the server's own.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not made of letters, digits, `-` and `_`.
    pub fn with_domain(mut self, domain: &str) -> Result<Self, Error> {
        if !is_plain(domain) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("domain {domain:?} must be made of letters, digits, '-' and '_'"),
            ));
        }
        self.bucket.domain = Some(domain.to_owned());
        Ok(self)
    }

    /// Sets how long an answer is waited for; 5 s unless set.
    #[must_use]
    pub fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.bucket.timeout = timeout;
        self
    }

    /// Sets how many servers keep the bucket, where [`migrate`](VersionedStore::migrate) makes it: 1
    /// unless set, 3 for a cluster that may lose one.
    #[must_use]
    pub fn with_replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Has the bucket kept in memory, where [`migrate`](VersionedStore::migrate) makes it, as
    /// ShedLock does: all locks are gone with the server. On disk unless set.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Nobody else uses the client: a connection that has fallen silent is left.
    pub(crate) fn with_own_client(mut self) -> Self {
        self.bucket.line = self.bucket.line.owned();
        self
    }

    /// The provider over it.
    pub fn provider(self) -> CasProvider<Self> {
        CasProvider::new(self)
    }

    async fn look(&self, name: &LockName) -> Result<Reading<Version>, Error> {
        let (key, beside) = (key::key(name), key::key_beside(name));
        let both = future::try_join(self.bucket.last(&key), self.bucket.last(&beside));
        let (lock, beside) = both.await?;
        if lock.is_none() && beside.is_none() {
            return Ok(Reading::nothing());
        }
        let sequence = lock.as_ref().map_or(0, |message| message.sequence);
        let (mut record, is_ours) = match &lock {
            Some(message) => message.record()?,
            // Deleted by hand, without a trace.
            None => (Record::until(UNIX_EPOCH), false),
        };
        if let (Some(beside), false) = (&beside, is_ours)
            && !beside.data.is_empty()
        {
            Beside::from_bytes(&beside.data)?.complete(&mut record, sequence);
        }
        let version = Version {
            lock: sequence,
            beside: beside.map_or(0, |message| message.sequence),
            token: record.fencing_token,
            slots: record.slots,
        };
        Ok(Reading::found(Found::new(record, version)))
    }

    /// First beside the lock, then the lock: whoever wrote last beside it is the only one of us who
    /// can still take it.
    async fn write(
        &self,
        name: &LockName,
        before: &Version,
        record: &Record,
    ) -> Result<Written<Version>, Error> {
        let mut version = Version {
            token: record.fencing_token,
            slots: record.slots,
            ..before.clone()
        };
        let is_kept = version.token == before.token && version.slots.last == before.slots.last;
        if !is_kept {
            let beside = Beside {
                based_on: before.lock,
                was: kept(before.token, before.slots),
                taken: kept(version.token, version.slots),
            };
            let text = (beside.to_text().into(), async_nats::HeaderMap::new());
            let key = key::key_beside(name);
            match self.bucket.put(&key, before.beside, text).await? {
                Written::Done(sequence) => version.beside = sequence,
                Written::Raced => return Ok(Written::Raced),
            }
        }
        let key = key::key(name);
        let written = self.bucket.put(&key, before.lock, message(record));
        Ok(match written.await? {
            Written::Done(sequence) => {
                version.lock = sequence;
                Written::Done(version)
            }
            Written::Raced => Written::Raced,
        })
    }
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    !name.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn kept(token: Option<u64>, slots: SlotState) -> Record {
    let mut record = Record::until(UNIX_EPOCH);
    record.fencing_token = token;
    record.slots = slots;
    record
}

impl VersionedStore for NatsStore {
    type Version = Version;

    fn store(&self) -> &str {
        "nats"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<Version>, Error> {
        self.look(name).await
    }

    async fn create(&self, name: &LockName, record: &Record) -> Result<Written<Version>, Error> {
        let nothing = Version {
            lock: 0,
            beside: 0,
            token: None,
            slots: SlotState::default(),
        };
        self.write(name, &nothing, record).await
    }

    async fn replace(
        &self,
        name: &LockName,
        version: &Version,
        record: &Record,
    ) -> Result<Written<Version>, Error> {
        self.write(name, version, record).await
    }

    async fn list(&self, after: Option<&LockName>) -> Result<Listed<Version>, Error> {
        let keys = self.bucket.keys().await?;
        let mut names: Vec<LockName> = keys.iter().filter_map(|text| key::name(text)).collect();
        names.retain(|name| after.is_none_or(|after| name > after));
        stream::iter(names)
            .map(|name| async move {
                let reading = self.look(&name).await;
                let reading = reading.map_err(|error| error.with_lock(name.as_str()))?;
                Ok((name, reading))
            })
            .buffer_unordered(16)
            .try_collect()
            .await
    }

    /// A bucket that is made anew counts from 1 again, unless [`migrate`](VersionedStore::migrate)
    /// made it on a server that can begin with the clock.
    fn comes_again(&self, version: &Version) -> bool {
        version.lock < CLOCKED
    }

    fn check_name(&self, name: &LockName) -> Result<(), Error> {
        key::check(name)
    }

    async fn check(&self) -> Result<(), Error> {
        let shape = self.bucket.shape().await?;
        self.kept_by.store(shape.replicas, Ordering::Relaxed);
        let is_lasting = !shape.is_in_memory;
        if self.is_lasting.swap(is_lasting, Ordering::Relaxed) && !is_lasting {
            tracing::warn!(
                bucket = self.bucket.name,
                "the bucket is kept in memory: all locks are gone when the server restarts"
            );
        }
        if shape.max_age.is_zero() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "the bucket {:?} forgets its keys after {:?}, held locks included: set its max \
                 age (TTL) to 0",
                self.bucket.name, shape.max_age
            ),
        ))
    }

    async fn migrate(&self) -> Result<Migration, Error> {
        match self.bucket.shape().await {
            Ok(_) => return Ok(Migration::default()),
            Err(error) if error.kind() == ErrorKind::Configuration => {}
            Err(error) => return Err(error),
        }
        self.bucket.create(self.replicas, self.in_memory).await?;
        let made = format!("made the bucket {:?}", self.bucket.name);
        Ok(Migration::with_changes(vec![made]))
    }

    fn capabilities(&self, engine: Capabilities) -> Capabilities {
        let mut capabilities = engine;
        capabilities.longest_name = key::LONGEST;
        capabilities.durable = self.is_lasting.load(Ordering::Relaxed);
        capabilities.failover = match self.kept_by.load(Ordering::Relaxed) {
            0 => Failover::Unspecified,
            1 => Failover::Never,
            _ => Failover::Majority,
        };
        capabilities
    }
}
