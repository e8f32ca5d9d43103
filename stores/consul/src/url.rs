//! A provider from a URL.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Url};
use shedlock_core::warn_unverified;
use shedlock_provider::{
    FRESH, FromUrl, Result, StoreUrl, TlsOptions, Versioned, VersionedSettings, configuration,
    invalid, maybe, read_text,
};

use crate::ConsulProvider;
use crate::explain::no_url;
use crate::store::{Builder, ConsulStore};

impl FromUrl for ConsulStore {
    const NAME: &'static str = "consul";

    type Store = Versioned<Self>;

    async fn from_url(url: &str) -> Result<ConsulProvider> {
        read(url)
    }
}

/// Makes the provider that a URL describes. Reads the files that the URL names.
pub(crate) fn read(text: &str) -> Result<ConsulProvider> {
    let url = StoreUrl::parse(text, "consul://host:8500/prefix?token_file=/run/token")?;
    let is_encrypted = url.is_encrypted("consul", "consuls")?;
    let host = url.only_host()?;
    let agent = if is_encrypted {
        format!("https://{}", host.with_port(8501))
    } else {
        format!("http://{}", host.with_port(8500))
    };
    if url.user.is_some() {
        return Err(invalid("the URL has a user, but Consul uses tokens")
            .advise("write consul://:token@host"));
    }
    let mut options = url.options.clone();
    let places = [("dc", options.text("dc")?), ("ns", options.text("ns")?)].into_iter();
    let places = places.filter_map(|(what, place)| Some((what, place?)));
    let agent = Url::parse_with_params(&agent, places).map_err(no_url)?;
    let tls = TlsOptions::take(&mut options, (!is_encrypted).then_some("consuls"))?;
    let connect = options.timeout("connect_timeout")?;
    let response = options.timeout("response_timeout")?;
    let token_file = options.text("token_file")?;
    let common = VersionedSettings::take(&mut options)?;
    options.finish()?;
    let token = match (url.password.clone(), token_file) {
        (token, None) => token,
        (None, Some(path)) => Some(read_text("token_file", &path)?.trim().to_owned()),
        (Some(_), Some(_)) => {
            return Err(
                invalid("the URL has both a token and the option token_file")
                    .advise("remove one of them"),
            );
        }
    };
    let client = Client::builder()
        .connect_timeout(connect.unwrap_or(Duration::from_secs(2)))
        // Several may be idle, and a test of one says nothing about the others.
        .pool_idle_timeout(FRESH)
        .redirect(Policy::none())
        .default_headers(headers(token)?);
    let client = encrypted(client, &tls, is_encrypted)?.build();
    let client = client
        .map_err(|error| configuration("cannot create the HTTP client").with_source(error))?;
    if !is_encrypted {
        warn_unverified("consul", url.host_names(), "use consuls://");
    }
    let prefix = Some(format!("{}/", url.path)).filter(|prefix| prefix != "/");
    let builder = maybe(ConsulProvider::builder(client), prefix, Builder::key_prefix);
    let mut builder = maybe(builder, response, Builder::response_timeout).agent(agent);
    builder.common = common;
    builder.build()
}

fn headers(token: Option<String>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let token = HeaderValue::try_from(token);
        let mut token = token.map_err(|_| {
            invalid("the token contains control characters")
                .advise("check the URL or the token_file")
        })?;
        token.set_sensitive(true);
        headers.insert("X-Consul-Token", token);
    }
    Ok(headers)
}

/// Uses its own crypto provider, so that none is installed for the process.
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
fn encrypted(client: ClientBuilder, tls: &TlsOptions, must: bool) -> Result<ClientBuilder> {
    let config =
        shedlock_provider::client_config(&tls.read()?, shedlock_provider::TlsNames::OURS, must)?;
    Ok(client.tls_backend_preconfigured(config))
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
fn encrypted(client: ClientBuilder, _: &TlsOptions, must: bool) -> Result<ClientBuilder> {
    match must {
        false => Ok(client),
        true => Err(shedlock_provider::built_without_tls("shedlock-consul")),
    }
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_names_agent_and_prefix() {
        for (url, agent, prefix) in [
            (
                "consul://localhost",
                "http://localhost:8500/v1/txn?consistent=",
                "shedlock/",
            ),
            (
                "consul://:p%2Fq@[::1]:8600/team%20a/locks/?dc=e%26u&ns=b",
                "http://[::1]:8600/v1/txn?dc=e%26u&ns=b&consistent=",
                "team a/locks/",
            ),
        ] {
            let provider = read(url).unwrap();
            let store = provider.backend().records();
            assert_eq!((store.url.as_str(), &*store.key_prefix), (agent, prefix));
            assert!(!format!("{provider:?}").contains("p/q"), "{provider:?}");
        }
    }

    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[test]
    fn an_encrypted_agent_has_a_port_of_its_own() {
        let provider = read("consuls://host").unwrap();
        let store = provider.backend().records();
        assert_eq!(store.url.as_str(), "https://host:8501/v1/txn?consistent=");
    }

    #[tokio::test]
    async fn errors_do_not_repeat_the_url() {
        for (url, says) in [
            ("http://:secret@h", "use consul://"),
            ("consul://secret@h", "uses tokens"),
            ("consul://", "write it like"),
            ("consul://:secret@h,h", "several hosts"),
            ("consul://:secret@h?table=x", "unknown option \"table\""),
            ("consul://:secret@h?dc=a&dc=b", "set twice"),
            (
                "consul://:secret@h?response_timeout=soon",
                "response_timeout",
            ),
            ("consul://:secret@h?token_file=/x", "remove one of them"),
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

    #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
    #[tokio::test]
    async fn without_tls_nothing_is_sent_in_the_clear() {
        let said = ConsulProvider::connect("consuls://host").await.unwrap_err();
        assert!(said.to_string().contains("\"tls-aws-lc\""), "{said}");
    }
}
