//! Bare commands on Redis and Valkey: the textbook lock, which is `SET NX PX` and a script that deletes the key if it
//! still contains the caller's own value.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::cmd;

use super::{Client, Values, Written};

const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                       return redis.call('DEL', KEYS[1])";

/// One connection.
pub(crate) struct Redis {
    connection: MultiplexedConnection,
    release: String,
    /// The owner of each lock.
    owners: HashMap<String, String>,
}

impl Redis {
    pub(crate) async fn connect(server: &str) -> anyhow::Result<Self> {
        let mut connection = redis::Client::open(server)?
            .get_multiplexed_async_connection()
            .await?;
        let mut load = cmd("SCRIPT");
        let release = load.arg("LOAD").arg(RELEASE);
        Ok(Self {
            release: release.query_async(&mut connection).await?,
            connection,
            owners: HashMap::new(),
        })
    }

    async fn set(&mut self, values: &Values<'_>) -> anyhow::Result<bool> {
        let mut set = cmd("SET");
        set.arg(values.name).arg(&values.owner);
        set.arg("NX").arg("PX").arg(600_000);
        let answer: Option<String> = set.query_async(&mut self.connection).await?;
        Ok(answer.is_some())
    }
}

impl Client for Redis {
    /// A free lock has no key, so this deletes the key.
    fn create<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(async {
            let mut delete = cmd("DEL");
            let delete = delete.arg(values.name);
            let _: u64 = delete.query_async(&mut self.connection).await?;
            Ok(true)
        })
    }

    fn take<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(async {
            let taken = self.set(values).await?;
            let owner = values.owner.clone();
            self.owners.insert(values.name.to_owned(), owner);
            Ok(taken)
        })
    }

    fn free<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(async {
            let mut release = cmd("EVALSHA");
            release.arg(&self.release).arg(1).arg(values.name);
            release.arg(self.owners.get(values.name));
            let deleted: u64 = release.query_async(&mut self.connection).await?;
            Ok(deleted == 1)
        })
    }

    fn miss<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(self.set(values))
    }
}
