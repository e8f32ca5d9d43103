//! Commands on their way.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt as _;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};
use mongodb::options::{
    Acknowledgment, Collation, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Collection, Database};
use shedlock_core::{Clock, Error, ErrorKind, LockName, Moment, within};

use crate::claim::creation;
use crate::explain::{Failure, explain, unacknowledged};
use crate::expression::{Now, UNTIL};
use crate::found::{Found, Seen};
use crate::server_clock::ServerClock;
use crate::time::{LONGEST, TimeMode, date, instant};

/// How long a lock has been free whose document was just made, at the least.
const FREE_FOR: Duration = Duration::from_secs(1);

/// The collection, and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Commands {
    collection: Collection<Document>,
    database: Database,
    /// As it stands in commands; none where the server's default holds.
    concern: Option<Document>,
    clock: Arc<dyn Clock>,
    time: TimeMode,
    server: Arc<ServerClock>,
    /// How long an answer is waited for.
    limit: Duration,
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Written {
    /// The document as it is now.
    Document(Document),
    /// Nothing matched, and nothing was made.
    Nothing,
    /// It was to be made and is there.
    Exists,
}

impl Commands {
    pub(crate) fn new(
        collection: Collection<Document>,
        clock: Arc<dyn Clock>,
        time: TimeMode,
        limit: Duration,
    ) -> Self {
        let database = collection.client().database(&collection.namespace().db);
        let concern = collection
            .write_concern()
            .and_then(|concern| serialize_to_document(concern).ok());
        Self {
            database,
            concern,
            collection,
            server: Arc::new(ServerClock::new(Arc::clone(&clock))),
            clock,
            time,
            limit,
        }
    }

    pub(crate) fn collection(&self) -> &Collection<Document> {
        &self.collection
    }

    pub(crate) fn time(&self) -> TimeMode {
        self.time
    }

    /// After this long a call is given up: one whose answer did not come, and what is asked then.
    pub(crate) fn longest_call(&self) -> Duration {
        self.limit.saturating_mul(2)
    }

    /// What is known of the server's clock.
    pub(crate) fn server(&self) -> &ServerClock {
        &self.server
    }

    /// Takes down the server's time, from the answer to a command that was sent then. Where the
    /// clients' clocks judge it is of no use.
    pub(crate) fn observe(&self, time: SystemTime, sent: Moment) {
        if self.time == TimeMode::Store {
            self.server.observe(time, sent);
        }
    }

    /// Now, for [`observe`](Self::observe).
    pub(crate) fn sent(&self) -> Moment {
        self.clock.now()
    }

    /// The client's clock, which judges only where it is told to.
    pub(crate) fn clients_time(&self) -> SystemTime {
        self.clock.system_time()
    }

    /// The instant by which the next command judges.
    pub(crate) fn now(&self) -> Now {
        match self.time {
            TimeMode::Store => Now::Server,
            TimeMode::Client { .. } => Now::Told(date(self.clients_time())),
        }
    }

    /// Changes the document that matches.
    pub(crate) async fn update(
        &self,
        query: Document,
        update: Vec<Document>,
    ) -> Result<Written, Error> {
        self.find_and_modify(query, update, false).await
    }

    /// Makes the document of this name, free; never changes one that is there.
    pub(crate) async fn create(&self, name: &LockName) -> Result<Written, Error> {
        // No end is both, so that no document matches: it is made, or the name is taken.
        let epoch = mongodb::bson::DateTime::from_millis(0);
        let never = doc! { "$lt": epoch, "$gt": epoch };
        let query = doc! { "_id": name.as_str(), UNTIL: never };
        let free_for = match self.time {
            TimeMode::Store => FREE_FOR,
            TimeMode::Client { tolerated_skew } => tolerated_skew.clamp(FREE_FOR, LONGEST),
        };
        let update = creation(self.now(), free_for);
        let sent = self.sent();
        let written = self.find_and_modify(query, update, true).await?;
        if let Written::Document(made) = &written
            && let Ok(until) = made.get_datetime(UNTIL)
        {
            self.observe(instant(*until) + free_for, sent);
        }
        Ok(written)
    }

    /// By the bare command, which the driver does not send twice. Names are compared byte for byte,
    /// whatever the collection has been made with.
    async fn find_and_modify(
        &self,
        query: Document,
        update: Vec<Document>,
        upsert: bool,
    ) -> Result<Written, Error> {
        let mut command = doc! {
            "findAndModify": self.collection.name(),
            "query": query,
            "update": update,
            "new": true,
            "upsert": upsert,
            "collation": { "locale": "simple" },
        };
        if let Some(concern) = &self.concern {
            command.insert("writeConcern", concern.clone());
        }
        let sent = self.database.run_command(command);
        match self.bounded(sent.into_future()).await {
            Ok(mut answer) => {
                if let Some(Bson::Document(why)) = answer.get("writeConcernError") {
                    return Err(unacknowledged(why));
                }
                Ok(match answer.remove("value") {
                    Some(Bson::Document(document)) => Written::Document(document),
                    _ => Written::Nothing,
                })
            }
            Err(failure) if failure.is_duplicate() => Ok(Written::Exists),
            Err(failure) => Err(explain(failure, true)),
        }
    }

    /// A document with the judging clock; `None` where there is none.
    pub(crate) async fn read(&self, name: &LockName) -> Result<Option<Seen>, Error> {
        let read = vec![doc! { "$match": { "_id": name.as_str() } }];
        match self.ask(read, Some(simple())).await?.first() {
            Some(answer) => seen(answer).map(Some),
            None => Ok(None),
        }
    }

    /// The documents that a pipeline gives, as `record`, with the judging clock, as `now`; from the
    /// primary.
    pub(crate) async fn ask(
        &self,
        mut pipeline: Vec<Document>,
        collation: Option<Collation>,
    ) -> Result<Vec<Document>, Error> {
        pipeline.push(doc! { "$replaceWith": { "record": "$$ROOT", "now": self.now().date() } });
        let asked = async {
            let asked = self.collection.aggregate(pipeline);
            let asked = asked.selection_criteria(primary());
            let cursor = match collation {
                Some(collation) => asked.collation(collation).await?,
                None => asked.await?,
            };
            cursor.try_collect().await
        };
        let sent = self.sent();
        let answers = self.bounded(Box::pin(asked)).await;
        let answers: Vec<Document> = answers.map_err(|failure| explain(failure, false))?;
        if let Some(Ok(now)) = answers.first().map(|first| first.get_datetime("now")) {
            self.observe(instant(*now), sent);
        }
        Ok(answers)
    }

    /// The judging clock, where no document tells it.
    pub(crate) async fn time_now(&self) -> Result<SystemTime, Error> {
        if let TimeMode::Client { .. } = self.time {
            return Ok(self.clients_time());
        }
        let sent = self.sent();
        let hello = self.run(doc! { "hello": 1 }).await?;
        let Ok(now) = hello.get_datetime("localTime") else {
            return Err(Error::new(
                ErrorKind::Internal,
                "the server reports no time",
            ));
        };
        self.observe(instant(*now), sent);
        Ok(instant(*now))
    }

    /// A command that changes nothing.
    pub(crate) async fn run(&self, command: Document) -> Result<Document, Error> {
        let run = self.database.run_command(command);
        let run = run.selection_criteria(primary());
        self.bounded(run.into_future())
            .await
            .map_err(|failure| explain(failure, false))
    }

    /// What the server says of the collection; `None` where there is none yet.
    pub(crate) async fn describe(&self) -> Result<Option<Document>, Error> {
        let filter = doc! { "name": self.collection.name() };
        let command = doc! { "listCollections": 1, "filter": filter };
        let answer = self.run(command).await?;
        let batch = answer
            .get_document("cursor")
            .and_then(|cursor| cursor.get_array("firstBatch"));
        Ok(batch
            .ok()
            .and_then(|batch| batch.first()?.as_document().cloned()))
    }

    /// Dropping the call leaves its connection behind, which may have fallen silent.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = mongodb::error::Result<T>>,
    ) -> Result<T, Failure> {
        match within(&*self.clock, self.limit, call).await {
            Some(answer) => answer.map_err(Failure::Driver),
            None => Err(Failure::Silence(self.limit)),
        }
    }
}

/// Whether a write that was acknowledged by this concern outlives a crash, also of the primary,
/// however the replica set is set up.
pub(crate) fn is_durable(concern: Option<&WriteConcern>) -> bool {
    concern.is_some_and(|concern| concern.journal == Some(true)) && !is_weak(concern)
}

/// Whether a new primary may not know a write that was acknowledged by this concern. Where there is
/// none the server's default holds, which is a majority since MongoDB 5.
pub(crate) fn is_weak(concern: Option<&WriteConcern>) -> bool {
    concern.is_some_and(|concern| {
        concern.w != Some(Acknowledgment::Majority) || concern.journal == Some(false)
    })
}

/// A document as [`Commands::ask`] gives it.
pub(crate) fn seen(answer: &Document) -> Result<Seen, Error> {
    let parts = (answer.get_document("record"), answer.get_datetime("now"));
    let (Ok(record), Ok(now)) = parts else {
        return Err(Error::new(
            ErrorKind::Internal,
            "the server answered a reading without the document or its time",
        ));
    };
    Ok(Seen {
        found: Found::parse(record)?,
        now: instant(*now),
    })
}

/// Byte for byte, whatever the collection was made with.
fn simple() -> Collation {
    Collation::builder().locale("simple").build()
}

fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client's own form shows its options, credentials among them.
        f.debug_struct("Commands")
            .field("namespace", &self.collection.namespace().to_string())
            .field("concern", &self.concern)
            .field("time", &self.time)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
