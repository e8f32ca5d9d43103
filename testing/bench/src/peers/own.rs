//! Our contenders, from inside: the provider, and the bare statements.

use std::env;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use shedlock_bench_contender::{BoxFuture, Contestant, Worker};
use shedlock_core::{Attempt, AttemptRequest, Lease, LockName, LockProvider, Owner};

use super::contender::{Contender, URL};
use crate::bare::Bare;
use crate::provider::{AT_MOST, give_back};
use crate::site::Site;
use crate::store::Store;

/// Runs rounds until standard input ends.
pub(crate) async fn serve(who: &str, store: Store, connections: usize) -> anyhow::Result<()> {
    let url = env::var(URL).with_context(|| format!("{URL} is not set"))?;
    let site = Site::at(store, url);
    let client = client(store);
    match Contender::of_key(who) {
        Some(Contender::Ours) => {
            let provider = site.provider(connections).await?;
            shedlock_bench_contender::serve(Ours(provider), client).await
        }
        Some(Contender::OursDurable) => {
            let connections = connections.to_string();
            let options = [
                ("max_connections", &*connections),
                ("durable_unlock", "true"),
            ];
            let provider = site.provider_with(&options).await?;
            shedlock_bench_contender::serve(Ours(provider), client).await
        }
        Some(Contender::Bare) => shedlock_bench_contender::serve(Least(site), client).await,
        _ => bail!("{who} is not one of our contenders"),
    }
}

/// The client that both are built on.
fn client(store: Store) -> &'static str {
    if store.is_sql() {
        "sqlx 0.9"
    } else {
        "redis 1"
    }
}

struct Ours(Arc<dyn LockProvider>);

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

struct Least(Site);

impl Contestant for Least {
    fn worker<'a>(&'a mut self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Box<dyn Worker>>> {
        Box::pin(async move {
            let mut bare = self.0.bare().await?;
            bare.create(name).await?;
            let name = name.to_owned();
            let worker: Box<dyn Worker> = Box::new(LeastWorker { bare, name });
            Ok(worker)
        })
    }
}

struct LeastWorker {
    bare: Bare,
    name: String,
}

impl Worker for LeastWorker {
    fn take(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
        Box::pin(async {
            self.bare.take(&self.name).await?;
            Ok(true)
        })
    }

    fn free(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.bare.free(&self.name))
    }
}
