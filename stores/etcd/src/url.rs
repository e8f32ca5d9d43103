//! A provider from a URL.

use std::time::Duration;

use etcd_client::ConnectOptions;
use shedlock_core::warn_unverified;
use shedlock_provider::{FromUrl, Result, StoreUrl, TlsOptions, invalid, maybe};
use tonic::transport::Endpoint;

use crate::EtcdProvider;
use crate::connections::{Connections, TIMEOUT};
use crate::store::{Builder, EtcdStore};

const KEEP_ALIVE: Duration = Duration::from_secs(30);

const PORT: u16 = 2379;

impl FromUrl for EtcdStore {
    const NAME: &'static str = "etcd";

    type Store = Self;

    async fn from_url(url: &str) -> Result<EtcdProvider> {
        builder(url)?.build()
    }
}

/// Returns the builder that a URL describes. Sends no request, but reads certificate files. Returns
/// `InvalidInput`, or `Configuration` for a file that cannot be read.
pub(crate) fn builder(text: &str) -> Result<Builder> {
    let example = "etcd://user:password@host1:2379,host2:2379/?option=value";
    let url = StoreUrl::parse(text, example)?;
    let is_encrypted = url.is_encrypted("etcd", "etcds")?;
    if !url.path.is_empty() {
        return Err(invalid("etcd has no databases").advise("remove the path from the URL"));
    }
    let mut options = url.options.clone();
    let connect = options.timeout("connect_timeout")?.unwrap_or(TIMEOUT);
    let response = options.timeout("response_timeout")?.unwrap_or(TIMEOUT);
    let tls = TlsOptions::take(&mut options, (!is_encrypted).then_some("etcds"))?;
    let domain = options.text("tls_domain")?;
    let environment = options.text("environment")?;
    let prefix = options.text("key_prefix")?;
    let defaults = options.defaults()?;
    options.finish()?;

    let client = ConnectOptions::new()
        .with_connect_timeout(connect)
        .with_timeout(response)
        // So that no firewall or proxy drops a connection that is used once a day.
        .with_tcp_keepalive(KEEP_ALIVE)
        // A server that has lost its cluster then returns an error at once instead of waiting.
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    let client = maybe(client, url.login()?, |client, (user, password)| {
        client.with_user(user, password)
    });
    let scheme = if is_encrypted { "https" } else { "http" };
    if domain.is_some() && !is_encrypted {
        return Err(invalid("option \"tls_domain\" in the URL requires TLS").advise("use etcds://"));
    }
    if !is_encrypted {
        warn_unverified("etcd", url.host_names(), "use etcds://");
    }
    let client = match is_encrypted {
        true => encrypted(client, &tls, domain)?,
        false => client,
    };
    let servers = url.servers(scheme, PORT).map(|server| {
        let endpoint = Endpoint::from_shared(server.clone()).map(|_| server);
        endpoint.map_err(|_| invalid("invalid host name or address in the URL"))
    });
    let servers = servers.collect::<Result<_, _>>()?;
    let connections = Connections::own(servers, client, connect, response);
    let builder = Builder::new(connections).defaults(defaults);
    let builder = maybe(builder, environment, Builder::environment);
    Ok(maybe(builder, prefix, Builder::key_prefix))
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
fn encrypted(
    client: ConnectOptions,
    tls: &TlsOptions,
    domain: Option<String>,
) -> Result<ConnectOptions> {
    use etcd_client::{Certificate, Identity, TlsOptions};

    let files = tls.read()?;
    let options = match files.ca {
        Some(ca) => TlsOptions::new().ca_certificate(Certificate::from_pem(ca)),
        None => TlsOptions::new().with_webpki_roots(),
    };
    let options = maybe(options, files.identity, |options, (certificate, key)| {
        options.identity(Identity::from_pem(certificate, key))
    });
    Ok(client.with_tls(maybe(options, domain, TlsOptions::domain_name)))
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
fn encrypted(_: ConnectOptions, _: &TlsOptions, _: Option<String>) -> Result<ConnectOptions> {
    Err(shedlock_provider::built_without_tls("shedlock-etcd"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shedlock_core::ErrorKind;

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
            assert!(!format!("{built:?}").contains("p@ss"), "{built:?}");
        }
    }

    #[tokio::test]
    async fn errors_do_not_repeat_the_password() {
        use ErrorKind::{Configuration, InvalidInput};
        for (url, kind, says) in [
            ("http://u:secret@h", InvalidInput, "use etcd://"),
            ("etcd://u:secret@h?table=x", InvalidInput, "\"table\""),
            ("etcd://u:secret@h?environment=", InvalidInput, "be empty"),
            ("etcd://u:secret@h/nine", InvalidInput, "no databases"),
            ("etcd://u:secret@<>", InvalidInput, "invalid host name"),
            ("etcd://u:secret", InvalidInput, "a host or a port"),
            (
                "etcd://secret@h",
                InvalidInput,
                "both a user and a password",
            ),
            ("etcd://u:secret@h?tls_domain=a", InvalidInput, "etcds://"),
            ("etcds://u:secret@h?tls_ca=/no", Configuration, "/no"),
        ] {
            let said = EtcdProvider::connect(url).await.unwrap_err();
            assert_eq!(said.kind(), kind, "{said}");
            assert!(said.to_string().contains(says), "{said}");
            assert!(!format!("{said:?}").contains("secret"), "{said:?}");
        }
    }
}
