//! Whether a server answers, and which version it reports: the minimum of each protocol.

pub(crate) mod mongodb;
pub(crate) mod mysql;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod zookeeper;

use anyhow::{Context as _, bail};
use std::io::{Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;
use url::Url;

/// How to query a server's version.
pub(crate) enum Probe {
    /// Sends what the first function returns, and reads the version from the reply.
    Tcp(
        fn(&Address<'_>) -> Vec<u8>,
        fn(&mut dyn Read, &Address<'_>) -> anyhow::Result<String>,
    ),
    /// Sends two requests.
    Http(Http),
}

/// How to query the version of an HTTP server.
pub(crate) struct Http {
    /// A path, and whether the reply reports that it serves.
    pub(crate) ready: (&'static str, fn(&str) -> bool),
    /// What is wrong otherwise.
    pub(crate) not_ready: &'static str,
    /// A path, and the key of the version in its reply.
    pub(crate) version: (&'static str, &'static str),
}

/// The address of a server.
pub(crate) struct Address<'a> {
    pub(crate) url: &'a Url,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// Whether we have started it.
    pub(crate) is_ours: bool,
}

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(3);

impl Probe {
    /// The version of the server at this address, which must serve.
    pub(crate) fn version(&self, at: &Address<'_>) -> anyhow::Result<String> {
        match self {
            Self::Tcp(question, version) => {
                let mut stream = connect(at)?;
                stream
                    .write_all(&question(at))
                    .context("it closed the connection")?;
                version(&mut stream, at)
            }
            Self::Http(http) => http.version(&|path| get(at, path)),
        }
    }
}

impl Http {
    fn version(&self, get: &dyn Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
        let (path, is_ready) = self.ready;
        let reply = get(path)?;
        if !is_ready(&reply) {
            bail!("{}: {reply}", self.not_ready);
        }
        let (path, key) = self.version;
        let reply = get(path)?;
        if reply.starts_with("HTTP/1.0 403") {
            return Ok("version not reported without a token".to_owned());
        }
        after_key(&reply, key)
    }
}

/// The string after this key of a JSON object.
fn after_key(json: &str, key: &str) -> anyhow::Result<String> {
    let value = json.split_once(&format!("\"{key}\":\""));
    let value = value.and_then(|(_, rest)| rest.split('"').next());
    Ok(value.context("it does not report its version")?.to_owned())
}

/// The reply of an HTTP server, including headers.
fn get(at: &Address<'_>, path: &str) -> anyhow::Result<String> {
    let mut stream = connect(at)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", at.host)
        .context("it closed the connection")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("no answer")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A connection with short timeouts.
fn connect(at: &Address<'_>) -> anyhow::Result<TcpStream> {
    let no_address = || format!("{} has no address", at.host);
    let mut addresses = (at.host, at.port)
        .to_socket_addrs()
        .with_context(no_address)?;
    let address = addresses.next().with_context(no_address)?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)
        .with_context(|| format!("nothing answers at {address}"))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .context("a socket without a time-out")?;
    Ok(stream)
}

/// The bytes up to and including `end`.
fn line(reply: &mut dyn Read, end: &[u8]) -> anyhow::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(end) {
        let mut byte = [0];
        reply.read_exact(&mut byte).context("no answer")?;
        line.extend(byte);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Kind;

    fn http(name: &str) -> &'static Http {
        match &Kind::of(name).unwrap().0.probe {
            Probe::Http(http) => http,
            Probe::Tcp(..) => panic!("{name} is not queried over HTTP"),
        }
    }

    #[test]
    fn etcd_reports_the_servers_version_not_the_clusters() {
        let said = "HTTP/1.0 200 OK\r\n\r\n{\"etcdserver\":\"3.4.23\",\"etcdcluster\":\"3.4.0\"}";
        let healthy = |health: &'static str, version: &'static str| {
            http("etcd")
                .version(&|path| Ok(if path == "/health" { health } else { version }.to_owned()))
        };
        let up = "{\"health\":\"true\"}";
        assert_eq!(healthy(up, said).unwrap(), "3.4.23");
        assert!(healthy(up, "HTTP/1.0 404 Not Found\r\n\r\n").is_err());
        let said = healthy("{\"health\":\"false\"}", said).unwrap_err();
        assert!(said.to_string().contains("not healthy"), "{said}");
    }

    #[test]
    fn consul_needs_a_leader_and_may_omit_its_version() {
        let version = |leader: &'static str, own: &'static str| {
            http("consul").version(&|path| {
                Ok(if path.ends_with("leader") {
                    leader
                } else {
                    own
                }
                .to_owned())
            })
        };
        let leader = "HTTP/1.0 200 OK\r\n\r\n\"127.0.0.1:8300\"";
        let said = "HTTP/1.0 200 OK\r\n\r\n{\"Config\":{\"Server\":true,\"Version\":\"1.8.7\"}}";
        assert_eq!(version(leader, said).unwrap(), "1.8.7");
        let locked = "HTTP/1.0 403 Forbidden\r\n\r\nPermission denied";
        assert!(version(leader, locked).unwrap().contains("not reported"));
        assert!(version(leader, "HTTP/1.0 200 OK\r\n\r\n<html>").is_err());
        for none in ["HTTP/1.0 200 OK\r\n\r\n\"\"", "HTTP/1.0 500 Error\r\n\r\n"] {
            assert!(version(none, said).is_err(), "{none}");
        }
    }
}
