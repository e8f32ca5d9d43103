//! A store whose URL is in a file, which is read again when the store refuses the URL that was in it: passwords are
//! rotated while a command runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use shedlock::admin::{Change, Changed, Seen};
use shedlock::{
    Attempt, AttemptRequest, AuditRecord, AuditRequest, BoxFuture, Capabilities, Error, ErrorKind,
    ExtendRequest, Extension, Finding, JobRecord, JobsRequest, Journal, JournalEntry, Lease,
    ListRequest, LockDefaults, LockName, LockProvider, LockRecord, Migration, MigrationStep,
    ProviderIdentity, Retention, RunRecord, RunsRequest, Schema, Unlock, UnlockRequest,
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

/// Methods that call the current connection, or its journal, and once more if it was renewed.
macro_rules! renewing {
    (
        $this:ident => $rotating:expr, $it:ident => $callee:expr;
        $(fn $method:ident($($arg:ident: $of:ty),*) -> $result:ty;)+
    ) => {$(
        fn $method<'a>(&'a $this, $($arg: &'a $of),*) -> BoxFuture<'a, Result<$result, Error>> {
            Box::pin(async move {
                let call = async |$it: Arc<dyn LockProvider>| $callee.$method($($arg),*).await;
                let used = $rotating.current();
                match call(used.clone()).await {
                    Ok(done) => Ok(done),
                    Err(error) => match $rotating.renewed(&used, &error).await {
                        Some(renewed) => call(renewed).await,
                        None => Err(error),
                    },
                }
            })
        }
    )+};
}

impl LockProvider for Rotating {
    renewing! {
        self => self, it => it;
        fn attempt(request: AttemptRequest) -> Attempt;
        fn withdraw(request: AttemptRequest) -> bool;
        fn extend(lease: Lease, request: ExtendRequest) -> Extension;
        fn unlock(lease: Lease, request: UnlockRequest) -> Unlock;
        fn inspect(name: LockName) -> Option<LockRecord>;
        fn list(request: ListRequest) -> Vec<LockRecord>;
        fn look(name: LockName) -> Option<Seen>;
        fn change(name: LockName, seen: Seen, change: Change) -> Changed;
        fn remove(name: LockName, seen: Seen) -> Changed;
        fn check() -> ();
        fn diagnose() -> Vec<Finding>;
        fn store_time() -> Option<SystemTime>;
        fn written_until() -> Option<SystemTime>;
        fn migrate() -> Migration;
        fn plan_migration() -> Vec<MigrationStep>;
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
    renewing! {
        self => self.0, it => journal_of(&it)?;
        fn record(entries: [JournalEntry]) -> ();
        fn job(job: str) -> Option<JobRecord>;
        fn jobs(request: JobsRequest) -> Vec<JobRecord>;
        fn runs(request: RunsRequest) -> Vec<RunRecord>;
        fn audit(request: AuditRequest) -> Vec<AuditRecord>;
        fn prune(job: str, retention: Retention) -> u64;
        fn forget(job: str) -> bool;
        fn version() -> Option<u32>;
        fn identity() -> Option<String>;
        fn missing_privileges() -> Vec<String>;
        fn migrate() -> Migration;
        fn plan_migration() -> Vec<MigrationStep>;
    }
}

/// Without the URL, which contains a password.
impl fmt::Debug for Rotating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rotating").field(&self.0.path).finish()
    }
}
