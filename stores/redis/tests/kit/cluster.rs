//! The laws' harness over a cluster, which is started when the first case needs it.

use std::sync::Arc;

use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cmd;
use shedlock_conformance::support::unique;
use shedlock_conformance::{
    BoxError, Cost, Harness, JavaRecord, Namespace, OptionalAction, Provider, action,
};
use shedlock_core::{BoxFuture, Clock, LockName};
use shedlock_redis::RedisProvider;
use shedlock_torture::TortureNamespace;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::record;
use crate::common::clustered::Clustered;
use crate::common::own::Own;

#[derive(Default)]
pub(crate) struct OnCluster {
    pub(crate) cluster: OnceCell<Clustered>,
}

impl Harness for OnCluster {
    fn name(&self) -> &str {
        "redis-cluster"
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            // Its future cannot move between threads.
            let start = async || {
                let start = || Handle::current().block_on(Clustered::start());
                tokio::task::block_in_place(start)
            };
            let cluster = self.cluster.get_or_try_init(start).await?;
            let servers = cluster.servers.iter().map(Own::url);
            Ok(Arc::new(Room {
                client: ClusterClient::new(servers)?,
                url: cluster.url(),
                environment: unique("space"),
            }) as Arc<dyn Namespace>)
        })
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(open(spec.to_owned()))
    }

    /// Each call is one script. If the server's time is not known yet, the attempt is sent a second
    /// time.
    fn cost(&self) -> Cost {
        Cost {
            won: 1,
            first: 2,
            lost: 1,
            extend: 1,
            unlock: 1,
        }
    }
}

/// A namespace with its own environment. It is discarded with the servers.
pub(crate) struct Room {
    client: ClusterClient,
    url: String,
    environment: String,
}

impl Room {
    fn key(&self, name: &LockName) -> String {
        format!("job-lock:{}:{name}", self.environment)
    }

    async fn admin(&self) -> Result<ClusterConnection, BoxError> {
        Ok(self.client.get_async_connection().await?)
    }

    fn spec(&self) -> String {
        format!("{}?environment={}", self.url, self.environment)
    }
}

async fn open(url: String) -> Result<Provider, BoxError> {
    Ok(Arc::new(RedisProvider::connect(&url).await?))
}

impl Namespace for Room {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(open(self.spec()))
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async move {
            let mut admin = self.admin().await?;
            let key = self.key(name);
            let beside = format!("shedlock-rs:{{{key}}}");
            let mut delete = cmd("DEL");
            let _: u64 = delete.arg(key).arg(beside).query_async(&mut admin).await?;
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async move {
            let mut admin = self.admin().await?;
            record::write(&mut admin, &self.key(name), record).await
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async move {
            let mut admin = self.admin().await?;
            record::read(&mut admin, &self.key(name)).await
        })
    }

    /// The client has no clock that could be wrong.
    fn provider_with_clock(&self, _clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        Some(self.provider())
    }

    fn child_spec(&self) -> Option<String> {
        Some(self.spec())
    }
}

impl TortureNamespace for Room {}
