//! The help texts about the stores that this command was built with.

use shedlock::__stores::{STORES, StoreEntry};

use shedlock_support::text::listed;

/// The stores on servers. The others are a file or a process of this host.
fn served() -> impl Iterator<Item = &'static StoreEntry> {
    let built_in = STORES.iter().filter(|entry| entry.is_built_in);
    built_in.filter(|entry| !entry.servers.is_empty())
}

/// The text after the help of all commands.
pub(super) fn after_help() -> String {
    let titles: Vec<_> = served().map(|entry| entry.title).collect();
    format!(
        "Locks live in a store: SQLite on this host, or {} by URL (--store or SHEDLOCK_STORE, or \
         in a file: --store-file).\n\n\
         First steps:\n  \
         shedlock run --name backup --lock-at-most-for 10m -- ./backup.sh\n  \
         shedlock list\n  \
         shedlock run --help",
        listed(&titles, "or")
    )
}

/// The short help of `--store`.
pub(super) fn help() -> String {
    let mut urls: Vec<_> = served()
        .map(|entry| format!("{}://...", entry.schemes[0]))
        .collect();
    urls.push("sqlite:/FILE".to_owned());
    format!("URL of the store: {}", listed(&urls, "or"))
}

/// The long help of `--store`.
pub(super) fn long_help() -> String {
    let schemes: Vec<_> = served()
        .flat_map(|entry| entry.schemes.iter().copied())
        .chain(["sqlite"])
        .collect();
    format!(
        "{}\n\n\
         Supported schemes: {}.\n\n\
         The default is SHEDLOCK_STORE, or the URL in the file that SHEDLOCK_STORE_FILE names; \
         otherwise `store` in the configuration file (--config); otherwise this user's SQLite file \
         on this host ($XDG_STATE_HOME/shedlock/locks.db, or ~/.local/state/shedlock/locks.db), which \
         other hosts do not share. `run` and `hold` use that default on a terminal only: elsewhere, as in \
         a crontab, they need a store, or `local` here (the same as --local). `run` and `migrate` create a SQLite file that does not exist, \
         with its directory; the other commands create nothing. The path in a sqlite: URL must be \
         absolute. \
         Put a URL with a password into SHEDLOCK_STORE or into a file (--store-file): any user on \
         the host can read a command line.",
        help(),
        schemes.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_that_is_built_in_is_in_the_help() {
        for entry in served() {
            assert!(after_help().contains(entry.title), "{}", after_help());
            let url = format!("{}://...", entry.schemes[0]);
            assert!(help().contains(&url), "{}", help());
            for scheme in entry.schemes {
                assert!(long_help().contains(scheme), "{}", long_help());
            }
        }
        assert!(help().ends_with(" or sqlite:/FILE"), "{}", help());
    }

    /// They are absent if the command was built without them.
    #[test]
    fn no_store_that_is_missing_is_in_the_help() {
        for entry in STORES.iter().filter(|entry| !entry.is_built_in) {
            assert!(!after_help().contains(entry.title), "{}", after_help());
            assert!(!long_help().contains(entry.schemes[0]), "{}", long_help());
        }
    }
}
