//! A provider from a URL.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, ClientBuilder};
use shedlock_core::{Error, ErrorKind, warn_unverified};
use shedlock_store::{FromUrl, StoreUrl, TlsOptions, Versioned, VersionedSettings, read_file};

use crate::ConsulProvider;
use crate::store::{Builder, ConsulStore, Settings};

impl FromUrl for ConsulStore {
    const NAME: &'static str = "consul";

    type Store = Versioned<Self>;

    async fn from_url(url: &str) -> Result<ConsulProvider, Error> {
        let address = Address::read(url)?;
        let client = address.client()?;
        if let Some(host) = address.in_the_clear {
            warn_unverified("consul", [&*host], "write consuls://");
        }
        let settings = address.settings;
        Builder { client, settings }.build()
    }
}

/// A URL, read. Files that it names are not, yet.
pub(crate) struct Address {
    /// The host, without TLS.
    in_the_clear: Option<String>,
    token: Option<String>,
    token_file: Option<String>,
    #[cfg_attr(
        not(feature = "tls"),
        expect(dead_code, reason = "checked all the same")
    )]
    tls: TlsOptions,
    connect: Duration,
    settings: Settings,
}

impl Address {
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        let url = StoreUrl::parse(text, "consul://host:8500/prefix?token_file=/run/token")?;
        let is_encrypted = url.is_encrypted("consul", "consuls")?;
        let host = url.only_host()?.clone();
        if url.user.is_some() {
            return Err(invalid(
                "the URL has a user, and Consul has tokens: write consul://:token@host",
            ));
        }
        let mut options = url.options;
        let (scheme, port) = if is_encrypted {
            ("https", 8501)
        } else {
            ("http", 8500)
        };
        let mut agent = format!("{scheme}://{}", host.with_port(port));
        let mut sign = '?';
        for key in ["dc", "ns"] {
            if let Some(value) = options.text(key)? {
                let value: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
                agent.push_str(&format!("{sign}{key}={value}"));
                sign = '&';
            }
        }
        let mut settings = Settings {
            agent,
            common: VersionedSettings::take(&mut options)?,
            ..Settings::default()
        };
        if !url.path.is_empty() {
            settings.prefix = format!("{}/", url.path);
        }
        if let Some(timeout) = options.timeout("response_timeout")? {
            settings.response = timeout;
        }
        let connect = options.timeout("connect_timeout")?;
        let address = Self {
            in_the_clear: (!is_encrypted).then_some(host.name),
            token: url.password,
            token_file: options.text("token_file")?,
            tls: TlsOptions::take(&mut options, (!is_encrypted).then_some("consuls"))?,
            connect: connect.unwrap_or(Duration::from_secs(2)),
            settings,
        };
        options.finish()?;
        if address.token.is_some() && address.token_file.is_some() {
            return Err(invalid(
                "the URL has a token and names a file with one: leave one of the two out",
            ));
        }
        Ok(address)
    }

    fn client(&self) -> Result<Client, Error> {
        let token = match &self.token_file {
            Some(path) => {
                let token = read_file("token_file", path)?;
                Some(String::from_utf8_lossy(&token).trim().to_owned())
            }
            None => self.token.clone(),
        };
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let token = HeaderValue::try_from(token);
            let mut token = token.map_err(|_| invalid("the token holds control characters"))?;
            token.set_sensitive(true);
            headers.insert("X-Consul-Token", token);
        }
        let client = Client::builder()
            .connect_timeout(self.connect)
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers);
        let unusable = |error| {
            let message = "no HTTP client can be made for the URL";
            Error::new(ErrorKind::Configuration, message).with_source(error)
        };
        self.encrypted(client)?.build().map_err(unusable)
    }

    /// With a crypto provider of its own, so that none is installed for the process.
    #[cfg(feature = "tls")]
    fn encrypted(&self, client: ClientBuilder) -> Result<ClientBuilder, Error> {
        let files = self.tls.read()?;
        let config = match &self.in_the_clear {
            Some(_) => files.optional_client_config()?,
            None => files.client_config()?,
        };
        Ok(client.tls_backend_preconfigured(config))
    }

    #[cfg(not(feature = "tls"))]
    fn encrypted(&self, client: ClientBuilder) -> Result<ClientBuilder, Error> {
        if self.in_the_clear.is_some() {
            return Ok(client);
        }
        Err(invalid(
            "this program was built without TLS for Consul: switch on the feature \"tls\" of \
             shedlock-consul (\"consul-tls\" of shedlock)",
        ))
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_agent_prefix_and_token() {
        let plain = Address::read("consul://localhost").unwrap();
        assert_eq!(plain.settings.agent, "http://localhost:8500");
        assert_eq!((&*plain.settings.prefix, plain.token), ("shedlock/", None));
        let full = Address::read("consul://:p%2Fq@[::1]:8600/team%20a/locks/?dc=eu&ns=b").unwrap();
        assert_eq!(full.settings.agent, "http://[::1]:8600?dc=eu&ns=b");
        assert_eq!(full.settings.prefix, "team a/locks/");
        assert_eq!(full.token.as_deref(), Some("p/q"));
        let encrypted = Address::read("consuls://host").unwrap();
        assert_eq!(encrypted.settings.agent, "https://host:8501");
    }

    #[tokio::test]
    async fn what_is_wrong_is_said_without_the_url() {
        for (url, says) in [
            ("http://:secret@h", "write consul://"),
            ("consul://secret@h", "has tokens"),
            ("consul://", "write it like"),
            ("consul://:secret@h,h", "several hosts"),
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
            let said = ConsulProvider::connect(url).await.unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{said}");
            assert!(said.to_string().contains(says), "{said}");
            assert!(!said.to_string().contains("secret"), "{said}");
        }
        let missing = ConsulProvider::connect("consul://h?token_file=/nowhere").await;
        let missing = missing.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Configuration);
        assert!(missing.to_string().contains("/nowhere"), "{missing}");
    }

    #[cfg(not(feature = "tls"))]
    #[tokio::test]
    async fn without_tls_nothing_is_sent_in_the_clear() {
        let said = ConsulProvider::connect("consuls://host").await.unwrap_err();
        assert!(said.to_string().contains("consul-tls"), "{said}");
    }
}
