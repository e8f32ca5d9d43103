//! A cluster of three primaries, and a replica of the first.

use std::path::PathBuf;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, cmd};
use shedlock_conformance::BoxError;
use shedlock_rig::given::program;
use shedlock_rig::port;

use super::own::Own;
use super::{connection, info, until};

pub(crate) struct Clustered {
    /// The last one is the replica.
    pub(crate) servers: Vec<Own>,
}

/// The first slots of the three primaries, and the end.
const BOUNDS: [u32; 4] = [0, 5_461, 10_923, 16_384];

impl Clustered {
    /// Starts its servers.
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let program = program("redis-server", "redis");
        let mut servers = Vec::new();
        let mut buses = Vec::new();
        for _ in 0..4 {
            let bus = port::free()?.to_string();
            servers.push(server(program.clone(), &bus).await?);
            buses.push(bus);
        }
        let cluster = Self { servers };
        for (i, bounds) in BOUNDS.windows(2).enumerate() {
            let (first, last) = (bounds[0].to_string(), (bounds[1] - 1).to_string());
            cluster
                .ask::<()>(i, &["ADDSLOTSRANGE", &first, &last])
                .await?;
        }
        for (server, bus) in cluster.servers.iter().zip(&buses).skip(1) {
            let port = server.port().to_string();
            cluster
                .ask::<()>(0, &["MEET", "127.0.0.1", &port, bus])
                .await?;
        }
        let primary: String = cluster.ask(0, &["MYID"]).await?;
        until("the replica knows its primary", async || {
            Ok(cluster.ask::<()>(3, &["REPLICATE", &primary]).await.is_ok())
        })
        .await?;
        cluster.is_whole().await?;
        Ok(cluster)
    }

    /// Waits until each server considers the cluster complete.
    pub(crate) async fn is_whole(&self) -> Result<(), BoxError> {
        for i in 0..self.servers.len() {
            until("the cluster is whole", async || {
                let info: String = self.ask(i, &["INFO"]).await?;
                let nodes: String = self.ask(i, &["NODES"]).await?;
                let has_replica = nodes.lines().any(|line| line.contains("slave"));
                let words = [
                    "cluster_state:ok",
                    "cluster_known_nodes:4",
                    "cluster_size:3",
                ];
                Ok(has_replica && words.iter().all(|word| info.contains(word)))
            })
            .await?;
        }
        until("the replica has caught up", async || {
            let replica = &self.servers[self.servers.len() - 1];
            let replication = info(&replica.admin()?, "replication").await?;
            Ok(replication.contains("master_link_status:up"))
        })
        .await
    }

    /// Sends `CLUSTER …` to a server and returns its reply.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        server: usize,
        words: &[&str],
    ) -> Result<T, BoxError> {
        let mut connection = self.connection(server).await?;
        let mut command = cmd("CLUSTER");
        Ok(command.arg(words).query_async(&mut connection).await?)
    }

    /// A connection to one server only.
    pub(crate) async fn connection(
        &self,
        server: usize,
    ) -> Result<MultiplexedConnection, BoxError> {
        let client = self.servers[server].admin()?;
        Ok(connection(&client).await?)
    }

    /// The URL as a user would write it.
    pub(crate) fn url(&self) -> String {
        let hosts = self
            .servers
            .iter()
            .map(|it| format!("127.0.0.1:{}", it.port()));
        let hosts: Vec<_> = hosts.collect();
        format!("redis-cluster://{}", hosts.join(","))
    }
}

async fn server(program: PathBuf, bus: &str) -> Result<Own, BoxError> {
    let settings = [
        ["--cluster-enabled", "yes"],
        ["--cluster-port", bus],
        ["--cluster-node-timeout", "5000"],
        ["--cluster-require-full-coverage", "no"],
    ];
    Own::start(program, settings.as_flattened()).await
}
