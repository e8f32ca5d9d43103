//! A store whose URL is in a file, which is read again when the store refuses the URL that was in it: passwords are
//! rotated while a command runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use shedlock::{
    Attempt, AttemptRequest, AuditRecord, AuditRequest, BoxFuture, Capabilities, Error, ErrorKind,
    ExtendRequest, Extension, Finding, ForceUnlockRequest, ForcedUnlock, JobRecord, JobsRequest,
    Journal, JournalEntry, Lease, ListRequest, LockDefaults, LockName, LockProvider, LockRecord,
    Migration, MigrationStep, PauseRequest, Paused, ProviderIdentity, PruneRequest, Pruned,
    ResetSlotRequest, ResumeRequest, Resumed, Retention, RunRecord, RunsRequest, Schema, SlotReset,
    Unlock, UnlockRequest,
};
use tokio::sync::Mutex;

use super::url::without_login;
use super::{Address, file, sqlite};

/// A connection to the store of the URL that was in the file last.
#[derive(Clone)]
pub(super) struct Rotating(Arc<Inner>);

struct Inner {
    path: PathBuf,
    /// The option or variable that named the file.
    from: String,
    /// Whether the store may be created.
    create: bool,
    timeout: Option<Duration>,
    /// The first connection, for what does not depend on the login.
    first: Arc<dyn LockProvider>,
    current: RwLock<Arc<dyn LockProvider>>,
    /// The URL that was read last. Only the task that has locked it connects.
    url: Mutex<String>,
}

impl Rotating {
    pub(super) fn new(
        first: Arc<dyn LockProvider>,
        url: &str,
        (path, from): (PathBuf, &str),
        create: bool,
        timeout: Option<Duration>,
    ) -> Self {
        Self(Arc::new(Inner {
            path,
            from: from.to_owned(),
            create,
            timeout,
            current: RwLock::new(first.clone()),
            first,
            url: Mutex::new(url.to_owned()),
        }))
    }

    fn current(&self) -> Arc<dyn LockProvider> {
        let current = self.0.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another connection, if the call of this one failed without an effect, and the file has another login now.
    async fn renewed(
        &self,
        used: &Arc<dyn LockProvider>,
        error: &Error,
    ) -> Option<Arc<dyn LockProvider>> {
        if !matches!(
            error.kind(),
            ErrorKind::Configuration | ErrorKind::Unavailable
        ) {
            return None;
        }
        let mut url = self.0.url.lock().await;
        let current = self.current();
        if !Arc::ptr_eq(&current, used) {
            return Some(current);
        }
        let new = file::read(&self.0.path, &self.0.from).ok()?;
        if new == *url {
            return None;
        }
        let from = &self.0.from;
        if without_login(&new) != without_login(&url) {
            tracing::warn!(
                "{from}: the file has the URL of another store now; it is used when this command is started again"
            );
            *url = new;
            return None;
        }
        let address = match (self.0.create, sqlite::existing(&new)) {
            (false, Some(existing)) => Address::Url(existing),
            _ => Address::Url(new.clone()).limited(self.0.timeout),
        };
        match address.open().await {
            Ok(provider) => {
                tracing::warn!(
                    "{from}: the store refused a request, and the file has another login now: it is used from now on"
                );
                *url = new;
                *self
                    .0
                    .current
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = provider.clone();
                Some(provider)
            }
            // The new login may not be valid yet, so it is tried again at the next failure.
            Err(error) => {
                tracing::debug!(%error, "{from}: the login that the file has now is refused too");
                None
            }
        }
    }
}

/// The URL in the file, if it differs from this one in the login alone.
pub(super) fn new_login(file: &Path, from: &str, url: &str) -> Option<String> {
    let new = file::read(file, from).ok()?;
    (new != url && without_login(&new) == without_login(url)).then_some(new)
}

/// Calls the current connection, and once more if it was renewed.
macro_rules! renewing {
    ($rotating:expr, $provider:ident => $call:expr) => {
        Box::pin(async move {
            let $provider = $rotating.current();
            match $call.await {
                Ok(done) => Ok(done),
                Err(error) => match $rotating.renewed(&$provider, &error).await {
                    Some($provider) => $call.await,
                    None => Err(error),
                },
            }
        })
    };
}

impl LockProvider for Rotating {
    fn attempt<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<Attempt, Error>> {
        renewing!(self, it => it.attempt(request))
    }

    fn withdraw<'a>(&'a self, request: &'a AttemptRequest) -> BoxFuture<'a, Result<bool, Error>> {
        renewing!(self, it => it.withdraw(request))
    }

    fn extend<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a ExtendRequest,
    ) -> BoxFuture<'a, Result<Extension, Error>> {
        renewing!(self, it => it.extend(lease, request))
    }

    fn unlock<'a>(
        &'a self,
        lease: &'a Lease,
        request: &'a UnlockRequest,
    ) -> BoxFuture<'a, Result<Unlock, Error>> {
        renewing!(self, it => it.unlock(lease, request))
    }

    fn inspect<'a>(
        &'a self,
        name: &'a LockName,
    ) -> BoxFuture<'a, Result<Option<LockRecord>, Error>> {
        renewing!(self, it => it.inspect(name))
    }

    fn list<'a>(
        &'a self,
        request: &'a ListRequest,
    ) -> BoxFuture<'a, Result<Vec<LockRecord>, Error>> {
        renewing!(self, it => it.list(request))
    }

    fn force_unlock<'a>(
        &'a self,
        request: &'a ForceUnlockRequest,
    ) -> BoxFuture<'a, Result<ForcedUnlock, Error>> {
        renewing!(self, it => it.force_unlock(request))
    }

    fn reset_slot<'a>(
        &'a self,
        request: &'a ResetSlotRequest,
    ) -> BoxFuture<'a, Result<SlotReset, Error>> {
        renewing!(self, it => it.reset_slot(request))
    }

    fn pause<'a>(&'a self, request: &'a PauseRequest) -> BoxFuture<'a, Result<Paused, Error>> {
        renewing!(self, it => it.pause(request))
    }

    fn resume<'a>(&'a self, request: &'a ResumeRequest) -> BoxFuture<'a, Result<Resumed, Error>> {
        renewing!(self, it => it.resume(request))
    }

    fn prune<'a>(&'a self, request: &'a PruneRequest) -> BoxFuture<'a, Result<Pruned, Error>> {
        renewing!(self, it => it.prune(request))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), Error>> {
        renewing!(self, it => it.check())
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        renewing!(self, it => it.diagnose())
    }

    fn capabilities(&self) -> Capabilities {
        self.current().capabilities()
    }

    fn identity(&self) -> ProviderIdentity {
        self.0.first.identity()
    }

    fn identity_of(&self, name: &LockName) -> ProviderIdentity {
        self.0.first.identity_of(name)
    }

    fn store(&self) -> &str {
        self.0.first.store()
    }

    fn defaults(&self) -> LockDefaults {
        self.0.first.defaults()
    }

    fn journal(&self) -> Option<Arc<dyn Journal>> {
        let journal = self.0.first.journal();
        journal.map(|_| Arc::new(RotatingJournal(self.clone())) as Arc<dyn Journal>)
    }

    /// It is polled on another runtime than this connection, which is therefore not renewed there.
    fn for_duties(&self) -> Option<BoxFuture<'_, Result<Arc<dyn LockProvider>, Error>>> {
        let current = self.current();
        // Nothing is opened before it is polled.
        drop(current.for_duties()?);
        Some(Box::pin(async move {
            match current.for_duties() {
                Some(opening) => opening.await,
                None => Err(Error::new(ErrorKind::Internal, "no connection for duties")),
            }
        }))
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        renewing!(self, it => it.migrate())
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        renewing!(self, it => it.plan_migration())
    }

    fn schema(&self) -> Schema {
        self.0.first.schema()
    }
}

/// The journal beside the locks.
#[derive(Debug)]
struct RotatingJournal(Rotating);

/// Its methods are those of the journal of the current connection.
fn journal_of(provider: &Arc<dyn LockProvider>) -> Result<Arc<dyn Journal>, Error> {
    let none = || Error::new(ErrorKind::Internal, "the store keeps no journal");
    provider.journal().ok_or_else(none)
}

impl Journal for RotatingJournal {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<(), Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.record(entries).await })
    }

    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.job(job).await })
    }

    fn jobs<'a>(
        &'a self,
        request: &'a JobsRequest,
    ) -> BoxFuture<'a, Result<Vec<JobRecord>, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.jobs(request).await })
    }

    fn runs<'a>(
        &'a self,
        request: &'a RunsRequest,
    ) -> BoxFuture<'a, Result<Vec<RunRecord>, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.runs(request).await })
    }

    fn audit<'a>(
        &'a self,
        request: &'a AuditRequest,
    ) -> BoxFuture<'a, Result<Vec<AuditRecord>, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.audit(request).await })
    }

    fn prune<'a>(
        &'a self,
        job: &'a str,
        retention: &'a Retention,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.prune(job, retention).await })
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.forget(job).await })
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.version().await })
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.identity().await })
    }

    fn missing_privileges(&self) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.missing_privileges().await })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.migrate().await })
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        renewing!(self.0, it => async { journal_of(&it)?.plan_migration().await })
    }
}

/// Without the URL, which contains a password.
impl fmt::Debug for Rotating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rotating").field(&self.0.path).finish()
    }
}
