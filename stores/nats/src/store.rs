//! The bucket as a store of versioned records.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use futures_util::{StreamExt as _, stream};
use shedlock_core::{Capabilities, Failover, Finding, LockName, Migration, MigrationStep, Schema};
use shedlock_provider::{
    FromClient, Listed, NeedsNoSettings, Reading, Record, Result, StoreProvider, VALID, Versioned,
    VersionedSettings, VersionedStore, Written, invalid,
};

use crate::NatsProvider;
use crate::bucket::{Bucket, Settings, Storage};
use crate::codec::Version;
use crate::key;
use crate::line::{Line, Origin};
use crate::shape::{Seen, Shape};

/// Sequences from this one on (2^40) began with the clock: no bucket receives that many messages, and as microseconds
/// it is an instant in January 1970.
const CLOCKED: u64 = 1 << 40;

/// Locks in a key-value bucket of NATS JetStream: the store behind a [`NatsProvider`].
#[derive(Clone, Debug)]
pub struct NatsStore {
    pub(crate) bucket: Bucket,
    pub(crate) seen: Arc<Seen>,
}

/// Configures the bucket, and how it is created. `NatsProvider::builder` returns it.
#[derive(Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    pub(crate) bucket: Bucket,
    pub(crate) common: VersionedSettings,
}

impl FromClient for NatsStore {
    type Client = Client;
    type Builder = Builder;

    fn builder(client: Client) -> Builder {
        // The client is either connected or not: there is nothing to wait for.
        let line = Line::new(Origin::Theirs(client), Duration::from_secs(1));
        let settings = Settings::default();
        Builder {
            bucket: Bucket { line, settings },
            common: VersionedSettings::default(),
        }
    }
}

impl NeedsNoSettings for NatsStore {
    type Store = Versioned<Self>;

    fn with_defaults(client: Client) -> StoreProvider<Versioned<Self>> {
        Self::builder(client).build().expect(VALID)
    }
}

impl Builder {
    shedlock_provider::setters! { [bucket.settings]
        /// Sets the bucket; `shedlock-locks` by default.
        bucket(bucket: impl Into<String>) = bucket.into();

        /// Sets the JetStream domain, if it is not the server's own.
        domain(domain: impl Into<String>) = Some(domain.into());

        /// Sets the time limit for a reply; 5 s by default.
        response_timeout(timeout: Duration) = timeout;

        /// Sets how many servers keep the bucket if [`migrate`](VersionedStore::migrate) creates it: 1 by default. Use
        /// 3 for a cluster that must survive the loss of one server.
        replicas(replicas: usize) = replicas;

        /// Sets where the bucket stores its messages if [`migrate`](VersionedStore::migrate) creates it; on disk by
        /// default.
        storage(storage: Storage) = storage;

        /// Asserts that every server that keeps the bucket is configured with `sync_interval: always`, which NATS
        /// supports from 2.10 on: messages that it has confirmed are on disk. No client can check this setting.
        ///
        /// Without it, a server that loses power may lose the last two minutes of writes, locks included. Therefore
        /// [`durable`](Capabilities::durable) is not declared, and each extension and unlock reads first.
        sync_always(sync_always: bool) = sync_always;
    }

    shedlock_provider::versioned_setters!(common);

    /// Checks the settings and creates the provider, without any I/O.
    ///
    /// # Errors
    /// `InvalidInput` for a bucket or a domain with characters other than letters, digits, `-` and `_`.
    pub fn build(self) -> Result<NatsProvider> {
        let settings = &self.bucket.settings;
        for (what, name) in [
            ("bucket", Some(&settings.bucket)),
            ("domain", settings.domain.as_ref()),
        ] {
            if let Some(name) = name.filter(|name| !is_plain(name)) {
                let message =
                    format!("{what} {name:?} must consist of letters, digits, '-' and '_'");
                return Err(invalid(message).with_store("nats"));
            }
        }
        Ok(self.common.provider(NatsStore {
            bucket: self.bucket,
            seen: Arc::default(),
        }))
    }
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    !name.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl NatsStore {
    /// Connects and checks the bucket's settings: `Configuration` if they lose locks. Any other problem is left for the
    /// first call to report.
    pub(crate) async fn look_ahead(&self) -> Result<()> {
        let nth = self.bucket.line.nth().await?;
        let Ok(Some(shape)) = self.bucket.shape().await else {
            return Ok(());
        };
        self.learn(&shape, nth)
    }

    pub(crate) async fn look_at_settings(&self) -> Result<()> {
        let nth = self.bucket.line.nth().await?;
        let shape = self.bucket.shape().await?;
        self.learn(&shape.ok_or_else(|| self.bucket.missing())?, nth)
    }

    fn learn(&self, shape: &Shape, nth: u64) -> Result<()> {
        self.seen.learn(shape, &self.bucket.settings.bucket, nth)
    }

    /// Whether the servers keep everything that they have confirmed, as far as is known.
    fn is_durable(&self) -> bool {
        self.bucket.settings.sync_always && !self.seen.known().is_fleeting
    }
}

impl VersionedStore for NatsStore {
    type Version = Version;

    fn store(&self) -> &str {
        "nats"
    }

    async fn read(&self, name: &LockName) -> Result<Reading<Version>> {
        if self.seen.known().passed == 0 {
            self.look_at_settings().await?;
        }
        self.look(name).await
    }

    async fn write(
        &self,
        name: &LockName,
        before: Option<&Version>,
        record: &Record,
    ) -> Result<Written<Version>> {
        let before = before.cloned().unwrap_or_default();
        self.write_pair(name, &before, record).await
    }

    async fn remove(&self, name: &LockName, before: &Version) -> Result<bool> {
        self.remove_pair(name, before).await
    }

    /// Reads all keys, and the messages of the wanted ones.
    async fn list(&self, after: Option<&LockName>, limit: usize) -> Result<Listed<Version>> {
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

    /// A recreated bucket counts from 1 again, unless [`migrate`](VersionedStore::migrate) created it on a server that
    /// can begin with the clock. And a server that has lost its last writes reuses their sequences.
    fn comes_again(&self, version: &Version) -> bool {
        version.lock < CLOCKED || !self.is_durable()
    }

    async fn check(&self) -> Result<()> {
        self.look_at_settings().await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let shape = self.bucket.shape().await?;
        let shape = shape.ok_or_else(|| self.bucket.missing())?;
        let can_be_atomic = self.bucket.can_be_atomic().await?;
        Ok(shape
            .findings(self.bucket.settings.sync_always, can_be_atomic)
            .into())
    }

    async fn migrate(&self) -> Result<Migration> {
        let nth = self.bucket.line.nth().await?;
        let bucket = &self.bucket;
        let name = &bucket.settings.bucket;
        let mut changes = Vec::new();
        let mut shape = bucket.shape().await?;
        if shape.is_none() {
            bucket.create().await?;
            changes.push(format!("created bucket {name:?}"));
            shape = bucket.shape().await?;
        }
        let mut shape = shape.ok_or_else(|| bucket.missing())?;
        if !shape.is_atomic() && bucket.can_be_atomic().await? {
            match bucket.make_atomic(&shape).await {
                Ok(()) => shape = bucket.shape().await?.unwrap_or(shape),
                Err(error) => tracing::warn!(
                    bucket = name,
                    %error,
                    "cannot enable atomic batches on the bucket (allow_atomic); locks write their \
                     messages one at a time"
                ),
            }
            if shape.is_atomic() {
                changes.push(format!(
                    "enabled atomic batches on bucket {name:?} (allow_atomic)"
                ));
            }
        }
        self.learn(&shape, nth)?;
        Ok(Migration::with_changes(changes))
    }

    async fn plan_migration(&self) -> Result<Vec<MigrationStep>> {
        let bucket = &self.bucket;
        let Some(shape) = bucket.shape().await? else {
            return Ok(self.schema().create);
        };
        let mut steps = Vec::new();
        if !shape.is_atomic() && bucket.can_be_atomic().await? {
            let name = &bucket.settings.bucket;
            let change = format!("enable atomic batches on bucket {name:?} (allow_atomic)");
            steps.push(MigrationStep::new(change));
        }
        Ok(steps)
    }

    /// The statement is the configuration that the server gets.
    fn schema(&self) -> Schema {
        let name = &self.bucket.settings.bucket;
        let step = MigrationStep::new(format!("create bucket {name:?} as the stream KV_{name}"));
        let config = format!("{:#}", self.bucket.config());
        Schema::with_create(vec![step.with_statement(config)]).note(
            "`nats stream add --config FILE` accepts this configuration; from NATS 2.12 on, \
             `migrate` also sets allow_atomic, and first_seq to the microseconds since 1970",
        )
    }

    /// Covers a call whose reply was lost and the read that follows, possibly over a new connection.
    fn longest_call(&self) -> Duration {
        let Bucket { line, settings } = &self.bucket;
        let response = settings.response_timeout;
        response.saturating_add(line.connect.max(response))
    }

    /// Two messages, one of them again; the settings; and two messages.
    fn most_requests_per_round(&self) -> u32 {
        6
    }

    fn capabilities(&self, mut capabilities: Capabilities) -> Capabilities {
        capabilities.longest_name = key::LONGEST;
        capabilities.removed_by_shedlock = true;
        capabilities.durable = self.is_durable();
        capabilities.failover = match self.seen.known().kept_by {
            0 => Failover::Unspecified,
            1 => Failover::Never,
            _ => Failover::Majority,
        };
        capabilities
    }
}
