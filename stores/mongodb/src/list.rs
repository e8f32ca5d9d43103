//! All locks, page by page.

use mongodb::bson::{Document, doc};
use shedlock_core::{Error, ListRequest, LockName, LockRecord, listed};

use crate::provider::MongoProvider;
use crate::send::seen;

impl MongoProvider {
    /// In the byte order of the names, or that of the collation that the collection was made with.
    /// Documents that are no locks are left out, and told of.
    pub(crate) async fn page(&self, request: &ListRequest) -> Result<Vec<LockRecord>, Error> {
        let size = request.page_size();
        let mut page: Vec<LockRecord> = Vec::new();
        let mut after = request
            .after_name()
            .map_or_else(String::new, |name| name.as_str().to_owned());
        // What was left out makes room for more.
        while page.len() < size {
            let want = size - page.len();
            let mut pipeline = vec![
                doc! { "$match": { "_id": { "$type": "string", "$gt": &after } } },
                doc! { "$sort": { "_id": 1 } },
                doc! { "$limit": i64::try_from(want).unwrap_or(i64::MAX) },
            ];
            if request.is_held_only() {
                let is_held = self.commands().now().is_before_end();
                pipeline.insert(1, doc! { "$match": { "$expr": is_held } });
            }
            let answers = self.commands().ask(pipeline, None).await?;
            for answer in &answers {
                page.extend(record(answer)?);
            }
            match answers.last().and_then(name) {
                Some(last) if answers.len() == want => last.clone_into(&mut after),
                _ => break,
            }
        }
        Ok(page)
    }
}

fn name(answer: &Document) -> Option<&str> {
    answer.get_document("record").ok()?.get_str("_id").ok()
}

fn record(answer: &Document) -> Result<Option<LockRecord>, Error> {
    let Some(id) = name(answer) else {
        return Ok(None);
    };
    let found = LockName::new(id).and_then(|name| Ok(seen(answer)?.record(&name)));
    listed("mongodb", id, found)
}
