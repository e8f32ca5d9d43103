//! A provider of ours.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use shedlock_core::{
    Attempt, AttemptRequest, Lease, LockName, LockProvider, Owner, Unlock, UnlockRequest,
};

use crate::{BoxFuture, Contestant, Worker};

/// Long enough that no lease ends during the measurement.
pub const AT_MOST: Duration = Duration::from_secs(600);

/// Each attempt with its own owner.
pub struct Ours(pub Arc<dyn LockProvider>);

impl Contestant for Ours {
    fn worker<'a>(&'a mut self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>> {
        Box::pin(async move {
            let worker: Box<dyn Worker> = Box::new(Own {
                provider: Arc::clone(&self.0),
                name: LockName::new(name)?,
                held: None,
            });
            Ok(worker)
        })
    }
}

struct Own {
    provider: Arc<dyn LockProvider>,
    name: LockName,
    held: Option<Lease>,
}

impl Worker for Own {
    fn take(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
        Box::pin(async {
            let request = AttemptRequest::new(self.name.clone(), Owner::generate(), AT_MOST);
            self.held = match self.provider.attempt(&request).await? {
                Attempt::Acquired(lease) => Some(lease),
                Attempt::Skipped(_) => None,
                other => bail!("expected a lease or a skip, got {other:?}"),
            };
            Ok(self.held.is_some())
        })
    }

    fn free(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async {
            let held = self.held.take().context("nothing is held")?;
            give_back(&*self.provider, &held).await
        })
    }
}

/// The unlock of a running lease.
///
/// # Errors
/// The provider's, and that the lease is lost.
pub async fn give_back(provider: &dyn LockProvider, lease: &Lease) -> anyhow::Result<()> {
    match provider.unlock(lease, &UnlockRequest::new()).await? {
        Unlock::Unlocked => Ok(()),
        other => bail!("{} could not be unlocked: {other:?}", lease.name()),
    }
}
