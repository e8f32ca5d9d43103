//! A provider from a URL.

use std::time::Duration;

use async_nats::{ConnectErrorKind, ConnectOptions, ServerAddr, rustls};
use shedlock_core::{Error, ErrorKind, warn_unverified};

use crate::options::{Options, Servers, User, invalid};
use crate::{NatsProvider, NatsStore};

/// Connects to the server that this URL names: `nats://[user:password@]host[:port]`, or
/// `nats://token@host`.
///
/// Several servers of one cluster are parted by commas in the host. Options stand behind `?`:
///
/// | option | what |
/// |---|---|
/// | `bucket` | the bucket; `shedlock-locks` unless given |
/// | `replicas` | how many servers keep the bucket, where `migrate` makes it; 1 unless given |
/// | `storage` | `file` or `memory`, where `migrate` makes it; `file` unless given |
/// | `sync_always` | `true`: you assert that each server that keeps the bucket is set up with `sync_interval: always`, see the crate's documentation; `false` unless given |
/// | `domain` | the JetStream domain, where it is not the server's own |
/// | `tolerated_skew_ms` | how much the clients' clocks may differ; 1000 unless given |
/// | `timeout_ms` | how long an answer is waited for; 5000 unless given |
/// | `credentials` | a file of credentials (`.creds`: a token of JWT and its key) |
/// | `nkey` | a file that holds the seed of an nkey |
/// | `tls` | `true`: the server must speak TLS. Unless given, whether it does is its own choice |
/// | `tls_ca` | a file (PEM) of those who may have signed its certificate; the system's unless given |
/// | `tls_cert`, `tls_key` | files (PEM) of a certificate of ours and its key |
///
/// The client connects again by itself when its connection is lost, and when a request had no answer in
/// time: the connection may be half-open, with nobody left to say so.
///
/// # Errors
/// `InvalidInput` for a URL that cannot be read, for unknown options and for files that cannot be
/// read; `Unavailable` where nobody answers; `Configuration` where the server refuses the user, its
/// certificate is not trusted, or the bucket is there with settings that lose locks. The URL is in no
/// message.
pub async fn connect(url: &str) -> Result<NatsProvider, Error> {
    let (servers, wanted) = read(url)?;
    // The server may ask for TLS. Where the program has chosen a crypto library, that stays; where
    // several are there and it has not, the client would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = ConnectOptions::new()
        .connection_timeout(wanted.timeout)
        .request_timeout(Some(wanted.timeout))
        .ping_interval(Duration::from_secs(10))
        // Its own pauses grow to 4 s, and an extension may be due.
        .reconnect_delay_callback(|failed| match failed {
            0 => Duration::ZERO,
            _ => Duration::from_millis(200),
        });
    let options = introduced(options, servers.user, &wanted).await?;
    let options = encrypted(options, &wanted, servers.is_tls)?;
    if !wanted.needs_tls(servers.is_tls) {
        let hosts = servers.addresses.iter().map(ServerAddr::host);
        warn_unverified("nats", hosts, "set tls=true in the URL");
    }
    let client = options.connect(servers.addresses).await.map_err(refused)?;
    let mut store = NatsStore::new(client)
        .with_own_client()
        .with_bucket(&wanted.bucket)?
        .with_request_timeout(wanted.timeout)
        .with_replicas(wanted.replicas)
        .with_sync_always(wanted.sync_always);
    if wanted.in_memory {
        store = store.in_memory();
    }
    if let Some(domain) = &wanted.domain {
        store = store.with_domain(domain)?;
    }
    store.look_ahead().await?;
    let store = shedlock_store::Versioned::new(store).with_tolerated_skew(wanted.skew);
    Ok(store.provider())
}

/// What a URL says. Nobody is asked, and no file is read.
pub(crate) fn read(url: &str) -> Result<(Servers, Options), Error> {
    let (servers, options) = url.split_once('?').unwrap_or((url, ""));
    let read = || Ok((Servers::read(servers)?, Options::read(options)?));
    read().map_err(|error: Error| error.of_url(url))
}

/// Says who we are.
async fn introduced(
    options: ConnectOptions,
    user: User,
    wanted: &Options,
) -> Result<ConnectOptions, Error> {
    match (user, &wanted.credentials, &wanted.nkey) {
        (User::Nobody, None, None) => Ok(options),
        (User::Password(user, password), None, None) => {
            Ok(options.user_and_password(user, password))
        }
        (User::Token(token), None, None) => Ok(options.token(token)),
        (User::Nobody, Some(path), None) => {
            let read = options.credentials_file(path).await;
            read.map_err(|error| unreadable("credentials", path, error))
        }
        (User::Nobody, None, Some(path)) => {
            let seed = std::fs::read_to_string(path);
            let seed = seed.map_err(|error| unreadable("nkey", path, error))?;
            Ok(options.nkey(seed.trim().to_owned()))
        }
        _ => Err(invalid(
            "the URL says more than once who we are: give one of user and password, token, \
             credentials, nkey",
        )),
    }
}

fn encrypted(
    options: ConnectOptions,
    wanted: &Options,
    is_asked: bool,
) -> Result<ConnectOptions, Error> {
    let mut options = options;
    for (name, path) in [
        ("tls_ca", &wanted.authority),
        ("tls_cert", &wanted.certificate),
        ("tls_key", &wanted.key),
    ] {
        // The client would tell of it as of a connection that failed.
        if let Some(path) = path {
            std::fs::File::open(path).map_err(|error| unreadable(name, path, error))?;
        }
    }
    if let Some(path) = &wanted.authority {
        options = options.add_root_certificates(path.into());
    }
    options = match (&wanted.certificate, &wanted.key) {
        (None, None) => options,
        (Some(certificate), Some(key)) => {
            options.add_client_certificate(certificate.into(), key.into())
        }
        _ => {
            return Err(invalid(
                "a certificate of our own needs both options of the URL, tls_cert and tls_key",
            ));
        }
    };
    Ok(options.require_tls(wanted.needs_tls(is_asked)))
}

fn refused(error: async_nats::ConnectError) -> Error {
    let is_about_certificates = format!("{error:?}").to_lowercase().contains("certificate");
    let (kind, message) = match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => (
            ErrorKind::Configuration,
            "the server refuses this user: check name, password, token, credentials or nkey",
        ),
        ConnectErrorKind::Tls => (
            ErrorKind::Configuration,
            "no encrypted connection could be made: check the server's certificate, and who has \
             signed it (tls_ca in the URL)",
        ),
        _ if is_about_certificates => (
            ErrorKind::Configuration,
            "no encrypted connection could be made: check the server's certificate, who has signed \
             it (tls_ca in the URL), and whether it asks for one of ours (tls_cert, tls_key)",
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

fn unreadable(option: &str, path: &str, error: std::io::Error) -> Error {
    invalid(format!(
        "the file {path:?} of the option {option:?} in the URL cannot be read"
    ))
    .with_source(error)
}
