//! URLs: what is ours of their options is taken out and checked, the rest is the client's.

use std::time::Duration;

use redis::Client;
use shedlock_core::{Error, ErrorKind, LockDefaults, parse_duration};
use url::Url;

use crate::builder::Builder;
use crate::connections::{Connections, TIMEOUT};

/// The options that we take in a URL.
const OURS: &[&str] = &[
    "environment",
    "key_prefix",
    "lock_at_most_for",
    "lock_at_least_for",
    "owner_prefix",
    "connect_timeout",
    "response_timeout",
];

/// Those of the client.
const THEIRS: &[&str] = &["protocol"];

/// The builder that a URL describes; no I/O.
///
/// # Errors
/// `InvalidInput`; it never shows the URL, which may hold a password.
pub(crate) fn builder(text: &str) -> Result<Builder, Error> {
    let mut url = Url::parse(text).map_err(|error| {
        invalid(format!(
            "the store's URL cannot be read ({error}): write it like \
             redis://user:password@host:6379/0?option=value"
        ))
    })?;
    let scheme = url.scheme().to_owned();
    match &*scheme {
        "redis" => {}
        "rediss" => {
            // Where the program has chosen another one, that stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        _ => {
            return Err(invalid(format!(
                "{scheme:?} is no scheme of Redis: write redis:// or, with TLS, rediss://"
            )));
        }
    }
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    url.set_query(None);
    let mut theirs = Vec::new();
    let (mut connect, mut response) = (TIMEOUT, TIMEOUT);
    let (mut environment, mut prefix) = (None, None);
    let mut defaults = LockDefaults::new();
    for (i, (key, value)) in pairs.iter().enumerate() {
        if pairs[..i].iter().any(|(before, _)| before == key) {
            return Err(invalid(format!("option {key:?} is set twice in the URL")));
        }
        match &**key {
            "environment" => environment = Some(value.clone()),
            "key_prefix" => prefix = Some(value.clone()),
            "lock_at_most_for" => defaults = defaults.lock_at_most_for(duration(key, value)?),
            "lock_at_least_for" => defaults = defaults.lock_at_least_for(duration(key, value)?),
            "owner_prefix" => defaults = defaults.owner_prefix(value),
            "connect_timeout" => connect = duration(key, value)?,
            "response_timeout" => response = duration(key, value)?,
            _ if THEIRS.contains(&&**key) => theirs.push((key, value)),
            _ => {
                return Err(invalid(format!(
                    "unknown option {key:?} in the URL; known are {}, and of the client {}",
                    OURS.join(", "),
                    THEIRS.join(", "),
                )));
            }
        }
    }
    if !theirs.is_empty() {
        url.query_pairs_mut().extend_pairs(theirs);
    }
    let client = Client::open(url).map_err(|error| {
        invalid("the client cannot use the store's URL; its reason is the source")
            .with_source(error)
    })?;
    let mut builder = Builder::new(Connections::own(client, connect, response)).defaults(defaults);
    if let Some(environment) = environment {
        builder = builder.environment(environment);
    }
    if let Some(prefix) = prefix {
        builder = builder.key_prefix(prefix);
    }
    Ok(builder)
}

fn duration(key: &str, value: &str) -> Result<Duration, Error> {
    parse_duration(value)
        .map_err(|error| invalid(format!("option {key:?} in the URL: {}", error.message())))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_store("redis")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_and_without_options_are_read() {
        for url in [
            "redis://127.0.0.1",
            "redis://:secret@[::1]:7000/3?protocol=resp3",
            "redis://user:p%40ss@host/0?environment=prod&lock_at_most_for=10m",
            "rediss://host:6380?connect_timeout=1s&response_timeout=500ms&owner_prefix=blue",
        ] {
            assert!(builder(url).is_ok_and(|it| it.build().is_ok()), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_url() {
        let long = "redis://u:secret@h?lock_at_most_for=soon";
        for (url, says) in [
            ("http://u:secret@h", "no scheme of Redis"),
            ("redis://u:secret@h?table=x", "unknown option \"table\""),
            (
                "redis://u:secret@h?environment=a&environment=b",
                "set twice",
            ),
            (long, "lock_at_most_for"),
            ("redis://u:secret@h/nine", "cannot use"),
        ] {
            let said = builder(url).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput);
            assert!(said.to_string().contains(says), "{said}");
            assert!(!said.to_string().contains("secret"), "{said}");
        }
    }
}
