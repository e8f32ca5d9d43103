//! The lock contract.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;
use mongodb::{Collection, Database};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Capabilities, Error, ExtendRequest, Extension, Failover,
    ForceUnlock, ForceUnlockRequest, Lease, ListRequest, LockDefaults, LockName, LockProvider,
    LockRecord, Migration, ProviderIdentity, ResetSlotRequest, SlotReset, Unlock, UnlockRequest,
};

use crate::attempt::{LONGEST_NAME, check_name};
use crate::builder::Builder;
use crate::send::{Commands, is_durable, is_weak};
use crate::time::{LONGEST, RESOLUTION, TimeMode};
use crate::{address, check};

/// Locks in MongoDB. Clones are one provider.
///
/// The server's clock judges leases unless told otherwise; whole milliseconds, rounded up. Any name
/// up to 16 KiB is accepted. Needs MongoDB 4.4 or later, and the role `readWrite` or the actions
/// `find`, `insert` and `update` on the collection. The crate page says what it was tested on.
#[derive(Clone)]
pub struct MongoProvider {
    inner: Arc<Inner>,
}

struct Inner {
    commands: Commands,
    defaults: LockDefaults,
    server_skew: Duration,
    identity: ProviderIdentity,
}

impl MongoProvider {
    /// In the collection `shedLock` of this database, as ShedLock has it; writes are acknowledged by
    /// a majority, whatever the database says.
    ///
    /// # Panics
    /// Never: the settings are those that are accepted.
    pub fn new(database: &Database) -> Self {
        Self::builder(database)
            .build()
            .expect("the settings as they are unless set are accepted")
    }

    /// With settings of one's own.
    pub fn builder(database: &Database) -> Builder {
        Builder::of_database(database.clone())
    }

    /// In a collection with the concerns that it has: a lock that is acknowledged by less than a
    /// majority can be taken twice after an election.
    ///
    /// ```no_run
    /// # fn example(client: &mongodb::Client) -> Result<(), shedlock_core::Error> {
    /// use mongodb::bson::Document;
    /// use shedlock_mongodb::MongoProvider;
    ///
    /// let locks = client.database("ops").collection::<Document>("locks");
    /// let provider = MongoProvider::of_collection(&locks).build()?;
    /// # drop(provider);
    /// # Ok(()) }
    /// ```
    pub fn of_collection<T: Send + Sync>(collection: &Collection<T>) -> Builder {
        Builder::of_collection(collection.clone_with_type::<Document>())
    }

    /// Connects to the servers that a URL names: `mongodb://user:password@host,host/database`, or
    /// `mongodb+srv://…`.
    ///
    /// | option | meaning | unless set |
    /// |---|---|---|
    /// | `collection` | where the locks are | `shedLock` |
    /// | `time` | whose clock judges: `store` or `client` | `store` |
    /// | `timeout` | how long an answer is waited for | `5s` |
    /// | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none | – |
    /// | `server_skew` | see [`Builder::server_skew`] | zero |
    ///
    /// Every other option is the driver's: TLS, credentials, `replicaSet`, `directConnection` and so
    /// on. Concerns in the URL are not used: writes are acknowledged by a majority. A connection and
    /// a primary are waited for no longer than 5 s, unless `connectTimeoutMS` and
    /// `serverSelectionTimeoutMS` say something else.
    ///
    /// # Errors
    /// `InvalidInput` for what is wrong with the URL, which is in no message; `Configuration` where
    /// the server does not let us in or is too old; `Unavailable` where there is none.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let provider = address::builder(url).await?.build()?;
        provider.check().await?;
        Ok(provider)
    }

    pub(crate) fn from_parts(
        commands: Commands,
        defaults: LockDefaults,
        server_skew: Duration,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                commands,
                defaults,
                server_skew,
                identity: ProviderIdentity::unique(),
            }),
        }
    }

    pub(crate) fn commands(&self) -> &Commands {
        &self.inner.commands
    }
}

impl LockProvider for MongoProvider {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(async move {
            self.try_attempt(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            self.try_withdraw(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        Box::pin(async move {
            self.try_extend(lease, request)
                .await
                .map_err(|error| context(error, lease.name()))
        })
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        Box::pin(async move {
            self.try_unlock(lease, request)
                .await
                .map_err(|error| context(error, lease.name()))
        })
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        Box::pin(async move {
            check_name(name).map_err(|error| context(error, name))?;
            let seen = self.commands().read(name).await;
            let seen = seen.map_err(|error| context(error, name))?;
            Ok(seen.map(|seen| seen.record(name)))
        })
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        Box::pin(async move {
            self.page(request)
                .await
                .map_err(|error| error.with_store(STORE))
        })
    }

    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForceUnlock, Error>> {
        Box::pin(async move {
            self.try_force_unlock(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn reset_slot<'a>(
        &'a self,
        request: &'a ResetSlotRequest,
    ) -> BoxFuture<'a, Result<SlotReset, Error>> {
        Box::pin(async move {
            self.try_reset_slot(request)
                .await
                .map_err(|error| context(error, request.name()))
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            check::check(self.commands())
                .await
                .map_err(|error| error.with_store(STORE))
        })
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(self.commands().time().source());
        capabilities.granularity = RESOLUTION;
        if self.commands().time() == TimeMode::Store {
            capabilities.server_skew = self.inner.server_skew;
        }
        capabilities.longest_lock_at_most_for = LONGEST;
        capabilities.longest_call = self.commands().longest_call();
        capabilities.longest_name = LONGEST_NAME;
        let concern = self.commands().collection().write_concern();
        capabilities.durable = is_durable(concern);
        capabilities.failover = match concern {
            Some(_) if is_weak(concern) => Failover::MayForget,
            Some(_) => Failover::Majority,
            // The server's default holds.
            None => Failover::Unspecified,
        };
        capabilities
    }

    fn identity(&self) -> ProviderIdentity {
        self.inner.identity.clone()
    }

    fn store(&self) -> &str {
        STORE
    }

    fn defaults(&self) -> LockDefaults {
        self.inner.defaults.clone()
    }

    /// MongoDB makes a collection when its first document is written.
    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async { Ok(Migration::default()) })
    }
}

const STORE: &str = "mongodb";

fn context(error: Error, name: &LockName) -> Error {
    error.with_lock(name.as_str()).with_store(STORE)
}

impl fmt::Debug for MongoProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoProvider")
            .field("commands", &self.inner.commands)
            .finish_non_exhaustive()
    }
}
