//! URLs: what is ours of their options is taken out and checked, the rest is the driver's.

use std::time::Duration;

use shedlock_core::{Error, ErrorKind, LockDefaults, parse_duration};
use url::Url;

use crate::options::{Settings, TimeMode};

/// The options that every dialect takes in its URL. Connections: how many at most, and how long to
/// wait for one.
const OURS: &[&str] = &[
    "table",
    "schema",
    "name_column",
    "lock_until_column",
    "locked_at_column",
    "locked_by_column",
    "time",
    "lock_at_most_for",
    "lock_at_least_for",
    "owner_prefix",
    "max_connections",
    "acquire_timeout",
    "timeout",
];

/// A URL, read.
pub(crate) struct Address {
    /// What is left for the driver: no option of ours.
    pub(crate) url: Url,
    pub(crate) settings: Settings,
    /// As set, if it is.
    pub(crate) max_connections: Option<usize>,
    pub(crate) acquire_timeout: Duration,
    /// The options that are the dialect's own, in their order.
    pub(crate) special: Vec<(String, String)>,
}

/// Connections of our own to a server at most, unless set. Each is made only when it is needed: one
/// is enough for a program with one job at a time.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) const MAX_CONNECTIONS: usize = 4;

/// How long an operation waits for a connection, unless set.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

impl Address {
    /// Reads a URL. `special` are the options that the dialect alone knows; `theirs` those that
    /// its driver knows (`options[` stands for all that start with it).
    ///
    /// # Errors
    /// `InvalidInput`; it never shows the URL, which may hold a password.
    pub(crate) fn parse(text: &str, special: &[&str], theirs: &[&str]) -> Result<Self, Error> {
        let url = Url::parse(text).map_err(|error| {
            invalid(format!(
                "the store's URL cannot be read ({error}): write it like \
                 scheme://user:password@host/database?option=value"
            ))
        })?;
        let mut address = Self {
            url: url.clone(),
            settings: Settings::default(),
            max_connections: None,
            acquire_timeout: ACQUIRE_TIMEOUT,
            special: Vec::new(),
        };
        let mut seen: Vec<String> = Vec::new();
        let mut rest: Vec<(String, String)> = Vec::new();
        let mut defaults = LockDefaults::new();
        for (key, value) in url.query_pairs() {
            let (key, value) = (key.into_owned(), value.into_owned());
            if OURS.contains(&&*key) || special.contains(&&*key) {
                if seen.contains(&key) {
                    return Err(invalid(format!("option {key:?} is set twice in the URL")));
                }
                seen.push(key.clone());
            }
            if OURS.contains(&&*key) {
                defaults = address.set(&key, &value, defaults)?;
            } else if special.contains(&&*key) {
                address.special.push((key, value));
            } else if theirs
                .iter()
                .any(|known| *known == key || (known.ends_with('[') && key.starts_with(known)))
            {
                rest.push((key, value));
            } else {
                return Err(invalid(format!(
                    "unknown option {key:?} in the URL; known are {}, and of the driver {}",
                    [OURS, special].concat().join(", "),
                    theirs.join(", ").replace('[', "[…]"),
                )));
            }
        }
        address.settings.defaults = defaults;
        address.url.set_query(None);
        if !rest.is_empty() {
            address.url.query_pairs_mut().extend_pairs(rest);
        }
        Ok(address)
    }

    fn set(
        &mut self,
        key: &str,
        value: &str,
        defaults: LockDefaults,
    ) -> Result<LockDefaults, Error> {
        let settings = &mut self.settings;
        match key {
            "table" => value.clone_into(&mut settings.table),
            "schema" => settings.schema = Some(value.to_owned()),
            "name_column" => value.clone_into(&mut settings.name),
            "lock_until_column" => value.clone_into(&mut settings.lock_until),
            "locked_at_column" => value.clone_into(&mut settings.locked_at),
            "locked_by_column" => value.clone_into(&mut settings.locked_by),
            "time" => settings.time = time(value)?,
            "lock_at_most_for" => return Ok(defaults.lock_at_most_for(duration(key, value)?)),
            "lock_at_least_for" => return Ok(defaults.lock_at_least_for(duration(key, value)?)),
            "owner_prefix" => return Ok(defaults.owner_prefix(value)),
            "max_connections" => {
                let count = value.parse().ok().filter(|n| (1..=1_000).contains(n));
                let wanted = "a number from 1 to 1000";
                self.max_connections = Some(count.ok_or_else(|| wrong(key, value, wanted))?);
            }
            "timeout" => settings.timeout = Some(duration(key, value)?),
            _ => self.acquire_timeout = duration(key, value)?,
        }
        Ok(defaults)
    }
}

fn time(value: &str) -> Result<TimeMode, Error> {
    match value {
        "store" => Ok(TimeMode::Store),
        "client" => Ok(TimeMode::client()),
        _ => Err(wrong("time", value, "store or client")),
    }
}

/// A duration of an option.
pub(crate) fn duration(key: &str, value: &str) -> Result<Duration, Error> {
    parse_duration(value)
        .map_err(|error| invalid(format!("option {key:?} in the URL: {}", error.message())))
}

/// A truth value of an option.
pub(crate) fn flag(key: &str, value: &str) -> Result<bool, Error> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong(key, value, "true or false")),
    }
}

fn wrong(key: &str, value: &str, wanted: &str) -> Error {
    invalid(format!(
        "option {key:?} in the URL is {value:?}: it takes {wanted}"
    ))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, Error> {
        Address::parse(text, &["prepared"], &["sslmode", "options["])
    }

    #[test]
    fn ours_are_taken_out_and_theirs_stay() {
        let address = parse(
            "postgres://u:p@h/db?table=jobs&sslmode=require&prepared=false&options[a]=b&\
             lock_at_most_for=10m",
        )
        .unwrap();
        assert_eq!(
            address.url.as_str(),
            "postgres://u:p@h/db?sslmode=require&options%5Ba%5D=b"
        );
        assert_eq!(address.settings.table, "jobs");
        assert_eq!(address.special, [("prepared".into(), "false".into())]);
        assert_eq!(
            address.settings.defaults,
            LockDefaults::new().lock_at_most_for(Duration::from_secs(600))
        );
    }

    #[test]
    fn a_url_without_options_stays_as_it_is() {
        assert_eq!(
            parse("postgres://h/db").unwrap().url.as_str(),
            "postgres://h/db"
        );
    }

    #[test]
    fn what_is_not_known_is_refused_by_name_and_shows_no_password() {
        let message = |text: &str| {
            let error = parse(text).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
            error.to_string()
        };
        assert!(message("postgres://u:secret@h/db?tabel=x").contains("unknown option \"tabel\""));
        assert!(message("postgres://u:secret@h/db?tabel=x").contains("table, schema"));
        assert!(message("postgres://u:secret@h/db?table=a&table=b").contains("twice"));
        assert!(message("postgres://u:secret@h/db?time=java").contains("store or client"));
        assert!(message("postgres://u:secret@h/db?max_connections=0").contains("1 to 1000"));
        assert!(message("postgres://u:secret@h/db?acquire_timeout=5").contains("acquire_timeout"));
        assert!(message("postgres://u:secret@h:port/db").contains("cannot be read"));
    }
}
