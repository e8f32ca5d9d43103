//! Commands on their way.

use std::time::{Duration, SystemTime};

use ErrorKind::{OutcomeUnknown, Unavailable};
use futures_util::TryStreamExt as _;
use mongodb::action::{Action as _, Aggregate};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::{Collation, ReadPreference, SelectionCriteria};
use shedlock_core::{ErrorKind, LockName, answered_within};
use shedlock_store::{HUNDRED_YEARS, Result, Store as _, TimeMode, internal};

use crate::codec::{Look, UNTIL, instant};
use crate::explain::{explain, unacknowledged};
use crate::store::MongoStore;
use crate::update::{Now, creation};

/// How long a lock has been free whose document was just made, at the least.
const FREE_FOR: Duration = Duration::from_secs(1);

impl MongoStore {
    /// The instant by which the next command judges.
    pub(crate) fn now(&self) -> Now {
        if !self.settings.time.is_client() {
            return Now::Server;
        }
        Now::Given(DateTime::from_system_time(self.clock().system_time()))
    }

    /// The judging clock, or a little earlier. Asks the server if it has not reported its time.
    pub(crate) async fn judging_time(&self) -> Result<SystemTime> {
        if self.settings.time.is_client() {
            return Ok(self.clock().system_time());
        }
        if let Some(now) = self.server.earliest() {
            return Ok(now);
        }
        let sent = self.clock().now();
        let hello = self.place.database.run_command(doc! { "hello": 1 });
        let hello = hello.selection_criteria(primary()).into_future();
        let hello = self.bounded(Unavailable, hello).await?;
        let now = hello.get_datetime("localTime");
        let now = now.map_err(|_| internal("the server reports no time"))?;
        self.server.observe_reply(instant(*now), sent);
        Ok(instant(*now))
    }

    /// Changes the document that matches, and returns it as it is then; none where none does.
    pub(crate) async fn update(
        &self,
        query: Document,
        update: Vec<Document>,
    ) -> Result<Option<Document>> {
        self.find_and_modify(query, update, false).await
    }

    /// Makes the document of this name, free; never changes one that is there. False where a race for it was lost.
    /// `Conflict` where there is one.
    pub(crate) async fn create(&self, name: &LockName) -> Result<bool> {
        // No end is both, so that no document matches: it is made, or the name is taken.
        let epoch = DateTime::from_millis(0);
        let never = doc! { "$lt": epoch, "$gt": epoch };
        let query = doc! { "_id": name.as_str(), UNTIL: never };
        let free_for = match self.settings.time {
            TimeMode::Client { tolerated_skew } => tolerated_skew.clamp(FREE_FOR, HUNDRED_YEARS),
            _ => FREE_FOR,
        };
        let update = creation(self.now(), free_for);
        let sent = self.clock().now();
        let made = self.find_and_modify(query, update, true).await?;
        if let Some(Ok(until)) = made.as_ref().map(|made| made.get_datetime(UNTIL)) {
            self.server.observe_reply(instant(*until) + free_for, sent);
        }
        Ok(made.is_some())
    }

    /// By the bare command, which the driver does not send twice. Names are compared byte for byte, whatever the
    /// collection has been made with.
    async fn find_and_modify(
        &self,
        query: Document,
        update: Vec<Document>,
        upsert: bool,
    ) -> Result<Option<Document>> {
        let mut command = doc! {
            "findAndModify": self.place.collection.name(),
            "query": query,
            "update": update,
            "new": true,
            "upsert": upsert,
            "collation": { "locale": "simple" },
        };
        if let Some(concern) = &self.place.concern {
            command.insert("writeConcern", concern.clone());
        }
        let sent = self.place.database.run_command(command).into_future();
        let mut answer = self.bounded(OutcomeUnknown, sent).await?;
        if let Some(Bson::Document(why)) = answer.get("writeConcernError") {
            return Err(unacknowledged(why));
        }
        Ok(match answer.remove("value") {
            Some(Bson::Document(document)) => Some(document),
            _ => None,
        })
    }

    /// A document with the judging clock; `None` where there is none.
    pub(crate) async fn read(&self, name: &LockName) -> Result<Option<Look>> {
        let read = vec![doc! { "$match": { "_id": name.as_str() } }];
        let simple = Collation::builder().locale("simple").build();
        let answers = self.ask(read, Some(simple)).await?;
        answers.first().map(Look::read).transpose()
    }

    /// The documents that a pipeline gives, as `record`, with the judging clock, as `now`; from the primary.
    pub(crate) async fn ask(
        &self,
        mut pipeline: Vec<Document>,
        collation: Option<Collation>,
    ) -> Result<Vec<Document>> {
        pipeline.push(doc! { "$replaceWith": { "record": "$$ROOT", "now": self.now().date() } });
        let asked = self.place.collection.aggregate(pipeline);
        let asked = asked.selection_criteria(primary());
        let asked = asked.optional(collation, Aggregate::collation);
        let sent = self.clock().now();
        let answers = async { asked.await?.try_collect::<Vec<_>>().await };
        let answers = self.bounded(Unavailable, Box::pin(answers)).await?;
        if let Some(Ok(now)) = answers.first().map(|first| first.get_datetime("now")) {
            self.server.observe_reply(instant(*now), sent);
        }
        Ok(answers)
    }

    /// Dropping the call leaves its connection behind, which may have fallen silent.
    pub(crate) async fn bounded<T>(
        &self,
        unanswered: ErrorKind,
        call: impl Future<Output = mongodb::error::Result<T>>,
    ) -> Result<T> {
        let call = async { call.await.map_err(|error| explain(error, unanswered)) };
        let limit = self.settings.response_timeout;
        answered_within(self.clock(), limit, unanswered, call).await
    }
}

fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}
