//! A provider, the keys of a lock, and ShedLock's own operations on them.

use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, KeyValue, PutOptions, Txn, TxnOp};
use shedlock_conformance::support::unique;
use shedlock_core::{Attempt, AttemptRequest, Lease, LockName, LockProvider, Owner, Skip};
use shedlock_etcd::EtcdProvider;
use shedlock_rig::given::server;

use super::endpoint;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A provider and the keys of a lock, in an environment of its own.
pub(crate) struct Room {
    pub(crate) provider: EtcdProvider,
    pub(crate) admin: Client,
    pub(crate) lock: String,
    pub(crate) kept: String,
}

impl Room {
    /// Creates a room on the shared server.
    pub(crate) async fn new() -> Self {
        Self::at(&server("etcd")).await
    }

    pub(crate) async fn at(server: &str) -> Self {
        let environment = unique("room");
        let client = Client::connect([endpoint(server)], None).await.unwrap();
        let provider = EtcdProvider::builder(client.clone()).environment(&*environment);
        let lock = format!("shedlock:{environment}:job");
        Self {
            provider: provider.build().unwrap(),
            admin: client,
            kept: format!("shedlock-rs:{lock}"),
            lock,
        }
    }

    pub(crate) fn environment(&self) -> &str {
        let rest = self.lock.strip_prefix("shedlock:").unwrap();
        rest.strip_suffix(":job").unwrap()
    }

    pub(crate) fn request(&self) -> AttemptRequest {
        AttemptRequest::new(LockName::new("job").unwrap(), Owner::generate(), MINUTE)
    }

    pub(crate) async fn take(&self) -> Lease {
        match self.provider.attempt(&self.request()).await.unwrap() {
            Attempt::Acquired(lease) => lease,
            other => panic!("the lock should be free: {other:?}"),
        }
    }

    pub(crate) async fn skipped(&self) -> Skip {
        match self.provider.attempt(&self.request()).await.unwrap() {
            Attempt::Skipped(skip) => skip,
            other => panic!("the lock should be taken: {other:?}"),
        }
    }

    pub(crate) async fn key(&self, key: &str) -> Option<KeyValue> {
        let found = self.admin.clone().get(key, None).await.unwrap();
        found.kvs().first().cloned()
    }

    pub(crate) async fn value(&self, key: &str) -> Option<String> {
        let found = self.key(key).await?;
        Some(found.value_str().unwrap().to_owned())
    }

    /// Returns the lease that the lock's own key is attached to, and the number of seconds it was
    /// granted for.
    pub(crate) async fn lease(&self) -> (i64, i64) {
        self.lease_if_any().await.unwrap()
    }

    /// The same; `None` if it has ended.
    pub(crate) async fn lease_if_any(&self) -> Option<(i64, i64)> {
        let id = self.key(&self.lock).await?.lease();
        let found = self.admin.clone().lease_time_to_live(id, None).await;
        let found = found.unwrap();
        (found.ttl() >= 0).then(|| (id, found.granted_ttl()))
    }

    /// ShedLock's steps to take a lock: grant a lease, put the key if it does not exist, otherwise
    /// read it.
    pub(crate) async fn shedlock_takes(&self, seconds: i64) -> Option<i64> {
        let mut java = self.admin.clone();
        let lease = java.lease_grant(seconds, None).await.unwrap().id();
        let options = PutOptions::new().with_lease(lease);
        let value = "ADDED:2026-01-01T00:00:00.000Z@java-host";
        let txn = Txn::new()
            .when([Compare::version(&*self.lock, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(&*self.lock, value, Some(options))])
            .or_else([TxnOp::get(&*self.lock, None)]);
        if java.txn(txn).await.unwrap().succeeded() {
            return Some(lease);
        }
        java.lease_revoke(lease).await.unwrap();
        None
    }

    /// ShedLock's steps to keep a lock for its at-least, whichever owner holds it.
    pub(crate) async fn shedlock_keeps(&self, seconds: i64) {
        let mut java = self.admin.clone();
        let lease = java.lease_grant(seconds, None).await.unwrap().id();
        let options = PutOptions::new().with_lease(lease);
        let value = "ADDED:2026-01-01T00:00:09.000Z@java-host";
        java.put(&*self.lock, value, Some(options)).await.unwrap();
    }
}
