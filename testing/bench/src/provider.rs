//! Our sides: the provider called directly, and through the executor.

use std::sync::Arc;

use anyhow::{Context as _, bail};
pub(crate) use shedlock_bench_contender::{AT_MOST, give_back};
use shedlock_core::{
    Attempt, AttemptRequest, BoxFuture, Executor, Lease, LockConfig, LockName, LockProvider,
    Outcome, Owner, Release,
};

use crate::bare::Bare;
use crate::rounds::Worker;

/// Attempt and unlock, through the provider alone.
pub(crate) struct Direct {
    provider: Arc<dyn LockProvider>,
    name: LockName,
}

impl Direct {
    pub(crate) fn new(provider: &Arc<dyn LockProvider>, name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            provider: Arc::clone(provider),
            name: LockName::new(name)?,
        })
    }
}

impl Worker for Direct {
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async {
            let lease = take(&*self.provider, &self.name).await?;
            give_back(&*self.provider, &lease).await
        })
    }
}

/// An empty task under the lock.
pub(crate) struct Executed {
    executor: Executor,
    config: LockConfig,
}

impl Executed {
    pub(crate) fn new(provider: &Arc<dyn LockProvider>, name: &str) -> Self {
        Self {
            executor: Executor::new(Arc::clone(provider)),
            config: LockConfig::new(name).lock_at_most_for(AT_MOST),
        }
    }
}

impl Worker for Executed {
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async {
            match self.executor.execute(&self.config, async {}).await? {
                Outcome::Executed {
                    release: Release::Released,
                    ..
                } => Ok(()),
                other => bail!("expected a run, got {other:?}"),
            }
        })
    }
}

/// Attempts at a lock that another owner holds.
pub(crate) struct Losing {
    provider: Arc<dyn LockProvider>,
    name: LockName,
}

impl Losing {
    pub(crate) fn new(provider: &Arc<dyn LockProvider>, name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            provider: Arc::clone(provider),
            name: LockName::new(name)?,
        })
    }
}

impl Worker for Losing {
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(lose(&*self.provider, &self.name))
    }
}

/// The two bare writes of a pair.
pub(crate) struct BarePair {
    pub(crate) bare: Bare,
    pub(crate) name: String,
}

impl Worker for BarePair {
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async {
            self.bare.take(&self.name).await?;
            self.bare.free(&self.name).await
        })
    }
}

/// A bare write that changes nothing.
pub(crate) struct BareMiss {
    pub(crate) bare: Bare,
    pub(crate) name: String,
}

impl Worker for BareMiss {
    fn step(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.bare.miss(&self.name))
    }
}

/// An attempt that wins.
pub(crate) async fn take(provider: &dyn LockProvider, name: &LockName) -> anyhow::Result<Lease> {
    let request = AttemptRequest::new(name.clone(), Owner::generate(), AT_MOST);
    let attempt = provider.attempt(&request).await?;
    attempt
        .acquired()
        .with_context(|| format!("{name} was held by another owner"))
}

/// An attempt that loses.
pub(crate) async fn lose(provider: &dyn LockProvider, name: &LockName) -> anyhow::Result<()> {
    let request = AttemptRequest::new(name.clone(), Owner::generate(), AT_MOST);
    match provider.attempt(&request).await? {
        Attempt::Skipped(_) => Ok(()),
        other => bail!("{name} should be held by another owner, got {other:?}"),
    }
}
