//! Warnings about servers whose identity is not verified.

use std::net::IpAddr;

/// The target, in `tracing`, of warnings about the settings of a store or of its URL: what works, but not as its users may
/// expect. Such a warning is logged for each provider that is created; a program that is started again and again can
/// choose to repeat it less often. One about TLS has the target `shedlock::settings::tls`.
pub const SETTINGS: &str = "shedlock::settings";

/// Warns if one of these hosts is not this machine, once for each provider that is created. The
/// hosts are reached without TLS, or with a certificate that is not verified, so an attacker on the
/// network path can read credentials and change locks. `remedy` states what to write in the URL.
/// For providers.
pub fn warn_unverified<'a>(store: &str, hosts: impl IntoIterator<Item = &'a str>, remedy: &str) {
    if let Some(host) = first_remote(hosts) {
        tracing::warn!(
            target: "shedlock::settings::tls",
            store,
            host,
            "the server is not verified by TLS (to verify it, {remedy})"
        );
    }
}

/// Returns the first host that is not a name, an address or a socket of this machine.
fn first_remote<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    hosts.into_iter().find(|host| !is_this_machine(host))
}

/// Returns whether a host of a URL is this machine, by name, by address or by the path of a socket.
/// If so, there is no network path to attack. For providers.
pub fn is_this_machine(host: &str) -> bool {
    let name = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let is_local = match name.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
    };
    is_local || name.is_empty() || name.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_host_but_this_one_is_trusted_without_proof() {
        let local = [
            "localhost",
            "LOCALHOST.",
            "db.localhost",
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "/run/db.sock",
            "",
        ];
        assert_eq!(first_remote(local), None);
        for remote in [
            "db",
            "10.0.0.7",
            "[fe80::1]",
            "localhost.example",
            "127.0.0.1.example",
        ] {
            assert_eq!(first_remote(["localhost", remote]), Some(remote));
        }
    }
}
