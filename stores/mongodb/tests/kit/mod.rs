//! The laws' harness over MongoDB: a namespace is a database of its own. The emulator deadlocks if a collection that one
//! client lists is dropped and created again by others, and a provider's check lists the collections of its database.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::{Collection, Database};
use shedlock_conformance::contention::{self, CLIENTS, ROUNDS};
use shedlock_conformance::support::{address, unique};
use shedlock_conformance::{
    BoxError, Cost, Harness, JavaRecord, Namespace, OptionalAction, Provider, RoundTrips, Scope,
    Stop, StoreProfile, Tag, Verdict, action,
};
use shedlock_core::{BoxFuture, Clock, LockName};
use shedlock_mongodb::{Builder, MongoProvider, TimeMode};
use shedlock_rig::OwnServer;
use shedlock_torture::TortureNamespace;

use crate::common::{DATABASE, client};

/// How providers are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With default settings.
    Plain,
    /// Judging by the clients' clocks.
    ClientTime,
}

/// One server, used in one way.
pub(crate) struct Mongo {
    pub(crate) name: &'static str,
    pub(crate) server: String,
    pub(crate) way: Way,
}

/// Raw clients race for one document, with a pipeline that decides on the server, as attempts do.
pub(crate) async fn race(server: String) -> Verdict {
    let name = unique("race");
    let mut clients = Vec::new();
    for number in 0..i64::try_from(CLIENTS)? {
        let client = client(&server).await;
        let client = client.map_err(|error| Stop::failed(format!("no raw client: {error}")))?;
        clients.push((client.database(DATABASE), number));
    }
    let collection = clients[0].0.collection::<Document>(&name);
    collection
        .insert_one(doc! { "_id": "race", "round": 0_i64 })
        .await?;
    let verdict = contention::judge(ROUNDS, &clients, |(database, number), round| {
        let is_mine = doc! { "$eq": ["$round", i64::from(round) - 1] };
        let mine = doc! { "_id": "race", "round": i64::from(round), "by": number };
        let decide = doc! { "$replaceWith": { "$cond": [is_mine, mine, "$$ROOT"] } };
        let claim = doc! {
            "findAndModify": &name,
            "query": { "_id": "race" },
            "update": [decide],
            "new": true,
            "writeConcern": { "w": "majority" },
        };
        async move {
            let answer = database.run_command(claim).await?;
            Ok(answer.get_document("value")?.get_i64("by")? == number)
        }
    });
    let verdict = verdict.await;
    collection.drop().await?;
    verdict
}

impl Harness for Mongo {
    fn name(&self) -> &str {
        self.name
    }

    fn namespace(&self) -> BoxFuture<'_, Result<Arc<dyn Namespace>, BoxError>> {
        Box::pin(async {
            let room = Room::new(&self.server, self.way, None).await?;
            Ok(Arc::new(room) as Arc<dyn Namespace>)
        })
    }

    fn scope(&self) -> Scope {
        match self.way {
            Way::Plain => Scope::Whole,
            // Another clock judges.
            Way::ClientTime => Scope::About(&[Tag::Time]),
        }
    }

    fn open_child<'a>(&'a self, spec: &'a str) -> OptionalAction<'a, Provider> {
        action(async {
            let (server, database) = spec.split_once(' ').ok_or("no database")?;
            let builder = builder(server, database, self.way).await?;
            Ok(Arc::new(builder.build()?) as Provider)
        })
    }

    /// The document is created as free by a separate command, and then taken.
    fn cost(&self) -> Cost {
        Cost {
            won: 1,
            first: 3,
            lost: 1,
            extend: 1,
            unlock: 1,
        }
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        Some(RoundTrips {
            first: 3,
            ..RoundTrips::ONE
        })
    }

    fn profile(&self) -> OptionalAction<'_, StoreProfile> {
        if self.way != Way::Plain {
            return None;
        }
        let sheet = StoreProfile::new("MongoDB", "tests/profiles/mongodb.json")
            .shares_records()
            .note("durable", "with a majority of the members")
            .says(
                "tested_on",
                "not on MongoDB itself: emulator SecantusDB 0.7.0b3",
            );
        action(async { Ok(sheet) })
    }

    fn namespace_on_own_store(&self) -> OptionalAction<'_, Arc<dyn Namespace>> {
        action(async {
            let start = tokio::task::spawn_blocking(|| OwnServer::start("mongodb", &[]));
            let own = start.await??;
            let url = own.url().to_owned();
            let room = Room::new(&url, self.way, Some(own)).await?;
            Ok(Arc::new(room) as Arc<dyn Namespace>)
        })
    }
}

/// The collection of locks in each database.
const LOCKS: &str = "locks";

/// A namespace with its own database.
pub(crate) struct Room {
    server: String,
    way: Way,
    database: Database,
    own: Option<OwnServer>,
}

impl Room {
    async fn new(server: &str, way: Way, own: Option<OwnServer>) -> Result<Self, BoxError> {
        Ok(Self {
            server: server.to_owned(),
            way,
            database: client(server).await?.database(&unique("space")),
            own,
        })
    }

    async fn builder(&self) -> Result<Builder, BoxError> {
        builder(&self.server, self.database.name(), self.way).await
    }

    fn collection(&self) -> Collection<Document> {
        self.database.collection(LOCKS)
    }
}

/// With its own connections. Does not contact the server, which may be down.
async fn builder(server: &str, database: &str, way: Way) -> Result<Builder, BoxError> {
    let database = client(server).await?.database(database);
    let builder = MongoProvider::builder(&database).collection(LOCKS);
    let time = match way {
        Way::ClientTime => TimeMode::client(),
        Way::Plain => TimeMode::Store,
    };
    Ok(builder.time(time).response_timeout(Duration::from_secs(20)))
}

fn date(instant: SystemTime) -> Bson {
    DateTime::from_system_time(instant).into()
}

impl Namespace for Room {
    fn provider(&self) -> BoxFuture<'_, Result<Provider, BoxError>> {
        Box::pin(async { Ok(Arc::new(self.builder().await?.build()?) as Provider) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            // If the namespace has its own server, the server is discarded with it.
            if self.own.is_none() {
                self.database.drop().await?;
            }
            Ok(())
        })
    }

    fn delete_record<'a>(&'a self, name: &'a LockName) -> OptionalAction<'a, ()> {
        action(async {
            let id = doc! { "_id": name.as_str() };
            self.collection().delete_one(id).await?;
            Ok(())
        })
    }

    fn drop_container(&self) -> OptionalAction<'_, ()> {
        action(async { Ok(self.collection().drop().await?) })
    }

    fn restore_container(&self) -> OptionalAction<'_, ()> {
        action(async { Ok(self.database.create_collection(LOCKS).await?) })
    }

    /// Uses ShedLock's update with upsert, and writes a text instead of the lock's end.
    fn write_foreign<'a>(&'a self, name: &'a LockName, data: &'a [u8]) -> OptionalAction<'a, ()> {
        action(async move {
            let text = String::from_utf8_lossy(data);
            let document = doc! { "_id": name.as_str(), "lockUntil": &*text };
            self.collection().insert_one(document).await?;
            Ok(())
        })
    }

    fn write_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
        record: &'a JavaRecord,
    ) -> OptionalAction<'a, ()> {
        action(async {
            let set = doc! {
                "lockUntil": date(record.lock_until),
                "lockedAt": date(record.locked_at),
                "lockedBy": &record.locked_by,
            };
            let id = doc! { "_id": name.as_str() };
            let collection = self.collection();
            let update = collection.update_one(id, doc! { "$set": set });
            update.upsert(true).await?;
            Ok(())
        })
    }

    fn read_as_shedlock<'a>(
        &'a self,
        name: &'a LockName,
    ) -> OptionalAction<'a, Option<JavaRecord>> {
        action(async {
            let id = doc! { "_id": name.as_str() };
            let Some(found) = self.collection().find_one(id).await? else {
                return Ok(None);
            };
            Ok(Some(JavaRecord {
                locked_by: found.get_str("lockedBy")?.to_owned(),
                locked_at: found.get_datetime("lockedAt")?.to_system_time(),
                lock_until: found.get_datetime("lockUntil")?.to_system_time(),
            }))
        })
    }

    fn provider_with_clock(&self, clock: Arc<dyn Clock>) -> OptionalAction<'_, Provider> {
        action(async {
            let builder = self.builder().await?;
            Ok(Arc::new(builder.clock(clock).build()?) as Provider)
        })
    }

    fn store_addr(&self) -> Option<SocketAddr> {
        address(&self.server, 27_017)
    }

    fn provider_via(&self, addr: SocketAddr) -> OptionalAction<'_, Provider> {
        action(async move {
            let through = format!("mongodb://{addr}");
            let builder = builder(&through, self.database.name(), self.way).await?;
            Ok(Arc::new(builder.response_timeout(Duration::from_secs(4)).build()?) as Provider)
        })
    }

    fn child_spec(&self) -> Option<String> {
        Some(format!("{} {}", self.server, self.database.name()))
    }

    fn stop_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async { own.kill() })
    }

    fn start_store(&self) -> OptionalAction<'_, ()> {
        let own = self.own.as_ref()?;
        action(async { own.start_again() })
    }
}

impl TortureNamespace for Room {
    fn child_spec_via(&self, addr: SocketAddr) -> Option<String> {
        Some(format!("mongodb://{addr} {}", self.database.name()))
    }

    fn store_version(&self) -> OptionalAction<'_, String> {
        action(async {
            let ask = doc! { "buildInfo": 1 };
            let told = self.database.run_command(ask).await?;
            Ok(format!("MongoDB {}", told.get_str("version")?))
        })
    }
}
