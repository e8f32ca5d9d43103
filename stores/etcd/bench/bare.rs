//! Bare transactions on etcd. Each puts the key if the revision of its last write is still current.

use std::collections::HashMap;

use anyhow::Context as _;
use shedlock_etcd::etcd_client::{Client as Connection, Compare, CompareOp, Txn, TxnOp};

use super::{Client, Values, Written};

/// One connection.
pub(crate) struct Etcd {
    connection: Connection,
    /// The last revision of each key.
    revisions: HashMap<String, i64>,
}

impl Etcd {
    pub(crate) async fn connect(server: &str) -> anyhow::Result<Self> {
        let endpoint = server.trim_start_matches("etcd://");
        Ok(Self {
            connection: Connection::connect([endpoint], None).await?,
            revisions: HashMap::new(),
        })
    }

    async fn put(&mut self, name: &str, last: i64, value: i64) -> anyhow::Result<bool> {
        let key = format!("bare:{name}");
        let stands = Compare::mod_revision(key.clone(), CompareOp::Equal, last);
        let put = TxnOp::put(key, value.to_string(), None);
        let transaction = Txn::new().when([stands]).and_then([put]);
        let answer = self.connection.txn(transaction).await?;
        if !answer.succeeded() {
            return Ok(false);
        }
        let header = answer.header().context("an answer has no header")?;
        self.revisions.insert(name.to_owned(), header.revision());
        Ok(true)
    }

    fn last(&self, name: &str) -> i64 {
        self.revisions.get(name).copied().unwrap_or_default()
    }
}

impl Client for Etcd {
    fn create<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(self.put(values.name, 0, values.millis()))
    }

    fn take<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        let last = self.last(values.name);
        Box::pin(self.put(values.name, last, values.end_millis()))
    }

    fn free<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        let last = self.last(values.name);
        Box::pin(self.put(values.name, last, values.millis()))
    }

    fn miss<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(self.put(values.name, 0, values.end_millis()))
    }
}
