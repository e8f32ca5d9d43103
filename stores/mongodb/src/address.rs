//! URLs: what is ours of their options is taken out and checked, the rest is the driver's.

use std::time::Duration;

use mongodb::options::{ClientOptions, ServerAddress, Tls};
use mongodb::{Client, error};
use shedlock_core::{Error, ErrorKind, LockDefaults, parse_duration, warn_unverified};
use url::form_urlencoded;

use crate::builder::{Builder, COLLECTION, TIMEOUT};
use crate::time::TimeMode;

/// The options that we take in a URL.
const OURS: &[&str] = &[
    "collection",
    "time",
    "timeout",
    "lock_at_most_for",
    "lock_at_least_for",
    "owner_prefix",
    "server_skew",
];

/// A URL, read.
#[derive(Debug)]
pub(crate) struct Address {
    /// What is left for the driver: no option of ours.
    pub(crate) url: String,
    collection: String,
    time: TimeMode,
    timeout: Duration,
    defaults: LockDefaults,
    server_skew: Duration,
}

/// The builder that a URL describes. Of I/O only what the driver needs to resolve
/// `mongodb+srv://`.
///
/// # Errors
/// `InvalidInput`; it never shows the URL, which may hold a password. `Unavailable` where a DNS
/// seed list cannot be looked up.
pub(crate) async fn builder(text: &str) -> Result<Builder, Error> {
    described(text).await.map_err(|error| error.of_url(text))
}

async fn described(text: &str) -> Result<Builder, Error> {
    let address = Address::parse(text)?;
    let mut options = ClientOptions::parse(&address.url).await.map_err(refused)?;
    let Some(database) = options.default_database.clone() else {
        return Err(invalid(
            "the store's URL names no database: write mongodb://host/database",
        ));
    };
    // Shorter than the driver's 30 and 10 s, so that an outage is told by what it is.
    options.server_selection_timeout.get_or_insert(TIMEOUT);
    options.connect_timeout.get_or_insert(TIMEOUT);
    options
        .app_name
        .get_or_insert_with(|| "shedlock".to_owned());
    let is_verified = match &options.tls {
        Some(Tls::Enabled(tls)) => tls.allow_invalid_certificates != Some(true),
        _ => false,
    };
    if !is_verified {
        let hosts = options.hosts.iter().map(|address| match address {
            ServerAddress::Tcp { host, .. } => &**host,
            // A socket of this host.
            _ => "",
        });
        let remedy = "set tls=true in the URL, without tlsInsecure and tlsAllowInvalidCertificates";
        warn_unverified("mongodb", hosts, remedy);
    }
    let client = Client::with_options(options).map_err(refused)?;
    Ok(Builder::of_database(client.database(&database))
        .collection(address.collection)
        .time(address.time)
        .timeout(address.timeout)
        .defaults(address.defaults)
        .server_skew(address.server_skew))
}

impl Address {
    /// By hand, since a URL of MongoDB may name several hosts.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, _) = text.split_once("://").unwrap_or_default();
        if !["mongodb", "mongodb+srv"].contains(&scheme) {
            return Err(invalid(
                "this is no URL of MongoDB: write mongodb://user:password@host/database, or \
                 mongodb+srv://…",
            ));
        }
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        // The driver looks for the two digits by bytes, and panics in the middle of a letter.
        let is_escape = |rest: &str| {
            let digits = rest.as_bytes().get(..2);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        if !place.split('%').skip(1).all(is_escape) {
            return Err(invalid(
                "the store's URL has a '%' without two hexadecimal digits behind it: write %25",
            ));
        }
        let mut address = Self {
            url: place.to_owned(),
            collection: COLLECTION.to_owned(),
            time: TimeMode::Store,
            timeout: TIMEOUT,
            defaults: LockDefaults::new(),
            server_skew: Duration::ZERO,
        };
        let mut theirs = Vec::new();
        let mut seen = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = form_urlencoded::parse(pair.as_bytes()).next() else {
                continue;
            };
            if !OURS.contains(&&*key) {
                theirs.push(pair);
                continue;
            }
            if seen.contains(&key) {
                return Err(invalid(format!("option {key:?} is set twice in the URL")));
            }
            address.set(&key, &value)?;
            seen.push(key);
        }
        if !theirs.is_empty() {
            address.url = format!("{place}?{}", theirs.join("&"));
        }
        Ok(address)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let defaults = std::mem::take(&mut self.defaults);
        self.defaults = match key {
            "lock_at_most_for" => defaults.lock_at_most_for(duration(key, value)?),
            "lock_at_least_for" => defaults.lock_at_least_for(duration(key, value)?),
            "owner_prefix" => defaults.owner_prefix(value),
            _ => defaults,
        };
        match (key, value) {
            ("collection", _) => value.clone_into(&mut self.collection),
            ("timeout", _) => self.timeout = duration(key, value)?,
            ("server_skew", _) => self.server_skew = duration(key, value)?,
            ("time", "store") => self.time = TimeMode::Store,
            ("time", "client") => self.time = TimeMode::client(),
            ("time", _) => {
                return Err(invalid(format!(
                    "option \"time\" in the URL is {value:?}: write store or client"
                )));
            }
            _ => {}
        }
        Ok(())
    }
}

fn duration(key: &str, value: &str) -> Result<Duration, Error> {
    parse_duration(value)
        .map_err(|error| invalid(format!("option {key:?} in the URL: {}", error.message())))
}

/// The driver names the option that it does not know.
pub(crate) fn refused(error: error::Error) -> Error {
    match &*error.kind {
        error::ErrorKind::DnsResolve { .. } => Error::new(
            ErrorKind::Unavailable,
            "the hosts behind mongodb+srv:// could not be looked up; the reason is the source",
        )
        .with_store("mongodb"),
        error::ErrorKind::InvalidTlsConfig { .. } => Error::new(
            ErrorKind::Configuration,
            "the certificates that the URL names cannot be used; the reason is the source",
        )
        .with_store("mongodb"),
        _ => invalid(format!(
            "the driver cannot use the store's URL, its reason is the source; beside the driver's \
             options known are {}",
            OURS.join(", ")
        )),
    }
    .with_source(error)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_store("mongodb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_options_are_taken_out_and_theirs_are_left_as_they_are() {
        let address = Address::parse(
            "mongodb://u:p%40ss@a:1,b:2/ops?replicaSet=rs0&collection=locks&time=client\
             &tlsCAFile=%2Fca.pem&timeout=2s&server_skew=3s&lock_at_most_for=10m&owner_prefix=blue",
        )
        .unwrap();
        assert_eq!(
            address.url,
            "mongodb://u:p%40ss@a:1,b:2/ops?replicaSet=rs0&tlsCAFile=%2Fca.pem"
        );
        assert_eq!(address.collection, "locks");
        assert_eq!(address.time, TimeMode::client());
        assert_eq!(address.timeout, Duration::from_secs(2));
        assert_eq!(address.server_skew, Duration::from_secs(3));
    }

    #[tokio::test]
    async fn what_is_wrong_is_said_without_the_url() {
        for (url, says) in [
            ("postgres://u:secret@h/d", "no URL of MongoDB"),
            ("mongodb://u:secret@h", "names no database"),
            ("mongodb://u:secret@h/", "names no database"),
            ("mongodb://u:secret%é@h/d", "write %25"),
            ("mongodb://u:secret%@h/d", "write %25"),
            ("mongodb://u:secret@h/d?time=sometimes", "store or client"),
            (
                "mongodb://u:secret@h/d?collection=a&collection=b",
                "set twice",
            ),
            (
                "mongodb://u:secret@h/d?lock_at_most_for=soon",
                "lock_at_most_for",
            ),
            ("mongodb://u:secret@h/d?colour=blue", "known are collection"),
        ] {
            let said = builder(url).await.unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(said.to_string().contains(says), "{said}");
            assert!(!format!("{said:?}").contains("secret"), "{said:?}");
        }
        for url in [
            "mongodb://u:secret@h/d?collection=$x",
            "mongodb://u:secret@h/d?timeout=0s",
        ] {
            let built = builder(url).await.and_then(Builder::build);
            let said = built.unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{said}");
        }
    }

    #[tokio::test]
    async fn a_builder_does_not_show_the_password() {
        let builder = builder("mongodb://u:secret@h/d").await.unwrap();
        assert!(!format!("{builder:?}").contains("secret"));
        let provider = builder.build().unwrap();
        assert!(!format!("{provider:?}").contains("secret"));
    }
}
