//! The URL of a store: where it comes from, and what this command can open.

use std::path::Path;

use shedlock::__stores::{STORES, StoreEntry};
use shedlock_support::redact;

use super::{file, sqlite};
use crate::exit::Failure;

/// Refuses the URL of a store that this command cannot open.
pub(super) fn check(url: &str, from: &str) -> Result<(), Failure> {
    sqlite::check(url, from)?;
    if is_masked(url) {
        return Err(Failure::usage(format!(
            "{from}: the password in this URL is hidden (***), as in all output of this command; \
             write the password in its place"
        )));
    }
    let Some(entry) = missing(url) else {
        return Ok(());
    };
    let name = entry.name;
    let tool = entry.build_tool.map_or_else(String::new, |tool| {
        format!(", whose client needs {tool} at build time")
    });
    Err(Failure::usage(format!(
        "{from}: this command was built without {name}{tool}; rebuild it with `--features {name}`, \
         for example with `cargo install shedlock-cli --features {name}`"
    )))
}

/// The URL with this value of the option, in place of any other.
pub(super) fn with_option(url: &str, option: &str, value: &str) -> String {
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let key = format!("{option}=");
    let own = format!("{key}{value}");
    let is_other = |it: &&str| !it.is_empty() && !it.starts_with(&key);
    let options: Vec<_> = options.split('&').filter(is_other).chain([&*own]).collect();
    format!("{place}?{}", options.join("&"))
}

/// Whether it is the URL of a SQL store.
pub(super) fn is_sql(url: &str) -> bool {
    let scheme = url.split(':').next().unwrap_or_default();
    let is_scheme = |it: &&str| it.eq_ignore_ascii_case(scheme);
    let mut entries = STORES.iter().filter(|it| it.schemes.iter().any(is_scheme));
    entries.any(|it| crate::output::is_sql(it.name))
}

/// The URL with the default table, unless it names a table or a schema.
pub(super) fn with_named_table(url: &str) -> String {
    let options = url.split_once('?').map_or("", |(_, options)| options);
    let mut keys = options.split('&').filter_map(|it| it.split('=').next());
    match keys.any(|key| matches!(key, "table" | "schema")) {
        true => url.to_owned(),
        false => with_option(url, "table", "shedlock"),
    }
}

/// The URL without the user and the password in it.
pub(super) fn without_login(url: &str) -> String {
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, place) = place.split_once("://").unwrap_or(("", place));
    let (hosts, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    // A password may contain an @.
    let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
    let is_login = |it: &&str| it.starts_with("user=") || it.starts_with("password=");
    let options: Vec<_> = options.split('&').filter(|it| !is_login(it)).collect();
    format!("{scheme}://{hosts}{path}?{}", options.join("&"))
}

/// Whether the URL was copied from a text whose passwords are hidden.
fn is_masked(url: &str) -> bool {
    let marks = ["//***@", ":***@", "password=***"];
    url.contains("***") && *redact(url) == *url && {
        let url = url.to_ascii_lowercase();
        marks.iter().any(|mark| url.contains(mark))
    }
}

/// The URL in this file, and where it came from.
pub(super) fn of_file(path: &Path, from: &str) -> Result<(String, String), Failure> {
    let from = match path.as_os_str().is_empty() {
        true => from.to_owned(),
        false => format!("{from} ({})", path.display()),
    };
    Ok((file::read(path, &from)?, from))
}

/// The store of this URL, if this command was built without it.
fn missing(url: &str) -> Option<&'static StoreEntry> {
    let scheme = url.split(':').next().unwrap_or_default();
    let mut others = STORES.iter().filter(|entry| !entry.is_built_in);
    others.find(|entry| {
        let mut schemes = entry.schemes.iter();
        schemes.any(|it| scheme.eq_ignore_ascii_case(it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotated_login_is_that_of_the_same_store() {
        let old = without_login("postgres://app:a@b@db:5432/app?table=t");
        for same in [
            "postgres://app:c@db:5432/app?table=t",
            "postgres://other@db:5432/app?table=t",
            "postgres://db:5432/app?user=app&table=t&password=c",
        ] {
            assert_eq!(without_login(same), old, "{same}");
        }
        for other in [
            "postgres://app:c@db2:5432/app?table=t",
            "postgres://app:c@db:5432/other?table=t",
            "postgres://app:c@db:5432/app",
            "mysql://app:c@db:5432/app?table=t",
        ] {
            assert_ne!(without_login(other), old, "{other}");
        }
    }

    #[test]
    fn a_hidden_password_is_not_taken_for_one() {
        for url in [
            "redis://user:geheim@host",
            "nats://geheim@host",
            "postgres://host/d?user=u&password=geheim",
        ] {
            assert!(!is_masked(url), "{url}");
            assert!(is_masked(&redact(url)), "{url}");
        }
        assert!(!is_masked("redis://host/?prefix=***"));
    }
}
