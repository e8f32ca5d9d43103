//! The store that a command line chooses, and how it is passed on to a nested `shedlock`.

use std::ffi::OsString;
use std::path::{self, Path, PathBuf};

use super::{Address, sqlite};
use crate::args::StoreArgs;
use crate::exit::Failure;
use crate::settings::{StoreChoice, StoreSetting};

/// Set in the environment of a command whose `shedlock run` does not pass its store on.
pub(super) const WITHHELD: &str = "SHEDLOCK_STORE_WITHHELD";

const STORE: &str = "SHEDLOCK_STORE";
const STORE_FILE: &str = "SHEDLOCK_STORE_FILE";

/// Where the store is named. Nothing has been read or checked yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
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
        let url = |url: &str, from: &str| Self::Url {
            url: url.to_owned(),
            from: from.to_owned(),
        };
        let file = |path: &Path, from: &str| Self::File {
            path: path.to_owned(),
            from: from.to_owned(),
        };
        if args.local {
            return Ok(Self::Local { is_meant: true });
        }
        if let Some(typed) = &args.store {
            return Ok(url(typed, "--store"));
        }
        if let Some(path) = &args.store_file {
            return Ok(file(path, "--store-file"));
        }
        match (variable(STORE), variable(STORE_FILE)) {
            (Some(_), Some(_)) => {
                return Err(Failure::usage(
                    "SHEDLOCK_STORE and SHEDLOCK_STORE_FILE are both set: unset one of them",
                ));
            }
            (Some(set), None) => {
                let set = set.into_string().map_err(|_| {
                    Failure::usage("SHEDLOCK_STORE is not valid UTF-8: set it to a URL")
                })?;
                return Ok(url(&set, STORE));
            }
            (None, Some(path)) => return Ok(file(Path::new(&path), STORE_FILE)),
            (None, None) => {}
        }
        if variable(WITHHELD).is_some() {
            return Err(Failure::usage(
                "no store is set: the `shedlock run` around this command does not pass its store \
                 on, and a default could be another store; start it with --pass-store, or set the \
                 URL of a store with --store or SHEDLOCK_STORE, or use --local for a file on this \
                 host",
            ));
        }
        if let Some(StoreSetting { choice, from, .. }) = &args.setting {
            return Ok(match choice {
                StoreChoice::Url(set) => url(set, from),
                StoreChoice::File(path) => file(path, from),
                StoreChoice::Local => Self::Local { is_meant: true },
            });
        }
        if variable("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty()) {
            return Err(Failure::usage(
                "no store is set: a lock in this pod's file does not exclude other pods; set the \
                 URL of a store that all pods share with --store or SHEDLOCK_STORE, or use --local \
                 if there is only one pod",
            ));
        }
        Ok(Self::Local { is_meant: false })
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
        (Address::Url(_), _) if !is_passed => [None, None],
        (Address::Url(url), Ok(Source::File { path, .. })) => match readable_again(&path) {
            Some(path) => [None, Some(path)],
            None => [Some(url.clone()), None],
        },
        (Address::Url(url), _) => [Some(url.clone()), None],
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
