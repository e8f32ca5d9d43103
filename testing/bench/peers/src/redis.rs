//! Locks over Redis.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use dist_lock::core::{DistLock, LockConfig};
use dist_lock::provider::RedisDriver;
use distributed_lock_core::traits::LockProvider as _;
use distributed_lock_redis::RedisLockProvider;
use redis_of_dist_lock::Client;
use rslock::{Lock, LockError, LockManager};
use shedlock_bench_contender::{BoxFuture, Contestant, Worker};

use crate::advisory::Handled;

/// Long enough that no lease ends during the measurement.
const AT_MOST: Duration = Duration::from_secs(600);

/// `rslock`: Redlock, here over one server.
pub(crate) struct Red(LockManager);

impl Red {
    pub(crate) fn connect(url: &str) -> Self {
        let mut manager = LockManager::new(vec![url]);
        // One try, like all others.
        manager.set_retry(1, Duration::from_millis(1));
        Self(manager)
    }
}

impl Contestant for Red {
    fn worker<'a>(&'a mut self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>> {
        let worker = RedWorker {
            manager: self.0.clone(),
            name: format!("rslock:{name}"),
            held: None,
        };
        Box::pin(async { Ok(Box::new(worker) as Box<dyn Worker>) })
    }
}

struct RedWorker {
    manager: LockManager,
    name: String,
    held: Option<Lock>,
}

impl Worker for RedWorker {
    fn take(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
        Box::pin(async {
            self.held = match self.manager.lock(&*self.name, AT_MOST).await {
                Ok(lock) => Some(lock),
                // It returns the same error for a server that does not answer.
                Err(LockError::Unavailable) => None,
                Err(error) => return Err(error.into()),
            };
            Ok(self.held.is_some())
        })
    }

    fn free(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async {
            self.held.take().context("nothing is held")?.release().await;
            Ok(())
        })
    }
}

/// `dist_lock`, which reconnects for each call.
pub(crate) struct Dist(&'static Client);

impl Dist {
    pub(crate) fn connect(url: &str) -> anyhow::Result<Self> {
        // It borrows its client.
        Ok(Self(Box::leak(Box::new(Client::open(url)?))))
    }
}

impl Contestant for Dist {
    fn worker<'a>(&'a mut self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>> {
        let name = name.to_owned();
        let driver = RedisDriver::new(&name, self.0);
        let at_most = chrono::Duration::milliseconds(600_000);
        let config = LockConfig::new(name, chrono::Duration::zero(), at_most);
        let worker = DistWorker(Arc::new(DistLock::new(config, driver)));
        Box::pin(async { Ok(Box::new(worker) as Box<dyn Worker>) })
    }
}

struct DistWorker(Arc<DistLock<RedisDriver<'static, Client>>>);

impl Worker for DistWorker {
    fn take(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
        Box::pin(async { Ok(self.0.acquire().await.map_err(told)?) })
    }

    fn free(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async { Ok(self.0.release().await.map_err(told)?) })
    }
}

fn told(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("dist_lock failed: {error}")
}

/// `distributed-lock`, which keeps each held lock alive with a task.
pub(crate) struct Distributed(RedisLockProvider);

impl Distributed {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        Ok(Self(RedisLockProvider::builder().url(url).build().await?))
    }
}

impl Contestant for Distributed {
    fn worker<'a>(&'a mut self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>> {
        let lock = self.0.create_lock(&format!("distributed-lock:{name}"));
        let worker = Handled::new(lock);
        Box::pin(async { Ok(Box::new(worker) as Box<dyn Worker>) })
    }
}
