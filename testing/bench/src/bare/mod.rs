//! The baseline: the minimum that any lock over the same client must request, on one connection.
//!
//! Databases: prepared single-row UPDATEs by primary key, of the columns that a lock needs. They
//! decide nothing: they have no condition, do not read the server's time, and return nothing. Other
//! stores: the cheapest conditional write that takes a key, and the cheapest that gives it back
//! only if it still belongs to this owner. No lock over this client can be faster.

#[cfg(feature = "all-stores")]
#[path = "../../../../stores/consul/bench/bare.rs"]
mod consul;
#[cfg(feature = "all-stores")]
#[path = "../../../../stores/etcd/bench/bare.rs"]
mod etcd;
#[cfg(feature = "all-stores")]
#[path = "../../../../stores/mongodb/bench/bare.rs"]
mod mongodb;
#[cfg(feature = "all-stores")]
#[path = "../../../../stores/nats/bench/bare.rs"]
mod nats;
#[path = "../../../../stores/redis/bench/bare.rs"]
mod redis;
mod sql;
#[cfg(feature = "all-stores")]
#[path = "../../../../stores/zookeeper/bench/bare.rs"]
mod zookeeper;

use std::sync::Arc;

use anyhow::Context as _;
use shedlock_core::BoxFuture;
use tokio::sync::Mutex;

/// Connects to the server at a URL.
type Connect = fn(&str) -> BoxFuture<'_, anyhow::Result<Bare>>;

/// The stores without SQL, by the names of their servers.
const CLIENTS: &[(&str, Connect)] = &[
    ("redis", |at| open(redis::Redis::connect(at))),
    ("valkey", |at| open(redis::Redis::connect(at))),
    #[cfg(feature = "all-stores")]
    ("nats", |at| open(nats::Nats::connect(at))),
    #[cfg(feature = "all-stores")]
    ("zookeeper", |at| open(zookeeper::ZooKeeper::connect(at))),
    #[cfg(feature = "all-stores")]
    ("etcd", |at| open(etcd::Etcd::connect(at))),
    #[cfg(feature = "all-stores")]
    ("mongodb", |at| open(mongodb::MongoDb::connect(at))),
    #[cfg(feature = "all-stores")]
    ("consul", |at| open(consul::Consul::connect(at))),
];

/// A connection to the server of this store.
pub(crate) async fn connect(store: &str, server: &str) -> anyhow::Result<Bare> {
    let found = CLIENTS.iter().find(|(name, _)| *name == store);
    let (_, connect) = found.with_context(|| format!("this program was built without {store}"))?;
    connect(server).await
}

fn open<'a, C: Client + 'static>(
    connecting: impl Future<Output = anyhow::Result<C>> + Send + 'a,
) -> BoxFuture<'a, anyhow::Result<Bare>> {
    Box::pin(async { Ok(Bare::new(connecting.await?)) })
}

/// Whether something was written.
type Written<'a> = BoxFuture<'a, anyhow::Result<bool>>;

/// One connection of a store's own client.
pub(crate) trait Client: Send {
    /// Creates the record, free.
    fn create<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a>;

    /// Takes a free record.
    fn take<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a>;

    /// Gives back the record that was taken last.
    fn free<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a>;

    /// Like `take`, with a condition that does not hold: on a record that is taken.
    fn miss<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a>;
}

/// A connection and its use count. Clones share it, one at a time.
#[derive(Clone)]
pub(crate) struct Bare {
    client: Arc<Mutex<dyn Client>>,
    uses: u64,
}

/// The values that are written into the record at its nth use.
pub(crate) struct Values<'a> {
    name: &'a str,
    owner: String,
    n: u64,
}

impl Bare {
    pub(crate) fn new(client: impl Client + 'static) -> Self {
        Self {
            client: Arc::new(Mutex::new(client)),
            uses: 0,
        }
    }

    /// Creates the record.
    pub(crate) async fn create(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        expect(true, self.client.lock().await.create(&values).await?, name)
    }

    /// Writes the fields of a taken lock.
    pub(crate) async fn take(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        expect(true, self.client.lock().await.take(&values).await?, name)
    }

    /// Writes that the lock is free.
    pub(crate) async fn free(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        expect(true, self.client.lock().await.free(&values).await?, name)
    }

    /// Like [`Bare::take`], with a condition that does not hold.
    pub(crate) async fn miss(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        expect(false, self.client.lock().await.miss(&values).await?, name)
    }

    fn values<'a>(&mut self, name: &'a str) -> Values<'a> {
        self.uses += 1;
        Values {
            name,
            // As long as our owners.
            owner: format!("bench-host/4711/{:016x}", self.uses),
            n: self.uses,
        }
    }
}

fn expect(asked: bool, written: bool, name: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        written == asked,
        "the bare write on {name} should report {asked} for whether it has written, but reported \
         {written}"
    );
    Ok(())
}

impl Values<'_> {
    fn token(&self) -> i64 {
        i64::try_from(self.n).unwrap_or(i64::MAX)
    }

    /// Milliseconds since 1970: 2026, a millisecond later at each use.
    fn millis(&self) -> i64 {
        1_767_225_600_000 + self.token()
    }

    /// The same ten minutes later.
    fn end_millis(&self) -> i64 {
        self.millis() + 600_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    /// The others are SQL, or have no server.
    #[cfg(feature = "all-stores")]
    #[test]
    fn every_server_has_a_baseline() {
        let stores = Store::all().iter().filter(|store| !store.is_sql());
        for store in stores.filter(|store| **store != Store::MEMORY) {
            let is_known = CLIENTS.iter().any(|(name, _)| *name == store.name());
            assert!(is_known, "testing/bench/src/bare has no {}", store.name());
        }
    }
}
