//! The baseline: the least that any lock over the same client would have to ask for, on one
//! connection.
//!
//! Databases: prepared single-row UPDATEs by primary key, of the columns that a lock needs, which
//! decide nothing: no condition, no time of the server, nothing comes back. Other stores: the
//! cheapest conditional write that takes a key, and the cheapest that gives it back only if it is
//! still the own one. No lock over this client can be faster.

#[cfg(feature = "all-stores")]
mod consul;
#[cfg(feature = "all-stores")]
mod etcd;
#[cfg(feature = "all-stores")]
mod mongodb;
#[cfg(feature = "all-stores")]
mod nats;
mod redis;
mod sql;
#[cfg(feature = "all-stores")]
mod zookeeper;

use std::sync::Arc;

use shedlock_core::BoxFuture;
use tokio::sync::Mutex;

#[cfg(feature = "all-stores")]
pub(crate) use consul::Consul;
#[cfg(feature = "all-stores")]
pub(crate) use etcd::Etcd;
#[cfg(feature = "all-stores")]
pub(crate) use mongodb::MongoDb;
#[cfg(feature = "all-stores")]
pub(crate) use nats::Nats;
pub(crate) use redis::Redis;
#[cfg(feature = "all-stores")]
pub(crate) use zookeeper::ZooKeeper;

/// Whether something was written.
type Written<'a> = BoxFuture<'a, anyhow::Result<bool>>;

/// One connection of a store's own client.
pub(crate) trait Client: Send {
    /// Makes the record, free.
    fn create<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a>;

    /// Takes a free one.
    fn take<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a>;

    /// Gives back what was taken last.
    fn free<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a>;

    /// As taking, under a condition that does not hold: on a record that is taken.
    fn miss<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a>;
}

/// A connection and how often it was used. Clones share it, and take turns.
#[derive(Clone)]
pub(crate) struct Bare {
    client: Arc<Mutex<dyn Client>>,
    uses: u64,
}

/// What is written into the record at its nth use.
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

    /// Makes the record.
    pub(crate) async fn create(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        expect(true, self.client.lock().await.create(&values).await?, name)
    }

    /// Writes what a taken lock has.
    pub(crate) async fn take(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        expect(true, self.client.lock().await.take(&values).await?, name)
    }

    /// Writes that the lock is free.
    pub(crate) async fn free(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        expect(true, self.client.lock().await.free(&values).await?, name)
    }

    /// As [`Bare::take`], under a condition that does not hold.
    pub(crate) async fn miss(&mut self, name: &str) -> anyhow::Result<()> {
        let values = self.values(name);
        expect(false, self.client.lock().await.miss(&values).await?, name)
    }

    fn values<'a>(&mut self, name: &'a str) -> Values<'a> {
        self.uses += 1;
        Values {
            name,
            // As long as an owner of ours.
            owner: format!("bench-host/4711/{:016x}", self.uses),
            n: self.uses,
        }
    }
}

fn expect(asked: bool, written: bool, name: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        written == asked,
        "the bare write on {name} should answer {asked} to whether it has written, and said {written}"
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
