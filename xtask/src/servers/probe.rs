//! Whether a server answers, and which version it reports: the minimum of each protocol.

use anyhow::{Context as _, bail};
use std::io::{Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// The version of the PostgreSQL (or a proxy in front of one) at this address.
///
/// Fails if it does not accept `user` without a password.
pub(crate) fn postgres(
    host: &str,
    port: u16,
    user: &str,
    database: &str,
) -> anyhow::Result<String> {
    let mut stream = connect(host, port)?;
    let mut hello = Vec::from(196_608_i32.to_be_bytes());
    for word in ["user", user, "database", database, ""] {
        hello.extend_from_slice(word.as_bytes());
        hello.push(0);
    }
    let length = i32::try_from(hello.len() + 4).context("the greeting is too long")?;
    stream
        .write_all(&[&length.to_be_bytes()[..], &hello].concat())
        .context("it closed the connection")?;
    postgres_version(&mut stream)
}

/// The version of the MySQL or MariaDB at this address. It sends its greeting first, without a
/// password.
pub(crate) fn mysql(host: &str, port: u16) -> anyhow::Result<String> {
    mysql_version(&mut connect(host, port)?)
}

/// Whether the server at this address is Valkey, not Redis, and its version.
pub(crate) fn redis(host: &str, port: u16) -> anyhow::Result<(bool, String)> {
    let mut stream = connect(host, port)?;
    stream
        .write_all(b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n")
        .context("it closed the connection")?;
    redis_version(&mut stream)
}

/// The reply of an HTTP server, including headers.
pub(crate) fn get(host: &str, port: u16, path: &str) -> anyhow::Result<String> {
    let mut stream = connect(host, port)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")
        .context("it closed the connection")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("no answer")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A connection with short timeouts.
pub(crate) fn connect(host: &str, port: u16) -> anyhow::Result<TcpStream> {
    let address = (host, port)
        .to_socket_addrs()
        .with_context(|| format!("{host} has no address"))?
        .next()
        .with_context(|| format!("{host} has no address"))?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)
        .with_context(|| format!("nothing answers at {address}"))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .context("a socket without a time-out")?;
    Ok(stream)
}

fn postgres_version(stream: &mut impl Read) -> anyhow::Result<String> {
    let mut version = None;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).context("no answer")?;
        let [kind, length @ ..] = head;
        let body = (i32::from_be_bytes(length) - 4)
            .try_into()
            .context("a malformed answer")?;
        let mut bytes = Vec::new();
        stream
            .take(body)
            .read_to_end(&mut bytes)
            .context("its answer is incomplete")?;
        match kind {
            b'R' if bytes != [0; 4] => bail!("it asks for a password"),
            b'S' => {
                let mut words = bytes.split(|byte| *byte == 0);
                if words.next() == Some(b"server_version") {
                    version = words
                        .next()
                        .map(|word| String::from_utf8_lossy(word).into_owned());
                }
            }
            b'E' => bail!("it says: {}", postgres_message(&bytes)),
            b'Z' => return version.context("it does not report its version"),
            _ => {}
        }
    }
}

/// The message among the fields of an error. A letter precedes each field.
fn postgres_message(fields: &[u8]) -> String {
    fields
        .split(|byte| *byte == 0)
        .find_map(|field| field.strip_prefix(b"M"))
        .map_or_else(String::new, |message| {
            String::from_utf8_lossy(message).into_owned()
        })
}

fn mysql_version(stream: &mut impl Read) -> anyhow::Result<String> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).context("no greeting")?;
    let length = u64::from(head[0]) | u64::from(head[1]) << 8 | u64::from(head[2]) << 16;
    let mut greeting = Vec::new();
    stream
        .take(length)
        .read_to_end(&mut greeting)
        .context("half a greeting")?;
    let Some((10, rest)) = greeting.split_first().map(|(first, rest)| (*first, rest)) else {
        bail!(
            "it refuses: {}",
            String::from_utf8_lossy(greeting.get(3..).unwrap_or_default())
        );
    };
    let version = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    let version = String::from_utf8_lossy(version);
    // MariaDB 10 reports itself as a replica of MySQL 5.5 before its real version.
    Ok(version
        .strip_prefix("5.5.5-")
        .unwrap_or(&version)
        .to_owned())
}

fn redis_version(stream: &mut impl Read) -> anyhow::Result<(bool, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("no answer")?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head);
    let Some(length) = head.strip_prefix('$') else {
        bail!("it says: {}", head.trim());
    };
    let length = length.trim().parse().context("a malformed answer")?;
    let mut info = String::new();
    stream
        .take(length)
        .read_to_string(&mut info)
        .context("its answer is incomplete")?;
    let value = |key: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
    };
    // Valkey reports the Redis version that it was forked from.
    let said = value("valkey_version").map(|version| (true, version.to_owned()));
    said.or_else(|| value("redis_version").map(|version| (false, version.to_owned())))
        .context("it does not report its version")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    #[test]
    fn postgres_is_ready_only_when_it_says_so() {
        let trusted = message(b'R', &[0; 4]);
        let version = message(b'S', b"server_version\x0015.3 (Debian 15.3-0)\0");
        let other = message(b'S', b"TimeZone\0UTC\0");
        let ready = message(b'Z', b"I");
        let said = [&trusted[..], &other, &version, &ready].concat();
        assert_eq!(
            postgres_version(&mut &said[..]).unwrap(),
            "15.3 (Debian 15.3-0)"
        );
        let cut = [&trusted[..], &version].concat();
        assert!(postgres_version(&mut &cut[..]).is_err());
    }

    #[test]
    fn postgres_refusals_are_reported() {
        let starting = message(
            b'E',
            b"SFATAL\0C57P03\0Mthe database system is starting up\0\0",
        );
        let said = postgres_version(&mut &starting[..])
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("the database system is starting up"),
            "{said}"
        );
        let asks = message(b'R', &10_i32.to_be_bytes());
        let said = postgres_version(&mut &asks[..]).unwrap_err().to_string();
        assert!(said.contains("password"), "{said}");
    }

    #[test]
    fn mysql_greetings_identify_the_server() {
        let greeting = |body: &[u8]| {
            let said = [&[u8::try_from(body.len()).unwrap(), 0, 0, 0][..], body].concat();
            mysql_version(&mut &said[..])
        };
        assert_eq!(greeting(b"\x0a9.7.0\0rest").unwrap(), "9.7.0");
        let maria = greeting(b"\x0a5.5.5-10.11.11-MariaDB-0+deb12u1\0rest").unwrap();
        assert_eq!(maria, "10.11.11-MariaDB-0+deb12u1");
        let refused = greeting(b"\xff\x69\x04Host is blocked")
            .unwrap_err()
            .to_string();
        assert!(refused.contains("Host is blocked"), "{refused}");
    }

    #[test]
    fn redis_and_valkey_are_distinguished() {
        let info = |body: &str| {
            let said = format!("${}\r\n{body}\r\n", body.len());
            redis_version(&mut said.as_bytes())
        };
        let redis = "# Server\r\nredis_version:7.0.15\r\n";
        assert_eq!(info(redis).unwrap(), (false, "7.0.15".to_owned()));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(info(valkey).unwrap(), (true, "8.1.1".to_owned()));
        let locked = redis_version(&mut &b"-NOAUTH Authentication required.\r\n"[..]);
        assert!(locked.unwrap_err().to_string().contains("NOAUTH"));
    }
}
