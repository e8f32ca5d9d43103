//! A primary and a replica, monitored by sentinels.

use shedlock_conformance::BoxError;
use shedlock_rig::given::program;

use super::own::Own;
use super::{has_caught_up, info, until};

pub(crate) struct Watched {
    pub(crate) primary: Own,
    pub(crate) replica: Own,
    pub(crate) sentinels: Vec<Own>,
}

/// The password of the servers and the sentinels.
pub(crate) const PASSWORD: &str = "p@ss/word";
pub(crate) const SENTINELS_PASSWORD: &str = "watch&see";

impl Watched {
    /// Starts the servers and this many sentinels. Waits until the replica has caught up and each
    /// sentinel has discovered all others.
    pub(crate) async fn start(sentinels: usize) -> Result<Self, BoxError> {
        let program = program("redis-server", "redis");
        let asks = ["--requirepass", PASSWORD, "--masterauth", PASSWORD];
        let primary = Own::start(program.clone(), &asks).await?;
        let source = format!("127.0.0.1 {}", primary.port());
        let mut settings = asks.to_vec();
        settings.extend(["--replicaof", &source]);
        let replica = Own::start(program.clone(), &settings).await?;
        let mut watched = Self {
            primary,
            replica,
            sentinels: Vec::new(),
        };
        until("the replica has caught up", async || {
            let replication = info(&watched.replica.admin()?, "replication").await?;
            Ok(replication.contains("master_link_status:up"))
        })
        .await?;
        // One sentinel alone watches a server that nothing stops.
        let down_after = if sentinels == 1 { 60_000 } else { 3_000 };
        let file = format!(
            "requirepass {SENTINELS_PASSWORD}\n\
             sentinel sentinel-pass {SENTINELS_PASSWORD}\n\
             sentinel monitor mymaster {source} {}\n\
             sentinel auth-pass mymaster {PASSWORD}\n\
             sentinel down-after-milliseconds mymaster {down_after}\n\
             sentinel failover-timeout mymaster 4000\n",
            sentinels / 2 + 1
        );
        for _ in 0..sentinels {
            let sentinel = Own::start_sentinel(program.clone(), &file).await?;
            watched.sentinels.push(sentinel);
        }
        for sentinel in &watched.sentinels {
            let all = format!("slaves=1,sentinels={sentinels}");
            until("the sentinels know of each other", async || {
                Ok(info(&sentinel.admin()?, "sentinel").await?.contains(&all))
            })
            .await?;
        }
        Ok(watched)
    }

    /// The URL of this primary through its sentinels, as a user would write it.
    pub(crate) fn url(&self) -> String {
        let hosts = self
            .sentinels
            .iter()
            .map(|it| format!("127.0.0.1:{}", it.port()));
        let hosts: Vec<_> = hosts.collect();
        format!(
            "redis-sentinel://:p%40ss%2Fword@{}/mymaster/0?sentinel_password=watch%26see",
            hosts.join(",")
        )
    }

    /// Waits until the replica has received all writes.
    pub(crate) async fn is_replicated(&self) -> Result<(), BoxError> {
        has_caught_up(&self.primary.admin()?, "mark").await
    }
}
