//! A primary and its replica, without sentinels.

use redis::cmd;
use shedlock_conformance::BoxError;
use shedlock_rig::given::program;

use super::own::Own;
use super::{connection, has_caught_up};

pub(crate) struct Pair {
    pub(crate) primary: Own,
    pub(crate) replica: Own,
}

impl Pair {
    /// Starts both and waits until the replica has caught up.
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let program = program("redis-server", "redis");
        let primary = Own::start(program.clone(), &[]).await?;
        let source = format!("127.0.0.1 {}", primary.port());
        let replica = Own::start(program, &["--replicaof", &source]).await?;
        let pair = Self { primary, replica };
        pair.has_caught_up().await?;
        Ok(pair)
    }

    /// Waits until the replica confirms writes.
    pub(crate) async fn has_caught_up(&self) -> Result<(), BoxError> {
        has_caught_up(&self.primary.admin()?, "mark").await
    }

    /// Cuts the replica off, as if the network were down.
    pub(crate) async fn cut(&self) -> Result<(), BoxError> {
        self.to_replica(&["REPLICAOF", "127.0.0.1", "1"]).await
    }

    /// Promotes the replica, as a failover does.
    pub(crate) async fn promote(&self) -> Result<(), BoxError> {
        self.to_replica(&["REPLICAOF", "NO", "ONE"]).await
    }

    async fn to_replica(&self, words: &[&str]) -> Result<(), BoxError> {
        let client = self.replica.admin()?;
        let mut replica = connection(&client).await?;
        let mut command = cmd(words[0]);
        Ok(command.arg(&words[1..]).query_async(&mut replica).await?)
    }
}
