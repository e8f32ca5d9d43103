//! What a URL says: servers, who we are, and options.

use std::time::Duration;

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;
use shedlock_core::{Error, ErrorKind};
use url::{Url, form_urlencoded};

/// What stands behind `?`.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) bucket: String,
    pub(crate) replicas: usize,
    pub(crate) in_memory: bool,
    pub(crate) sync_always: bool,
    pub(crate) domain: Option<String>,
    pub(crate) skew: Duration,
    pub(crate) timeout: Duration,
    pub(crate) credentials: Option<String>,
    pub(crate) nkey: Option<String>,
    pub(crate) tls: bool,
    pub(crate) authority: Option<String>,
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
}

/// What stands before it.
pub(crate) struct Servers {
    pub(crate) addresses: Vec<ServerAddr>,
    pub(crate) user: User,
    pub(crate) is_tls: bool,
}

#[derive(PartialEq, Eq)]
pub(crate) enum User {
    Nobody,
    Password(String, String),
    Token(String),
}

impl Options {
    /// # Errors
    /// `InvalidInput` for unknown options, ones that are given twice, and wrong values.
    pub(crate) fn read(options: &str) -> Result<Self, Error> {
        let mut wanted = Self {
            bucket: crate::store::DEFAULT_BUCKET.to_owned(),
            replicas: 1,
            in_memory: false,
            sync_always: false,
            domain: None,
            skew: shedlock_store::DEFAULT_TOLERATED_SKEW,
            timeout: Duration::from_secs(5),
            credentials: None,
            nkey: None,
            tls: false,
            authority: None,
            certificate: None,
            key: None,
        };
        let mut seen = Vec::new();
        for (name, value) in form_urlencoded::parse(options.as_bytes()) {
            if seen.contains(&name) {
                return Err(invalid(format!(
                    "the option {name:?} is set twice in the URL"
                )));
            }
            wanted.set(&name, &value)?;
            seen.push(name);
        }
        Ok(wanted)
    }

    /// Whether the server must speak TLS, which its scheme may ask for.
    pub(crate) fn needs_tls(&self, is_asked: bool) -> bool {
        let needs_it = self.authority.is_some() || self.certificate.is_some();
        is_asked || self.tls || needs_it
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let number = || {
            value
                .parse::<u32>()
                .map_err(|_| invalid(format!("the option {name:?} of the URL must be a number")))
        };
        let text = || Some(value.to_owned());
        match name {
            "bucket" => value.clone_into(&mut self.bucket),
            "replicas" => self.replicas = number()? as usize,
            "storage" if value == "file" => self.in_memory = false,
            "storage" if value == "memory" => self.in_memory = true,
            "storage" => {
                return Err(invalid("the option \"storage\" must be file or memory"));
            }
            "sync_always" if value == "true" => self.sync_always = true,
            "sync_always" if value == "false" => self.sync_always = false,
            "sync_always" => {
                return Err(invalid("the option \"sync_always\" must be true or false"));
            }
            "domain" => self.domain = text(),
            "tolerated_skew_ms" => self.skew = Duration::from_millis(number()?.into()),
            "timeout_ms" => self.timeout = Duration::from_millis(number()?.max(1).into()),
            "credentials" => self.credentials = text(),
            "nkey" => self.nkey = text(),
            "tls" if value == "true" => self.tls = true,
            "tls" if value == "false" => self.tls = false,
            "tls" => return Err(invalid("the option \"tls\" must be true or false")),
            "tls_ca" => self.authority = text(),
            "tls_cert" => self.certificate = text(),
            "tls_key" => self.key = text(),
            _ => {
                return Err(invalid(format!(
                    "the URL has the unknown option {name:?}: use bucket, replicas, storage, \
                     sync_always, domain, tolerated_skew_ms, timeout_ms, credentials, nkey, tls, tls_ca, \
                     tls_cert, tls_key"
                )));
            }
        }
        Ok(())
    }
}

impl Servers {
    /// What stands before the first host holds for all.
    ///
    /// # Errors
    /// `InvalidInput`; it never shows the URL, which may hold a password.
    pub(crate) fn read(url: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once("://").ok_or_else(unreadable)?;
        let (user, hosts) = match rest.rsplit_once('@') {
            Some((user, hosts)) => (user_of(user)?, hosts),
            None => (User::Nobody, rest),
        };
        let hosts = hosts.trim_end_matches('/').split(',');
        let addresses = hosts.map(|host| {
            let url = Url::parse(&format!("{scheme}://{host}")).map_err(|_| unreadable())?;
            ServerAddr::from_url(url).map_err(|_| unreadable())
        });
        Ok(Self {
            addresses: addresses.collect::<Result<_, _>>()?,
            user,
            is_tls: scheme == "tls",
        })
    }
}

fn user_of(text: &str) -> Result<User, Error> {
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(String::from).map_err(|_| unreadable())
    };
    Ok(match text.split_once(':') {
        Some((user, password)) => User::Password(decoded(user)?, decoded(password)?),
        None => User::Token(decoded(text)?),
    })
}

fn unreadable() -> Error {
    invalid(
        "the URL cannot be read: write nats://[user:password@]host[:port], or nats://token@host",
    )
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_store("nats")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_of_a_cluster_is_a_server_and_the_user_is_one() {
        let servers = Servers::read("nats://ann:p%40ss@a:4223,b").unwrap();
        let addresses = servers.addresses.iter();
        let seen: Vec<_> = addresses.map(|it| (it.host(), it.port())).collect();
        assert_eq!(seen, [("a", 4223), ("b", 4222)]);
        let ann = User::Password("ann".to_owned(), "p@ss".to_owned());
        assert!(servers.user == ann && !servers.is_tls);
        let servers = Servers::read("tls://s3cret@a").unwrap();
        assert!(servers.user == User::Token("s3cret".to_owned()) && servers.is_tls);
    }

    #[test]
    fn unknown_options_and_wrong_values_are_refused_without_the_url() {
        for wrong in [
            "colour=blue",
            "storage=tape",
            "sync_always=often",
            "replicas=many",
            "timeout_ms",
            "tls=perhaps",
            "bucket=a&bucket=b",
        ] {
            let error = Options::read(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
        let error = Servers::read("ann:secret@host").err().unwrap();
        assert!(!error.to_string().contains("secret"));
    }

    #[test]
    fn options_are_unescaped() {
        let options = Options::read("credentials=%2Fetc%2Fa+b.creds&domain=hub&tls=true").unwrap();
        assert_eq!(options.credentials.as_deref(), Some("/etc/a b.creds"));
        assert_eq!(options.domain.as_deref(), Some("hub"));
        assert!(options.tls);
    }
}
