//! A provider from a URL: our own options are taken out, and the driver reads the rest.

use std::time::Duration;

use mongodb::options::{ClientOptions, ServerAddress, Tls};
use mongodb::{Client, error};
use shedlock_core::{Error, Schema, warn_unverified};
use shedlock_provider::{
    FromUrl, Result, TimeMode, UrlOptions, configuration, refuse_cut_password, unavailable,
};

use crate::MongoProvider;
use crate::explain::reason;
use crate::place::{COLLECTION, Place};
use crate::store::{self, Builder, MongoStore, NAME, Settings, TIMEOUT, invalid};

impl FromUrl for MongoStore {
    const NAME: &'static str = NAME;

    type Store = Self;

    /// No I/O except to resolve `mongodb+srv://` and to read the files that the URL names.
    async fn from_url(url: &str) -> Result<MongoProvider> {
        let address = Address::read(url)?;
        let mut options = address.options().await?;
        let Some(database) = options.default_database.clone() else {
            return Err(invalid("the store's URL names no database")
                .advise("write mongodb://host/database"));
        };
        // Shorter than the driver's defaults of 30 and 10 s, so that an outage is reported as such.
        let limit = address.connect_timeout;
        options.server_selection_timeout.get_or_insert(limit);
        options.connect_timeout.get_or_insert(limit);
        options.app_name.get_or_insert("shedlock".to_owned());
        warn_of(&options);
        let client = Client::with_options(options).map_err(|error| address.refused(error))?;
        let place = Place::durable(&client.database(&database), &address.collection);
        let settings = address.settings;
        Builder { place, settings }.build()
    }

    /// No I/O, also for `mongodb+srv://`.
    async fn schema(url: &str) -> Result<Schema> {
        let address = Address::read(url)?;
        Ok(store::schema(&address.collection))
    }
}

fn warn_of(options: &ClientOptions) {
    if let Some(Tls::Enabled(tls)) = &options.tls
        && tls.allow_invalid_certificates != Some(true)
    {
        return;
    }
    let hosts = options.hosts.iter().map(|address| match address {
        ServerAddress::Tcp { host, .. } => &**host,
        // A socket of this host.
        _ => "",
    });
    let remedy = "set tls=true in the URL, without tlsInsecure and tlsAllowInvalidCertificates";
    warn_unverified(NAME, hosts, remedy);
}

pub(crate) struct Address {
    /// The part for the driver, without our own options.
    url: String,
    known: Vec<&'static str>,
    connect_timeout: Duration,
    collection: String,
    settings: Settings,
}

impl Address {
    pub(crate) fn read(text: &str) -> Result<Self> {
        refuse_cut_password(text)?;
        let (place, mut options) = UrlOptions::split(text);
        let (scheme, _) = place.split_once("://").unwrap_or_default();
        if !["mongodb", "mongodb+srv"].contains(&scheme) {
            return Err(invalid("not a MongoDB URL")
                .advise("write mongodb://user:password@host/database, or mongodb+srv://…"));
        }
        // The driver reads the two digits as bytes, and panics in the middle of a character.
        let is_escape = |rest: &str| {
            let digits = rest.as_bytes().get(..2);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        if !place.split('%').skip(1).all(is_escape) {
            return Err(invalid(
                "the store's URL has a '%' without two hexadecimal digits after it",
            )
            .advise("write %25"));
        }
        let collection = options.text("collection")?;
        let settings = Settings {
            time: TimeMode::take(&mut options)?,
            response_timeout: options.timeout("response_timeout")?.unwrap_or(TIMEOUT),
            server_skew: options.duration("server_skew")?.unwrap_or_default(),
            defaults: options.defaults()?,
            ..Settings::default()
        };
        let connect_timeout = options.timeout("connect_timeout")?;
        let theirs = options.rest().join("&");
        let sign = if theirs.is_empty() { "" } else { "?" };
        Ok(Self {
            url: format!("{place}{sign}{theirs}"),
            known: options.known().to_vec(),
            connect_timeout: connect_timeout.unwrap_or(TIMEOUT),
            collection: collection.unwrap_or_else(|| COLLECTION.to_owned()),
            settings,
        })
    }

    pub(crate) async fn options(&self) -> Result<ClientOptions> {
        let options = ClientOptions::parse(&self.url).await;
        options.map_err(|error| self.refused(error))
    }

    /// The driver's error names the unknown option.
    fn refused(&self, error: error::Error) -> Error {
        let refused = match &*error.kind {
            error::ErrorKind::DnsResolve { .. } => {
                unavailable("the DNS lookup for mongodb+srv:// failed")
                    .advise("check the host name in the URL")
                    .retry()
            }
            error::ErrorKind::InvalidTlsConfig { .. } => {
                configuration("cannot use the certificate files that the URL names")
                    .advise("check these files")
            }
            _ => invalid("the driver rejects the store's URL").advise(format!(
                "besides the driver's own options, these are allowed: {}",
                self.known.join(", ")
            )),
        };
        let reason = reason(&error);
        refused.with_source(error).with_reason(reason)
    }
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    #[test]
    fn our_options_are_taken_out_and_theirs_are_left_as_they_are() {
        let address = Address::read(
            "mongodb://u:p%40ss@a:1,b:2/ops?replicaSet=rs0&collection=locks&time=client\
             &tlsCAFile=%2Fca.pem&response_timeout=2s&server_skew=3s&tolerated_skew=250ms\
             &lock_at_most_for=10m&owner_prefix=blue&connect_timeout=1s",
        )
        .unwrap();
        assert_eq!(
            address.url,
            "mongodb://u:p%40ss@a:1,b:2/ops?replicaSet=rs0&tlsCAFile=%2Fca.pem"
        );
        assert_eq!(address.collection, "locks");
        let settings = address.settings;
        let tolerated_skew = Duration::from_millis(250);
        assert_eq!(settings.time, TimeMode::Client { tolerated_skew });
        assert_eq!(settings.response_timeout, Duration::from_secs(2));
        assert_eq!(settings.server_skew, Duration::from_secs(3));
        assert_eq!(address.connect_timeout, Duration::from_secs(1));
    }

    #[tokio::test]
    async fn errors_are_reported_without_the_url() {
        for (url, says) in [
            ("postgres://u:secret@h/d", "not a MongoDB URL"),
            ("mongodb://u:secret@h", "names no database"),
            ("mongodb://u:secret@h/", "names no database"),
            ("mongodb://u:secret%é@h/d", "write %25"),
            ("mongodb://u:secret%@h/d", "write %25"),
            ("mongodb://u:secret@h/d?time=sometimes", "store or client"),
            (
                "mongodb://u:secret@h/d?collection=a&collection=b",
                "set twice",
            ),
            (
                "mongodb://u:secret@h/d?lock_at_most_for=soon",
                "lock_at_most_for",
            ),
            (
                "mongodb://u:secret@h/d?colour=blue",
                "are allowed: collection",
            ),
            ("mongodb://u:secret@h/d?timeout=2s", "response_timeout"),
            ("mongodb://u:secret@h/d?response_timeout=0s", "longer than"),
            (
                "mongodb://u:secret@h/d?collection=$x",
                "collection name \"$x\"",
            ),
        ] {
            let said = MongoProvider::connect(url).await.unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(said.to_string().contains(says), "{said}");
            assert!(!format!("{said:?}").contains("secret"), "{said:?}");
        }
    }

    #[tokio::test]
    async fn a_missing_certificate_is_a_configuration_error() {
        let url = "mongodb://u:secret@h/d?tls=true&tlsCAFile=%2Fno%2Fsuch.pem";
        let said = MongoProvider::connect(url).await.unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Configuration, "{said:?}");
        assert!(!format!("{said:?}").contains("secret"), "{said:?}");
    }

    #[tokio::test]
    async fn a_provider_does_not_show_the_password() {
        let provider = MongoStore::from_url("mongodb://u:secret@h/d?collection=locks");
        let provider = provider.await.unwrap();
        assert!(format!("{provider:?}").contains("locks"), "{provider:?}");
        assert!(!format!("{provider:?}").contains("secret"));
        let builder = MongoProvider::builder(provider.backend().place.collection.clone());
        assert!(!format!("{builder:?}").contains("secret"));
    }
}
