//! A provider from a URL.

use std::path::PathBuf;
use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::sentinel::{
    SentinelClient, SentinelClientBuilder as SentinelBuilder, SentinelServerType,
};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion,
    RedisConnectionInfo, RedisResult, TlsMode,
};
use shedlock_core::warn_unverified;
use shedlock_provider::{
    FromUrl, Host, Result, StoreUrl, TlsOptions, check_crypto_choice, configuration, invalid,
    maybe, refuse_cut_password,
};

use crate::RedisProvider;
use crate::confirm::WAIT;
use crate::connections::{Connections, SOCKET, Scheme, Source, TIMEOUT};
use crate::store::{Builder, RedisStore};
use crate::tls::{CRATE, Tls};

/// The default ports of servers and of sentinels.
const PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// The client's own suffix of a URL that turns off the verification of certificates.
const INSECURE: &str = "#insecure";

/// Schemes of the clients of Valkey, and what they mean.
const ALIASES: [(&str, &str); 2] = [("valkey", "redis"), ("valkeys", "rediss")];

const PROTOCOLS: [(&str, ProtocolVersion); 2] = [
    ("resp2", ProtocolVersion::RESP2),
    ("resp3", ProtocolVersion::RESP3),
];

impl FromUrl for RedisStore {
    const NAME: &'static str = "redis";

    type Store = Self;

    fn address(_: &Self, url: &str) -> Option<String> {
        of_socket(url).ok()??;
        let place = url.split('?').next().unwrap_or_default();
        let path = place.splitn(3, '/').nth(2)?;
        Some(path[path.find('/')?..].to_owned())
    }

    async fn from_url(url: &str) -> Result<RedisProvider> {
        for encrypted in ["rediss", "valkeys"] {
            check_crypto_choice(url, encrypted, CRATE)?;
        }
        read(url)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Sentinels,
    Cluster,
}

impl Kind {
    fn of(scheme: &str) -> Result<Self> {
        match &*scheme.replacen("rediss", "redis", 1) {
            "redis" => Ok(Self::One),
            "redis-sentinel" => Ok(Self::Sentinels),
            "redis-cluster" => Ok(Self::Cluster),
            _ => Err(invalid(format!("{scheme:?} is not a Redis scheme")).advise(
                "use redis://, redis-sentinel:// or redis-cluster://, or the same with rediss for \
                 TLS",
            )),
        }
    }

    /// The primary's name and the number of the database, from the URL's path.
    fn place(self, url: &StoreUrl) -> (&str, Result<u32>) {
        let (primary, database) = match self {
            Self::Sentinels => url.path.split_once('/').unwrap_or((&url.path, "")),
            Self::One | Self::Cluster => ("", &*url.path),
        };
        let wrong = |what, how| invalid(what).advise(how);
        let database = match self {
            Self::One if url.hosts.len() > 1 => Err(wrong(
                "the URL lists several hosts",
                "use redis-sentinel:// for sentinels, redis-cluster:// for a cluster",
            )),
            Self::Sentinels if primary.is_empty() => Err(wrong(
                "the URL does not name the primary that the sentinels watch",
                "write it after the hosts, like redis-sentinel://host1,host2,host3/mymaster/0",
            )),
            Self::Cluster if !matches!(database, "" | "0") => {
                Err(wrong("a cluster has no numbered databases", "remove it"))
            }
            _ if database.is_empty() => Ok(0),
            _ => database.parse().map_err(|_| match self {
                Self::Sentinels => wrong(
                    "the URL's path must have one database number after the primary's name",
                    "write it like redis-sentinel://host1,host2,host3/mymaster/0",
                ),
                Self::One | Self::Cluster => wrong(
                    "the URL's path must be one database number",
                    "write it like redis://host/0",
                ),
            }),
        };
        (primary, database)
    }
}

struct Address {
    kind: Kind,
    hosts: Vec<Host>,
    /// In place of the host.
    socket: Option<PathBuf>,
    tls: Option<TlsMode>,
    connect: Duration,
    response: Duration,
    /// For the servers that have the keys.
    login: RedisConnectionInfo,
    /// The primary's name at the sentinels; then the sentinels' own credentials.
    primary: String,
    sentinel_username: Option<String>,
    sentinel_password: Option<String>,
}

/// The schemes of a Unix socket: of the client, and of other clients.
const SOCKETS: [&str; 2] = [SOCKET, "redis+unix"];

/// A URL of a Unix socket, like `unix://user:password@/run/redis.sock?db=1`, as that of a server with this path.
fn of_socket(text: &str) -> Result<Option<String>> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    if !SOCKETS.iter().any(|it| scheme.eq_ignore_ascii_case(it)) {
        return Ok(None);
    }
    refuse_cut_password(text)?;
    let place = rest.split('?').next().unwrap_or_default();
    let (login, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let is_absolute = login.is_empty() || login.ends_with('@');
    match is_absolute && !path.trim_matches('/').is_empty() {
        true => Ok(Some(format!(
            "redis://{login}localhost{}",
            &rest[login.len()..]
        ))),
        false => Err(
            invalid("cannot read the store's URL: it has no absolute path of a socket")
                .advise("write it like unix:///run/redis/redis.sock?db=0"),
        ),
    }
}

pub(crate) fn read(text: &str) -> Result<RedisProvider> {
    match of_socket(text)? {
        Some(url) => read_from(&url, true),
        None => read_from(text, false),
    }
}

fn read_from(text: &str, is_socket: bool) -> Result<RedisProvider> {
    let (place, mode) = match text.strip_suffix(INSECURE) {
        Some(place) => (place, TlsMode::Insecure),
        None => (text, TlsMode::Secure),
    };
    let mut url = StoreUrl::parse(place, "redis://user:password@host:6379/0?option=value")?;
    if let Some((_, scheme)) = ALIASES.iter().find(|(alias, _)| url.scheme == *alias) {
        url.scheme = (*scheme).to_owned();
    }
    let socket = is_socket.then(|| PathBuf::from("/").join(std::mem::take(&mut url.path)));
    let address = Address::take(&mut url, mode, socket)?;
    let mut options = url.options;
    let encrypted = url.scheme.replacen("redis", "rediss", 1);
    let tls = TlsOptions::take(&mut options, address.tls.is_none().then_some(&encrypted))?;
    let defaults = options.defaults()?;
    let (environment, key_prefix) = (options.text("environment")?, options.text("key_prefix")?);
    let wait_replicas = options.number("wait_replicas")?;
    let wait_timeout = options.duration("wait_timeout")?;
    let server_skew = options.duration("server_skew")?.unwrap_or_default();
    options.finish()?;
    if wait_replicas.is_some() && wait_timeout.unwrap_or(WAIT) >= address.response {
        return Err(invalid(
            "the option \"wait_timeout\" in the URL must be shorter than \"response_timeout\"",
        ));
    }
    let builder = RedisProvider::builder(address.connections(&tls)?);
    let builder = maybe(builder, environment, Builder::environment);
    let builder = Builder {
        wait_replicas,
        wait_timeout,
        ..maybe(builder, key_prefix, Builder::key_prefix)
    };
    builder.server_skew(server_skew).defaults(defaults).build()
}

impl Address {
    fn take(url: &mut StoreUrl, mode: TlsMode, socket: Option<PathBuf>) -> Result<Self> {
        let scheme = &url.scheme;
        let tls = scheme.starts_with("rediss").then_some(mode);
        let kind = Kind::of(scheme)?;
        let (primary, database) = kind.place(url);
        let primary = primary.to_owned();
        let options = &mut url.options;
        let database = match (&socket, database) {
            (Some(_), Ok(_)) => Ok(options.number::<u32>("db")?.unwrap_or(0)),
            (_, database) => database,
        };
        let protocol = options.choice("protocol", &PROTOCOLS)?;
        let login = RedisConnectionInfo::default()
            .set_db(database?.into())
            .set_protocol(protocol.unwrap_or_default());
        let login = maybe(login, url.user.as_ref(), RedisConnectionInfo::set_username);
        let login = maybe(
            login,
            url.password.as_ref(),
            RedisConnectionInfo::set_password,
        );
        let mut of_sentinels = |name| match kind {
            Kind::Sentinels => options.text(name),
            Kind::One | Kind::Cluster => Ok(None),
        };
        Ok(Self {
            kind,
            hosts: url.hosts.clone(),
            socket,
            tls,
            login,
            primary,
            sentinel_username: of_sentinels("sentinel_username")?,
            sentinel_password: of_sentinels("sentinel_password")?,
            connect: options.timeout("connect_timeout")?.unwrap_or(TIMEOUT),
            response: options.timeout("response_timeout")?.unwrap_or(TIMEOUT),
        })
    }

    fn connections(&self, tls: &TlsOptions) -> Result<Connections> {
        if self.tls != Some(TlsMode::Secure) && self.socket.is_none() {
            let hosts = self.hosts.iter().map(|host| &*host.name);
            warn_unverified("redis", hosts, "use rediss:// without #insecure");
        }
        let tls = self.tls.map(|mode| Tls::read(mode, tls)).transpose()?;
        let source = match self.kind {
            Kind::One => self.one(tls).map(Source::Server),
            Kind::Sentinels => self.sentinels(tls).map(Source::Sentinels),
            Kind::Cluster => self.cluster(tls).map(Source::Cluster),
        };
        let source = source.map_err(|error| {
            configuration("cannot use the certificate files that the URL names")
                .advise("check these files")
                .with_source(error)
        })?;
        let addresses = match self.kind {
            // The primary that they name comes after them.
            Kind::Sentinels => self.hosts.len() + 1,
            Kind::One | Kind::Cluster => 1,
        };
        let (connect, response) = (self.connect, self.response);
        let connections = Connections::new(source, addresses, connect, response);
        Ok(connections.with_scheme(self.scheme()).that_send_once())
    }

    fn scheme(&self) -> Scheme {
        let (plain, encrypted) = match self.kind {
            Kind::One if self.socket.is_some() => (SOCKET, "rediss"),
            Kind::One => ("redis", "rediss"),
            Kind::Sentinels => ("redis-sentinel", "rediss-sentinel"),
            Kind::Cluster => ("redis-cluster", "rediss-cluster"),
        };
        Scheme {
            plain,
            encrypted,
            is_encrypted: self.tls.is_some(),
        }
    }

    fn one(&self, tls: Option<Tls>) -> RedisResult<Client> {
        let info = self.info(&self.hosts[0])?;
        match tls {
            Some(tls) => tls.client(info),
            None => Client::open(info),
        }
    }

    fn cluster(&self, tls: Option<Tls>) -> RedisResult<ClusterClient> {
        let nodes: RedisResult<Vec<_>> = self.hosts.iter().map(|host| self.info(host)).collect();
        let builder = ClusterClient::builder(nodes?)
            .connection_timeout(self.connect)
            .response_timeout(self.response)
            .retries(0);
        maybe(builder, tls, |builder, tls| tls.of_cluster(builder)).build()
    }

    fn sentinels(&self, tls: Option<Tls>) -> RedisResult<SentinelClient> {
        let sentinels = self.hosts.iter();
        let sentinels = sentinels.map(|host| self.address(host, SENTINEL_PORT));
        let leads_to = SentinelServerType::Master;
        let (login, user) = (&self.login, self.sentinel_username.as_ref());
        let password = self.sentinel_password.as_ref();
        let it = SentinelBuilder::new(sentinels, &self.primary, leads_to)?
            .set_client_to_redis_db(login.db())
            .set_client_to_redis_protocol(login.protocol());
        let it = maybe(
            it,
            login.username(),
            SentinelBuilder::set_client_to_redis_username,
        );
        let it = maybe(
            it,
            login.password(),
            SentinelBuilder::set_client_to_redis_password,
        );
        let it = maybe(it, user, SentinelBuilder::set_client_to_sentinel_username);
        let it = maybe(
            it,
            password,
            SentinelBuilder::set_client_to_sentinel_password,
        );
        maybe(it, tls, |it, tls| tls.of_sentinels(it)).build()
    }

    fn info(&self, host: &Host) -> RedisResult<ConnectionInfo> {
        let info = self.address(host, PORT).into_connection_info()?;
        Ok(info.set_redis_settings(self.login.clone()))
    }

    fn address(&self, host: &Host, usual_port: u16) -> ConnectionAddr {
        if let Some(socket) = &self.socket {
            return ConnectionAddr::Unix(socket.clone());
        }
        let (host, port) = (host.name.clone(), host.port.unwrap_or(usual_port));
        match self.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(mode) => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: mode == TlsMode::Insecure,
                tls_params: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use shedlock_core::ErrorKind;

    use super::*;

    #[test]
    fn urls_with_and_without_options_are_read() {
        for url in [
            "redis://127.0.0.1",
            "redis://:secret@[::1]:7000/3?protocol=resp3",
            "redis://user:p%40ss@host/0?environment=prod&lock_at_most_for=10m",
            "rediss://host:6380?connect_timeout=1s&response_timeout=500ms&owner_prefix=blue",
            "rediss://host#insecure",
            "valkey://user:p%40ss@host:6380/1",
            "Valkeys://host#insecure",
            "unix:///run/redis.sock",
            "Unix://user:p%40ss@/run/a%20b.sock?db=3&environment=prod",
            "redis+unix://:pw@/run/redis.sock",
            "redis-sentinel://:pw@s1:26379,s2:26379/mymaster/0?environment=prod",
            "redis-sentinel://ann:p%40ss@s1,[::1]:7000,s3:7001/my%20master/3?environment=a",
            "redis-sentinel://s1/mymaster?sentinel_username=watch&sentinel_password=geheim",
            "rediss-sentinel://s1,s2,s3/mymaster?protocol=resp3",
            "redis://host?wait_replicas=1",
            "redis://host?wait_replicas=2&wait_timeout=500ms&server_skew=2s",
            "redis-cluster://user:p%40ss@h1:7000,[::1]:7001,h3?environment=prod",
            "rediss-cluster://h1?protocol=resp3&connect_timeout=1s",
        ] {
            let built = read(url);
            assert!(built.is_ok(), "{url}: {built:?}");
        }
    }

    #[test]
    fn errors_are_reported_without_the_url() {
        let long = "redis://u:secret@h?lock_at_most_for=soon";
        for (url, says) in [
            ("http://u:secret@h", "not a Redis scheme"),
            ("redis:secret", "cannot read"),
            ("unix://secret.sock", "no absolute path"),
            ("unix://u:secret@", "no absolute path"),
            ("unix:///run/secret@x", "%40"),
            ("unix:///run/a.sock?db=nine", "must be a number"),
            ("redis://h?db=1", "unknown option \"db\""),
            ("redis://u:secret@a,b/0", "several hosts"),
            ("redis-sentinel://u:secret@a,b", "does not name the primary"),
            (
                "redis-sentinel://u:secret@a/m/nine",
                "one database number after the primary's name; write it like \
                 redis-sentinel://host1,host2,host3/mymaster/0",
            ),
            (
                "redis-sentinel://u:secret@a/m/0/1",
                "one database number after",
            ),
            ("redis-sentinel://u:secret@a,,b/m", "cannot read"),
            ("redis-sentinel://u:secret@a:port/m", "cannot read"),
            ("redis-cluster://u:secret@a,b/1", "no numbered databases"),
            ("redis://u:secret@h?table=x", "unknown option \"table\""),
            (
                "redis://u:secret@h?environment=a&environment=b",
                "set twice",
            ),
            (long, "lock_at_most_for"),
            (
                "redis://u:secret@h/nine",
                "one database number; write it like redis://host/0",
            ),
            ("redis://u:secret@h/0/1", "one database number;"),
            ("redis://u:secret@h/-1", "one database number;"),
            ("redis://u:secret@h?protocol=4", "resp2 or resp3"),
            ("redis://u:secret@h?response_timeout=0s", "response_timeout"),
            ("redis://u:secret@h?tls_ca=/ca.pem", "rediss://"),
            (
                "redis-cluster://u:secret@h?tls_ca=/ca.pem",
                "rediss-cluster://",
            ),
            ("rediss://u:secret@h?tls_cert=/c.pem", "tls_key"),
            ("redis://u:secret@h?sentinel_password=x", "unknown option"),
            ("redis://u:secret@h?wait_replicas=all", "must be a number"),
            ("redis://u:secret@h?wait_timeout=1s", "is not set"),
            (
                "redis://u:secret@h?wait_replicas=1&wait_timeout=5s",
                "shorter",
            ),
        ] {
            let said = read(url).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput, "{url}: {said}");
            assert!(said.to_string().contains(says), "{url}: {said}");
            assert!(!said.to_string().contains("secret"), "{said}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_a_configuration_error() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "-----BEGIN CERTIFICATE-----\n").unwrap();
        for file in ["/no/such.pem", empty.to_str().unwrap()] {
            for scheme in ["rediss", "rediss-cluster", "rediss-sentinel"] {
                let url = format!("{scheme}://u:secret@h/0?tls_ca={file}");
                let url = url.replace("cluster://u:secret@h/0", "cluster://u:secret@h");
                let said = read(&url).unwrap_err();
                assert_eq!(said.kind(), ErrorKind::Configuration, "{url}: {said}");
            }
        }
    }

    /// The program chooses the library. If only one is built in, rustls chooses it when the client connects.
    #[test]
    fn a_url_installs_no_crypto_library_for_the_whole_process() {
        for url in ["rediss://h", "rediss-sentinel://h/m", "rediss-cluster://h"] {
            read(url).unwrap();
        }
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }
}
