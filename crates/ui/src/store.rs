//! The stores whose jobs are shown.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::lock::Mutex;

use shedlock_core::{BoxFuture, Error, ErrorKind, Journal, LockProvider, SystemClock, within};
use shedlock_journal::view::missing_journal;

use shedlock_scheduler::Handle;

use crate::failure::Failure;
use crate::pages::Seen;
use crate::shared::Shared;

/// How long reading a store for a page may take. Proxies often wait for 5 s, and do not know what failed.
const LIMIT: Duration = Duration::from_secs(4);

/// A provider, and its journal if that is in another store.
pub(crate) type Opened = (Arc<dyn LockProvider>, Option<Arc<dyn Journal>>);

pub(crate) type Opening = dyn Fn() -> BoxFuture<'static, Result<Opened, Error>> + Send + Sync;

/// A name on the dashboard, and its store, which may not have been reached yet.
pub(crate) struct Place {
    pub(crate) name: String,
    source: Source,
    /// The schedulers of this process that take their locks here.
    pub(crate) schedulers: Vec<Handle>,
    store: OnceLock<Store>,
    /// Held by the request that opens it.
    turn: Mutex<()>,
}

enum Source {
    Ready(Opened),
    Later(Box<Opening>),
}

impl Place {
    pub(crate) fn of(name: String, opened: Opened) -> Self {
        Self::new(name, Source::Ready(opened))
    }

    pub(crate) fn later(name: String, opening: Box<Opening>) -> Self {
        Self::new(name, Source::Later(opening))
    }

    fn new(name: String, source: Source) -> Self {
        Self {
            name,
            source,
            schedulers: Vec::new(),
            store: OnceLock::new(),
            turn: Mutex::new(()),
        }
    }

    /// The store, which is opened unless it was.
    pub(crate) async fn store(&self) -> Result<&Store, Error> {
        let opening = match &self.source {
            Source::Ready(opened) => return Ok(self.keep(opened.clone())),
            Source::Later(opening) => opening,
        };
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let opening = async {
            let _turn = self.turn.lock().await;
            match self.store.get() {
                Some(store) => Ok(store),
                None => Ok(self.keep(opening().await?)),
            }
        };
        let opened = within(&SystemClock, LIMIT, opening).await;
        opened.unwrap_or_else(|| Err(silent(&self.name)))
    }

    fn keep(&self, (provider, own_journal): Opened) -> &Store {
        self.store.get_or_init(|| Store {
            name: self.name.clone(),
            has_own_journal: own_journal.is_some(),
            journal: own_journal.or_else(|| provider.journal()),
            provider,
            schedulers: self.schedulers.clone(),
            seen: Arc::new(Shared::new()),
        })
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("name", &self.name)
            .field("store", &self.store.get())
            .finish_non_exhaustive()
    }
}

/// A store that does not reply in time.
fn silent(name: &str) -> Error {
    let message = format!("cannot read {name}: no reply within {}s", LIMIT.as_secs());
    Error::new(ErrorKind::Unavailable, message).advise("check that the store is running")
}

pub(crate) struct Store {
    pub(crate) name: String,
    pub(crate) provider: Arc<dyn LockProvider>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    /// Whether the journal is in another store than the locks, so that there must be one.
    pub(crate) has_own_journal: bool,
    /// The schedulers of this process that take their locks here.
    pub(crate) schedulers: Vec<Handle>,
    /// All jobs and the locks that cannot be taken, for the page *Now*.
    pub(crate) seen: Arc<Shared<Seen>>,
}

impl Store {
    /// The journal, if it has been created.
    pub(crate) async fn existing_journal(&self) -> Result<Option<&dyn Journal>, Error> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        let is_there = journal.version().await?.is_some();
        Ok(is_there.then_some(&**journal))
    }

    /// Why there is no journal, and what to do.
    pub(crate) fn why_no_journal(&self) -> String {
        let kind = self.provider.store();
        missing_journal(self.journal.is_some(), kind, &self.name)
    }

    /// The scheduler of this process that runs this job.
    pub(crate) async fn scheduler_of(&self, job: &str) -> Option<&Handle> {
        for scheduler in &self.schedulers {
            // One that has been shut down runs nothing.
            let jobs = scheduler.jobs().await.unwrap_or_default();
            if jobs.iter().any(|it| it.name == job) {
                return Some(scheduler);
            }
        }
        None
    }

    /// Reads something within the time limit.
    pub(crate) async fn read<T>(
        &self,
        reading: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        self.read_or_error(reading).await.map_err(Failure::from)
    }

    /// The same for a page that shows the error.
    pub(crate) async fn read_or_error<T>(
        &self,
        reading: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let read = within(&SystemClock, LIMIT, reading).await;
        read.unwrap_or_else(|| Err(silent(&self.name)))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.name)
            .field("provider", &self.provider)
            .finish_non_exhaustive()
    }
}
