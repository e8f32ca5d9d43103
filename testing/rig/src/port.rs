//! Free loopback ports for servers.

use anyhow::{Context as _, ensure};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Below the range that systems use for the ports of outgoing connections (32768 and up on Linux,
/// 49152 elsewhere). A server that a test stops must find its port free when it restarts, however
/// many connections were made in the meantime.
const RANGE: Range<u16> = 10_000..32_000;

/// Ports that this process has handed out: a server that is about to start does not hold its port
/// yet.
static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A port on which no program listens, and that no other call has returned.
pub fn free() -> anyhow::Result<u16> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    let size = u64::from(RANGE.end - RANGE.start);
    let chance = u16::try_from(RandomState::new().hash_one(given.len()) % size)
        .context("the range of ports is wider than ports are")?;
    let port = (RANGE.start + chance..RANGE.end)
        .chain(RANGE.start..RANGE.start + chance)
        .find(|port| !given.contains(port) && is_free(*port));
    ensure!(
        port.is_some(),
        "no port from {} to {} is free on 127.0.0.1",
        RANGE.start,
        RANGE.end
    );
    given.extend(port);
    port.context("checked above")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_and_can_be_bound() {
        let ports: HashSet<u16> = (0..50).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| RANGE.contains(port)));
        // Servers of other tests start meanwhile.
        let can_bind = |port: &&u16| TcpListener::bind((Ipv4Addr::LOCALHOST, **port)).is_ok();
        assert!(ports.iter().filter(can_bind).count() > 40);
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }
}
