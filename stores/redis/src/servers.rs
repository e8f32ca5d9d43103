//! Which servers a URL names, and the way to them.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo as _, ProtocolVersion, RedisResult, TlsCertificates,
    TlsMode,
};
use shedlock_core::{Error, ErrorKind, warn_unverified};
use url::{Host, Url};

use crate::connections::Connections;
use crate::own::Source;

/// The ports of servers and of sentinels, unless said.
const PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// What stands in a URL before its options.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) kind: Kind,
    pub(crate) is_tls: bool,
    /// With the first host.
    pub(crate) url: Url,
    hosts: Vec<(String, Option<u16>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    One,
    Sentinels,
    Cluster,
}

/// What the client wants to know beyond the servers' addresses.
pub(crate) struct Ways {
    /// How long a connection may take to be made, and an answer to come.
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
    pub(crate) protocol: Option<ProtocolVersion>,
    pub(crate) tls: Option<TlsCertificates>,
    pub(crate) sentinel_username: Option<String>,
    pub(crate) sentinel_password: Option<String>,
}

impl Servers {
    /// Reads a URL; its options are left in it.
    ///
    /// # Errors
    /// `InvalidInput`; it never shows the URL, which may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| unreadable("no scheme"))?;
        let (kind, is_tls) = match &*scheme.to_ascii_lowercase() {
            "redis" => (Kind::One, false),
            "rediss" => (Kind::One, true),
            "redis-sentinel" => (Kind::Sentinels, false),
            "rediss-sentinel" => (Kind::Sentinels, true),
            "redis-cluster" => (Kind::Cluster, false),
            "rediss-cluster" => (Kind::Cluster, true),
            _ => {
                return Err(invalid(format!(
                    "{scheme:?} is no scheme of Redis: write redis://, redis-sentinel:// or \
                     redis-cluster://, or the same with rediss for TLS"
                )));
            }
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let hosts: Vec<&str> = hosts.split(',').collect();
        if kind == Kind::One && hosts.len() > 1 {
            return Err(invalid(
                "the URL names several hosts: write redis-sentinel:// before those of sentinels, \
                 redis-cluster:// before those of a cluster",
            ));
        }
        let scheme = if is_tls { "rediss" } else { "redis" };
        let read = |text: String| Url::parse(&text).map_err(|error| unreadable(&error.to_string()));
        let url = read(format!("{scheme}://{user}{}{rest}", hosts[0]))?;
        let hosts = hosts.iter().map(|host| {
            let url = read(format!("{scheme}://{host}"))?;
            let name = match url.host() {
                Some(Host::Ipv6(address)) => address.to_string(),
                Some(host) => host.to_string(),
                None => return Err(unreadable("a host is missing")),
            };
            Ok((name, url.port()))
        });
        let hosts = hosts.collect::<Result<_, Error>>()?;
        Ok(Self {
            kind,
            is_tls,
            url,
            hosts,
        })
    }

    /// The way to them; no I/O.
    ///
    /// # Errors
    /// `InvalidInput`, as above.
    pub(crate) fn connections(&self, ways: Ways) -> Result<Connections, Error> {
        let (connect, response) = (ways.connect, ways.response);
        // The client reads the word in the URL of one server.
        let is_insecure = self.url.fragment() == Some("insecure");
        if !self.is_tls || is_insecure {
            let hosts = self.hosts.iter().map(|(host, _)| &**host);
            warn_unverified("redis", hosts, "write rediss://, without #insecure");
        }
        let source = match self.kind {
            Kind::One => {
                let client = match ways.tls {
                    Some(certificates) => Client::build_with_tls(self.url.clone(), certificates),
                    None => Client::open(self.url.clone()),
                };
                client.map(Source::Server).map_err(unusable)?
            }
            Kind::Sentinels => {
                let (name, database) = self.primary()?;
                let client = self.sentinels(&name, database, ways).map_err(unusable)?;
                Source::Sentinels(client)
            }
            Kind::Cluster => {
                if !matches!(self.url.path(), "" | "/" | "/0") {
                    return Err(invalid("a cluster has no numbered databases: leave it out"));
                }
                let client = self.cluster(ways).map_err(unusable)?;
                let longest = connect.saturating_add(response);
                return Ok(Connections::own_cluster(client).with_longest_call(longest));
            }
        };
        let addresses = match self.kind {
            // The primary that they name comes after them.
            Kind::Sentinels => self.hosts.len() + 1,
            Kind::One | Kind::Cluster => 1,
        };
        Ok(Connections::own(source, addresses, connect, response))
    }

    fn cluster(&self, ways: Ways) -> RedisResult<ClusterClient> {
        let first = self.url.clone().into_connection_info()?;
        let nodes = self.addresses(PORT).map(|it| first.clone().set_addr(it));
        let mut builder = ClusterClient::builder(nodes)
            .connection_timeout(ways.connect)
            .response_timeout(ways.response);
        if let Some(protocol) = ways.protocol {
            builder = builder.use_protocol(protocol);
        }
        if let Some(certificates) = ways.tls {
            builder = builder.certs(certificates);
        }
        builder.build()
    }

    fn addresses(&self, unless_said: u16) -> impl Iterator<Item = ConnectionAddr> {
        self.hosts.iter().map(move |(host, port)| {
            let (host, port) = (host.clone(), port.unwrap_or(unless_said));
            if self.is_tls {
                ConnectionAddr::TcpTls {
                    host,
                    port,
                    insecure: false,
                    tls_params: None,
                }
            } else {
                ConnectionAddr::Tcp(host, port)
            }
        })
    }

    /// The name of the primary, and the number of its database.
    fn primary(&self) -> Result<(String, i64), Error> {
        let mut parts = self.url.path().trim_matches('/').split('/');
        let name = parts.next().map(decoded).transpose()?.unwrap_or_default();
        if name.is_empty() {
            return Err(invalid(
                "the URL does not name the primary that the sentinels watch: write it behind the \
                 hosts, like redis-sentinel://host1,host2,host3/mymaster/0",
            ));
        }
        match (parts.next().map(str::parse::<u32>), parts.next()) {
            (None, None) => Ok((name, 0)),
            (Some(Ok(number)), None) => Ok((name, number.into())),
            _ => Err(invalid(
                "behind the name of the primary stands what is no number of a database",
            )),
        }
    }

    fn sentinels(&self, name: &str, database: i64, ways: Ways) -> RedisResult<SentinelClient> {
        let hosts = self.addresses(SENTINEL_PORT);
        let mut builder = SentinelClientBuilder::new(hosts, name, SentinelServerType::Master)?
            .set_client_to_redis_db(database);
        let user = percent_decode_str(self.url.username()).decode_utf8_lossy();
        if !user.is_empty() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = self.url.password() {
            let password = percent_decode_str(password).decode_utf8_lossy();
            builder = builder.set_client_to_redis_password(password);
        }
        if self.is_tls {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        if let Some(protocol) = ways.protocol {
            builder = builder.set_client_to_redis_protocol(protocol);
        }
        if let Some(user) = ways.sentinel_username {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = ways.sentinel_password {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if let Some(certificates) = ways.tls {
            builder = builder
                .set_client_to_redis_certificates(certificates.clone())
                .set_client_to_sentinel_certificates(certificates);
        }
        builder.build()
    }
}

fn decoded(part: &str) -> Result<String, Error> {
    let text = percent_decode_str(part).decode_utf8();
    text.map(String::from)
        .map_err(|_| unreadable("what is escaped is no UTF-8"))
}

fn unreadable(why: &str) -> Error {
    invalid(format!(
        "the store's URL cannot be read ({why}): write it like \
         redis://user:password@host:6379/0?option=value"
    ))
}

fn unusable(error: redis::RedisError) -> Error {
    invalid("the client cannot use the store's URL; its reason is the source").with_source(error)
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with_store("redis")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways() -> Ways {
        Ways {
            connect: Duration::from_secs(1),
            response: Duration::from_secs(1),
            protocol: None,
            tls: None,
            sentinel_username: None,
            sentinel_password: None,
        }
    }

    #[test]
    fn sentinels_and_their_primary_are_read() {
        let url = "redis-sentinel://ann:p%40ss@s1,[::1]:7000,s3:7001/my%20master/3?environment=a";
        let servers = Servers::parse(url).unwrap();
        assert_eq!(servers.kind, Kind::Sentinels);
        let host = |host: &str, port| (host.to_owned(), port);
        let expected = [
            host("s1", None),
            host("::1", Some(7000)),
            host("s3", Some(7001)),
        ];
        assert_eq!(servers.hosts, expected);
        assert_eq!(servers.primary().unwrap(), ("my master".to_owned(), 3));
        assert!(servers.connections(ways()).is_ok());
    }

    #[test]
    fn what_names_no_server_is_refused_without_the_url() {
        for (url, says) in [
            ("http://u:secret@h", "no scheme of Redis"),
            ("redis:secret", "cannot be read"),
            ("redis://u:secret@a,b/0", "several hosts"),
            ("redis-sentinel://u:secret@a,b", "does not name the primary"),
            ("redis-sentinel://u:secret@a/m/nine", "no number"),
            ("redis-sentinel://u:secret@a,,b/m", "cannot be read"),
            ("redis-sentinel://u:secret@a:port/m", "cannot be read"),
            ("redis-cluster://u:secret@a,b/1", "no numbered databases"),
        ] {
            let said = Servers::parse(url).and_then(|it| it.connections(ways()).map(drop));
            let said = said.unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidInput);
            assert!(said.to_string().contains(says), "{url}: {said}");
            assert!(!said.to_string().contains("secret"), "{said}");
        }
    }
}
