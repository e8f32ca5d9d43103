//! Sends commands.

use std::time::{Duration, SystemTime};

use ErrorKind::{OutcomeUnknown, Unavailable};
use futures_util::TryStreamExt as _;
use mongodb::action::{Action as _, Aggregate};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::{Collation, ReadPreference, SelectionCriteria};
use shedlock_core::{ErrorKind, LockName, answered_within};
use shedlock_provider::{HUNDRED_YEARS, Result, Store as _, TimeMode, internal};

use crate::codec::{Look, UNTIL, instant};
use crate::explain::{explain, is_conflict_with_itself, unacknowledged};
use crate::store::MongoStore;
use crate::update::{Now, creation};

/// A lock with a new document counts as having been free for at least this long.
const FREE_FOR: Duration = Duration::from_secs(1);

impl MongoStore {
    /// The instant by which the next command judges.
    pub(crate) fn now(&self) -> Now {
        if !self.settings.time.is_client() {
            return Now::Server;
        }
        Now::Given(DateTime::from_system_time(self.clock().system_time()))
    }

    /// The time of the judging clock. Asks the server if that is the server's clock: what it has reported before shows only
    /// what it has reached, and falls behind.
    pub(crate) async fn judging_time(&self) -> Result<SystemTime> {
        if self.settings.time.is_client() {
            return Ok(self.clock().system_time());
        }
        let now = self.server_time().await?;
        now.ok_or_else(|| internal("the server reports no time"))
    }

    /// Runs a command that only reads, on the primary.
    pub(crate) async fn run(&self, command: Document) -> Result<Document> {
        let sent = self.place.database.run_command(command);
        let sent = sent.selection_criteria(primary()).into_future();
        self.bounded(Unavailable, sent).await
    }

    /// Changes the document that matches, and returns the changed document; `None` if none matches.
    pub(crate) async fn update(
        &self,
        query: Document,
        update: Vec<Document>,
    ) -> Result<Option<Document>> {
        let update = doc! { "update": update, "new": true };
        self.find_and_modify(query, update).await
    }

    /// Removes the document that matches. Returns false if none matches.
    pub(crate) async fn delete(&self, query: Document) -> Result<bool> {
        let removed = self.find_and_modify(query, doc! { "remove": true });
        Ok(removed.await?.is_some())
    }

    /// Creates the document of this name, as a free lock. Never changes an existing one. Returns false if a race to
    /// create it was lost, and `Conflict` if another document prevents it.
    pub(crate) async fn create(&self, name: &LockName) -> Result<bool> {
        // No end satisfies both conditions, so no document matches: it is created, or the name is taken.
        let epoch = DateTime::from_millis(0);
        let never = doc! { "$lt": epoch, "$gt": epoch };
        let query = doc! { "_id": name.as_str(), UNTIL: never };
        let free_for = match self.settings.time {
            TimeMode::Client { tolerated_skew } => tolerated_skew.clamp(FREE_FOR, HUNDRED_YEARS),
            _ => FREE_FOR,
        };
        let update = creation(self.now(), free_for);
        let update = doc! { "update": update, "new": true, "upsert": true };
        let sent = self.clock().now();
        let made = match self.find_and_modify(query, update).await {
            Err(error) if is_conflict_with_itself(&error, name) => return Ok(false),
            made => made?,
        };
        if let Some(Ok(until)) = made.as_ref().map(|made| made.get_datetime(UNTIL)) {
            self.server.observe_reply(instant(*until) + free_for, sent);
        }
        Ok(made.is_some())
    }

    /// Uses the raw command, which the driver does not retry. Names are compared byte for byte, whatever the
    /// collection's collation.
    async fn find_and_modify(&self, query: Document, change: Document) -> Result<Option<Document>> {
        let mut command = doc! {
            "findAndModify": self.place.collection.name(),
            "query": query,
            "collation": { "locale": "simple" },
        };
        command.extend(change);
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

    /// Reads a document with the time of the judging clock; `None` if there is none.
    pub(crate) async fn read(&self, name: &LockName) -> Result<Option<Look>> {
        let read = vec![doc! { "$match": { "_id": name.as_str() } }];
        let simple = Collation::builder().locale("simple").build();
        let answers = self.ask(read, Some(simple)).await?;
        answers.first().map(Look::read).transpose()
    }

    /// Runs a pipeline on the primary. Returns its documents as `record` and the time of the judging clock as `now`.
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

    /// Limits the time of a call. Dropping the call abandons its connection, which may no longer respond.
    pub(crate) async fn bounded<T>(
        &self,
        unanswered: ErrorKind,
        call: impl Future<Output = mongodb::error::Result<T>>,
    ) -> Result<T> {
        let call = async { call.await.map_err(|error| explain(error, unanswered)) };
        let limit = self.settings.response_timeout;
        answered_within(&**self.clock(), limit, unanswered, call).await
    }
}

pub(crate) fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}
