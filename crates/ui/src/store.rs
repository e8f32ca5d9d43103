//! A store whose jobs are shown.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use shedlock_core::shown::missing_journal;
use shedlock_core::{Error, ErrorKind, Journal, LockProvider, SystemClock, within};

use shedlock_scheduler::Handle;

use crate::failure::Failure;
use crate::pages::Seen;
use crate::shared::Shared;

/// How long reading a store for a page may take.
const LIMIT: Duration = Duration::from_secs(8);

#[derive(Clone)]
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
        missing_journal(self.journal.is_some(), kind, &self.name, " --store …")
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
        read.unwrap_or_else(|| {
            let message = format!(
                "cannot read {}: no reply within {}s; check that the store is running",
                self.name,
                LIMIT.as_secs()
            );
            Err(Error::new(ErrorKind::Unavailable, message))
        })
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
