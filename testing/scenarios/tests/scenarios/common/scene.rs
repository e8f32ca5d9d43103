//! The environment of one scenario: a separate database and log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shedlock::{LockName, LockRecord, Owner};
use shedlock_scenarios::Database;
use sqlx::Row as _;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{History, Line, Replica, Store, say};

/// A database created for one scenario, and the log of what happens in it.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) history: Arc<History>,
    store: Store,
    story: String,
    name: String,
    url: String,
    database: Database,
    runtime: Runtime,
    _folder: TempDir,
}

impl Scene {
    /// Creates the scene of this scenario.
    pub(crate) fn open(story: &str, store: Store) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let owner = Owner::generate();
        let random = owner.as_str().rsplit('/').next().unwrap_or_default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scenario_{number}_{random}");

        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut url = store.server();
        let database = runtime.block_on(async {
            let server = Database::connect(url.as_str()).await.unwrap();
            let create = format!("CREATE DATABASE {name}");
            server.change(&create, &[]).await.unwrap();
            url.set_path(&name);
            Database::connect(url.as_str()).await.unwrap()
        });
        let folder = tempfile::tempdir().unwrap();
        Self {
            history: Arc::new(History::new(folder.path())),
            store,
            story: format!("{story} on {}", store.name()),
            name,
            url: url.into(),
            database,
            runtime,
            _folder: folder,
        }
    }

    /// Starts a replica in this scene.
    pub(crate) fn replica<S: AsRef<str>>(&self, name: &str, args: &[S]) -> Replica {
        Replica::start(&self.history, &self.url, name, args)
    }

    /// Waits until a replica is ready; returns that line of its log.
    pub(crate) fn ready(&self, replica: &Replica) -> Line {
        let name = replica.name();
        self.history.wait_for(&format!("{name} is ready"), |lines| {
            let mut lines = lines.iter();
            lines.find(|it| it.who == name && it.says("ready")).cloned()
        })
    }

    /// Changes the service's tables.
    pub(crate) fn change(&self, statement: &str) {
        let change = self.database.change(statement, &[]);
        self.runtime.block_on(change).unwrap();
    }

    /// Returns the numbers in the first column of the result of this query.
    pub(crate) fn numbers(&self, query: &str) -> Vec<i64> {
        let rows = self.runtime.block_on(self.database.read(query, &[]));
        let rows = rows.unwrap().into_iter();
        rows.map(|row| row.try_get(0).unwrap()).collect()
    }

    /// Returns the store's record of a lock.
    pub(crate) fn record(&self, lock: &str) -> LockRecord {
        let record = self.runtime.block_on(async {
            let provider = shedlock::connect(&self.url).await?;
            provider.inspect(&LockName::new(lock)?).await
        });
        record.unwrap().expect("the lock was taken before")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let tail = self.history.tail();
            say(&format!("the last lines of {}:\n{tail}", self.story));
        }
        if let Ok(folder) = std::env::var("SHEDLOCK_SCENARIO_LOGS") {
            let _ = self.history.keep(Path::new(&folder), &self.story);
        }
        let drop = self.store.drop_database(&self.name);
        let _ = self.runtime.block_on(async {
            let server = Database::connect(self.store.server().as_str()).await?;
            server.change(&drop, &[]).await
        });
    }
}
