//! Reads the parts of a URL that do not depend on the store.

use crate::stores::STORES;
use crate::{Error, ErrorKind, MemoryProvider};
use std::borrow::Cow;

/// Returns the scheme in lower case, and the text after its colon.
pub(crate) fn split(url: &str) -> Result<(String, &str), Error> {
    let split = url
        .split_once(':')
        .map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    let split = split.filter(|(scheme, rest)| {
        let is_word = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        // Without the slashes the word could also be the user of `user:password@host`, which must
        // not appear in a message.
        let has_none = matches!(scheme.as_str(), "sqlite" | "memory" | JDBC);
        is_word && (rest.starts_with("//") || has_none)
    });
    split.ok_or_else(|| {
        let known = in_quotes(url).or_else(|| without_slashes(url));
        known.unwrap_or_else(without_scheme)
    })
}

/// Returns the error for a URL in quotation marks, as Docker and some other readers of env files pass it on.
fn in_quotes(url: &str) -> Option<Error> {
    url.trim_start().starts_with(['"', '\'', '`']).then(|| {
        invalid("the store's URL begins with a quotation mark").advise(
            "remove the quotes around it (in an env file, they may count as part of the value)",
        )
    })
}

fn without_scheme() -> Error {
    invalid("the store's URL has no scheme").advise(
        "write it like \"postgres://user@host/database\" or \"sqlite:/var/lib/app/locks.db\"",
    )
}

/// Returns the error for the scheme of a store that lacks its slashes. It repeats that word alone.
fn without_slashes(url: &str) -> Option<Error> {
    let (scheme, example) = example(url)?;
    Some(
        invalid(format!("the store's URL lacks \"//\" after \"{scheme}:\""))
            .advise(format!("write it like {example:?}")),
    )
}

/// The scheme of a store at the start of this URL, and a URL of that scheme as an example.
fn example(url: &str) -> Option<(&'static str, String)> {
    let (word, _) = url.split_once(':')?;
    STORES.iter().find_map(|entry| {
        let mut schemes = entry.schemes.iter();
        let scheme = schemes.find(|scheme| word.eq_ignore_ascii_case(scheme))?;
        let (_, rest) = entry.example.split_once(':')?;
        let place = rest.rsplit('@').next()?;
        let slashes = if place.len() < rest.len() { "//" } else { "" };
        Some((*scheme, format!("{scheme}:{slashes}{place}")))
    })
}

/// Before the scheme of a database in the URLs of Java.
const JDBC: &str = "jdbc";

/// Returns the error for a scheme that no store has. `rest` follows it in the URL, and `known` lists
/// the schemes of the stores.
pub(crate) fn unknown(scheme: &str, rest: &str, known: &str) -> Error {
    let of_java = example(rest).filter(|_| scheme == JDBC);
    let what_to_do = match of_java {
        Some((_, example)) => format!("leave out \"jdbc:\" and write it like {example:?}"),
        None => format!("use {known}"),
    };
    invalid(format!("unknown URL scheme {scheme:?}")).advise(what_to_do)
}

/// Returns the provider of `memory:`. Nothing may follow the colon but slashes.
pub(crate) fn memory(rest: &str) -> Result<MemoryProvider, Error> {
    if !rest.trim_start_matches('/').is_empty() {
        return Err(invalid("locks in memory have no name or options").advise("write \"memory:\""));
    }
    Ok(MemoryProvider::new())
}

pub(crate) fn invalid(what: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidInput, what)
}
