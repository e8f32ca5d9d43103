//! Our contenders, from inside: the provider, and the bare statements.

use std::env;

use anyhow::{Context as _, bail};
use shedlock_bench_contender::{BoxFuture, Contestant, Ours, Worker};

use super::contender::{Contender, URL};
use crate::bare::Bare;
use crate::site::Site;
use crate::store::Store;

/// Runs rounds until standard input ends.
pub(crate) async fn serve(who: &str, store: Store, connections: usize) -> anyhow::Result<()> {
    let url = env::var(URL).with_context(|| format!("{URL} is not set"))?;
    let site = Site::at(store, url);
    let client = if store.is_sql() {
        "sqlx 0.9"
    } else {
        "redis 1"
    };
    let (provider, client) = match Contender::of_key(who) {
        Some(Contender::Bare) => {
            return shedlock_bench_contender::serve(Least(site), client).await;
        }
        Some(Contender::Ours) => (site.provider(connections).await?, client),
        Some(Contender::OursDurable) => {
            let connections = connections.to_string();
            let options = [
                ("max_connections", &*connections),
                ("durable_unlock", "true"),
            ];
            (site.provider_with(&options).await?, client)
        }
        Some(Contender::OursDeadpool) => (
            site.deadpool_provider(connections)?,
            "tokio-postgres 0.7, deadpool-postgres 0.14",
        ),
        Some(Contender::OursDiesel) => (
            site.diesel_provider(connections)?,
            "diesel-async 0.9, bb8 0.9",
        ),
        _ => bail!("{who} is not one of our contenders"),
    };
    shedlock_bench_contender::serve(Ours(provider), client).await
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
