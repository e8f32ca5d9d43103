//! The bucket as a store of versioned records.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_nats::Client;
use futures_util::{StreamExt as _, future, stream};
use shedlock_core::{Capabilities, Error, ErrorKind, Failover, LockName, Migration, SlotState};
use shedlock_store::{
    Found, Listed, Reading, Record, StoreProvider, Versioned, VersionedStore, Written,
};

use crate::bucket::{Bucket, Put};
use crate::key;
use crate::line::Line;
use crate::shape::{Seen, Shape};
use crate::wire::{Beside, Pending, kept, message};

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
    /// The operator asserts that the servers write to disk before they answer.
    sync_always: bool,
    seen: Arc<Seen>,
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
    /// Whether the record itself said so, or what stands beside it.
    is_whole: bool,
    /// A taking that may still come, if one was announced beside the lock.
    pending: Option<Pending>,
    /// Over which connection it was read or written.
    connection: u64,
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
            sync_always: false,
            seen: Arc::default(),
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
        self.seen = Arc::default();
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
        self.seen = Arc::default();
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

    /// Asserts that each server that keeps the bucket is set up with `sync_interval: always`, which
    /// NATS has from 2.10 on: what it has confirmed is on disk. No client can find that out.
    ///
    /// Without it a server that loses its power may lose the last two minutes, locks included:
    /// [`durable`](Capabilities::durable) is not declared, and each extension and unlock reads first.
    #[must_use]
    pub fn with_sync_always(mut self, sync_always: bool) -> Self {
        self.sync_always = sync_always;
        self
    }

    /// Nobody else uses the client: a connection that has fallen silent is left.
    pub(crate) fn with_own_client(mut self) -> Self {
        self.bucket.line = self.bucket.line.owned();
        self
    }

    /// The provider over it.
    pub fn provider(self) -> StoreProvider<Versioned<Self>> {
        Versioned::new(self).provider()
    }

    /// Looks at the bucket's settings, for who has just connected.
    ///
    /// # Errors
    /// `Configuration` where they lose locks. Whatever else is wrong, the first call meets.
    pub(crate) async fn look_ahead(&self) -> Result<(), Error> {
        let nth = self.bucket.line.nth();
        match self.bucket.shape().await {
            Ok(Some(shape)) => self.learn(&shape, nth),
            Ok(None) | Err(_) => Ok(()),
        }
        .map_err(|error| error.with_store("nats"))
    }

    /// Whether the servers keep all that they have confirmed, as far as is known.
    fn is_durable(&self) -> bool {
        self.sync_always && !self.seen.is_fleeting()
    }

    async fn look_at_settings(&self) -> Result<(), Error> {
        let nth = self.bucket.line.nth();
        let shape = self.bucket.shape().await?;
        self.learn(&shape.ok_or_else(|| self.bucket.missing())?, nth)
    }

    fn learn(&self, shape: &Shape, nth: u64) -> Result<(), Error> {
        self.seen.learn(shape, &self.bucket.name, nth)
    }

    async fn look(&self, name: &LockName) -> Result<Reading<Version>, Error> {
        let connection = self.bucket.line.nth();
        let (key, key_beside) = (key::key(name), key::key_beside(name));
        let both = future::try_join(self.bucket.last(&key), self.bucket.last(&key_beside));
        let (mut lock, message_beside) = both.await?;
        if lock.is_none() && message_beside.is_none() {
            return Ok(Reading::nothing());
        }
        let beside = message_beside
            .as_ref()
            .filter(|message| !message.data.is_empty())
            .map(|message| Beside::from_bytes(&message.data));
        let based_on = match &beside {
            Some(Ok(beside)) => beside.based_on,
            _ => 0,
        };
        let sequence_of = |lock: &Option<_>| lock.as_ref().map_or(0, sequence);
        if based_on > sequence_of(&lock) {
            // The lock was read before what it has become by now, unless it was deleted by hand.
            lock = self.bucket.last(&key).await?;
        }
        let sequence = sequence_of(&lock);
        let (mut record, is_whole) = match &lock {
            Some(message) => message.record()?,
            // Deleted by hand, without a trace.
            None => (Record::until(UNIX_EPOCH), false),
        };
        let mut pending = None;
        if let Some(beside) = beside {
            match beside {
                Ok(beside) => {
                    if !is_whole {
                        beside.complete(&mut record, sequence);
                    }
                    pending = beside.pending(sequence);
                }
                Err(error) if !is_whole => return Err(error),
                // The lock itself says all, and its next taking replaces it.
                Err(_) => {}
            }
        }
        let version = Version {
            lock: sequence,
            beside: message_beside.map_or(0, |message| message.sequence),
            token: record.fencing_token,
            slots: record.slots,
            is_whole,
            pending,
            connection,
        };
        Ok(Reading::found(Found::new(record, version)))
    }

    /// Both keys in one step where the bucket takes that. Else first beside the lock, then the lock:
    /// whoever wrote last beside it is the only one of us who can still take it, or one who came
    /// before, whose taking the later one has carried over.
    async fn write(
        &self,
        name: &LockName,
        before: &Version,
        record: &Record,
    ) -> Result<Written<Version>, Error> {
        let line = &self.bucket.line;
        // Whoever writes what neither the lock nor the slots of others depend on needs no settings.
        let is_kept = before.is_whole
            && record.fencing_token == before.token
            && record.slots.last == before.slots.last;
        if !is_kept && !self.seen.has_passed_on(line.nth()) {
            self.look_at_settings().await?;
        }
        if before.lock > 0 && self.comes_again(before) && before.connection != line.nth() {
            // The server may have lost its last writes since: what was read need not stand, and
            // its sequence may be another's.
            return Ok(Written::Raced);
        }
        let mut version = Version {
            token: record.fencing_token,
            slots: record.slots,
            is_whole: true,
            pending: None,
            connection: line.nth(),
            ..before.clone()
        };
        let written = self.write_keys(name, before, record, is_kept, &mut version);
        match written.await {
            Ok(Written::Done(())) => Ok(Written::Done(version)),
            Ok(Written::Raced) => Ok(Written::Raced),
            Err(error) => {
                if error.is_unknown() || error.kind() == ErrorKind::Configuration {
                    self.seen.doubt();
                }
                Err(error)
            }
        }
    }

    /// The messages themselves; their sequences go into `version`.
    async fn write_keys(
        &self,
        name: &LockName,
        before: &Version,
        record: &Record,
        is_kept: bool,
        version: &mut Version,
    ) -> Result<Written<()>, Error> {
        let lock = || Put {
            key: key::key(name),
            before: before.lock,
            content: message(record),
        };
        if !is_kept {
            let beside = Beside {
                based_on: before.lock,
                was: kept(before.token, before.slots),
                taken: kept(record.fencing_token, record.slots),
            };
            let put = |beside: Beside| Put {
                key: key::key_beside(name),
                before: before.beside,
                content: (beside.to_text().into(), async_nats::HeaderMap::new()),
            };
            if self.seen.is_atomic() {
                match self.bucket.put_both(put(beside.clone()), lock()).await? {
                    Some(Written::Done(sequence)) => {
                        version.lock = sequence;
                        version.beside = sequence - 1;
                        return Ok(Written::Done(()));
                    }
                    Some(Written::Raced) => return Ok(Written::Raced),
                    None => self.seen.doubt(),
                }
            }
            let beside = match before.pending {
                Some(pending) => beside.carrying(pending),
                None => beside,
            };
            match self.bucket.put(put(beside)).await? {
                Written::Done(sequence) => version.beside = sequence,
                Written::Raced => return Ok(Written::Raced),
            }
        }
        Ok(match self.bucket.put(lock()).await? {
            Written::Done(sequence) => {
                version.lock = sequence;
                Written::Done(())
            }
            Written::Raced => Written::Raced,
        })
    }
}

fn sequence(message: &crate::wire::Message) -> u64 {
    message.sequence
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    !name.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl VersionedStore for NatsStore {
    type Version = Version;

    fn store(&self) -> &str {
        "nats"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<Version>, Error> {
        if !self.seen.has_passed() {
            self.look_at_settings().await?;
        }
        self.look(name).await
    }

    async fn create(&self, name: &LockName, record: &Record) -> Result<Written<Version>, Error> {
        let nothing = Version {
            lock: 0,
            beside: 0,
            token: None,
            slots: SlotState::default(),
            is_whole: true,
            pending: None,
            connection: 0,
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

    /// All keys, and the messages of those that are wanted.
    async fn list(&self, after: Option<&LockName>, limit: usize) -> Result<Listed<Version>, Error> {
        let keys = self.bucket.keys().await?;
        let mut names: Vec<LockName> = keys.iter().filter_map(|text| key::name(text)).collect();
        names.retain(|name| after.is_none_or(|after| name > after));
        names.sort_unstable();
        names.truncate(limit);
        let read = stream::iter(names).map(|name| async move {
            let reading = self.look(&name).await;
            (name, reading)
        });
        Ok(read.buffer_unordered(16).collect().await)
    }

    /// A bucket that is made anew counts from 1 again, unless [`migrate`](VersionedStore::migrate)
    /// made it on a server that can begin with the clock. And a server that has lost its last writes
    /// gives their sequences to others.
    fn comes_again(&self, version: &Version) -> bool {
        version.lock < CLOCKED || !self.is_durable()
    }

    fn check_name(&self, name: &LockName) -> Result<(), Error> {
        key::check(name)
    }

    async fn check(&self) -> Result<(), Error> {
        self.look_at_settings().await
    }

    async fn migrate(&self) -> Result<Migration, Error> {
        let nth = self.bucket.line.nth();
        let bucket = &self.bucket;
        let mut changes = Vec::new();
        let mut shape = bucket.shape().await?;
        if shape.is_none() {
            bucket.create(self.replicas, self.in_memory).await?;
            changes.push(format!("made the bucket {:?}", bucket.name));
            shape = bucket.shape().await?;
        }
        let mut shape = shape.ok_or_else(|| bucket.missing())?;
        if !shape.is_atomic() && bucket.can_be_atomic() {
            match bucket.make_atomic(&shape).await {
                Ok(()) => shape = bucket.shape().await?.unwrap_or(shape),
                Err(error) => tracing::warn!(
                    bucket = bucket.name,
                    %error,
                    "the bucket cannot be set up to take several messages in one step                      (allow_atomic); locks take them one after the other"
                ),
            }
            if shape.is_atomic() {
                changes.push(format!(
                    "had the bucket {:?} take several messages in one step (allow_atomic)",
                    bucket.name
                ));
            }
        }
        self.learn(&shape, nth)?;
        Ok(Migration::with_changes(changes))
    }

    fn capabilities(&self, engine: Capabilities) -> Capabilities {
        let mut capabilities = engine;
        capabilities.longest_call = self.bucket.longest_call();
        capabilities.longest_name = key::LONGEST;
        capabilities.durable = self.is_durable();
        capabilities.failover = match self.seen.kept_by() {
            0 => Failover::Unspecified,
            1 => Failover::Never,
            _ => Failover::Majority,
        };
        capabilities
    }
}
