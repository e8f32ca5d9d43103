//! Bare updates on MongoDB: of one document by its key, if it still contains the caller's last
//! write.

use std::collections::HashMap;

use shedlock_mongodb::mongodb::bson::{Document, doc};
use shedlock_mongodb::mongodb::{self, Collection};

use super::{Client, Values, Written};

/// One client, whose pool has one connection for us.
pub(crate) struct MongoDb {
    documents: Collection<Document>,
    /// The last write of each document.
    last: HashMap<String, i64>,
}

impl MongoDb {
    pub(crate) async fn connect(server: &str) -> anyhow::Result<Self> {
        let url = format!("{server}/?directConnection=true");
        let client = mongodb::Client::with_uri_str(url).await?;
        Ok(Self {
            documents: client.database("bench").collection("bare"),
            last: HashMap::new(),
        })
    }

    async fn update(&mut self, values: &Values<'_>, last: i64, end: i64) -> anyhow::Result<bool> {
        let which = doc! { "_id": values.name, "n": last };
        let what = doc! { "$set": { "n": values.token(), "until": end, "owner": &values.owner } };
        let updated = self.documents.update_one(which, what).await?;
        if updated.matched_count == 0 {
            return Ok(false);
        }
        self.last.insert(values.name.to_owned(), values.token());
        Ok(true)
    }

    fn last(&self, name: &str) -> i64 {
        self.last.get(name).copied().unwrap_or_default()
    }
}

impl Client for MongoDb {
    fn create<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(async {
            let document = doc! { "_id": values.name, "n": 0_i64, "until": values.millis() };
            self.documents.insert_one(document).await?;
            Ok(true)
        })
    }

    fn take<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        let last = self.last(values.name);
        Box::pin(self.update(values, last, values.end_millis()))
    }

    fn free<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        let last = self.last(values.name);
        Box::pin(self.update(values, last, values.millis()))
    }

    fn miss<'a>(&'a mut self, values: &'a Values<'a>) -> Written<'a> {
        Box::pin(self.update(values, -1, values.end_millis()))
    }
}
