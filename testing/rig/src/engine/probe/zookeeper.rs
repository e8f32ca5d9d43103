//! ZooKeeper.

use super::Address;
use anyhow::{Context as _, bail};
use std::io::Read;

/// Its version from the reply to `srvr`. It must serve.
pub(crate) fn version(reply: &mut dyn Read, _: &Address<'_>) -> anyhow::Result<String> {
    let mut said = String::new();
    reply.read_to_string(&mut said).context("no answer")?;
    of(&said)
}

fn of(said: &str) -> anyhow::Result<String> {
    // Debian's version string has more after the number.
    let version = said.strip_prefix("Zookeeper version: ");
    let version = version.and_then(|rest| rest.split([',', '-', '\n']).next());
    if let Some(version) = version {
        return Ok(version.to_owned());
    }
    if said.contains("whitelist") {
        return Ok("version not reported (srvr is not in its 4lw.commands.whitelist)".to_owned());
    }
    bail!("it says: {}", said.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zookeeper_that_does_not_serve_is_reported() {
        let up = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024\nMode: standalone\n";
        assert_eq!(of(up).unwrap(), "3.8.0");
        let mute = "srvr is not executed because it is not in the whitelist.\n";
        assert!(of(mute).unwrap().contains("not reported"));
        let starting = "This ZooKeeper instance is not currently serving requests\n";
        let said = of(starting).unwrap_err().to_string();
        assert!(said.contains("not currently serving"), "{said}");
    }
}
