//! A journal in a store of its own.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use shedlock::{
    AuditRecord, AuditRequest, BoxFuture, Error, ErrorKind, JobRecord, JobsRequest, Journal,
    JournalEntry, Migration, MigrationStep, Retention, RunRecord, RunsRequest, Schema,
};
use shedlock_support::redact;
use tokio::sync::OnceCell;

use super::handover::Source;
use super::limit::in_time;
use super::rotating::Rotating;
use super::url::{check, of_file};
use super::{Address, place_of, schema_of, sqlite};
use crate::args::StoreArgs;
use crate::exit::Failure;

/// A journal, and where it is.
pub(crate) struct JournalPlace {
    /// `None` if that store cannot keep one.
    pub(crate) journal: Option<Arc<dyn Journal>>,
    /// The kind of the store.
    pub(crate) kind: String,
    /// For a message: without the password and the options of a URL.
    pub(crate) place: String,
}

/// The journal in the store of `--journal-store`. It connects at the first call, so that a store that
/// cannot be reached neither delays nor fails a run.
pub(super) struct OwnStore {
    url: String,
    /// The same without the right to create a file.
    address: Address,
    kind: &'static str,
    schema: Schema,
    place: String,
    connect_timeout: Option<Duration>,
    connected: OnceCell<Arc<dyn Journal>>,
    /// The file with the URL, which may be read again, and what named it.
    file: Option<(PathBuf, String)>,
}

/// Where the store of the journal is named, if it is. Nothing has been read or checked yet.
pub(super) fn source(
    args: &StoreArgs,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Source>, Failure> {
    let variables = ["SHEDLOCK_JOURNAL_STORE", "SHEDLOCK_JOURNAL_STORE_FILE"];
    let args = &args.journal;
    if let Some(url) = &args.journal_store {
        return Ok(Some(Source::url(url, "--journal-store")));
    }
    if let Some(path) = &args.journal_store_file {
        return Ok(Some(Source::file(path, "--journal-store-file")));
    }
    let source = Source::of_variables(variables, variable)?;
    Ok(source.or_else(|| args.setting.as_ref().map(Source::of_setting)))
}

/// The URL that was chosen for the journal, and the option, variable or file that it came from.
pub(super) fn choose(
    args: &StoreArgs,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<(String, String)>, Failure> {
    let Some(source) = source(args, variable)? else {
        return Ok(None);
    };
    let chosen = match source {
        Source::Url { url, from } => (url, from),
        Source::File { path, from } => of_file(&path, &from)?,
        Source::Local { .. } => return Ok(None),
    };
    let (url, from) = &chosen;
    if url.trim().is_empty() {
        return Err(Failure::usage(format!(
            "{from} is set but empty: set it to the URL of the journal's store, or unset it to keep \
             the journal with the locks"
        )));
    }
    check(url, from)?;
    Ok(Some(chosen))
}

/// The journal's own store, if it has one. Connects to nothing.
pub(crate) async fn own_journal(
    args: &StoreArgs,
) -> Result<Option<(JournalPlace, Arc<dyn Journal>)>, Failure> {
    let own = OwnStore::of(args).await?;
    Ok(own.map(|own| (own.place(), own as Arc<dyn Journal>)))
}

/// Where the journal is, if it has a store of its own, and the option, variable or file that chose
/// it. Connects to nothing.
pub(crate) fn chosen_journal(args: &StoreArgs) -> Result<Option<(String, String)>, Failure> {
    let chosen = choose(args, |name| std::env::var_os(name))?;
    Ok(chosen.map(|(url, from)| (redact(&url).into_owned(), from)))
}

/// The kind of the journal's own store, if it has one, and what it needs. Connects to nothing.
pub(crate) async fn journal_schema(
    args: &StoreArgs,
) -> Result<Option<(&'static str, Schema)>, Failure> {
    match choose(args, |name| std::env::var_os(name))? {
        Some((url, from)) => schema_of(&url, &from).await.map(Some),
        None => Ok(None),
    }
}

impl OwnStore {
    /// The journal that the arguments name, if they name one. Connects to nothing.
    pub(super) async fn of(args: &StoreArgs) -> Result<Option<Arc<Self>>, Failure> {
        let Some((url, from)) = choose(args, |name| std::env::var_os(name))? else {
            return Ok(None);
        };
        let (kind, schema) = schema_of(&url, &from).await?;
        if schema.journal.is_empty() {
            return Err(Failure::usage(format!(
                "{from}: {kind} cannot keep a journal; set it to the URL of a PostgreSQL, MySQL, \
                 MariaDB, SQLite, Redis, Valkey or MongoDB store"
            )));
        }
        let file = match source(args, |name| std::env::var_os(name))? {
            // A pipe can be read only once.
            Some(Source::File { path, .. }) if path.is_file() => Some((path, from)),
            _ => None,
        };
        let address = match sqlite::existing(&url) {
            Some(existing) => Address::Url(existing),
            None => Address::new(&url, file.as_ref().map(|(path, _)| &**path)),
        };
        Ok(Some(Arc::new(Self {
            file,
            address,
            kind,
            schema,
            place: place_of(&url),
            url,
            connect_timeout: args.connect_timeout,
            connected: OnceCell::new(),
        })))
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn place(self: &Arc<Self>) -> JournalPlace {
        JournalPlace {
            journal: Some(self.clone()),
            kind: self.kind.to_owned(),
            place: self.place.clone(),
        }
    }

    /// A connection that fails is tried again at the next call.
    async fn get(&self) -> Result<&dyn Journal, Error> {
        let connecting = || self.connect(&self.address);
        let connected = self.connected.get_or_try_init(connecting).await?;
        Ok(&**connected)
    }

    async fn connect(&self, address: &Address) -> Result<Arc<dyn Journal>, Error> {
        let limit = self.connect_timeout;
        let address = address.limited(limit);
        let opened = in_time(limit, None, &self.place, address.open()).await?;
        let opened = match &self.file {
            Some((path, from)) => {
                let file = (path.clone(), &**from);
                Arc::new(Rotating::new(opened, &self.url, file, false, limit))
            }
            None => opened,
        };
        // Its schema has a journal.
        let none = || Error::new(ErrorKind::Internal, "the store keeps no journal");
        opened.journal().ok_or_else(none)
    }

    /// The SQLite file, if it does not exist.
    fn missing_file(&self) -> Option<PathBuf> {
        sqlite::file(&self.url).filter(|file| !file.exists())
    }
}

impl Journal for OwnStore {
    fn record<'a>(&'a self, entries: &'a [JournalEntry]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { self.get().await?.record(entries).await })
    }

    fn job<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Option<JobRecord>, Error>> {
        Box::pin(async { self.get().await?.job(job).await })
    }

    fn jobs<'a>(
        &'a self,
        request: &'a JobsRequest,
    ) -> BoxFuture<'a, Result<Vec<JobRecord>, Error>> {
        Box::pin(async { self.get().await?.jobs(request).await })
    }

    fn runs<'a>(
        &'a self,
        request: &'a RunsRequest,
    ) -> BoxFuture<'a, Result<Vec<RunRecord>, Error>> {
        Box::pin(async { self.get().await?.runs(request).await })
    }

    fn audit<'a>(
        &'a self,
        request: &'a AuditRequest,
    ) -> BoxFuture<'a, Result<Vec<AuditRecord>, Error>> {
        Box::pin(async { self.get().await?.audit(request).await })
    }

    fn prune<'a>(
        &'a self,
        job: &'a str,
        retention: &'a Retention,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async { self.get().await?.prune(job, retention).await })
    }

    fn forget<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async { self.get().await?.forget(job).await })
    }

    fn version(&self) -> BoxFuture<'_, Result<Option<u32>, Error>> {
        Box::pin(async {
            match self.missing_file() {
                Some(_) => Ok(None),
                None => self.get().await?.version().await,
            }
        })
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async {
            match self.missing_file() {
                Some(_) => Ok(None),
                None => self.get().await?.identity().await,
            }
        })
    }

    fn missing_privileges(&self) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        Box::pin(async { self.get().await?.missing_privileges().await })
    }

    /// Also creates a SQLite file.
    fn migrate(&self) -> BoxFuture<'_, Result<Migration, Error>> {
        Box::pin(async {
            let address = Address::Url(self.url.clone());
            self.connect(&address).await?.migrate().await
        })
    }

    fn plan_migration(&self) -> BoxFuture<'_, Result<Vec<MigrationStep>, Error>> {
        Box::pin(async {
            let Some(file) = self.missing_file() else {
                return self.get().await?.plan_migration().await;
            };
            let mut steps = vec![MigrationStep::new(format!("create file {file:?}"))];
            steps.extend(self.schema.journal.iter().cloned());
            Ok(steps)
        })
    }
}

impl fmt::Debug for OwnStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnStore").field(&self.place).finish()
    }
}
