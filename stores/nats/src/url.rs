//! A provider from a URL.

use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use shedlock_core::{Error, ErrorKind, warn_unverified};
use shedlock_store::{
    FromUrl, StoreUrl, TlsOptions, UrlOptions, Versioned, VersionedSettings, read_file,
};

use crate::line::Line;
use crate::store::{Builder, NatsStore, Settings, Storage};
use crate::{NatsProvider, explain};

impl FromUrl for NatsStore {
    const NAME: &'static str = "nats";

    type Store = Versioned<Self>;

    async fn from_url(url: &str) -> Result<NatsProvider, Error> {
        Address::read(url)?.connect().await
    }

    async fn reach(store: &Versioned<Self>) -> Result<(), Error> {
        store.records().look_ahead().await
    }
}

/// A URL, read. Files that it names are not, yet.
pub(crate) struct Address {
    servers: Vec<ServerAddr>,
    user: User,
    /// Whether the server must speak TLS; otherwise it is free to.
    is_encrypted: bool,
    tls: TlsOptions,
    connect: Duration,
    settings: Settings,
}

/// Who we are; in files, whose paths these are, or not.
#[derive(Debug, PartialEq, Eq)]
enum User {
    Nobody,
    Password(String, String),
    Token(String),
    Credentials(String),
    Nkey(String),
}

impl Address {
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        let url = StoreUrl::parse(
            text,
            "nats://user:password@host:4222,host:4222?bucket=locks",
        )?;
        let is_tls = url.is_encrypted("nats", "tls")?;
        if !url.path.is_empty() {
            return Err(invalid(
                "the URL has a path, and NATS has none: name the bucket by the option \"bucket\"",
            ));
        }
        let servers = url.hosts.iter().map(|host| {
            let server = format!("{}://{}", url.scheme, host.with_port(4222));
            let server = server.parse();
            server.map_err(|_| invalid("a host in the URL is no name and no address"))
        });
        let servers = servers.collect::<Result<_, _>>()?;
        let mut options = url.options;
        let user = User::take(url.user, url.password, &mut options)?;
        let tls = TlsOptions::take(&mut options, None)?;
        let must_encrypt = options.flag("tls")?.unwrap_or(false);
        let connect = options.timeout("connect_timeout")?;
        let usual = Settings::default();
        let storages = [("file", Storage::File), ("memory", Storage::Memory)];
        let settings = Settings {
            bucket: options.text("bucket")?.unwrap_or(usual.bucket),
            domain: options.text("domain")?,
            response: options
                .timeout("response_timeout")?
                .unwrap_or(usual.response),
            replicas: options.number("replicas")?.unwrap_or(usual.replicas),
            storage: options
                .choice("storage", &storages)?
                .unwrap_or(usual.storage),
            sync_always: options.flag("sync_always")?.unwrap_or(usual.sync_always),
            common: VersionedSettings::take(&mut options)?,
        };
        options.finish()?;
        Ok(Self {
            servers,
            user,
            is_encrypted: is_tls || must_encrypt || tls != TlsOptions::default(),
            tls,
            connect: connect.unwrap_or(Duration::from_secs(5)),
            settings,
        })
    }

    async fn connect(self) -> Result<NatsProvider, Error> {
        let files = self.tls.read()?;
        // With a crypto provider of its own, so that none is installed for the process.
        let tls = if self.is_encrypted {
            files.client_config()?
        } else {
            files.optional_client_config()?
        };
        let options = ConnectOptions::new()
            .connection_timeout(self.connect)
            .request_timeout(Some(self.settings.response))
            .ping_interval(Duration::from_secs(10))
            // Its own pauses grow to 4 s, and an extension may be due.
            .reconnect_delay_callback(|failed| match failed {
                0 => Duration::ZERO,
                _ => Duration::from_millis(200),
            })
            .tls_client_config(tls)
            .require_tls(self.is_encrypted);
        let options = self.user.introduced(options)?;
        if !self.is_encrypted {
            let hosts = self.servers.iter().map(ServerAddr::host);
            warn_unverified("nats", hosts, "set tls=true in the URL");
        }
        let client = options.connect(self.servers).await;
        let line = Line::of(client.map_err(explain::unconnected)?).owned();
        let settings = self.settings;
        Builder { line, settings }.build()
    }
}

impl User {
    fn take(
        user: Option<String>,
        password: Option<String>,
        options: &mut UrlOptions,
    ) -> Result<Self, Error> {
        let of_url = match (user, password) {
            (None, None) => None,
            (Some(token), None) => Some(Self::Token(token)),
            (user, Some(password)) => Some(Self::Password(user.unwrap_or_default(), password)),
        };
        let credentials = options.text("credentials")?.map(Self::Credentials);
        let nkey = options.text("nkey")?.map(Self::Nkey);
        let mut all = [of_url, credentials, nkey].into_iter().flatten();
        let user = all.next().unwrap_or(Self::Nobody);
        if all.next().is_some() {
            return Err(invalid(
                "the URL says more than once who we are: give one of user and password, token, \
                 credentials, nkey",
            ));
        }
        Ok(user)
    }

    /// Says who we are.
    fn introduced(&self, options: ConnectOptions) -> Result<ConnectOptions, Error> {
        let text = |option, path: &str| {
            let text = read_file(option, path)?;
            Ok::<_, Error>(String::from_utf8_lossy(&text).into_owned())
        };
        Ok(match self {
            Self::Nobody => options,
            Self::Password(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
            Self::Token(token) => options.token(token.clone()),
            Self::Nkey(path) => options.nkey(text("nkey", path)?.trim().to_owned()),
            Self::Credentials(path) => {
                let credentials = options.credentials(&text("credentials", path)?);
                credentials.map_err(|error| {
                    let message =
                        "the file of option \"credentials\" in the URL holds no token and key";
                    Error::new(ErrorKind::Configuration, message).with_source(error)
                })?
            }
        })
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_of_a_cluster_is_a_server_and_the_user_is_one() {
        let address = Address::read("nats://ann:p%40ss@a:4223,b").unwrap();
        let servers = address.servers.iter();
        let seen: Vec<_> = servers.map(|it| (it.host(), it.port())).collect();
        assert_eq!(seen, [("a", 4223), ("b", 4222)]);
        let ann = User::Password("ann".to_owned(), "p@ss".to_owned());
        assert!(address.user == ann && !address.is_encrypted);
        let address = Address::read("TLS://s3cret@a").unwrap();
        assert_eq!(address.user, User::Token("s3cret".to_owned()));
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
            user,
            connect,
            settings,
            ..
        } = address.unwrap();
        assert_eq!(user, User::Credentials("/etc/a b.creds".to_owned()));
        assert_eq!(connect, Duration::from_secs(1));
        assert_eq!(settings.response, Duration::from_secs(2));
        assert_eq!(settings.domain.as_deref(), Some("hub"));
        assert_eq!((settings.storage, settings.replicas), (Storage::Memory, 3));
        assert_eq!(settings.common.tolerated_skew, Duration::ZERO);
        assert_ne!(settings.common.defaults, shedlock_core::LockDefaults::new());
    }

    #[tokio::test]
    async fn what_is_wrong_is_said_without_the_url() {
        for (url, says) in [
            ("ann:secret@host", "write it like"),
            ("ws://ann:secret@host", "write nats://"),
            ("nats://ann:secret@host/locks", "option \"bucket\""),
            ("nats://ann:secret@host:port", "write it like"),
            ("nats://ann:secret@host?nkey=a", "more than once"),
            ("nats://ann:secret@host?colour=blue", "unknown option"),
            ("nats://ann:secret@host?timeout_ms=5", "unknown option"),
            ("nats://ann:secret@host?storage=tape", "file or memory"),
            ("nats://ann:secret@host?sync_always=often", "true or false"),
            ("nats://ann:secret@host?replicas=many", "a number"),
            ("nats://ann:secret@host?response_timeout=0s", "response_"),
            ("nats://ann:secret@host?tls=perhaps", "true or false"),
            ("nats://ann:secret@host?tls_cert=a", "need each other"),
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
