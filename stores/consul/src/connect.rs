//! A provider from a URL.

use std::time::Duration;

use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderValue};
use shedlock_core::{
    Error, ErrorKind, LockDefaults, LockProvider as _, parse_duration, warn_unverified,
};
use url::Url;

use crate::{ConsulProvider, ConsulStore};

/// Where keys stand unless the URL says.
const DEFAULT_PREFIX: &str = "shedlock/";

/// The options of a URL.
const OPTIONS: [&str; 12] = [
    "token_file",
    "dc",
    "ns",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "connect_timeout",
    "response_timeout",
    "tolerated_skew",
    "lock_at_most_for",
    "lock_at_least_for",
    "owner_prefix",
];

/// A provider over the Consul agent that this URL names: `consul://[:token@]host[:port][/prefix]`,
/// or, for HTTPS (with the feature `tls`), `consuls://…`.
///
/// The port is 8500 unless given, and 8501 for HTTPS. The keys of the locks begin with the prefix and
/// a slash; without one, with `shedlock/`. Options stand behind `?`:
///
/// | option | what |
/// |---|---|
/// | `token_file` | a file with the ACL token, read once, here; the token may also stand before the host, as a password |
/// | `dc`, `ns` | the datacenter, the namespace; the agent's and the token's own unless given. Programs that share locks have to name one datacenter: keys are not copied to others |
/// | `tls_ca` | certificates (PEM) of those that may sign the agent's, instead of the system's |
/// | `tls_cert`, `tls_key` | our own certificate and its key (PEM), where the agent asks for one |
/// | `connect_timeout`, `response_timeout` | how long is waited for a connection (`2s` unless given), for an answer (`5s`) |
/// | `tolerated_skew` | how much the clients' clocks may differ; `1s` unless given |
/// | `lock_at_most_for`, `lock_at_least_for`, `owner_prefix` | for locks that set none |
///
/// Where the agent asks for a token it needs `key_prefix "shedlock/" { policy = "write" }`, with the
/// prefix of the keys, and nothing else.
///
/// # Errors
/// `InvalidInput` for a URL that cannot be read and for unknown options; `Configuration` for a file
/// that cannot, and where the agent refuses the token; `Unavailable` where nobody answers. Neither
/// the URL nor a token is in a message.
pub async fn connect(url: &str) -> Result<ConsulProvider, Error> {
    let provider = read(url)?.provider().await;
    let provider = provider.map_err(|error| error.of_url(url))?;
    provider.check().await?;
    Ok(provider)
}

/// What a URL says. Nobody is asked, and no file is read.
pub(crate) fn read(url: &str) -> Result<Address, Error> {
    let checked = Address::read(url).and_then(|address| {
        address.settings()?;
        Ok(address)
    });
    checked.map_err(|error| error.of_url(url))
}

/// A URL, read.
pub(crate) struct Address {
    agent: Url,
    token: Option<String>,
    prefix: String,
    options: Vec<(String, String)>,
}

struct Settings {
    skew: Duration,
    connect: Duration,
    response: Duration,
    defaults: LockDefaults,
}

impl Address {
    fn read(text: &str) -> Result<Self, Error> {
        let unreadable = || {
            invalid(
                "the store's URL cannot be read: write it like \
                 consul://host:8500/prefix?token_file=/run/token",
            )
        };
        let url = Url::parse(text).map_err(|_| unreadable())?;
        let (scheme, port) = match url.scheme() {
            "consul" => ("http", 8500),
            "consuls" => ("https", 8501),
            _ => return Err(unreadable()),
        };
        if !url.username().is_empty() || url.fragment().is_some() {
            return Err(unreadable());
        }
        let options: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        for (i, (key, _)) in options.iter().enumerate() {
            if !OPTIONS.contains(&&**key) {
                let known = OPTIONS.join(", ");
                return Err(invalid(format!(
                    "unknown option {key:?} in the URL; known are {known}"
                )));
            }
            if options[..i].iter().any(|(before, _)| before == key) {
                return Err(invalid(format!("option {key:?} is set twice in the URL")));
            }
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(unreadable)?;
        let port = url.port().unwrap_or(port);
        let mut agent =
            Url::parse(&format!("{scheme}://{host}:{port}")).map_err(|_| unreadable())?;
        for key in ["dc", "ns"] {
            if let Some(value) = value(&options, key) {
                agent.query_pairs_mut().append_pair(key, value);
            }
        }
        let decoded = |text: &str| {
            let text = percent_encoding::percent_decode_str(text).decode_utf8();
            text.map(String::from).map_err(|_| unreadable())
        };
        let path = decoded(url.path().trim_matches('/'))?;
        Ok(Self {
            agent,
            token: url.password().map(decoded).transpose()?,
            prefix: if path.is_empty() {
                DEFAULT_PREFIX.to_owned()
            } else {
                format!("{path}/")
            },
            options,
        })
    }

    fn option(&self, key: &str) -> Option<&str> {
        value(&self.options, key)
    }

    fn duration(&self, key: &str, otherwise: Duration) -> Result<Duration, Error> {
        let text = self.option(key);
        let parsed = text.map_or(Ok(otherwise), parse_duration);
        parsed.map_err(|error| invalid(format!("option {key:?} in the URL: {}", error.message())))
    }

    /// What the options say that are no files.
    fn settings(&self) -> Result<Settings, Error> {
        let mut defaults = LockDefaults::new();
        for key in ["lock_at_most_for", "lock_at_least_for"] {
            if self.option(key).is_some() {
                let duration = self.duration(key, Duration::ZERO)?;
                defaults = match key {
                    "lock_at_most_for" => defaults.lock_at_most_for(duration),
                    _ => defaults.lock_at_least_for(duration),
                };
            }
        }
        if let Some(prefix) = self.option("owner_prefix") {
            defaults = defaults.owner_prefix(prefix);
        }
        defaults.validate()?;
        Ok(Settings {
            skew: self.duration("tolerated_skew", shedlock_cas::DEFAULT_TOLERATED_SKEW)?,
            connect: self.duration("connect_timeout", Duration::from_secs(2))?,
            response: self.duration("response_timeout", crate::RESPONSE)?,
            defaults,
        })
    }

    async fn provider(self) -> Result<ConsulProvider, Error> {
        let settings = self.settings()?;
        let client = self.client(&settings).await?;
        if self.agent.scheme() == "http" {
            warn_unverified("consul", self.agent.host_str(), "write consuls://");
        }
        let store = ConsulStore::new(client, self.agent, &self.prefix)
            .with_response_timeout(settings.response);
        let provider = ConsulProvider::new(store).with_tolerated_skew(settings.skew);
        Ok(provider.with_defaults(settings.defaults))
    }

    async fn client(&self, settings: &Settings) -> Result<Client, Error> {
        let token = match (self.option("token_file"), &self.token) {
            (Some(_), Some(_)) => {
                return Err(invalid(
                    "the URL has a token and names a file with one: leave one of the two out",
                ));
            }
            (Some(path), None) => {
                let token = file("token_file", path).await?;
                Some(String::from_utf8_lossy(&token).trim().to_owned())
            }
            (None, token) => token.clone(),
        };
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut token = HeaderValue::try_from(token)
                .map_err(|_| invalid("the token holds characters that no token has"))?;
            token.set_sensitive(true);
            headers.insert("X-Consul-Token", token);
        }
        let client = Client::builder()
            .connect_timeout(settings.connect)
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers);
        let unusable = |error| {
            Error::new(
                ErrorKind::Configuration,
                "no client can be made for the URL: look at the certificate files that it names",
            )
            .with_store("consul")
            .with_source(error)
        };
        self.encrypted(client).await?.build().map_err(unusable)
    }

    /// Adds what HTTPS needs.
    #[cfg(feature = "tls")]
    async fn encrypted(
        &self,
        mut client: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        // Where the program has chosen another one, that stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wrong = |key: &str| {
            invalid(format!(
                "the file of option {key:?} in the URL holds no certificate or key (PEM)"
            ))
        };
        if let Some(path) = self.option("tls_ca") {
            let pem = file("tls_ca", path).await?;
            let signers = reqwest::Certificate::from_pem_bundle(&pem);
            let signers = signers.map_err(|error| wrong("tls_ca").with_source(error))?;
            client = client.tls_certs_only(signers);
        }
        match (self.option("tls_cert"), self.option("tls_key")) {
            (None, None) => {}
            (Some(certificate), Some(key)) => {
                let mut pem = file("tls_cert", certificate).await?;
                pem.push(b'\n');
                pem.extend(file("tls_key", key).await?);
                let identity = reqwest::Identity::from_pem(&pem);
                let identity = identity.map_err(|error| wrong("tls_cert").with_source(error))?;
                client = client.identity(identity);
            }
            _ => {
                return Err(invalid("options \"tls_cert\" and \"tls_key\" go together"));
            }
        }
        Ok(client)
    }

    #[cfg(not(feature = "tls"))]
    async fn encrypted(
        &self,
        client: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        let files = ["tls_ca", "tls_cert", "tls_key"];
        if self.agent.scheme() == "https" || files.iter().any(|key| self.option(key).is_some()) {
            return Err(invalid(
                "this program was built without TLS for Consul: switch on the feature \"tls\" of \
                 shedlock-consul (\"consul-tls\" of shedlock)",
            ));
        }
        Ok(client)
    }
}

fn value<'a>(options: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let found = options.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| &**value)
}

async fn file(key: &str, path: &str) -> Result<Vec<u8>, Error> {
    let read = tokio::fs::read(path).await;
    read.map_err(|error| {
        Error::new(
            ErrorKind::Configuration,
            format!(
                "the file {path:?} of option {key:?} in the URL cannot be read: may this user?"
            ),
        )
        .with_store("consul")
        .with_source(error)
    })
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_store("consul")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_agent_prefix_and_token() {
        let plain = Address::read("consul://localhost").unwrap();
        assert_eq!(plain.agent.as_str(), "http://localhost:8500/");
        assert_eq!((&*plain.prefix, plain.token), ("shedlock/", None));
        let full = Address::read("consul://:p%2Fq@[::1]:8600/team%20a/locks/?dc=eu&ns=b").unwrap();
        assert_eq!(full.agent.as_str(), "http://[::1]:8600/?dc=eu&ns=b");
        assert_eq!(full.prefix, "team a/locks/");
        assert_eq!(full.token.as_deref(), Some("p/q"));
        let encrypted = Address::read("consuls://host").unwrap();
        assert_eq!(encrypted.agent.as_str(), "https://host:8501/");
    }

    #[tokio::test]
    async fn what_is_wrong_is_said_without_the_url() {
        for (url, says) in [
            ("http://:secret@h", "write it like"),
            ("consul://secret@h", "write it like"),
            ("consul://", "write it like"),
            ("consul://:secret@h?table=x", "unknown option \"table\""),
            ("consul://:secret@h?dc=a&dc=b", "set twice"),
            (
                "consul://:secret@h?response_timeout=soon",
                "response_timeout",
            ),
            (
                "consul://:secret@h?token_file=/x",
                "leave one of the two out",
            ),
        ] {
            let said = connect(url).await.unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{said}");
            assert!(said.to_string().contains(says), "{said}");
            assert!(!said.to_string().contains("secret"), "{said}");
        }
        let missing = connect("consul://h?token_file=/nowhere").await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Configuration);
        assert!(missing.to_string().contains("/nowhere"), "{missing}");
    }

    #[cfg(not(feature = "tls"))]
    #[tokio::test]
    async fn without_tls_nothing_is_sent_in_the_clear() {
        let said = connect("consuls://host").await.unwrap_err();
        assert!(said.to_string().contains("consul-tls"), "{said}");
    }
}
