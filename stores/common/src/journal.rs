//! The journal of a store, with a time limit for each call and errors that say where it is.

use std::fmt;
use std::sync::Arc;

use shedlock_core::{
    AuditRecord, AuditRequest, BoxFuture, ErrorKind, JobRecord, JobsRequest, Journal, JournalEntry,
    Migration, MigrationStep, Retention, RunRecord, RunsRequest,
};

use crate::errors::Result;
use crate::provider::StoreProvider;
use crate::store::Store;

/// A store's journal, as its provider returns it.
pub(crate) struct OfProvider<S> {
    pub(crate) provider: StoreProvider<S>,
    pub(crate) journal: Arc<dyn Journal>,
}

impl<S: Store> OfProvider<S> {
    fn read<'a, T: Send + 'a>(
        &'a self,
        call: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(self.provider.bounded(ErrorKind::Unavailable, call))
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        call: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(self.provider.bounded(ErrorKind::OutcomeUnknown, call))
    }
}

impl<S: Store> Journal for OfProvider<S> {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<()>> {
        self.write(self.journal.record(entries))
    }

    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>>> {
        self.read(self.journal.job(job))
    }

    fn jobs<'a>(&'a self, request: &'a JobsRequest) -> BoxFuture<'a, Result<Vec<JobRecord>>> {
        self.read(self.journal.jobs(request))
    }

    fn runs<'a>(&'a self, request: &'a RunsRequest) -> BoxFuture<'a, Result<Vec<RunRecord>>> {
        self.read(self.journal.runs(request))
    }

    fn audit<'a>(&'a self, request: &'a AuditRequest) -> BoxFuture<'a, Result<Vec<AuditRecord>>> {
        self.read(self.journal.audit(request))
    }

    fn prune<'a>(&'a self, job: &'a str, retention: &'a Retention) -> BoxFuture<'a, Result<u64>> {
        self.write(self.journal.prune(job, retention))
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool>> {
        self.write(self.journal.forget(job))
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>>> {
        self.read(self.journal.version())
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>>> {
        self.read(self.journal.identity())
    }

    fn missing_privileges(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.read(self.journal.missing_privileges())
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration>> {
        self.write(self.journal.migrate())
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>>> {
        self.read(self.journal.plan_migration())
    }
}

impl<S> fmt::Debug for OfProvider<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.journal, f)
    }
}
