//! URLs: `etcd://user:password@host1:2379,host2:2379/?option=value`.

use std::path::Path;
use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use percent_encoding::percent_decode_str;
use shedlock_core::{Error, ErrorKind, LockDefaults, parse_duration, warn_unverified};
use url::{Url, form_urlencoded};

use crate::builder::Builder;
use crate::connections::{Connections, TIMEOUT};

/// The options of a URL.
const KNOWN: &[&str] = &[
    "environment",
    "key_prefix",
    "lock_at_most_for",
    "lock_at_least_for",
    "owner_prefix",
    "connect_timeout",
    "response_timeout",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_domain",
];

/// How often a connection shows that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Where a server listens unless its address says so.
const PORT: u16 = 2379;

/// The builder that a URL describes. Nobody is asked; files of certificates are read.
///
/// # Errors
/// `InvalidInput`, and `Configuration` for a file that cannot be read; neither ever shows the URL,
/// which may hold a password.
pub(crate) fn builder(text: &str) -> Result<Builder, Error> {
    described(text).map_err(|error| error.of_url(text))
}

fn described(text: &str) -> Result<Builder, Error> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or_else(|| unreadable("it has no scheme"))?;
    let is_tls = match &*scheme.to_ascii_lowercase() {
        "etcd" => false,
        "etcds" => true,
        _ => {
            return Err(invalid(format!(
                "{scheme:?} is no scheme of etcd: write etcd:// or, with TLS, etcds://"
            )));
        }
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() {
        return Err(unreadable(
            "etcd knows no databases, so that it has no path",
        ));
    }
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(login(user)?), hosts),
        None => (None, authority),
    };
    let wanted = Wanted::read(query)?;
    let mut options = ConnectOptions::new()
        .with_connect_timeout(wanted.connect)
        .with_timeout(wanted.response)
        // So that nothing on the way forgets a connection that is used once a day.
        .with_tcp_keepalive(KEEP_ALIVE)
        // A server that has lost its cluster says so then, rather than wait for it.
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    if let Some((name, password)) = user {
        options = options.with_user(name, password);
    }
    if is_tls {
        options = options.with_tls(wanted.tls.options()?);
    } else if wanted.tls != Tls::default() {
        return Err(invalid(
            "certificates are options of TLS: write etcds:// in place of etcd://",
        ));
    }
    let scheme = if is_tls { "https" } else { "http" };
    let servers = hosts
        .split(',')
        .map(|host| server(scheme, host))
        .collect::<Result<Vec<_>, _>>()?;
    if !is_tls {
        let named = servers.iter().filter_map(|server| Url::parse(server).ok());
        let named: Vec<Url> = named.collect();
        warn_unverified(
            "etcd",
            named.iter().filter_map(Url::host_str),
            "write etcds://",
        );
    }
    let connections = Connections::own(servers, options, wanted.connect, wanted.response);
    let mut builder = Builder::new(connections).defaults(wanted.defaults);
    if let Some(environment) = wanted.environment {
        builder = builder.environment(environment);
    }
    if let Some(prefix) = wanted.prefix {
        builder = builder.key_prefix(prefix);
    }
    Ok(builder)
}

/// What the options ask for.
struct Wanted {
    environment: Option<String>,
    prefix: Option<String>,
    defaults: LockDefaults,
    connect: Duration,
    response: Duration,
    tls: Tls,
}

/// Files of certificates.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tls {
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    domain: Option<String>,
}

impl Wanted {
    fn read(query: &str) -> Result<Self, Error> {
        let mut wanted = Self {
            environment: None,
            prefix: None,
            defaults: LockDefaults::new(),
            connect: TIMEOUT,
            response: TIMEOUT,
            tls: Tls::default(),
        };
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        for (i, (key, value)) in pairs.iter().enumerate() {
            if pairs[..i].iter().any(|(before, _)| before == key) {
                return Err(invalid(format!("option {key:?} is set twice in the URL")));
            }
            let defaults = wanted.defaults.clone();
            match &**key {
                "environment" => wanted.environment = Some(value.clone()),
                "key_prefix" => wanted.prefix = Some(value.clone()),
                "lock_at_most_for" => {
                    wanted.defaults = defaults.lock_at_most_for(duration(key, value)?);
                }
                "lock_at_least_for" => {
                    wanted.defaults = defaults.lock_at_least_for(duration(key, value)?);
                }
                "owner_prefix" => wanted.defaults = defaults.owner_prefix(value),
                "connect_timeout" => wanted.connect = duration(key, value)?,
                "response_timeout" => wanted.response = duration(key, value)?,
                "tls_ca" => wanted.tls.ca = Some(value.clone()),
                "tls_cert" => wanted.tls.certificate = Some(value.clone()),
                "tls_key" => wanted.tls.key = Some(value.clone()),
                "tls_domain" => wanted.tls.domain = Some(value.clone()),
                _ => {
                    return Err(invalid(format!(
                        "unknown option {key:?} in the URL; known are {}",
                        KNOWN.join(", ")
                    )));
                }
            }
        }
        Ok(wanted)
    }
}

impl Tls {
    fn options(&self) -> Result<TlsOptions, Error> {
        let mut options = TlsOptions::new();
        options = match &self.ca {
            Some(file) => options.ca_certificate(Certificate::from_pem(read(file)?)),
            None => options.with_webpki_roots(),
        };
        options = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                options.identity(Identity::from_pem(read(certificate)?, read(key)?))
            }
            (None, None) => options,
            _ => {
                return Err(invalid(
                    "tls_cert and tls_key are of use together only: give both",
                ));
            }
        };
        if let Some(domain) = &self.domain {
            options = options.domain_name(domain);
        }
        Ok(options)
    }
}

fn read(file: &str) -> Result<Vec<u8>, Error> {
    std::fs::read(Path::new(file)).map_err(|error| {
        Error::new(
            ErrorKind::Configuration,
            format!("the file {file:?}, which the URL names, cannot be read"),
        )
        .with_store("etcd")
        .with_source(error)
    })
}

/// Name and password, as they are.
fn login(user: &str) -> Result<(String, String), Error> {
    let (name, password) = user
        .split_once(':')
        .ok_or_else(|| unreadable("a user comes with a password"))?;
    let decoded = |part: &str| {
        let part = percent_decode_str(part).decode_utf8();
        part.map(std::borrow::Cow::into_owned)
            .map_err(|_| unreadable("user or password is not text in UTF-8"))
    };
    Ok((decoded(name)?, decoded(password)?))
}

/// The address of one server, as the client has it.
fn server(scheme: &str, host: &str) -> Result<String, Error> {
    let url = Url::parse(&format!("{scheme}://{host}"));
    let url = url.map_err(|error| {
        // Behind the colon may be a password whose host was forgotten.
        let shown = host.split(':').next().unwrap_or_default();
        unreadable(&format!(
            "{shown:?} is no host, or has no port behind it ({error})"
        ))
    })?;
    let host = url.host_str().unwrap_or_default();
    let port = url.port().unwrap_or(PORT);
    Ok(format!("{scheme}://{host}:{port}"))
}

fn duration(key: &str, value: &str) -> Result<Duration, Error> {
    parse_duration(value)
        .map_err(|error| invalid(format!("option {key:?} in the URL: {}", error.message())))
}

fn unreadable(why: &str) -> Error {
    invalid(format!(
        "the store's URL cannot be read ({why}): write it like \
         etcd://user:password@host1:2379,host2:2379/?option=value"
    ))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_store("etcd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_and_without_options_are_read() {
        for url in [
            "etcd://127.0.0.1",
            "etcd://a:2379,b:2380,[::1]",
            "etcd://user:p%40ss@a,b/?environment=prod&lock_at_most_for=10m",
            "ETCDS://host?connect_timeout=1s&response_timeout=500ms&owner_prefix=blue",
            "etcds://host?tls_domain=etcd.example",
        ] {
            let built = builder(url).and_then(Builder::build);
            assert!(built.is_ok(), "{url}: {built:?}");
        }
    }

    #[test]
    fn servers_have_a_port() {
        assert_eq!(server("http", "a").unwrap(), "http://a:2379");
        assert_eq!(server("https", "[::1]:7").unwrap(), "https://[::1]:7");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, says) in [
            ("http://u:secret@h", "no scheme of etcd"),
            ("etcd://u:secret@h?table=x", "unknown option \"table\""),
            ("etcd://u:secret@h?environment=a&environment=b", "set twice"),
            (
                "etcd://u:secret@h?lock_at_most_for=soon",
                "lock_at_most_for",
            ),
            ("etcd://u:secret@h/nine", "no path"),
            ("etcd://u:secret@", "no host"),
            ("etcd://u:secret@a,b:x", "\"b\" is no host"),
            ("etcd://u:secret", "\"u\" is no host"),
            ("etcd://secret@h", "comes with a password"),
            ("etcd://u:secret@h?tls_ca=/a", "options of TLS"),
            ("etcds://u:secret@h?tls_key=/a", "give both"),
            ("etcd:u:secret@h", "no scheme"),
        ] {
            let said = builder(url).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{said}");
            assert!(said.to_string().contains(says), "{said}");
            assert!(!format!("{said:?}").contains("secret"), "{said:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_the_configurations_fault() {
        let said = builder("etcds://h?tls_ca=/no/such/file").unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Configuration);
        assert!(said.to_string().contains("/no/such/file"), "{said}");
    }
}
