//! MySQL and MariaDB.

use super::Address;
use anyhow::{Context as _, bail, ensure};
use std::io::Read;

/// The version of the MariaDB, or otherwise of the MySQL. It sends its greeting first, without a
/// password.
pub(crate) fn version(
    reply: &mut dyn Read,
    at: &Address<'_>,
    is_mariadb: bool,
) -> anyhow::Result<String> {
    let version = read(reply)?;
    ensure!(
        at.is_ours || version.contains("MariaDB") == is_mariadb,
        "the server there is {version}, not {}",
        if is_mariadb { "MariaDB" } else { "MySQL" }
    );
    Ok(version)
}

fn read(reply: &mut dyn Read) -> anyhow::Result<String> {
    let mut head = [0; 4];
    reply.read_exact(&mut head).context("no greeting")?;
    let length = u64::from(head[0]) | u64::from(head[1]) << 8 | u64::from(head[2]) << 16;
    let mut greeting = Vec::new();
    reply
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_greetings_identify_the_server() {
        let greeting = |body: &[u8]| {
            let said = [&[u8::try_from(body.len()).unwrap(), 0, 0, 0][..], body].concat();
            read(&mut &said[..])
        };
        assert_eq!(greeting(b"\x0a9.7.0\0rest").unwrap(), "9.7.0");
        let maria = greeting(b"\x0a5.5.5-10.11.11-MariaDB-0+deb12u1\0rest").unwrap();
        assert_eq!(maria, "10.11.11-MariaDB-0+deb12u1");
        let refused = greeting(b"\xff\x69\x04Host is blocked")
            .unwrap_err()
            .to_string();
        assert!(refused.contains("Host is blocked"), "{refused}");
    }
}
