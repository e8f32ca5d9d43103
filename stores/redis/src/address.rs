//! URLs: what is ours of their options is taken out and checked, the rest is the client's.

use std::time::Duration;

use redis::ProtocolVersion;
use shedlock_core::{Error, LockDefaults, parse_duration};

use crate::builder::Builder;
use crate::connections::TIMEOUT;
use crate::servers::{Kind, Servers, Ways, invalid};
use crate::tls::Files;

/// The options that a URL may have.
const OPTIONS: &[&str] = &[
    "environment",
    "key_prefix",
    "lock_at_most_for",
    "lock_at_least_for",
    "owner_prefix",
    "connect_timeout",
    "response_timeout",
    "wait_replicas",
    "wait_timeout",
    "server_skew",
    "protocol",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "sentinel_username",
    "sentinel_password",
];

/// How long replicas are waited for, unless set.
const WAIT: Duration = Duration::from_secs(1);

/// The builder that a URL describes; no I/O but for the files that it names.
///
/// # Errors
/// `InvalidInput`; it never shows the URL, which may hold a password.
pub(crate) fn builder(text: &str) -> Result<Builder, Error> {
    read(text).map_err(|error| error.of_url(text))
}

fn read(text: &str) -> Result<Builder, Error> {
    let mut servers = Servers::parse(text)?;
    if servers.is_tls {
        // Where the program has chosen another one, that stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let pairs: Vec<(String, String)> = servers.url.query_pairs().into_owned().collect();
    servers.url.set_query(None);
    let (mut environment, mut prefix) = (None, None);
    let mut defaults = LockDefaults::new();
    let mut files = Files::default();
    let (mut replicas, mut wait) = (None, None);
    let mut server_skew = Duration::ZERO;
    let mut ways = Ways {
        connect: TIMEOUT,
        response: TIMEOUT,
        protocol: None,
        tls: None,
        sentinel_username: None,
        sentinel_password: None,
    };
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
            "connect_timeout" => ways.connect = duration(key, value)?,
            "response_timeout" => ways.response = duration(key, value)?,
            "wait_replicas" => replicas = Some(number(key, value)?),
            "wait_timeout" => wait = Some(duration(key, value)?),
            "server_skew" => server_skew = duration(key, value)?,
            "protocol" => ways.protocol = Some(protocol(value)?),
            "tls_ca" | "tls_cert" | "tls_key" if !servers.is_tls => {
                return Err(invalid(format!(
                    "option {key:?} in the URL is for encrypted connections: write the scheme \
                     with \"rediss\""
                )));
            }
            "tls_ca" => files.authority = Some(value.clone()),
            "tls_cert" => files.certificate = Some(value.clone()),
            "tls_key" => files.key = Some(value.clone()),
            "sentinel_username" if servers.kind == Kind::Sentinels => {
                ways.sentinel_username = Some(value.clone());
            }
            "sentinel_password" if servers.kind == Kind::Sentinels => {
                ways.sentinel_password = Some(value.clone());
            }
            _ => {
                return Err(invalid(format!(
                    "unknown option {key:?} in the URL; known are {}, the last two for sentinels",
                    OPTIONS.join(", "),
                )));
            }
        }
    }
    ways.tls = files.read()?;
    let response = ways.response;
    if let (Kind::One, Some(protocol)) = (servers.kind, ways.protocol) {
        let word = if protocol == ProtocolVersion::RESP3 {
            "resp3"
        } else {
            "resp2"
        };
        servers.url.query_pairs_mut().append_pair("protocol", word);
    }
    let mut builder = Builder::new(servers.connections(ways)?)
        .defaults(defaults)
        .server_skew(server_skew);
    if let Some(environment) = environment {
        builder = builder.environment(environment);
    }
    if let Some(prefix) = prefix {
        builder = builder.key_prefix(prefix);
    }
    match (replicas, wait) {
        (Some(replicas), wait) => {
            let wait = wait.unwrap_or(WAIT);
            if wait >= response {
                return Err(invalid(
                    "the option \"wait_timeout\" in the URL must be shorter than \
                     \"response_timeout\"",
                ));
            }
            builder = builder.wait_for_replicas(replicas, wait);
        }
        (None, Some(_)) => {
            return Err(invalid(
                "the option \"wait_timeout\" in the URL is for \"wait_replicas\", which is missing",
            ));
        }
        (None, None) => {}
    }
    Ok(builder)
}

fn number(key: &str, value: &str) -> Result<u32, Error> {
    value
        .parse()
        .map_err(|_| invalid(format!("option {key:?} in the URL must be a number")))
}

fn protocol(value: &str) -> Result<ProtocolVersion, Error> {
    match value {
        "resp2" => Ok(ProtocolVersion::RESP2),
        "resp3" => Ok(ProtocolVersion::RESP3),
        _ => Err(invalid(
            "the option \"protocol\" in the URL must be resp2 or resp3",
        )),
    }
}

fn duration(key: &str, value: &str) -> Result<Duration, Error> {
    parse_duration(value)
        .map_err(|error| invalid(format!("option {key:?} in the URL: {}", error.message())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::ErrorKind;

    #[test]
    fn urls_with_and_without_options_are_read() {
        for url in [
            "redis://127.0.0.1",
            "redis://:secret@[::1]:7000/3?protocol=resp3",
            "redis://user:p%40ss@host/0?environment=prod&lock_at_most_for=10m",
            "rediss://host:6380?connect_timeout=1s&response_timeout=500ms&owner_prefix=blue",
            "redis-sentinel://:pw@s1:26379,s2:26379/mymaster/0?environment=prod",
            "redis-sentinel://s1/mymaster?sentinel_username=watch&sentinel_password=geheim",
            "rediss-sentinel://s1,s2,s3/mymaster?protocol=resp3",
            "redis://host?wait_replicas=1",
            "redis://host?wait_replicas=2&wait_timeout=500ms&server_skew=2s",
            "redis-cluster://user:p%40ss@h1:7000,[::1]:7001,h3?environment=prod",
            "rediss-cluster://h1?protocol=resp3&connect_timeout=1s",
        ] {
            let built = builder(url).and_then(Builder::build);
            assert!(built.is_ok(), "{url}: {built:?}");
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
            ("redis://u:secret@h?protocol=4", "resp2 or resp3"),
            ("redis://u:secret@h?tls_ca=/ca.pem", "encrypted"),
            ("rediss://u:secret@h?tls_ca=/no/such.pem", "cannot be read"),
            ("rediss://u:secret@h?tls_cert=/c.pem", "tls_key"),
            ("redis://u:secret@h?sentinel_password=x", "unknown option"),
            ("redis://u:secret@h?wait_replicas=all", "must be a number"),
            ("redis://u:secret@h?wait_timeout=1s", "is missing"),
            (
                "redis://u:secret@h?wait_replicas=1&wait_timeout=5s",
                "shorter",
            ),
        ] {
            let said = builder(url).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput);
            assert!(said.to_string().contains(says), "{said}");
            assert!(!said.to_string().contains("secret"), "{said}");
        }
    }
}
