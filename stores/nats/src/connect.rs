//! A provider from a URL.

use std::time::Duration;

use async_nats::{ConnectErrorKind, ConnectOptions};
use shedlock_core::{Error, ErrorKind};
use url::Url;

use crate::{NatsProvider, NatsStore};

/// Connects to the server that this URL names: `nats://[user:password@]host[:port]`, or `tls://…`.
///
/// Several servers of one cluster are parted by commas in the host. Options stand behind `?`:
///
/// | option | what |
/// |---|---|
/// | `bucket` | the bucket; `shedlock-locks` unless given |
/// | `replicas` | how many servers keep the bucket, where `migrate` makes it; 1 unless given |
/// | `storage` | `file` or `memory`, where `migrate` makes it; `file` unless given |
/// | `tolerated_skew_ms` | how much the clients' clocks may differ; 1000 unless given |
/// | `timeout_ms` | how long an answer is waited for; 5000 unless given |
///
/// The client connects again by itself when its connection is lost.
///
/// # Errors
/// `InvalidInput` for a URL that cannot be read and for unknown options; `Unavailable` where nobody
/// answers; `Configuration` where the server refuses the user. The URL is in no message.
pub async fn connect(url: &str) -> Result<NatsProvider, Error> {
    let (servers, options) = url.split_once('?').unwrap_or((url, ""));
    let wanted = Wanted::read(options)?;
    let servers = servers_of(servers)?;
    let options = ConnectOptions::new()
        .connection_timeout(wanted.timeout)
        .request_timeout(Some(wanted.timeout))
        .ping_interval(Duration::from_secs(10));
    // The server may ask for TLS. Where the program has chosen a crypto library, that stays; where
    // several are there and it has not, the client would panic.
    let _ = async_nats::rustls::crypto::ring::default_provider().install_default();
    let client = options.connect(servers).await.map_err(refused)?;
    let mut store = NatsStore::new(client)
        .with_bucket(&wanted.bucket)?
        .with_request_timeout(wanted.timeout)
        .with_replicas(wanted.replicas);
    if wanted.in_memory {
        store = store.in_memory();
    }
    Ok(store.provider().with_tolerated_skew(wanted.skew))
}

struct Wanted {
    bucket: String,
    replicas: usize,
    in_memory: bool,
    skew: Duration,
    timeout: Duration,
}

impl Wanted {
    fn read(options: &str) -> Result<Self, Error> {
        let mut wanted = Self {
            bucket: crate::store::DEFAULT_BUCKET.to_owned(),
            replicas: 1,
            in_memory: false,
            skew: shedlock_cas::DEFAULT_TOLERATED_SKEW,
            timeout: Duration::from_secs(5),
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let number = || {
                value.parse::<u32>().map_err(|_| {
                    invalid(format!("the option {name:?} of the URL must be a number"))
                })
            };
            match name {
                "bucket" => value.clone_into(&mut wanted.bucket),
                "replicas" => wanted.replicas = number()? as usize,
                "storage" if value == "file" => wanted.in_memory = false,
                "storage" if value == "memory" => wanted.in_memory = true,
                "storage" => {
                    return Err(invalid("the option \"storage\" must be file or memory"));
                }
                "tolerated_skew_ms" => wanted.skew = Duration::from_millis(number()?.into()),
                "timeout_ms" => wanted.timeout = Duration::from_millis(number()?.max(1).into()),
                _ => {
                    return Err(invalid(format!(
                        "the URL has the unknown option {name:?}: use bucket, replicas, storage, \
                         tolerated_skew_ms, timeout_ms"
                    )));
                }
            }
        }
        Ok(wanted)
    }
}

/// One URL for each server: what stands before the first host holds for all.
fn servers_of(url: &str) -> Result<Vec<async_nats::ServerAddr>, Error> {
    let unreadable =
        || invalid("the URL cannot be read: write nats://[user:password@]host[:port], or tls://…");
    let (scheme, rest) = url.split_once("://").ok_or_else(unreadable)?;
    let (user, hosts) = match rest.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), rest),
    };
    let hosts = hosts.trim_end_matches('/').split(',');
    let servers = hosts.map(|host| {
        let url = Url::parse(&format!("{scheme}://{user}{host}")).map_err(|_| unreadable())?;
        async_nats::ServerAddr::from_url(url).map_err(|_| unreadable())
    });
    servers.collect()
}

fn refused(error: async_nats::ConnectError) -> Error {
    let (kind, message) = match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => (
            ErrorKind::Configuration,
            "the server refuses this user: check name, password or token in the URL",
        ),
        ConnectErrorKind::Tls => (
            ErrorKind::Configuration,
            "no encrypted connection could be made: check the server's certificate",
        ),
        _ => (
            ErrorKind::Unavailable,
            "the server cannot be reached: is it up, and is the address right?",
        ),
    };
    Error::new(kind, message)
        .with_store("nats")
        .with_source(error)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_store("nats")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_of_a_cluster_is_a_server_with_the_same_user() {
        let servers = servers_of("nats://ann:secret@a:4223,b").unwrap();
        let seen: Vec<_> = servers
            .iter()
            .map(|s| {
                (
                    s.host().to_owned(),
                    s.port(),
                    s.username().map(str::to_owned),
                )
            })
            .collect();
        let ann = Some("ann".to_owned());
        assert_eq!(
            seen,
            [
                ("a".to_owned(), 4223, ann.clone()),
                ("b".to_owned(), 4222, ann)
            ]
        );
    }

    #[test]
    fn unknown_options_and_wrong_values_are_refused_without_the_url() {
        for wrong in ["colour=blue", "storage=tape", "replicas=many", "timeout_ms"] {
            let error = Wanted::read(wrong).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
        let error = servers_of("ann:secret@host").unwrap_err();
        assert!(!error.to_string().contains("secret"));
    }
}
