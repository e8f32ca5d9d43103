//! A provider from a URL.

use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use shedlock_core::warn_unverified;
use shedlock_provider::{
    FromUrl, Result, StoreUrl, TlsOptions, Versioned, VersionedSettings, configuration, invalid,
    read_text,
};

use crate::NatsProvider;
use crate::bucket::{Bucket, Settings, Storage, TIMEOUT};
use crate::line::{Line, Origin};
use crate::store::{Builder, NatsStore};

impl FromUrl for NatsStore {
    const NAME: &'static str = "nats";

    type Store = Versioned<Self>;

    async fn from_url(url: &str) -> Result<NatsProvider> {
        Address::read(url)?.provider()
    }

    async fn reach(store: &Versioned<Self>) -> Result<()> {
        store.records().look_ahead().await
    }
}

/// A parsed URL. The files that it names have not been read yet.
pub(crate) struct Address {
    servers: Vec<ServerAddr>,
    /// A user, or a token if there is no password.
    user: Option<String>,
    password: Option<String>,
    credentials: Option<String>,
    nkey: Option<String>,
    /// Whether the server must use TLS. Otherwise TLS is optional.
    is_encrypted: bool,
    tls: TlsOptions,
    connect: Duration,
    settings: Settings,
    common: VersionedSettings,
}

impl Address {
    pub(crate) fn read(text: &str) -> Result<Self> {
        let example = "nats://user:password@host:4222,host:4222?bucket=locks";
        let url = StoreUrl::parse(text, example)?;
        let is_tls = url.is_encrypted("nats", "tls")?;
        if !url.path.is_empty() {
            return Err(invalid("the URL has a path, but NATS has none")
                .advise("set the bucket with the option \"bucket\""));
        }
        let servers = url.servers(&url.scheme, 4222).map(|server| {
            let server = server.parse();
            server.map_err(|_| invalid("invalid host name or address in the URL"))
        });
        let servers = servers.collect::<Result<_, _>>()?;
        let mut options = url.options;
        let credentials = options.text("credentials")?;
        let nkey = options.text("nkey")?;
        let is_named = url.user.is_some() || url.password.is_some();
        let ways = [is_named, credentials.is_some(), nkey.is_some()];
        if ways.into_iter().filter(|is_taken| *is_taken).count() > 1 {
            return Err(invalid("the URL has more than one login")
                .advise("set only one of user and password, token, credentials, nkey"));
        }
        let tls = TlsOptions::take(&mut options, None)?;
        let must_encrypt = options.flag("tls")?.unwrap_or(false);
        let connect = options.timeout("connect_timeout")?.unwrap_or(TIMEOUT);
        let response_timeout = options.timeout("response_timeout")?.unwrap_or(TIMEOUT);
        let usual = Settings::default();
        let storages = [("file", Storage::File), ("memory", Storage::Memory)];
        let storage = options.choice("storage", &storages)?;
        let settings = Settings {
            bucket: options.text("bucket")?.unwrap_or(usual.bucket),
            domain: options.text("domain")?,
            response_timeout,
            replicas: options.number("replicas")?.unwrap_or(usual.replicas),
            storage: storage.unwrap_or(usual.storage),
            sync_always: options.flag("sync_always")?.unwrap_or(usual.sync_always),
        };
        let common = VersionedSettings::take(&mut options)?;
        options.finish()?;
        Ok(Self {
            servers,
            user: url.user,
            password: url.password,
            credentials,
            nkey,
            is_encrypted: is_tls || must_encrypt || tls != TlsOptions::default(),
            tls,
            connect,
            settings,
            common,
        })
    }

    fn provider(self) -> Result<NatsProvider> {
        let options = encrypted(ConnectOptions::new(), &self.tls, self.is_encrypted)?;
        let mut options = options
            .connection_timeout(self.connect)
            .request_timeout(Some(self.settings.response_timeout))
            .ping_interval(Duration::from_secs(10))
            .reconnect_delay_callback(delay_before)
            .require_tls(self.is_encrypted);
        options = match (self.user, self.password) {
            (None, None) => options,
            (Some(token), None) => options.token(token),
            (user, Some(password)) => options.user_and_password(user.unwrap_or_default(), password),
        };
        if let Some(path) = self.nkey {
            options = options.nkey(read_text("nkey", &path)?.trim().to_owned());
        }
        if let Some(path) = self.credentials {
            let credentials = options.credentials(&read_text("credentials", &path)?);
            options = credentials.map_err(|error| {
                let what =
                    "the file of option \"credentials\" in the URL contains no token and key";
                configuration(what)
                    .advise("check the file")
                    .with_source(error)
            })?;
        }
        if !self.is_encrypted {
            let hosts = self.servers.iter().map(ServerAddr::host);
            warn_unverified("nats", hosts, "set tls=true in the URL");
        }
        let origin = Origin::Own {
            servers: self.servers,
            options: Box::new(options),
            made: 0,
        };
        let line = Line::new(origin, self.connect);
        let settings = self.settings;
        let builder = Builder {
            bucket: Bucket { line, settings },
            common: self.common,
        };
        builder.build()
    }
}

/// Uses its own crypto provider, so that none is installed for the process.
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
fn encrypted(options: ConnectOptions, tls: &TlsOptions, must: bool) -> Result<ConnectOptions> {
    let config =
        shedlock_provider::client_config(&tls.read()?, shedlock_provider::TlsNames::OURS, must)?;
    Ok(options.tls_client_config(config))
}

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
fn encrypted(options: ConnectOptions, _: &TlsOptions, must: bool) -> Result<ConnectOptions> {
    match must {
        false => Ok(options),
        true => Err(shedlock_provider::built_without_tls("shedlock-nats")),
    }
}

/// The delay before this attempt to connect; the first one, of a new client or after a lost connection, is number 1. The
/// client's own delays grow to 4 s, and an extension may be due earlier.
fn delay_before(attempt: usize) -> Duration {
    match attempt {
        0 | 1 => Duration::ZERO,
        _ => Duration::from_millis(200),
    }
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    /// It was 200 ms late, as the client counts the attempt that is about to be made.
    #[test]
    fn the_first_attempt_to_connect_is_not_delayed() {
        assert_eq!(delay_before(1), Duration::ZERO);
        assert!(delay_before(2) > Duration::ZERO);
    }

    #[test]
    fn each_host_of_a_cluster_is_a_server_and_all_have_one_user() {
        let address = Address::read("nats://ann:p%40ss@a:4223,b").unwrap();
        let servers = address.servers.iter();
        let seen: Vec<_> = servers.map(|it| (it.host(), it.port())).collect();
        assert_eq!(seen, [("a", 4223), ("b", 4222)]);
        let user = (address.user.as_deref(), address.password.as_deref());
        assert_eq!(user, (Some("ann"), Some("p@ss")));
        assert!(!address.is_encrypted);
        let address = Address::read("TLS://s3cret@a").unwrap();
        assert_eq!(address.user.as_deref(), Some("s3cret"));
        assert!(address.is_encrypted);
        assert!(Address::read("nats://a?tls=true").unwrap().is_encrypted);
        assert!(Address::read("nats://a?tls_ca=b").unwrap().is_encrypted);
    }

    #[test]
    fn options_are_those_of_all_stores_and_its_own() {
        let address = Address::read(
            "nats://a?credentials=%2Fetc%2Fa+b.creds&domain=hub&storage=memory&replicas=3&\
             connect_timeout=1s&response_timeout=2s&tolerated_skew=0s&lock_at_most_for=10m&\
             lock_at_least_for=1s&owner_prefix=blue",
        );
        let Address {
            credentials,
            connect,
            settings,
            common,
            ..
        } = address.unwrap();
        assert_eq!(credentials.as_deref(), Some("/etc/a b.creds"));
        assert_eq!(connect, Duration::from_secs(1));
        assert_eq!(settings.response_timeout, Duration::from_secs(2));
        assert_eq!(settings.domain.as_deref(), Some("hub"));
        assert_eq!((settings.storage, settings.replicas), (Storage::Memory, 3));
        assert_eq!(common.tolerated_skew, Duration::ZERO);
        assert_ne!(common.defaults, shedlock_core::LockDefaults::new());
    }

    #[tokio::test]
    async fn errors_do_not_repeat_the_url() {
        for (url, says) in [
            ("ann:secret@host", "write it like"),
            ("ws://ann:secret@host", "use nats://"),
            ("nats://ann:secret@host/locks", "option \"bucket\""),
            ("nats://ann:secret@host:port", "write it like"),
            ("nats://ann:secret@host?nkey=a", "more than one login"),
            ("nats://ann:secret@host?colour=blue", "unknown option"),
            ("nats://ann:secret@host?timeout_ms=5", "unknown option"),
            ("nats://ann:secret@host?storage=tape", "file or memory"),
            ("nats://ann:secret@host?sync_always=often", "true or false"),
            ("nats://ann:secret@host?replicas=many", "a number"),
            ("nats://ann:secret@host?response_timeout=0s", "response_"),
            ("nats://ann:secret@host?tls=perhaps", "true or false"),
            ("nats://ann:secret@host?tls_cert=a", "both or neither"),
            ("nats://ann:secret@host?bucket=a&bucket=b", "set twice"),
        ] {
            let said = NatsProvider::connect(url).await.unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(said.to_string().contains(says), "{said}");
            assert!(!said.to_string().contains("secret"), "{said}");
        }
        let missing = NatsProvider::connect("nats://a?nkey=/no/such/file").await;
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::Configuration);
    }
}
