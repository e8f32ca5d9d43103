//! The store that a command line chooses, and how it is passed on to a nested `shedlock`.

use std::ffi::OsString;
use std::path::{self, Path, PathBuf};

use super::{Address, sqlite};
use crate::args::StoreArgs;
use crate::exit::Failure;
use crate::settings::{StoreChoice, StoreSetting};

/// What `--local` is in a variable.
const LOCAL: &str = "local";

/// Set in the environment of a command whose `shedlock run` does not pass its store on.
pub(super) const WITHHELD: &str = "SHEDLOCK_STORE_WITHHELD";

const STORE: &str = "SHEDLOCK_STORE";
const STORE_FILE: &str = "SHEDLOCK_STORE_FILE";

/// Where the store is named. Nothing has been read or checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A URL, and the option, variable or line that it came from.
    Url {
        url: String,
        from: String,
    },
    /// A file with a URL.
    File {
        path: PathBuf,
        from: String,
    },
    Local {
        is_meant: bool,
    },
}

impl Source {
    pub(super) fn of(
        args: &StoreArgs,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Failure> {
        if args.local {
            return Ok(Self::Local { is_meant: true });
        }
        if let Some(typed) = &args.store {
            return Ok(Self::url(typed, "--store"));
        }
        if let Some(path) = &args.store_file {
            return Ok(Self::file(path, "--store-file"));
        }
        if let Some(source) = Self::of_variables([STORE, STORE_FILE], &variable)? {
            return Ok(source);
        }
        if variable(WITHHELD).is_some() {
            let (what, other) = match &args.setting {
                Some(setting) => (
                    String::new(),
                    format!("{} is not used here, because it", setting.from),
                ),
                None => ("no store is set: ".to_owned(), "the default".to_owned()),
            };
            return Err(Failure::usage(format!(
                "{what}the `shedlock run` around this command does not pass its store on, and \
                 {other} might be a different store; add --pass-store to the outer run, or set the \
                 URL of a store with --store or SHEDLOCK_STORE, or use --local for a file on this \
                 host"
            )));
        }
        if let Some(setting) = &args.setting {
            return Ok(Self::of_setting(setting));
        }
        if variable("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty()) {
            return Err(Failure::usage(
                "no store is set: a lock in this pod's file does not exclude other pods; set the \
                 URL of a store that all pods share with --store or SHEDLOCK_STORE, or use --local \
                 (SHEDLOCK_STORE=local) if there is only one pod",
            ));
        }
        Ok(Self::Local { is_meant: false })
    }

    /// A URL, or the word for the file on this host.
    pub(crate) fn url(url: &str, from: &str) -> Self {
        if url == LOCAL {
            return Self::Local { is_meant: true };
        }
        Self::Url {
            url: url.to_owned(),
            from: from.to_owned(),
        }
    }

    pub(crate) fn file(path: &Path, from: &str) -> Self {
        Self::File {
            path: path.to_owned(),
            from: from.to_owned(),
        }
    }

    /// The URL in the first of these variables, or the file that the second one names.
    pub(super) fn of_variables(
        [url, file]: [&str; 2],
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, Failure> {
        match (variable(url), variable(file)) {
            (Some(_), Some(_)) => Err(Failure::usage(format!(
                "{url} and {file} are both set: unset one of them"
            ))),
            (Some(set), None) => {
                let set = set.into_string().map_err(|_| {
                    Failure::usage(format!("{url} is not valid UTF-8: set it to a URL"))
                })?;
                Ok(Some(Self::url(&set, url)))
            }
            (None, Some(path)) => Ok(Some(Self::file(Path::new(&path), file))),
            (None, None) => Ok(None),
        }
    }

    /// What the configuration file names.
    pub(super) fn of_setting(setting: &StoreSetting) -> Self {
        match &setting.choice {
            StoreChoice::Url(url) => Self::url(url, &setting.from),
            StoreChoice::File(path) => Self::file(path, &setting.from),
            StoreChoice::Local => Self::Local { is_meant: true },
        }
    }
}

/// The variables from which a nested `shedlock` takes its store: this one if it is passed on, and
/// otherwise a mark, with which it fails instead of using a default that may be another store.
///
/// However this store was chosen: an option or a file of settings may be out of reach of the nested
/// command, or name another store for it.
pub(crate) fn environment(
    args: &StoreArgs,
    address: &Address,
    is_passed: bool,
) -> [(&'static str, Option<String>); 3] {
    let source = Source::of(args, |name| std::env::var_os(name));
    let [url, file] = match (address, source) {
        // There is no password in it.
        (Address::File(file), _) => [sqlite::url_of(file), None],
        _ if !is_passed => [None, None],
        (Address::UrlInFile { url, .. }, Ok(Source::File { path, .. })) => {
            match readable_again(&path) {
                Some(path) => [None, Some(path)],
                None => [Some(url.clone()), None],
            }
        }
        (Address::Url(url) | Address::UrlInFile { url, .. }, _) => [Some(url.clone()), None],
    };
    let is_withheld = url.is_none() && file.is_none();
    let mark = is_withheld.then(|| "1".to_owned());
    [(STORE, url), (STORE_FILE, file), (WITHHELD, mark)]
}

/// The path of a file that a nested command can read, wherever it runs. `None` for a pipe, which
/// has been read.
fn readable_again(path: &Path) -> Option<String> {
    let path = path.is_file().then(|| path::absolute(path).ok())??;
    path.into_os_string().into_string().ok()
}
