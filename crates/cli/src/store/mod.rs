//! Which store, and a connection to it.

mod exposed;
mod file;
mod handover;
mod journal;
mod limit;
mod local;
mod rotating;
mod sqlite;
mod url;

use std::fmt;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shedlock::__stores::STORES;
use shedlock::{Error, ErrorKind, Journal, LockProvider, Schema};
use shedlock_sqlx::open_sqlite;

use crate::args::StoreArgs;
use crate::exit::Failure;
use crate::terminal::{Terminal, warnings_are_about};
pub(crate) use exposed::warn_of_exposed_stores;
#[cfg(feature = "ui")]
pub(crate) use exposed::{warn_of_exposed_file, warn_of_exposed_source};
pub(crate) use handover::{Source, environment};
pub(crate) use journal::JournalPlace;
use journal::OwnStore;
pub(crate) use journal::{chosen_journal, journal_schema, own_journal};
use limit::in_time;
use local::LocalStore;
pub(crate) use local::state_folder;
use rotating::Rotating;
use shedlock_support::redact;
use url::{check, of_file};

/// A connected store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    provider: Arc<dyn LockProvider>,
    place: String,
    address: Address,
    /// The journal, if it is in another store.
    journal: Option<Arc<OwnStore>>,
}

/// Where another process of this program finds a store.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Address {
    /// A URL, which may contain a password.
    Url(String),
    /// The URL in a file, and the file, which may have another login by then.
    UrlInFile { url: String, file: PathBuf },
    /// An SQLite file.
    File(PathBuf),
}

impl Address {
    fn new(url: &str, file: Option<&Path>) -> Self {
        let url = url.to_owned();
        match file.and_then(|file| path::absolute(file).ok()) {
            Some(file) => Self::UrlInFile { url, file },
            None => Self::Url(url),
        }
    }

    /// Connects to the store.
    pub(crate) async fn open(&self) -> Result<Arc<dyn LockProvider>, Error> {
        match self {
            Self::Url(url) => shedlock::connect(url).await,
            Self::UrlInFile { url, file } => {
                let refused = match shedlock::connect(url).await {
                    Err(refused) => refused,
                    opened => return opened,
                };
                match rotating::new_login(file, "", url) {
                    Some(url) => shedlock::connect(&url).await,
                    None => Err(refused),
                }
            }
            Self::File(file) => Ok(Arc::new(open_sqlite(file).await?)),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

/// Where the user keeps the locks.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// A URL, and the option or variable that it came from.
    Url {
        url: String,
        from: String,
        /// The file that it was read from, and may be read from again.
        file: Option<PathBuf>,
    },
    Local {
        is_meant: bool,
    },
}

/// What a command does with its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// It takes a lock. A missing SQLite file is created.
    Lock,
    /// It prepares the store. A missing SQLite file is created.
    Prepare,
    /// It reads, or acts on an existing lock. Nothing is created.
    Read,
}

/// Prints the note about commands that were refused on this host because no store was set, once.
pub(crate) fn report_refusals(terminal: Terminal) {
    if terminal.is_read_by_a_person()
        && let Ok(local) = LocalStore::locate()
    {
        local.report_refusals(terminal);
    }
}

/// The first advice if the default file does not exist.
const UNSET: &str = "no store is set, so this is the default: set the store that your jobs use \
                     (--store or SHEDLOCK_STORE)";

impl Store {
    /// Connects to the store of the arguments, otherwise of SHEDLOCK_STORE, otherwise to the local
    /// one, to prepare it. A SQLite file that does not exist is created.
    pub(crate) async fn open_to_prepare(
        args: &StoreArgs,
        terminal: Terminal,
    ) -> Result<Self, Failure> {
        Self::open_with(args, terminal, Purpose::Prepare, None).await
    }

    /// The same, and allows a SQL table beside other lock tables.
    pub(crate) async fn open_to_prepare_new(
        args: &StoreArgs,
        terminal: Terminal,
    ) -> Result<Self, Failure> {
        let choice = Choice::make(args)?.with_new_table()?;
        Self::open_choice(choice, args, terminal, Purpose::Prepare, None).await
    }

    /// The same for a command that takes a lock, within this time.
    pub(crate) async fn open_to_lock(
        args: &StoreArgs,
        terminal: Terminal,
        limit: Option<Duration>,
    ) -> Result<Self, Failure> {
        Self::open_with(args, terminal, Purpose::Lock, limit).await
    }

    /// The same for a command that reads, or acts on an existing lock: nothing is created.
    pub(crate) async fn open_existing(
        args: &StoreArgs,
        terminal: Terminal,
    ) -> Result<Self, Failure> {
        Self::open_with(args, terminal, Purpose::Read, None).await
    }

    /// Connects to another store than that of the arguments; nothing is created. Its journal is the one
    /// beside its locks.
    #[cfg(feature = "ui")]
    pub(crate) async fn open_source(source: Source, terminal: Terminal) -> Result<Self, Failure> {
        Self::connect(Choice::of(source)?, terminal, Purpose::Read, None).await
    }

    async fn open_with(
        args: &StoreArgs,
        terminal: Terminal,
        purpose: Purpose,
        within: Option<Duration>,
    ) -> Result<Self, Failure> {
        Self::open_choice(Choice::make(args)?, args, terminal, purpose, within).await
    }

    async fn open_choice(
        choice: Choice,
        args: &StoreArgs,
        terminal: Terminal,
        purpose: Purpose,
        within: Option<Duration>,
    ) -> Result<Self, Failure> {
        let journal = OwnStore::of(args).await?;
        let place = choice.place();
        let opening = Self::connect(choice, terminal, purpose, args.connect_timeout);
        let opened = in_time(args.connect_timeout, within, &place, opening).await?;
        Ok(Self { journal, ..opened })
    }

    async fn connect(
        choice: Choice,
        terminal: Terminal,
        purpose: Purpose,
        timeout: Option<Duration>,
    ) -> Result<Self, Failure> {
        let create = purpose != Purpose::Read;
        warnings_are_about(&choice.place());
        Ok(match choice {
            Choice::Url { url, from, file } => {
                let address = Address::new(&url, file.as_deref());
                let connected = match (create, sqlite::existing(&url)) {
                    (false, Some(existing)) => Address::Url(existing).open().await,
                    _ => Address::Url(url.clone()).limited(timeout).open().await,
                };
                let provider = connected.map_err(|error| refused(error, &from))?;
                let provider = match file {
                    Some(file) => {
                        let file = (file, &*from);
                        Arc::new(Rotating::new(provider, &url, file, create, timeout))
                    }
                    None => provider,
                };
                Self {
                    provider,
                    place: place_of(&url),
                    address,
                    journal: None,
                }
            }
            Choice::Local { is_meant } => {
                let local = LocalStore::locate()?;
                if purpose == Purpose::Lock && !is_meant && !terminal.is_read_by_a_person() {
                    return Err(local.refuse());
                }
                let provider = if create {
                    local.open_or_create().await?
                } else {
                    local.open().await.map_err(|failure| {
                        // Often the store is set where the jobs run, such as in a crontab, and not here.
                        if is_meant {
                            failure
                        } else {
                            failure.advise(UNSET)
                        }
                    })?
                };
                if !is_meant {
                    local.tell_once(terminal);
                }
                Self {
                    provider,
                    place: local.place(),
                    address: Address::File(local.into_file()),
                    journal: None,
                }
            }
        })
    }

    pub(crate) fn provider(&self) -> &Arc<dyn LockProvider> {
        &self.provider
    }

    /// The journal, if the store, or the one that was named for it, can keep one.
    pub(crate) fn journal(&self) -> Option<Arc<dyn Journal>> {
        match &self.journal {
            Some(own) => Some(own.clone()),
            None => self.provider.journal(),
        }
    }

    /// Where the journal is.
    pub(crate) fn journal_place(&self) -> JournalPlace {
        match &self.journal {
            Some(own) => own.place(),
            None => JournalPlace {
                journal: self.provider.journal(),
                kind: self.provider.store().to_owned(),
                place: self.place.clone(),
            },
        }
    }

    /// Whether the journal is in another store than the locks.
    pub(crate) fn has_own_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Where another process finds the journal, if it is not in the store of the locks.
    pub(crate) fn journal_address(&self) -> Option<&Address> {
        self.journal.as_deref().map(OwnStore::address)
    }

    /// Where another process finds the store.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Where the locks are, for a message: without the password and the options of a URL.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }
}

/// The kind of the store, and what it needs before it can keep locks. Connects to nothing.
pub(crate) async fn schema(args: &StoreArgs) -> Result<(&'static str, Schema), Failure> {
    let (url, from) = match Choice::make(args)? {
        Choice::Url { url, from, .. } => (url, from),
        // The file's path is not part of a statement.
        Choice::Local { .. } => ("sqlite:/locks.db".to_owned(), String::new()),
    };
    schema_of(&url, &from).await
}

async fn schema_of(url: &str, from: &str) -> Result<(&'static str, Schema), Failure> {
    let schema = shedlock::schema(url).await;
    let schema = schema.map_err(|error| refused(error, from))?;
    let scheme = url.split(':').next().unwrap_or_default();
    let has_scheme = |known: &&str| known.eq_ignore_ascii_case(scheme);
    let entry = STORES.iter().find(|it| it.schemes.iter().any(has_scheme));
    Ok((entry.map_or("", |entry| entry.name), schema))
}

/// The SQLite file of this store, if it does not exist.
pub(crate) fn missing_file(args: &StoreArgs) -> Result<Option<PathBuf>, Failure> {
    let file = match Choice::make(args)? {
        Choice::Url { url, .. } => sqlite::file(&url),
        Choice::Local { .. } => Some(LocalStore::locate()?.into_file()),
    };
    Ok(file.filter(|file| !file.exists()))
}

/// Where the locks are, and the option, variable or file that chose it. Connects to nothing.
pub(crate) fn chosen(args: &StoreArgs) -> Result<(String, String), Failure> {
    match Choice::make(args)? {
        Choice::Url { url, from, .. } => {
            let setting = args.setting.as_ref();
            let from = match setting.and_then(|it| Some((it, from.strip_prefix(&it.from)?))) {
                Some((setting, file)) => setting.place.clone() + file,
                None => from,
            };
            Ok((redact(&url).into_owned(), from))
        }
        Choice::Local { is_meant } => {
            let place = LocalStore::locate()?.place();
            let from = match &args.setting {
                _ if args.local => "--local",
                Some(setting) if is_meant => &setting.place,
                _ => "default",
            };
            Ok((place, from.to_owned()))
        }
    }
}

/// Where the locks are, for a message. Connects to nothing.
#[cfg(feature = "ui")]
pub(crate) fn chosen_place(args: &StoreArgs) -> Result<String, Failure> {
    match Choice::make(args)? {
        Choice::Local { .. } => Ok(LocalStore::locate()?.place()),
        choice => Ok(choice.place()),
    }
}

/// Whether the URL of the store sets `lock_at_most_for`. Connects to nothing.
pub(crate) fn sets_at_most(args: &StoreArgs) -> Result<bool, Failure> {
    let choice = Choice::make(args)?;
    Ok(matches!(&choice, Choice::Url { url, .. } if has_at_most(url)))
}

fn has_at_most(url: &str) -> bool {
    let options = url.split_once('?').map_or("", |(_, options)| options);
    let options = options.split('#').next().unwrap_or_default();
    options
        .split('&')
        .any(|option| option.split('=').next() == Some("lock_at_most_for"))
}

/// Why a command about one lock did nothing.
pub(crate) fn no_such_lock(store: &Store, args: &StoreArgs) -> String {
    format!(
        "there is no such lock in {}; to see all, run `shedlock list{}`",
        store.place(),
        args.option()
    )
}

/// A URL that is wrong is named with the option or variable that it came from.
fn refused(error: Error, from: &str) -> Failure {
    let is_wrong = error.kind() == ErrorKind::InvalidInput;
    let failure = Failure::from(error);
    if is_wrong {
        failure.of_option(from)
    } else {
        failure
    }
}

fn place_of(url: &str) -> String {
    let clean = redact(url);
    clean.split('?').next().unwrap_or_default().to_owned()
}

impl Choice {
    fn make(args: &StoreArgs) -> Result<Self, Failure> {
        Self::of(Source::of(args, |name| std::env::var_os(name))?)
    }

    fn of(source: Source) -> Result<Self, Failure> {
        match source {
            Source::Url { url, from } => Self::url(&url, &from, None),
            Source::File { path, from } => {
                let (url, from) = of_file(&path, &from)?;
                // A pipe can be read only once.
                let file = path.is_file().then_some(path);
                Self::url(&url, &from, file)
            }
            Source::Local { is_meant } => Ok(Self::Local { is_meant }),
        }
    }

    /// Names the table of a SQL store unless the URL does, so that it may be created beside others.
    fn with_new_table(self) -> Result<Self, Failure> {
        match self {
            Self::Url { url, from, file } if url::is_sql(&url) => {
                let url = url::with_named_table(&url);
                Ok(Self::Url { url, from, file })
            }
            _ => Err(Failure::usage(
                "--new-table: this store has no tables to choose from; leave the option out",
            )),
        }
    }

    /// Where the locks are, for a message.
    fn place(&self) -> String {
        match self {
            Self::Url { url, .. } => place_of(url),
            Self::Local { .. } => "the local store".to_owned(),
        }
    }

    fn url(url: &str, from: &str, file: Option<PathBuf>) -> Result<Self, Failure> {
        // An empty value is probably a variable that was never set. Continuing with the local store
        // would run the command on every host.
        if url.trim().is_empty() {
            return Err(Failure::usage(format!(
                "{from} is set but empty: set it to the URL of the store, or use --local for a \
                 file on this host"
            )));
        }
        if url.starts_with("memory:") {
            return Err(Failure::usage(format!(
                "{from}: locks in memory do not keep other processes out, and are gone when this one \
                 ends; set the URL of a store, or use --local for a file on this host"
            )));
        }
        check(url, from)?;
        Ok(Self::Url {
            url: url.to_owned(),
            from: from.to_owned(),
            file,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::handover::WITHHELD;
    use super::*;
    use crate::args::JournalStoreArgs;

    fn choose(
        store: Option<&str>,
        local: bool,
        variables: &[(&str, &str)],
    ) -> Result<Choice, Failure> {
        let args = StoreArgs {
            store: store.map(str::to_owned),
            store_file: None,
            local,
            connect_timeout: None,
            journal: JournalStoreArgs::default(),
            setting: None,
        };
        let source = Source::of(&args, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        });
        Choice::of(source?)
    }

    #[test]
    fn the_argument_wins_over_the_variable_over_the_local_store() {
        let variables = [("SHEDLOCK_STORE", "postgres://b")];
        let url = |url: &str, from: &str| Choice::Url {
            url: url.to_owned(),
            from: from.to_owned(),
            file: None,
        };
        let chosen = choose(Some("postgres://a"), false, &variables);
        assert_eq!(chosen.unwrap(), url("postgres://a", "--store"));
        let chosen = choose(None, false, &variables);
        assert_eq!(chosen.unwrap(), url("postgres://b", "SHEDLOCK_STORE"));
        let chosen = choose(None, true, &variables);
        assert_eq!(chosen.unwrap(), Choice::Local { is_meant: true });
        let chosen = choose(None, false, &[]);
        assert_eq!(chosen.unwrap(), Choice::Local { is_meant: false });
        let nested = [(WITHHELD, "1")];
        assert!(choose(None, false, &nested).is_err());
        assert!(choose(None, true, &nested).is_ok());
        assert!(choose(Some("postgres://a"), false, &nested).is_ok());
    }

    #[test]
    fn the_place_of_a_store_has_no_options() {
        for (url, place) in [
            ("sqlite:/var/lib/x.db", "sqlite:/var/lib/x.db"),
            ("postgres://h/d?user=u&password=geheim", "postgres://h/d"),
            ("postgres://u:ge?heim@h/d", "postgres://u:***@h/d"),
        ] {
            assert_eq!(place_of(url), place);
        }
    }

    #[test]
    fn lock_at_most_for_is_found_in_a_url_without_connecting() {
        for (url, is_set) in [
            ("postgres://h/d?lock_at_most_for=10m", true),
            ("postgres://h/d?table=t&lock_at_most_for=10m", true),
            ("postgres://h/d?lock_at_least_for=10m", false),
            ("postgres://h/lock_at_most_for=10m", false),
            ("sqlite:x.db", false),
        ] {
            assert_eq!(has_at_most(url), is_set, "{url}");
        }
    }

    #[test]
    fn what_would_not_exclude_other_processes_is_refused() {
        let pod = [("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
        assert!(choose(None, false, &pod).is_err());
        assert!(choose(None, true, &pod).is_ok());
        assert!(choose(Some("postgres://a"), false, &pod).is_ok());
        assert!(choose(None, false, &[("KUBERNETES_SERVICE_HOST", "")]).is_ok());
        assert!(choose(None, false, &[("SHEDLOCK_STORE", "")]).is_err());
        assert!(choose(Some(" "), false, &[]).is_err());
        assert!(choose(Some("memory:"), false, &[]).is_err());
    }

    #[test]
    fn a_store_that_is_not_built_in_is_refused_with_what_to_do() {
        for entry in STORES.iter().filter(|entry| !entry.is_built_in) {
            for scheme in entry.schemes {
                let url = format!("{scheme}://user:secret@a,b/");
                let failure = choose(Some(&url), false, &[]).unwrap_err();
                let said = failure.message();
                let advice = format!("--features {}", entry.name);
                assert!(said.contains(&advice), "{said}");
                let tool = entry.build_tool.unwrap_or_default();
                assert!(said.contains(tool), "{said}");
                assert!(!said.contains("secret"), "{said}");
            }
        }
    }
}
