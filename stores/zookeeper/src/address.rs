//! A provider from a URL.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use shedlock_core::{Error, ErrorKind, LockDefaults, parse_duration, warn_unverified};
use zookeeper_client::{Acl, Client, Permission};

use crate::sessions::{Ensemble, Sessions, TIMEOUT};
use crate::store::DEFAULT_PATH;
use crate::tls::{self, Files};
use crate::{ZooKeeperProvider, ZooKeeperStore};

/// Connects to the ensemble that this URL names:
/// `zookeeper://[user:password@]host[:port][,host[:port]…][/chroot]`, or, encrypted, `zookeepers://…`.
///
/// User and password are for the scheme `digest`. Options stand behind `?`:
///
/// | option | what |
/// |---|---|
/// | `path` | below which path the locks are; `/shedlock` unless given |
/// | `acl` | who may do what with nodes that are made: `anyone` (as with ShedLock; unless given), or `creator`, the user of the URL alone |
/// | `session_timeout` | how long a session lasts without a connection, like `10s`, which it is unless given; locks do not end with it |
/// | `timeout` | how long a connection and an answer are waited for, each; `5s` unless given |
/// | `tolerated_skew` | how much the clients' clocks may differ; `1s` unless given |
/// | `lock_at_most_for`, `lock_at_least_for` | durations for locks that set none |
/// | `owner_prefix` | what owners start with |
/// | `tls_ca` | a PEM file of the authorities that servers are trusted by; `zookeepers://` needs it |
/// | `tls_cert`, `tls_key` | PEM files of this client's certificate and its key |
///
/// The provider makes a session when it needs one and has none, or one that is broken.
///
/// # Errors
/// `InvalidInput` for a URL that cannot be read and for unknown options; `Unavailable` where nobody
/// answers; `Configuration` where the server refuses the user. The URL is in no message.
pub async fn connect(url: &str) -> Result<ZooKeeperProvider, Error> {
    let provider = read(url).map_err(|error| error.with_store("zookeeper"))?;
    let reached = provider.backend().records().reach().await;
    reached.map_err(|error| error.with_store("zookeeper"))?;
    Ok(provider)
}

/// The provider that a URL describes. Reads files of certificates, and nothing else.
pub(crate) fn read(url: &str) -> Result<ZooKeeperProvider, Error> {
    described(url).map_err(|error| error.of_url(url))
}

fn described(url: &str) -> Result<ZooKeeperProvider, Error> {
    let (scheme, rest) = url.split_once("://").ok_or_else(unreadable)?;
    let is_encrypted = match scheme.to_ascii_lowercase().as_str() {
        "zookeeper" => false,
        "zookeepers" => true,
        _ => {
            return Err(invalid(format!(
                "{scheme:?} is no scheme of ZooKeeper: write zookeeper:// or, with TLS, zookeepers://"
            )));
        }
    };
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, place) = match place.rsplit_once('@') {
        Some((user, place)) => (Some(decoded(user)?), place),
        None => (None, place),
    };
    let (hosts, chroot) = place.split_once('/').unwrap_or((place, ""));
    let options = Options::read(options)?;
    let mut connector = Client::connector()
        .with_session_timeout(options.session_timeout)
        .with_fail_eagerly();
    if let Some(user) = &user {
        if !user.contains(':') {
            return Err(invalid("the URL has a user without a password"));
        }
        connector = connector.with_auth("digest", user.as_bytes());
    }
    if options.is_creators_alone && user.is_none() {
        return Err(invalid(
            "the option \"acl\" of the URL is creator, and there is no user: write \
             zookeeper://user:password@host",
        ));
    }
    if is_encrypted {
        connector = tls::encrypted(connector, &options.files)?;
    } else if options.files != Files::default() {
        return Err(invalid(
            "the URL has files for TLS, which only zookeepers:// uses",
        ));
    }
    if !is_encrypted {
        let names = hosts.split(',').map(|host| match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => name,
            _ => host,
        });
        warn_unverified("zookeeper", names, "write zookeepers:// with tls_ca");
    }
    let ensemble = Ensemble {
        servers: servers(hosts, is_encrypted)?,
        chroot: decoded(chroot.trim_end_matches('/'))?,
        connector,
    };
    let sessions = Sessions::own(ensemble, options.timeout);
    let mut store = ZooKeeperStore::over(sessions).with_path(&options.path)?;
    if options.is_creators_alone {
        store = store.with_acl(vec![Acl::new_const(Permission::ALL, "auth", "")])?;
    }
    let store = shedlock_store::Versioned::new(store).with_tolerated_skew(options.tolerated_skew);
    Ok(store.provider().with_defaults(options.defaults))
}

/// The hosts as the client takes them.
fn servers(hosts: &str, is_encrypted: bool) -> Result<String, Error> {
    let mut servers = Vec::new();
    for host in hosts.split(',') {
        let (name, port) = match host.rsplit_once(':') {
            // The colons of an address in brackets are its own.
            Some((name, port)) if !port.ends_with(']') => (name, port),
            _ => (host, "2181"),
        };
        if name.is_empty() || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(unreadable());
        }
        let scheme = if is_encrypted { "tcp+tls" } else { "tcp" };
        servers.push(format!("{scheme}://{name}:{port}"));
    }
    Ok(servers.join(","))
}

/// What stands behind `?`.
#[derive(Debug)]
struct Options {
    path: String,
    is_creators_alone: bool,
    session_timeout: Duration,
    timeout: Duration,
    tolerated_skew: Duration,
    defaults: LockDefaults,
    files: Files,
}

impl Options {
    fn read(options: &str) -> Result<Self, Error> {
        let mut read = Self {
            path: DEFAULT_PATH.to_owned(),
            is_creators_alone: false,
            session_timeout: Duration::from_secs(10),
            timeout: TIMEOUT,
            tolerated_skew: shedlock_store::DEFAULT_TOLERATED_SKEW,
            defaults: LockDefaults::new(),
            files: Files::default(),
        };
        let mut names = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if names.contains(&name) {
                return Err(invalid(format!("option {name:?} is set twice in the URL")));
            }
            names.push(name);
            read.set(name, decoded(value)?)?;
        }
        Ok(read)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Error> {
        let duration = || {
            parse_duration(&value).map_err(|error| {
                invalid(format!("option {name:?} in the URL: {}", error.message()))
            })
        };
        match name {
            "path" => self.path = value,
            "acl" => {
                self.is_creators_alone = match value.as_str() {
                    "anyone" => false,
                    "creator" => true,
                    _ => return Err(invalid("the option \"acl\" must be anyone or creator")),
                }
            }
            "session_timeout" => self.session_timeout = duration()?,
            "timeout" => self.timeout = duration()?,
            "tolerated_skew" => self.tolerated_skew = duration()?,
            "lock_at_most_for" => {
                self.defaults = self.defaults.clone().lock_at_most_for(duration()?);
            }
            "lock_at_least_for" => {
                self.defaults = self.defaults.clone().lock_at_least_for(duration()?);
            }
            "owner_prefix" => self.defaults = self.defaults.clone().owner_prefix(&value),
            "tls_ca" => self.files.ca = Some(value),
            "tls_cert" => self.files.cert = Some(value),
            "tls_key" => self.files.key = Some(value),
            _ => {
                return Err(invalid(format!(
                    "unknown option {name:?} in the URL; known are path, acl, session_timeout, \
                     timeout, tolerated_skew, lock_at_most_for, lock_at_least_for, owner_prefix, \
                     tls_ca, tls_cert, tls_key"
                )));
            }
        }
        Ok(())
    }
}

fn decoded(text: &str) -> Result<String, Error> {
    let text = percent_decode_str(text).decode_utf8();
    Ok(text.map_err(|_| unreadable())?.into_owned())
}

fn unreadable() -> Error {
    invalid(
        "the URL cannot be read: write it like \
         zookeeper://user:password@host:2181,host:2181/chroot?option=value",
    )
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_and_without_options_are_read() {
        for url in [
            "zookeeper://zk",
            "ZooKeeper://ann:s%40crt@zk1:2181,zk2,[::1]:7000/app/env?acl=creator",
            "zookeeper://zk/?path=%2Fteam%2Flocks&session_timeout=30s&timeout=500ms",
            "zookeeper://zk?tolerated_skew=0s&lock_at_most_for=10m&owner_prefix=blue",
        ] {
            assert!(read(url).is_ok(), "{url}: {:?}", read(url));
        }
        let hosts = servers("zk1:7000,[::1],zk3", true).unwrap();
        assert_eq!(
            hosts,
            "tcp+tls://zk1:7000,tcp+tls://[::1]:2181,tcp+tls://zk3:2181"
        );
    }

    #[test]
    fn what_is_wrong_is_said_without_the_url() {
        for (url, says) in [
            ("zk:secret@h", "cannot be read"),
            ("http://u:secret@h", "no scheme of ZooKeeper"),
            ("zookeeper://u:secret@", "cannot be read"),
            ("zookeeper://u:secret@h:0", "cannot be read"),
            ("zookeeper://u:secret@h:port", "cannot be read"),
            ("zookeeper://u:secret@h,,h", "cannot be read"),
            ("zookeeper://secret@h", "without a password"),
            ("zookeeper://u:secret@h?table=x", "unknown option \"table\""),
            ("zookeeper://u:secret@h?path=secret", "no absolute path"),
            ("zookeeper://u:secret@h?path=/a&path=/b", "set twice"),
            ("zookeeper://u:secret@h?timeout=soon", "timeout"),
            ("zookeeper://u:secret@h?acl=me", "anyone or creator"),
            ("zookeeper://h?acl=creator", "no user"),
            ("zookeeper://u:secret@h?tls_ca=ca.pem", "only zookeepers://"),
        ] {
            let said = read(url).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(said.to_string().contains(says), "{said}");
            let is_path = url.contains("path=secret");
            assert!(is_path || !said.to_string().contains("secret"), "{said}");
        }
    }
}
