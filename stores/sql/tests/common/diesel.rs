//! Pools of diesel-async, as an application would pass them.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ::diesel::ConnectionError;
use shedlock_conformance::LeftOpen;
use shedlock_core::{BoxFuture, SystemClock, within};
use shedlock_diesel_async::diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod, bb8, deadpool, mobc,
};
use shedlock_diesel_async::diesel_async::{
    AsyncConnection as _, AsyncMysqlConnection, AsyncPgConnection, SimpleAsyncConnection as _,
};
use shedlock_diesel_async::{ConnectionSource, Connections};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What an application does in a transaction that it leaves open.
pub(crate) type Texts = [&'static str; 2];

/// How long an application waits for a connection to open.
const LOGIN: Duration = Duration::from_secs(5);

/// Pools that do not test a connection when they lend it: the kit counts round trips. That of mobc is larger, because each
/// statement opens a connection there, and that takes time.
macro_rules! pools {
    ($name:ident, $connection:ty) => {
        pub(crate) mod $name {
            use super::*;

            fn manager(url: &str) -> AsyncDieselConnectionManager<$connection> {
                let mut config = ManagerConfig::default();
                config.recycling_method = RecyclingMethod::Fast;
                // bb8 waits for a login without a limit, and counts it as a connection.
                config.custom_setup = Box::new(|url| {
                    let url = url.to_owned();
                    Box::pin(async move {
                        let establish = <$connection>::establish(&url);
                        let established = within(&SystemClock, LOGIN, establish).await;
                        established.unwrap_or_else(|| {
                            Err(ConnectionError::BadConnection("timed out".to_owned()))
                        })
                    })
                });
                AsyncDieselConnectionManager::new_with_config(url, config)
            }

            pub(crate) fn bb8(url: &str, size: u32) -> bb8::Pool<$connection> {
                let pool = bb8::Pool::builder().max_size(size).test_on_check_out(false);
                pool.build_unchecked(manager(url))
            }

            pub(crate) fn deadpool(url: &str) -> Result<deadpool::Pool<$connection>, BoxError> {
                Ok(deadpool::Pool::builder(manager(url)).max_size(4).build()?)
            }

            pub(crate) fn mobc(url: &str) -> mobc::Pool<$connection> {
                mobc::Pool::builder().max_open(8).build(manager(url))
            }

            /// A pool that lends connections inside transactions.
            #[derive(Clone)]
            pub(crate) struct LeftOpenConnections {
                pool: bb8::Pool<$connection>,
                begin: Texts,
                /// Every connection.
                is_always: Arc<AtomicBool>,
                /// Every 40th one.
                uses: Option<Arc<AtomicU32>>,
            }

            impl LeftOpenConnections {
                fn begins(&self) -> bool {
                    let is_one_of_many =
                        |uses: &Arc<AtomicU32>| uses.fetch_add(1, Ordering::Relaxed) % 40 == 0;
                    self.is_always.load(Ordering::SeqCst)
                        || self.uses.as_ref().is_some_and(is_one_of_many)
                }
            }

            impl ConnectionSource for LeftOpenConnections {
                type Connection = $connection;
                type Lent = bb8::PooledConnection<'static, $connection>;

                async fn lend(&self) -> Result<Self::Lent, BoxError> {
                    let mut lent = self.pool.get_owned().await?;
                    if self.begins() {
                        // Its table may be missing.
                        let _ = begin(&mut lent, self.begin).await;
                    }
                    Ok(lent)
                }
            }

            async fn begin(connection: &mut $connection, texts: Texts) -> Result<(), BoxError> {
                for text in texts {
                    connection.batch_execute(text).await?;
                }
                Ok(())
            }

            /// The connections of a provider's URL, whose way is given after `by=diesel-`.
            pub(crate) fn by(
                way: &str,
                url: &str,
                texts: Texts,
            ) -> Result<Connections<$connection>, BoxError> {
                Ok(match way {
                    "bb8" => bb8(url, 4).into(),
                    "deadpool" => deadpool(url)?.into(),
                    "mobc" => mobc(url).into(),
                    _ => LeftOpenConnections {
                        pool: bb8(url, 2),
                        begin: texts,
                        is_always: Arc::default(),
                        uses: Some(Arc::default()),
                    }
                    .into(),
                })
            }

            /// A pool of two connections that can be left in transactions, and its provider.
            pub(crate) fn left_open(
                url: &str,
                texts: Texts,
                provider: impl FnOnce(
                    LeftOpenConnections,
                ) -> Result<shedlock_conformance::Provider, BoxError>,
            ) -> Result<LeftOpen, BoxError> {
                let pool = bb8(url, 2);
                let is_always = Arc::new(AtomicBool::new(false));
                let provider = provider(LeftOpenConnections {
                    pool: pool.clone(),
                    begin: texts,
                    is_always: Arc::clone(&is_always),
                    uses: None,
                })?;
                let leave = move || -> BoxFuture<'static, Result<(), BoxError>> {
                    let pool = pool.clone();
                    Box::pin(async move {
                        let (mut one, mut other) = (pool.get().await?, pool.get().await?);
                        for connection in [&mut *one, &mut *other] {
                            // One that came back late may still be in the transaction of before.
                            let _ = connection.batch_execute("ROLLBACK").await;
                            begin(connection, texts).await?;
                        }
                        Ok(())
                    })
                };
                let always = move || is_always.store(true, Ordering::SeqCst);
                Ok(LeftOpen::new(provider, leave, always))
            }
        }
    };
}

pools!(postgres, AsyncPgConnection);
pools!(mysql, AsyncMysqlConnection);

/// Providers over MySQL and MariaDB for the harness, which has a twin without diesel.
pub(crate) mod over_mysql {
    use shedlock_conformance::{Provider, Work};
    use shedlock_core::Clock;
    use shedlock_diesel_async::MySqlProvider;

    use super::*;

    pub(crate) fn with_clock(url: &str, clock: Arc<dyn Clock>) -> Result<Provider, BoxError> {
        let builder = MySqlProvider::builder(mysql::bb8(url, 4)).clock(clock);
        Ok(Arc::new(builder.build()?))
    }

    pub(crate) async fn inside_rolled_back(url: &str, work: Work) -> Result<(), BoxError> {
        let pool = mysql::bb8(url, 2);
        let provider = MySqlProvider::new(pool.clone());
        let mut connection = pool.get().await?;
        connection.batch_execute("BEGIN").await?;
        work(Arc::new(provider)).await;
        connection.batch_execute("ROLLBACK").await?;
        Ok(())
    }

    pub(crate) fn left_open(url: &str, texts: Texts) -> Result<LeftOpen, BoxError> {
        mysql::left_open(url, texts, |pool| Ok(Arc::new(MySqlProvider::new(pool))))
    }

    pub(crate) fn by(way: &str, url: &str, texts: Texts) -> Result<Provider, BoxError> {
        let connections = mysql::by(way, url, texts)?;
        Ok(Arc::new(MySqlProvider::new(connections)))
    }
}

/// The way of a URL for the harness, `by=diesel-…`, and the URL without it.
pub(crate) fn way(url: &str) -> Option<(String, &str)> {
    let (before, way) = url.split_once("by=diesel-")?;
    let before = before.trim_end_matches(['&', '?']);
    Some((before.to_owned(), way))
}
