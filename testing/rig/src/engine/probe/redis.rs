//! Redis and Valkey.

use super::{Address, line};
use anyhow::{Context as _, bail, ensure};
use std::io::Read;

/// The request.
pub(crate) fn info(_: &Address<'_>) -> Vec<u8> {
    b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n".to_vec()
}

/// The version of the Valkey, or otherwise of the Redis.
pub(crate) fn version(
    reply: &mut dyn Read,
    at: &Address<'_>,
    is_valkey: bool,
) -> anyhow::Result<String> {
    let (found, version) = read(reply)?;
    ensure!(
        at.is_ours || found == is_valkey,
        "Redis was expected and Valkey found, or the reverse: version {version}"
    );
    Ok(version)
}

/// Whether it is Valkey, and its version.
fn read(reply: &mut dyn Read) -> anyhow::Result<(bool, String)> {
    let head = line(reply, b"\r\n")?;
    let Some(length) = head.strip_prefix('$') else {
        bail!("it says: {}", head.trim());
    };
    let length = length.trim().parse().context("a malformed answer")?;
    let mut info = String::new();
    reply
        .take(length)
        .read_to_string(&mut info)
        .context("its answer is incomplete")?;
    let value = |key: &str| {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::to_owned))
    };
    // Valkey reports the Redis version that it was forked from.
    let valkey = value("valkey_version").map(|version| (true, version));
    valkey
        .or_else(|| value("redis_version").map(|version| (false, version)))
        .context("it does not report its version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_and_valkey_are_distinguished() {
        let info = |body: &str| {
            let said = format!("${}\r\n{body}\r\n", body.len());
            read(&mut said.as_bytes())
        };
        let redis = "# Server\r\nredis_version:7.0.15\r\n";
        assert_eq!(info(redis).unwrap(), (false, "7.0.15".to_owned()));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(info(valkey).unwrap(), (true, "8.1.1".to_owned()));
        let locked = read(&mut &b"-NOAUTH Authentication required.\r\n"[..]);
        assert!(locked.unwrap_err().to_string().contains("NOAUTH"));
    }
}
